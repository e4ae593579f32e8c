"""`forward_dynamics`: validation, derivatives and results around a solver."""

from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import jax
from jaxtyping import Array, Float

from ..engine.core import Function
from ..engine.lanes import call
from ..kinematics.embed import checked_forces, independent_forces
from ..model.checks import (
    check_constraints,
    check_external,
    check_model,
    check_state,
    check_vector,
    common_dtype,
    rows_of,
)
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.state import State
from ..spatial.instances import check_flag, check_instance
from ..spatial.numbers import ArrayLike
from .auto import Auto
from .base import Solver, check_solver
from .implicit import ForwardDynamics, outputs
from .result import Result, Stats, result_of


class Solution(eqx.Module):
    """The solution of `forward_dynamics`.

    **Fields:** `acceleration` (nv,); `multipliers` (m,), the minimum-norm ones; `result`, a `Result`; `stats`."""

    acceleration: Float[Array, " nv"]
    multipliers: Float[Array, " m"]
    result: Result
    stats: Stats


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
    """Return accelerations and constraint forces: M q̈ + h = τ + passive + external + Jᵀλ with J q̈ + γ = a*.

    **Arguments:**

    - `state`: q (nq,) and v (nv,). `tau`: generalised forces (nv,), N or N m; with embedded loops they may also be
      given at all joints of the tree.
    - `constraints`: None for the model's own, else a tuple:
      ``model.constraints + (jd.constraints.Point("foot"),)``.
    - `external`: wrenches (nb, 6), force then torque, in body axes at the body's origin.
    - `solver`: see "Choosing a solver". `adjoint`: "implicit" differentiates by the implicit function theorem, both
      modes and any order; "unrolled" differentiates through the iterations.
    - `warm_start`: multipliers (m,) to start from.
    - `throw`: raise at run time unless the result is successful (under `eqx.filter_jit`).

    **Returns** a `Solution`. If rows conflict, it is the least-squares point, and `result` reports the conflict.

    **Raises** `TypeError` and `ValueError` for wrong types, shapes, unknown bodies, and constraints that the
    solver cannot treat.
    """
    name = "forward_dynamics"
    model = check_model(name, model)
    state = check_state(name, model, state)
    tau = checked_forces(name, model, tau)
    constraints = check_constraints(name, model, constraints)
    m = rows_of(model, constraints)
    external = check_external(name, model, external)
    if warm_start is not None:
        warm_start = check_vector(name, "warm_start", warm_start, (m,))
    check_flag(f"`{name}`", "throw", throw)
    check_solver(name, solver)
    check_instance(f"`{name}`", "adjoint", adjoint, str, " Use 'implicit' or 'unrolled'.")
    if adjoint not in ("implicit", "unrolled"):
        raise ValueError(f"`{name}`: `adjoint` is {adjoint!r:.60}; choose 'implicit' or 'unrolled'.")
    given = constraints, tau, external, warm_start
    model, q, v, constraints, tau, external, warm_start = common_dtype(model, state.q, state.v, given=given)
    solver = solver.pick(model.topology, constraints, q.dtype)
    solver.check(f"`{name}`", model.topology, constraints)
    args = model, constraints, q, v, independent_forces(model, q, tau), external, warm_start
    matrix = jax.tree.structure((model, constraints, q))
    if adjoint == "implicit":
        core_of = lambda tree, known, c: ForwardDynamics(solver, tree, matrix, known, c)  # noqa: E731
    else:
        core_of = lambda tree, known, c: Function(outputs, (solver.unrolled(),), tree, known, c)  # noqa: E731
    qdd, lam, steps, code, r1, r2, _ = call(core_of, *args)
    result, stats = result_of(code), Stats(steps, *jax.lax.stop_gradient((r1, r2)))
    if throw:
        qdd = result.error_if(qdd, result != Result.successful)
    return Solution(qdd, lam, result, stats)
