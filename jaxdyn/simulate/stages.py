"""The points and slopes of Runge-Kutta methods, one kernel each.

The slopes of a method are (q̇, v̇) at its stages, with q̇ the time derivative of q as stored. A point is
(q, v) + dt Σ_k w_k (q̇_k, v̇_k) with weights w.
"""

import jax
import jax.numpy as jnp

from ..kinematics.manifold import coasted, of_states, settled
from ..model.model import Model
from ..model.state import State


def _rate(topology, model, q, v):
    """Return the time derivative of q as stored."""
    zero = jnp.zeros(1, q.dtype)
    return jax.jvp(lambda h: coasted(topology, model, q, v, h), (zero,), (jnp.ones_like(zero),))[1]


def _point(q, v, dt, weights, slopes):
    return tuple(x + dt * (weights[:, None] * k).sum(0) for x, k in zip((q, v), slopes, strict=True))


def _stage(topology, model, *given):
    q, v = _point(*given)
    return q, v, _rate(topology, model, q, v)


def _end(topology, model, *given):
    q, v = _point(*given)
    return settled(topology, model, q), v


def rate(model: Model, state: State):
    """Return the time derivative (nq,) of q as stored."""
    return of_states(_rate, model)(state.q, state.v)


def stage(model: Model, state: State, dt, weights, slopes):
    """Return the point with weights (stages,), and the time derivative of its q. `slopes` are those of all stages,
    (stages, nq) and (stages, nv)."""
    q, v, dq = of_states(_stage, model)(state.q, state.v, dt, weights, slopes)
    return State(q, v), dq


def end(model: Model, state: State, dt, weights, slopes) -> State:
    """Return the point with weights (stages,) as a state: quaternions have unit length, embedded loops are closed."""
    return State(*of_states(_end, model)(state.q, state.v, dt, weights, slopes))
