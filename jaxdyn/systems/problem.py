"""The problem that every solver gets: M q̈ − Jᵀλ = r1, J q̈ = r2, as bodies, joints and rows rather than matrices.

A solver starts from given accelerations of the bodies and corrects them, so that the first solve and every
refinement are the same code: r1 and r2 are what the *undamped* equations leave over at the present accelerations.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..dynamics.rnea import body_forces, joint_forces, passive_at, rotors
from ..kinematics.embedding import body_rates, kinematics, reflected
from ..kinematics.forward import Kinematics
from ..kinematics.rows import Rows, evaluate
from ..model.constraints import Constraint
from ..model.model import Model
from ..tree.rows import Plan


class Problem(NamedTuple):
    """Geometry of a configuration (and velocity): what the matrices M and J are made of. `rows` is None if nothing is
    constrained."""

    model: Model
    constraints: tuple[Constraint, ...]
    motion: Kinematics
    rows: Rows | None

    @property
    def q(self) -> Array:
        return self.motion.q

    @property
    def plan(self) -> Plan:
        """Where the rows of the constraints stand."""
        return Plan(()) if self.rows is None else self.rows.plan


class Start(NamedTuple):
    """Where a solver starts: `tau` (nv, lanes) generalised forces, `rows` (m, lanes) the right sides of the
    constraints, body accelerations, and the forces (moment, force) that bodies exert beyond inertia times
    acceleration. None is zero everywhere."""

    tau: Array
    rows: Array | None
    acceleration: Any
    force: Any


def with_gyrostats(model: Model, constraints: Sequence[Constraint], external: Array | None) -> Model:
    """The model whose rotors are gyrostats, as far as no constraint and no wrench acts on them."""
    topology = model.topology
    touched = {b for c in constraints for b in c.layout(topology).bodies}
    rotors = frozenset(b for c in topology.clusters for b in c.rotors if b not in touched)
    if external is not None or not rotors:
        return model
    return dataclasses.replace(model, topology=dataclasses.replace(topology, gyrostats=rotors))


def problem_of(
    model: Model, constraints: Sequence[Constraint], q: Array, v: Array | None = None, a=None, *, falling: bool = False
) -> Problem:
    """Kinematics and rows at q, v and joint accelerations a, which are zero if they are None. Everything is lanes-last.
    With `falling`, which is for problems without constraints, accelerations are a − g and there is no gravity."""
    assert not (falling and constraints), "rows see accelerations without gravity"
    return with_rows(kinematics(model, q, v, a, biased=v is not None, falling=falling), constraints)


def with_rows(motion: Kinematics, constraints: Sequence[Constraint]) -> Problem:
    """The problem of constraints at a motion."""
    return Problem(motion.model, tuple(constraints), motion, evaluate(constraints, motion) if constraints else None)


def start_of(problem: Problem, tau: Array, external: Array | None, *, settled: bool = False) -> Start:
    """The forward dynamics problem at the velocity of the motion, under `tau` and `external`, from the accelerations of
    the problem. If it is `settled`, forces and right sides are those that are left at these accelerations, and bodies
    start from none: the residual is the same, in one sweep less."""
    motion, rows = problem.motion, problem.rows
    given = motion.acceleration if settled else None
    force = body_forces(motion, motion.velocity, given, motion.gravity, external)
    wanted = None if rows is None else rows.wanted(rows.times(motion.velocity))
    tau = tau + passive_at(motion)
    tau = tau if motion.bias is None else tau - rotors(motion)
    start = Start(tau, wanted, motion.acceleration, force)
    if settled:
        left = None if rows is None else rows_left_over(problem, start, motion.acceleration)
        start = start._replace(rows=left, acceleration=None)
    return start


def left_over(problem: Problem, start: Start, rates: Array, bodies, lam: Array | None):
    """The residual r1 = τ − M a − h + Jᵀλ as generalised forces (nv, lanes) and forces of the bodies that oppose them;
    `bodies` are the accelerations of the bodies, None is zero."""
    motion = problem.motion
    force = start.force
    if bodies is not None:
        own = body_forces(motion, None, bodies)
        force = own if force is None else tuple(x + y for x, y in zip(own, force, strict=True))
    if force is None:
        force = still(problem, start.tau)
    if lam is not None and problem.rows is not None:
        force = problem.rows.forces(-lam, force)
    return start.tau - reflected(problem.motion, problem.model.joints.armature, rates), force


def still(problem: Problem, like: Array):
    """No forces, or motions, of the bodies."""
    zero = jnp.zeros((problem.model.nb, 3, like.shape[-1]), like.dtype)
    return zero, zero


def given_accelerations(problem: Problem, start: Start):
    """The accelerations of the bodies that the start gives."""
    return still(problem, start.tau) if start.acceleration is None else start.acceleration


def body_accelerations(problem: Problem, start: Start, rates: Array):
    """The accelerations of the bodies where joints accelerate by `rates`, swept anew."""
    return jax.tree.map(jnp.add, body_rates(problem.motion, rates), given_accelerations(problem, start))


def rows_left_over(problem: Problem, start: Start, bodies) -> Array:
    """The residual r2 = a* − γ − J a (m, lanes)."""
    return start.rows if bodies is None else start.rows - problem.rows.times(bodies)


def residual(problem: Problem, start: Start, rates: Array, bodies, lam: Array) -> tuple[Array, Array]:
    """(r1, r2) in joint coordinates: (nv, lanes) and (m, lanes)."""
    tau, force = left_over(problem, start, rates, bodies, lam)
    r2 = jnp.zeros((0, tau.shape[-1]), tau.dtype)
    if problem.rows is not None:
        r2 = rows_left_over(problem, start, bodies)
    return tau - joint_forces(problem.motion, force), r2


def right_sides(problem: Problem, start: Start) -> tuple[Array, Array | None]:
    """(r1, r2) at zero joint accelerations: what dense solvers take."""
    if start.force is None and start.acceleration is None:
        return start.tau, start.rows
    r1, r2 = residual(problem, start, jnp.zeros_like(start.tau), start.acceleration, None)
    return r1, None if problem.rows is None else r2
