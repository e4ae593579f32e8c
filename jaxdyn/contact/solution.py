"""The results of steps and impacts with contact, and the functions that compute them."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..constrained.result import Result, result_of
from ..engine.lanes import call
from ..engine.meshes import alike
from ..engine.once import once
from ..kinematics.embed import independent_forces
from ..kinematics.manifold import integrate
from ..model.checks import rows_of
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.state import State
from .dynamics import ContactStep
from .joints import apart, held_of
from .laws import Closing, Law
from .limbs import groups_of, places_of, rows_of_joints
from .places import names_of
from .warm_start import WarmStart


class Contacts(eqx.Module):
    """The contacts of a step: the impulses and gaps at its slots, the places where shapes may touch.

    **Fields:** `impulses` (slots, 3), N s: along the normal and two tangents, over the step; `gaps` (slots,), m, at its
    start, negative where shapes overlap; `which` (slots,), the place of each slot; `pairs`, the names of the two shapes
    of every place; `joints` (rows,), N s or N m s: impulses of twists, then dry friction of joints that have it, then
    the pushes of limits of joints that have them (limits bear what dry friction cannot); `residual` (), the most that
    is left of the law of contact, m/s, or rad/s of rows that turn."""

    impulses: Float[Array, "slots 3"]
    joints: Float[Array, " rows"]
    gaps: Float[Array, " slots"]
    which: Int[Array, " slots"]
    residual: Float[Array, ""]
    pairs: tuple[tuple[str, str], ...] = eqx.field(static=True)


class Jump(eqx.Module):
    """The result of `impulse`. **Fields:** `velocity` (nv,), after the jump; `impulses` (m,) of the constraints (N s or
    N m s), the minimum-norm ones; `result`, a `Result`; `contacts`, None without a law of contact."""

    velocity: Float[Array, " nv"]
    impulses: Float[Array, " m"]
    result: Result
    contacts: Contacts | None = None


class ContactStepped(eqx.Module):
    """The result of a step with contact. **Fields:** `state`, after the step; `acceleration` (nv,), over it;
    `multipliers` (m,) of the constraints; `result`; `contacts`; `warm`, the warm start of the next step."""

    state: State
    acceleration: Float[Array, " nv"]
    multipliers: Float[Array, " m"]
    result: Result
    contacts: Contacts
    warm: WarmStart


def contacts_of(model: Model, law: Law, f: Array, dt, gaps: Array, left: Array, which: Array) -> Contacts:
    """Return the `Contacts` of forces f (rows,), gaps (slots,), the residual `left` of the law, and the places `which`
    of chosen slots."""
    left, slots = jax.lax.stop_gradient(left), 3 * len(gaps)
    places = places_of(groups_of(model, law), jax.lax.stop_gradient(which))
    end = len(f) - rows_of_joints(model, law)
    joints = jnp.concatenate([f[slots:end], *apart(model, law, f[end:])])
    return Contacts(dt * f[:slots].reshape(-1, 3), dt * joints, gaps, places, left, names_of(model))


def contact_step(
    model: Model, constraints: Sequence[Constraint], q, v, tau, external, dt, law: Law, warm: WarmStart | None = None
) -> ContactStepped:
    """Return the result of a step of dt seconds, differentiable in everything. `warm` is its warm start."""
    args = model, tuple(constraints), q, v, independent_forces(model, q, tau), external, dt, warm
    found = call(lambda tree, known, c: ContactStep(law, tree, known, c), *args, parameters=(6,))  # dt
    a, nu, f, _, gaps, code, left, end, after, some, which = found
    which = jax.lax.stop_gradient(which)
    contacts = contacts_of(model, law, f, dt, gaps, left, which)
    return ContactStepped(
        State(end, after), a, nu, result_of(code), contacts, WarmStart(jnp.concatenate([some, f]), which)
    )


@once
def closed(
    model: Model, constraints: Sequence[Constraint], state: State, warm: WarmStart, dt, law: Law, steps: int
) -> State:
    """Return the state after a step with the forces `warm` at its slots, and q corrected as in `jaxdyn.contact.closing`
    by `steps` corrections."""
    m, n = rows_of(model, constraints), rows_of_joints(model, law)
    pushed = warm.forces[m:].at[-n:].set(held_of(model, law).stopped(warm.forces[-n:])) if n else warm.forces[m:]
    made = Closing.of(law, smoothing=0.0)

    def closer(s, _):
        q, f = s
        args = model, tuple(constraints), q, state.v, f, None, dt, WarmStart(jnp.pad(f, (m, 0)), warm.which)
        a, _, F, *_ = call(lambda tree, known, c: ContactStep(made, tree, known, c), *args, parameters=(6,))  # dt
        return (integrate(model, q, a, dt * dt), F), None

    start = alike((state.q, pushed), model, constraints, state, dt)
    (q, _), _ = jax.lax.scan(closer, start, length=steps)
    return State(q, state.v)
