"""The equations of one step of the leapfrog: half a drift, a kick at the midpoint, half a drift.

With q₀ = q ⊕ ½ dt v, v′ = v + dt a, q₊ = q₀ ⊕ dt v′ and q₋ = q₀ ⊖ dt v, which is the q₀ of the step before,

    p(q₀, q₊) + p(q₀, q₋) = dt² (τ + passive + external + gravity + Jᵀλ),      g(q₊) = goal,

where p are the momenta of bodies along chords (`jaxdyn.dynamics.chords`), in the coordinates of q₀, and g are the
position errors (openings) of the rows. Without dampers and forces τ this is the variational integrator of the
Lagrangian ½ Σ m |y(q₊) − y(q₀)|² / dt² − U(q₀), with constraints as in SHAKE.

The equations are linear in a except for terms of the order of dt |v| relative to M a − Jᵀλ and J a. The factor of the
linear system at q₀ corrects a and λ until the changes are small: after k corrections the residual is of the order of
(dt ω)ᵏ for motions that turn at ω.

| symbol | name here | meaning |
| --- | --- | --- |
| D, K | `damping`, `stiffness` | dampers at the step's end, springs at the mean of q₋, q₀, q₀, q₊: M + dt D + ¼ dt² K|
| L | `reach` | openings that curved rows make in one step |

The openings of rows decay at the rate 2k / d of their stabilisation with stiffness k and damping d, which is that of a
critically damped one: goal = g(q₀) / (1 + dt 2k / d). For rows that are open by much more than L the condition is
written in accelerations, g(q₊) = g(q₀) + dt J v′ + ½ dt² γ: the condition that closes curved rows exactly near closure
is inconsistent far from it. Rows with a target follow a* = target − k g − d ġ instead, by central differences.

If the state is projected after the step, all this is replaced by the condition that rows have no rate J(q′) v′ at the
end of the step. Then the projection takes no energy. It only closes openings of odd orders in dt, which come and go.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..dynamics.chords import Displaced, chord_forces, displacements
from ..dynamics.rnea import body_forces, joint_forces, passive
from ..kinematics.forward import accelerations
from ..kinematics.manifold import arrived, integrated
from ..kinematics.rows import evaluate
from ..model.constraints import decay
from ..systems.problem import Problem, Start, problem_of
from .iteration import largest_of

#: 1/s², the default stiffness of `Baumgarte`: it weighs openings against accelerations
STABILISATION = 6400.0
#: openings up to as many roundings of a metre or radian count as closed
CLOSED = 64


class Kick(NamedTuple):
    """The quantities that all corrections of a step share, lanes last. The inertia of `model` includes springs; that of
    `problem` also includes dampers."""

    model: Any
    problem: Problem
    v: Array
    dt: Array
    #: True if the state after the step is projected onto the loops
    projected: bool
    #: generalised forces, forces of the bodies (gravity, external), displacements to q₋
    tau: Array
    force: Any
    before: Displaced

    def left_over(self, a, lam):
        """Return the residual of the equations as generalised forces, opposing forces of the bodies, and openings in
        units of acceleration; `lam` None is zero."""
        motion, rows, dt = self.problem.motion, self.problem.rows, self.dt
        ahead = displacements(motion, dt * (self.v + dt * a))
        inertial = chord_forces(motion, ahead, self.before)
        force = tuple(x + y / dt**2 for x, y in zip(self.force, inertial, strict=True))
        tau = self.tau + passive(self.model, motion.q, self.v + dt * a) - self.model.joints.armature * a
        if rows is None:
            return tau, force, None
        if lam is not None:
            force = rows.forces(-lam, force)
        return tau, force, self._wanted(a, ahead)

    def _wanted(self, a, ahead: Displaced) -> Array:
        """Return the errors of the rows, in units of acceleration, from the displacements to q₊."""
        motion, rows, dt = self.problem.motion, self.problem.rows, self.dt
        w = self.v + dt * a
        if self.projected:
            end = problem_of(self.model, self.problem.constraints, _moved(motion, dt / 2 * w), w)
            return -end.rows.times(end.motion.velocity) / dt
        near, goal, wanted = _wishes(rows, motion, self.v, a, dt)
        there = evaluate(self.problem.constraints, ahead.there(motion, _moved(motion, dt * w))).residual
        return near * (goal - there) / dt**2 + (1 - near) * (wanted - rows.times(accelerations(motion, a)))

    def residuals(self, a, lam):
        """Return (r1, r2) of a and λ: (nv, lanes) and (m, lanes)."""
        tau, force, r2 = self.left_over(a, lam)
        return tau - joint_forces(self.problem.motion, force), jnp.zeros_like(lam) if r2 is None else r2


def _wishes(rows, motion, v, a, dt):
    """Return how near rows are to being closed (lanes,), from 1 to 0; then, (m, lanes) each, the openings wanted at q₊,
    and the accelerations J a that lead to them if openings change by J v."""
    here, k, d = rows.residual, rows.stiffness, rows.damping
    turned = dt * (largest_of(v) + dt * largest_of(a)) * largest_of(a) * jnp.sqrt(largest_of(rows.squares()))
    reach = dt * dt * (largest_of(rows.gamma) + turned)
    near = jnp.clip(2 - largest_of(here) / jnp.maximum(4 * reach, CLOSED * jnp.finfo(here.dtype).eps), 0, 1)
    fade = dt * jnp.where(d > 0, 2 * k / jnp.where(d > 0, d, 1), decay(k))
    # J v is taken at q₀; before, the rows moved at that rate less dt γ / 2
    before = rows.times(motion.velocity) - dt * rows.gamma / 2
    after = (before * (1 - dt * d / 2) + dt * (rows.target - k * here)) / (1 + dt * d / 2)
    change = jnp.where(rows.target != 0, dt * after, dt * dt * rows.target - here * fade / (1 + fade))
    return near, here + change, change / dt**2 - before / dt - rows.gamma


def _moved(motion, dv):
    return integrated(motion.model.topology, motion.q, dv)


def _heavier(model, inertia):
    return eqx.tree_at(lambda m: m.joints.armature, model, model.joints.armature + inertia)


def begun(projected, model, constraints, q, v, tau, external, dt) -> Kick:
    middle = integrated(model.topology, q, dt / 2 * v)
    sprung = _heavier(model, dt * dt / 4 * model.joints.stiffness)
    heavy = _heavier(sprung, dt * model.joints.damping)
    problem = problem_of(heavy, constraints, middle, v if constraints else None)
    motion = problem.motion
    if constraints:  # let rows.gamma be the bias at zero joint accelerations, with velocity products of the bodies
        rows = problem.rows
        problem = problem._replace(
            rows=eqx.tree_at(lambda r: r.gamma, rows, rows.gamma + rows.times(motion.acceleration))
        )
    force = body_forces(motion, None, None, motion.gravity, external)
    return Kick(sprung, problem, v, dt, projected, tau, force, displacements(motion, -dt * v))


def residuals(projected, model, constraints, q, v, tau, external, dt, a, lam):
    """Return (r1, r2) at any (a, λ): (nv, lanes) and (m, lanes)."""
    return begun(projected, model, constraints, q, v, tau, external, dt).residuals(a, lam)


def end_of(model, q, v, dt, a):
    """Return q and v after the step."""
    w = v + dt * a
    middle = integrated(model.topology, q, dt / 2 * v)
    return arrived(model.topology, None, middle, dt / 2 * w), w


def matrix_of(model, q, v, dt):
    """Return where the factorised matrix is evaluated: armature with springs and dampers, and q₀."""
    joints = model.joints
    armature = joints.armature + dt * joints.damping + dt * dt / 4 * joints.stiffness
    return armature, integrated(model.topology, q, dt / 2 * v)


def linear_of(step: Kick, a) -> tuple[Start, Any]:
    """Return the linear problem that has the same residual at a, and the accelerations of the bodies there."""
    problem, motion = step.problem, step.problem.motion
    tau, force, r2 = step.left_over(a, None)
    bodies = accelerations(motion, a)
    force = tuple(x - y for x, y in zip(force, body_forces(motion, None, bodies), strict=True))
    if r2 is not None:
        # openings are differences of positions; dividing by dt² magnifies their rounding
        r2 = r2 * jnp.minimum(1, step.dt**2 * STABILISATION) + problem.rows.times(bodies)
    return Start(tau + problem.model.joints.armature * a, r2, None, force), bodies
