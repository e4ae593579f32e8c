"""Time integrators on the configuration manifold. An integrator makes a step from a function of accelerations."""

import abc
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..engine.meshes import alike
from ..engine.once import once
from ..kinematics.embed import gained
from ..kinematics.manifold import arriving, moving
from ..model.model import Model
from ..model.state import State
from ..spatial.instances import described
from ..spatial.numbers import constants
from ..spatial.options import check_positive_integer
from .dynamics import Dynamics, StepInfo
from .stages import end, rate, stage


class Integrator(eqx.Module):
    """Base class of integrators: `step` returns the state after dt seconds, and how the step went.

    Springs and dampers of joints may be faster than dt: a damper on a thin rod acts within microseconds. An implicit
    integrator takes their forces at the end of the step. With stiffness K and damping D this adds an inertia to the
    joints.
    """

    #: True if it supports contact
    touches: ClassVar[bool] = False

    @abc.abstractmethod
    def step(self, model: Model, dynamics: Dynamics, state: State, dt) -> tuple[State, StepInfo]:
        """Return the state after dt seconds, and the multipliers and result of the step. ``dynamics(state, inertia,
        force)`` are the accelerations (nv,) under the held controls, with an inertia (n,), as in `Joints`, and a force
        (nv,) added to the joints."""


#: how far the weights of a tableau may be from the sum 1: printed digits
CONSISTENT = 1e-6


def _info(found) -> StepInfo:
    return StepInfo(found.multipliers, found.result)


class Leapfrog(Integrator):
    """Second order, one factorisation a step: half a drift q ← q ⊕ ½ dt v, a kick v ← v + dt a, half a
    drift with the new v.

    The kick is that of the variational (symplectic) integrator of bodies built from points, which closes loops at the
    next midpoint: energy errors of undamped motions stay bounded, and momentum is conserved. Corrections with one
    factor solve its equations, for each element of the batch until the next change of v is below 3e-9 of v (single
    precision: 1e-7): two or three corrections where bodies turn by a hundredth of a radian a step. Springs and dampers
    of joints are implicit: none is too stiff for dt.
    """

    def step(self, model, dynamics, state, dt):
        found = dynamics.leap(state, dt)
        return State(found.q, found.v), _info(found)


class SemiImplicitEuler(Integrator):
    """First order, one solve a step; the default, and the only one that supports contact: v ← v + dt a, then q moves
    with the new v. Undamped motions gain energy, in proportion to dt, until they explode: use `Leapfrog` for those.

    The forces of joint springs and dampers are those at the end of the step,
    (M + dt D + dt² K) a = τ − h + passive(q, v) − dt K v, so that no spring or damper of a joint is too stiff for dt.
    """

    touches: ClassVar[bool] = True

    def step(self, model, dynamics, state, dt):
        if dynamics.law is not None:
            found = dynamics.touch(state, dt)
            return found.state, StepInfo(found.multipliers, found.result, found.contacts, found.warm)
        found = dynamics.euler(state, dt)
        return State(found.q, found.v), _info(found)


def _row(name: str, x: Any) -> tuple[float, ...]:
    """Return numbers of a tableau as a tuple."""
    found = constants("`RungeKutta`", name, x, None)
    if found.ndim != 1:
        raise ValueError(f"`RungeKutta`: `{name}` has shape {found.shape}, not that of a list of numbers.")
    return tuple(found.tolist())


def _rows(x: Any) -> tuple[tuple[float, ...], ...]:
    if not isinstance(x, tuple | list | np.ndarray):
        raise TypeError(f"`RungeKutta`: `a` is {described(x)}, not a list of rows.")
    return tuple(_row(f"a[{k}]", row) for k, row in enumerate(x))


class RungeKutta(Integrator):
    """The explicit Runge-Kutta method of a tableau, applied to q and v as stored. It normalises quaternions after the
    step, which preserves the order of accuracy.

    **Arguments:** `a`, one row for each stage, of the strictly lower triangle or of the whole matrix; the first one is
    ``()`` or zero. `b`, the weights of the stages, which add up to 1.

    **Raises** `ValueError` for a tableau that is not explicit, or whose rows do not fit its weights.
    """

    a: tuple[tuple[float, ...], ...] = eqx.field(static=True, converter=_rows)
    b: tuple[float, ...] = eqx.field(static=True, converter=lambda x: _row("b", x))

    def __check_init__(self):
        call, stages = "`RungeKutta`", len(self.b)
        if not stages or len(self.a) != stages:
            raise ValueError(f"{call}: `a` has {len(self.a)} rows for {stages} weights `b`: give one for each.")
        for k, row in enumerate(self.a):
            if len(row) > stages or any(row[k:]):
                raise ValueError(f"{call}: `a[{k}]` is {row}; stage {k} of an explicit method reads those before it.")
        if abs(sum(self.b) - 1) > CONSISTENT:
            raise ValueError(f"{call}: the weights `b` add up to {sum(self.b):g}, not 1.")

    @once
    def step(self, model, dynamics, state, dt):
        stages, dtype = len(self.b), state.q.dtype
        weights = np.zeros((stages, stages))
        for i, row in enumerate(self.a):
            weights[i, : len(row)] = row

        def next_slope(slopes, x):
            row, i = x
            at, dq = stage(model, state, dt, row, slopes)
            found = dq, dynamics(at)
            return tuple(k.at[i].set(new) for k, new in zip(slopes, found, strict=True)), None

        now = dynamics.solution(state)  # outside the scan, so that its multipliers can be returned
        first = rate(model, state), now.acceleration
        first = alike(first)
        slopes = tuple(alike(jnp.zeros((stages, x.size), dtype), x).at[0].set(x) for x in first)
        rows = (jnp.asarray(weights[1:], dtype), jnp.arange(1, stages))
        slopes, _ = jax.lax.scan(next_slope, slopes, rows)
        return end(model, state, dt, jnp.asarray(self.b, dtype), slopes), _info(now)


#: the tableau of `RK4`
CLASSICAL = ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)


class RK4(Integrator):
    """The classical Runge-Kutta method of fourth order, four solves a step; use `RungeKutta` for other tableaux."""

    def step(self, model, dynamics, state, dt):
        return RungeKutta(*CLASSICAL).step(model, dynamics, state, dt)


class _FixedPoint(Integrator):
    """Base class of implicit methods that find their stages by fixed-point iterations."""

    iterations: int = eqx.field(static=True, default=6)

    def __check_init__(self):
        check_positive_integer(self, "iterations")

    def step(self, model, dynamics, state, dt):
        # the stages are not at the start of the step, to which multipliers and result belong
        return self._after(model, dynamics, state, dt), _info(dynamics.solution(state))

    @abc.abstractmethod
    def _after(self, model, dynamics, state, dt) -> State:
        """Return the state after the step."""


class Gauss(_FixedPoint):
    """The two-stage Gauss-Legendre method: fourth order and symmetric. Choose it for long motions that conserve energy.

    Joint springs and dampers must be slower than dt, as with `RK4`.

    **Arguments:** `iterations`, fixed-point steps towards the stages, two solves each: every step multiplies the error
    by about dt times the fastest frequency.
    """

    @once
    def _after(self, model, dynamics, state, dt):
        dtype, half = state.q.dtype, np.sqrt(3) / 6
        a = jnp.asarray([[0.25, 0.25 - half], [0.25 + half, 0.25]], dtype)

        def slope(weights, slopes):
            at, dq = stage(model, state, dt, weights, slopes)
            return dq, dynamics(at)

        def closer(slopes, _):
            return jax.vmap(slope, (0, None))(a, slopes), None

        none = jnp.zeros((2, model.nq), dtype), jnp.zeros((2, model.nv), dtype)
        slopes = alike(none, model, dynamics, state, dt)
        slopes, _ = jax.lax.scan(closer, slopes, length=self.iterations)
        return end(model, state, dt, jnp.full(2, 0.5, dtype), slopes)


class ImplicitMidpoint(_FixedPoint):
    """Second order, symmetric: v' = v + dt a(q_m, v_m) at the midpoint. Its energy error is of second order and
    bounded; see `Gauss` for a smaller one. It treats joint springs and dampers implicitly.

    **Arguments:** `iterations`, fixed-point steps towards the midpoint: every step multiplies the error by about dt
    times the fastest frequency.
    """

    @once
    def _after(self, model, dynamics, state, dt):
        added = dt / 2 * model.joints.damping + dt * dt / 4 * model.joints.stiffness
        move = moving(model)

        def closer(a, _):
            mean = state.v + dt / 2 * a
            middle = State(move(state.q, mean, dt / 2), mean)
            # the inertia added to joints must not resist what they accelerate by at the midpoint
            return dynamics(middle, added, gained(model, middle.q, added, a, mean)), None

        start = alike(jnp.zeros_like(state.v), model, dynamics, state, dt)
        a, _ = jax.lax.scan(closer, start, length=self.iterations)
        return State(arriving(model)(state.q, dt * (state.v + dt / 2 * a)), state.v + dt * a)
