"""Groups of places that share slots.

A place is a point where two shapes may touch; a slot holds the contact rows of one place. A robot model may have over a
hundred places where it might touch the ground, but touches at a few. So if there are many, all places between two limbs
(chains of bodies without branches), or between a limb and a shape of the world, share a few slots. The rows of a slot
ride (are propagated) up the bodies of these limbs only, wherever it is. If there are still many, all places of a robot,
or those where its limbs may touch each other, share a few slots, whose rows ride up all bodies of the robot.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..model.collision import Scene
from ..model.constraints import Layout
from ..model.model import Model
from ..tree.topology import WORLD, Topology
from .laws import FORMED, SMALL, Law
from .places import bearing, twists

#: number of places that one step chooses from
TOGETHER = 4


class Sharing(NamedTuple):
    """How places share slots: the number of slots of the places between two limbs, or a limb and a shape of the world
    (None: one for each place), and those that take the place of more slots in all: `within`, of the places within a
    tree, or `whole`, of all places of a tree."""

    most: int | None = None
    within: int | None = None
    whole: int | None = None


#: one slot for each place; few for each two limbs; then few within a tree, or on all of it
EACH, LIMBS, WITHIN, WHOLE = Sharing(), Sharing(4), Sharing(4, within=8), Sharing(4, whole=16)
#: more slots for each two limbs, where they make no more than LEAN rows: a few bodies on the ground with many shapes
AMPLE = Sharing(16), Sharing(8)
#: number of rows up to which slots on all bodies of a tree do not pay off: their rows ride further
LEAN = 72


@dataclasses.dataclass(frozen=True)
class Group:
    """Places that share slots. **Fields:** `bodies`, the moving ones; `places`, their numbers; `ways`, by body and
    place: 1 if the body's shape is the first of the pair, −1 if it is the second, else 0; `slots`, their number;
    `twists`: True if the slots resist twists."""

    bodies: tuple[int, ...]
    places: tuple[int, ...]
    ways: tuple[tuple[int, ...], ...]
    slots: int
    twists: bool

    @property
    def chosen(self) -> bool:
        """Return whether there are fewer slots than places, so that each step chooses places."""
        return self.slots < len(self.places)

    def layout(self, topology: Topology, rows: int = 3) -> Layout:
        """Return the layout of the slots, with `rows` rows each."""
        return Layout(("slots", rows, len(self.bodies), self.slots), rows * self.slots, self.bodies)


def groups_of(model: Model, law: Law) -> tuple[Group, ...]:
    """Return the groups of a model under a law."""
    pairs = tuple((p, count, twists(model, p)) for p, count in bearing(model).items())
    given = model.topology, model.collision.scene, pairs
    if law.slots is not None:
        return _groups(*given, Sharing(law.slots))
    joints = rows_of_joints(model, law)
    for most, way in _ways(sum(n * (4 if t else 3) for _, n, t in pairs) + joints):
        found = _groups(*given, way)
        if _rows(found) + joints <= most:
            return found
    return _groups(*given, WITHIN)


def _ways(every: int) -> Iterator[tuple[int, Sharing]]:
    """Yield what is tried one after the other, a number of rows and the way to share slots that may make as many, from
    the number of rows with a slot at `every` place."""
    if every <= SMALL:
        yield SMALL, EACH
    if every <= FORMED:
        yield from ((LEAN, way) for way in AMPLE)
    yield from ((LEAN, LIMBS), (LEAN, WITHIN), (SMALL, WHOLE), (SMALL, LIMBS))
    yield FORMED, EACH if every <= FORMED else LIMBS


def rows_of(model: Model, law: Law) -> int:
    """Return the number of rows of a law."""
    return _rows(groups_of(model, law)) + rows_of_joints(model, law)


def _rows(groups: tuple[Group, ...]) -> int:
    return sum(group.slots * (4 if group.twists else 3) for group in groups)


def rubbing_and_limited(model: Model, law: Law) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the bodies whose joints have dry friction under a law, and those whose joints have limits."""
    scene = model.collision.scene
    return scene.rubbing if law.dry_friction else (), scene.limited if law.limits else ()


def jointed(model: Model, law: Law) -> tuple[int, ...]:
    """Return the bodies whose joints have limits or dry friction under a law."""
    return tuple(sorted({b for bodies in rubbing_and_limited(model, law) for b in bodies}))


def rows_of_joints(model: Model, law: Law) -> int:
    """Return the number of rows of joints with limits or dry friction."""
    return sum(model.topology.kinds[b].nv for b in jointed(model, law))


@tables
def _groups(topology: Topology, scene: Scene, pairs, way: Sharing) -> tuple[Group, ...]:
    """Return the groups of the places of pairs of shapes, each ((i, j), number of places, whether they twist)."""
    limb, together, first = topology.limbs, {}, 0
    for (i, j), count, twisting in pairs:
        bodies = scene.shapes[i].body, scene.shapes[j].body
        sides = [("world", k) if b == WORLD else ("limb", limb[b]) for k, b in zip((i, j), bodies, strict=True)]
        together.setdefault(frozenset(sides), []).append((range(first, first + count), bodies, twisting))
        first += count
    found: list[Group] = []
    for members, slots in _merged(topology, list(together.values()), way):
        shared = slots is not None and _places(members) > slots
        for part in [members] if shared else [[m] for m in members]:
            found.append(_group(part, slots if shared else None))
    return tuple(sorted(found, key=lambda group: group.places))


def _merged(topology: Topology, groups: list[list], way: Sharing) -> list[tuple[list, int | None]]:
    """Return groups, each with its most slots; those that belong together by `within` or `whole` are one, with that
    many slots, if they have more in all."""
    slots = way.whole or way.within
    if slots is None:
        return [(members, way.most) for members in groups]
    inner: dict[int, list] = {}
    kept: list[tuple[list, int | None]] = []
    for members in groups:
        trees = {b if b == WORLD else topology.roots[b] for b in members[0][1]}
        if way.whole:
            trees.discard(WORLD)
        if WORLD not in trees and len(trees) == 1:
            inner.setdefault(trees.pop(), []).append(members)
        else:
            kept.append((members, way.most))
    for own in inner.values():
        merges = sum(min(way.most, _places(members)) for members in own) > slots
        kept += [([m for members in own for m in members], slots)] if merges else [(m, way.most) for m in own]
    return kept


def _places(members: list[Any]) -> int:
    return sum(len(places) for places, *_ in members)


def _group(members: list[Any], slots: int | None) -> Group:
    places = tuple(k for part, *_ in members for k in part)
    bodies = tuple(dict.fromkeys(b for _, own, _ in members for b in own if b != WORLD))
    way = lambda b, own: (own[0] == b) - (own[1] == b)  # noqa: E731
    ways = tuple(tuple(way(b, own) for part, own, _ in members for _ in part) for b in bodies)
    return Group(bodies, places, ways, len(places) if slots is None else slots, any(t for *_, t in members))


def spans(groups: tuple[Group, ...]) -> Iterator[tuple[Group, slice]]:
    """Yield the groups, each with the slice of its slots among all chosen slots (empty if it does not choose)."""
    start = 0
    for group in groups:
        end = start + group.slots if group.chosen else start
        yield group, slice(start, end)
        start = end


def nearest(group: Group, gaps: Array) -> Array:
    """Return the numbers (slots, lanes) of the places of a group with the least gaps (places, lanes), in order."""
    # any place comes before none
    gaps = jnp.minimum(jax.lax.stop_gradient(gaps), jnp.finfo(gaps.dtype).max)
    numbers = jnp.broadcast_to(jnp.asarray(group.places, gaps.dtype)[:, None], gaps.shape)
    none = jnp.full((1, group.slots, gaps.shape[-1]), jnp.inf, gaps.dtype)
    found = swept(_nearest(len(group.places)), {"gap": gaps, "number": numbers, "none": none})
    return found["numbers"][-1]


def _least(gaps, numbers, known, of):
    """Return the least gaps (slots, lanes) in order, and the numbers of their places: of those that are `known`, with
    the numbers `of`, and of further ones."""
    for gap, number in zip(gaps, numbers, strict=True):
        less = gap < known
        known, of = _inserted(known, gap, less), _inserted(of, number, less)
    return known, of


def _inserted(x, new, less):
    """Return values x (slots, lanes) with a new one before those where it is `less`, without the last one."""
    moves = jnp.concatenate([jnp.zeros_like(less[:1]), less[:-1]])
    return jnp.where(moves, jnp.concatenate([x[:1], x[:-1]]), jnp.where(less, new, x))


@tables
def _nearest(places: int) -> Table:
    rows: list[Row] = []
    before = Ref("none", 0), Ref("none", 0)
    for k, start in enumerate(range(0, places, TOGETHER)):
        some = [Ref(name, start, min(TOGETHER, places - start)) for name in ("gap", "number")]
        rows.append(Row(Step(_least), (*some, *before), (Ref("gaps", k), Ref("numbers", k))))
        before = Ref("gaps", k), Ref("numbers", k)
    return Table(rows, {"gaps": len(rows), "numbers": len(rows)})


def at_places(group: Group, which: Array, tree: Any) -> Any:
    """Return the values of a tree of arrays (places, ..., lanes) at the slots, (slots, ..., lanes); zero at slots
    without a place. `which` (slots, lanes) are the numbers of their places."""
    here = which[None] == jnp.asarray(group.places, which.dtype)[:, None, None]
    found = swept(_choosing(len(group.places)), {"x": tree, "here": here})["chosen"]
    return jax.tree.map(lambda x: x[-1], found)


def chosen(here: Array, x: Any, before: Any = None) -> Any:
    """Return, for each slot, the value x (places, ...) of the place where the mask `here` (places, slots, lanes) is
    set; `before` (None: zero) where it is set for none."""

    def of(x, found=None):
        found = jnp.zeros((), x.dtype) if found is None else found
        for at, value in zip(here, x, strict=True):
            found = jnp.where(at.reshape(len(at), *(1,) * (value.ndim - 1), -1), value, found)
        return found

    return jax.tree.map(of, x, *([] if before is None else [before]))


@tables
def _choosing(places: int) -> Table:
    rows: list[Row] = []
    before = None
    for k, start in enumerate(range(0, places, TOGETHER)):
        some = [Ref(name, start, min(TOGETHER, places - start)) for name in ("here", "x")]
        rows.append(Row(Step(chosen), (*some, before), Ref("chosen", k)))
        before = Ref("chosen", k)
    return Table(rows, {"chosen": len(rows)})


def sides_of(group: Group, dtype: Any) -> tuple[Array, Array]:
    """Return the numbers (places, 1) of the bodies of the first and of the second shapes at the places of a group, −1
    for the world."""
    ways = np.asarray(group.ways)
    sides = [np.where((ways == way).any(0), (ways == way).argmax(0), -1) for way in (1, -1)]
    return tuple(jnp.asarray(side, dtype)[:, None] for side in sides)


def ways_of(group: Group, sides: tuple[Array, Array]) -> Array:
    """Return the signs (bodies, slots, lanes) of the bodies at the slots, see `Group`; `sides` are those of
    `sides_of`, at the slots."""
    body = jnp.arange(len(group.bodies), dtype=sides[0].dtype)[:, None, None]
    hits = [jnp.where(side[None] == body, 1, 0).astype(side.dtype) for side in sides]
    return hits[0] - hits[1]  # zero also at slots without a place, whose sides are equal


def places_of(groups: tuple[Group, ...], which: Array) -> Array:
    """Return the places of all slots (slots,); `which` (chosen,) are those of the chosen slots."""
    parts = [jnp.zeros(0, int)]
    for group, own in spans(groups):
        parts.append(which[own].astype(int) if group.chosen else jnp.asarray(group.places, int))
    return jnp.concatenate(parts)
