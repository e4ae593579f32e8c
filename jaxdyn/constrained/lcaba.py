"""LCABA: the loop-constrained articulated-body algorithm (Sathya and Carpentier 2025, lcaba_proxbbo).

Constraints enter as penalties μ KᵢᵀKⱼ between the bodies that they tie (Eqs. 22 to 24); bodies are eliminated
leaves first in a minimum-degree order, each tying its neighbours to each other (Eqs. 25 to 31, see
`jaxdyn.tree.elimination`); proximal iterations reuse the factor through the reduced two-sweep form (Alg. 2, 3, see
`jaxdyn.constrained.proximal`). Without constraints this is Featherstone's articulated-body algorithm.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.lanes import widen
from .base import Solver, name_of
from .damped import automatic_weight, penalised
from .iteration import Stop
from .multipliers import multipliers as multipliers_of
from .problem import Problem, Start
from .proximal import iterate, joined


def _tolerance(problem: Problem, tol: float | None) -> float:
    if tol is not None:
        return tol
    return 1e-12 if problem.q.dtype == jnp.float64 else 1e-6


class ABA(Solver):
    """The articulated-body algorithm: forward dynamics of the tree. Takes no constraints."""

    def check(self, call, topology, constraints):
        if constraints:
            raise ValueError(
                f"{call}: `ABA` takes no constraints, and {name_of(constraints[0], 0)} is one. "
                "Use `LCABA()`, or leave `constraints=()`."
            )

    def solve(self, problem, start, warm, multipliers):
        mu = jnp.ones((1,), problem.q.dtype)
        rates, _, steps = iterate(problem, penalised(problem, mu), mu, start, None, Stop(0.0, 1))
        return *joined(problem, rates, []), steps


class LCABA(Solver):
    """Loop-constrained articulated-body algorithm: any constraints, redundant ones too.

    **Arguments:**

    - `mu`: penalty weight, in kg for linear rows; 1/mu is the compliance. None: chosen from the precision and
      the size of the inertia.
    - `tol`: relative error of the accelerations at which a lane stops. None: 1e-12 in double, 1e-6 in single
      precision; 0.0 makes exactly `max_steps` solves.
    - `max_steps`: most damped solves; 1 means no refinement.
    """

    mu: float | None = eqx.field(static=True, default=None)
    tol: float | None = eqx.field(static=True, default=None)
    max_steps: int = eqx.field(static=True, default=100)
    _unrolled: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if self.mu is not None and not self.mu > 0:
            raise ValueError(f"`LCABA`: `mu` = {self.mu!r} is not a positive number.")
        if self.tol is not None and not self.tol >= 0:
            raise ValueError(f"`LCABA`: `tol` = {self.tol!r} is negative.")
        if not isinstance(self.max_steps, int) or self.max_steps < 1:
            raise ValueError(f"`LCABA`: `max_steps` = {self.max_steps!r} is not a positive integer.")

    def unrolled(self):
        return LCABA(self.mu, self.tol, min(self.max_steps, 30), True)

    def solve(self, problem: Problem, start: Start, warm: list[Array] | None, multipliers: bool):
        dtype = problem.q.dtype
        mu = automatic_weight(problem) if self.mu is None else jnp.full((1,), self.mu, dtype)
        factor = penalised(problem, mu)
        stop = Stop(_tolerance(problem, self.tol), self.max_steps, self._unrolled)
        rates, motions, steps = iterate(problem, factor, mu, start, warm, stop)
        lam = []
        if problem.bundles:
            if multipliers:
                enough = Stop(_tolerance(problem, self.tol or None), max(self.max_steps, 30), self._unrolled)
                lam, rates = multipliers_of(problem, factor, mu, start, rates, motions, enough)
            else:
                lam = [jnp.zeros_like(widen(b, 1)) for b in start.rows]
        return *joined(problem, rates, lam), steps
