"""Constraints as the engine works on them: bundles of equal signature, and the products J a and Jᵀ λ."""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kernel import kernel
from ..model.constraints import BodyView, Constraint, JointView, Layout, RobotView, Rows
from ..model.links import node_axis
from ..model.model import Model
from ..tree.columns import row_forces, row_rates
from ..tree.field import Field, permute, select
from ..tree.topology import WORLD, Topology


@dataclasses.dataclass(frozen=True)
class Bundle:
    """Constraints of one signature. `slots` holds, per body of the constraint, that body in every member;
    `starts` the first row of every member among all rows."""

    members: tuple[int, ...]
    layout: Layout
    slots: tuple[tuple[int, ...], ...]
    attachments: tuple[tuple[tuple[int, int | None], ...], ...]
    starts: tuple[int, ...]

    @property
    def rows(self) -> list[int]:
        """The number of each value of (rows, members) among all rows."""
        return [start + r for r in range(self.layout.rows) for start in self.starts]


@functools.lru_cache(maxsize=512)
def _bundled(layouts: tuple[Layout, ...]) -> tuple[Bundle, ...]:
    by_signature: dict[object, list[int]] = defaultdict(list)
    starts, total = [], 0
    for k, layout in enumerate(layouts):
        by_signature[layout.signature].append(k)
        starts.append(total)
        total += layout.rows
    return tuple(
        Bundle(
            tuple(members),
            layouts[members[0]],
            tuple(zip(*[layouts[k].bodies for k in members], strict=True)),
            tuple(zip(*[layouts[k].attachments for k in members], strict=True)),
            tuple(starts[k] for k in members),
        )
        for members in by_signature.values()
    )


def bundles_of(topology: Topology, constraints: Sequence[Constraint]) -> tuple[Bundle, ...]:
    return _bundled(tuple(c.layout(topology) for c in constraints))


def cliques_of(bundles: Sequence[Bundle]) -> frozenset[tuple[int, ...]]:
    """The sets of bodies that constraints tie together."""
    return frozenset(tuple(sorted(bodies)) for b in bundles for bodies in zip(*b.slots, strict=True))


class Evaluated(NamedTuple):
    """A bundle's rows with their targets and gains, all (rows, k, lanes) or broadcasting to it."""

    rows: Rows
    target: Array
    stiffness: Array
    damping: Array


@functools.cache
def _evaluator(layout: Layout):
    def evaluate(items, attachments, views, mass, center, joints):
        return items.evaluate(layout, attachments, views, RobotView(mass, center, lambda k: joints[k]))

    return kernel(evaluate)


def _stack(items: Sequence[Constraint]) -> Constraint:
    """Constraints of one signature as one whose leaves are (..., k, lanes)."""
    leaves = [jax.tree.leaves(c) for c in items]
    lanes = [max(x.shape[-1] for x in group) for group in zip(*leaves, strict=True)]
    stacked = [
        jnp.stack([jnp.broadcast_to(x, (*x.shape[:-1], n)) for x in group], -2)
        for group, n in zip(zip(*leaves, strict=True), lanes, strict=True)
    ]
    return jax.tree.unflatten(jax.tree.structure(items[0]), stacked)


def evaluate(model: Model, constraints: Sequence[Constraint], q: Array, fields: dict[str, Field]) -> list[Evaluated]:
    """The rows of all constraints, by bundle. `fields` come from a sweep that knew the velocity, or not (then
    biases are those at rest)."""
    topology = model.topology
    mass, center = model.bodies.mass, model.bodies.center_of_mass
    axis = node_axis(model.joints.axis)
    frames_R, frames_p = node_axis(model.frames.rotation), node_axis(model.frames.translation)
    out = []
    for bundle in bundles_of(topology, constraints):
        items = _stack([constraints[k] for k in bundle.members])
        attachments = [_placements(side, frames_R, frames_p) for side in bundle.attachments]
        views = []
        for slot in bundle.slots:
            R, p = fields["R"].get(slot), fields["p"].get(slot)
            still = "w" not in fields
            w, l = (jnp.zeros_like(p),) * 2 if still else (fields["w"].get(slot), fields["l"].get(slot))
            views.append(BodyView(R, p, w, l))
        joints = []
        for side in bundle.attachments:
            moved = [b for b, _ in side]
            if all(b != WORLD and topology.kinds[b].nq == 1 for b in moved):
                at = select(q, [topology.q_starts[b] for b in moved])
                own_axis = select(axis, moved, axis=1)
                joints.append(JointView(at, own_axis, fields["E"].get(moved), fields["r"].get(moved)))
            else:
                joints.append(None)
        rows = _evaluator(bundle.layout)(items, attachments, views, mass, center, joints)
        gains = items.stabilization
        out.append(Evaluated(rows, items.target, gains.stiffness, gains.damping))
    return out


def _placements(side, frames_R, frames_p):
    """Placements of frames in their bodies, identities where the attachment is the body itself."""
    R = jnp.eye(3, dtype=frames_R.dtype)[:, :, None, None]
    columns = [
        (R, jnp.zeros((3, 1, 1), R.dtype)) if k is None else (frames_R[..., k : k + 1, :], frames_p[..., k : k + 1, :])
        for _, k in side
    ]
    lanes = max(x.shape[-1] for pair in columns for x in pair)
    return tuple(
        jnp.concatenate([jnp.broadcast_to(c[part], (*c[part].shape[:-1], lanes)) for c in columns], -2)
        for part in (0, 1)
    )


def times(bundles: Sequence[Bundle], evaluated: Sequence[Evaluated], motion: Field) -> list[Array]:
    """``sum_i K_i A_i`` of the motions (angular, linear) of the bodies: (rows, k, lanes) by bundle."""
    out = []
    for bundle, e in zip(bundles, evaluated, strict=True):
        total = None
        for slot, (ang, lin) in zip(bundle.slots, e.rows.K, strict=True):
            part = row_rates(ang, lin, *motion.get(slot))
            total = part if total is None else total + part
        out.append(total)
    return out


def transposed(bundles: Sequence[Bundle], evaluated: Sequence[Evaluated], x: Sequence[Array]) -> list:
    """``K_iᵀ x`` as [(bodies, (moment, force))]."""
    return [
        (slot, row_forces(ang, lin, values))
        for bundle, e, values in zip(bundles, evaluated, x, strict=True)
        for slot, (ang, lin) in zip(bundle.slots, e.rows.K, strict=True)
    ]


def flatten(bundles: Sequence[Bundle], parts: Sequence[Array]) -> Array:
    """(rows, k, lanes) by bundle to (m, lanes), in the order of the constraints."""
    place, position = {}, 0
    for bundle in bundles:
        for row in bundle.rows:
            place[row] = position
            position += 1
    lanes = max(x.shape[-1] for x in parts)
    rows = jnp.concatenate([jnp.broadcast_to(x, (*x.shape[:-1], lanes)).reshape(-1, lanes) for x in parts])
    return permute(rows, [place[k] for k in range(position)])


def unflatten(bundles: Sequence[Bundle], x: Array) -> list[Array]:
    """The inverse of `flatten`."""
    out = []
    for bundle in bundles:
        n, k = bundle.layout.rows, len(bundle.members)
        at = permute(x, bundle.rows)
        out.append(at.reshape(n, k, x.shape[-1]))
    return out
