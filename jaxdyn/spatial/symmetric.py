"""Symmetric 3x3 matrices as the six numbers of their upper triangle, (6, ...) in the order 00, 01, 02, 11, 12, 22.

Inertias and their blocks are stored like this: they are exactly symmetric, and no number is computed twice. Products
are those of `small.py`, with tables of terms cut or indexed accordingly.
"""

import jax.numpy as jnp
import numpy as np

from .bilinear import Form, form
from .small import mm, mmt, mv, outer, skew_times, skew_times_transpose, times_skew

_UPPER = [(i, j) for i in range(3) for j in range(i, 3)]
#: places of the upper triangle among all nine entries, and the place of each of the nine among the six. Of 32 bits: JAX
#: keeps the type of an array that it has seen before, also if `jax_enable_x64` has been switched since
_KEPT = np.array([3 * i + j for i, j in _UPPER], np.int32)
_FOUND = np.array([_UPPER.index((min(i, j), max(i, j))) for i in range(3) for j in range(3)], np.int32)


def _picked(x, axes: int, at):
    """Return components `at` of an array whose first `axes` axes are components."""
    return jnp.take(x.reshape(-1, *x.shape[axes:]), at, axis=0, mode="clip")


def full(S):
    """Return the matrix (3, 3, ...)."""
    return _picked(S, 1, _FOUND).reshape(3, 3, *S.shape[1:])


def column(S, k: int):
    """Return a column (3, ...)."""
    return _picked(S, 1, _FOUND[3 * k : 3 * k + 3])


def upper(B):
    """Return the upper triangle of a matrix."""
    return _picked(B, 2, _KEPT)


def with_transpose(B):
    """Return B + Bᵀ."""
    return upper(B) + upper(jnp.swapaxes(B, 0, 1))


def diagonal(x):
    """Return the matrix x 1 of a number."""
    zero = jnp.zeros_like(x)
    return jnp.stack([x, zero, zero, x, zero, x])


def trace(S):
    """Return the trace."""
    return S[0] + S[3] + S[5]


def _upper_of(whole: Form) -> Form:
    """Return the form of the upper triangle of another form's result."""
    at = {int(k): n for n, k in enumerate(_KEPT)}
    terms = [(at[o], i, j, s) for o, i, j, s in whole.terms if o in at]
    return form(whole.x, whole.y, (6,), terms, lambda x, y: upper(whole.array(x, y)))


def _symmetric_x(whole: Form) -> Form:
    """Return another form for a symmetric x."""
    terms = [(o, int(_FOUND[i]), j, s) for o, i, j, s in whole.terms]
    return form((6,), whole.y, whole.out, terms, lambda x, y: whole.array(full(x), y))


def _symmetric_y(whole: Form) -> Form:
    """Return another form for a symmetric y."""
    terms = [(o, i, int(_FOUND[j]), s) for o, i, j, s in whole.terms]
    return form(whole.x, (6,), whole.out, terms, lambda x, y: whole.array(x, full(y)))


#: S x
times = _symmetric_x(mv)
#: upper triangle of x yᵀ, for parallel vectors or as part of a symmetric sum
product = _upper_of(outer)
#: skew(r) S
skew_times_symmetric = _symmetric_y(skew_times)
#: upper triangles of A skew(r) and skew(r) Aᵀ, as parts of a symmetric sum
part_times_skew, part_skew_times_transpose = _upper_of(times_skew), _upper_of(skew_times_transpose)
#: upper triangle of skew(x) skew(y) = y xᵀ − (x · y) 1, as part of a symmetric sum
skew_skew = form(
    (3,),
    (3,),
    (6,),
    [(n, j, i, 1) for n, (i, j) in enumerate(_UPPER) if i != j]
    + [(n, k, k, -1) for n, (i, j) in enumerate(_UPPER) if i == j for k in range(3) if k != i],
)
#: A S
mm_symmetric = _symmetric_y(mm)
_turned = _upper_of(mmt)


def turned(E, S):
    """Return E S Eᵀ."""
    return _turned(mm_symmetric(E, S), E)
