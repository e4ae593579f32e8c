"""The points of shapes over height fields, and the surface under them.

A step reads all of a cell, and of a height field only four nodes count. So the nodes are looked up between sweeps, once
under the centers of shapes and once under their lowest points.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import joined
from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..geometry import heights
from ..geometry.touch import GROUND, alike
from ..model.collision import Collision
from .pairs import Pair, apart

#: the kind of shape of height fields
FIELD = "heights"


class Over(NamedTuple):
    """A pair of a shape and a height field: the field's number, and the references of its row in the table of all pairs
    to the pair and to the poses of its bodies."""

    field: int
    pair: Ref
    poses: tuple[Ref | None, ...]
    kind: str
    places: int


def terrain(shapes: Collision, overs: Sequence[Over], fields: dict, world) -> dict[str, Array]:
    """Return the lowest points `bottom` (places, 3, lanes) of shapes over height fields, and the surface under them,
    `level` (places, 3, lanes), see `heights.levels`. `fields` are the pairs of all shapes by signature, `world` the
    poses of bodies."""
    at = [over.field for over in overs for _ in range(over.places)]
    given = {**fields, "world": world}
    centers = swept(_centers(tuple(overs)), given)["spot"]
    under = _levels(shapes, [over.field for over in overs], centers)
    found = swept(_points(tuple(overs)), {**given, "under": under})
    return {"bottom": found["bottom"], "level": _levels(shapes, at, found["spot"])}


def _levels(shapes: Collision, fields: Sequence[int], spots: Array) -> Array:
    """Return the surface of these fields, by number of the shape, at `spots` (n, 2, lanes)."""
    parts, order = [], []
    for k in dict.fromkeys(fields):
        own = [n for n, field in enumerate(fields) if field == k]
        grid = shapes.grids[shapes.shapes[k].data]
        parts.append(heights.levels(grid, shapes.size[k], spots[jnp.asarray(own)]))
        order += own
    places = sorted(range(len(order)), key=order.__getitem__)
    return joined(parts)[jnp.asarray(places)]


def _center(pair: Pair, poses) -> Array:
    """Return the coordinates of a shape's center over a field."""
    shape, field = pair.placed(poses)
    return heights.spot(shape.p, field)


def _lowest(kind: str, pair: Pair, poses, level: Array) -> tuple[Array, Array]:
    """Return the lowest points of a shape over a field, and their coordinates over it."""
    shape, field = pair.placed(poses)
    points = heights.lowest(GROUND[kind][1], shape, field, level)
    return jnp.stack(points), jnp.stack([heights.spot(x, field) for x in points])


def above(pair: Pair, poses, points: Array, levels: Array) -> tuple[Array, Array, Array]:
    """Return the gaps, points and normals of a shape over a field."""
    _, field = pair.placed(poses)
    return apart(alike([heights.above(x, field, level) for x, level in zip(points, levels, strict=True)]))


@tables
def _centers(overs: tuple[Over, ...]) -> Table:
    rows = [Row(Step(_center), (over.pair, over.poses), Ref("spot", n)) for n, over in enumerate(overs)]
    return Table(rows, {"spot": len(rows)})


@tables
def _points(overs: tuple[Over, ...]) -> Table:
    rows, first = [], 0
    for n, over in enumerate(overs):
        writes = Ref("bottom", first, over.places), Ref("spot", first, over.places)
        rows.append(Row(Step(_lowest, (over.kind,)), (over.pair, over.poses, Ref("under", n)), writes))
        first += over.places
    return Table(rows, {"bottom": first, "spot": first})
