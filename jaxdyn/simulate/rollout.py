"""`simulate`: many time steps in one `lax.scan`."""

import dataclasses
import operator
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..constrained.auto import Auto
from ..constrained.base import Solver
from ..constrained.result import Result, result_counts
from ..contact.laws import Law
from ..contact.solution import Contacts
from ..contact.warm_start import WarmStart, cold
from ..engine.meshes import alike, sharded
from ..engine.once import anew, once
from ..kinematics.embed import independent_forces
from ..model.checks import commands_hint
from ..model.commands import Commands, actuators_hint
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.state import State
from ..spatial.instances import check_callable, check_flag, described
from ..spatial.numbers import ArrayLike, floats
from .dynamics import Dynamics, inertia_of
from .integrators import Integrator, SemiImplicitEuler
from .step import _prepared, advance


class Trajectory(eqx.Module):
    """The states of T steps. **Fields:** `q` (T + 1, nq) and `v` (T + 1, nv), the initial state first; of the steps,
    `tau` (T, nv) at their starts, `multipliers` (T, m), `result` (T,), and `contacts` (`impulses` (T, slots, 3), `gaps`
    (T, slots), ...), None without a law of contact; `warm_start`, that of the next call, None if the solves started
    cold: it belongs to the end, without an axis of time."""

    q: Float[Array, "T+1 nq"]
    v: Float[Array, "T+1 nv"]
    tau: Float[Array, "T nv"]
    multipliers: Float[Array, "T m"]
    result: Result
    contacts: Contacts | None = None
    warm_start: WarmStart | None = None

    def __repr__(self) -> str:
        """Return the fields as text, with the results counted where they are known."""
        codes = jax.tree.leaves(self.result)
        known = isinstance(self.result, Result) and [isinstance(x, jax.Array | np.ndarray) for x in codes] == [True]
        if not known or self.result.is_traced():
            return eqx.tree_pformat(self)
        counts: Any = result_counts(self.result)  # in place of one message for each step
        return eqx.tree_pformat(dataclasses.replace(self, result=counts))

    def __len__(self) -> int:
        """Return the number of states, T + 1, of a single trajectory; of a batch, the number of trajectories."""
        return self.q.shape[0]

    def __getitem__(self, index) -> State:
        """Return the state, or states, at a time index. **Raises** `IndexError` for a number beyond the trajectory."""
        number, states = _whole(index), len(self)
        if number is not None and not -states <= number < states:  # JAX would return the last, and loops never end
            raise IndexError(f"`Trajectory`: there is no state {number} of {states}.")
        return State(self.q[index], self.v[index])

    @property
    def final(self) -> State:
        """Return the last state of a trajectory, the last ones of a batch."""
        return State(self.q[..., -1, :], self.v[..., -1, :])


def _whole(x: Any) -> int | None:
    """Return a whole number, of Python, NumPy or JAX, as an int; None for anything else."""
    try:
        return None if isinstance(x, bool) else operator.index(x)
    except TypeError:  # traced numbers raise it too
        return None


def _controls(call: str, model: Model, tau, steps, dtype) -> tuple[Array | Commands | None, int]:
    """Return the forces (T, nv) or commands (T, nu), None for a policy, and the number of steps."""
    if callable(tau):
        check_callable(f"`{call}`", "tau", tau, 2)
        number = _whole(steps)
        if number is None or not 0 < number < 2**31:
            hint = "with a policy, give the number of steps, a whole number of at least 1 and below 2**31"
            raise ValueError(f"`{call}`: `steps` is {steps!r:.60}; {hint}.")
        return None, number
    controls = _typed(call, "tau", model, tau, dtype, "T, ")
    rows = jax.tree.leaves(controls)[0].shape[0]
    if steps is not None and _whole(steps) != rows:
        raise ValueError(f"`{call}`: `steps` is {described(steps)}, but `tau` has {rows} rows.")
    return controls, rows


def _typed(call: str, name: str, model: Model, tau, dtype, axis: str) -> Array | Commands:
    """Return forces (nv,) or (n,), or commands (nu,), as floats of a type; `axis` names the axis before, if any. Raise
    `ValueError` for other shapes."""
    commands = isinstance(tau, Commands)
    name, given = (f"{name}.values", tau.values) if commands else (name, tau)
    widths = (model.nu,) if commands else (model.nv, model.topology.nv)
    x = floats(f"`{call}`", name, given).astype(dtype)
    if x.ndim != 1 + bool(axis) or x.shape[-1] not in widths:
        wanted = f"({axis}{widths[0]}{'' if axis else ','})"
        hint = actuators_hint(model) if commands else commands_hint(model, x.shape)
        if x.shape[-1:] and x.shape[-1] in widths:
            hint = " For a batch, use `jax.vmap`." if x.ndim > 1 + bool(axis) else ""
        raise ValueError(f"`{call}`: `{name}` has shape {x.shape}, not {wanted}.{hint}")
    return Commands(x) if commands else x


def simulate(
    model: Model,
    state: State,
    tau: ArrayLike | Commands | Callable[[State, Array], ArrayLike | Commands],
    dt: ArrayLike,
    *,
    steps: int | None = None,
    integrator: Integrator = SemiImplicitEuler(),  # noqa: B008 - static
    constraints: Sequence[Constraint] | None = None,
    solver: Solver = Auto(),  # noqa: B008 - static
    project: bool = False,
    external: ArrayLike | None = None,
    warm_start: bool | WarmStart | None = None,
    contacts: Law | None = None,
) -> Trajectory:
    """Return the `Trajectory` of many steps under generalised forces `tau` (T, nv), under `Commands` (T, nu) of the
    actuators, or under a policy (state, time) that returns forces (nv,) or commands (nu,). With embedded loops the
    forces may also be those at all joints of the tree.

    **Arguments:** `steps`, their number, required with a policy; `warm_start`: start each solve from the multipliers of
    the previous step (by default True with contact; without contact it pays off if you read the multipliers anyway), or
    also the first from a `WarmStart`, such as that of the trajectory before;
    `contacts`, the law of contact, as in `step`; `dt` (), `external` (nb, 6) and the others as in `step`.

    **Raises** `ValueError` for wrong shapes and for a policy without `steps`.
    """
    name = "simulate"
    model, state, _, constraints, external, dt = _prepared(
        name, model, state, None, constraints, external, integrator, solver, project, contacts, dt
    )
    dtype = state.q.dtype
    policy = tau if callable(tau) else None
    controls, steps = _controls(name, model, tau, steps, dtype)

    warm = _first(name, model, constraints, contacts, warm_start, dtype)
    rough = inertia_of(model) if policy or isinstance(controls, Commands) else None
    dynamics = Dynamics(model, controls, constraints, solver, external, warm, contacts, project, rough)
    given = dynamics, state, dt, integrator, steps
    if policy is None:
        return _rolled_once(None, *given)
    return anew(lambda: _rolled(policy, *given))  # a policy may depend on more than its arguments


def _first(call: str, model: Model, constraints, law, warm_start, dtype) -> WarmStart | None:
    """Return the warm start of the first step, None if all steps start cold."""
    if warm_start is None:
        warm_start = law is not None
    if not isinstance(warm_start, WarmStart):
        hint = " A `jd.WarmStart` is that of a trajectory, or `jd.cold_start(...)`."
        check_flag(f"`{call}`", "warm_start", warm_start, hint)
        if not warm_start:
            return None
    start = cold(model, constraints, law)
    if not isinstance(warm_start, WarmStart):
        return start
    shapes = [(jnp.shape(x.forces), jnp.shape(x.which)) for x in (warm_start, start)]
    if shapes[0] != shapes[1]:
        raise ValueError(
            f"`{call}`: `warm_start` has forces and which of shapes {shapes[0]}, not {shapes[1]}. Take that of a "
            "trajectory of the same model, constraints and contacts, or `jd.cold_start` of this very model: traced "
            "limits and dry friction of joints add rows."
        )
    return jax.lax.stop_gradient(jax.tree.map(lambda x: x.astype(dtype), warm_start))


def _rolled(policy, dynamics: Dynamics, state: State, dt, integrator, steps: int) -> Trajectory:
    """Return the `Trajectory` under the controls of `dynamics`, with an axis of time, or the policy's."""
    model, controls, dtype = dynamics.model, dynamics.tau, state.q.dtype

    def body(carry, x):
        state, warm = carry
        k, now = x
        if policy is not None:
            now = _typed("simulate", "tau(state, t)", model, policy(state, k * dt), dtype, "")
        held, force = dataclasses.replace(dynamics, tau=now, warm=warm).held(state, dt)
        after, info = advance(held, state, dt, integrator)
        if warm is not None:
            warm = info.warm if info.warm is not None else dataclasses.replace(warm, forces=info.multipliers)
            warm = jax.lax.stop_gradient(warm)
        force = independent_forces(model, state.q, force)
        return (after, warm), (after, force, info.multipliers, info.result, info.contacts)

    times = jnp.arange(steps, dtype=dtype)
    given = dynamics, dt
    if policy is not None and sharded():  # the types of a scan's carry have to be known
        given = *given, policy(state, jnp.zeros((), dtype))
    start = alike((state, dynamics.warm), *given)
    (_, warm), (states, forces, lam, result, touched) = jax.lax.scan(body, start, (times, controls))
    q, v = (jnp.concatenate([a[None], b]) for a, b in ((state.q, states.q), (state.v, states.v)))
    return Trajectory(q, v, forces, lam, result, touched, warm)


_rolled_once = once(_rolled)
