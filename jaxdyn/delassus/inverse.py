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
    """Of the iteration: x, the right side that is left, the last step, the least size so far of what x left over, how
    often in a row that did not shrink, the steps since x was zero and all of them, whether b was found to be out of the
    range, and whether to go on."""

    x: Array
    b: Array
    step: Array
    least: Array
    stuck: Array
    round: Array
    steps: Array
    outside: Array
    active: Array


def damped_inverse(times: Callable, damped: Callable, added: Callable, b: Array, proximal: Array):
    """x with A x = b, the place of how it ended among the results, and the number of solves; `times` is A, `damped`
    is D, `added` is R' − R, `proximal` tells whether D is not the inverse itself.

    What is out of the range of A makes the same step s again and again, (R' − R) s being what is left over. It is taken
    from b, and x begins anew: 1 / δ of it would take the digits of the rest."""
    eps = jnp.finfo(b.dtype).eps
    size_of = lambda x: jnp.abs(x).max()  # noqa: E731
    zero, inf, none = jnp.zeros((), jnp.int32), jnp.full_like(size_of(b), jnp.inf), jnp.zeros((), bool)

    def step(s: _State) -> _State:
        left = s.b - times(s.x)
        change, size = damped(left), size_of(left)
        x = s.x + change
        stuck = jnp.where(size < SHRINKS * s.least, 0, s.stuck + 1)
        again = (stuck >= PATIENCE) & (size > jnp.sqrt(eps) * size_of(b))
        active = (size_of(change) > 10 * eps * size_of(x)) & (stuck < PATIENCE)  # NaN ends it
        least, steps = jnp.minimum(size, s.least), s.steps + 1
        more = _State(x, s.b, change, least, stuck, s.round + 1, steps, s.outside, active)
        anew = _State(jnp.zeros_like(x), s.b - added(change), change, inf, zero, zero, steps, again, again)
        return jax.tree.map(lambda x, y: jnp.where(again, x, y), anew, more)

    first = damped(b)
    start = _State(first, b, first, inf, zero, zero + 1, zero + 1, none, proximal)
    end = jax.lax.while_loop(lambda s: s.active & (s.steps < STEPS), step, start)
    x = end.x - jnp.where(end.outside, end.round, 0).astype(b.dtype) * end.step
    code = jnp.where(end.outside, MEMBERS.index("inconsistent_constraints"), 0)
    code = jnp.where(end.active & proximal, MEMBERS.index("max_steps_reached"), code)
    code = jnp.where(jnp.isfinite(x).all(), code, MEMBERS.index("not_finite"))
    return x, code, end.steps
