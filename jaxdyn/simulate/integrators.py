"""Time integrators on the configuration manifold. An integrator makes a step from a function of accelerations."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..engine.lanes import laned
from ..kinematics.manifold import integrate, normalized
from ..model.model import Model
from ..model.state import State

#: (state, added inertia (nv,), added force (nv,)) to accelerations (nv,) under the held controls
Field = Callable[..., jax.Array]


class Integrator(eqx.Module):
    """Base class of integrators: `step(model, acceleration, state, dt)` returns the state after dt seconds.

    Springs and dampers of joints may be faster than dt: a damper on a thin rod acts within microseconds. An implicit
    integrator takes their forces at the end of the step. With stiffness K and damping D this adds an inertia to the
    joints.
    """

    @abc.abstractmethod
    def step(self, model: Model, acceleration: Field, state: State, dt) -> State:
        """Return the state after dt seconds; `acceleration` maps a state to accelerations."""


class SemiImplicitEuler(Integrator):
    """First order, one solve a step: v ← v + dt a, then q moves with the new v.

    The step takes joint springs and dampers at its end,
    (M + dt D + dt² K) a = τ − h + passive(q, v) − dt K v, so that no spring or damper of a joint is too stiff for dt.
    """

    def step(self, model, acceleration, state, dt):
        stiffness, damping = model.joints.stiffness, model.joints.damping
        a = acceleration(state, dt * damping + dt * dt * stiffness, -dt * stiffness * state.v)
        v = state.v + dt * a
        return State(integrate(model, state.q, v, dt), v)


class RungeKutta(Integrator):
    """The explicit Runge-Kutta method of a tableau, applied to q and v as they are stored. It normalises quaternions
    after the step, which keeps the order.

    **Arguments:** `a`, rows of the strictly lower triangle as tuples; `b`, the weights.
    """

    a: tuple[tuple[float, ...], ...] = eqx.field(static=True)
    b: tuple[float, ...] = eqx.field(static=True)

    def step(self, model, acceleration, state, dt):
        stages = len(self.b)
        weights = np.zeros((stages, stages))
        for i, row in enumerate(self.a):
            weights[i, : len(row)] = row

        def moved(row, kq, kv):
            return state.q + dt * (row @ kq), state.v + dt * (row @ kv)

        def stage(carry, x):
            row, i = x
            kq, kv = carry
            rate, a = _slope(model, acceleration, *moved(row, kq, kv))
            return (kq.at[i].set(rate), kv.at[i].set(a)), None

        dtype = state.q.dtype
        zero = (jnp.zeros((stages, model.nq), dtype), jnp.zeros((stages, model.nv), dtype))
        rows = (jnp.asarray(weights, dtype), jnp.arange(stages))
        slopes, _ = jax.lax.scan(stage, zero, rows)
        q, v = moved(jnp.asarray(self.b, dtype), *slopes)
        return State(laned(normalized, model.topology)(q), v)


#: the tableau of `RK4`
CLASSICAL = ((), (0.5,), (0.0, 0.5), (0.0, 0.0, 1.0)), (1 / 6, 1 / 3, 1 / 3, 1 / 6)


class RK4(Integrator):
    """The classical Runge-Kutta method of fourth order, four solves a step; `RungeKutta` takes other tableaux."""

    def step(self, model, acceleration, state, dt):
        return RungeKutta(*CLASSICAL).step(model, acceleration, state, dt)


def _slope(model, acceleration, q, v):
    """Return the rates of q and v as they are stored."""
    move = lambda h: integrate(model, q, v, h)  # noqa: E731
    rate = jax.jvp(move, (jnp.zeros((), q.dtype),), (jnp.ones((), q.dtype),))[1]
    return rate, acceleration(State(q, v))


class Gauss(Integrator):
    """The two-stage Gauss-Legendre method: fourth order and symmetric. Choose it for long motions that keep energy.

    Joint springs and dampers must be slower than dt, as with `RK4`.

    **Arguments:** `iterations`, fixed-point steps towards the stages, two solves each: the error falls by about dt
    times the fastest frequency at each.
    """

    iterations: int = eqx.field(static=True, default=6)

    def step(self, model, acceleration, state, dt):
        dtype, half = state.q.dtype, np.sqrt(3) / 6
        a = jnp.asarray([[0.25, 0.25 - half], [0.25 + half, 0.25]], dtype)

        def closer(k, _):
            stages = [x[None] + dt * (a @ d) for x, d in zip((state.q, state.v), k, strict=True)]
            return jax.vmap(lambda q, v: _slope(model, acceleration, q, v))(*stages), None

        zero = (jnp.zeros((2, model.nq), dtype), jnp.zeros((2, model.nv), dtype))
        (kq, kv), _ = jax.lax.scan(closer, zero, length=self.iterations)
        q, v = state.q + dt / 2 * kq.sum(0), state.v + dt / 2 * kv.sum(0)
        return State(laned(normalized, model.topology)(q), v)


class ImplicitMidpoint(Integrator):
    """Second order, symmetric: v' = v + dt a(q_m, v_m) at the midpoint. Its energy error is of second order and
    bounded; see `Gauss` for a smaller one. It takes joint springs and dampers implicitly.

    **Arguments:** `iterations`, fixed-point steps towards the midpoint: the error falls by about dt times the
    fastest frequency at each.
    """

    iterations: int = eqx.field(static=True, default=6)

    def step(self, model, acceleration, state, dt):
        added = dt / 2 * model.joints.damping + dt * dt / 4 * model.joints.stiffness

        def closer(a, _):
            mean = state.v + dt / 2 * a
            middle = State(integrate(model, state.q, mean, dt / 2), mean)
            return acceleration(middle, added, added * a), None

        a, _ = jax.lax.scan(closer, jnp.zeros_like(state.v), length=self.iterations)
        return State(integrate(model, state.q, state.v + dt / 2 * a, dt), state.v + dt * a)
