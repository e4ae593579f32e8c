"""The separation of two boxes along each axis that may separate them (Gottschalk, Lin, Manocha, OBBTree, 1996).

Boxes are apart if they are separated along one of fifteen axes: the normals of the faces of both, and the directions
perpendicular to an edge of each. The greatest separation is a lower bound of their distance, and equal to it where they
touch. Where they overlap, it is minus the least translation that parts them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from ..spatial.small import cross, dot, mtv, mv, scaled, transpose
from .placed import Touch, between, sign, slack
from .segments import nearest

#: edges count as parallel if the sine of the angle between them is less than this
PARALLEL_EDGES = 1e-4


class Boxes(NamedTuple):
    """Two boxes seen from the first. **Fields:** `axes` (3, 3, ...), the second's in the first's; `offset` (3, ...), of
    the second's center from the first's; `first` and `second` (3, ...), half extents."""

    axes: Array
    offset: Array
    first: Array
    second: Array

    def exchanged(self) -> "Boxes":
        """Return the same boxes, the second one first."""
        return Boxes(transpose(self.axes), -mtv(self.axes, self.offset), self.second, self.first)

    def scale(self) -> Array:
        """Return the sum of all half extents; the centers of touching boxes are not further apart."""
        return sum(self.first[k] + self.second[k] for k in range(3))

    def tie(self) -> Array:
        """Return the difference up to which two separations count as equal: a small part of the smaller box, but more
        than rounding."""
        eps = float(jnp.finfo(self.offset.dtype).eps)
        small = jnp.minimum(*(x[0] + x[1] + x[2] for x in (self.first, self.second)))
        return slack(self.offset) * small + 8 * eps * self.scale()


class Edges(NamedTuple):
    """Two edges, one of each box. **Fields:** `separation` (...); `score` (...), the separation minus its rounding
    error; `first` and `second` (3, ...), 1 at the axis that the edge follows and else 0."""

    separation: Array
    score: Array
    first: Array
    second: Array


def chosen(condition: Array, x, y):
    """Return x where the condition (...) holds, else y: arrays or tuples of arrays, whose last axes are the lanes
    (elements of the batch)."""
    return jax.tree.map(lambda u, v: jnp.where(condition[(None,) * (u.ndim - condition.ndim)], u, v), x, y)


def faces(boxes: Boxes) -> Array:
    """Return the separation along the normals of the first box's three faces (3, ...)."""
    return abs(boxes.offset) - boxes.first - mv(abs(boxes.axes), boxes.second)


def edges(boxes: Boxes) -> Edges:
    """Return the pair of edges with the greatest score. The nearer two edges are to parallel, the more rounding turns
    the direction perpendicular to both, and the more its error reduces their score."""
    C, d, s, t = boxes
    A = abs(C)
    noise = 32 * float(jnp.finfo(d.dtype).eps) * boxes.scale()
    found = None
    for i in range(3):
        k, l = (i + 1) % 3, (i + 2) % 3
        for j in range(3):
            p, q = (j + 1) % 3, (j + 2) % 3
            square = C[k, j] * C[k, j] + C[l, j] * C[l, j]
            side = square < PARALLEL_EDGES**2
            inverse = 1 / jnp.sqrt(jnp.where(side, 1, square))
            reach = s[k] * A[l, j] + s[l] * A[k, j] + t[p] * A[i, q] + t[q] * A[i, p]
            separation = (abs(d[l] * C[k, j] - d[k] * C[l, j]) - reach) * inverse
            score = jnp.where(side, -boxes.scale(), separation - noise * inverse)
            new = Edges(separation, score, _axis(i, d), _axis(j, d))
            found = new if found is None else chosen(score > found.score, new, found)
    return found


def _axis(k: int, like: Array) -> Array:
    one = np.zeros((3,) + (1,) * (like.ndim - 1))
    one[k] = 1
    return jnp.asarray(one, like.dtype)


def between_edges(boxes: Boxes, pair: Edges) -> Touch:
    """Return the place between two edges, seen from the first box. Its gap is the separation along the direction
    perpendicular to both. But if the boxes are apart and the points nearest to each other are not inside of both edges,
    the gap is the distance of the edges, which is that of the boxes then but in rare cases."""
    u, w = pair.first, mv(boxes.axes, pair.second)
    normal = cross(u, w)
    square = dot(normal, normal)
    side = square < PARALLEL_EDGES**2
    square = jnp.where(side, 1, square)
    normal = jnp.where(side[None], u, normal) / jnp.sqrt(square)[None]
    normal = normal * -sign(dot(normal, boxes.offset))[None]
    x = -sign(normal) * boxes.first * (1 - u)
    arm = sign(mtv(boxes.axes, normal)) * boxes.second * (1 - pair.second)
    y = boxes.offset + mv(boxes.axes, arm)
    r, both = x - y, dot(u, w)
    on_u, on_w = dot(u, r), dot(w, r)
    along = (both * on_w - on_u) / square
    inner = Touch(pair.separation, x + u * along[None] - 0.5 * pair.separation[None] * normal, normal)

    half_u, half_w = dot(pair.first, boxes.first), dot(pair.second, boxes.second)
    s, t = nearest(along, (-half_u, half_u), half_w, both, on_u, on_w)
    ends = between(x + scaled(s, u), y + scaled(t, w), 0, 0, normal)
    beyond = (abs(along) > half_u) | (abs(on_w + both * along) > half_w)
    return chosen(beyond & (pair.separation > boxes.tie()), ends, inner)
