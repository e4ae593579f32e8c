"""The problem that every solver gets: M q̈ − Jᵀλ = r1, J q̈ = r2, as bodies, joints and rows rather than matrices.

A solver starts from given accelerations of the bodies and corrects them, so that the first solve and every
refinement are the same code: r1 and r2 are what the *undamped* equations leave over at the present accelerations.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from ..dynamics.rnea import body_wrenches, forces_up, passive
from ..engine.kernel import kernel
from ..kinematics import rows as rw
from ..kinematics.forward import joint_motion, plus, sweep
from ..model.constraints import Constraint
from ..model.links import Link, inertia_times, links, split_q, split_v
from ..model.model import Model
from ..spatial.small import cross
from ..tree.columns import from_parent
from ..tree.elimination import Joints
from ..tree.field import Field
from ..tree.plan import Group, Multipliers, levels
from ..tree.sweep import down, each
from ..tree.topology import Topology


class Problem(NamedTuple):
    """Geometry of a configuration (and velocity): what the matrices M and J are made of."""

    model: Model
    constraints: tuple[Constraint, ...]
    q: Array
    bundles: tuple[rw.Bundle, ...]
    evaluated: list[rw.Evaluated]
    order: tuple[Group | Multipliers, ...]  # of elimination
    groups: tuple[Group, ...]  # the bodies of it
    links: list[Link]
    joints: list[Joints]
    fields: dict[str, Field]


class Start(NamedTuple):
    """Where a solver starts: `tau` (nv, lanes) generalised forces, `rows` the right sides of the constraints by
    bundle, body accelerations and the forces (moment, force) that the bodies exert beyond inertia times
    acceleration. None is zero everywhere."""

    tau: Array
    rows: list[Array]
    acceleration: Field | None
    force: Field | None


@kernel
def moving_force(mass, first, second, w, l, g):
    """v ×* I v − I g: what a body that does not accelerate exerts."""
    hn, hf = inertia_times(mass, first, second, w, l)
    return cross(w, hn) + cross(l, hf) - cross(first, g), cross(w, hf) - mass * g


@kernel
def _right_side(target, stiffness, damping, gamma, residual, rate):
    return target - stiffness * residual - damping * rate - gamma


Order = Callable[[Topology, Sequence[rw.Bundle]], tuple[Group | Multipliers, ...]]
"""How a solver eliminates a tree with bundles of constraints."""


def problem_of(model: Model, constraints: Sequence[Constraint], q: Array, v: Array | None, order_of: Order) -> Problem:
    """Kinematics and rows at (q, v); v = None means at rest. Everything is lanes-last."""
    topology = model.topology
    fields, constants, coordinates = sweep(model, q, v, biased=v is not None)
    bundles = rw.bundles_of(topology, constraints)
    evaluated = rw.evaluate(model, constraints, q, fields)
    order = order_of(topology, bundles)
    groups = tuple(g for g in order if isinstance(g, Group))
    if groups == levels(topology)[::-1]:
        constants, coordinates = constants[::-1], coordinates[::-1]
    else:
        constants, coordinates = links(model, groups), split_q(topology, q, groups)
    parts = zip(
        constants,
        coordinates,
        split_v(topology, model.joints.armature, groups),
        each(groups, lambda g, own: (own["E"], own["r"]), fields),
        strict=True,
    )
    joints = [Joints(link.par, x, armature, *pose) for link, x, armature, pose in parts]
    return Problem(model, tuple(constraints), q, bundles, evaluated, order, groups, constants, joints, fields)


def start_of(problem: Problem, v: Array, tau: Array, external: Array | None) -> Start:
    """The forward dynamics problem at velocity v under `tau` and `external`, from zero joint accelerations."""
    model, fields = problem.model, problem.fields
    force = Field()

    def body(group, own, link):
        n, f = moving_force(link.mass, link.first, link.second, own["w"], own["l"], own["g"])
        if external is not None:
            en, ef = body_wrenches(external, group)
            n, f = n - en, f - ef
        force.add(group.nodes, (n, f))

    each(problem.groups, body, fields, problem.links)
    velocity, acceleration = (paired(problem.groups, fields, *x) for x in (("w", "l"), ("aw", "al")))
    rates = rw.times(problem.bundles, problem.evaluated, velocity)
    rows = [
        _right_side(e.target, e.stiffness, e.damping, e.rows.gamma, e.rows.residual, rate)
        for e, rate in zip(problem.evaluated, rates, strict=True)
    ]
    return Start(tau + passive(model, problem.q, v), rows, acceleration, force)


def paired(groups: Sequence[Group], fields: dict[str, Field], angular: str, linear: str) -> Field:
    """Two fields as one of pairs, by the columns of `groups`."""
    out = Field()
    each(groups, lambda g, own: out.add(g.nodes, (own[angular], own[linear])), fields)
    return out


def right_sides(problem: Problem, start: Start) -> tuple[Array, list[Array]]:
    """(r1, r2) in joint coordinates at zero joint accelerations: what dense solvers take."""
    rows, tau = start.rows, start.tau
    if start.acceleration is not None:
        now = rw.times(problem.bundles, problem.evaluated, start.acceleration)
        rows = [b - x for b, x in zip(rows, now, strict=True)]
    if start.force is None:
        return tau, rows
    force = Field()

    def body(group, own, link):
        n, f = own["force"]
        if start.acceleration is not None:
            a, b = inertia_times(link.mass, link.first, link.second, *own["a"])
            n, f = n + a, f + b
        force.add(group.nodes, (n, f))

    state = {"force": start.force} | ({} if start.acceleration is None else {"a": start.acceleration})
    each(problem.groups, body, state, problem.links)
    model = problem.model
    groups = levels(model.topology)
    constants = links(model, groups)
    return tau - forces_up(model, problem.fields, constants, split_q(model.topology, problem.q, groups), force), rows


def accelerations_of(problem: Problem, rates: Sequence[Array]) -> Field:
    """Accelerations (angular, linear) of all bodies by joints that accelerate by `rates` (rows, k, lanes) a group."""

    def step(group, parent, joints, x):
        zero = jnp.zeros((3, len(group), x.shape[-1]), x.dtype)
        moved = (zero, zero) if parent is None else from_parent(joints.E, joints.r, *parent["a"])
        return {"a": plus(moved, joint_motion(group.kind)(joints.par, joints.q, x))}, None

    return down(problem.groups[::-1], step, problem.joints[::-1], rates[::-1])[0]["a"]
