"""Contact rows as combinations of the motions of a few bodies.

The rows at many points of one body are combinations of only six: its angular and its linear velocity at one point.
Where that makes fewer rows, these *motions* ride up the tree in place of the contact rows. Let C be the coefficients of
the contact rows and Λ the Delassus matrix of the motions, the inverse of their operational-space inertia. Then
G = C Λ Cᵀ, contact rows move at C times the rates of the motions, and forces f along them push the motions by Cᵀ f.

A body's motion is that at the mean of the points where it touches, or would touch: farther away, the terms of C Λ Cᵀ
would be larger than their sum. Its axes are those of the contacts if all of these touch one plane of the world, because
most coefficients are 0 or 1 then; otherwise they are the axes of the world.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine.core import at_or_zero, joined
from ..engine.sweeps import swept
from ..kinematics.forward import Kinematics
from ..kinematics.rows import Rows
from ..model.joints import plane_axes
from ..model.model import Model
from ..spatial.small import cross, eye, mtv, mv, scaled, summed
from ..systems.problem import Problem
from ..tree.topology import WORLD
from .effect import diagonal
from .gathering import SIX, Gathering, coupling, gathering, placed, pushes, rates
from .limbs import Group
from .places import owners
from .slots import AtSlots, Twist

#: the rounding of entries of G, over that of their terms
ROUNDING = 16


class Gathered(eqx.Module):
    """Contact rows as combinations of motions. **Fields:** `problem`, whose rows are those that ride; `C`, the
    coefficients (cells, 6, lanes); `how`. A lane is one element of the batch."""

    problem: Problem
    C: Array
    how: Gathering = eqx.field(static=True)

    def rates(self, x: Array) -> Array:
        """Return the rates of the contact rows (m, lanes), from those of what rides for them."""
        if not self.how.members:
            return x
        return joined([swept(rates(self.how), {"C": self.C, "x": x})["y"], x])[placed(self.how)]

    def pushes(self, f: Array) -> Array:
        """Return the forces along what rides for the contact rows, from those along these (m, lanes)."""
        if not self.how.members:
            return f
        others = f[np.asarray(self.how.rows(self.how.others), int)]
        return joined([swept(pushes(self.how), {"C": self.C, "f": f})["x"], others])

    def matrix(self, L: Array, blocks: frozenset[tuple[int, int]]) -> Array:
        """Return G (m, m, lanes), from that of what rides for contact rows, whose other `blocks` are zero."""
        if not self.how.members:
            return L
        table, at = coupling(self.how, blocks)
        cells = L.reshape(-1, L.shape[-1])
        found = swept(table, {"C": self.C, "L": cells})["G"]
        return at_or_zero(joined([found, cells]), at)

    def rounding(self, L: Array) -> Array:
        """Return the rounding of the diagonal of that G (m, lanes): its terms may be larger than their sum, which is
        zero where forces move nothing. Other rows have a sum of squares there."""
        rides, motions = diagonal(L), SIX * len(self.how.bodies)
        # terms are no larger than those of a motion along all columns of C at once
        root = joined([jnp.sqrt(jnp.maximum(rides[:motions], 0)), jnp.zeros_like(rides[motions:])])
        terms = dataclasses.replace(self, C=jnp.abs(self.C)).rates(root) ** 2
        return ROUNDING * jnp.finfo(L.dtype).eps * terms


def gathered(problem: Problem, held: int, apart: bool) -> Gathered:
    """Return the contact rows of a problem, which come after those of `held` constraints, gathered where that makes
    fewer rows; if `apart`, nowhere."""
    constraints, rows = problem.constraints, problem.rows
    slots = [c for c in range(held, len(constraints)) if isinstance(constraints[c], AtSlots) and not apart]
    how = gathering(problem.model.topology, problem.plan, held, tuple(slots))
    if not how.members:
        return Gathered(problem, jnp.zeros((0, SIX, 1), problem.q.dtype), how)
    assert rows is not None
    bodies = how.plan.bodies
    of = {b: [(constraints[c], bodies(c).index(b)) for c in how.members if b in bodies(c)] for b in how.bodies}
    seen = {b: _seen(problem.model, own) for b, own in of.items()}
    C = [_combined(constraints[c], k, *seen[b]) for c in how.members for k, b in enumerate(bodies(c))]
    own = [tuple(joined([x[k.start : k.start + k.count] for k in how.plan.K(c)]) for x in rows.K) for c in how.others]
    end = sum(k.count for c in range(held) for k in how.plan.K(c))
    K = [tuple(x[:end] for x in rows.K), *(_motion(problem.motion, b, *seen[b]) for b in how.bodies), *own]
    none = jnp.zeros((how.riding.rows, 1), problem.q.dtype)
    riding = Rows(how.riding, rows.topology, tuple(map(joined, zip(*K, strict=True))), *[none] * 5)
    return Gathered(problem._replace(rows=riding), joined(C), how)


def _seen(model: Model, slots: Sequence[tuple[AtSlots, int]]) -> tuple[Array, Array, bool]:
    """Return the point of the motion of a body with these slots, each with the body's number among its own, the axes of
    the motion as rows, and whether these are the axes of all slots."""
    touching = [(x, k) for x, k in slots if not isinstance(x, Twist)]
    points, shares = zip(*(own for x, k in touching for own in _surface(x, k)), strict=True)
    normal, planes = touching[0][0].touch.normal[0], {plane for x, _ in slots for plane in _planes(model, x.group)}
    alike = len(planes) == 1 and None not in planes
    axes = jnp.stack([normal, *plane_axes(normal)]) if alike else eye(normal)
    return summed(points) / jnp.maximum(summed(shares), 1), axes, alike


def _surface(slots: AtSlots, k: int) -> Iterator[tuple[Array, Array]]:
    """Yield for each slot the point on the surface of the slots' k-th body, and 1; both zero if the slot is at another
    body. What it touches may be far away, and so is the point midway then."""
    touch = slots.touch
    for gap, point, normal, way in zip(touch.gap, touch.point, touch.normal, slots.ways[k], strict=True):
        share = jnp.abs(way)
        yield share * point + scaled(0.5 * way * gap, normal), share


def _planes(model: Model, group: Group) -> set[tuple[int, int] | None]:
    """Return the planes of the world that a group's shapes touch, each with its place in the pair; None for others."""
    shapes, pairs, found = model.collision.shapes, owners(model), set()
    for pair in {pairs[k] for k in group.places}:
        own = [(k, side) for side, k in enumerate(pair) if shapes[k].kind == "plane" and shapes[k].body == WORLD]
        found.add(own[0] if own else None)
    return found


def _motion(motion: Kinematics, b: int, point: Array, axes: Array, alike: bool) -> tuple[Array, Array]:
    """Return the coefficients (angular, linear) of a body's motion, (6, 3, lanes) each."""
    rotation, translation = (x[b] for x in motion.world)
    own, arm = [mtv(rotation, axis) for axis in axes], mtv(rotation, point - translation)
    none = [jnp.zeros_like(x) for x in own]
    return jnp.stack([*own, *(cross(arm, x) for x in own)]), jnp.stack([*none, *own])


def _combined(slots: AtSlots, k: int, point: Array, axes: Array, alike: bool) -> Array:
    """Return the coefficients (rows, 6, lanes) of slots on the motion of their k-th body."""
    rows: list[Any] = []
    for at, normal, way in zip(slots.touch.point, slots.touch.normal, slots.ways[k], strict=True):
        directions = eye(normal) if alike else jnp.stack([normal, *plane_axes(normal)])
        if isinstance(slots, Twist):
            parts = [(directions[0], jnp.zeros_like(directions[0]))]
        else:
            arm = mv(axes, at - point)
            parts = [(cross(arm, x), x) for x in directions]
        rows += [way * joined(jnp.broadcast_arrays(*x)) for x in parts]
    return jnp.stack(jnp.broadcast_arrays(*rows))
