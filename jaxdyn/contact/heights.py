"""Shapes against a height field: heights on a grid over a rectangle, with what is above them outside.

Columns of the grid go along x of its placement and rows along y, both over the half extents from the negative end.
Between four nodes the surface is bilinear, and beyond the rectangle it goes on level from the rim. A shape touches the
plane that is tangent to the surface under it; every point at which it does touches the one tangent under that point.

No table is read at an address that is computed, so the work is two products for each node of the grid and for each
point: fields are to be small.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from ..spatial.small import mtv, mv, scaled, summed
from .placed import Placed, Touch
from .planes import height


def over(shape: Callable[[Placed, Placed], list[Touch]]) -> Callable[[Placed, Placed], list[Touch]]:
    """Return the function that touches a height field where `shape` touches a plane.

    Where the surface is flat under the shape, gaps are the distances from it. Elsewhere the gap is exact where it is
    zero: a point of the shape is on the surface. Away from there it is the distance from a tangent plane, which is more
    than the distance from the surface if that rises beside the point; its rate and its steps at the edges of cells are
    off by the gap times the change of slope.
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
    # the plane's own x and y axes are read by none
    return Placed(jnp.stack([field.R[:, 0] + 0 * normal, field.R[:, 1] + 0 * normal, normal], 1), foot, half)


def _shares(x: Array, half: Array, count: int) -> tuple[list[Array], list[Array]]:
    """Return the share of each of `count` nodes in the value at x, and in the slope."""
    step = 2 * half / (count - 1)
    place = (x + half) / step
    cell = jnp.clip(jnp.floor(place), 0, count - 2)
    part = jnp.clip(place - cell, 0, 1)
    inside = jnp.where(abs(x) <= half, 1 / step, 0)
    values, slopes = [], []
    for k in range(count):
        left, right = cell == k, cell == k - 1
        values.append(jnp.where(left, 1 - part, jnp.where(right, part, 0)))
        slopes.append(jnp.where(left, -inside, jnp.where(right, inside, 0)))
    return values, slopes
