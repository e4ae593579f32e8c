"""The contact points of shapes with a height field: heights on a grid over a rectangle, solid below.

Columns of the grid follow x of its placement and rows follow y, both over the half extents from the negative end.
Between four nodes the surface is bilinear; beyond the rectangle it continues level from the rim. First a shape touches
the plane that is tangent to the surface under its center; then each point found touches the plane that is tangent under
that point.

Heights are not looked up by a computed index, but summed over the grid: the work is two products for each node of the
grid and each point, so use small fields.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from ..spatial.small import mtv, mv, scaled, summed
from .placed import Placed, Touch
from .planes import height


def over(shape: Callable[[Placed, Placed], list[Touch]]) -> Callable[[Placed, Placed], list[Touch]]:
    """Return the function for the contact of a shape with a height field, from its function `shape` for planes.

    If the surface is flat under the shape, gaps are the distances from it. Elsewhere a gap is exact if it is zero: a
    point of the shape is on the surface. Otherwise it is the distance from a tangent plane, which exceeds the distance
    from the surface if the surface rises beside the point; the errors of its rate and its jumps at the edges of cells
    are the gap times the change of slope.
    """

    def touches(a: Placed, b: Placed) -> list[Touch]:
        found = []
        for rough in shape(a, tangent(a.p, b)):
            lowest = rough.point + scaled(0.5 * rough.gap, rough.normal)
            plane = tangent(lowest, b)
            gap, normal = height(lowest, plane), plane.R[:, 2]
            found.append(Touch(gap, lowest - scaled(0.5 * gap, normal), normal))
        return found

    return touches


def tangent(x: Array, field: Placed) -> Placed:
    """Return the plane that is tangent to the surface under x (3, ...), in the direction of the field's z axis."""
    grid, half = field.size
    local = mtv(field.R, x - field.p)
    rows, slopes = _shares(local[1], half[1], grid.shape[0])
    columns, slants = _shares(local[0], half[0], grid.shape[1])
    level, rise_y = (summed(w[None] * row for w, row in zip(ws, grid, strict=True)) for ws in (rows, slopes))
    total = lambda ws, line: summed(w * h for w, h in zip(ws, line, strict=True))  # noqa: E731
    z, z_x, z_y = total(columns, level), total(slants, level), total(columns, rise_y)
    inverse = 1 / jnp.sqrt(1 + z_x * z_x + z_y * z_y)
    normal = mv(field.R, jnp.stack([-z_x * inverse, -z_y * inverse, inverse]))
    foot = field.p + mv(field.R, jnp.stack([local[0], local[1], z]))
    # nothing reads the plane's x and y axes
    return Placed(jnp.stack([field.R[:, 0] + 0 * normal, field.R[:, 1] + 0 * normal, normal], 1), foot, half)


def _shares(x: Array, half: Array, count: int) -> tuple[list[Array], list[Array]]:
    """Return the weights of `count` nodes in the interpolated value at x, and in its slope."""
    step = 2 * half / (count - 1)
    place = (x + half) / step
    cell = jnp.clip(jnp.floor(place), 0, count - 2)
    part = place - cell
    part = jnp.where(part < 0, 0, jnp.where(part > 1, 1, part))  # a clip has half the slope at nodes
    inside = jnp.where(abs(x) <= half, 1 / step, 0)
    values, slopes = [], []
    for k in range(count):
        left, right = cell == k, cell == k - 1
        values.append(jnp.where(left, 1 - part, jnp.where(right, part, 0)))
        slopes.append(jnp.where(left, -inside, jnp.where(right, inside, 0)))
    return values, slopes
