"""`forward_dynamics`: validation, derivatives and results around a solver."""

import functools
from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, Int

from ..engine.core import Function, widen
from ..engine.lanes import call, laned
from ..model.checks import check_constraints, check_model, check_state, check_vector, common_dtype, rows_of
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.state import State
from ..systems.problem import problem_of, start_of
from .auto import Auto
from .base import Solver
from .implicit import ForwardDynamics, residuals
from .iterated import Proximal


class Result(eqx.Enumeration):
    """How a solve ended."""

    successful = ""
    max_steps_reached = (
        "The solver did not reach `tol`. Raise `max_steps`; leave `mu` automatic, or lower it in single precision."
    )
    inconsistent_constraints = (
        "The constraints contradict each other: the accelerations are those that violate them least. "
        "Look for duplicated or conflicting rows with `jaxdyn check`."
    )
    dependent_rows = (
        "The constraints' rows are linearly dependent (or the mass matrix is singular), and this solver needs "
        "independent ones: leave out what is said twice, or use `jd.solvers.LCABA()`."
    )
    not_finite = "The accelerations are not finite: an input was NaN or infinite, or the mass matrix is singular."
    non_unit_quaternion = "A quaternion of the configuration is not of unit length."


class Stats(eqx.Module):
    """**Fields:** `iterations` (), the damped solves made; `residual_dynamics` () and `residual_constraint` (), the
    largest entries of r1 = τ − h − M q̈ + Jᵀλ and r2 = a* − γ − J q̈ (N m or N; rad/s² or m/s²)."""

    iterations: Int[Array, ""]
    residual_dynamics: Float[Array, ""]
    residual_constraint: Float[Array, ""]


class Solution(eqx.Module):
    """**Fields:** `acceleration` (nv,); `multipliers` (m,), the minimum-norm ones; `result`, a `Result`; `stats`."""

    acceleration: Float[Array, " nv"]
    multipliers: Float[Array, " m"]
    result: Result
    stats: Stats


def _unrolled(solver, model, constraints, q, v, tau, external, warm):
    lanes = max(x.shape[-1] for x in jax.tree.leaves((model, constraints, q, v, tau, external)))
    problem = problem_of(model, constraints, widen(q, lanes), v)
    guess = warm if constraints else None
    return solver.solve(problem, start_of(problem, v, tau, external), guess, True)[:3]


def forward_dynamics(
    model: Model,
    state: State,
    tau: ArrayLike,
    *,
    constraints: Sequence[Constraint] | None = None,
    external: ArrayLike | None = None,
    solver: Solver = Auto(),  # noqa: B008 - static
    adjoint: Literal["implicit", "unrolled"] = "implicit",
    warm_start: ArrayLike | None = None,
    throw: bool = False,
) -> Solution:
    """Accelerations and constraint forces: M q̈ + h = τ + passive + external + Jᵀλ with J q̈ + γ = a*.

    **Arguments:**

    - `state`: q (nq,) and v (nv,). `tau`: generalised forces (nv,), N or N m.
    - `constraints`: None for the model's own, else a tuple:
      ``model.constraints + (jd.constraints.Point("foot"),)``.
    - `external`: wrenches (nb, 6), force then torque, in body axes at the body's origin.
    - `solver`: see "Choosing a solver". `adjoint`: "implicit" differentiates by the implicit function theorem, both
      modes and any order; "unrolled" through the iterations.
    - `warm_start`: multipliers (m,) to start from.
    - `throw`: raise at run time unless the result is successful (under `eqx.filter_jit`).

    **Returns** a `Solution`. Conflicting rows give the least-squares point, and `result` says so.

    **Raises** `TypeError` and `ValueError` for wrong types, shapes, unknown bodies, and constraints that the
    solver cannot treat.
    """
    name = "forward_dynamics"
    model = check_model(name, model)
    state = check_state(name, model, state)
    tau = check_vector(name, "tau", tau, (model.nv,))
    constraints = check_constraints(name, model, constraints)
    m = rows_of(model, constraints)
    if external is not None:
        external = check_vector(name, "external", external, (model.nb, 6))
    if warm_start is not None:
        warm_start = check_vector(name, "warm_start", warm_start, (m,))
    if not isinstance(solver, Solver):
        raise TypeError(f"`{name}`: `solver` is {solver!r}, not a solver such as `jd.solvers.LCABA()`.")
    if adjoint not in ("implicit", "unrolled"):
        raise ValueError(f"`{name}`: `adjoint` is {adjoint!r}; choose 'implicit' or 'unrolled'.")
    solver.check(f"`{name}`", model.topology, constraints)
    args = common_dtype(model, constraints, state.q, state.v, tau, external, warm_start)
    model, constraints, q, v, tau, external, warm_start = args
    if adjoint == "implicit":
        matrix = jax.tree.structure((model, constraints, q))
        core_of = lambda tree, known, c: ForwardDynamics(solver, tree, matrix, known, c)  # noqa: E731
    else:
        core_of = lambda tree, known, c: Function(_unrolled, (solver.unrolled(),), tree, known, c)  # noqa: E731
    qdd, lam, steps, *_ = call(core_of, *args)
    result, stats = _report(solver, args, qdd, lam, steps)
    if throw:
        qdd = result.error_if(qdd, result != Result.successful)
    return Solution(qdd, lam, result, stats)


def _report(solver, args, qdd, lam, steps) -> tuple[Result, Stats]:
    """What values tell. Nothing here is computed unless somebody reads it."""
    args = args[:-1]
    model, constraints, q, v, tau, external = jax.lax.stop_gradient(args)
    qdd, lam = jax.lax.stop_gradient((qdd, lam))
    r1, r2 = laned(residuals)(model, constraints, q, v, tau, external, qdd, lam)
    largest = lambda x: jnp.abs(x).max(initial=0.0)  # noqa: E731
    one = largest(r1), largest(r2)
    loose = 1e-6 if q.dtype == jnp.float64 else 1e-2
    force = 1 + largest(tau) + largest(lam)
    # redundant rows of real files disagree by rounding: that is not worth a word; those of soft ones, by intention
    conflict = (one[1] > max(loose, 1e-3) * (1 + largest(qdd))) & (not solver.soft)
    result = Result.where(conflict, Result.inconsistent_constraints, Result.successful)
    if isinstance(solver, Auto):
        solver = solver.pick(model.topology, constraints)
    if isinstance(solver, Proximal) and solver.tol != 0.0:
        # creeping along rows that are redundant but for a hair leaves up to 1e-5
        short = (steps >= solver.max_steps) & (one[1] > max(loose, 1e-4) * (1 + largest(qdd)))
        result = Result.where((one[0] > loose * force) | short, Result.max_steps_reached, result)
    starts = [s.stop - 4 for s in map(model.topology.q_slice, range(model.nb)) if s.stop - s.start in (4, 7)]
    if starts:
        lengths = jnp.stack([jnp.sum(q[k : k + 4] ** 2) for k in starts])
        off = 1e-3 if q.dtype == jnp.float32 else 1e-6
        result = Result.where(jnp.any(jnp.abs(lengths - 1) > off), Result.non_unit_quaternion, result)
    known = functools.reduce(jnp.logical_and, [jnp.isfinite(x).all() for x in jax.tree.leaves((q, v, tau, external))])
    finite = jnp.isfinite(qdd).all() & jnp.isfinite(lam).all()
    result = Result.where(finite & known, result, Result.not_finite)
    if solver.hard and constraints:
        result = Result.where(known & ~finite, Result.dependent_rows, result)
    return result, Stats(steps, *one)
