"""Smoothed derivatives of the natural map.

The law has kinks: where a force or the velocity that answers it goes to zero, and where a force reaches its bound. With
k, the force that changes the velocity of its row by a set speed c in a step, max(z, 0) becomes

    p(z) = (z + (z² + 4 k²)^½) / 2,

whose values f and w s = f − z fulfil f w s = k², the central path of interior point methods. A force z within a bound R
is z − p(z − R) + p(−z − R), which is z times

    2 R / (((z + R)² + 4 k²)^½ + ((z − R)² + 4 k²)^½),

and so are tangential forces, with their length in place of z.

Only derivatives of this are used, at the exact forces. They are those of a smoothed law that is shifted, row by row, so
that the exact forces fulfil it. A contact that presses bears what it bears, and the cone of its friction is as wide as
it is; one that does not has the cone that goes with p, so that friction is felt before it touches.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array


def forces(speed: float, w: Array, dt: Array) -> Array | None:
    """k (m, lanes) for steps of dt, from the weights w of the natural map; None if nothing is smoothed."""
    return w * (speed / jax.lax.stop_gradient(dt)) if speed else None


def pushing(z: Array, k: Array) -> Array:
    """max(z, 0), and p where that is zero, with the derivative of p."""
    x = z / k  # squares of forces may be too large or small for single precision
    p = k * (jnp.maximum(x, 0) + 2 / (jnp.abs(x) + jnp.sqrt(x * x + 4)))  # without a difference of large numbers
    value, now = jax.lax.stop_gradient((jnp.where(z > 0, z, p), p))
    return value + (p - now)


def share(z: Array, bound: Array, k: Array) -> Array:
    """The share of a force of size z that is within its bound."""
    x, y = z / k, bound / k
    return 2 * y / (jnp.sqrt((x + y) ** 2 + 4) + jnp.sqrt((x - y) ** 2 + 4))
