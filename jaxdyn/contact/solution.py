"""What a step with contact finds."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..constrained.result import Result, result_of
from ..engine.lanes import call
from ..kinematics.embed import independent_forces
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.state import State
from .dynamics import ContactStep
from .laws import Law
from .limbs import Warm, groups_of, places_of
from .places import names_of


class Contacts(eqx.Module):
    """What happens at the places where shapes may touch. **Fields:** `impulses` (slots, 3), N s: along the normal and
    two tangents, over the step; `gaps` (slots,), m, at its start, negative where shapes overlap; `which` (slots,), the
    place that each slot is at; `pairs`, the names of the two shapes of every place; `joints` (rows,), N s or N m s:
    impulses of twists, dry friction and limits of joints, in this order; `residual` (), m/s, what is left of the law of
    contact."""

    impulses: Float[Array, "slots 3"]
    joints: Float[Array, " rows"]
    gaps: Float[Array, " slots"]
    which: Int[Array, " slots"]
    residual: Float[Array, ""]
    pairs: tuple[tuple[str, str], ...] = eqx.field(static=True)


class Jump(eqx.Module):
    """**Fields:** `velocity` (nv,), after the jump; `impulses` (m,) of the constraints (N s or N m s), the minimum-norm
    ones; `contacts`, if the law of contact was given."""

    velocity: Float[Array, " nv"]
    impulses: Float[Array, " m"]
    contacts: Contacts | None = None


class Touched(eqx.Module):
    """**Fields:** `state`, after the step; `acceleration` (nv,), over it; `multipliers` (m,) of the constraints;
    `result`; `contacts`; `warm`, what the next step may start from."""

    state: State
    acceleration: Float[Array, " nv"]
    multipliers: Float[Array, " m"]
    result: Result
    contacts: Contacts
    warm: Warm


def contact_step(
    model: Model, constraints: Sequence[Constraint], q, v, tau, external, dt, law: Law, warm: Warm | None = None
) -> Touched:
    """What a step of dt seconds finds, differentiable in everything, from `warm` on."""
    args = model, tuple(constraints), q, v, independent_forces(model, q, tau), external, dt, warm
    found = call(lambda tree, known, c: ContactStep(law, tree, known, c), *args)
    a, nu, f, _, gaps, code, left, end, after, some, which = found
    n, which = len(gaps), jax.lax.stop_gradient(which)
    contacts = Contacts(
        dt * f[: 3 * n].reshape(n, 3),
        dt * f[3 * n :],
        gaps,
        places_of(groups_of(model, law), which),
        jax.lax.stop_gradient(left),
        names_of(model),
    )
    return Touched(State(end, after), a, nu, result_of(code), contacts, Warm(jnp.concatenate([some, f]), which))
