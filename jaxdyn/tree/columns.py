"""Walled pieces of the elimination: one column of a joint, one row of a constraint, and the way to the parent.

Blocks are 3x3: H = [A C; Cᵀ M] in (moment, force) rows and (angular, linear) columns; nodes and lanes are the last
axes. See `jaxdyn.tree.elimination` for the symbols.
"""

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp

from ..engine.kernel import kernel
from ..spatial.small import cross, mm, mmt, mtv, mv, outer, skew_times_transpose, summed, times_skew, transpose


def _along(direction, block):
    """block @ direction, where direction is a vector, a unit axis or None (zero)."""
    if direction is None:
        return None
    return block[:, direction] if isinstance(direction, int) else mv(block, direction)


def _sum(x, y):
    return y if x is None else (x if y is None else x + y)


def _dot(direction, x):
    if direction is None:
        return None
    if isinstance(direction, int):
        return x[direction]
    return direction[0] * x[0] + direction[1] * x[1] + direction[2] * x[2]


def times(column, A, C, M):
    """H s: (moment, force)."""
    a, l = column
    return _sum(_along(a, A), _along(l, C)), _sum(_along(a, transpose(C)), _along(l, M))


def product(column, n, f):
    """s · (n, f)."""
    return _sum(_dot(column[0], n), _dot(column[1], f))


class Steps(NamedTuple):
    """The walled pieces of one joint kind's elimination."""

    apply: Any  # H s and the pivot
    apply_ties: Any
    apply_rows: Any  # K s
    force: Any  # s · (n, f)
    motion: Any  # s x


@functools.cache
def steps(kind, c: int) -> Steps:
    """Kernels for column c of a joint kind; the column is rebuilt inside from the joint's parameters."""

    def column(par, q):
        return kind.columns(par, q)[c]

    def apply(par, q, armature, A, C, M):
        s = column(par, q)
        Un, Uf = times(s, A, C, M)
        Dinv = 1 / (product(s, Un, Uf) + armature)
        return Un, Uf, Dinv, Un * Dinv, Uf * Dinv

    def apply_ties(par, q, nn, nf, fn, ff):
        a, l = column(par, q)
        return _sum(_along(a, nn), _along(l, nf)), _sum(_along(a, fn), _along(l, ff))

    def apply_rows(par, q, n, f):
        return product(column(par, q), n, f)

    def force(par, q, tau, n, f):
        return tau - product(column(par, q), n, f)

    def motion(par, q, x, w, l):
        a, b = column(par, q)
        return _moved(a, x, w), _moved(b, x, l)

    return Steps(*[kernel(f) for f in (apply, apply_ties, apply_rows, force, motion)])


def _moved(direction, x, w):
    if direction is None:
        return w
    if isinstance(direction, int):
        return jnp.stack([w[k] + x if k == direction else jnp.broadcast_to(w[k], (w[k] + x).shape) for k in range(3)])
    return w + direction * x


@kernel
def downdate(A, C, M, Un, Uf, Kn, Kf):
    """H_ii − U Uᵀ / D."""
    return A - outer(Un, Kn), C - outer(Un, Kf), M - outer(Uf, Kf)


@kernel
def downdate_ties(nn, nf, fn, ff, Vn, Vf, Kn, Kf):
    """H_ji − U_j U_iᵀ / D; the neighbours' axis broadcasts."""
    Kn, Kf = Kn[:, None], Kf[:, None]
    return nn - outer(Vn, Kn), nf - outer(Vn, Kf), fn - outer(Vf, Kn), ff - outer(Vf, Kf)


@kernel
def scaled(n, f, x):
    return n * x, f * x


@kernel
def tie_own(Kn, Kf, Vn, Vf):
    """−U_j U_jᵀ / D for each neighbour: (A, C, M)."""
    return -outer(Kn, Vn), -outer(Kn, Vf), -outer(Kf, Vf)


@kernel
def tie_pair(Kn, Kf, Vn, Vf):
    return -outer(Kn, Vn), -outer(Kn, Vf), -outer(Kf, Vn), -outer(Kf, Vf)


@kernel
def turned(E, B):
    """E B Eᵀ."""
    return mmt(mm(E, B), E)


@kernel
def shifted(A, C, M, r):
    """An inertia about the body's origin to that about the parent's, `r` away."""
    C2 = C + cross(r, M)
    return A - times_skew(C, r) + skew_times_transpose(r, C2), C2


def inertia_to_parent(E, r, A, C, M):
    """An inertia of the body as one of its parent."""
    A, C, M = turned(E, A), turned(E, C), turned(E, M)
    return *shifted(A, C, M, r), M


@kernel
def ties_to_parent(E, r, nn, nf, fn, ff):
    """H_ji X: the columns of the body seen from its parent."""
    E, r = E[:, :, None], r[:, None]
    nn, nf, fn, ff = (mmt(B, E) for B in (nn, nf, fn, ff))
    return nn - times_skew(nf, r), nf, fn - times_skew(ff, r), ff


@kernel
def both_sides(nn, nf, fn, ff):
    """H_pi X + (H_pi X)ᵀ as (A, C, M)."""
    return nn + transpose(nn), nf + transpose(fn), ff + transpose(ff)


@kernel
def flipped(nn, nf, fn, ff):
    return transpose(nn), transpose(fn), transpose(nf), transpose(ff)


@kernel
def downdate_rows(n, f, V, Kn, Kf):
    """K − V U^T / D: rows (3, slots, nodes, lanes) and V (slots, nodes, lanes)."""
    return n - V[None] * Kn[:, None], f - V[None] * Kf[:, None]


def row_to_parent(E, r, n, f):
    """K X: rows on the body as rows on its parent."""
    return to_parent(E[:, :, None], r[:, None], n, f)


@kernel
def row_tie(V, Kn, Kf):
    """−V_r V_jᵀ / D of all rows and one neighbour."""
    return -V[None] * Kn[:, None], -V[None] * Kf[:, None]


def _weighted(weights, pairs):
    """Σ_r w_r x_r y_rᵀ of each pair; a single weight is that of all rows."""
    if weights.shape[0] == 1:
        return tuple(weights[0] * summed(outer(x[r], y[r]) for r in range(x.shape[0])) for x, y in pairs)
    return tuple(summed(weights[r] * outer(x[r], y[r]) for r in range(x.shape[0])) for x, y in pairs)


@kernel
def inertia_of_rows(weights, n, f):
    """Σ_r w_r K_rᵀ K_r as (A, C, M); rows (rows, 3, nodes, lanes)."""
    return _weighted(weights, ((n, n), (n, f), (f, f)))


@kernel
def tie_of_rows(weights, a, b, c, d):
    """Σ_r w_r K_riᵀ K_rj as (nn, nf, fn, ff)."""
    return _weighted(weights, ((a, c), (a, d), (b, c), (b, d)))


# sums of slices: reductions over short axes are slow on a CPU
@kernel
def row_rates(n, f, w, l):
    """K a of rows (rows, 3, nodes, lanes)."""
    return n[:, 0] * w[0] + n[:, 1] * w[1] + n[:, 2] * w[2] + f[:, 0] * l[0] + f[:, 1] * l[1] + f[:, 2] * l[2]


@kernel
def row_forces(n, f, x):
    """Kᵀ x as (moment, force)."""
    return summed(n[r] * x[r] for r in range(x.shape[0])), summed(f[r] * x[r] for r in range(x.shape[0]))


@kernel
def along_rows(V, x):
    """Σ_r V_r x_r: (nodes, lanes)."""
    return summed(V * x)


@kernel
def added(x, y):
    return tuple(a + b for a, b in zip(x, y, strict=True))


@kernel
def pushed(n, f, Kn, Kf, u):
    return n + Kn * u, f + Kf * u


@kernel
def pivot(u, Dinv, Un, Uf, w, l):
    return (u - _dot(Un, w) - _dot(Uf, l)) * Dinv


@kernel
def pivot_ties(u, Dinv, Un, Uf, w, l, Vn, Vf, aw, al):
    return (u - _dot(Un, w) - _dot(Uf, l) - summed(_dot(Vn, aw) + _dot(Vf, al))) * Dinv


@kernel
def to_parent(E, r, n, f):
    """A force on the body seen from its parent."""
    f = mv(E, f)
    return mv(E, n) + cross(r, f), f


@kernel
def from_parent(E, r, w, l):
    """A motion of the parent seen from the body."""
    # by components: a stacked vector is an array more to write
    x = (l[0] + w[1] * r[2] - w[2] * r[1], l[1] + w[2] * r[0] - w[0] * r[2], l[2] + w[0] * r[1] - w[1] * r[0])
    return mtv(E, w), mtv(E, x)
