"""The slots of a robot and their contact rows: the velocities at which two bodies part, slide and twist.

A slot holds the contact rows of one place where two shapes may touch; see `limbs.py`."""

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import joined
from ..geometry.touch import Touch
from ..kinematics.forward import Kinematics
from ..model.constraints import Baumgarte, Constraint, Layout, Rows
from ..model.joints import plane_axes
from ..model.model import Model
from ..spatial.small import cross, mtv
from ..tree.topology import Topology
from .limbs import Group, at_places, nearest, sides_of, spans, ways_of
from .places import Surface, surfaces_of, touches_of

#: number of slots that share a constraint
TOGETHER = 4


class AtSlots(Constraint):
    """The rows at the slots of a group. `touch` has the gap, point and normal of every slot; `ways` (bodies, slots,
    lanes) are the signs of the bodies, see `Group`."""

    group: Group = eqx.field(static=True)
    touch: Touch
    ways: Array
    target: Array
    stabilization: Baumgarte
    name: str | None = eqx.field(static=True, default=None)

    #: number of rows of a slot
    each: ClassVar[int]

    def layout(self, topology: Topology) -> Layout:
        return self.group.layout(topology, self.each)


class Touching(AtSlots):
    """Slots with three rows each: the velocity of the first shape relative to the second, along the normal and two
    tangents. The residual of a normal row is the gap."""

    each = 3

    def evaluate(self, layout, attachments, views, robot) -> Rows:
        K = [_seen(view, self.touch, way) for view, way in zip(views, self.ways, strict=True)]
        gaps = self.touch.gap
        none = jnp.zeros_like(gaps)
        residual = jnp.stack([gaps, none, none], 1).reshape(-1, *gaps.shape[1:])
        return Rows(K, jnp.zeros_like(residual), residual)


class Twist(AtSlots):
    """The rates at which bodies twist about the normals, one row a slot."""

    each = 1

    def evaluate(self, layout, attachments, views, robot) -> Rows:
        K = []
        for view, way in zip(views, self.ways, strict=True):
            turn = jnp.stack([w * mtv(view.R, n) for w, n in zip(way, self.touch.normal, strict=True)])
            K.append((turn, jnp.zeros_like(turn)))
        rest = jnp.zeros_like(self.touch.gap)
        return Rows(K, rest, rest)


def _seen(view, touch: Touch, ways):
    """Return the coefficients of the rows on a body, (angular, linear)."""
    angular, linear = [], []
    for point, normal, way in zip(touch.point, touch.normal, ways, strict=True):
        arm = mtv(view.R, point - view.p)
        for direction in (normal, *plane_axes(normal)):
            own = way * mtv(view.R, direction)
            linear.append(own)
            angular.append(cross(arm, own))
    return jnp.stack(angular), jnp.stack(linear)


def without_gains(zero: Array) -> Baumgarte:
    """Return a stabilization without stiffness and damping: contact rows have goals of their own."""
    return eqx.tree_at(lambda b: (b.stiffness, b.damping), Baumgarte(0.0, 0.0), (zero, zero))


class Slots(NamedTuple):
    """The slots of a robot: the rows of `touching`, the rows of `twists`, the slots that the latter belong to
    (`twisted`), the surfaces (slots, lanes), and the numbers of the places of chosen slots, `which` (chosen, lanes)."""

    touching: tuple[Touching, ...]
    twists: tuple[Twist, ...]
    twisted: tuple[int, ...]
    surface: Surface
    which: Array


def slots_at(model: Model, groups: tuple[Group, ...], motion: Kinematics, which: Array | None) -> Slots:
    """Return the slots of a model (lanes-last) at the places `which`; None: at those with the least gaps."""
    dtype = motion.q.dtype
    touches, surfaces = touches_of(model, motion), surfaces_of(model, dtype)
    touching, twists, twisted, parts, chosen, start = [], [], [], [], [], 0
    for group, own in spans(groups):
        here = jnp.asarray(group.places)
        touch, surface = (jax.tree.map(lambda x, here=here: x[here], tree) for tree in (touches, surfaces))
        ways = jnp.asarray(group.ways, dtype)[..., None]
        if group.chosen:
            numbers = nearest(group, touch.gap) if which is None else which[own]
            touch, surface, sides = at_places(group, numbers, (touch, surface, sides_of(group, dtype)))
            ways = ways_of(group, sides)
            chosen.append(numbers)
        touching += _rows(Touching, group, touch, ways)
        if group.twists:
            twists += _rows(Twist, group, touch, ways)
            twisted += range(start, start + group.slots)
        parts.append(surface)
        start += group.slots
    whole = jax.tree.map(lambda *xs: joined(xs), *parts) if parts else surfaces
    at = joined([jnp.zeros((0, 1), dtype), *chosen])
    return Slots((*touching,), (*twists,), (*twisted,), whole, at)


def _rows(kind: type[AtSlots], group: Group, touch: Touch, ways: Array) -> Iterator[Any]:
    """Yield the rows at the slots of a group, a few slots each, so that large groups need no code of their own."""
    for start in range(0, group.slots, TOGETHER):
        some = slice(start, min(start + TOGETHER, group.slots))
        part = dataclasses.replace(group, slots=some.stop - start)
        zero = jnp.zeros((kind.each * part.slots, 1), touch.gap.dtype)
        own = jax.tree.map(lambda x, some=some: x[some], touch)
        yield kind(group=part, touch=own, ways=ways[:, some], target=zero, stabilization=without_gains(zero[0]))
