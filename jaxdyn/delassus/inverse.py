"""The inverse of A = G + R by proximal steps, from inverses with more damping.

Let D = (G + R')⁻¹, where R' is R, but at least a small δ. Every step x ← x + D (b − A x) reduces the residual along an
eigenvector of A with eigenvalue w to the fraction δ / (w + δ). From x = 0 all steps stay in the range of A, so that x
is the least-norm solution.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from ..constrained.result import MEMBERS, Result
from ..engine.meshes import alike
from .base import Given
from .damping import Damping
from .least_norm import any_of_batch

#: maximum number of steps
STEPS = 50
#: a residual counts as shrunk below this fraction of the least so far, and how often in a row it may not shrink
SHRINKS, PATIENCE = 0.5, 3
#: a step of at most this many times the rounding of x ends the iteration
SETTLED = 10
#: changes that shrink less than to this fraction are rounding
SLOW = 0.9


class Solved(eqx.Module):
    """The solution of A x = b. **Fields:** `x` (m,); `result`, a `Result`: `inconsistent_constraints` if b is outside
    the range of A, where x has the least residual; `iterations` (), the number of damped solves."""

    x: Float[Array, " m"]
    result: Result
    iterations: Int[Array, ""]


def at_least(R: Damping | None, given: Given, rounding: Array | float) -> Damping:
    """Return R', R but at least δ in 1/kg: so small that few steps suffice, so large that D keeps half of the
    digits, and that G + R' is positive definite in spite of the `rounding` of G."""
    digits = 1e7 if given.q.dtype == jnp.float64 else 3e3
    least = 1 / (digits * jnp.maximum(given.model.bodies.mass.mean(), 1e-3))
    least = jax.lax.stop_gradient(jnp.maximum(least, rounding))
    return Damping(jnp.full((given.rows,), least)) if R is None else R.at_least(least)


def exceeds(larger: Damping, R: Damping | None) -> Array:
    """Return whether R' exceeds R anywhere, ()."""
    if R is None or R.diagonal is None or larger.diagonal is None:
        return jnp.ones((), bool)
    return (larger.diagonal > R.diagonal).any()


class _State(NamedTuple):
    """The state of the iteration: x, the right side b without its part outside the range of A, the last step, the least
    residual so far, how often in a row the residual did not shrink, the steps since x was zero, all steps, whether b
    has a part outside the range, and whether to go on."""

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
    """Return x with A x = b, the index of the result in `MEMBERS`, and the number of solves. `times` is A, `damped` is
    D, `added` is R' − R, and `proximal` is True if D is not the inverse of A itself.

    A part of b outside the range of A causes the same step s again and again, with the residual (R' − R) s. When this
    happens, subtract that residual from b and restart from x = 0: otherwise the part, times 1 / δ, would cost the rest
    of x its digits.

    Where A is singular, D also multiplies rounding in the null space of A by 1 / δ, and steps do not settle. That part
    of x is found by powers of E = D (R' − R), which is 1 there and δ / (w + δ) elsewhere, and taken away."""
    eps = jnp.finfo(b.dtype).eps
    size_of = lambda x: jnp.abs(x).max()  # noqa: E731
    zero, inf, none = jnp.zeros((), jnp.int32), jnp.full_like(size_of(b), jnp.inf), jnp.zeros((), bool)
    settles = lambda change, x: size_of(change) <= SETTLED * eps * size_of(x)  # noqa: E731

    def step(s: _State) -> _State:
        left = s.b - times(s.x)
        change, size = damped(left), size_of(left)
        x = s.x + change
        stuck = jnp.where(size < SHRINKS * s.least, 0, s.stuck + 1)
        again = (stuck >= PATIENCE) & (size > jnp.sqrt(eps) * size_of(b))
        active = ~settles(change, x) & (stuck < PATIENCE) & jnp.isfinite(size)
        least, steps = jnp.minimum(size, s.least), s.steps + 1
        more = _State(x, s.b, change, least, stuck, s.round + 1, steps, s.outside, active)
        anew = _State(jnp.zeros_like(x), s.b - added(change), change, inf, zero, zero, steps, again, again)
        return jax.tree.map(lambda x, y: jnp.where(again, x, y), anew, more)

    first = damped(b)
    start = _State(first, b, first, inf, zero, zero + 1, zero + 1, none, proximal)
    end = jax.lax.while_loop(lambda s: s.active & (s.steps < STEPS), step, alike(start))
    x = end.x - jnp.where(end.outside, end.round, 0).astype(b.dtype) * end.step
    strays = proximal & ~settles(end.step, x) & jnp.isfinite(size_of(x))
    unmoved = lambda: _unmoved(lambda y: damped(added(y)), x, settles)  # noqa: E731
    apart, more = jax.lax.cond(any_of_batch(strays), unmoved, lambda: (jnp.zeros_like(x), zero))
    x = x - jnp.where(strays, apart, 0)
    code = jnp.where(end.outside, MEMBERS.index("inconsistent_constraints"), 0)
    code = jnp.where(end.active & proximal, MEMBERS.index("max_steps_reached"), code)
    code = jnp.where(jnp.isfinite(x).all(), code, MEMBERS.index("not_finite"))
    return x, code, end.steps + jnp.where(strays, more, 0)


def _unmoved(times: Callable, x: Array, settles: Callable):
    """Return Eᵏ x for a k from which on it does not change, and k. `times` applies E."""

    def step(s):
        y, last, _, count = s
        z = times(y)
        size = jnp.abs(z - y).max()
        return z, size, ~settles(z - y, x) & (size < SLOW * last), count + 1

    start = x, jnp.full_like(jnp.abs(x).max(), jnp.inf), jnp.ones((), bool), jnp.zeros((), jnp.int32)
    y, *_, count = jax.lax.while_loop(lambda s: s[2] & (s[3] < STEPS), step, alike(start))
    return y, count
