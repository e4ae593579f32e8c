"""What a step with contact finds."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..constrained.result import Result, result_of
from ..engine.lanes import call
from ..kinematics.embed import independent_forces
from ..kinematics.manifold import integrate
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.state import State
from .dynamics import ContactStep
from .laws import Closing, Law
from .pairs import bearing, slots_of, twists


class Contacts(eqx.Module):
    """What happens at the places where shapes may touch. **Fields:** `impulses` (slots, 3), N s: along the normal and
    two tangents, over the step; `gaps` (slots,), m, at its start, negative where shapes overlap; `pairs`, the names of
    the two shapes of every slot; `joints` (rows,), N s or N m s: impulses of twists, dry friction and limits of joints,
    in this order; `residual` (), m/s, what is left of the law of contact."""

    impulses: Float[Array, "slots 3"]
    joints: Float[Array, " rows"]
    gaps: Float[Array, " slots"]
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
    `result`; `contacts`; `warm` (rows,), the forces of constraints and contact, to start from."""

    state: State
    acceleration: Float[Array, " nv"]
    multipliers: Float[Array, " m"]
    result: Result
    contacts: Contacts
    warm: Float[Array, " rows"]


def rows_of(model: Model, law: Law) -> int:
    """How many rows a law has forces for."""
    scene, kinds = model.collision.scene, model.topology.kinds
    touching = sum(count * (4 if twists(model, pair) else 3) for pair, count in bearing(model).items())
    joints = (scene.limited if law.limits else ()) + (scene.rubbing if law.dry_friction else ())
    return touching + sum(kinds[b].nv for b in joints)


def contact_step(
    model: Model, constraints: Sequence[Constraint], q, v, tau, external, dt, law: Law, warm: Array | None = None
) -> Touched:
    """What a step of dt seconds finds, differentiable in everything, from the multipliers and forces `warm` on."""
    args = model, tuple(constraints), q, v, independent_forces(model, q, tau), external, dt, warm
    found = call(lambda tree, known, c: ContactStep(law, tree, known, c), *args)
    a, nu, f, _, gaps, code, left, end, after, some = found
    n = len(gaps)
    contacts = Contacts(
        dt * f[: 3 * n].reshape(n, 3), dt * f[3 * n :], gaps, jax.lax.stop_gradient(left), slots_of(model)
    )
    return Touched(State(end, after), a, nu, result_of(code), contacts, jnp.concatenate([some, f]))


def closed(model: Model, constraints: Sequence[Constraint], state: State, f: Array, dt, law: Law, steps: int) -> State:
    """The state after a step that had the forces f along the rows of contact, corrected as `jaxdyn.contact.closing`
    tells: q by `steps` corrections, then v."""
    m = sum(c.layout(model.topology).rows for c in constraints)

    def change(q, f, positions: bool):
        args = model, tuple(constraints), q, state.v, f, None, dt, jnp.pad(f, (m, 0))
        a, _, F, *_ = call(lambda tree, known, c: ContactStep(Closing(law, positions), tree, known, c), *args)
        return a, F

    def closer(s, _):
        q, f = s
        a, F = change(q, f, True)
        return (integrate(model, q, a, dt * dt), F), None

    (q, _), _ = jax.lax.scan(closer, (state.q, f), length=steps)
    return State(q, state.v + dt * change(q, f, False)[0])
