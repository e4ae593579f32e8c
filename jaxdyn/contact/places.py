"""The places where shapes of a model may touch: the pairs that collide, and gap, point and normal at each place.

A pair is one step of a table, except for a mesh above a plane: the search for its lowest vertices is a step for every
few of them, whose code serves all meshes.
"""

from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import joined
from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..geometry import planes
from ..geometry.touch import Placed, Touch, alike, slots, touches
from ..kinematics.forward import Kinematics
from ..kinematics.rows import stacked
from ..model.model import Model
from ..spatial.small import composed
from ..tree.topology import WORLD

#: a mesh above a plane, and how many rows of four of its vertices a step searches
STANDING, TOGETHER = ("mesh", "plane"), 4


class Surface(eqx.Module):
    """The surface properties at places, (places, lanes) each: `friction`, `torsion` (m), `restitution`, `stiffness`
    (N/m, infinite if rigid), `damping` (N s/m)."""

    friction: Array
    torsion: Array
    restitution: Array
    stiffness: Array
    damping: Array


class Pair(eqx.Module):
    """Two shapes that collide: their kinds, the bodies that they belong to (`WORLD`: none), the number of places at
    which they may touch, their frames in the bodies, and their sizes."""

    kinds: tuple[str, str] = eqx.field(static=True)
    bodies: tuple[int, int] = eqx.field(static=True)
    places: int = eqx.field(static=True)
    placements: tuple[tuple[Array, Array], tuple[Array, Array]]
    sizes: tuple[Any, Any]

    @property
    def signature(self) -> Any:
        """Return a key: pairs with the same signature share a program."""
        on_world = tuple(b == WORLD for b in self.bodies)
        return self.kinds, on_world, tuple(jnp.shape(x)[:-1] for x in jax.tree.leaves(self.sizes))


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
    pairs = [_pair(model.collision, p, count) for p, count in bearing(model).items()]
    if not pairs:
        lanes = motion.q.shape[-1]
        none = jnp.zeros((0, 3, lanes), motion.q.dtype)
        return Touch(none[:, 0], none, none)
    signatures = tuple(p.signature for p in pairs)
    names, fields = stacked(signatures, pairs)
    fours = [
        _fours(model.collision, i) if p.kinds == STANDING else ()
        for (i, _), p in zip(bearing(model), pairs, strict=True)
    ]
    counts = tuple((p.places, len(rows)) for p, rows in zip(pairs, fours, strict=True))
    table = _table(names, signatures, tuple(p.bodies for p in pairs), counts)
    if any(map(len, fours)):
        fields["vertices"] = joined([rows for rows in fours if len(rows)])
    found = swept(table, {**fields, "world": motion.world})
    return Touch(found["gap"], found["point"], found["normal"])


def surfaces_of(model: Model, dtype: Any) -> Surface:
    """Return the surfaces of all places."""
    counts = bearing(model)
    if not counts:
        return Surface(*[jnp.zeros((0, 1), dtype)] * 5)
    at = [k for k, p in enumerate(model.collision.pairs) for _ in range(counts.get(p, 0))]
    return Surface(*(x[jnp.asarray(at)].astype(dtype) for x in model.collision.of_pairs()))


def _pair(shapes, pair: tuple[int, int], count: int) -> Pair:
    infos = [shapes.shapes[k] for k in pair]
    placements = [(shapes.placement.rotation[k], shapes.placement.translation[k]) for k in pair]
    kinds, bodies = (infos[0].kind, infos[1].kind), [s.body for s in infos]
    sizes = [_size(shapes, k, kinds == STANDING) for k in pair]
    return Pair(kinds, (bodies[0], bodies[1]), count, (placements[0], placements[1]), (*sizes,))


def _fours(shapes, k: int) -> Array:
    """Return the rows of four vertices of a mesh."""
    return planes.in_fours(shapes.vertices[shapes.shapes[k].data])


def _size(shapes, k: int, searched: bool):
    info = shapes.shapes[k]
    if info.kind == "mesh":
        return None if searched else shapes.vertices[info.data]
    return (shapes.grids[info.data], shapes.size[k]) if info.kind == "heights" else shapes.size[k]


def _placed(pair: Pair, poses) -> list[Placed]:
    """Return both shapes in the world."""
    placed = []
    for pose, own, size in zip(poses, pair.placements, pair.sizes, strict=True):
        placed.append(Placed(*(own if pose is None else composed(pose, own)), size))
    return placed


def _apart(found: list[Touch]) -> tuple[Array, Array, Array]:
    gap, point, normal = (jnp.stack(x) for x in zip(*found, strict=True))
    return gap, point, normal


def _found(kinds: tuple[str, str], pair: Pair, poses) -> tuple[Array, Array, Array]:
    """Return the gaps, points and normals of a pair."""
    return _apart(touches(*kinds, *_placed(pair, poses)))


def _upright(pair: Pair, poses) -> Array:
    """Return the normal of a plane in the axes of the mesh above it."""
    mesh, plane = _placed(pair, poses)
    return planes.upright(mesh, plane)


def _standing(pair: Pair, poses, lowest: planes.Lowest) -> tuple[Array, Array, Array]:
    """Return the gaps, points and normals of a mesh above a plane."""
    mesh, plane = _placed(pair, poses)
    return _apart(alike(planes.standing(mesh, plane, lowest)))


@tables
def _table(names, signatures, bodies, counts: Sequence[tuple[int, int]]) -> Table:
    """Return the table of all pairs. `counts` are their places, and the rows of vertices of meshes above planes."""
    rows: list[Row] = []
    first = vertex = meshes = searches = 0
    for name, (kinds, *_), own, (count, fours) in zip(names, signatures, bodies, counts, strict=True):
        pair = Ref(*name), tuple(None if b == WORLD else Ref("world", b) for b in own)
        writes = tuple(Ref(x, first, count) for x in ("gap", "point", "normal"))
        first += count
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
