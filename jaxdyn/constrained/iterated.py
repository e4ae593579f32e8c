"""Base classes of solvers that iterate on one damped factorisation.

They decide how many steps to take, where to start, and what to return.
"""

import abc
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..spatial.instances import check_flag
from ..spatial.numbers import reals
from ..spatial.options import check_number, check_positive_integer
from ..systems.base import System
from ..systems.problem import Problem
from ..systems.weights import automatic_weights, uniform
from .base import Unrollable
from .iteration import Stop, tolerance
from .multipliers import multipliers as multipliers_of
from .proximal import iterate

#: maximum number of unrolled steps
UNROLLED = 30


class Proximal(Unrollable):
    """Proximal (augmented Lagrangian) iterations to the exact solution, with or without redundant rows.

    **Arguments:**

    - `mu`: penalty weight, in kg for linear rows; 1/mu is the compliance. None: chosen from the precision and the size
      of the inertia.
    - `tol`: relative error of the accelerations at which a lane stops. None: 1e-12 in double, 1e-6 in single precision;
      0.0 makes exactly `max_steps` solves.
    - `max_steps`: maximum number of damped solves. 1 gives the solution of the damped problem itself.
    - `refine`: False takes only the steps of the papers, without the residual of the dynamics, longer steps and the
      projection of the multipliers, so that the iterates of different solvers can be compared.
    """

    mu: float | None = eqx.field(static=True, default=None)
    tol: float | None = eqx.field(static=True, default=None)
    max_steps: int = eqx.field(static=True, default=100)
    refine: bool = eqx.field(static=True, default=True)

    #: returns the factor of M + Jᵀ μ J for a problem and weights; None if `system` is that
    penalised: ClassVar[Callable[[Problem, Array], System] | None] = None

    def __check_init__(self):
        name = type(self).__name__
        check_number(name, "mu", self.mu, lambda x: x > 0, "a positive number", optional=True)
        check_number(name, "tol", self.tol, lambda x: x >= 0, "a number from 0 on", optional=True)
        check_positive_integer(self, "max_steps")
        check_flag(f"`{name}`", "refine", self.refine)

    @abc.abstractmethod
    def system(self, problem: Problem, weights: Array) -> System:
        """Return the factorised damped system."""

    def factorised(self, problem):
        given = None if self.mu is None else uniform(problem, jnp.full((1,), float(self.mu), problem.q.dtype))
        return self.system(problem, self.weights(problem) if given is None else given)

    def weights(self, problem: Problem) -> Array:
        """Return μ of all rows (m, lanes) if the caller gives none."""
        return automatic_weights(problem)

    def for_multipliers(self, problem: Problem, system: System) -> System:
        """Return the factor for `multipliers`, with automatic weights: the given one if that serves."""
        if self.penalised is not None and problem.q.dtype == jnp.float32:
            return self.penalised(problem, automatic_weights(problem))
        return system if self.mu is None else self.system(problem, automatic_weights(problem))

    def solve(self, problem: Problem, start, warm, multipliers: bool):
        system = self.factorised(problem)
        most = min(self.max_steps, UNROLLED) if self._unrolled else self.max_steps
        stop = Stop(tolerance(problem.q.dtype, self.tol), most, self._unrolled, not self.refine, self.refine)
        found = iterate(system, start, warm, stop)
        if problem.rows is None or not self.refine or self.max_steps == 1:
            return found._replace(some=None)
        if not multipliers:
            return found._replace(multipliers=jnp.zeros_like(found.multipliers))
        enough = Stop(tolerance(problem.q.dtype, self.tol or None), max(most, 30), self._unrolled)
        lam, settled = multipliers_of(
            self.for_multipliers(problem, system), start, found.acceleration, found.bodies, enough
        )
        return found._replace(multipliers=lam, settled=settled)


class Direct(Unrollable):
    """One factorisation without damping, for linearly independent rows; `result` reports dependent ones.

    **Arguments:** `max_steps`, the number of solves: 1, plus one for every refinement by the residual. None: 2 in
    single precision, and 1 in double precision, which loses no digits to penalties here.
    """

    max_steps: int | None = eqx.field(static=True, default=None)

    #: dependent rows give NaN
    hard: ClassVar[bool] = True

    def __check_init__(self):
        check_positive_integer(self, "max_steps", optional=True)

    @abc.abstractmethod
    def system(self, problem: Problem, weights: Array) -> System:
        """Return the factorised system; the weights only set scales."""

    def factorised(self, problem):
        return self.system(problem, automatic_weights(problem))

    def solve(self, problem: Problem, start, warm, multipliers: bool):
        system = self.factorised(problem)
        steps = self.max_steps or (2 if problem.q.dtype == jnp.float32 else 1)
        stop = Stop(0.0, steps, self._unrolled, plain=True)
        # a guess would save no solve, and rows that move nothing would keep it
        return iterate(system, start, None, stop)._replace(some=None)


def _numbers(given):
    """Return a number or a tuple of numbers from anything that holds numbers. Return anything else as it is, for the
    caller to refuse."""
    try:
        found = reals(given)
    except (TypeError, ValueError):
        return given
    return tuple(found.tolist()) if found.ndim else float(found)


class Soft(Unrollable):
    """The soft Gauss principle (popov_vereshchagin, Eq. 50): minimise ½|q̈ − q̈_free|² in the metric of M plus
    ½ Σ w (J q̈ + γ − a*)². Constraints are penalised, not enforced; λ = w (a* − γ − J q̈).

    **Arguments:**

    - `weights`: w, in kg for linear rows: one for all, or one for every row. None: chosen from the precision and the
      size of the inertia.
    - `max_steps`, the number of solves: 1, plus one for every refinement by the residual.
    """

    weights: float | tuple[float, ...] | None = eqx.field(static=True, default=None, converter=_numbers)
    max_steps: int = eqx.field(static=True, default=2)

    #: its rows have a compliance, unlike those of the constraints
    soft: ClassVar[bool] = True

    def __check_init__(self):
        given = self.weights if isinstance(self.weights, tuple) else (1.0 if self.weights is None else self.weights,)
        if not all(isinstance(w, float) and 0 < w < np.inf for w in given):
            raise ValueError(f"`{type(self).__name__}`: `weights` = {self.weights!r} are not positive numbers.")
        check_positive_integer(self, "max_steps")

    def check(self, call, topology, constraints):
        super().check(call, topology, constraints)
        rows = sum(c.layout(topology).rows for c in constraints)
        if isinstance(self.weights, tuple) and len(self.weights) != rows:
            raise ValueError(
                f"{call}: `{type(self).__name__}` has {len(self.weights)} `weights` for {rows} rows of constraints. "
                "Give one number for all, or one for every row."
            )

    @abc.abstractmethod
    def system(self, problem: Problem, weights: Array) -> System:
        """Return the factorised damped system."""

    def factorised(self, problem):
        weights = automatic_weights(problem)
        if self.weights is not None:
            given = jnp.asarray(self.weights, problem.q.dtype)
            weights = given[:, None] if given.ndim else uniform(problem, given[None])
        return self.system(problem, weights)

    def solve(self, problem: Problem, start, warm, multipliers: bool):
        system = self.factorised(problem)
        stop = Stop(0.0, self.max_steps, self._unrolled, plain=True)
        return iterate(system, start, None, stop, 1 / system.weights)._replace(some=None)
