"""The problem that every solver gets, M q̈ − Jᵀλ = r1 and J q̈ = r2, as bodies, joints and constraint rows, not matrices.

A solver starts from given accelerations of the bodies and corrects them: r1 and r2 are the residuals of the *undamped*
equations at the present accelerations. So the first solve and every refinement run the same code. Arrays are
lanes-last; a lane is one element of the batch.
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
from ..spatial.small import cross, dot, eye, mv, outer
from ..tree.plan import Plan


class Problem(NamedTuple):
    """The geometry at a configuration (and velocity), which defines M and J. `rows` is None if there are no
    constraints."""

    model: Model
    constraints: tuple[Constraint, ...]
    motion: Kinematics
    rows: Rows | None

    @property
    def q(self) -> Array:
        return self.motion.q

    @property
    def plan(self) -> Plan:
        """Return the `Plan` that numbers the rows of the constraints."""
        return Plan(()) if self.rows is None else self.rows.plan


class Start(NamedTuple):
    """The start of a solve. `tau` (nv, lanes) are generalised forces, `rows` (m, lanes) the right sides of the
    constraints, `acceleration` those of the bodies, and `force` the (moment, force) of the bodies beyond inertia times
    acceleration. None means zero."""

    tau: Array
    rows: Array | None
    acceleration: Any
    force: Any


def with_gyrostats(model: Model, constraints: Sequence[Constraint], external: Array | None) -> Model:
    """Return the model in which rotors that no constraint acts on are gyrostats (spinning parts of their carriers).
    With `external` wrenches, return the model unchanged."""
    topology = model.topology
    touched = {b for c in constraints for b in c.layout(topology).bodies}
    rotors = frozenset(b for c in topology.clusters for b in c.rotors if b not in touched)
    if external is not None or not rotors:
        return model
    return dataclasses.replace(model, topology=dataclasses.replace(topology, gyrostats=rotors))


def asymmetric(model: Model, least: float) -> Array:
    """Return, per lane, whether a gyrostat is not symmetric about its axis any more, by more than the fraction `least`:
    its mass properties may have been changed under a topology that says that it is."""
    found = []
    for b in sorted(model.topology.gyrostats):
        axis, center, inertia = model.joints.axis[b], model.bodies.center_of_mass[b], model.bodies.rotational[b]
        mass, size = model.bodies.mass[b], jnp.abs(inertia).max((0, 1))
        off = jnp.abs(cross(axis, center)).max(0)
        flat = eye(axis) - outer(axis, axis)
        turned = inertia - dot(axis, mv(inertia, axis)) * outer(axis, axis)
        apart = jnp.abs(turned - (turned[0, 0] + turned[1, 1] + turned[2, 2]) / 2 * flat).max((0, 1))
        found.append((apart > least * size) | (mass * off * off > least * size) | (off > least))
    return jnp.stack(jnp.broadcast_arrays(*found)).any(0)


def problem_of(
    model: Model, constraints: Sequence[Constraint], q: Array, v: Array | None = None, a=None, *, falling: bool = False
) -> Problem:
    """Return the problem (kinematics and rows) at q, v and joint accelerations a, lanes-last; None means zero.

    If `falling`, accelerations are a − g and there is no gravity; this is for problems without constraints only."""
    assert not (falling and constraints), "rows see accelerations without gravity"
    return with_rows(kinematics(model, q, v, a, biased=v is not None, falling=falling), constraints)


def with_rows(motion: Kinematics, constraints: Sequence[Constraint]) -> Problem:
    """Return the problem of the constraints at a motion."""
    return Problem(motion.model, tuple(constraints), motion, evaluate(constraints, motion) if constraints else None)


def start_of(problem: Problem, tau: Array, external: Array | None, *, settled: bool = False) -> Start:
    """Return the start of forward dynamics at the velocity of the motion, under `tau` and `external`, from the
    accelerations of the problem. If `settled`, forces and right sides are the residuals at these accelerations, and
    bodies start from zero: the residual is the same, with one sweep over the tree less."""
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
    """Return the residual r1 = τ − M a − h + Jᵀλ as generalised forces (nv, lanes) and forces of the bodies that oppose
    them. `rates` are the joint accelerations a, `bodies` those of the bodies; None means zero."""
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
    """Return zero forces, or motions, of the bodies."""
    zero = jnp.zeros((problem.model.nb, 3, like.shape[-1]), like.dtype)
    return zero, zero


def given_accelerations(problem: Problem, start: Start):
    """Return the accelerations of the bodies at the start."""
    return still(problem, start.tau) if start.acceleration is None else start.acceleration


def body_accelerations(problem: Problem, start: Start, rates: Array):
    """Return the accelerations of the bodies for joint accelerations `rates`, by a new sweep over the tree."""
    return jax.tree.map(jnp.add, body_rates(problem.motion, rates), given_accelerations(problem, start))


def rows_left_over(problem: Problem, start: Start, bodies) -> Array:
    """Return the residual r2 = a* − γ − J a (m, lanes)."""
    return start.rows if bodies is None else start.rows - problem.rows.times(bodies)


def residual(problem: Problem, start: Start, rates: Array, bodies, lam: Array) -> tuple[Array, Array]:
    """Return (r1, r2) in joint coordinates: (nv, lanes) and (m, lanes)."""
    tau, force = left_over(problem, start, rates, bodies, lam)
    r2 = jnp.zeros((0, tau.shape[-1]), tau.dtype)
    if problem.rows is not None:
        r2 = rows_left_over(problem, start, bodies)
    return tau - joint_forces(problem.motion, force), r2


def right_sides(problem: Problem, start: Start) -> tuple[Array, Array | None]:
    """Return (r1, r2) at zero joint accelerations, for dense solvers."""
    if start.force is None and start.acceleration is None:
        return start.tau, start.rows
    r1, r2 = residual(problem, start, jnp.zeros_like(start.tau), start.acceleration, None)
    return r1, None if problem.rows is None else r2
