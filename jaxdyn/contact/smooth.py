"""Smoothed derivatives of the natural map.

The law has kinks where a force or the velocity opposed to it goes to zero, and where a force reaches its bound. Let k
be the force that changes the velocity of its row by a set speed c in a step. Then max(z, 0) becomes

    p(z) = (z + (z² + 4 k²)^½) / 2,

whose values f and w s = f − z satisfy f w s = k², the central path of interior point methods. A force z within a bound
R becomes z − p(z − R) + p(−z − R), which is z times

    2 R / (((z + R)² + 4 k²)^½ + ((z − R)² + 4 k²)^½),

and so do tangential forces, with their length in place of z.

Only the derivatives are used, at the exact forces. They are those of a smoothed law shifted, row by row, so that the
exact forces satisfy it. A pressing contact keeps its exact normal force, and so its exact friction cone. The cone of an
open contact follows from p, so that derivatives show friction before it touches.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array


def forces(speed: float, w: Array, dt: Array) -> Array | None:
    """Return k (m, lanes) for steps of dt, from the weights w of the natural map; None if `speed` is zero. Rows without
    a weight have a k near zero: the cone of a contact that bears no force is empty."""
    least = jnp.finfo(w.dtype).tiny ** 0.5
    return jnp.where(w > 0, w, least) * (speed / jax.lax.stop_gradient(dt)) if speed else None


def pushing(z: Array, k: Array) -> Array:
    """Return z where it is positive, else p(z), with the derivative of p everywhere."""
    x = z / k  # squares of forces may be too large or small for single precision
    p = k * (jnp.maximum(x, 0) + 2 / (jnp.abs(x) + jnp.sqrt(x * x + 4)))  # without a difference of large numbers
    value, now = jax.lax.stop_gradient((jnp.where(z > 0, z, p), p))
    return value + (p - now)


def share(z: Array, bound: Array, k: Array) -> Array:
    """Return the smoothed share of a force of size z that is within its bound."""
    x, y = z / k, bound / k
    return 2 * y / (jnp.sqrt((x + y) ** 2 + 4) + jnp.sqrt((x - y) ** 2 + 4))
