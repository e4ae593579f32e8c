"""One step with contact, and its implicit derivatives.

One pass solves the law on top of the factor. Where loops are penalties there are several: in every one the law is
solved anew in the whole forces f, from what the passes before have left, so that with the loops contact becomes exact.

Derivatives are those of the equations of `jaxdyn.contact.problem.residuals`: what the law does (break, stick, slide)
is read from the derivative of its natural map, in one rule for all.
"""

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..constrained.base import Found
from ..constrained.implicit import tangent_of
from ..constrained.iteration import Stop, loop
from ..constrained.lcaba import LCABA, damped
from ..constrained.multipliers import multipliers
from ..constrained.proximal import At, Iteration
from ..constrained.result import MEMBERS, ended
from ..engine.core import Core, Function, bind, joined, widen
from ..systems.problem import left_over
from .cones import calling, natural, product, scales
from .laws import Law
from .linear import ContactSolve
from .pairs import slots_of
from .problem import Step, Touching, begun, end_of, gaps, residuals, touching

#: passes where loops are penalties, in single and double precision: eliminated loops are exact in one
PASSES = {4: 3, 8: 6}
#: what may be left of the law, relative to the largest g
LAWFUL = 1e-3


class _Passes(Iteration):
    """The passes of one step, from a guess of the forces of contact."""

    def __init__(self, law: Law, step: Step, system: Touching, lam: Array | None, guess: Array, stop: Stop):
        super().__init__(system, step.start, lam, stop, None)
        self.law, self.of, self.guess = law, step, guess

    def residual(self, at: At) -> Array:
        left = super().residual(at)
        none = jnp.zeros((self.of.first, self.lanes), self.dtype)
        return left - joined([none, self.of.compliance * at.lam[self.of.first :]])

    def change(self, at: At, r2, refined: bool = True):
        tau, force = left_over(self.problem, self.start, at.rates, at.bodies, at.lam)
        f, G = at.lam[self.of.first :], self.system.G

        def top(b):
            whole = self.law.solve(G, -b - product(G, f), self.of.cones, f if self.guess is None else self.guess)
            return whole - f, whole - f

        x, bodies, y, image = self.system.corrected(tau, force, r2, top)
        made = At(x, bodies, y, jnp.ones(self.lanes, self.dtype))
        return self.wide(made), self.wide(image)


@dataclasses.dataclass(frozen=True)
class ContactStep(Core):
    """(model, constraints, q, v, tau, external, dt, warm) to a (nv,), ν of the constraints, forces f of contact, the
    weights of the natural map, gaps, how it ended, what is left of the law (m/s), and q and v after the step. `tree` is
    the structure of all operands; `warm` are multipliers (ν, f)."""

    law: Law
    tree: Any
    known: tuple[bytes | None, ...]
    compiler: str = "auto"

    implicit: ClassVar[int] = 9

    def run(self, args, used):
        lanes = max(x.shape[-1] for x in args)
        model, constraints, q, v, tau, external, dt, warm = jax.tree.unflatten(self.tree, args)
        q, v, tau = widen(q, lanes), widen(v, lanes), widen(tau, lanes)
        step = begun(self.law, model, constraints, q, v, tau, external, dt, recursive=True)
        system = touching(step)
        first, loops = step.first, bool(constraints)
        passes = PASSES[q.dtype.itemsize] if system.penalised else 1
        stop = Stop(0.0, passes, plain=True)
        m = step.cones.counts.rows
        lam = None if warm is None or passes == 1 else warm
        guess = jnp.zeros((m, 1), q.dtype) if warm is None else warm[first:]
        made = _Passes(self.law, step, system, lam, guess if passes == 1 else None, stop)
        end = loop(lambda s: s.active, made.step, made.begun(), stop)
        at = made.finished(end)
        a, nu, f = at.rates, at.lam[:first], at.lam[first:]
        reads = (True,) * 9 if used is None else used
        w, s = scales(step.cones.counts, system.G), -end.r2[first:]
        off = jnp.abs(natural(step.cones, w, f, s) / w).max(0)
        code = jnp.zeros(lanes, jnp.int32)
        if reads[5] or (reads[1] and loops):
            nu, code = self._told(step, system, end, at, off, reads, (q, v, tau, external, dt))
        return [
            a,
            nu,
            f,
            widen(w, lanes),
            step.problem.rows.residual[first : first + 3 * step.cones.counts.contacts : 3],
            code,
            dt * off,
            *end_of(model, q, v, dt, a),
        ]

    def _told(self, step, system, end, at, off, reads, inputs):
        """ν of minimum norm, and how it ended."""
        first, (_, v, *_, dt) = step.first, inputs
        nu, f = at.lam[:first], at.lam[first:]
        problem = step.loops()
        rows = step.problem.rows
        padded = joined([jnp.zeros((first, f.shape[-1]), f.dtype), -f])
        start = step.start._replace(rows=step.start.rows[:first] if first else None)
        start = start._replace(force=rows.forces(padded, start.force))
        if first and reads[1]:
            stop = Stop(1e-12 if f.dtype == jnp.float64 else 1e-6, 30)
            nu, _ = multipliers(damped(problem), start, at.rates, at.bodies, stop)
        if not reads[5]:
            return nu, jnp.zeros(f.shape[-1], jnp.int32)
        found = Found(at.rates, nu, end.steps, None, None, at.bodies, at.lam[:first])
        code = ended(LCABA(), problem, start, found, v + dt * at.rates, inputs)
        size = calling(step.cones.counts, -end.r2[first:] - product(system.G, f))
        lost = (code == 0) & ~(off <= LAWFUL * size + jnp.finfo(f.dtype).tiny)
        return nu, jnp.where(lost, MEMBERS.index("contact_not_converged"), code).astype(jnp.int32)

    def instead(self, outs, used):
        a, nu, f, w, *_ = outs
        return [a, nu, f, w, *[a] * 5]

    def tangents(self, primals, tangents, outs, used):
        a, nu, f, w, *_ = outs
        *_, warm = jax.tree.unflatten(self.tree, list(range(len(primals))))
        n = len(primals) - (warm is not None)  # where passes start does not matter
        primals, tangents, known = list(primals[:n]), list(tangents[:n]), self.known[:n]
        given = jax.tree.unflatten(self.tree, [*range(n), *([-1] * (warm is not None))])[:-1]
        model, constraints, q, v, _, _, dt = given

        def core(fn, static, *operands):
            leaves, tree = jax.tree.flatten(operands)
            kept = tuple(known[k] if k >= 0 else None for k in leaves)
            return Function(fn, static, tree, kept, self.compiler), leaves

        def along(fn, static, *operands):
            """The tangent of a function of operands, -1 being a."""
            made, leaves = core(fn, static, *operands)
            at, moved = ([x if k < 0 else xs[k] for k in leaves] for x, xs in ((a, primals), (x_, tangents)))
            return tangent_of(made, at, moved)

        residual, _ = core(residuals, (self.law,), *given, -1, -1, -1, -1)
        dr = tangent_of(residual, [*primals, w, a, nu, f], [*tangents, *[None] * 4])
        solve = ContactSolve((self.law,), residual.tree, (*residual.known, None, None, None), self.compiler)
        x_, y, z = bind(solve, *primals, w, a, nu, f, *dr)
        none = jnp.zeros(x_.shape[-1:], x_.dtype)
        reads = (True,) * 9 if used is None else used
        slots = len(slots_of(jax.tree.unflatten(self.tree, [*primals, *[None] * (self.tree.num_leaves - n)])[0]))
        dgap = along(gaps, (), model, q)[0] if reads[4] else jnp.zeros((slots, *none.shape), x_.dtype)
        dq, dv = along(end_of, (), model, q, v, dt, -1) if reads[7] or reads[8] else (None, None)
        dq = jnp.zeros((primals[jax.tree.leaves(q)[0]].shape[0], *none.shape), x_.dtype) if dq is None else dq
        return [x_, y, z, jnp.zeros_like(z), dgap, none, none, dq, x_ if dv is None else dv]
