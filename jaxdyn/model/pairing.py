"""`collision_of`: the `Collision` of the shapes that a `ModelSpec` describes, and the choice of pairs that collide."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..tree.topology import WORLD, Topology
from .acting import widened
from .arrays import check_sizes, floats_of, transforms
from .collision import Collision, PairValues, Scene, ShapeInfo, ordered, warn_of_idle
from .constraints import Constraint
from .described import Body, Collider
from .pairs import Cylinder, Hinge, Point, Slider, Weld
from .values import ModelWarning

#: most pairs that a model keeps, as all of them are in its static structure
MOST = 100_000
#: constraints that act as joints: the bodies that they connect are neighbours
JOINTS = (Weld, Hinge, Slider, Cylinder, Point)


class PairSurface(NamedTuple):
    """The friction and torsion (m) of a pair of shapes, None: those of the shapes."""

    friction: float | None
    torsion: float | None


class Rules(NamedTuple):
    """The rules of a `ModelSpec` for pairs: `excluded`, pairs of bodies that do not collide; `told`, pairs of shapes
    that were added by name, with their surface; `self_collisions`, True if bodies of one tree collide."""

    excluded: set[frozenset[str]]
    told: dict[frozenset[str], PairSurface]
    self_collisions: bool


def collision_of(
    call: str,
    topology: Topology,
    rows: Sequence[Body],
    colliders: Sequence[Collider],
    places: Mapping[str, tuple[str, np.ndarray, np.ndarray]],
    rules: Rules,
    constraints: Sequence[Constraint],
    left_out: Sequence[str],
    unread: Sequence[str],
) -> Collision:
    """Return the shapes of a model, without arrays if there are none. `places` maps the names of bodies and frames to
    (moving body or world, rotation, translation)."""
    if not colliders:
        return Collision(scene=Scene(left_out=tuple(left_out), unread=tuple(unread)))
    index = {"world": WORLD} | {name: k for k, name in enumerate(topology.body_names)}
    infos, placed, vertices, grids = [], [], [], []
    for c in colliders:
        host, r, p = places[c.body]
        data = {"mesh": vertices, "heights": grids}.get(c.shape.kind)
        place = -1 if data is None else len(data)
        infos.append(ShapeInfo(c.name, c.shape.kind, index[host], place, int(c.priority), c.dimension))
        placed.append((r @ c.rotation, p + r @ c.translation))
        if data is not None:
            data.append(floats_of(c.shape.data))
    check_sizes(call, "placement of shape", [c.name for c in colliders], [p for _, p in placed])
    pairs, off = _pairs(call, topology, rows, colliders, infos, rules, constraints)
    number = {c.name: k for k, c in enumerate(colliders)}
    told = {ordered(infos, *(number[n] for n in names)): surface for names, surface in rules.told.items()}
    own = {pair: s.friction for pair, s in told.items() if s.friction is not None}
    own_torsion = {pair: s.torsion for pair, s in told.items() if s.torsion is not None}
    untold = tuple(k for k, c in enumerate(colliders) if c.friction is None)
    more = {"own_torsion": tuple(own_torsion), "untold": untold, "unread": tuple(unread)}
    scene = Scene(tuple(infos), pairs, tuple(own), off, tuple(left_out), **more)
    warn_of_idle(call, scene, told, 4)
    torsions = {"collision.torsion": [c.torsion for c in colliders], "collision.pair_torsion": [*own_torsion.values()]}
    for path, values in torsions.items():
        scene = widened(scene, topology, path, np.array(values, float))
    sizes = [(*c.shape.numbers, 0.0, 0.0, 0.0)[:3] for c in colliders]
    column = lambda what: floats_of([1.0 if x is None else x for x in (getattr(c, what) for c in colliders)])  # noqa: E731
    return Collision(
        size=floats_of(sizes),
        placement=transforms(placed),
        **{what: column(what) for what in PairValues._fields},
        pair_friction=floats_of(list(own.values())) if own else None,
        pair_torsion=floats_of(list(own_torsion.values())) if own_torsion else None,
        vertices=tuple(vertices),
        grids=tuple(grids),
        scene=scene,
    )


def _pairs(
    call: str,
    topology: Topology,
    rows: Sequence[Body],
    colliders: Sequence[Collider],
    infos: Sequence[ShapeInfo],
    rules: Rules,
    constraints: Sequence[Constraint],
) -> tuple[tuple[tuple[int, int], ...], int]:
    """Return the pairs that collide, and the number of pairs within one tree that were dropped."""
    shapes = {c.name: k for k, c in enumerate(colliders)}
    body = np.array([s.body for s in infos])
    # the root identifies the tree; the world belongs to no tree
    tree = np.array([WORLD if b == WORLD else topology.roots[b] for b in body])
    owners = {name: k for k, name in enumerate(dict.fromkeys(c.owner for c in colliders))}
    owner = np.array([owners[c.owner] for c in colliders])
    masks = [np.array([getattr(c, m) for c in colliders], np.int64) for m in ("collides", "collides_with")]
    all_met = np.array([c.meets_all for c in colliders], bool)
    near = _partners(_neighbours(topology, rows, infos, constraints))
    apart = _partners({frozenset(owners.get(n, -1) for n in pair) for pair in rules.excluded})
    told = {frozenset(shapes[n] for n in pair) for pair in rules.told}
    partners = _partners(told)
    found, off, count = [tuple(sorted(pair)) for pair in told], 0, 0
    for i in range(len(infos)):
        rest = slice(i + 1, None)
        may = (masks[0][i] & masks[1][rest] | masks[1][i] & masks[0][rest]) != 0
        may |= all_met[i] | all_met[rest]
        may &= (body[rest] != body[i]) & ~np.isin(body[rest], near.get(body[i], ()))
        may &= ~np.isin(owner[rest], apart.get(owner[i], ()))
        may &= ~np.isin(np.arange(i + 1, len(infos)), partners.get(i, ()))
        if not rules.self_collisions:
            same = may & (tree[rest] == tree[i]) & (tree[i] != WORLD)
            off += int(same.sum())
            may &= ~same
        count += int(may.sum())
        if count <= MOST:
            found += [(i, i + 1 + j) for j in np.flatnonzero(may).tolist()]
    if count > MOST:
        text = f"{call}: {count} pairs of shapes could collide; beyond {MOST} none is kept but those that are told."
        advice = "Name those that shall by `Model.with_pairs`, or let others pass by their masks."
        warnings.warn(f"{text} {advice}", ModelWarning, stacklevel=4)
        found = [tuple(sorted(pair)) for pair in told]
    return tuple(ordered(infos, *pair) for pair in sorted(found)), off


def _partners(pairs: Iterable[frozenset[int]]) -> dict[int, list[int]]:
    """Return, for each number that occurs in a pair, its partners."""
    out: dict[int, list[int]] = {}
    for pair in pairs:
        for one in pair:
            out.setdefault(one, []).extend(pair - {one} or {one})
    return out


def _neighbours(
    topology: Topology, rows: Sequence[Body], infos: Sequence[ShapeInfo], constraints: Sequence[Constraint]
) -> set[frozenset[int]]:
    """Return the pairs of bodies that a joint of the tree, or a constraint that acts as one, connects. Bodies with
    neither mass nor shapes count as parts of joints. The world has no neighbours."""
    shaped = {s.body for s in infos}
    above = topology.nearest_above([b.mass > 0 or k in shaped for k, b in enumerate(rows)])
    found = {frozenset(pair) for pair in enumerate(above)}
    for c in constraints:
        ends = c.layout(topology).bodies if isinstance(c, JOINTS) else ()
        if len(ends) == 2:
            found.add(frozenset(ends))
    return {pair for pair in found if WORLD not in pair}
