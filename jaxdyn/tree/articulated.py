"""Elimination of one body's joint, one column at a time, see `jaxdyn.tree.elimination`.

| symbol | name here | equation (lcaba_proxbbo 25 to 31, 45 and 46, one column at a time) |
| --- | --- | --- |
| U_i, U_j | ``U``, ``V`` | H_ii s, H_ji s: (moment, force) |
| 1/D | ``Dinv`` | 1 / (s · U_i + armature) |
| H_ab | | H_ab − U_a U_bᵀ / D for a, b in i and its neighbours |
| u | ``u`` | τ − s · g_i |
| g_a | ``force`` | g_a + U_a u / D |

A separate rule says what every column does to rows of constraints: `Riding` rows go on to the parent (`riding.py`), in
`early.py` every column eliminates one row.
"""

from typing import Any

import jax.numpy as jnp

from ..spatial.small import summed
from . import columns as co
from .geared import beside
from .riding import Forces, Rates, Riding


def eliminate_columns(kind, par, q, armature, H, ties, rows, spin=None):
    """Eliminate the columns of a joint from the body's inertia `H`, the blocks H_ji of its neighbours, and `rows`.
    `spin` is the moment that rotors exert on the parent, seen from the body, per acceleration of a joint with one
    column.

    Returns (U, 1/D) and V by column, the remaining H and blocks, and the additions to the inertias of the neighbours
    and to the ties of pairs of them.
    """
    n, ties = len(ties), list(ties)
    U, V = [], []
    near: list[Any] = [None] * n
    pairs: dict[tuple[int, int], Any] = {}
    for c, s in enumerate(kind.columns(par, q)):
        Un, Uf = co.times(s, *H)
        Dinv = 1 / (co.product(s, Un, Uf) + armature[c])
        Un, Uf = co.plus((Un, Uf), (spin, None))
        Kn, Kf = Un * Dinv, Uf * Dinv
        H = co.downdate(*H, Un, Uf, Kn, Kf)
        v = [co.tie_times(s, *block) for block in ties]
        ties = [co.tie_downdate(*block, *x, Kn, Kf) for block, x in zip(ties, v, strict=True)]
        for i in range(n):
            near[i] = co.added(near[i], co.symmetric_product(-Dinv, v[i]))
            for j in range(i + 1, n):
                pairs[i, j] = co.added(pairs.get((i, j)), co.tie_product(-Dinv, v[j], v[i]))
        H = rows.column(s, (Kn, Kf), Dinv, v, H)
        U.append((Un, Uf, Dinv))
        V += v
    return co.stacked(U), co.stacked(V), H, ties, tuple(near), tuple(pairs.values())


def push_columns(kind, par, q, tau, force, U, V, n, rows):
    """Process the columns of a joint on the way up. Return u by column, the remaining force (moment, force), and the
    forces on the n neighbours."""
    us, near = [], [None] * n
    for c, s in enumerate(kind.columns(par, q)):
        us.append(tau[c] - co.product(s, *force))
        k = us[c] * U[2][c]
        force = co.added(force, (U[0][c] * k, U[1][c] * k))
        near = [co.added(near[i], (V[0][c * n + i] * k, V[1][c * n + i] * k)) for i in range(n)]
        force = rows.column(c, k, force)
    return jnp.stack(us), force, tuple(near)


def pull_columns(kind, par, q, u, U, V, motion, around, rows):
    """Process the columns of a joint on the way down, from the `motion` (angular, linear) of the parent seen from the
    body and the motions of the neighbours. Return the joint's accelerations, and the body's."""
    columns, n = kind.columns(par, q), len(around)
    xs: list[Any] = [None] * len(columns)
    for c in reversed(range(len(columns))):
        left = rows.column(c, u[c], motion) - co.product((U[0][c], U[1][c]), *motion)
        if n:
            left = left - summed(co.product((V[0][c * n + i], V[1][c * n + i]), *a) for i, a in enumerate(around))
        xs[c] = left * U[2][c]
        motion = co.moved(columns[c], xs[c], *motion)
    return jnp.stack(xs), motion


def seen_from(pose, above, like):
    """Return the motion of the parent seen from the body; the world (None) is at rest."""
    zero = jnp.zeros_like(like)
    return (zero, zero) if above is None else co.from_parent(pose, above)


def eliminate(kind, tied, before, root, coupled, inertia, H, par, q, armature, pose, ties, K, gears):
    """Eliminate a body. `H` is what others have added to its inertia, `ties` are the blocks H_ji of its neighbours, and
    `K` the coefficients of the rows that ride there, by constraint. `coupled` are the pairs of these constraints that
    have a block in L. `gears` are the rotors that turn with the joint, see `geared.py`.

    Returns (U, 1/D), V and R for the solves, by column; then the additions to the parent's inertia, to the neighbours'
    inertias, to ties by pair of neighbours, to ties of neighbours with the parent, to K of the parent by constraint, to
    K of the neighbours by constraint, to L by pair of constraints, and to its diagonal by constraint.
    """
    rows, H = Riding(K, coupled), co.added(co.rigid(*inertia), H)
    reflected, spin = beside(pose, gears)
    armature = armature if reflected is None else armature + reflected
    U, V, H, ties, near, pairs = eliminate_columns(kind, par, q, armature, H, ties, rows, spin)
    parent, others, at_parent = to_parent(tied, before, root, pose, H, ties, rows.K)
    on = rows.on_neighbours, rows.coupling, rows.diagonal
    return (U, V, rows.factor), parent, near, pairs, others, at_parent, *on


def to_parent(tied, before, root, pose, H, ties, K):
    """Return what the remainder of a body adds to its parent, with a_i = X a_p: H_pp += Xᵀ H_ii X, H_jp += H_ji X and
    K_rp += K_ri X."""
    if root:
        return None, (), ()
    parent = co.inertia_to_parent(pose, H)
    moved = [co.tie_to_parent(pose, block) for block in ties]
    if tied is not None:
        parent = co.added(parent, co.both_sides(*moved[tied]))
    # the rows of a block belong to the body that is eliminated later
    others = tuple(co.flipped(*block) if i < before else block for i, block in enumerate(moved) if i != tied)
    return parent, others, tuple(co.rows_to_parent(pose, k) for k in K)


def push(kind, root, n, counts, par, q, pose, tau, force, U, V, R):
    """Process one body on the way up of a solve. Return u by column, the force on the parent, the forces on the
    neighbours, and the additions to the right sides by constraint."""
    rows = Forces(counts, R)
    us, force, near = push_columns(kind, par, q, tau, force, U, V, n, rows)
    return us, None if root else co.to_parent(pose, force), near, rows.taken


def pull(kind, counts, par, q, pose, u, U, V, R, above, around, nu, load):
    """Process one body on the way down of a solve. Return the accelerations of the joint and the body, from those of
    the parent (`above`) and of the neighbours (`around`), and the multipliers `nu` of the rows that ride there. `load`
    are the forces of rows that ride in parties, None without such."""
    u = u if load is None else u - load  # once, so that u is rounded once
    motion = seen_from(pose, above, U[0][0])
    return pull_columns(kind, par, q, u, U, V, motion, around, Rates(counts, R, nu))
