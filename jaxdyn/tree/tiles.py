"""Dense symmetric matrices in tiles, as tables: products, L D Lᵀ and solves whose code is the same for any size.

A matrix of n by n tiles is stored as those of its lower triangle, (n (n + 1) / 2, WIDE, WIDE, lanes), row by row; a
vector as (n, WIDE, lanes). With A = L D Lᵀ and C = L D:

| step | equation |
| --- | --- |
| `eliminated` | L_kk D_k L_kkᵀ = S_kk + ridge 1 |
| `below` | C_ik = S_ik L_kk⁻ᵀ |
| `left_over` | S_ij ← S_ij − C_ik L_jkᵀ |
| `pulled`, `pulled_back` | A_ij x_j; A_jiᵀ x_j |
"""

from collections.abc import Callable, Iterator

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from . import panels

#: rows of a tile
WIDE = 6


def place(i: int, j: int) -> int:
    """Return the place of tile (i, j) of the lower triangle."""
    return i * (i + 1) // 2 + j


def lower(n: int) -> Iterator[tuple[int, int]]:
    """Return the tiles of the lower triangle, row by row."""
    return ((i, j) for i in range(n) for j in range(i + 1))


def product(A: Array, x: Array) -> Array:
    """Return A x (n, WIDE, lanes)."""
    return swept(_product(len(x)), {"A": A, "x": x})["b"]


def factorise(A: Array, ridge: Array, count: int | None = None) -> dict[str, Array]:
    """Return L D Lᵀ of A with `ridge` (lanes,) added to its diagonal, for `solve`. If only the first `count` tiles of
    variables are eliminated, the tiles of "S" below them are what remains of A, and `forward` and `backward` are the
    two halves of a solution."""
    n = int((2 * len(A)) ** 0.5)
    return swept(_factor(n, n if count is None else count), {"S": A, "ridge": ridge[None]})


def solve(factor: dict[str, Array], b: Array) -> Array:
    """Return x with A x = b (n, WIDE, lanes)."""
    return backward(factor, forward(factor, b)["w"], b[:0])


def forward(factor: dict[str, Array], b: Array) -> dict[str, Array]:
    """Return "w", D⁻¹ L⁻¹ b of the eliminated variables, and "y", whose other tiles are what remains of b."""
    return swept(_forth(len(b), len(factor["inverse"])), _kept(factor) | {"y": b})


def backward(factor: dict[str, Array], w: Array, rest: Array) -> Array:
    """Return the eliminated variables (count, WIDE, lanes), from "w" of `forward` and the other variables."""
    count = len(factor["inverse"])
    return swept(_back(count + len(rest), count), _kept(factor) | {"w": w, "rest": rest})["x"]


def _kept(factor: dict[str, Array]) -> dict[str, Array]:
    return {name: factor[name] for name in ("L", "inverse", "own") if name in factor}


def pulled(A, x):
    """Return a tile times the vector beside it."""
    return (A * x[None]).sum(1)


def pulled_back(A, x):
    """Return a tile's transpose times the vector above it."""
    return (A * x[:, None]).sum(0)


def beside(n: int, k: int, name: str, x: Callable[[int], Ref], target: str) -> Iterator[Row]:
    """Yield the rows that add A_kj times x(j) for j ≠ k to cell k of the target. The last one waits for what may have
    been computed last, x(k − 1)."""
    for j in range(k + 1, n):
        yield Row(Step(pulled_back), (Ref(name, place(j, k)), x(j)), Ref(target, k))
    for j in range(k):
        yield Row(Step(pulled), (Ref(name, place(k, j)), x(j)), Ref(target, k))


def minus_pulled(A, x):
    """Return minus a tile times the vector beside it."""
    return -pulled(A, x)


def minus_pulled_back(A, x):
    """Return minus a tile's transpose times the vector above it."""
    return -pulled_back(A, x)


@tables
def _product(n: int) -> Table:
    rows = []
    for k in range(n):
        rows.append(Row(Step(pulled), (Ref("A", place(k, k)), Ref("x", k)), Ref("b", k)))
        rows += beside(n, k, "A", lambda j: Ref("x", j), "b")
    return Table(rows, {"b": n})


def _eliminated(S, ridge):
    A = S + ridge * jnp.eye(WIDE, dtype=S.dtype)[..., None]
    _, inverse, below, _ = panels.eliminate(A, WIDE, lambda k, d, _: 1 / d)
    return jnp.stack(inverse), jnp.concatenate(below)


def _below(S, inverse, own):
    """Return C and L of a tile below the diagonal."""
    C = jnp.stack([panels.lowered(own, row)[0] for row in S])
    return C, C * inverse[None]


def _left_over(C, L):
    return -(C[:, None] * L[None]).sum(2)


@tables
def _factor(n: int, count: int) -> Table:
    rows = []
    for k in range(count):
        at = place(k, k)
        rows.append(Row(Step(_eliminated), (Ref("S", at), Ref("ridge", 0)), (Ref("inverse", k), Ref("own", k))))
        for i in range(k + 1, n):
            here = place(i, k)
            of = Ref("S", here), Ref("inverse", k), Ref("own", k)
            rows.append(Row(Step(_below), of, (Ref("C", here), Ref("L", here))))
            for j in range(k + 1, i + 1):
                rows.append(Row(Step(_left_over), (Ref("C", here), Ref("L", place(j, k))), Ref("S", place(i, j))))
    cells = n * (n + 1) // 2
    return Table(rows, {"S": cells, "C": cells, "L": cells, "inverse": count, "own": count})


def _forward(y, inverse, own):
    z, _ = panels.lowered(own, y)
    return z, z * inverse


def _backward(w, own):
    return panels.raised(own, w)


@tables
def _forth(n: int, count: int) -> Table:
    rows = []
    for k in range(n):
        for j in range(min(k, count)):
            rows.append(Row(Step(minus_pulled), (Ref("L", place(k, j)), Ref("z", j)), Ref("y", k)))
        if k < count:
            of = Ref("y", k), Ref("inverse", k), Ref("own", k)
            rows.append(Row(Step(_forward), of, (Ref("z", k), Ref("w", k))))
    return Table(rows, {"y": n, "z": count, "w": count})


@tables
def _back(n: int, count: int) -> Table:
    rows = []
    for k in reversed(range(count)):
        for j in range(k + 1, n):
            of = Ref("x", j) if j < count else Ref("rest", j - count)
            rows.append(Row(Step(minus_pulled_back), (Ref("L", place(j, k)), of), Ref("w", k)))
        rows.append(Row(Step(_backward), (Ref("w", k), Ref("own", k)), Ref("x", k)))
    return Table(rows, {"w": count, "x": count})
