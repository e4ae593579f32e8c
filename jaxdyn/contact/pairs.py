"""The rows of contact: at every slot of a pair of shapes, how fast the two move apart, and how they slide."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..model.constraints import Baumgarte, Constraint, Layout, Rows
from ..model.model import Model
from ..spatial.small import cross, mm, mtv, mv
from ..tree.topology import WORLD, Topology
from .placed import sign
from .touch import Placed, slots, touches


class Surface(eqx.Module):
    """Of a pair: `friction`, `torsion` (m), `restitution`, `stiffness` (N/m, infinite if rigid), `damping` (N s/m);
    (lanes,) each."""

    friction: Array
    torsion: Array
    restitution: Array
    stiffness: Array
    damping: Array


class Twist(Constraint):
    """The rates at which two shapes that touch twist about their normals, a row a slot; see `Pair`."""

    pair: "Pair"
    target: Array
    stabilization: Baumgarte
    name: str | None = eqx.field(static=True, default=None)

    def layout(self, topology: Topology) -> Layout:
        own = self.pair.layout(topology)
        return Layout((type(self), own.signature), self.pair.slots, own.bodies)

    def evaluate(self, layout, attachments, views, robot) -> Rows:
        moving, found = self.pair.placed(views)
        none = jnp.zeros_like(found[0].gap)
        K = []
        for view, way in zip(moving, (1, -1), strict=True):
            if view is not None:
                turn = jnp.stack([way * mtv(view.R, touch.normal) for touch in found])
                K.append((turn, jnp.zeros_like(turn)))
        rest = jnp.stack([none for _ in found])
        return Rows(K, rest, rest)


class Pair(Constraint):
    """Two shapes that collide, as a constraint with three rows a slot: along the normal and two tangents, the velocity
    of the first against the second. The residual of a normal row is the gap."""

    kinds: tuple[str, str] = eqx.field(static=True)
    bodies: tuple[int, int] = eqx.field(static=True)
    name: str | None = eqx.field(static=True)
    slots: int = eqx.field(static=True)
    placements: tuple[tuple[Array, Array], tuple[Array, Array]]
    sizes: tuple[Any, Any]
    surface: Surface
    target: Array
    stabilization: Baumgarte

    def layout(self, topology: Topology) -> Layout:
        on_world = tuple(b == WORLD for b in self.bodies)
        shapes = tuple(jnp.shape(x) for x in jax.tree.leaves(self.sizes))
        moving = tuple(b for b in self.bodies if b != WORLD)
        return Layout((type(self), self.kinds, on_world, self.slots, shapes), 3 * self.slots, moving)

    def placed(self, views):
        """Views of both bodies, None for the world, and where they may touch."""
        views, placed, moving = iter(views), [], []
        for body, (R, p), size in zip(self.bodies, self.placements, self.sizes, strict=True):
            view = None if body == WORLD else next(views)
            moving.append(view)
            placed.append(Placed(R, p, size) if view is None else Placed(mm(view.R, R), view.p + mv(view.R, p), size))
        return moving, touches(*self.kinds, *placed)

    def evaluate(self, layout, attachments, views, robot) -> Rows:
        moving, found = self.placed(views)
        K = [_seen(view, found, way) for view, way in zip(moving, (1, -1), strict=True) if view is not None]
        none = jnp.zeros_like(found[0].gap)
        gaps = jnp.stack([x for touch in found for x in (touch.gap, none, none)])
        return Rows(K, jnp.zeros_like(gaps), gaps)


def _seen(view, found, way: int):
    """The coefficients of the rows on a body, (angular, linear)."""
    angular, linear = [], []
    for touch in found:
        arm = mtv(view.R, touch.point - view.p)
        for direction in (touch.normal, *tangents(touch.normal)):
            own = way * mtv(view.R, direction)
            linear.append(own)
            angular.append(cross(arm, own))
    return jnp.stack(angular), jnp.stack(linear)


def tangents(n: Array) -> tuple[Array, Array]:
    """Two unit vectors that make a right-handed frame with n (Duff et al. 2017)."""
    x, y, z = n[0], n[1], n[2]
    way = sign(z)
    a = -1 / (way + z)
    b = x * y * a
    return jnp.stack([1 + way * x * x * a, way * b, -way * x]), jnp.stack([b, way + y * y * a, -y])


def pairs_of(model: Model) -> tuple[Pair, ...]:
    """The pairs of shapes of a model (its arrays with a last axis of lanes) that collide, as far as they can."""
    shapes = model.collision
    if not shapes.pairs:
        return ()
    values, counts = shapes.of_pairs(), bearing(model)
    surface = lambda k: Surface(*(x[k] for x in values))  # noqa: E731
    return tuple(_pair(shapes, *p, counts[p], surface(k)) for k, p in enumerate(shapes.pairs) if p in counts)


def twists_of(model: Model, pairs: tuple[Pair, ...]) -> tuple[tuple[Twist, ...], tuple[int, ...]]:
    """The rows of pairs whose surfaces resist twists, and of which contacts they are."""
    rows, of, start = [], [], 0
    for pair, shapes in zip(pairs, bearing(model), strict=True):
        if twists(model, shapes):
            none = jnp.zeros((pair.slots, 1), pair.target.dtype)
            rows.append(Twist(pair=pair, target=none, stabilization=without_gains(none[0])))
            of += range(start, start + pair.slots)
        start += pair.slots
    return tuple(rows), tuple(of)


def twists(model: Model, shapes: tuple[int, int]) -> bool:
    """Whether the surfaces of a pair resist twists."""
    return not set(shapes).isdisjoint(model.collision.scene.twisting)


def bearing(model: Model) -> dict[tuple[int, int], int]:
    """The pairs of shapes, by number, that can collide, and how many slots each has."""
    shapes = model.collision.shapes
    counts = {(i, j): slots(shapes[i].kind, shapes[j].kind) for i, j in model.collision.pairs}
    return {pair: count for pair, count in counts.items() if count}


def slots_of(model: Model) -> tuple[tuple[str, str], ...]:
    """The names of the two shapes of every slot."""
    names = model.collision.names
    return tuple((names[i], names[j]) for (i, j), count in bearing(model).items() for _ in range(count))


def _size(shapes, k: int):
    info = shapes.shapes[k]
    if info.kind == "mesh":
        return shapes.vertices[info.data]
    return (shapes.grids[info.data], shapes.size[k]) if info.kind == "heights" else shapes.size[k]


def without_gains(zero: Array) -> Baumgarte:
    """Rows of contact have goals of their own."""
    return eqx.tree_at(lambda b: (b.stiffness, b.damping), Baumgarte(0.0, 0.0), (zero, zero))


def _pair(shapes, i: int, j: int, count: int, surface: Surface) -> Pair:
    infos = shapes.shapes[i], shapes.shapes[j]
    none = jnp.zeros((3 * count, 1), shapes.friction.dtype)
    return Pair(
        kinds=(infos[0].kind, infos[1].kind),
        bodies=(infos[0].body, infos[1].body),
        name=f"{infos[0].name}, {infos[1].name}",
        slots=count,
        placements=tuple((shapes.placement.rotation[k], shapes.placement.translation[k]) for k in (i, j)),
        sizes=(_size(shapes, i), _size(shapes, j)),
        surface=surface,
        target=none,
        stabilization=without_gains(none[0]),
    )
