"""One step of the leapfrog, with implicit derivatives; `jaxdyn.constrained.kick` has its equations."""

import dataclasses
import functools

import jax
import jax.numpy as jnp

from ..engine.core import bind, lanes_of, widen
from .base import Solver
from .implicit import SaddleSolve, tangent_of
from .iterated import Proximal
from .iteration import Stop, largest_of, tolerance
from .kick import begun, end_of, linear_of, matrix_of
from .kick import residuals as residuals_of
from .kick_solve import KickSolve, kick_corrected, system_of
from .linearised import LEFT, Operands
from .multipliers import multipliers as multipliers_of
from .result import GOOD, ended
from .stepping import StepCore, Stepped, stepped

#: corrections end where what is left is estimated to be small enough; this many times as much counts as accurate
ALLOWED = 10


@dataclasses.dataclass(frozen=True)
class LeapCore(StepCore):
    """The step of `StepCore` by a kick at its midpoint, which gives a and λ. `projected` says that the caller projects
    the state onto the loops afterwards."""

    projected: bool = dataclasses.field(kw_only=True)

    def run(self, args, used):
        lanes = lanes_of(args)
        model, constraints, q, v, tau, external, dt, warm = jax.tree.unflatten(self.tree, args)
        q, v, tau = widen((q, v, tau), lanes)
        step = begun(self.projected, model, constraints, q, v, tau, external, dt)
        system = system_of(self.solver, step.problem)
        rows = 0 if step.problem.rows is None else step.problem.rows.plan.rows
        lam = jnp.zeros((rows, lanes), q.dtype) if warm is None or not rows else widen(warm, lanes)
        reads = (True,) * 6 if used is None else used
        found = kick_corrected(system, self.solver, step.left_over, jnp.zeros_like(v), lam, largest_of(v) / dt)
        a, lam, code = found.acceleration, found.multipliers, jnp.zeros_like(found.steps)
        end, w = end_of(model, q, v, dt, a)
        if reads[1] or reads[4]:
            start, bodies = linear_of(step, a)
            if step.problem.rows is not None and isinstance(self.solver, Proximal) and self.solver.refine:
                stop = Stop(tolerance(q.dtype), 30)
                lam, _ = multipliers_of(self.solver.for_multipliers(step.problem, system), start, a, bodies, stop)
            if reads[4]:
                judged = found._replace(multipliers=lam, bodies=bodies)
                # corrections end at a change that is small beside the velocity, not beside the acceleration
                size = q.dtype.itemsize
                floor = jnp.maximum(1, ALLOWED * LEFT[size] / GOOD[size] * largest_of(v) / dt)
                code = ended(self.solver, step.problem, start, judged, w, (q, v, tau, external), floor)
        return [a, lam, end, w, code, found.multipliers]

    def tangents(self, primals, tangents, outs, used):
        a, lam, *_ = self.instead(outs, used)
        *_, warm = jax.tree.unflatten(self.tree, list(range(len(primals))))
        n = len(primals) - (warm is not None)  # the solution does not depend on where corrections start
        primals, tangents, known = list(primals[:n]), list(tangents[:n]), self.known[:n]
        model, constraints, q, v, _, _, dt, _ = jax.tree.unflatten(self.tree, [*range(n), *([-1] * (warm is not None))])

        operands = Operands(known, self.compiler, primals, tangents)
        everything = jax.tree.unflatten(self.tree, [*range(n), *([None] * (warm is not None))])[:-1]
        residuals, _ = operands.core(residuals_of, (self.projected,), *everything, -1, -1)
        dr = tangent_of(residuals, [*primals, a, lam], [*tangents, None, None])
        known_of = (*residuals.known, None, None)
        solve = KickSolve((self.projected,), residuals.tree, known_of, self.compiler, solver=self.solver)
        x, y = bind(solve, *primals, a, lam, *dr)
        if used is None or used[1]:
            moved = tangent_of(residuals, [*primals, a, lam], [*[None] * n, x, None])
            dr = [r + t for r, t in zip(dr, moved, strict=True)]
            y = self._least(operands, (model, constraints, q, v, dt), a, lam, dr)
        dq, dw = operands.along(end_of, (model, q, v, dt, -1), a, x)
        return [x, y, dq, dw, None, y]

    def _least(self, operands: Operands, taken, a, lam, dr):
        """Return the tangent of the minimum-norm multipliers; `dr` is the residual that the tangent of the
        accelerations leaves in the equations."""
        model, constraints, q, v, dt = taken
        there, moved = zip(*operands.both(matrix_of, (model, q, v, dt)), strict=True)
        places = [model.joints.armature, q]
        every = jax.tree.leaves((model, constraints, q))
        put = lambda xs, others: [others[places.index(k)] if k in places else xs[k] for k in every]  # noqa: E731
        tree = jax.tree.structure((model, constraints, q))
        free = tuple(put(operands.known, (None, None)))
        solve = SaddleSolve(self.solver, tree, (*free, None, None), self.compiler)
        matrix = put(operands.primals, there)
        _, y, _ = bind(solve, *matrix, *dr, used=(True, True, False))
        return solve.follow(matrix, put(operands.tangents, moved), a, lam, y)


def leap(solver: Solver, *given, projected: bool) -> Stepped:
    """Return the result of the step; `given` are the arguments of `stepped` after the solver. Corrections start from
    the multipliers."""
    return stepped(functools.partial(LeapCore, projected=projected), solver, *given)
