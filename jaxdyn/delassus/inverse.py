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

from ..constrained.result import MEMBERS, Result
from .base import Given
from .damping import Damping

#: most steps
STEPS = 50
#: what a step must be of the one before, and how often in a row it may be more
SHRINKS, PATIENCE = 0.5, 3


class Solved(eqx.Module):
    """**Fields:** `x` (m,); `result`, a `Result`: `inconsistent_constraints` where b is out of the range of A, so that
    x leaves as little over as can be; `iterations` (), the damped solves made."""

    x: Float[Array, " m"]
    result: Result
    iterations: Int[Array, ""]


def at_least(R: Damping | None, given: Given) -> Damping:
    """R', at least δ in 1/kg: so small that few steps do, so large that D keeps half of the digits."""
    digits = 1e7 if given.q.dtype == jnp.float64 else 3e3
    least = jax.lax.stop_gradient(1 / (digits * jnp.maximum(given.model.bodies.mass.mean(), 1e-3)))
    return Damping(jnp.full((given.rows,), least)) if R is None else R.at_least(least)


def exceeds(larger: Damping, R: Damping | None) -> Array:
    """Whether R' is more than R somewhere, ()."""
    if R is None or R.diagonal is None or larger.diagonal is None:
        return jnp.ones((), bool)
    return (larger.diagonal > R.diagonal).any()


class _State(NamedTuple):
    """Of the iteration: x, the last step, the size of what was left before it and the least so far, how often in a row
    that did not shrink, the number of steps, and whether to go on."""

    x: Array
    step: Array
    left: Array
    least: Array
    stuck: Array
    steps: Array
    active: Array


def damped_inverse(times: Callable, damped: Callable, b: Array, proximal: Array):
    """x with A x = b, the place of how it ended among the results, and the number of solves; `times` is A, `damped`
    is D, `proximal` tells whether D is not the inverse itself."""
    eps = jnp.finfo(b.dtype).eps
    size_of = lambda x: jnp.abs(x).max()  # noqa: E731
    count = jnp.zeros((), jnp.int32)

    def step(s: _State) -> _State:
        left = b - times(s.x)
        change, size = damped(left), size_of(left)
        x = s.x + change
        stuck = jnp.where(size < SHRINKS * s.least, 0, s.stuck + 1)
        active = (size_of(change) > 10 * eps * size_of(x)) & (stuck < PATIENCE)  # NaN ends it
        return _State(x, change, size, jnp.minimum(size, s.least), stuck, s.steps + 1, active)

    first = damped(b)
    start = _State(first, first, size_of(b), jnp.full_like(size_of(b), jnp.inf), count, count + 1, proximal)
    end = jax.lax.while_loop(lambda s: s.active & (s.steps < STEPS), step, start)
    outside = (end.stuck >= PATIENCE) & (end.left > jnp.sqrt(eps) * size_of(b))
    # of b, what is out of the range has made the same step again and again
    x = end.x - jnp.where(outside, end.steps, 0).astype(b.dtype) * end.step
    code = jnp.where(outside, MEMBERS.index("inconsistent_constraints"), 0)
    code = jnp.where(end.active & proximal, MEMBERS.index("max_steps_reached"), code)
    code = jnp.where(jnp.isfinite(x).all(), code, MEMBERS.index("not_finite"))
    return x, code, end.steps
