"""`impulse`: the jump of the velocity when constraints begin to hold, or are hit."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ..engine.lanes import call, laned
from ..model.checks import check_constraints, check_model, check_state, check_vector, common_dtype, rows_of
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.state import State
from ..spatial.numbers import floats
from .auto import Auto
from .base import Solver, check_solver
from .implicit import SaddleSolve, saddle


class Jump(eqx.Module):
    """**Fields:** `velocity` (nv,), after the jump; `impulses` (m,) of the constraints (N s or N m s), the minimum-norm
    ones."""

    velocity: Float[Array, " nv"]
    impulses: Float[Array, " m"]


def least(model: Model, constraints: Sequence[Constraint], q, p, r2, solver: Solver, warm=None) -> tuple[Array, Array]:
    """(x, y) with M x − Jᵀ y = p and J x = r2, differentiable in everything; iterations start from y = `warm`."""
    if isinstance(solver, Auto):
        solver = solver.pick(model.topology, constraints)
    tree = jax.tree.structure((model, constraints, q))
    x, y, _ = call(lambda _, known, c: SaddleSolve(solver, tree, known, c), model, constraints, q, p, r2, warm)
    return x, y


def rates(model: Model, constraints: Sequence[Constraint], q, v) -> Array:
    """J v (m,)."""
    return laned(saddle)(model, constraints, q, v, jnp.zeros(rows_of(model, constraints), v.dtype))[1]


def impulse(
    model: Model,
    state: State,
    momentum: ArrayLike | None = None,
    *,
    constraints: Sequence[Constraint] | None = None,
    restitution: ArrayLike = 0.0,
    solver: Solver = Auto(),  # noqa: B008 - static
    warm_start: ArrayLike | None = None,
) -> Jump:
    """The velocity v⁺ just after an impact: M (v⁺ − v) = p + Jᵀ Λ with J v⁺ = −e J v.

    With e = 0 it is the velocity nearest to v, in the metric of M, that the constraints allow.

    **Arguments:**

    - `momentum`: p (nv,), generalised impulses from outside (N s or N m s); None is zero.
    - `constraints`: None for the model's own, else a tuple. `solver`: any that takes them.
    - `restitution`: e, one for all rows or (m,). `warm_start`: impulses (m,) to start from.

    **Returns** a `Jump`. Dependent rows give the least-squares jump, and NaN with a solver that takes none.

    **Raises** `TypeError` and `ValueError` as `forward_dynamics`.
    """
    name = "impulse"
    model = check_model(name, model)
    state = check_state(name, model, state)
    constraints = check_constraints(name, model, constraints)
    p = jnp.zeros_like(state.v) if momentum is None else check_vector(name, "momentum", momentum, (model.nv,))
    m = rows_of(model, constraints)
    e = floats(f"`{name}`", "restitution", restitution)
    e = check_vector(name, "restitution", jnp.broadcast_to(e, (m,)) if e.shape == () else e, (m,))
    if warm_start is not None:
        warm_start = check_vector(name, "warm_start", warm_start, (m,))
    check_solver(f"`{name}`", solver)
    solver.check(f"`{name}`", model.topology, constraints)
    if solver.soft:
        raise ValueError(f"`{name}`: `{type(solver).__name__}` only pulls at rows. Use `jd.solvers.LCABA()`.")
    model, constraints, q, v, p, warm = common_dtype(model, constraints, state.q, state.v, p, warm_start)
    r2 = -(1 + e.astype(v.dtype)) * rates(model, constraints, q, v) if constraints else jnp.zeros(0, v.dtype)
    dv, lam = least(model, constraints, q, p, r2, solver, warm)
    return Jump(v + dv, lam)
