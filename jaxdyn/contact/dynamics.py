"""One step with contact, and its implicit derivatives.

Derivatives are those of the equations of `jaxdyn.contact.problem.residuals`. The derivative of the natural map covers
all states of a contact (breaking, sticking, sliding) in one rule.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..constrained.base import Found
from ..constrained.implicit import tangent_of
from ..constrained.iteration import Stop, tolerance
from ..constrained.lcaba import LCABA, damped
from ..constrained.linearised import Operands
from ..constrained.multipliers import multipliers
from ..constrained.result import MEMBERS, ended, jumped
from ..engine.core import Core, bind, joined, lanes_of, widen
from ..model.checks import rows_of as rows_of_loops
from .cones import calling, measures, natural, scales
from .immovable import tolerated, weighed
from .laws import Closing, Impact, Law
from .limbs import groups_of, rows_of
from .linear import ContactSolve
from .passes import Solved, solved
from .problem import Step, begun, end_of, gaps, residuals
from .warm_start import forces_at

#: the largest residual of a law that counts as converged, relative to the measures of rows (see `cones.measures`)
LAWFUL = 1e-3
#: the rounding of rows, over that of bodies' velocities and accelerations
ROUNDING = 4


def _unknown(model) -> Array:
    """Return whether a property of a shape's surface is not a number (1 or lanes,): comparisons would count it as zero.
    Infinite ones have a meaning."""
    of = model.collision
    properties = jax.tree.leaves((of.friction, of.torsion, of.restitution, of.stiffness, of.damping))
    return sum((jnp.isnan(x).sum(0) for x in properties), jnp.zeros(1, int)) > 0


@dataclasses.dataclass(frozen=True)
class ContactStep(Core):
    """The core (a function on lanes-last arrays with its own derivatives) of one step with contact.

    It maps (model, constraints, q, v, tau, external, dt, warm) to a (nv,), ν of the constraints, contact forces f, the
    weights of the natural map, gaps, the result code, the residual of the law (m/s), q and v after the step, another ν
    that is not the least-norm one (which takes a factor of its own), and the places of the chosen slots. `tree` is the
    structure of all operands; `warm` is a `WarmStart`."""

    law: Law
    tree: Any
    known: tuple[bytes | None, ...]
    compiler: str = "auto"

    implicit: ClassVar[int] = 11

    def shapes(self, used, avals):
        model, constraints, q, v, *_ = jax.tree.unflatten(self.tree, avals)
        dtype, whole, groups = v[1], jnp.dtype(jnp.int32), groups_of(model, self.law)
        of_loops, of_contact = rows_of_loops(model, constraints), rows_of(model, self.law)
        nu, f, slots = ((of_loops,), dtype), ((of_contact,), dtype), sum(group.slots for group in groups)
        chosen = sum(group.slots for group in groups if group.chosen)
        ends = ((slots,), dtype), ((), whole), ((), dtype)
        return v, nu, f, f, *ends, q, v, nu, ((chosen,), dtype)

    def run(self, args, used):
        lanes = lanes_of(args)
        model, constraints, q, v, tau, external, dt, warm = jax.tree.unflatten(self.tree, args)
        q, v, tau = widen((q, v, tau), lanes)
        # a correction keeps the slots of the step, to which its forces belong
        which = warm.which if isinstance(self.law, Closing) else None
        step = begun(self.law, model, constraints, q, v, tau, external, dt, which, recursive=True)
        first, counts = step.first, step.cones.counts
        warm = None if warm is None else forces_at(groups_of(model, self.law), first, warm, step.slots.which)
        reads = (True,) * 11 if used is None else used
        found = solved(step, self.law, warm)
        a, nu, f = found.at.rates, found.at.lam[:first], found.at.lam[first:]
        some = nu
        own, moves, _ = found.ridden
        w, s = scales(counts, own), -found.left[first:]
        off = jnp.abs(natural(step.cones, w, f, s) / w)
        code = jnp.zeros(lanes, jnp.int32)
        if reads[5] or reads[1] and first:
            nu, code = self._told(step, found, (off, w), reads, (q, v, tau, external, dt))
        if self.law.smoothing:  # for derivatives only: with these weights single rows are exactly on the central path
            w = scales(counts, own, apart=True)
        w = weighed(counts, w, moves)
        return [
            a,
            nu,
            f,
            widen(w, lanes),
            step.problem.rows.residual[first : first + 3 * counts.contacts : 3],
            code,
            dt * off.max(0),
            *end_of(model, q, v, dt, a),
            some,
            step.slots.which,
        ]

    def _told(self, step: Step, found: Solved, left, reads, inputs):
        """Return the minimum-norm ν, and the result code; `left` are what is left of the law and the weights."""
        first, at, (_, v, *_, dt) = step.first, found.at, inputs
        nu, f = at.lam[:first], at.lam[first:]
        problem = step.loops()
        rows = step.problem.rows
        padded = joined([jnp.zeros((first, f.shape[-1]), f.dtype), -f])
        start = step.start._replace(rows=step.start.rows[:first] if first else None)
        start = start._replace(force=rows.forces(padded, start.force))
        if first and reads[1]:
            stop = Stop(tolerance(f.dtype), 30)
            nu, _ = multipliers(damped(problem), start, at.rates, at.bodies, stop)
        if not reads[5]:
            return nu, jnp.zeros(f.shape[-1], jnp.int32)
        judge = None if first else dataclasses.replace(found.judge, problem=problem)
        motion = Found(at.rates, nu, found.steps, None, None, at.bodies, at.lam[:first], judge)
        if isinstance(self.law, Impact):
            code = jumped(LCABA(), problem, start, motion, v)
        else:
            code = ended(LCABA(), problem, start, motion, v + dt * at.rates, inputs)
        called = calling(step.cones, -found.left[first:] - found.ridden.effect)
        off, w = left
        most = measures(step.cones, LAWFUL * called + self._noise(step, at.bodies, w, dt), w)
        most = most + tolerated(step, found.ridden.moves, self.law.recovery, dt)
        lost = (code == 0) & ~(off <= most).all(0)
        code = jnp.where(lost, MEMBERS.index("contact_not_converged"), code)
        return nu, jnp.where(_unknown(step.problem.model), MEMBERS.index("not_finite"), code).astype(jnp.int32)

    def _noise(self, step, bodies, w, dt):
        """Return the rounding of contact rows (m, lanes), as accelerations, where the bodies have the given ones:
        bodies that move alike leave only that between them."""
        problem, first, a = step.problem, step.first, step.cones.counts.ends[0]
        moves = zip(problem.motion.velocity, bodies, strict=True)
        angular, linear = (jnp.abs(x) / dt + jnp.abs(y) for x, y in moves)
        rows = problem.rows.sizes().times((angular, linear))[first:]
        model, own = problem.motion.model, jnp.asarray(problem.plan.firsts[first + a :], int)
        weight = 0 if isinstance(self.law, Impact) else jnp.abs(model.gravity).max(0)  # gravity gives no impulse
        # linear motions and weights round rates of joints too: by as much as has the same energy
        fast = jnp.sqrt(model.bodies.mass[own] / w[a:]) * (linear[own].max(1) + weight)
        return ROUNDING * jnp.finfo(w.dtype).eps * joined([rows[:a] + weight, jnp.maximum(rows[a:], fast)])

    def instead(self, outs, used):
        a, nu, f, w, *_, some, which = outs
        nu = nu if used is None or used[1] else some
        return [a, nu, f, w, *[a] * 5, some, which]

    def tangents(self, primals, tangents, outs, used):
        a, nu, f, w, *_, which = self.instead(outs, used)
        *given, warm = jax.tree.unflatten(self.tree, list(range(len(primals))))
        n = len(primals) - len(jax.tree.leaves(warm))  # derivatives do not depend on where the passes start
        primals, tangents, known = list(primals[:n]), list(tangents[:n]), self.known[:n]
        model, _, q, v, _, _, dt = given

        operands = Operands(known, self.compiler, primals, tangents)
        residual, _ = operands.core(residuals, (self.law,), *given, *[-1] * 5)
        dr = tangent_of(residual, [*primals, which, w, a, nu, f], [*tangents, *[None] * 5])
        solve = ContactSolve((self.law,), residual.tree, (*residual.known, None, None, None), self.compiler)
        x, y, z = bind(solve, *primals, which, w, a, nu, f, *dr)
        none = jnp.zeros(x.shape[-1:], x.dtype)
        (dgap,) = operands.along(gaps, (model, q, -1), which, static=(self.law,))
        dq, dv = operands.along(end_of, (model, q, v, dt, -1), a, x)
        return [x, y, z, jnp.zeros_like(z), dgap, none, none, dq, dv, y, jnp.zeros_like(which)]
