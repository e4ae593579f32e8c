"""Inverses of small dense nonsymmetric matrices, in code of constant size."""

import jax
import jax.numpy as jnp
from jaxtyping import Array


def inverse(A: Array) -> Array:
    """Return A⁻¹ of matrices (m, m, lanes) by Gauss-Jordan steps on the diagonal.

    Each step exchanges the first unknown with the first right side, and moves both to the end, so that every step is
    the same code. There is no pivoting: A must be near I − D + D G with a positive definite G and D between 0 and 1,
    whose pivots are positive."""

    def exchange(_, A):
        first, column = A[0], A[1:, 0]
        p = 1 / jnp.where(first[0] == 0, jnp.finfo(A.dtype).eps, first[0])
        row = first[1:] * p
        rest = A[1:, 1:] - column[:, None] * row[None]
        above = jnp.concatenate([rest, -(column * p)[:, None]], 1)
        return jnp.concatenate([above, jnp.concatenate([row, p[None]])[None]])

    return jax.lax.fori_loop(0, len(A), exchange, A)
