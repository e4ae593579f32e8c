"""`step`: one time step."""

import warnings
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..constrained.auto import Auto
from ..constrained.base import Solver, check_solver
from ..constrained.impulse import least, rates
from ..contact.checks import check_contacts, check_law
from ..contact.laws import Law
from ..contact.solution import closed
from ..engine.lanes import laned
from ..engine.meshes import alike
from ..engine.once import once
from ..kinematics.assemble import residual
from ..kinematics.embed import checked_forces
from ..kinematics.manifold import integrate
from ..model.checks import check_constraints, check_external, check_model, check_state, check_vector, common_dtype
from ..model.commands import Commands, actuators_hint
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.state import State
from ..model.values import ModelWarning
from ..spatial.instances import check_flag, check_instance
from ..spatial.numbers import ArrayLike, check, finite, floats, numbers_of, positive
from .dynamics import Dynamics, StepInfo, inertia_of
from .integrators import Integrator, SemiImplicitEuler

#: number of Newton corrections of the position in one projection
CORRECTIONS = 2


def checked_controls(call: str, model: Model, tau) -> jax.Array | Commands:
    """Return generalised forces as `checked_forces` does, or commands (nu,)."""
    if isinstance(tau, Commands):
        return Commands(check_vector(call, "tau.values", tau.values, (model.nu,), actuators_hint(model)))
    return checked_forces(call, model, tau)


def checked_time_step(call_name: str, dt: ArrayLike, dtype):
    dt = floats(f"`{call_name}`", "dt", dt, ()).astype(dtype)
    check(f"`{call_name}`", "dt", dt, finite, positive)
    return dt


@once
def projected(model: Model, state: State, constraints, solver: Solver) -> State:
    """Return the nearest state, in the metric of M, with closed loops and a velocity that keeps them closed."""
    if not constraints:
        return state
    zero = jnp.zeros_like(state.v)

    def closer(q, _):
        r2 = -laned(residual)(model, constraints, q)
        return integrate(model, q, least(model, constraints, q, zero, r2, solver)[0]), None

    q, _ = jax.lax.scan(closer, alike(state.q, model, state, constraints), length=CORRECTIONS)
    return kept(model, State(q, state.v), constraints, solver)


@once
def kept(model: Model, state: State, constraints, solver: Solver) -> State:
    """Return the state with the nearest velocity, in the metric of M, that keeps loops closed."""
    if not constraints:
        return state
    r2 = -rates(model, constraints, state.q, state.v)
    return State(state.q, state.v + least(model, constraints, state.q, jnp.zeros_like(state.v), r2, solver)[0])


def advance(dynamics: Dynamics, state, dt, integrator) -> tuple[State, StepInfo]:
    """Return the next state, and the multipliers, result and contacts of the step."""
    model = dynamics.model
    made = integrator.step(model, dynamics, state, dt)
    if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], StepInfo)):
        name = type(integrator).__name__
        raise TypeError(f"`{name}.step` returns {type(made).__name__}, not a `State` and a `jaxdyn.extend.StepInfo`.")
    after, now = made
    if dynamics.projected:
        constraints = dynamics.constraints
        if dynamics.law is None:
            return projected(model, after, constraints, dynamics.solver), now
        after = closed(model, constraints, after, now.warm, dt, dynamics.law, CORRECTIONS)
        after = kept(model, after, constraints, dynamics.solver)
    return after, now


def step(
    model: Model,
    state: State,
    tau: ArrayLike | Commands,
    dt: ArrayLike,
    *,
    integrator: Integrator = SemiImplicitEuler(),  # noqa: B008 - static
    constraints: Sequence[Constraint] | None = None,
    solver: Solver = Auto(),  # noqa: B008 - static
    project: bool = False,
    external: ArrayLike | None = None,
    contacts: Law | None = None,
) -> State:
    """Return the state after `dt` () seconds under constant generalised forces `tau` (nv,), or under `Commands` of the
    actuators.

    **Arguments:** `integrator`, one of `jaxdyn.integrators`; `project`: after the step, close the loops to rounding
    and project the velocity so that they stay closed; with contact, also keep touching shapes from overlapping or
    parting; `contacts`, the law of contact between the model's shapes, such as ``jd.contact.PGS()`` (None: shapes do
    not collide); `external` (nb, 6) and the others as in `forward_dynamics`.

    Raises `ValueError` for wrong shapes, a `dt` that is not positive, constraints that the solver does not support,
    and contacts that the integrator or the model does not support; `TypeError` for other types.
    """
    tau = checked_controls("step", check_model("step", model), tau)
    model, state, tau, constraints, external, dt = _prepared(
        "step", model, state, tau, constraints, external, integrator, solver, project, contacts, dt
    )
    rough = inertia_of(model) if isinstance(tau, Commands) else None
    dynamics = Dynamics(model, tau, constraints, solver, external, None, contacts, project, rough)
    return advance(dynamics.held(state, dt)[0], state, dt, integrator)[0]


def check_contacts_of_step(call: str, model: Model, law: Law | None, integrator: Integrator, solver: Solver) -> None:
    """Raise an error unless the law of contact, if there is one, fits the integrator, the model and the solver."""
    if law is None:
        return
    if not integrator.touches:
        check_law(call, model, law)  # an integrator in the place of the law is the likelier mistake
        raise ValueError(
            f"`{call}`: `{type(integrator).__name__}` takes no `contacts`. Use `jd.integrators.SemiImplicitEuler()`."
        )
    check_contacts(call, model, law, solver)


def warn_of_gains(call: str, constraints: Sequence[Constraint], dt, integrator: Integrator) -> None:
    """Warn of a stabilisation that makes openings grow: with v' = v − dt (k x + d v) and x' = x + dt v', they do unless
    dt² k + 2 dt d < 4."""
    h = numbers_of(dt)
    if h is None or not isinstance(integrator, SemiImplicitEuler):
        return
    for k, c in enumerate(constraints):
        gains = [numbers_of(x) for x in (c.stabilization.stiffness, c.stabilization.damping)]
        if any(x is None or x.shape for x in gains):
            continue
        stiffness, damping = (float(x) for x in gains)
        if h * h * stiffness + 2 * h * damping >= 4:
            most = (np.sqrt(damping**2 + 4 * stiffness) - damping) / stiffness if stiffness else 2 / damping
            warnings.warn(
                f"`{call}`: steps of {h:g} s make the openings of constraint {c.name or k!r} grow; its stabilization "
                f"takes less than {most:.3g} s. Give `project=True`, smaller steps, or weaker gains, "
                "`jd.constraints.Baumgarte(stiffness)`.",
                ModelWarning,
                stacklevel=4,
            )


def _prepared(name, model, state, tau, constraints, external, integrator, solver, project, contacts, dt):
    """Return the model, state, forces, constraints, wrenches and dt, checked and of one type."""
    check_model(name, model)
    state = check_state(name, model, state)
    external = check_external(name, model, external)
    check_instance(f"`{name}`", "integrator", integrator, Integrator, " Use one such as `jd.integrators.RK4()`.")
    constraints = check_constraints(name, model, constraints)
    check_solver(name, solver)
    solver.check(f"`{name}`", model.topology, constraints)
    written = constraints
    model, state, tau, constraints, external = common_dtype(model, state, given=(tau, constraints, external))
    check_flag(f"`{name}`", "project", project)
    check_contacts_of_step(name, model, contacts, integrator, solver)
    step = checked_time_step(name, dt, state.q.dtype)
    if not project:
        warn_of_gains(name, written, dt, integrator)
    return model, state, tau, constraints, external, step
