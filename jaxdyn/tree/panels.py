"""Partial L D Lᵀ of small dense symmetric matrices (n, n, lanes): eliminate the first variables."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..spatial.small import summed

#: rows whose rounding errors differ by a larger factor do not share the larger one
ALIKE = 100.0


def hard(pivot, error, least):
    """Return 1 / D of a row without compliance; NaN if the pivot does not exceed rounding error plus `least`, i.e. the
    rows are dependent."""
    return 1 / jnp.where(pivot > _rounding(error) + least, pivot, jnp.nan)


def damped(pivot, error, R):
    """Return 1 / D of a row with compliance R, or with the usual rounding error of the pivot if that is larger than R:
    it never exceeds 1 / R. More compliance than necessary costs steps of the iteration."""
    return 1 / (jnp.maximum(pivot, 0) + jnp.maximum(R, _rounding(error, 4)))


def if_independent(pivot, error, least):
    """Return 1 / D of a row whose pivot exceeds `least` and rounding error; else zero, which leaves the row out."""
    return independent(pivot, jnp.maximum(least, _rounding(error)))


def exact(pivot, error, R):
    """Return 1 / D of a variable without compliance and without a check of its pivot."""
    return 1 / pivot


def independent(pivot, least):
    """Return 1 / D of a row whose pivot exceeds `least`; else zero, which leaves the row out."""
    some = pivot > least
    return jnp.where(some, 1 / jnp.where(some, pivot, 1), 0)


def _rounding(error, times=64):
    """Return the rounding error of a pivot: by default a bound that is seldom reached."""
    return times * jnp.finfo(error.dtype).eps * error


def followed(error, l):
    """Return bounds of the rounding of the pivots after a variable: each gains l² times the bound of that variable."""
    return error[1:] + l * l * error[:1]


def eliminate(A: Array, count: int, pivot: Callable[[int, Array, list], Array]) -> tuple[Array, list, list, list]:
    """Eliminate the first `count` variables; ``pivot(k, d, below)`` gives 1 / D of variable k from its diagonal entry
    and the columns below the diagonal so far. Only the lower triangle of A is read, and only that of the remainder is
    valid.

    Returns the remainder of A, and by variable 1 / D, the column below the diagonal over D, and that column itself.
    """
    inverse, below, columns = [], [], []
    for k in range(count):
        inverse.append(pivot(k, A[0, 0], below))
        columns.append(A[1:, 0])
        below.append(columns[-1] * inverse[-1])
        A = A[1:, 1:] - below[-1][:, None] * columns[-1][None]
    return A, inverse, below, columns


def eliminate_rows(A: Array, count: int, rule: Callable, error: Array, R: Array | None, sign: int = 1) -> tuple:
    """Eliminate the first `count` rows, whose 1 / D the `rule` gives from the pivot, the size `error` (n, lanes) of
    the numbers whose rounding it has, and R (count, lanes). `sign` is that of the diagonal.

    Damped rows have the error of the largest of them, unless it is more than `ALIKE` times their own: with the same
    compliance, redundant rows share their forces equally and conflicting ones settle at the least squares. But the
    rounding of a gear's row would leave nothing of that of a foot. For all others errors grow as rows are eliminated.

    Returns what `eliminate` returns, and the errors of the other variables.
    """
    of = lambda k: None if R is None else R[k]  # noqa: E731
    if rule is damped:
        most = jnp.minimum(error[:count].max(0), ALIKE * error[:count])
        return *eliminate(A, count, lambda k, d, below: sign * damped(sign * d, most[k], of(k))), error[count:]

    def pivot(k, d, below):
        nonlocal error
        error = followed(error, below[-1]) if k else error
        return sign * rule(sign * d, error[0], of(k))

    found = eliminate(A, count, pivot)
    return *found, followed(error, found[2][-1])


def mirrored(A: Array) -> Array:
    """Return the symmetric matrix whose lower triangle is that of A (n, n, lanes)."""
    n = A.shape[0]
    row, column = np.indices((n, n))
    at = n * np.maximum(row, column) + np.minimum(row, column)
    return jnp.take(A.reshape(n * n, A.shape[-1]), at, axis=0, mode="clip")


def solve(inverse: Array, below: Array | None, b: Array) -> Array:
    """Return x with L D Lᵀ x = b (n, lanes), from 1 / D (n, lanes) and the columns below the diagonal, one after the
    other."""
    return raised(below, lowered(below, b)[0] * inverse)


def lowered(below: Array | None, b: Array, count: int | None = None) -> tuple[Array, Array]:
    """Return L⁻¹ b of the first `count` variables (None: all), and what remains of b of the others."""
    n, left = len(b), b
    out: list[Array] = []
    for k in range(n if count is None else count):
        out.append(left[0])
        left = left[1:] if below is None or k == n - 1 else left[1:] - _column(below, k, n) * left[:1]
    return jnp.stack(out), left


def raised(below: Array | None, b: Array, later: Sequence[Array] = ()) -> Array:
    """Return L⁻ᵀ b of the first variables, given the `later` ones."""
    count, x = len(b), list(later)
    n = count + len(x)
    for k in reversed(range(count)):
        x.insert(0, b[k] if below is None or not x else substituted(b[k], _column(below, k, n), x))
    return jnp.stack(x[:count])


def _column(below: Array, k: int, n: int) -> Array:
    """Return column k below the diagonal of n by n."""
    start = k * (n - 1) - k * (k - 1) // 2
    return below[start : start + n - 1 - k]


def substituted(value, l, later):
    """Return value − Σ_s l_s x_s of a list of later variables."""
    return value - summed(l[s] * x for s, x in enumerate(later))


def spread(x: Array, places: Sequence[int], size: int, axes: Sequence[int]) -> Array:
    """Return the entries along `axes` at their `places` among `size`, with zeros in between."""
    place = np.full(size, len(places))
    place[list(places)] = np.arange(len(places))
    for axis in axes:
        shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
        x = jnp.take(jnp.concatenate([x, jnp.zeros(shape, x.dtype)], axis), place, axis=axis, mode="clip")
    return x
