"""`simulate`: many time steps in one `lax.scan`."""

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ..constrained.auto import Auto
from ..constrained.base import Solver
from ..constrained.result import Result
from ..contact.laws import Law
from ..contact.limbs import cold
from ..contact.solution import Contacts
from ..engine.meshes import alike, sharded
from ..engine.once import once
from ..kinematics.embed import independent_forces
from ..model.checks import rows_of
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.state import State
from ..spatial.instances import check_flag, described
from ..spatial.numbers import floats
from .dynamics import Dynamics
from .integrators import Integrator, SemiImplicitEuler
from .step import _prepared, advance, check_contacts, checked_time_step


class Trajectory(eqx.Module):
    """The states of T steps. **Fields:** `q` (T + 1, nq) and `v` (T + 1, nv), the initial state first; `tau` (T, nv),
    `multipliers` (T, m) and `result` (T,) of the steps; `contacts` of the steps (`impulses` (T, slots, 3),
    `gaps` (T, slots), ...), None without a law of contact."""

    q: Float[Array, "T+1 nq"]
    v: Float[Array, "T+1 nv"]
    tau: Float[Array, "T nv"]
    multipliers: Float[Array, "T m"]
    result: Result
    contacts: Contacts | None = None

    def __getitem__(self, index) -> State:
        """Return the state, or states, at a time index."""
        return State(self.q[index], self.v[index])


def _whole(x: Any) -> int | None:
    """Return a whole number, of Python, NumPy or JAX, as an int; None for anything else."""
    try:
        return None if isinstance(x, bool) else operator.index(x)
    except TypeError:  # traced numbers raise it too
        return None


def _forces(call: str, model: Model, tau, steps, dtype) -> tuple[Array | None, int]:
    """Return the forces (T, nv), None for a policy, and the number of steps."""
    if callable(tau):
        number = _whole(steps)
        if number is None or number < 1:
            hint = "with a policy, give the number of steps, a whole number of at least 1"
            raise ValueError(f"`{call}`: `steps` is {steps!r:.60}; {hint}.")
        return None, number
    taus = floats(f"`{call}`", "tau", tau).astype(dtype)
    if taus.ndim != 2 or taus.shape[1] not in (model.nv, model.topology.nv):
        raise ValueError(f"`{call}`: `tau` has shape {taus.shape}, not (T, {model.nv}).")
    if steps is not None and _whole(steps) != taus.shape[0]:
        raise ValueError(f"`{call}`: `steps` is {described(steps)}, but `tau` has {taus.shape[0]} rows.")
    return taus, taus.shape[0]


def simulate(
    model: Model,
    state: State,
    tau: ArrayLike | Callable[[State, Array], ArrayLike],
    dt: ArrayLike,
    *,
    steps: int | None = None,
    integrator: Integrator = SemiImplicitEuler(),  # noqa: B008 - static
    constraints: Sequence[Constraint] | None = None,
    solver: Solver = Auto(),  # noqa: B008 - static
    project: bool = False,
    external: ArrayLike | None = None,
    warm_start: bool | None = None,
    contacts: Law | None = None,
) -> Trajectory:
    """Return the `Trajectory` of many steps under generalised forces `tau` (T, nv) or a policy (state, time) -> (nv,).
    With embedded loops the forces may also be those at all joints of the tree.

    **Arguments:** `steps`, their number, required with a policy; `warm_start`: start each solve from the multipliers of
    the previous step (by default True with contact; without contact it pays off if you read the multipliers anyway);
    `contacts`, the law of contact, as in `step`; `dt` (), `external` (nb, 6) and the others as in `step`.

    **Raises** `ValueError` for wrong shapes and for a policy without `steps`.
    """
    name = "simulate"
    model, state, _, constraints, external = _prepared(
        name, model, state, None, constraints, external, integrator, solver
    )
    check_contacts(name, model, contacts, integrator, solver)
    warm_start = contacts is not None if warm_start is None else warm_start
    check_flag(f"`{name}`", "project", project)
    check_flag(f"`{name}`", "warm_start", warm_start)
    dtype = state.q.dtype
    dt = checked_time_step(name, dt, dtype)
    policy = tau if callable(tau) else None
    taus, steps = _forces(name, model, tau, steps, dtype)

    rows = rows_of(model, constraints) if warm_start else 0
    warm = jnp.zeros(rows, dtype) if contacts is None or not warm_start else cold(model, contacts, rows)
    dynamics = Dynamics(model, taus, constraints, solver, external, warm, contacts, project)
    given = dynamics, state, dt, integrator, steps, warm_start
    return _rolled(policy, *given) if policy is not None else _rolled_once(None, *given)


def _rolled(policy, dynamics: Dynamics, state: State, dt, integrator, steps: int, warm_start: bool) -> Trajectory:
    """Return the `Trajectory` under the forces (T, nv) of `dynamics`, or the policy's."""
    model, taus, dtype = dynamics.model, dynamics.tau, state.q.dtype

    def body(carry, x):
        state, warm = carry
        k, force = x
        if policy is not None:
            force = floats("`simulate`", "tau(state, t)", policy(state, k * dt)).astype(dtype)
            if force.shape not in ((model.nv,), (model.topology.nv,)):
                raise ValueError(f"`simulate`: the policy returns shape {force.shape}, not ({model.nv},).")
        now = dataclasses.replace(dynamics, tau=force, warm=warm if warm_start else None)
        after, told = advance(model, now, state, dt, integrator)
        kept = warm
        if warm_start:
            kept = jax.lax.stop_gradient(told.multipliers if told.warm is None else told.warm)
        force = independent_forces(model, state.q, force)
        return (after, kept), (after, force, told.multipliers, told.result, told.contacts)

    times = jnp.arange(steps, dtype=dtype)
    given = dynamics, dt
    if policy is not None and sharded():  # the types of a scan's carry have to be known
        given = *given, policy(state, jnp.zeros((), dtype))
    start = alike((state, dynamics.warm), *given)
    _, (states, forces, lam, result, touched) = jax.lax.scan(body, start, (times, taus))
    q, v = (jnp.concatenate([a[None], b]) for a, b in ((state.q, states.q), (state.v, states.v)))
    return Trajectory(q, v, forces, lam, result, touched)


#: a policy may depend on more than its arguments
_rolled_once = once(_rolled)
