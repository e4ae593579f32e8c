"""The elimination of one degree of freedom: the one rule behind ABA and its constrained relatives.

A body i keeps an articulated inertia H_ii and blocks H_ji to its neighbours j: bodies that constraints, or
eliminations before, have tied to it. For each column s of its joint's motion subspace in turn

| symbol | name here | equation (lcaba_proxbbo, 25 to 31, one column at a time) |
| --- | --- | --- |
| U_i, U_j | ``Un, Uf``, ``Vn, Vf`` | H_ii s, H_ji s: moment and force rows |
| 1/D | ``Dinv`` | 1 / (s · U_i + armature) |
| H_ab | | H_ab − U_a U_bᵀ / D for a, b in i and its neighbours |
| u | ``u`` | τ − s · g_i |
| g_a | ``n, f`` | g_a + U_a u / D |

and after the last column the body is substituted by its parent, a_i = X a_p: H_pp += Xᵀ H_ii X and
H_jp += H_ji X. Each column is a rank-one step, never the inverse of a small matrix: thin rods have spin inertias
of 1e-6 kg m², and an explicit 3x3 inverse loses all digits there.

Blocks are 3x3: H = [A C; Cᵀ M] in (moment, force) rows and (angular, linear) columns.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kernel import kernel
from ..spatial.small import cross, mm, mmt, mtv, mv, outer, skew_times_transpose, times_skew, transpose
from .field import Field
from .plan import Group
from .sweep import down, up


class Eliminated(NamedTuple):
    """What one column leaves behind for the solves; the neighbours' rows have a slot axis before the nodes."""

    Un: Array
    Uf: Array
    Dinv: Array
    Kn: Array  # U / D
    Kf: Array
    V: tuple[Array, Array] | None
    VK: tuple[Array, Array] | None


class Articulated(NamedTuple):
    """Inertias to eliminate: `own` (A, C, M) a body, `ties` the blocks (nn, nf, fn, ff) of pairs (row, column)."""

    own: Field
    ties: Field


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

    def force(par, q, tau, n, f):
        return tau - product(column(par, q), n, f)

    def motion(par, q, x, w, l):
        a, b = column(par, q)
        return _moved(a, x, w), _moved(b, x, l)

    return Steps(*[kernel(f) for f in (apply, apply_ties, force, motion)])


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
    return nn - _outer(Vn, Kn), nf - _outer(Vn, Kf), fn - _outer(Vf, Kn), ff - _outer(Vf, Kf)


def _outer(x, y):
    return x[:, None] * y[None]


@kernel
def scaled(Vn, Vf, Dinv):
    return Vn * Dinv, Vf * Dinv


@kernel
def tie_own(Kn, Kf, Vn, Vf):
    """−U_j U_jᵀ / D for each neighbour: (A, C, M)."""
    return -_outer(Kn, Vn), -_outer(Kn, Vf), -_outer(Kf, Vf)


@kernel
def tie_pair(Kn, Kf, Vn, Vf):
    return -_outer(Kn, Vn), -_outer(Kn, Vf), -_outer(Kf, Vn), -_outer(Kf, Vf)


@kernel
def turned(E, B):
    """E B Eᵀ."""
    return mmt(mm(E, B), E)


@kernel
def shifted(A, C, M, r):
    """An inertia about the body's origin to that about the parent's, `r` away."""
    C2 = C + cross(r, M)
    return A - times_skew(C, r) + skew_times_transpose(r, C2), C2


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
def added(x, y):
    return tuple(a + b for a, b in zip(x, y, strict=True))


def _slots(group: Group) -> list[tuple[int, ...]]:
    """Neighbours by slot; a tied parent comes last."""
    return [*group.neighbours, group.parents] if group.tied else list(group.neighbours)


def _by_slot(blocks, slots: int, nodes: int):
    """Columns (slots * nodes) to two axes (slots, nodes)."""
    return tuple(b.reshape(*b.shape[:-2], slots, nodes, b.shape[-1]) for b in blocks)


def _flat(blocks):
    return tuple(b.reshape(*b.shape[:-3], b.shape[-3] * b.shape[-2], b.shape[-1]) for b in blocks)


def _tie_blocks(ties: Field, group: Group, slots: list):
    rows = [(j, i) for slot in slots for j, i in zip(slot, group.nodes, strict=True)]
    straight, turned_over = ties.get(rows), ties.get([(i, j) for j, i in rows])
    if turned_over is not None:
        turned_over = flipped(*turned_over)
        straight = turned_over if straight is None else added(straight, turned_over)
    return _by_slot(straight, len(slots), len(group))


class Joints(NamedTuple):
    """What the elimination needs of a group's joints: parameters, coordinates, armature (rows, k, lanes), pose."""

    par: Any
    q: Array
    armature: Array
    E: Array
    r: Array


class Factor(eqx.Module):
    """A factorised inertia of a tree, with or without ties between its bodies. See `solve`."""

    groups: tuple[Group, ...] = eqx.field(static=True)
    joints: list[Joints]
    columns: list[list[Eliminated]]

    def solve(self, tau: Sequence[Array], force: Field) -> tuple[list[Array], Field]:
        """Accelerations under generalised forces `tau` (rows, k, lanes) a group and bias forces (n, f) a body.

        The reduced two-sweep form (lcaba_proxbbo, Alg. 2). Returns the joints' accelerations by group and
        those (angular, linear) of the bodies. `force` is used up.
        """
        with_groups = (self.joints, self.columns)

        def up_step(group, own, tau, joints, columns):
            n, f = own["force"]
            us = []
            slots = _slots(group)
            for c, e in enumerate(columns):
                u = steps(group.kind, c).force(joints.par, joints.q, tau[c], n, f)
                n, f = _pushed(n, f, e.Kn, e.Kf, u)
                if slots:
                    x = _flat(_pushed_ties(*e.VK, u))
                    force.add([j for slot in slots for j in slot], x)
                us.append(u)
            if group.root:
                return {}, us
            return {"force": to_parent(joints.E, joints.r, n, f)}, us

        us = up(self.groups, up_step, {"force": force}, tau, *with_groups)
        accelerations = Field()

        def down_step(group, parent, u, joints, columns):
            zero = jnp.zeros((3, len(group), 1), joints.E.dtype)
            w, l = (zero, zero) if parent is None else from_parent(joints.E, joints.r, *parent["a"])
            slots = _slots(group)
            tied = None
            if slots:
                around = accelerations.get([j for slot in slots for j in slot])
                tied = _by_slot(around, len(slots), len(group))
            xs = [None] * len(columns)
            for c in reversed(range(len(columns))):
                e = columns[c]
                x = (
                    _pivot(u[c], e.Dinv, e.Un, e.Uf, w, l)
                    if tied is None
                    else _pivot_ties(u[c], e.Dinv, e.Un, e.Uf, w, l, *e.V, *tied)
                )
                w, l = steps(group.kind, c).motion(joints.par, joints.q, x, w, l)
                xs[c] = x
            accelerations.add(group.nodes, (w, l))
            shape = jnp.broadcast_shapes(*[x.shape for x in xs])
            return {"a": (w, l)}, jnp.stack([jnp.broadcast_to(x, shape) for x in xs])

        _, rates = down(self.groups[::-1], down_step, us[::-1], self.joints[::-1], self.columns[::-1])
        return rates[::-1], accelerations


@kernel
def _pushed(n, f, Kn, Kf, u):
    return n + Kn * u, f + Kf * u


@kernel
def _pushed_ties(Kn, Kf, u):
    return Kn * u, Kf * u


@kernel
def _pivot(u, Dinv, Un, Uf, w, l):
    return (u - _dot(Un, w) - _dot(Uf, l)) * Dinv


def _over_slots(x):
    total = x[0]
    for k in range(1, x.shape[0]):
        total = total + x[k]
    return total


@kernel
def _pivot_ties(u, Dinv, Un, Uf, w, l, Vn, Vf, aw, al):
    return (u - _dot(Un, w) - _dot(Uf, l) - _over_slots(_dot(Vn, aw) + _dot(Vf, al))) * Dinv


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


def factorise(groups: Sequence[Group], joints: Sequence[Joints], inertia: Articulated) -> Factor:
    """Eliminate all bodies in the order of `groups` (lcaba_proxbbo, backward sweep of Alg. 1)."""
    own, ties = inertia

    def step(group: Group, at, joints: Joints):
        A, C, M = at["H"]
        slots = _slots(group)
        n = len(slots)
        blocks = _tie_blocks(ties, group, slots) if n else None
        pairs = [(s, t) for s in range(n) for t in range(s + 1, n)]
        columns = []
        for c in range(group.kind.nv):
            kernels = steps(group.kind, c)
            Un, Uf, Dinv, Kn, Kf = kernels.apply(joints.par, joints.q, joints.armature[c], A, C, M)
            A, C, M = downdate(A, C, M, Un, Uf, Kn, Kf)
            V = VK = None
            if n:
                V = kernels.apply_ties(joints.par, joints.q, *blocks)
                VK = scaled(*V, Dinv)
                blocks = downdate_ties(*blocks, *V, Kn, Kf)
                own.add([j for slot in slots for j in slot], _flat(tie_own(*VK, *V)))
                if pairs:
                    first, second = [s for s, _ in pairs], [t for _, t in pairs]
                    value = tie_pair(*[_pick(x, first) for x in VK], *[_pick(x, second) for x in V])
                    names = [(j, k) for s, t in pairs for j, k in zip(slots[s], slots[t], strict=True)]
                    ties.add(names, _flat(value))
            columns.append(Eliminated(Un, Uf, Dinv, Kn, Kf, V, VK))
        if group.root:
            return {}, columns
        if group.kind.nv == 6:  # nothing is left of the body's inertia, nor of its ties
            return {}, columns
        E, r = joints.E, joints.r
        A, C, M = turned(E, A), turned(E, C), turned(E, M)
        A, C = shifted(A, C, M, r)
        if n:
            moved = ties_to_parent(E, r, *blocks)
            k = len(group.neighbours)
            if group.tied:
                own.add(group.parents, both_sides(*[x[:, :, k] for x in moved]))
            if k:
                names = [(j, p) for slot in group.neighbours for j, p in zip(slot, group.parents, strict=True)]
                ties.add(names, _flat(tuple(x[:, :, :k] for x in moved)))
        return {"H": (A, C, M)}, columns

    columns = up(groups, step, {"H": own}, joints)
    return Factor(tuple(groups), list(joints), columns)


def _pick(x, slots: Sequence[int]):
    """Slots of (3, slots, k, lanes), repeated as asked."""
    return jnp.stack([x[:, s] for s in slots], 1)
