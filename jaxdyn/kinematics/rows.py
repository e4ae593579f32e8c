"""`Rows`: the rows of all constraints as the engine uses them, with the products J a and Jᵀ λ."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import lanes_of, widen
from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..model.constraints import BodyView, Constraint, JointView, Layout, RobotView
from ..spatial.small import summed
from ..tree.carriers import carried
from ..tree.columns import row_forces, row_rates
from ..tree.plan import Plan
from ..tree.sweep import q_of, refs
from ..tree.topology import Topology
from .forward import Kinematics


def plan_of(topology: Topology, constraints: Sequence[Constraint]) -> Plan:
    """Return the plan of constraints. Constraints with equal layouts share one object."""
    return _plan(tuple(c.layout(topology) for c in constraints))


@tables
def _plan(layouts) -> Plan:
    return Plan(layouts)


class Rows(eqx.Module):
    """The rows of all constraints of a robot: ``sum_i K_i V_i`` and ``sum_i K_i A_i + gamma``.

    **Fields:** `K`, coefficients (angular, linear) as (cells, 3, lanes) each, see `Plan`; `gamma`, `residual`,
    `target`, `stiffness`, `damping`, (m, lanes) each.
    """

    plan: Plan = eqx.field(static=True)
    topology: Topology = eqx.field(static=True)
    K: tuple[Array, Array]
    gamma: Array
    residual: Array
    target: Array
    stiffness: Array
    damping: Array

    def times(self, motion) -> Array:
        """Return J a (m, lanes), where a are the motions (angular, linear) of the bodies."""
        return swept(_times(self.plan), {"K": self.K, "motion": motion})["image"]

    def forces(self, x: Array, others=None):
        """Return Jᵀ x as (moment, force) of all bodies, (nb, 3, lanes) each, plus `others` if they are given."""
        given = {"K": self.K, "x": x} | ({} if others is None else {"force": others})
        return swept(_forces(self.topology.nb, self.plan), given)["force"]

    def squares(self) -> Array:
        """Return the squared lengths (m, lanes) of the rows of K, summed over all bodies."""
        return swept(_squares(self.plan), {"K": self.K})["square"]

    def sizes(self) -> "Rows":
        """Return rows with the magnitudes of K, whose products bound the terms of J a."""
        return dataclasses.replace(self, K=(jnp.abs(self.K[0]), jnp.abs(self.K[1])))

    def wanted(self, rates: Array) -> Array:
        """Return a* − γ (m, lanes), where `rates` are the rows' velocities J v."""
        return self.target - self.stiffness * self.residual - self.damping * rates - self.gamma


def _image(K, motions):
    return summed(row_rates(k, a) for k, a in zip(K, motions, strict=True))


def _pull(K, x):
    return tuple(row_forces(k, x) for k in K)


def _square(K):
    return summed((x * x).sum(1) for pair in K for x in pair)


@tables
def _squares(plan: Plan) -> Table:
    return Table(plan.each(lambda c: Row(Step(_square), (plan.K(c),), plan.row("square", c))), {"square": plan.rows})


@tables
def _times(plan: Plan) -> Table:
    row = lambda c: Row(Step(_image), (plan.K(c), refs("motion", plan.bodies(c))), plan.row("image", c))  # noqa: E731
    return Table(plan.each(row), {"image": plan.rows})


@tables
def _forces(nb: int, plan: Plan) -> Table:
    row = lambda c: Row(Step(_pull), (plan.K(c), plan.row("x", c)), refs("force", plan.bodies(c)))  # noqa: E731
    return Table(plan.each(row), {"force": nb})


def _evaluate(layout: Layout, constraint, attachments, bodies, robot, joints):
    """Return K, gamma and residual of one constraint, and its target and gains."""
    # `evaluate` is written for k constraints of one signature side by side; here k = 1
    one = lambda tree: jax.tree.map(lambda x: x[..., None, :], tree)  # noqa: E731
    views = [BodyView(*one(pose), *one(twist)) for pose, twist in _with_twists(bodies)]
    dtype = constraint.target.dtype
    itself = jnp.eye(3, dtype=dtype)[:, :, None, None], jnp.zeros((3, 1, 1), dtype)
    placements = [itself if placed is None else tuple(one(placed)) for placed in attachments]
    looks = [None if j is None else JointView(*one((j[0], j[1], *j[2]))) for j in joints]
    mass, center = robot
    seen = RobotView(mass, center, lambda k: looks[k])
    rows = one(constraint).evaluate(layout, placements, views, seen)
    n, lanes = layout.rows, lanes_of(rows)
    flat = lambda x: jnp.broadcast_to(x, (n, *x.shape[1:-2], 1, lanes))[..., 0, :]  # noqa: E731
    gains = constraint.stabilization
    each = lambda x: jnp.broadcast_to(x, (n, x.shape[-1]))  # noqa: E731
    K = tuple(_pair(flat(a), flat(b)) for a, b in rows.K)
    return K, (flat(rows.gamma), flat(rows.residual)), (constraint.target, each(gains.stiffness), each(gains.damping))


def _pair(a, b):
    shape = jnp.broadcast_shapes(a.shape, b.shape)
    return jnp.broadcast_to(a, shape), jnp.broadcast_to(b, shape)


def _with_twists(bodies):
    for pose, twist in bodies:
        still = jnp.zeros_like(pose[1])
        yield pose, (still, still) if twist is None else twist


@tables
def _evaluation(
    topology: Topology, plan: Plan, names: tuple[tuple[str, int], ...], moving: bool, still: frozenset[tuple[int, int]]
) -> Table:
    first: dict[Any, Layout] = {}
    places = carried(topology, plan.layouts).places

    def row(c):
        layout = plan.layouts[c]
        layout_of = first.setdefault(layout.signature, layout)
        pose = lambda b: (Ref("rest", 0), None) if (c, b) in still else (places[c][b], Ref("velocity", b))  # noqa: E731
        bodies = tuple((at, twist if moving else None) for at, twist in map(pose, layout.bodies))
        placed = tuple(None if k is None else Ref("frame", k) for _, k in layout.attachments)
        joints: tuple = (None,) * len(layout.attachments)
        if layout.joints:
            joints = tuple((q_of(topology, b), Ref("joint", b), Ref("pose", b)) for b, _ in layout.attachments)
        robot = Ref("mass", 0, topology.nb), Ref("center", 0, topology.nb)
        reads = (Ref(*names[c]), placed, bodies, robot, joints)
        wants = tuple(plan.row(name, c) for name in ("target", "stiffness", "damping"))
        writes = (plan.K(c), (plan.row("gamma", c), plan.row("residual", c)), wants)
        return Row(Step(_evaluate, (layout_of,)), reads, writes)

    per_row = dict.fromkeys(("gamma", "residual", "target", "stiffness", "damping"), plan.rows)
    return Table(plan.each(row), {"K": plan.cells} | per_row)


def evaluate(
    constraints: Sequence[Constraint], motion: Kinematics, still: frozenset[tuple[int, int]] = frozenset()
) -> Rows:
    """Return the rows of all constraints for the given motion of the bodies. If `motion` has no velocity, the biases
    are those at rest. `still` lists (constraint, body) pairs for which the body counts as at rest at the origin."""
    model = motion.model
    topology = model.topology
    plan = plan_of(topology, constraints)
    names, given = stacked([layout.signature for layout in plan.layouts], constraints)
    given |= {"world": motion.world, **motion.joints}
    given |= {"frame": (model.frames.rotation, model.frames.translation)}
    given |= {"mass": model.bodies.mass, "center": model.bodies.center_of_mass}
    if motion.velocity is not None:
        given["velocity"] = motion.velocity
    dtype = motion.q.dtype
    given["rest"] = jnp.eye(3, dtype=dtype)[None, ..., None], jnp.zeros((1, 3, 1), dtype)
    seen = carried(topology, plan.layouts).table
    if seen.rows:
        given |= swept(seen, {"pose": motion.pose})
    found = swept(_evaluation(topology, plan, names, motion.velocity is not None, still), given)
    return Rows(plan, topology, **found)


def stacked(signatures: Sequence[Any], items: Sequence[Any]) -> tuple[tuple[tuple[str, int], ...], dict[str, Any]]:
    """Stack trees, such as constraints, as the cells of fields, one field for each signature. Return the field and the
    cell of each tree, and the fields."""
    groups: dict[Any, list[int]] = {}
    for k, signature in enumerate(signatures):
        groups.setdefault(signature, []).append(k)
    names: dict[int, tuple[str, int]] = {}
    fields = {}
    for n, members in enumerate(groups.values()):
        leaves = zip(*[jax.tree.leaves(items[k]) for k in members], strict=True)
        beside = [_beside(group) for group in leaves]
        fields[f"kind {n}"] = jax.tree.unflatten(jax.tree.structure(items[members[0]]), beside)
        names |= {k: (f"kind {n}", cell) for cell, k in enumerate(members)}
    return tuple(names[k] for k in range(len(items))), fields


def _beside(group: Sequence[Array]) -> Array:
    return jnp.stack(widen(list(group), lanes_of(group)))
