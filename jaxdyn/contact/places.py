"""The places where shapes of a model may touch: the pairs that collide, and gap, point and normal at each place.

A pair is one step of a table, except for a mesh above a plane: the search for its lowest vertices is a step for every
few of them, whose code serves all meshes. What a shape over a height field needs of the field is found before.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import joined
from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..geometry import planes
from ..geometry.touch import Touch, alike, slots, touches
from ..kinematics.forward import Kinematics
from ..kinematics.rows import stacked
from ..model.model import Model
from ..tree.topology import WORLD
from .pairs import STANDING, Pair, apart, fours_of, pair_of
from .terrain import FIELD, Over, above, terrain

#: how many rows of four of the vertices of a mesh a step searches
TOGETHER = 4


class Surface(eqx.Module):
    """The surface properties at places, (places, lanes) each: `friction`, `torsion` (m), `restitution`, `stiffness`
    (N/m, infinite if rigid), `damping` (N s/m)."""

    friction: Array
    torsion: Array
    restitution: Array
    stiffness: Array
    damping: Array


def bearing(model: Model) -> dict[tuple[int, int], int]:
    """Return the pairs of shapes, by number, that can collide, each with its number of places."""
    shapes = model.collision.shapes
    counts = {(i, j): slots(shapes[i].kind, shapes[j].kind) for i, j in model.collision.pairs}
    return {pair: count for pair, count in counts.items() if count}


def owners(model: Model) -> list[tuple[int, int]]:
    """Return the two shapes of every place, by number."""
    return [pair for pair, count in bearing(model).items() for _ in range(count)]


def names_of(model: Model) -> tuple[tuple[str, str], ...]:
    """Return the names of the two shapes of every place."""
    names = model.collision.names
    return tuple((names[i], names[j]) for i, j in owners(model))


def twists(model: Model, shapes: tuple[int, int]) -> bool:
    """Return whether the surfaces of a pair resist twists."""
    return model.collision.scene.twists(shapes)


def touches_of(model: Model, motion: Kinematics) -> Touch:
    """Return the `Touch` of all places where shapes may touch: `gap` (places, lanes), `point` and `normal` (places, 3,
    lanes)."""
    pairs = [pair_of(model.collision, p, count) for p, count in bearing(model).items()]
    if not pairs:
        lanes = motion.q.shape[-1]
        none = jnp.zeros((0, 3, lanes), motion.q.dtype)
        return Touch(none[:, 0], none, none)
    signatures = tuple(p.signature for p in pairs)
    names, fields = stacked(signatures, pairs)
    fours = [
        fours_of(model.collision, i) if p.kinds == STANDING else ()
        for (i, _), p in zip(bearing(model), pairs, strict=True)
    ]
    counts = tuple((p.places, len(rows)) for p, rows in zip(pairs, fours, strict=True))
    bodies = tuple(p.bodies for p in pairs)
    table = _table(names, signatures, bodies, counts)
    given = {**fields, "world": motion.world}
    overs = [
        Over(j, *_reads(name, p.bodies), p.kinds[0], p.places)
        for (_, j), p, name in zip(bearing(model), pairs, names, strict=True)
        if p.kinds[1] == FIELD
    ]
    if overs:
        given |= terrain(model.collision, overs, fields, motion.world)
    if any(map(len, fours)):
        given["vertices"] = joined([rows for rows in fours if len(rows)])
    found = swept(table, given)
    return Touch(found["gap"], found["point"], found["normal"])


def surfaces_of(model: Model, dtype: Any) -> Surface:
    """Return the surfaces of all places."""
    counts = bearing(model)
    if not counts:
        return Surface(*[jnp.zeros((0, 1), dtype)] * 5)
    at = [k for k, p in enumerate(model.collision.pairs) for _ in range(counts.get(p, 0))]
    return Surface(*(x[jnp.asarray(at)].astype(dtype) for x in model.collision.of_pairs()))


def _reads(name: tuple[str, int], bodies: tuple[int, int]) -> tuple[Ref, tuple[Ref | None, ...]]:
    """Return the references to a pair, and to the poses of its bodies."""
    return Ref(*name), tuple(None if b == WORLD else Ref("world", b) for b in bodies)


def _found(kinds: tuple[str, str], pair: Pair, poses) -> tuple[Array, Array, Array]:
    """Return the gaps, points and normals of a pair."""
    return apart(touches(*kinds, *pair.placed(poses)))


def _upright(pair: Pair, poses) -> Array:
    """Return the normal of a plane in the axes of the mesh above it."""
    mesh, plane = pair.placed(poses)
    return planes.upright(mesh, plane)


def _standing(pair: Pair, poses, lowest: planes.Lowest) -> tuple[Array, Array, Array]:
    """Return the gaps, points and normals of a mesh above a plane."""
    mesh, plane = pair.placed(poses)
    return apart(alike(planes.standing(mesh, plane, lowest)))


@tables
def _table(names, signatures, bodies, counts: Sequence[tuple[int, int]]) -> Table:
    """Return the table of all pairs. `counts` are their places, and the rows of vertices of meshes above planes."""
    rows: list[Row] = []
    first = over = vertex = meshes = searches = 0
    for name, (kinds, *_), own, (count, fours) in zip(names, signatures, bodies, counts, strict=True):
        pair = _reads(name, own)
        writes = tuple(Ref(x, first, count) for x in ("gap", "point", "normal"))
        first += count
        if kinds[1] == FIELD:
            rows.append(Row(Step(above), (*pair, Ref("bottom", over, count), Ref("level", over, count)), writes))
            over += count
            continue
        if not fours:
            rows.append(Row(Step(_found, (kinds,)), pair, writes))
            continue
        normal, lowest = Ref("upright", meshes), None
        rows.append(Row(Step(_upright), pair, normal))
        for start in range(0, fours, TOGETHER):
            some = Ref("vertices", vertex + start, min(TOGETHER, fours - start))
            rows.append(Row(Step(planes.lower), (normal, some, lowest), Ref("lowest", searches)))
            lowest, searches = Ref("lowest", searches), searches + 1
        rows.append(Row(Step(_standing), (*pair, lowest), writes))
        vertex, meshes = vertex + fours, meshes + 1
    sizes = dict.fromkeys(("gap", "point", "normal"), first)
    return Table(rows, sizes | ({"upright": meshes, "lowest": searches} if meshes else {}))
