"""The overlap of two facing faces of boxes: four corners of their common polygon.

A face of the first box, the *base*, is the rectangle |x| ≤ l0, |y| ≤ l1 at z = l2. The face of the second box that
faces it is projected onto it. Corners of the common polygon are corners of the base under the other face, and ends of
the other face's edges clipped at the base's.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from .placed import sign
from .separation import Boxes, chosen

#: a corner of one face is over the other if it is inside by this share of the size, or less than that outside
INSIDE = 1e-5
#: a corner counts as the lowest even if it is higher, by less than 1/STEEP of how much further out it is
STEEP = 1e5
#: share by which being further ahead counts among corners that are nearly as far to the side
SKEW = 1e-3
#: an edge lies almost flat if its slope is less than this times the square root of rounding
LYING = 16
#: slopes below this cut no edge
FLAT = 1e-9


class Corner(NamedTuple):
    """A point of the second box's face. **Fields:** `x`, `y` (...), its position over the base; `z` (...), its height
    above the base, negative where the boxes overlap."""

    x: Array
    y: Array
    z: Array


class Face(NamedTuple):
    """The second box's face that faces the base. **Fields:** `center`, a `Corner`; `axes` (3, 2, ...), the directions
    of its edges; `half` (2, ...), their half lengths."""

    center: Corner
    axes: Array
    half: Array

    def at(self, s: Array, t: Array) -> Corner:
        """Return the point with the coordinates s and t in the face, in m."""
        c, A = self.center, self.axes
        return Corner(*(c[k] + s * A[k, 0] + t * A[k, 1] for k in range(3)))

    def lies(self, tie: Array) -> Array:
        """Return whether the face is parallel to the base, to heights of `tie`."""
        return abs(self.axes[2, 0]) * self.half[0] + abs(self.axes[2, 1]) * self.half[1] < tie

    def lowest(self) -> Corner:
        """Return the lowest corner."""
        return self.at(-sign(self.axes[2, 0]) * self.half[0], -sign(self.axes[2, 1]) * self.half[1])

    def lowest_near(self, base: Array) -> Corner:
        """Return the lowest corner or, along edges that lie almost flat, the point nearest to the base: one end of such
        an edge may be far from the base, and rounding may decide which one is lower."""
        A, half = self.axes, self.half
        flat = abs(A[2]) < LYING * float(jnp.finfo(A.dtype).eps) ** 0.5
        place = [jnp.where(flat[k], 0, -sign(A[2, k]) * half[k]) for k in range(2)]
        for k in (0, 1, 0, 1):
            x, y, _ = self.at(*place)
            away = [jnp.clip(p, -h, h) - p for p, h in zip((x, y), base, strict=False)]
            nearer = place[k] + (A[0, k] * away[0] + A[1, k] * away[1]) / (A[0, k] * A[0, k] + A[1, k] * A[1, k])
            place[k] = jnp.where(flat[k], jnp.clip(nearer, -half[k], half[k]), place[k])
        # the rate of the gap is that of a point of the body
        return self.at(*place)._replace(z=self.at(*jax.lax.stop_gradient(place)).z)


class Common(NamedTuple):
    """Corners of the common polygon. **Fields:** `corners`, four of them; `exist`, for each an array of bools (...),
    True if there is such a corner and it differs from the earlier ones."""

    corners: list[Corner]
    exist: list[Array]


def rolled(x: Array, is_first: Array, is_second: Array) -> Array:
    """Return x (3, ...) with its entries rotated cyclically, such that the marked entry (`is_first`, `is_second`, else
    the third) is the last."""
    return chosen(is_first, jnp.roll(x, -1, 0), chosen(is_second, jnp.roll(x, -2, 0), x))


def largest(x: Array) -> tuple[Array, Array]:
    """Return whether the first of three numbers (3, ...) is the largest, and whether the second is."""
    first = (x[0] >= x[1]) & (x[0] >= x[2])
    return first, ~first & (x[1] >= x[2])


def facing(boxes: Boxes) -> Face:
    """Return the face of the second box that faces the base, which looks along z."""
    which = largest(abs(boxes.axes[2]))
    axes = jnp.swapaxes(rolled(jnp.swapaxes(boxes.axes, 0, 1), *which), 0, 1)
    half = rolled(boxes.second, *which)
    center = boxes.offset - axes[:, 2] * (sign(axes[2, 2]) * half[2])[None]
    return Face(Corner(center[0], center[1], center[2] - boxes.first[2]), axes[:, :2], half[:2])


def _corners_of_base(base: Array, face: Face) -> list[tuple[Corner, Array]]:
    """Return the points over the base's corners, and whether they are in the face."""
    A, (m0, m1) = face.axes, face.half
    inverse = 1 / (A[0, 0] * A[1, 1] - A[0, 1] * A[1, 0])
    found = []
    for side_x, side_y in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        x, y = side_x * base[0] - face.center.x, side_y * base[1] - face.center.y
        s, t = (A[1, 1] * x - A[0, 1] * y) * inverse, (A[0, 0] * y - A[1, 0] * x) * inverse
        inside = (abs(s) <= (1 + INSIDE) * m0) & (abs(t) <= (1 + INSIDE) * m1)
        found.append((face.at(s, t), inside))
    return found


def _ends_of_edges(base: Array, face: Face) -> list[tuple[Corner, Array]]:
    """Return the ends of the face's edges, clipped where they leave the base, and whether they exist."""
    found = []
    # an edge along the border is over the base, whatever rounding does: it is divided by the slope
    margin = 8 * float(jnp.finfo(base.dtype).eps) * (base[0] + base[1] + face.half[0] + face.half[1])
    for f, g in ((0, 1), (1, 0)):
        slope = face.axes[:2, f]
        inverse = 1 / jnp.where(abs(slope) < FLAT, FLAT, slope)
        reach = (base[:2] + margin[None]) * abs(inverse)
        half = face.half[f]
        for side in (-1, 1):
            other = side * face.half[g]
            c, A = face.center, face.axes
            middle = -jnp.stack([c.x + other * A[0, g], c.y + other * A[1, g]]) * inverse
            low = jnp.maximum(-half, jnp.maximum(middle[0] - reach[0], middle[1] - reach[1]))
            high = jnp.minimum(half, jnp.minimum(middle[0] + reach[0], middle[1] + reach[1]))
            left = low <= high
            if f == 0:
                found += [(face.at(low, other), left), (face.at(high, other), left)]
            else:  # a corner of the face is an end of two edges, and counts once
                found += [(face.at(other, low), left & (low > -half)), (face.at(other, high), left & (high < half))]
    return found


def _best(corners: list[tuple[Corner, Array]], score) -> Corner:
    """Return the corner of the highest score among those that exist."""
    value = lambda corner, exists: jnp.where(exists, score(corner), -1e9)  # noqa: E731
    found, best = corners[0][0], value(*corners[0])
    for corner, exists in corners[1:]:
        new = value(corner, exists)
        better = new > best
        found, best = chosen(better, corner, found), jnp.where(better, new, best)
    return found


def common(boxes: Boxes, face: Face, mark: Array, marked: Array) -> Common:
    """Return four corners of the common polygon of the base and a face: the lowest, the one furthest from it, and those
    furthest to both sides of the line between these. Where `marked`, the first is the corner nearest to the point
    `mark` (3, ...), not the lowest.

    If the face lies flat, all corners are lowest. Then the first is the one furthest along a diagonal of the smaller
    face, so that it stays the same while a box rocks or slides.
    """
    base = boxes.first
    corners = _corners_of_base(base, face) + _ends_of_edges(base, face)
    exists = corners[0][1]
    for _, other in corners[1:]:
        exists = exists | other
    smaller = base[0] * base[1] <= face.half[0] * face.half[1]
    x = jnp.where(smaller, 1, face.axes[0, 0] + face.axes[0, 1])
    y = jnp.where(smaller, 1, face.axes[1, 0] + face.axes[1, 1])
    floor = face.lowest().z

    def apart(c, u, v):
        return (c.x - u) * (c.x - u) + (c.y - v) * (c.y - v)

    def lowest(c):
        return jnp.where(marked, -apart(c, mark[0], mark[1]), x * c.x + y * c.y - STEEP * (c.z - floor))

    first = _best(corners, lowest)
    second = _best(corners, lambda c: apart(c, first.x, first.y))
    u, v = second.x - first.x, second.y - first.y

    def left(c):
        return u * (c.y - first.y) - v * (c.x - first.x)

    def ahead(c):
        # an edge parallel to the line has two corners: prefer the one further along it
        return SKEW * (u * (c.x - first.x) + v * (c.y - first.y))

    third, fourth = _best(corners, lambda c: left(c) + ahead(c)), _best(corners, lambda c: ahead(c) - left(c))
    little = INSIDE * INSIDE * boxes.scale() ** 2
    beyond = u * u + v * v > little, left(third) > little, left(fourth) < -little
    return Common([first, second, third, fourth], [exists, *(exists & b for b in beyond)])
