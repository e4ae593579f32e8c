"""L D Lᵀ of the first variables of small dense symmetric matrices (n, n, nodes, lanes), a panel of columns at a time.

What is left of the matrix is written once a panel rather than once a variable: it is the traffic that costs.
"""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine.kernel import kernel
from ..spatial.small import summed

#: columns of a panel
WIDTH = 6


@kernel
def _column(P, inverse):
    """l = P_s0 / D, P_s0, and the panel without its first column and row."""
    column = P[1:, 0]
    l = column * inverse
    return l, column, P[1:, 1:] - l[:, None] * P[0, 1:][None]


@kernel
def _rest(A, ls, columns):
    """A − Σ l cᵀ over the columns of a panel."""
    return A - summed(l[:, None] * c[None] for l, c in zip(ls, columns, strict=True))


@kernel
def hard(pivot, error, least):
    """1 / D of a row without compliance; NaN where rounding is all that is left of it: the rows are dependent."""
    return 1 / jnp.where(pivot > 64 * jnp.finfo(pivot.dtype).eps * error + least, pivot, jnp.nan)


@kernel
def followed(error, l):
    """Bounds of the rounding of the pivots that come after a variable: that of its own is handed on by l²."""
    return error[1:] + l * l * error[:1]


def eliminate(A: Array, count: int, pivot: Callable[[int, Array, list], Array]) -> tuple[Array, list, list, list]:
    """Eliminate the first `count` variables; ``pivot(k, d, below)`` gives 1 / D of variable k from its diagonal entry
    and the columns below the diagonal so far.

    Returns what is left of A, and by variable 1 / D, the column below the diagonal over D, and that column itself.
    """
    inverse, below, columns = [], [], []
    while len(inverse) < count:
        width = min(WIDTH, count - len(inverse))
        P = A[:, :width]
        for _ in range(width):
            inverse.append(pivot(len(inverse), P[0, 0], below))
            l, column, P = _column(P, inverse[-1])
            below.append(l)
            columns.append(column)
        if A.shape[0] > width:
            # the last `width` columns reach further up the later they are
            tails = [[x[width - 1 - k :] for k, x in enumerate(xs[-width:])] for xs in (below, columns)]
            A = _rest(A[width:, width:], *tails)
        else:
            A = A[width:, width:]
    return A, inverse, below, columns


@kernel
def substituted(value, l, later):
    """value − Σ_s l_s x_s of a list of later variables."""
    return value - summed(l[s] * x for s, x in enumerate(later))


def spread(x: Array, places: Sequence[int], size: int, axes: Sequence[int]) -> Array:
    """The entries along `axes` at their `places` among `size` many; zeros in between."""
    first, stop = places[0] if places else 0, (places[-1] + 1) if places else 0
    if list(places) == list(range(first, stop)):
        pads = [(first, size - stop) if axis in axes else (0, 0) for axis in range(x.ndim)]
        return jnp.pad(x, pads) if stop - first < size else x
    place = np.full(size, len(places))
    place[list(places)] = np.arange(len(places))
    for axis in axes:
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        x = jnp.take(jnp.concatenate([x, jnp.zeros(shape, x.dtype)], axis), place, axis=axis, mode="clip")
    return x
