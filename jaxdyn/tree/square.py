"""Dense unsymmetric matrices in tiles: elimination and solution as rows of a table, whose code is the same for any
size.

A is stored as n by n tiles of WIDE by WIDE numbers, row by row; the right side and the solution as n times WIDE. There
is no pivoting between or within tiles: this is for matrices near 1 − D + D H with a positive H and D between 0 and 1.

| step | equation |
| --- | --- |
| `inverted` | K_k = A_kk⁻¹ |
| `times` | C_ik = A_ik K_k |
| `left_over` | A_ij ← A_ij − C_ik A_kj |
| `minus_pulled` | y_i ← y_i − C_ik y_k; z_k = y_k − A_kj x_j |
| `pulled` | x_k = K_k z_k |
"""

from collections.abc import Iterator

import jax.numpy as jnp

from ..engine.steps import Ref, Row, Step
from .tiles import WIDE, minus_pulled, pulled


def place(n: int, i: int, j: int) -> int:
    """Return the place of tile (i, j)."""
    return n * i + j


def solution(n: int, A: str, y: str, x: str) -> Iterator[Row]:
    """Yield the rows that solve A x = y for fields with these names. They overwrite A and y, and write the fields "K",
    "C" and "z", see `cells`."""
    for k in range(n):
        yield Row(Step(_inverted), (Ref(A, place(n, k, k)),), Ref("K", k))
        for i in range(k + 1, n):
            yield Row(Step(times), (Ref(A, place(n, i, k)), Ref("K", k)), Ref("C", place(n, i, k)))
        for i in range(k + 1, n):
            own = Ref("C", place(n, i, k))
            for j in range(k + 1, n):
                yield Row(Step(_left_over), (own, Ref(A, place(n, k, j))), Ref(A, place(n, i, j)))
            yield Row(Step(minus_pulled), (own, Ref(y, k)), Ref(y, i))
    for k in reversed(range(n)):
        yield Row(Step(_same), (Ref(y, k),), Ref("z", k))
        for j in range(k + 1, n):
            yield Row(Step(minus_pulled), (Ref(A, place(n, k, j)), Ref(x, j)), Ref("z", k))
        yield Row(Step(pulled), (Ref("K", k), Ref("z", k)), Ref(x, k))


def cells(n: int) -> dict[str, int]:
    """Return the numbers of cells of the fields that `solution` writes besides A, y and x."""
    return {"K": n, "C": n * n, "z": n}


def _inverted(A):
    """Return the inverse, by Gauss-Jordan steps on the diagonal."""
    least = jnp.finfo(A.dtype).eps
    for k in range(WIDE):
        p = 1 / jnp.where(A[k, k] == 0, least, A[k, k])
        row, column = A[k] * p, A[:, k]
        A = A - column[:, None] * row[None]
        A = A.at[k].set(row).at[:, k].set(-column * p).at[k, k].set(p)
    return A


def times(A, B):
    """Return the product of two tiles."""
    return (A[:, :, None] * B[None]).sum(1)


def _left_over(C, A):
    return -times(C, A)


def _same(y):
    return y
