"""The contact points of shapes with a plane: z = 0 of its placement, solid below.

A slot is a point of the shape, or a ball around one. Its gap is the exact height of its lowest point, and the least gap
of a pair's slots is the distance of the shape. The points of a slot stay in place on the body as far as possible, since
warm starts carry the load of each slot from step to step.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from ..spatial.small import dot, mtv, mv, scaled
from .placed import PARALLEL, Placed, Touch, sign


def height(x: Array, plane: Placed) -> Array:
    """Return how far points x (3, ...) are above the plane."""
    return dot(plane.R[:, 2], x - plane.p)


def ball(center: Array, radius, plane: Placed) -> Touch:
    """Return where a ball touches the plane."""
    normal = plane.R[:, 2]
    above = height(center, plane)
    return Touch(above - radius, center - scaled(0.5 * (above + radius), normal), normal)


def _lowest(a: Placed, arms: list[Array], plane: Placed) -> list[Touch]:
    """Return, for each arm (3, ...), the lower of the two points center ± arm.

    The four diagonals of a box are such arms. Their lower ends are the lowest four of its eight vertices in any
    orientation, and each vertex of a flat face belongs to another diagonal: a slot stays at its vertex while the box
    rocks.
    """
    normal = plane.R[:, 2]
    center = height(a.p, plane)
    found = []
    for arm in arms:
        rise = dot(normal, arm)
        down = -sign(rise)
        gap = center + down * rise
        found.append(Touch(gap, a.p + scaled(down, arm) - scaled(0.5 * gap, normal), normal))
    return found


def sphere(a: Placed, b: Placed) -> list[Touch]:
    """Return the lowest point."""
    return [ball(a.p, a.size[0], b)]


def capsule(a: Placed, b: Placed) -> list[Touch]:
    """Return the lowest points of the balls at both ends."""
    arm = scaled(a.size[1], a.R[:, 2])
    return [ball(a.p + arm, a.size[0], b), ball(a.p - arm, a.size[0], b)]


def box(a: Placed, b: Placed) -> list[Touch]:
    """Return the lowest four vertices."""
    x, y, z = (scaled(a.size[k], a.R[:, k]) for k in range(3))
    top, edge = x + y, x - y
    return _lowest(a, [top + z, edge + z, edge - z, top - z], b)


def cylinder(a: Placed, b: Placed) -> list[Touch]:
    """Return the lowest point; the point opposite to it on the lower disc or, if that is lower, beside it on the upper
    disc; and two points of the lower disc at the ends of the cylinder's x or y axis, whichever points more sideways.

    So a lying cylinder rests on the ends of a line, and a standing one on four points around its rim.
    """
    down = mtv(a.R, b.R[:, 2])
    lean = down[0] * down[0] + down[1] * down[1]
    stands = lean < PARALLEL**2
    share = 1 / jnp.sqrt(jnp.where(stands, 1, lean))
    x, y = jnp.where(stands, 1, down[0] * share), jnp.where(stands, 0, down[1] * share)
    x_aside = abs(x) < abs(y)
    # where the axis changes, the new ends have the heights of the old ones
    side_x, side_y = jnp.where(x_aside, 1, 0), jnp.where(x_aside, 0, sign(x) * sign(y))
    axis, radius = scaled(a.size[1], a.R[:, 2]), a.size[0]

    def out(x, y):
        return scaled(radius * x, a.R[:, 0]) + scaled(radius * y, a.R[:, 1])

    u, w = out(x, y), out(side_x, side_y)
    return _lowest(a, [axis - u, axis + u, axis + w, axis - w], b)


def ellipsoid(a: Placed, b: Placed) -> list[Touch]:
    """Return the lowest point."""
    normal = b.R[:, 2]
    stretched = a.size * mtv(a.R, normal)
    length = jnp.sqrt(dot(stretched, stretched))
    gap = height(a.p, b) - length
    lowest = a.p - mv(a.R, scaled(1 / length, a.size * stretched))
    return [Touch(gap, lowest - scaled(0.5 * gap, normal), normal)]


class Lowest(NamedTuple):
    """The lowest vertex of each of four groups. **Fields:** `rise` (4, ...), how far they are above the origin of the
    mesh; `vertex` (4, 3, ...), in its axes."""

    rise: Array
    vertex: Array


def mesh(a: Placed, b: Placed) -> list[Touch]:
    """Return the lowest vertex of each of four groups: of the vertices 0, 4, 8, ..., of 1, 5, 9, ..., and so on."""
    return standing(a, b, lower(upright(a, b), in_fours(a.size)))


def in_fours(vertices: Array) -> Array:
    """Return the vertices (n, 3, ...) as rows (k, 4, 3, ...) with one vertex of each group."""
    over = len(vertices) % 4
    whole = jnp.concatenate([vertices, vertices[over:4]]) if over else vertices
    return whole.reshape(-1, 4, *whole.shape[1:])


def upright(a: Placed, b: Placed) -> Array:
    """Return the plane's normal in the axes of a mesh."""
    return mtv(a.R, b.R[:, 2])


def lower(normal: Array, rows: Array, known: Lowest | None = None) -> Lowest:
    """Return the lowest vertices of each group among rows (k, 4, 3, ...) and those known before."""
    found = []
    for group in range(4):
        vertices = list(rows[:, group])
        if known is None:
            vertex = vertices.pop(0)
            lowest = dot(normal, vertex)
        else:
            lowest, vertex = known.rise[group], known.vertex[group]
        for v in vertices:
            rise = dot(normal, v)
            less = rise < lowest
            lowest, vertex = jnp.where(less, rise, lowest), jnp.where(less[None], v, vertex)
        found.append((lowest, jnp.broadcast_to(vertex, (3, *lowest.shape))))
    return Lowest(*(jnp.stack(x) for x in zip(*found, strict=True)))


def standing(a: Placed, b: Placed, lowest: Lowest) -> list[Touch]:
    """Return where a mesh touches the plane with these vertices."""
    normal, center = b.R[:, 2], height(a.p, b)
    found = []
    for rise, vertex in zip(*lowest, strict=True):
        gap = center + rise
        found.append(Touch(gap, a.p + mv(a.R, vertex) - scaled(0.5 * gap, normal), normal))
    return found
