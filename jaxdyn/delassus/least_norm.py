"""The derivative of the least-norm solution x = A⁺ b, for a symmetric A whose rank does not change nearby.

x, its residual r, and a w that places x in the range of A satisfy

    A r = 0,    A w − x = 0,    r + A x = b.

In the null space of A the first equation is empty, and w is arbitrary. The projector P onto that null space, kept
constant, fixes both:

    P w + A r = 0,    A w − x = 0,    r + A x = b.

This system is regular, there and nearby, and has the same x, so it has derivatives of every order like any other linear
system. With −x as the unknown it is symmetric.
"""

from collections.abc import Callable

import jax
from jaxtyping import Array


@jax.custom_batching.custom_vmap
def any_of_batch(flag: Array) -> Array:
    """Return the flag (); in a batch, whether it is set for any element. So `lax.cond` on it runs one branch, not
    both."""
    return flag


@any_of_batch.def_vmap
def _(size, batched, flag):
    return any_of_batch(flag.any() if batched[0] else flag), False


def derivative(times: Callable, change: Callable, inverse: Callable, w, r, x, db) -> Array:
    """Return dx, where `times`, `change` and `inverse` apply A, dA and A⁺, A w = x and r = b − A x."""

    def matrix(z):
        w, r, y = z
        return times(r), times(w) + y, r - times(y)  # without P w, which has no derivative

    def solve(_, sides):
        f, g, h = sides
        r = inverse(f)
        y = inverse(r - h)
        w = inverse(g - y)
        return w + f - times0(r), h + times0(y), g - times0(w)

    times0 = lambda y: jax.lax.stop_gradient(times(y))  # noqa: E731
    none = db - db  # the transpose needs all sides to be linear in db if one is, even where dA is zero
    sides = none - change(r), none - change(w), db - change(x)
    return -jax.lax.custom_linear_solve(matrix, sides, solve, symmetric=True)[2]
