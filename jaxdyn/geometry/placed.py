"""The types of contact geometry, a placed shape and a touching point of two, and vectors between points.

Arrays are component-first as in `spatial/small.py`: trailing axes are lanes (elements of the batch) and broadcast.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..spatial.small import dot, scaled

#: points nearer to each other than this, in m, coincide: there is no direction between them
COINCIDENT = 1e-12
#: directions that differ by less than this, in rad, count as parallel: the difference is rounding noise
PARALLEL = 3e-5


class Placed(NamedTuple):
    """A shape in the world. **Fields:** `R` (3, 3, ...) and `p` (3, ...), its pose; `size`, its numbers in SI units:
    (3, ...), or the vertices (n, 3, ...) of a mesh, or heights (rows, cols, ...) and half extents (2, ...) of a height
    field."""

    R: Float[Array, "3 3 ..."]
    p: Float[Array, "3 ..."]
    size: Any


class Touch(NamedTuple):
    """A place where two shapes a and b may touch.

    **Fields:** `gap` (...), in m, negative where they overlap; `point` (3, ...) in the world, midway between the two
    points whose distance is the gap; `normal` (3, ...), a unit vector from b towards a. As bodies move, the rate of the
    gap is `normal` · (velocity of a at `point` − velocity of b at `point`).
    """

    gap: Float[Array, "..."]
    point: Float[Array, "3 ..."]
    normal: Float[Array, "3 ..."]


def reversed_touch(touch: Touch) -> Touch:
    """Return the same place with a and b exchanged."""
    return Touch(touch.gap, touch.point, -touch.normal)


def between(x: Array, y: Array, radius_x, radius_y, otherwise: Array) -> Touch:
    """Return the `Touch` of two balls around the points x, of shape a, and y, of shape b. Where x and y coincide the
    normal is `otherwise`, a unit vector."""
    distance, normal = away(x - y, otherwise)
    reach = 0.5 * (distance + radius_y - radius_x)
    return Touch(distance - radius_x - radius_y, y + scaled(reach, normal), normal)


def away(v: Array, otherwise: Array) -> tuple[Array, Array]:
    """Return the length and the direction of v (3, ...). Where v is zero, the direction is `otherwise` and the length
    is the component along it, so that derivatives are finite and belong to that direction."""
    square = dot(v, v)
    nothing = square < COINCIDENT**2
    length = jnp.sqrt(jnp.where(nothing, 1, square))
    direction = jnp.where(nothing[None], otherwise, scaled(1 / length, v))
    return jnp.where(nothing, dot(v, otherwise), length), direction


def upwards(like: Array) -> Array:
    """Return the world's z axis (3, 1, ...), with as many lane axes as `like` (3, ...) has."""
    return jnp.array([0, 0, 1], like.dtype).reshape((3,) + (1,) * (like.ndim - 1))


def slack(x: Array) -> float:
    """Return the relative difference up to which lengths of the precision of x count as equal: a choice between two of
    them must not turn on rounding."""
    return 0.25 * float(jnp.finfo(x.dtype).eps) ** 0.5


def sign(x: Array) -> Array:
    """Return −1 where x is negative, else 1."""
    one = jnp.ones((), x.dtype)
    return jnp.where(x < 0, -one, one)
