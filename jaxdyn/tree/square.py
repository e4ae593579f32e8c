"""Dense unsymmetric matrices in tiles: A = L U and solves as rows of a table, whose code is the same for any size.

A is stored as n by n tiles of WIDE by WIDE numbers, row by row; the right side and the solution as n times WIDE. There
is no pivoting between or within tiles: this is for matrices near 1 − D + D H with a positive H and D between 0 and 1.
Tiles are factored and not inverted: so small pivots lose no more digits than those of a positive matrix do.

| step | equation |
| --- | --- |
| `_factored` | L_kk U_kk = A_kk |
| `_before`, `_beside` | C_ik = A_ik U_kk⁻¹; R_kj = L_kk⁻¹ A_kj |
| `_left_over` | A_ij ← A_ij − C_ik R_kj |
| `_forth` | z_k = L_kk⁻¹ y_k |
| `minus_pulled` | y_i ← y_i − C_ik z_k; z_k ← z_k − R_kj x_j |
| `_back` | x_k = U_kk⁻¹ z_k |
"""

import functools
from collections.abc import Iterator

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from .tiles import WIDE, minus_pulled


def place(n: int, i: int, j: int) -> int:
    """Return the place of tile (i, j)."""
    return n * i + j


def factorise(A: Array) -> dict[str, Array]:
    """Return the factor of A (n n, WIDE, WIDE, lanes), for `solve`."""
    n = int(len(A) ** 0.5)
    found = swept(_factor(n), {"A": A})
    return {name: found[name] for name in cells(n) if name in found}


def solve(factor: dict[str, Array], b: Array) -> Array:
    """Return x with A x = b (n, WIDE, lanes)."""
    return swept(_solve(len(b)), factor | {"y": b})["x"]


@tables
def _factor(n: int) -> Table:
    return Table([row for k in range(n) for row in _eliminated(n, k, "A")], cells(n) | {"A": n * n})


@tables
def _solve(n: int) -> Table:
    rows = [row for k in range(n) for row in _forward(n, k, "y")]
    return Table([*rows, *_backward(n, "x")], dict.fromkeys("ywzx", n))


def solution(n: int, A: str, y: str, x: str) -> Iterator[Row]:
    """Yield the rows that solve A x = y for fields with these names. They overwrite A and y, and write the fields of
    `cells`, "w" and "z" (n each)."""
    for k in range(n):
        yield from _eliminated(n, k, A)
        yield from _forward(n, k, y)
    yield from _backward(n, x)


def cells(n: int) -> dict[str, int]:
    """Return the numbers of cells of the fields of a factor."""
    return {"LU": n, "C": n * n, "R": n * n}


def _eliminated(n: int, k: int, A: str) -> Iterator[Row]:
    at, own = functools.partial(place, n), Ref("LU", k)
    yield Row(Step(_factored), (Ref(A, at(k, k)),), own)
    for j in range(k + 1, n):
        yield Row(Step(_beside), (own, Ref(A, at(k, j))), Ref("R", at(k, j)))
    for i in range(k + 1, n):
        yield Row(Step(_before), (own, Ref(A, at(i, k))), Ref("C", at(i, k)))
        for j in range(k + 1, n):
            yield Row(Step(_left_over), (Ref("C", at(i, k)), Ref("R", at(k, j))), Ref(A, at(i, j)))


def _forward(n: int, k: int, y: str) -> Iterator[Row]:
    yield Row(Step(_forth), (Ref("LU", k), Ref(y, k)), (Ref("w", k), Ref("z", k)))
    for i in range(k + 1, n):
        yield Row(Step(minus_pulled), (Ref("C", place(n, i, k)), Ref("w", k)), Ref(y, i))


def _backward(n: int, x: str) -> Iterator[Row]:
    for k in reversed(range(n)):
        for j in range(k + 1, n):
            yield Row(Step(minus_pulled), (Ref("R", place(n, k, j)), Ref(x, j)), Ref("z", k))
        yield Row(Step(_back), (Ref("LU", k), Ref("z", k)), Ref(x, k))


def _factored(A):
    """Return L below the diagonal, one over the pivots, and U above it."""
    least, rows = jnp.finfo(A.dtype).eps, list(A)
    for k in range(WIDE):
        p = 1 / jnp.where(rows[k][k] == 0, least, rows[k][k])
        for i in range(k + 1, WIDE):
            share = rows[i][k] * p
            rest = rows[i][k + 1 :] - share * rows[k][k + 1 :]
            rows[i] = jnp.concatenate([rows[i][:k], share[None], rest])
        rows[k] = rows[k].at[k].set(p)
    return jnp.stack(rows)


def _before(LU, A):
    """Return A U⁻¹."""
    columns: list = []
    for k in range(WIDE):
        left = A[:, k] - sum((c * LU[j, k] for j, c in enumerate(columns)), jnp.zeros_like(A[:, k]))
        columns.append(left * LU[k, k])
    return jnp.stack(columns, 1)


def _beside(LU, A):
    """Return L⁻¹ A."""
    rows: list = []
    for k in range(WIDE):
        rows.append(A[k] - sum((LU[k, j] * r for j, r in enumerate(rows)), jnp.zeros_like(A[k])))
    return jnp.stack(rows)


def _forth(LU, y):
    z = _beside(LU, y)
    return z, z


def _back(LU, z):
    x: list = [None] * WIDE
    for k in reversed(range(WIDE)):
        x[k] = (z[k] - sum((LU[k, j] * x[j] for j in range(k + 1, WIDE)), jnp.zeros_like(z[k]))) * LU[k, k]
    return jnp.stack(x)


def times(A, B):
    """Return the product of two tiles."""
    return (A[:, :, None] * B[None]).sum(1)


def _left_over(C, R):
    return -times(C, R)
