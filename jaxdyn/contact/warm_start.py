"""Warm starts: the forces from which the solves of a step begin."""

from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..model.checks import check_constraints, check_model
from ..model.checks import rows_of as rows_of_constraints
from ..model.constraints import Constraint
from ..model.model import Model
from .checks import check_law
from .laws import Law
from .limbs import Group, chosen, groups_of, rows_of, spans


class WarmStart(eqx.Module):
    """What the solves of a step start from. It affects how fast they converge, not what they converge to; gradients do
    not pass through it.

    **Fields:** `forces` (rows,) of constraints, then of contact; `which` (chosen,), the places of those slots of
    contact that move from place to place, to which their forces belong; -1 is none. All zero is a cold start too."""

    forces: Float[Array, " rows"]
    which: Float[Array, " chosen"]


def cold_start(
    model: Model, *, constraints: Sequence[Constraint] | None = None, contacts: Law | None = None
) -> WarmStart:
    """Return the `WarmStart` of zero forces, for `simulate` with these constraints (None: the model's) and this law of
    contact (None: no contact).

    Raises `ValueError` for unknown bodies and joints, `TypeError` for other types.
    """
    name = "cold_start"
    model = check_model(name, model)
    if contacts is not None:
        check_law(name, model, contacts)
    return cold(model, check_constraints(name, model, constraints), contacts)


def cold(model: Model, constraints: Sequence[Constraint], law: Law | None) -> WarmStart:
    """Return what `cold_start` returns, for checked arguments."""
    rows, dtype, slots = rows_of_constraints(model, constraints), model.gravity.dtype, 0
    if law is not None:
        rows += rows_of(model, law)
        slots = sum(own.stop - own.start for _, own in spans(groups_of(model, law)))
    return WarmStart(jnp.zeros(rows, dtype), jnp.full(slots, -1, dtype))


def forces_at(groups: tuple[Group, ...], first: int, warm: WarmStart, which: Array) -> Array:
    """Return the forces (rows, lanes) of a warm start at the present places `which` (chosen, lanes) of the slots, zero
    where a place had no slot. Contact rows begin at `first`."""
    f, row = warm.forces, first
    twist = first + 3 * sum(group.slots for group in groups)
    for group, own in spans(groups):
        n, parts = group.slots, ((row, 3), (twist, 1)) if group.twists else ((row, 3),)
        if group.chosen:
            here = warm.which[own, None] == which[None, own]
            for start, each in parts:
                rows = slice(start, start + each * n)
                f = f.at[rows].set(chosen(here, f[rows].reshape(n, each, -1)).reshape(each * n, -1))
        row, twist = row + 3 * n, twist + (n if group.twists else 0)
    return f
