"""Algebra of one node: columns of a joint, inertias, forces and motions, and their transforms between body and parent.

A column is one column of a joint's motion subspace, as (angular, linear) directions. A direction is a vector, a unit
axis 0 to 2, or None for zero. Blocks are 3x3: H = [A C; Cᵀ M] in (moment, force) rows and (angular, linear) columns; A
and M are symmetric, and are stored as six numbers (`jaxdyn.spatial.symmetric`). Lanes, the elements of the batch, are
the last axis.
"""

from typing import Any

import jax.numpy as jnp

from ..spatial import symmetric as sy
from ..spatial.small import (
    cross,
    mm,
    mmt,
    mtv,
    mv,
    outer,
    skew,
    summed,
    times_skew,
    transpose,
)


def _along(direction, block):
    """Return block @ direction."""
    if direction is None:
        return None
    return block[:, direction] if isinstance(direction, int) else mv(block, direction)


def _along_symmetric(direction, S):
    """Return S @ direction for a symmetric block."""
    if direction is None:
        return None
    return sy.column(S, direction) if isinstance(direction, int) else sy.times(S, direction)


def sum_or_none(x, y):
    """Return x + y; None is zero."""
    return y if x is None else (x if y is None else x + y)


def _dot(direction, x):
    if direction is None or x is None:
        return None
    if isinstance(direction, int):
        return x[direction]
    return direction[0] * x[0] + direction[1] * x[1] + direction[2] * x[2]


def plus(x, y) -> tuple[Any, Any]:
    """Return the sum of (angular, linear) pairs; None is zero."""
    return tuple(map(sum_or_none, x, y))


def times(column, A, C, M) -> tuple[Any, Any]:
    """Return H s: (moment, force)."""
    a, l = column
    return (
        sum_or_none(_along_symmetric(a, A), _along(l, C)),
        sum_or_none(_along(a, transpose(C)), _along_symmetric(l, M)),
    )


def tie_times(column, nn, nf, fn, ff):
    """Return H_ji s of a neighbour j: (moment, force)."""
    a, l = column
    return sum_or_none(_along(a, nn), _along(l, nf)), sum_or_none(_along(a, fn), _along(l, ff))


def product(column, n, f):
    """Return s · (n, f)."""
    return sum_or_none(_dot(column[0], n), _dot(column[1], f))


def motion(columns, x) -> tuple[Any, Any]:
    """Return Σ_c s_c x_c as (angular, linear), with None for a part that is zero by structure."""
    out = []
    for part in (0, 1):
        total, unit = None, {}
        for column, value in zip(columns, x, strict=True):
            direction = column[part]
            if isinstance(direction, int):
                unit[direction] = value
            elif direction is not None:
                total = sum_or_none(total, direction * value)
        if unit:
            zero = jnp.zeros_like(x[0])
            total = sum_or_none(total, jnp.stack([unit.get(k, zero) for k in range(3)]))
        out.append(total)
    return tuple(out)


def moved(column, x, w, l) -> tuple[Any, Any]:
    """Return (w, l) + s x."""
    return tuple(sum_or_none(part, y) for part, y in zip(motion([column], [x]), (w, l), strict=True))


def rigid(mass, first, second):
    """Return the inertia (mass, first, second) of a rigid body about its origin as (A, C, M)."""
    return second, skew(first), sy.diagonal(mass)


def inertia_times(inertia, motion):
    """Return the inertia (mass, first, second) of a rigid body about its origin times a motion: (moment, force)."""
    (mass, first, second), (w, l) = inertia, motion
    return sy.times(second, w) + cross(first, l), mass * l - cross(first, w)


def downdate(A, C, M, Un, Uf, Kn, Kf):
    """Return H_ii − U Uᵀ / D."""
    return A - sy.product(Un, Kn), C - outer(Un, Kf), M - sy.product(Uf, Kf)


def tie_downdate(nn, nf, fn, ff, Vn, Vf, Kn, Kf):
    """Return H_ji − U_j U_iᵀ / D."""
    return nn - outer(Vn, Kn), nf - outer(Vn, Kf), fn - outer(Vf, Kn), ff - outer(Vf, Kf)


def symmetric_product(weight, x):
    """Return w x xᵀ of a spatial vector as (A, C, M)."""
    a, b = weight * x[0], weight * x[1]
    return sy.product(a, x[0]), outer(a, x[1]), sy.product(b, x[1])


def tie_product(weight, x, y):
    """Return w x yᵀ of spatial vectors as (nn, nf, fn, ff)."""
    a, b = weight * x[0], weight * x[1]
    return outer(a, y[0]), outer(a, y[1]), outer(b, y[0]), outer(b, y[1])


def added(x, y) -> Any:
    """Return the sum of tuples of arrays; None is zero."""
    if x is None or y is None:
        return y if x is None else x
    return tuple(a + b for a, b in zip(x, y, strict=True))


def inertia_to_parent(pose, H):
    """Return an inertia of the body as one of its parent."""
    (E, r), (A, C, M) = pose, H
    A, C, M = sy.turned(E, A), mmt(mm(E, C), E), sy.turned(E, M)
    C2 = C + sy.skew_times_symmetric(r, M)
    return A - sy.part_times_skew(C, r) + sy.part_skew_times_transpose(r, C2), C2, M


def rigid_to_parent(pose, inertia):
    """Return the inertia (mass, first, second) of a rigid body as one of its parent."""
    (E, r), (mass, first, second) = pose, inertia
    h = mv(E, first)
    g = h + mass * r
    return mass, g, sy.turned(E, second) - (sy.skew_skew(h, r) + sy.skew_skew(r, g))


def tie_to_parent(pose, block):
    """Return H_ji X: the columns of the body as columns of its parent."""
    E, r = pose
    nn, nf, fn, ff = (mmt(B, E) for B in block)
    return nn - times_skew(nf, r), nf, fn - times_skew(ff, r), ff


def both_sides(nn, nf, fn, ff):
    """Return H_pi X + (H_pi X)ᵀ as (A, C, M)."""
    return sy.with_transpose(nn), nf + transpose(fn), sy.with_transpose(ff)


def flipped(nn, nf, fn, ff):
    """Return H_ij from H_ji."""
    return transpose(nn), transpose(fn), transpose(nf), transpose(ff)


def row_rates(K, motion):
    """Return K a of rows (rows, 3, lanes): (rows, lanes)."""
    (n, f), (w, l) = K, motion
    return n[:, 0] * w[0] + n[:, 1] * w[1] + n[:, 2] * w[2] + f[:, 0] * l[0] + f[:, 1] * l[1] + f[:, 2] * l[2]


def row_forces(K, x):
    """Return Kᵀ x as (moment, force)."""
    n, f = K
    return summed(n[r] * x[r] for r in range(x.shape[0])), summed(f[r] * x[r] for r in range(x.shape[0]))


def to_parent(pose, force):
    """Return a force on the body as seen from its parent."""
    (E, r), (n, f) = pose, force
    f = mv(E, f)
    return mv(E, n) + cross(r, f), f


def rows_to_parent(pose, K):
    """Return K X: rows (rows, 3, lanes) on the body as rows on its parent."""
    E, r = pose
    n, f = to_parent((E[:, :, None], r[:, None]), [jnp.swapaxes(x, 0, 1) for x in K])
    return jnp.swapaxes(n, 0, 1), jnp.swapaxes(f, 0, 1)


def from_parent(pose, motion):
    """Return a motion of the parent as seen from the body."""
    (E, r), (w, l) = pose, motion
    return mtv(E, w), mtv(E, l + cross(w, r))


def stacked(parts):
    """Return tuples of arrays as one tuple with a new first axis, None if there are none."""
    return tuple(jnp.stack(jnp.broadcast_arrays(*x)) for x in zip(*parts, strict=True)) if parts else None


def apart(x, counts, start=0):
    """Return the rows by constraint, from `start` on."""
    out = []
    for n in counts:
        out.append(x[start : start + n])
        start += n
    return tuple(out)


def sum_of(product, weights, *rows):
    """Return Σ_a w_a x_a y_aᵀ of rows (moments, forces), of two bodies or of one with itself."""
    total = None
    for a, w in enumerate(weights):
        total = added(total, product(w, *((n[a], f[a]) for n, f in rows)))
    return total
