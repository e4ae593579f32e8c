"""The derivative of the solution of least norm, x = A⁺ b, of a symmetric A whose rank does not change nearby.

x, what it leaves over, r, and a w with x in the range of A satisfy

    A r = 0,    A w − x = 0,    r + A x = b.

In the null space of A the first of these says nothing, and w may be anything. The projector P on that null space, as it
is at one place and a constant, mends both:

    P w + A r = 0,    A w − x = 0,    r + A x = b.

This system is regular, there and nearby, and has the same x: so it has derivatives of every order like any other linear
system. With −x in place of x it is symmetric.
"""

from collections.abc import Callable

import jax
from jaxtyping import Array


@jax.custom_batching.custom_vmap
def any_of_batch(flag: Array) -> Array:
    """Whether a flag () is set, in a batch for any state: `lax.cond` of it makes one branch, not both."""
    return flag


@any_of_batch.def_vmap
def _(size, batched, flag):
    return any_of_batch(flag.any() if batched[0] else flag), False


def derivative(times: Callable, change: Callable, inverse: Callable, w, r, x, db) -> Array:
    """dx, for `times` A, `change` dA and `inverse` A⁺; A w = x and r = b − A x."""

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
    sides = -change(r), -change(w), db - change(x)
    return -jax.lax.custom_linear_solve(matrix, sides, solve, symmetric=True)[2]
