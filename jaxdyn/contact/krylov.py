"""Solves of nonsymmetric linear equations from products alone: stabilised biconjugate gradients (van der Vorst 1992),
preconditioned from the right, for every lane (element of the batch) separately."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array


class _State(NamedTuple):
    """The state: x; the residual r; the shadow residual; the direction p and v = A p; ρ, α and ω; the best x, and the
    norm of its residual; which lanes go on."""

    x: Array
    r: Array
    shadow: Array
    p: Array
    v: Array
    rho: Array
    alpha: Array
    omega: Array
    best: Array
    least: Array
    active: Array


def solved(A: Callable[[Array], Array], near: Callable[[Array], Array], b: Array, tol: float, most: int) -> Array:
    """Return x (m, lanes) with A x = b to a residual of `tol` times b, or the best x of at most `most` steps. `near`
    approximates the inverse of A."""
    dot = lambda x, y: (x * y).sum(0)  # noqa: E731
    tiny = jnp.finfo(b.dtype).tiny ** 0.5
    over = lambda x, y: x / jnp.where(jnp.abs(y) > tiny, y, jnp.where(y < 0, -tiny, tiny))  # noqa: E731
    size = jnp.sqrt(dot(b, b))

    def step(s: _State) -> _State:
        rho = dot(s.shadow, s.r)
        # breakdown: the residual is almost orthogonal to the shadow residual, so restart from it
        lost = jnp.abs(rho) <= 1e-8 * jnp.sqrt(dot(s.shadow, s.shadow) * dot(s.r, s.r))
        shadow = jnp.where(lost, s.r, s.shadow)
        rho = jnp.where(lost, dot(s.r, s.r), rho)
        beta = jnp.where(lost, 0, over(rho, s.rho) * over(s.alpha, s.omega))
        p = s.r + beta * (s.p - s.omega * s.v)
        y = near(p)
        v = A(y)
        alpha = over(rho, dot(shadow, v))
        half = s.r - alpha * v
        z = near(half)
        t = A(z)
        omega = over(dot(t, half), dot(t, t))
        x, r = s.x + alpha * y + omega * z, half - omega * t
        left = jnp.sqrt(dot(r, r))
        better = left < s.least
        best, least = jnp.where(better, x, s.best), jnp.where(better, left, s.least)
        made = _State(x, r, shadow, p, v, rho, alpha, omega, best, least, s.active & (least > tol * size))
        return jax.tree.map(lambda new, old: jnp.where(s.active, new, old), made, s)

    none, one = jnp.zeros_like(b), jnp.ones_like(size)
    begun = _State(none, b, b, none, none, one, one, one, none, size, size > 0)
    go_on = lambda s: s[0].active.any() & (s[1] < most)  # noqa: E731
    return jax.lax.while_loop(go_on, lambda s: (step(s[0]), s[1] + 1), (begun, 0))[0].best
