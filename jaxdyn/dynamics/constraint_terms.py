"""The public functions of constraints: Jacobian, bias, residual, and the slices of their rows."""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..engine.lanes import laned
from ..kinematics.assemble import residual
from ..kinematics.embedding import jacobian_at, kinematics
from ..kinematics.rows import evaluate
from ..model.checks import check_constraints, check_model, check_state, check_vector, common_dtype
from ..model.constraints import Constraint, check_names
from ..model.model import Model
from ..model.state import State
from ..spatial.numbers import ArrayLike


def rows_jacobian(model: Model, constraints, q: Array) -> Array:
    """Return J (m, nv, lanes) of constraints."""
    motion = kinematics(model, q)
    return jacobian_at(motion, evaluate(constraints, motion))


def _bias(model, constraints, q, v):
    motion = kinematics(model, q, v, biased=True)
    rows = evaluate(constraints, motion)
    return rows.gamma + rows.times(motion.acceleration)


def constraint_jacobian(
    model: Model, q: ArrayLike, constraints: Sequence[Constraint] | None = None
) -> Float[Array, "m nv"]:
    """Return J (m, nv) at q (nq,), rows in the order of `constraints` (None: the model's own).

    Raises `ValueError` for wrong shapes, unknown bodies and joints, `TypeError` for other types.
    """
    model, constraints, q = _at_q("constraint_jacobian", model, q, constraints)
    if not constraints:
        return jnp.zeros((0, model.nv), q.dtype)
    return laned(rows_jacobian)(model, constraints, q)


def constraint_bias(model: Model, state: State, constraints: Sequence[Constraint] | None = None) -> Float[Array, " m"]:
    """Return γ (m,), the rows' time derivative at q̈ = 0, without stabilisation: J q̈ + γ is their acceleration.

    Raises `ValueError` for wrong shapes, unknown bodies and joints, `TypeError` for other types.
    """
    call = "constraint_bias"
    check_model(call, model)
    state = check_state(call, model, state)
    constraints = check_constraints(call, model, constraints)
    model, q, v, constraints = common_dtype(model, state.q, state.v, given=(constraints,))
    return laned(_bias)(model, constraints, q, v) if constraints else jnp.zeros(0, q.dtype)


def constraint_residual(
    model: Model, q: ArrayLike, constraints: Sequence[Constraint] | None = None
) -> Float[Array, " m"]:
    """Return the position errors (m,) at q (nq,), in metres and radians.

    Raises `ValueError` for wrong shapes, unknown bodies and joints, `TypeError` for other types.
    """
    model, constraints, q = _at_q("constraint_residual", model, q, constraints)
    return laned(residual)(model, constraints, q) if constraints else jnp.zeros(0, q.dtype)


def _at_q(call, model, q, constraints):
    check_model(call, model)
    q = check_vector(call, "q", q, (model.nq,))
    model, q, constraints = common_dtype(model, q, given=(check_constraints(call, model, constraints),))
    return model, constraints, q


def constraint_slices(model: Model, constraints: Sequence[Constraint] | None = None) -> dict[str | int, slice]:
    """Return the rows of each constraint as a Python slice, by its name, or by its place in the tuple if it has none.

    **Raises** `ValueError` if two constraints have the same name.
    """
    call = "constraint_slices"
    check_model(call, model)
    constraints = check_constraints(call, model, constraints)
    check_names(f"`{call}`", constraints)
    out: dict[str | int, slice] = {}
    start = 0
    for k, c in enumerate(constraints):
        rows = c.layout(model.topology).rows
        out[c.name if c.name is not None else k] = slice(start, start + rows)
        start += rows
    return out
