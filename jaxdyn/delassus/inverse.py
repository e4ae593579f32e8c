"""The inverse of A = G + R from damped inverses: proximal steps where R is zero.

With D = (G + R')⁻¹, R' being R but at least a small δ, every step x ← x + D (b − A x) takes the fraction δ / (w + δ) of
what is left along an eigenvector of eigenvalue w. From x = 0 all steps stay in the range of A: x is the solution of
least norm.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..constrained.result import MEMBERS, Result, result_of
from ..model.model import Model

#: most steps
STEPS = 50
#: what a step must be of the one before, and how often in a row it may be more
SHRINKS, PATIENCE = 0.9, 3


class Solved(eqx.Module):
    """**Fields:** `x` (m,); `result`, a `Result`: `inconsistent_constraints` where b is out of the range of A, so that
    x leaves as little over as can be; `iterations` (), the damped solves made."""

    x: Float[Array, " m"]
    result: Result
    iterations: Int[Array, ""]


def least_damping(model: Model) -> Array:
    """δ (), in 1/kg: so small that few steps do, so large that D keeps half of the digits."""
    digits = 1e7 if model.bodies.mass.dtype == jnp.float64 else 3e3
    return jax.lax.stop_gradient(1 / (digits * jnp.maximum(model.bodies.mass.mean(), 1e-3)))


def damped_inverse(times: Callable, damped: Callable, b: Array, R: Array | None, at_least: Array) -> Solved:
    """x with A x = b; `times` is A, `damped` is D."""
    proximal = jnp.ones((), bool) if R is None else (at_least > R).any()
    solve = lambda times, b: _iterate(times, damped, b, proximal)  # noqa: E731
    x, (code, steps) = jax.lax.custom_linear_solve(times, b, solve, symmetric=True, has_aux=True)
    return Solved(x, result_of(code), steps)


class _State(NamedTuple):
    """Of the iteration: x, the last step and its size, how often in a row it did not shrink, the number of steps, and
    whether to go on."""

    x: Array
    step: Array
    size: Array
    stuck: Array
    steps: Array
    active: Array


def _iterate(times, damped, b: Array, proximal: Array):
    eps = jnp.finfo(b.dtype).eps
    first = damped(b)
    size_of = lambda x: jnp.abs(x).max()  # noqa: E731
    count = jnp.zeros((), jnp.int32)

    def step(s: _State) -> _State:
        change = damped(b - times(s.x))
        x, size = s.x + change, size_of(change)
        stuck = jnp.where(size < SHRINKS * s.size, 0, s.stuck + 1)
        active = (size > 10 * eps * size_of(x)) & (stuck < PATIENCE)  # NaN ends it
        return _State(x, change, size, stuck, s.steps + 1, active)

    start = _State(first, first, size_of(first), count, count + 1, proximal)
    end = jax.lax.while_loop(lambda s: s.active & (s.steps < STEPS), step, start)
    # the same step again and again is that of a part of b that is out of the range: all steps have had it
    stuck = end.stuck >= PATIENCE
    x = end.x - jnp.where(stuck, end.steps, 0) * end.step
    left = size_of(b - times(x)) > jnp.sqrt(eps) * size_of(b)
    code = jnp.where(stuck & left, MEMBERS.index("inconsistent_constraints"), 0)
    code = jnp.where(end.active & proximal, MEMBERS.index("max_steps_reached"), code)
    code = jnp.where(jnp.isfinite(x).all(), code, MEMBERS.index("not_finite"))
    return x, (code, end.steps)
