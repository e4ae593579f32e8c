"""The equations of one step with contact: M a − J_lᵀν − J_cᵀf = r1, J_l a = r2, and the law between f and
s = J_c a + c + R f.

One elimination carries the contact rows up the tree to the world (they *ride*) and keeps them there; on trees they ride
after it, and only where they may be needed (`passes.py`). Their coupling is
G = J_c M⁻¹ J_cᵀ, with the M of the robot with closed loops. The law is solved with it, and the downward sweep applies
its forces. Arrays are lanes-last; a lane is one element of the batch.
"""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..delassus.riding import factor_of
from ..dynamics.rnea import stiffened
from ..engine.core import at_or_zero, joined, lanes_of, widen
from ..kinematics.embedding import body_rates, kinematics, reflected
from ..kinematics.rows import Rows
from ..kinematics.straight import apparent, moved
from ..systems.body_factor import body_factor, cliques_of
from ..systems.problem import Problem, Start, body_accelerations, residual, start_of, still, with_gyrostats, with_rows
from ..systems.weights import automatic_weights
from ..tree.factor import SWEPT, Factor, kept_of
from ..tree.order import elimination, kept_riders
from ..tree.plan import Plan
from . import smooth
from .closing import closing
from .cones import Cones, Counts, natural
from .effect import Unformed
from .gathered import Gathered, gathered
from .goals import goals, limited
from .joints import Held, held_of, joint_rows
from .laws import Around, Closing, Impact, Law
from .limbs import groups_of, rubbing_and_limited
from .parts import parts_of
from .slots import Slots, slots_at


class Step(NamedTuple):
    """The equations of a step: the problem, with the rows of the first `held` constraints followed by contact rows; the
    start of solvers, with right sides a* − γ of the former and −c of the latter; `right`, what contact rows ask of the
    changes that the step makes to the accelerations of the start; `cones` and `compliance` R of the law; and the slots.
    """

    problem: Problem
    start: Start
    right: Array
    held: int
    cones: Cones
    compliance: Array
    slots: Slots

    @property
    def first(self) -> int:
        """Return the first contact row."""
        return self.problem.plan.starts[self.held]

    def loops(self) -> Problem:
        """Return the problem without contact."""
        rows, first = self.problem.rows, self.first
        constraints = self.problem.constraints[: self.held]
        if not constraints:
            return self.problem._replace(constraints=(), rows=None)
        plan = Plan(rows.plan.layouts[: self.held])
        per_row = [x[:first] for x in (rows.gamma, rows.residual, rows.target, rows.stiffness, rows.damping)]
        own = Rows(plan, rows.topology, tuple(x[: plan.cells] for x in rows.K), *per_row)
        return self.problem._replace(constraints=constraints, rows=own)

    def answer(self, bodies, f: Array) -> Array:
        """Return s of the contact rows, for accelerations of the bodies and contact forces f."""
        moved = self.problem.rows.times(bodies)[self.first :]
        return moved - self.start.rows[self.first :] + self.compliance * f


def begun(
    law: Law, model, constraints, q, v, tau, external, dt, which: Array | None = None, recursive: bool = False
) -> Step:
    """Return the step of a model (lanes-last) under constraints and contact, with slots at the places `which` (None:
    those with the least gaps). If `recursive`, rotors may be gyrostats (see `with_gyrostats`). Springs and dampers of
    joints act at the end of the step. With an `Impact`, dt is 1 and `tau` an impulse; with a `Closing`, q and v are
    those after a step, and `tau` its forces along the contact rows."""
    groups, strikes = groups_of(model, law), isinstance(law, Impact)
    rows, joints = joint_rows(model, law), held_of(model, law)
    if recursive:
        model = with_gyrostats(model, (*constraints, *groups, *rows), external)
    if not isinstance(law, Around):
        model = eqx.tree_at(lambda m: m.joints.armature, model, stiffened(model.joints, dt))
    motion = kinematics(model, q, v, None, biased=True)
    slots = slots_at(model, groups, motion, which)
    problem = with_rows(motion, (*constraints, *slots.touching, *slots.twists, *rows))
    rates = problem.rows.times(problem.motion.velocity)
    first = problem.plan.starts[len(constraints)]
    rub = bool(rubbing_and_limited(model, law)[0])
    counts = Counts(len(slots.surface.friction), slots.twisted, len(joints.bound), rub)
    held = len(constraints)
    if isinstance(law, Closing):
        return _corrected(problem, v, tau, dt, held, counts, slots, joints)
    c, compliance = goals(law, slots.surface, counts, problem.rows.residual[first:], rates[first:], dt)
    none = jnp.zeros((0, 1), q.dtype)
    radius = slots.surface.torsion[jnp.asarray(slots.twisted, int)] if slots.twisted else none
    position = problem.rows.residual[first + counts.ends[1] :]
    parts = parts_of(model.topology, problem.plan, first)
    cones = Cones(counts, slots.surface.friction, radius, limited(law, joints, position, dt), parts)
    if strikes:
        start, right = Start(tau, joined([-rates[:first], -c]), None, None), -c
    else:
        start, right = _started(problem, tau, external, dt, v, first, c)
    return Step(problem, start, right, held, cones, compliance, slots)


def _corrected(problem: Problem, v, f, dt, held: int, counts: Counts, slots: Slots, joints: Held) -> Step:
    """Return the equations that correct the end of a step with forces f along the contact rows."""
    first, open_by, surface = problem.plan.starts[held], problem.rows.residual, slots.surface
    given = open_by[first:], dt, f, surface.restitution, surface.stiffness
    cones, c, had = closing(counts, joints, *given)
    cones = dataclasses.replace(cones, parts=parts_of(problem.model.topology, problem.plan, first))
    force = problem.rows.forces(joined([jnp.zeros((first, 1), f.dtype), had]), still(problem, had))
    start = Start(jnp.zeros_like(v), joined([-open_by[:first] / (dt * dt), -c]), None, force)
    return Step(problem, start, -c, held, cones, jnp.zeros_like(c), slots)


def _started(problem: Problem, tau, external, dt, v, first: int, c: Array) -> tuple[Start, Array]:
    """Return the start of a step, with −c as right sides of contact, and what these ask of changes (see `Step`)."""
    motion, start = problem.motion, start_of(problem, tau, external)
    # contact rows keep the J of the step's start, so that s = (J v⁺ − goal) / dt: bias accelerations do not count, but
    # those that come of the coordinates alone do
    turning = problem.rows.times(body_rates(motion, apparent(motion.model.topology, v)))[first:]
    right = -turning - c
    gained = problem.rows.times(start.acceleration)[first:]
    late = reflected(motion, dt * motion.model.joints.stiffness, v)
    return start._replace(tau=start.tau - late, rows=joined([start.rows[:first], gained + right])), right


class Kept(NamedTuple):
    """The factor of the robot with its loops, in which contact rows are kept. `G` is the Delassus matrix of these plus
    their compliances, and `rounding` (m, lanes) that of its diagonal; `weights` are the μ of the loops. Loops ride to
    the common ancestors of their bodies and are eliminated there, or are `penalised` if bodies may have no inertia of
    their own."""

    problem: Problem
    weights: Array
    factor: Factor
    own: Gathered
    G: Array | Unformed
    rounding: Array
    penalised: bool

    def corrected(self, tau, force, r2, top):
        """Return x, the motions of the bodies, y and J x, like `System.solve`. ``top(b)`` returns the change of the
        contact unknowns and the change of the forces along contact rows, from b = r2 − J x at constant forces."""
        rows, first = self.problem.rows, len(self.weights)
        lanes = max(tau.shape[-1], r2.shape[-1])
        none = jnp.zeros((first, lanes), r2.dtype)
        if self.penalised:
            force = rows.forces(-joined([self.weights * r2[:first], jnp.zeros_like(r2[first:])]), force)
        riding = self.own.problem.plan.rows
        still = jnp.zeros((riding - first, lanes), r2.dtype)
        up = self.factor.up(tau, force, joined([none if self.penalised else r2[:first], still]))
        z, push = top(r2[first:] + self.own.rates(up["b"][first:riding]))
        x, moved, nu = self.factor.down(kept_of(up), joined([none, -self.own.pushes(push)]))
        image = rows.times(moved)
        held = self.weights * (r2[:first] - image[:first]) if self.penalised else -nu[:first]
        return x, moved, joined([held, z]), image


class Eliminated(NamedTuple):
    """The factor of the robot with its loops. If its tables say that rows ride `later`, contact rows have not ridden
    yet. **Fields** are as in `Kept`; `compliance` is R; `apart`: G is not formed."""

    problem: Problem
    weights: Array
    factor: Factor
    own: Gathered
    compliance: Array
    held: int
    apart: bool
    penalised: bool

    def ridden_after(self, up) -> tuple[Kept, Array]:
        """Return the factor in which contact rows are kept, if they ride after a way `up`, and b − J a of these rows
        (m, lanes) for right sides b of zero when no forces act along them."""
        factor, b = self.factor.ridden_after(up)
        return self._replace(factor=factor).kept(), self.own.rates(b)

    def kept(self) -> Kept:
        """Return the factor in which contact rows are kept; its G is a matrix unless it is `apart`."""
        factor, weights, plan = self.factor, self.weights, self.own.problem.plan
        first, cells, blocks = len(weights), factor.parts["L"], factor.tables.blocks
        parts = {name: x for name, x in factor.parts.items() if name in SWEPT}
        factor, R = Factor(factor.tables, factor.joints, parts), self.compliance
        if self.apart:
            diagonal = at_or_zero(cells, plan.diagonal(blocks, len(cells))[first:])
            G = Unformed(self.problem, weights, factor, R, diagonal + R, self.held, self.penalised)
            rounding = jnp.zeros_like(diagonal)
        else:
            L = at_or_zero(cells, plan.placed(blocks, len(cells))[first:, first:])
            G, rounding = self.own.matrix(L, frozenset(blocks)), self.own.rounding(L)
            G = widen(G, lanes_of(G, R)) + jnp.eye(len(R), dtype=G.dtype)[..., None] * R
        return Kept(self.problem, weights, factor, self.own, G, rounding, self.penalised)


def eliminated(step: Step, law: Law) -> Eliminated:
    """Return the factor of a step's robot, in which contact rows of trees have not ridden yet. G will be a matrix
    unless the law works without one."""
    problem, held, first = step.problem, step.held, step.first
    apart = law.without_matrix(problem.plan.rows - first)
    own = gathered(problem, held, apart)
    weights, riding = automatic_weights(step.loops()), own.problem
    every = joined([weights, jnp.ones((riding.plan.rows - first, 1), problem.q.dtype)])
    penalised = held > 0 and problem.model.topology.singular
    if penalised:
        factor = _penalised(riding, held, every, apart)
    else:
        factor = factor_of(riding, held, every, apart=apart, later=True)
    return Eliminated(problem, weights, factor, own, step.compliance, held, apart, penalised)


def touching(step: Step, law: Law) -> Kept:
    """Return the factor of a step in which contact rows are kept."""
    found = eliminated(step, law)
    return found._replace(factor=found.factor.ridden()).kept()


def _penalised(problem: Problem, held: int, weights: Array, apart: bool):
    """Return the factor in which the first `held` constraints are penalties."""
    plan, loops, kept = problem.plan, tuple(range(held)), range(held, len(problem.plan))
    order = elimination(problem.model.topology, cliques_of(plan, loops), kept_riders(plan, kept))
    return body_factor(problem, order, weights, frozenset(kept), penalised=loops, apart=apart).factor


def residuals(law: Law, model, constraints, q, v, tau, external, dt, which, w, a, nu, f):
    """Return the residuals (r1, r2, r3) at any a, ν and f: (nv, lanes), (loops' rows, lanes) and, for contact with the
    weights `w` of the natural map and slots at the places `which`, (m, lanes)."""
    step = begun(law, model, constraints, q, v, tau, external, dt, which)
    bodies = body_accelerations(step.problem, step.start, a)
    r1, r = residual(step.problem, step.start, a, bodies, joined([nu, f]))
    s = step.compliance * f - r[step.first :]
    return r1, r[: step.first], natural(step.cones, w, f, s, smooth.forces(law.smoothing, w, dt))


def end_of(model, q, v, dt, a):
    """Return q and v after the step."""
    return moved(model, q, v + dt * a + dt * apparent(model.topology, v), dt)


def gaps(law: Law, model, q, which) -> Array:
    """Return the gaps (slots, lanes) of slots at the places `which`."""
    touching = slots_at(model, groups_of(model, law), kinematics(model, q), which).touching
    return joined([jnp.zeros((0, 1), q.dtype), *(rows.touch.gap for rows in touching)])
