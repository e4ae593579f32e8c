"""The contact points of spheres and capsules with a box, from the distance of a point to a box."""

import jax.numpy as jnp
from jax import Array

from ..spatial.small import dot, mtv, mv, scaled, summed
from .placed import COINCIDENT, PARALLEL, Placed, Touch, sign


def ball(center: Array, radius, box: Placed) -> Touch:
    """Return where a ball touches the box. If its center is inside, its depth is the distance to the nearest face, and
    the normal is that face's."""
    x = mtv(box.R, center - box.p)
    side = sign(x)
    beyond = side * x - box.size
    outside = jnp.maximum(beyond, 0)
    square = dot(outside, outside)
    inside = square < COINCIDENT**2
    length = jnp.sqrt(jnp.where(inside, 1, square))
    deepest = jnp.maximum(jnp.maximum(beyond[0], beyond[1]), beyond[2])
    distance = jnp.where(inside, deepest, length)
    x_face = beyond[0] == deepest
    y_face = ~x_face & (beyond[1] == deepest)
    face = jnp.stack([x_face, y_face, ~(x_face | y_face)]).astype(x.dtype)
    normal = mv(box.R, side * jnp.where(inside[None], face, scaled(1 / length, outside)))
    return Touch(distance - radius, center - scaled(0.5 * (distance + radius), normal), normal)


def sphere(a: Placed, b: Placed) -> list[Touch]:
    """Return the nearest points."""
    return [ball(a.p, a.size[0], b)]


def capsule(a: Placed, b: Placed) -> list[Touch]:
    """Return, for the upper and the lower half of the capsule, the points nearest to the box.

    The lesser gap is the distance, as long as the capsule's axis is outside the box. If the capsule is parallel to a
    face, the slots are the ends of the part over that face. If the axis enters the box, they are the ends of the part
    inside, each with the distance to its nearest face as depth.
    """
    axis, half = a.R[:, 2], a.size[1]
    low, high = _nearest(mtv(b.R, a.p - b.p), mtv(b.R, axis), half, b.size)
    wide = high - low > 1e-3 * half
    ends = jnp.where(wide, high, jnp.maximum(high, 0)), jnp.where(wide, low, jnp.minimum(low, 0))
    return [ball(a.p + scaled(s, axis), a.size[0], b) for s in ends]


def _nearest(p: Array, u: Array, half: Array, size: Array) -> tuple[Array, Array]:
    """Return the least and the greatest s in [−half, half] for which p + s u is nearest to the box of half extents
    `size` around the origin.

    The slope of half the squared distance, Σ u_i (x_i − clip(x_i)), never falls, and is linear between the points where
    the line crosses the planes of faces. So its zeros lie between two neighbouring crossings.
    """
    u = jnp.where(abs(u) < PARALLEL, 0, u)
    still = u == 0
    inverse = jnp.where(still, 0, 1 / jnp.where(still, 1, u))
    crossings = [(side * size[i] - p[i]) * inverse[i] for i in range(3) for side in (-1, 1)]
    places = [-half, half, *(jnp.clip(s, -half, half) for s in crossings)]

    def slope(s):
        x = p + scaled(s, u)
        return dot(u, x - jnp.clip(x, -size, size))

    slopes = [slope(s) for s in places]
    noise = 16 * jnp.finfo(p.dtype).eps * (half + summed(size))
    return _crossing(places, slopes, -noise, False), _crossing(places, slopes, noise, True)


def _crossing(places: list[Array], slopes: list[Array], level: Array, last: bool) -> Array:
    """Return the first, or the `last`, point where a rising piecewise linear function, given by its `slopes` at
    `places`, crosses a level. The first two places are the ends of the range."""
    (low, high), (at_low, at_high) = places[:2], slopes[:2]
    below = (lambda g: g <= level) if last else (lambda g: g < level)
    start, stop = below(at_low), below(at_high)
    for s, g in zip(places[2:], slopes[2:], strict=True):
        under = below(g)
        up, down = under & (s > low), ~under & (s < high)
        low, at_low = jnp.where(up, s, low), jnp.where(up, g, at_low)
        high, at_high = jnp.where(down, s, high), jnp.where(down, g, at_high)
    between = start & ~stop
    share = (level - at_low) / jnp.where(between, at_high - at_low, 1)
    found = low + jnp.where(between, share, 0) * (high - low)
    return jnp.where(start, jnp.where(stop, places[1], found), places[0])
