"""`impulse`: the velocity jump when constraints begin to hold, or bodies strike each other."""

from collections.abc import Sequence

import jax.numpy as jnp

from ..constrained.auto import Auto
from ..constrained.base import Solver, check_solver
from ..constrained.impulse import jump, rates
from ..model.checks import check_constraints, check_model, check_state, check_vector, common_dtype
from ..model.checks import rows_of as rows_of_constraints
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.state import State
from ..spatial.numbers import ArrayLike, at_most_one, floats, in_range, not_negative
from ..spatial.options import check_number
from .checks import check_contacts
from .laws import Impact, Law
from .solution import Jump, contact_step


def impulse(
    model: Model,
    state: State,
    momentum: ArrayLike | None = None,
    *,
    constraints: Sequence[Constraint] | None = None,
    restitution: ArrayLike = 0.0,
    solver: Solver = Auto(),  # noqa: B008 - static
    warm_start: ArrayLike | None = None,
    contacts: Law | None = None,
    near: float = 1e-5,
) -> Jump:
    """Return the velocity v⁺ just after an impact: M (v⁺ − v) = p + Jᵀ Λ with J v⁺ = −e J v.

    With e = 0 and p = 0, v⁺ is the velocity nearest to v, in the metric of M, that the constraints allow.

    **Arguments:**

    - `momentum`: p (nv,), external generalised impulses (N s or N m s); None is zero.
    - `constraints`: None for the model's own, else a tuple. `solver`: any that takes them.
    - `restitution`: e, from 0 to 1, one for all rows or (m,). `warm_start`: impulses (m,) to start from.
    - `contacts`: the law of contact, such as ``jd.contact.Auto()``, for shapes nearer than `near` (m), with the
      friction and the restitution of their surfaces, and for joints at their limits. All surfaces count as rigid.
      None: shapes do not collide.

    **Returns** a `Jump`, with contact also the `Contacts`. Dependent rows give the least-squares jump, or NaN with a
    solver that does not support them.

    **Raises** `TypeError` and `ValueError` as `forward_dynamics`.
    """
    name = "impulse"
    model = check_model(name, model)
    state = check_state(name, model, state)
    constraints = check_constraints(name, model, constraints)
    p = jnp.zeros_like(state.v) if momentum is None else check_vector(name, "momentum", momentum, (model.nv,))
    m = rows_of_constraints(model, constraints)
    e = floats(f"`{name}`", "restitution", restitution, None, in_range, not_negative, at_most_one)
    e = check_vector(name, "restitution", jnp.broadcast_to(e, (m,)) if e.shape == () else e, (m,))
    if warm_start is not None:
        warm_start = check_vector(name, "warm_start", warm_start, (m,))
    check_solver(name, solver)
    solver.check(f"`{name}`", model.topology, constraints)
    if solver.soft:
        raise ValueError(f"`{name}`: `{type(solver).__name__}` only pulls at rows. Use `jd.solvers.LCABA()`.")
    if contacts is not None:
        if warm_start is not None:
            raise ValueError(f"`{name}`: with `contacts`, leave `warm_start` out.")
        return _struck(name, model, state, p, constraints, restitution, solver, contacts, near)
    given = constraints, p, warm_start
    model, q, v, constraints, p, warm = common_dtype(model, state.q, state.v, given=given)
    r2 = -(1 + e.astype(v.dtype)) * rates(model, constraints, q, v) if constraints else jnp.zeros(0, v.dtype)
    dv, lam, result = jump(model, constraints, q, v, p, r2, solver, warm)
    return Jump(v + dv, lam, result)


def _struck(name, model, state, p, constraints, restitution, solver, law, near) -> Jump:
    """Return the jump with contact."""
    check_contacts(name, model, law, solver)
    if not isinstance(restitution, int | float) or restitution != 0:
        raise ValueError(f"`{name}`: with `contacts`, leave `restitution` out: surfaces have their own.")
    check_number(name, "near", near, lambda x: x >= 0, "a distance in m")
    model, q, v, constraints, p = common_dtype(model, state.q, state.v, given=(constraints, p))
    impact = Impact.of(law, near=float(near), dry_friction=False)
    found = contact_step(model, constraints, q, v, p, None, jnp.ones((), v.dtype), impact)
    return Jump(v + found.acceleration, found.multipliers, found.result, found.contacts)
