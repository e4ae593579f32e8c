"""Minimum-norm multipliers of given accelerations."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import widen
from ..systems.base import System
from ..systems.problem import Start, left_over
from ..systems.weights import redundant
from .iteration import SLOW, STUCK, Stop, advance, conjugate, largest_of, loop, moves


def multipliers(system: System, start: Start, rates: Array, bodies, stop: Stop) -> tuple[Array, Array]:
    """Return the minimum-norm λ (m, lanes) with Jᵀλ = M a + h − τ, and joint accelerations (nv, lanes) that balance it.

    The iteration is λ += μ J y from zero, with y = (M + μ JᵀJ)⁻¹ (M a + h − τ − Jᵀλ), so every iterate lies in the
    range of J. The multipliers of `iterate` do not if rows are redundant, and carry μ times the rounding of J a. In
    single precision the `system` has to be a factor of M + μ JᵀJ itself, with automatic weights: where rows ride or
    stay apart, y is a difference of M⁻¹ (...) and M⁻¹ Jᵀν, whose rounding times μ exceeds λ if links are light. In
    double precision the last step also subtracts y from a. Together they leave M a + h − τ − Jᵀλ = 0, even along rows
    that are as good as redundant.
    """
    problem = system.problem
    rows, lanes, dtype = problem.rows, rates.shape[-1], rates.dtype
    mu = system.weights.max(0)
    counts = lambda direction, image: moves(redundant(problem) * mu, direction[0], image)  # noqa: E731
    tau, force = left_over(problem, start._replace(tau=widen(start.tau, lanes)), rates, bodies, None)

    def left_at(lam):
        """Return y and μ J y."""
        y, moved, *_ = system.solve(-tau, tuple(-x for x in rows.forces(-lam, force)), None)
        return widen(y, lanes), widen(system.weights * rows.times(moved), lanes)

    def improve(s):
        at, change, direction, image, last, active = s
        ahead = advance(at[0], change, 1)
        y, after = left_at(ahead)
        if stop.unrolled:
            return (ahead, y), after, *s[2:]
        moved, now = (change, y - at[1]), change - after
        step = largest_of(change)
        sizes = mu * largest_of(moved[1]), jnp.maximum(mu * largest_of(at[1]), largest_of(at[0]))
        turned, turned_image, size, useful, _ = conjugate(
            step > SLOW * last, moved, now, direction, image, change, counts, sizes
        )
        new = (advance(at, turned, size), advance(change, turned_image, -size), turned, turned_image, step)
        new = jax.tree.map(lambda x, y: jnp.where(active, x, y), new, s[:-1])
        creeps = (step > STUCK * last) & ~useful
        return *new, active & ~creeps & (largest_of(new[1]) > stop.tol * largest_of(new[0][0]))

    zero = jnp.zeros((rows.plan.rows, lanes), dtype)
    y, change = left_at(zero)
    still = (zero, jnp.zeros_like(y))
    state = ((zero, y), change, still, zero, jnp.full(lanes, jnp.inf, dtype), jnp.ones(lanes, bool))
    (lam, y), change, *_ = loop(lambda s: s[-1], improve, state, stop)
    if dtype != jnp.float64:  # in single precision y is the rounding of λ
        return lam, rates
    return lam + change, rates - y
