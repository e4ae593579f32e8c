"""The Schur complement of a dense symmetric matrix, in code of the same size for any number of variables."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from . import tiles
from .tiles import WIDE, lower, place


def complement(A: Array, b: Array, n: int) -> tuple[Array, Array]:
    """Return what is left of a symmetric A (n + m, n + m, lanes) and of b (n + m, lanes) when the first n variables,
    whose block is positive definite, are eliminated: (m, m, lanes) and (m, lanes)."""
    size, m = len(A), len(A) - n
    first, rest = -(-n // WIDE), -(-m // WIDE)
    # both groups of variables are padded to whole tiles, with a unit matrix
    number = np.full(WIDE * (first + rest), size)
    number[:n], number[WIDE * first :][:m] = np.arange(n), np.arange(n, size)
    at = np.where(np.eye(len(number), dtype=bool), size * size + 1, size * size)
    inside = np.ix_(number < size, number < size)
    at[inside] = (number[:, None] * size + number)[inside]
    blocks = at.reshape(first + rest, WIDE, first + rest, WIDE).swapaxes(1, 2)
    cells = jnp.concatenate([A.reshape(size * size, -1), jnp.zeros_like(A[0, :1]), jnp.ones_like(A[0, :1])])
    S = jnp.take(cells, np.stack([blocks[i, j] for i, j in lower(first + rest)]), axis=0, mode="clip")
    y = jnp.zeros((len(number), b.shape[-1]), b.dtype).at[np.flatnonzero(number < size)].set(b)
    factor = tiles.factorise(S, jnp.zeros(A.shape[-1], A.dtype), first)
    left = tiles.forward(factor, y.reshape(-1, WIDE, b.shape[-1]))["y"][first:]
    return _matrix(factor["S"], first, m), left.reshape(-1, b.shape[-1])[:m]


def _matrix(S: Array, first: int, m: int) -> Array:
    """Return the matrix (m, m, lanes) whose tiles begin at tile `first`."""
    k = np.arange(m)
    i, j = np.maximum(k[:, None], k), np.minimum(k[:, None], k)
    tile = np.vectorize(place, otypes=[int])(first + i // WIDE, first + j // WIDE)
    at = (tile * WIDE + i % WIDE) * WIDE + j % WIDE
    return jnp.take(S.reshape(-1, S.shape[-1]), at, axis=0, mode="clip")
