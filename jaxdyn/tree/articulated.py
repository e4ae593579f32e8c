"""The elimination of a joint, one column at a time: steps for one body, see `jaxdyn.tree.elimination`.

| symbol | name here | equation (lcaba_proxbbo 25 to 31, 45 and 46, one column at a time) |
| --- | --- | --- |
| U_i, U_j | ``U``, ``V`` | H_ii s, H_ji s: (moment, force) |
| V_r | ``R`` | K_ri s |
| 1/D | ``Dinv`` | 1 / (s · U_i + armature) |
| H_ab | | H_ab − U_a U_bᵀ / D for a, b in i and its neighbours |
| K_ra, L_rs | | K_ra − V_r U_aᵀ / D, L_rs + V_r V_s / D |
| u | ``u`` | τ − s · g_i |
| g_a, b_r | ``force``, ``b`` | g_a + U_a u / D, b_r − V_r u / D |
"""

from typing import Any

import jax.numpy as jnp

from ..spatial.small import summed
from . import columns as co


def eliminate(kind, tied, before, root, inertia, H, par, q, armature, pose, ties, K):
    """Eliminate a body: `H` is what others have added to its inertia, `ties` are the blocks H_ji of its neighbours,
    `K` the coefficients of the rows that ride there, by constraint.

    Returns (U, 1/D), V and R for the solves, by column; then what is added: to the parent's inertia, to the neighbours'
    inertias, to ties by pair of neighbours, to ties of neighbours with the parent, to K of the parent by constraint,
    to K of the neighbours by constraint, to L by pair of constraints.
    """
    H, ties, K = co.added(co.rigid(*inertia), H), list(ties), list(K)
    n, m = len(ties), len(K)
    U, V, R = [], [], []
    near: list[Any] = [None] * n
    pairs, on_near, L = {}, {}, {}
    for c, s in enumerate(kind.columns(par, q)):
        Un, Uf = co.times(s, *H)
        Dinv = 1 / (co.product(s, Un, Uf) + armature[c])
        Kn, Kf = Un * Dinv, Uf * Dinv
        H = co.downdate(*H, Un, Uf, Kn, Kf)
        v = [co.tie_times(s, *block) for block in ties]
        ties = [co.tie_downdate(*block, *x, Kn, Kf) for block, x in zip(ties, v, strict=True)]
        for i in range(n):
            near[i] = co.added(near[i], co.symmetric_product(-Dinv, *v[i]))
            for j in range(i + 1, n):
                pairs[i, j] = co.added(pairs.get((i, j)), co.tie_product(-Dinv, v[j], v[i]))
        r = [co.product(s, jnp.swapaxes(x, 0, 1), jnp.swapaxes(y, 0, 1)) for x, y in K]
        K = [(x - y[:, None] * Kn, z - y[:, None] * Kf) for (x, z), y in zip(K, r, strict=True)]
        for k in range(m):
            scaled = r[k] * Dinv
            for i in range(n):
                less = tuple(-scaled[:, None] * x for x in v[i])
                on_near[k, i] = co.added(on_near.get((k, i)), less)
            for l in range(k, m):
                more = (scaled[:, None] * r[l][None],)
                L[k, l] = co.added(L.get((k, l)), more)
        U.append((Un, Uf, Dinv))
        V += v
        R += r
    parent, to_parent, at_parent = _to_parent(tied, before, root, pose, H, ties, K)
    factor = _stacked(U), _stacked(V), jnp.concatenate(R) if R else None
    flat = tuple(x.reshape(-1, x.shape[-1]) for (x,) in L.values())
    return factor, parent, tuple(near), tuple(pairs.values()), to_parent, at_parent, tuple(on_near.values()), flat


def _stacked(parts):
    return tuple(jnp.stack(x) for x in zip(*parts, strict=True)) if parts else None


def _to_parent(tied, before, root, pose, H, ties, K):
    """What is left of a body, a_i = X a_p: H_pp += Xᵀ H_ii X, H_jp += H_ji X and K_rp += K_ri X."""
    if root:
        return None, (), ()
    parent = co.inertia_to_parent(pose, H)
    moved = [co.tie_to_parent(pose, block) for block in ties]
    if tied is not None:
        parent = co.added(parent, co.both_sides(*moved[tied]))
    # the row is the body that is eliminated later
    others = tuple(co.flipped(*block) if i < before else block for i, block in enumerate(moved) if i != tied)
    return parent, others, tuple(co.rows_to_parent(pose, k) for k in K)


def push(kind, root, n, counts, par, q, pose, tau, force, U, V, R):
    """One body of the solve's way up. Returns u by column, the force on the parent, those on the neighbours, and what
    is added to the right sides by constraint."""
    moment, f = force
    columns = kind.columns(par, q)
    us: list[Any] = []
    near: list[Any] = [None] * n
    taken: list[Any] = [None] * len(counts)
    m = sum(counts)
    for c, s in enumerate(columns):
        us.append(tau[c] - co.product(s, moment, f))
        k = us[c] * U[2][c]
        moment, f = moment + U[0][c] * k, f + U[1][c] * k
        for i in range(n):
            near[i] = co.added(near[i], (V[0][c * n + i] * k, V[1][c * n + i] * k))
        if m:
            for i, r in enumerate(_apart(R[c * m : (c + 1) * m], counts)):
                taken[i] = co.added(taken[i], (-r * k,))
    parent = None if root else co.to_parent(pose, (moment, f))
    return jnp.stack(us), parent, tuple(near), tuple(x for (x,) in taken)


def pull(kind, n, counts, par, q, pose, u, U, V, R, above, around, nu):
    """One body of the solve's way down: the joint's accelerations and the body's, from those of the parent (`above`,
    None: the world) and of the neighbours (`around`), and the multipliers of the rows that ride there."""
    zero = jnp.zeros_like(U[0][0])
    w, l = (zero, zero) if above is None else co.from_parent(pose, above)
    columns, m = kind.columns(par, q), sum(counts)
    xs: list[Any] = [None] * len(columns)
    for c in reversed(range(len(columns))):
        left = u[c]
        if m:
            parts = zip(_apart(R[c * m : (c + 1) * m], counts), nu, strict=True)
            left = left - summed((r * x).sum(0) for r, x in parts)
        left = left - co.product((U[0][c], U[1][c]), w, l)
        if n:
            left = left - summed(co.product((V[0][c * n + i], V[1][c * n + i]), *a) for i, a in enumerate(around))
        xs[c] = left * U[2][c]
        w, l = co.moved(columns[c], xs[c], w, l)
    return jnp.stack(xs), (w, l)


def _apart(x, counts):
    out, start = [], 0
    for k in counts:
        out.append(x[start : start + k])
        start += k
    return out
