"""3x3 algebra on component-first arrays: a vector is ``(3, ...)``, a matrix ``(3, 3, ...)``.

The trailing axes, such as the lanes of a batch, broadcast as in NumPy and may be absent. Products are sums of
outer slices. On a CPU this form vectorises over the lanes and runs several times faster than ``einsum``.
"""

import jax.numpy as jnp


def mm(a, b):
    """A B."""
    return a[:, 0, None] * b[None, 0] + a[:, 1, None] * b[None, 1] + a[:, 2, None] * b[None, 2]


def mmt(a, b):
    """A Bᵀ."""
    return a[:, 0, None] * b[None, :, 0] + a[:, 1, None] * b[None, :, 1] + a[:, 2, None] * b[None, :, 2]


def mtm(a, b):
    """Aᵀ B."""
    return a[0, :, None] * b[0, None] + a[1, :, None] * b[1, None] + a[2, :, None] * b[2, None]


def mv(a, x):
    """A x."""
    return a[:, 0] * x[0] + a[:, 1] * x[1] + a[:, 2] * x[2]


def mtv(a, x):
    """Aᵀ x."""
    return a[0] * x[0] + a[1] * x[1] + a[2] * x[2]


def dot(x, y):
    """x · y."""
    return x[0] * y[0] + x[1] * y[1] + x[2] * y[2]


def cross(x, y):
    """x × y."""
    return jnp.stack([x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]])


def times_skew(a, r):
    """A skew(r)."""
    return jnp.stack(
        [a[:, 1] * r[2] - a[:, 2] * r[1], a[:, 2] * r[0] - a[:, 0] * r[2], a[:, 0] * r[1] - a[:, 1] * r[0]], 1
    )


def skew_times_transpose(r, a):
    """skew(r) Aᵀ. For skew(r) A use `cross`."""
    return cross(r, (a[:, 0], a[:, 1], a[:, 2]))


def outer(x, y):
    """x yᵀ."""
    return x[:, None] * y[None]


def transpose(a):
    """Aᵀ."""
    return jnp.swapaxes(a, 0, 1)


def skew(x):
    """The matrix of ``y -> x × y``."""
    zero = jnp.zeros_like(x[0])
    return jnp.stack(
        [
            jnp.stack([zero, -x[2], x[1]]),
            jnp.stack([x[2], zero, -x[0]]),
            jnp.stack([-x[1], x[0], zero]),
        ]
    )


def summed(terms):
    """Return the sum of the arrays of an iterable, which must not be empty."""
    terms = iter(terms)
    total = next(terms)
    for term in terms:
        total = total + term
    return total


def eye(like):
    """Return the identity (3, 3, 1, ...) with as many trailing axes as the vector ``like`` has."""
    return jnp.eye(3, dtype=like.dtype).reshape((3, 3) + (1,) * (like.ndim - 1))
