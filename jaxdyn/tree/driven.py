"""Elimination of the bodies of a cluster, one body at a time. Their joints move with the cluster's velocities w.

A body is substituted by a_i = X a_p + Σ_c s_c w_c, where s_c = S G_c is the motion relative to its parent by column c
of the cluster's map G. All of its inertia goes to the parent, as if the joint were locked. The columns keep
coefficients U_c on other bodies, and the block D between columns. After the last body of the cluster, its columns are
eliminated (`multipliers.py`), which acts on the bodies that carry it. The result is the articulated inertia of
constraint_embedding, section IV, but here only columns couple the bodies of a cluster, and no inertia is larger than
that of a body.

`jaxdyn.tree.elimination` treats columns as rows whose pivot has the other sign: D is stored as −D among the blocks L.

| symbol | name here | |
| --- | --- | --- |
| s_c | ``s`` | Σ_j S_j G_jc |
| U_c | ``U`` | H_i s_c + U_c of bodies that went before |
| D | ``-L`` | s_c · U_d + s_d · U_c before + Gᵀ armature G |
"""

import jax.numpy as jnp

from . import columns as co
from .articulated import seen_from, to_parent


def motions(kind, moves, n, par, q, G):
    """Return how the n columns of a cluster move a body relative to its parent, (angular, linear) with None for zero.
    `moves` gives, for each velocity of the joint, the column that it is, or None if `G` has its coefficients by column.
    """
    columns, taken = kind.columns(par, q), []
    ratios = iter(G)
    of = [None if c is not None else next(ratios) for c in moves]
    for k in range(n):
        parts = [
            (s, None if row is None else row[k]) for s, row, c in zip(columns, of, moves, strict=True) if c in (k, None)
        ]
        values = [jnp.ones_like(q[0]) if x is None else x for _, x in parts]
        taken.append(co.motion([s for s, _ in parts], values) if parts else (None, None))
    return taken


def reflected(moves, G, armature, c, d):
    """Return Σ_j G_jc armature_j G_jd, zero if there is none."""
    ratios, total = iter(G), 0.0
    for j, own in enumerate(moves):
        row = next(ratios) if own is None else None
        if row is not None:
            total = total + row[c] * armature[j] * row[d]
        elif own == c == d:
            total = total + armature[j]
    return total


def moves_of(moves, n, G, like):
    """Return how fast the n columns move a joint with one velocity."""
    (own,) = moves
    return [G[0][k] for k in range(n)] if own is None else [jnp.full_like(like, float(own == k)) for k in range(n)]


def _rows(parts, like):
    """Return spatial vectors as rows (rows, 3, lanes); None is zero."""
    zero = jnp.zeros_like(like)
    full = [[zero if x is None else x + zero for x in part] for part in parts]
    return tuple(jnp.stack(x) for x in zip(*full, strict=True))


def substitute(kind, moves, n, turned, tied, before, root, inertia, H, par, q, armature, pose, G, ties, K, own):
    """Substitute a body. `H` is what others have added to its inertia, `ties` are the blocks H_ji of its neighbours,
    `K` the coefficients of the rows that ride there, by constraint, and `own` those of the cluster's columns, None if
    they have none there. `turned` says, by constraint, whether the columns are the second index of its block L.

    Returns the additions to the parent's inertia, to ties of neighbours with the parent, to K of the parent by
    constraint and of the columns, to the columns' coefficients by neighbour, to L of the columns with constraints, and
    to L of the columns with themselves.
    """
    H = co.added(co.rigid(*inertia), H)
    s = motions(kind, moves, n, par, q, G)
    like = pose[1]
    lanes = lambda x: jnp.zeros_like(like[0]) if x is None else x + jnp.zeros_like(like[0])  # noqa: E731
    before_own = [(None, None) if own is None else (own[0][c], own[1][c]) for c in range(n)]
    U = [co.plus(co.times(x, *H), y) for x, y in zip(s, before_own, strict=True)]
    D = [
        lanes(co.sum_or_none(co.product(s[d], *U[c]), None if own is None else co.product(s[c], *before_own[d])))
        + reflected(moves, G, armature, c, d)
        for c in range(n)
        for d in range(n)
    ]
    L = -jnp.stack(D)
    near = tuple(_rows([co.tie_times(x, *block) for x in s], like) for block in ties)
    coupling = []
    for k, second in zip(K, turned, strict=True):
        block = -jnp.stack([lanes(co.product(x, *(jnp.swapaxes(y, 0, 1) for y in k))) + 0 * k[0][:, 0] for x in s])
        coupling.append((jnp.swapaxes(block, 0, 1) if second else block).reshape(-1, block.shape[-1]))
    parent, others, at_parent = to_parent(tied, before, root, pose, H, ties, (*K, _rows(U, like)))
    return parent, others, at_parent, near, tuple(coupling), L


def push(kind, moves, n, root, par, q, pose, G, force):
    """Process one body on the way up of a solve. Return the force on the parent, and the additions to the columns'
    right sides."""
    s = motions(kind, moves, n, par, q, G)
    zero = jnp.zeros_like(force[0][0])
    taken = [co.product(x, *force) for x in s]
    return None if root else co.to_parent(pose, force), jnp.stack([zero if x is None else -x + zero for x in taken])


def pull(kind, moves, n, par, q, pose, G, above, w):
    """Process one body on the way down of a solve. Return its acceleration from the parent's and the columns' w."""
    motion = seen_from(pose, above, pose[1] + 0 * w[0])
    for s, x in zip(motions(kind, moves, n, par, q, G), w, strict=True):
        motion = co.plus(motion, tuple(None if part is None else part * x for part in s))
    return motion
