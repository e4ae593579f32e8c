"""The contact points of shapes with a height field: heights on a grid over a rectangle, solid below, sides upright.

Columns of the grid follow x of its placement and rows follow y, both over the half extents from the negative end.
Between four nodes the surface is bilinear; beyond the rectangle there is nothing. First a shape touches the plane that
is tangent to the surface under its center; then each point found touches the plane that is tangent under that point, or
a side of the field if that is nearer to the outside.

Only the four nodes around a point are read, so the work does not depend on the size of the grid, if all lanes share it.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from ..spatial.lookup import lookup
from ..spatial.small import mtv, mv, scaled
from .placed import Placed, Touch, sign
from .planes import height

#: m below the surface from which on points touch the sides of a field
STEP = 0.01


def over(shape: Callable[[Placed, Placed], list[Touch]]) -> Callable[[Placed, Placed], list[Touch]]:
    """Return the function for the contact of a shape with a height field, from its function `shape` for planes.

    If the surface is flat under the shape, gaps are the distances from it. Elsewhere a gap is exact if it is zero: a
    point of the shape is on the surface. Otherwise it is the distance from a tangent plane, which exceeds the distance
    from the surface if the surface rises beside the point; the errors of its rate and its jumps at the edges of cells
    are the gap times the change of slope.
    """

    def touches(a: Placed, b: Placed) -> list[Touch]:
        grid, half = b.size
        field = b._replace(size=half)
        points = lowest(shape, a, field, levels(grid, half, spot(a.p, field)[None])[0])
        found = levels(grid, half, jnp.stack([spot(x, field) for x in points]))
        return [above(x, field, level) for x, level in zip(points, found, strict=True)]

    return touches


def spot(x: Array, field: Placed) -> Array:
    """Return the coordinates (2, ...) of a point over the rectangle of a field."""
    return mtv(field.R, x - field.p)[:2]


def levels(grid: Array, half: Array, spots: Array) -> Array:
    """Return the height of the surface, and its slopes along x and y, (n, 3, ...), at the coordinates `spots`
    (n, 2, ...)."""
    rows, columns = grid.shape[:2]
    column, x, x_slope = _cell(spots[:, 0], half[:1], columns)
    row, y, y_slope = _cell(spots[:, 1], half[1:2], rows)
    first = row * columns + column
    nodes = lookup(grid, jnp.concatenate([first, first + 1, first + columns, first + columns + 1]))
    a, b, c, d = nodes.reshape(4, len(spots), *nodes.shape[1:])
    near, far = a + x * (b - a), c + x * (d - c)
    along = (b - a) + y * ((d - c) - (b - a))
    return jnp.stack([near + y * (far - near), x_slope * along, y_slope * (far - near)], 1)


def _cell(x: Array, half: Array, count: int) -> tuple[Array, Array, Array]:
    """Return the number of the node before x, how far x is from it towards the next one, from 0 to 1, and the inverse
    of their distance, zero beyond the rectangle."""
    step = 2 * half / (count - 1)
    place = (x + half) / step
    cell = jnp.clip(jnp.floor(place), 0, count - 2)
    part = place - cell
    part = jnp.where(part < 0, 0, jnp.where(part > 1, 1, part))  # a clip has half the slope at nodes
    return cell.astype(jnp.int32), part, jnp.where(abs(x) <= half, 1 / step, 0)


def lowest(shape: Callable[[Placed, Placed], list[Touch]], a: Placed, field: Placed, level: Array) -> list[Array]:
    """Return the points (3, ...) of a shape that are lowest over the plane of this `level` under its center."""
    return [t.point + scaled(0.5 * t.gap, t.normal) for t in shape(a, _tangent(a.p, field, level))]


def above(x: Array, field: Placed, level: Array) -> Touch:
    """Return where a point touches the plane of this `level` under it or, from `STEP` below the surface on, a side of
    the field, if that is nearer to the outside.

    A point beyond the rectangle that is higher than this has no side in its way: what slides over an edge, from one
    field to the next, say, must not run against it. Its gap is its height over the rim and its distance from it.
    """
    plane = _tangent(x, field, level)
    gap, up = height(x, plane), plane.R[:, 2]
    local = mtv(field.R, x - field.p)
    sides = [sign(local[k]) for k in range(2)]
    along_x, along_y = (side * local[k] - field.size[k] for k, side in enumerate(sides))
    first = along_x > along_y
    beyond = jnp.where(first, along_x, along_y)
    normal = jnp.where(first[None], scaled(sides[0], field.R[:, 0]), scaled(sides[1], field.R[:, 1]))
    aside = (gap < -STEP) & (beyond > gap)
    over = jnp.where(beyond > 0, jnp.maximum(gap, 0) + beyond, gap)
    gap, normal = jnp.where(aside, beyond, over), jnp.where(aside[None], normal, up)
    return Touch(gap, x - scaled(0.5 * gap, normal), normal)


def _tangent(x: Array, field: Placed, level: Array) -> Placed:
    """Return the plane of this `level` under x, in the direction of the field's z axis."""
    local, (z, z_x, z_y) = mtv(field.R, x - field.p), level
    inverse = 1 / jnp.sqrt(1 + z_x * z_x + z_y * z_y)
    normal = mv(field.R, jnp.stack([-z_x * inverse, -z_y * inverse, inverse]))
    foot = field.p + mv(field.R, jnp.stack([local[0], local[1], z]))
    # nothing reads the plane's x and y axes
    return Placed(jnp.stack([field.R[:, 0] + 0 * normal, field.R[:, 1] + 0 * normal, normal], 1), foot, field.size)
