"""The two elimination rules behind ABA and its constrained relatives: one degree of freedom, and one multiplier.

The matrix is that of accelerations and multipliers, [M Jᵀ; J −R], which is quasi-definite: any order eliminates it
without pivoting, provided that the compliance R is positive or the rows have become independent. A body i
keeps an articulated inertia H_ii, blocks H_ji to its neighbours j (bodies that constraints, or eliminations
before, have tied to it), and rows K_ri of the constraints that ride there; rows keep blocks L_rs among each other.

A degree of freedom: for each column s of the joint's motion subspace in turn

| symbol | name here | equation (lcaba_proxbbo 25 to 31, 45 and 46, one column at a time) |
| --- | --- | --- |
| U_i, U_j | ``Un, Uf``, ``V`` | H_ii s, H_ji s: moment and force rows |
| V_r | ``R`` | K_ri s |
| 1/D | ``Dinv`` | 1 / (s · U_i + armature) |
| H_ab | | H_ab − U_a U_bᵀ / D for a, b in i and its neighbours |
| K_ra, L_rs | | K_ra − V_r U_aᵀ / D, L_rs + V_r V_s / D |
| u | ``u`` | τ − s · g_i |
| g_a, b_r | ``n, f``, ``rows`` | g_a + U_a u / D, b_r − V_r u / D |

and after the last column the body is substituted by its parent, a_i = X a_p: H_pp += Xᵀ H_ii X, H_jp += H_ji X and
K_rp += K_ri X. Each column is a rank-one step, never the inverse of a small matrix: thin rods have spin inertias
of 1e-6 kg m², and an explicit 3x3 inverse loses all digits there.

A multiplier (lcaba_proxbbo 51 and 52, one row at a time; at the base popov_vereshchagin, Alg. 1, lines 13 and 14):
with l_s = L_sr / L_rr, H_ab += K_raᵀ K_rb / L_rr, K_sa −= l_s K_ra, L_st −= l_s L_rt, b_s −= l_s b_r and
g_a −= K_raᵀ b_r / L_rr.

Penalties μ KᵀK instead of riding rows (LCABA) are the same with the multipliers eliminated before anything else.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..spatial.small import summed
from . import columns as co
from . import multipliers as mul
from .coupling import Coupling
from .field import Field
from .plan import Group, Multipliers
from .sweep import down, up


class Column(NamedTuple):
    """What one column leaves behind for the solves; neighbours and rows have a slot axis before the nodes."""

    Un: Array
    Uf: Array
    Dinv: Array
    Kn: Array  # U / D
    Kf: Array
    V: tuple[Array, Array] | None
    VK: tuple[Array, Array] | None
    R: Array | None
    RK: Array | None


class Articulated(NamedTuple):
    """What to eliminate: `own` (A, C, M) a body, `ties` (nn, nf, fn, ff) a pair (row, column) of bodies, `rows` K
    (moment, force) a pair (row, body), `compliance` R a row (None: zero, and `least` what L_rr must exceed)."""

    own: Field
    ties: Field
    rows: Field | None = None
    compliance: Field | None = None
    least: Field | None = None


class Joints(NamedTuple):
    """What the elimination needs of a group's joints: parameters, coordinates, armature (rows, k, lanes), pose."""

    par: Any
    q: Array
    armature: Array
    E: Array
    r: Array


def _slots(group: Group) -> list[tuple[int, ...]]:
    """Neighbours by slot; a tied parent comes last."""
    return [*group.neighbours, group.parents] if group.tied else list(group.neighbours)


def _flat_names(slots: Sequence[Sequence]) -> list:
    return [j for slot in slots for j in slot]


def _tie_blocks(ties: Field, group: Group, slots: list):
    rows = [(j, i) for slot in slots for j, i in zip(slot, group.nodes, strict=True)]
    straight, turned_over = ties.get(rows), ties.get([(i, j) for j, i in rows])
    if turned_over is not None:
        turned_over = co.flipped(*turned_over)
        straight = turned_over if straight is None else co.added(straight, turned_over)
    return mul.by_slot(straight, len(slots), len(group))


class Factor(eqx.Module):
    """A factorised inertia of a tree, with or without ties between its bodies and rows that ride. See `solve`."""

    order: tuple[Group | Multipliers, ...] = eqx.field(static=True)
    joints: list[Joints | None]
    parts: list[Any]

    def solve(
        self, tau: Sequence[Array], force: Field, rows: Field | None = None
    ) -> tuple[list[Array], Field, Field | None]:
        """Accelerations under generalised forces `tau` (rows, k, lanes) a group and bias forces (n, f) a body; with
        riding rows, whose right sides are `rows`, also the multipliers ν of [M Jᵀ; J −R] (a, ν) = (τ, b).

        The reduced two-sweep form (lcaba_proxbbo, Alg. 2 and 5). Returns the joints' accelerations by group, those
        (angular, linear) of the bodies, and ν by row. `force` and `rows` are used up.
        """
        tau = list(tau)
        given = [None if isinstance(g, Multipliers) else tau.pop(0) for g in self.order]
        zero_lane = jnp.zeros((3, 1, 1), next(j.E.dtype for j in self.joints if j is not None))

        def up_step(group, own, tau, joints, parts):
            if isinstance(group, Multipliers):
                return {}, mul.forwards(group, parts, force, rows)
            n, f = own["force"]
            us = []
            slots = _slots(group)
            for c, e in enumerate(parts):
                u = co.steps(group.kind, c).force(joints.par, joints.q, tau[c], n, f)
                n, f = co.pushed(n, f, e.Kn, e.Kf, u)
                if slots:
                    force.add(_flat_names(slots), mul.flat(co.scaled(*e.VK, u)))
                us.append(u)
            if group.rows:
                taken = -summed(e.RK * u for e, u in zip(parts, us, strict=True))
                rows.add(_flat_names(group.rows), mul.flat_rows(taken))
            if group.root:
                return {}, us
            return {"force": co.to_parent(joints.E, joints.r, n, f)}, us

        us = up(self.order, up_step, {"force": force}, given, self.joints, self.parts)
        accelerations, found = Field(), None if rows is None else Field()

        def down_step(group, parent, u, joints, parts):
            if isinstance(group, Multipliers):
                return {}, mul.backwards(group, parts, u, accelerations, found)
            zero = jnp.broadcast_to(zero_lane, (3, len(group), 1))
            w, l = (zero, zero) if parent is None else co.from_parent(joints.E, joints.r, *parent["a"])
            slots = _slots(group)
            around = mul.by_slot(accelerations.get(_flat_names(slots)), len(slots), len(group)) if slots else None
            if group.rows:
                nu = mul.slots_of(found.get(_flat_names(group.rows)), len(group.rows), len(group))
                u = [x - co.along_rows(e.R, nu) for x, e in zip(u, parts, strict=True)]
            xs = [None] * len(parts)
            for c in reversed(range(len(parts))):
                e = parts[c]
                x = (
                    co.pivot(u[c], e.Dinv, e.Un, e.Uf, w, l)
                    if around is None
                    else co.pivot_ties(u[c], e.Dinv, e.Un, e.Uf, w, l, *e.V, *around)
                )
                w, l = co.steps(group.kind, c).motion(joints.par, joints.q, x, w, l)
                xs[c] = x
            accelerations.add(group.nodes, (w, l))
            return {"a": (w, l)}, mul.stack(xs)

        _, rates = down(self.order[::-1], down_step, us[::-1], self.joints[::-1], self.parts[::-1])
        return [x for x in rates[::-1] if x is not None], accelerations, found


def factorise(order: Sequence[Group | Multipliers], joints: Sequence[Joints], inertia: Articulated) -> Factor:
    """Eliminate all bodies, and the multipliers of riding rows, in the given order (lcaba_proxbbo, backward sweeps of
    Alg. 1 and 4). `joints` are those of the groups of bodies."""
    own, ties, K, compliance, least = inertia
    L = Coupling()
    waiting = list(joints)
    given = [None if isinstance(g, Multipliers) else waiting.pop(0) for g in order]

    def step(group, at, joints):
        if isinstance(group, Multipliers):
            return {}, mul.eliminate(group, own, ties, K, L, compliance, least)
        A, C, M = at["H"]
        slots = _slots(group)
        n, p = len(slots), len(group.rows)
        blocks = _tie_blocks(ties, group, slots) if n else None
        R = mul.rows_on(K, group.rows, group.nodes) if p else None
        pairs = [(s, t) for s in range(n) for t in range(s + 1, n)]
        parts = []
        for c in range(group.kind.nv):
            kernels = co.steps(group.kind, c)
            Un, Uf, Dinv, Kn, Kf = kernels.apply(joints.par, joints.q, joints.armature[c], A, C, M)
            A, C, M = co.downdate(A, C, M, Un, Uf, Kn, Kf)
            V = VK = S = SK = None
            if n:
                V = kernels.apply_ties(joints.par, joints.q, *blocks)
                VK = co.scaled(*V, Dinv)
                blocks = co.downdate_ties(*blocks, *V, Kn, Kf)
                own.add(_flat_names(slots), mul.flat(co.tie_own(*VK, *V)))
                if pairs:
                    first, second = [s for s, _ in pairs], [t for _, t in pairs]
                    value = co.tie_pair(*[_pick(x, first) for x in VK], *[_pick(x, second) for x in V])
                    names = [(j, k) for s, t in pairs for j, k in zip(slots[s], slots[t], strict=True)]
                    ties.add(names, mul.flat(value))
            if p:
                S = kernels.apply_rows(joints.par, joints.q, *R)
                SK = S * Dinv
                R = co.downdate_rows(*R, S, Kn, Kf)
                for s, slot in enumerate(slots):
                    on_neighbour = co.row_tie(S, *[x[:, s] for x in VK])
                    K.add(
                        [(r, j) for rows in group.rows for r, j in zip(rows, slot, strict=True)], mul.flat(on_neighbour)
                    )
            parts.append(Column(Un, Uf, Dinv, Kn, Kf, V, VK, S, SK))
        if p:
            L.add(group, [e.R for e in parts], [e.RK for e in parts])
        if group.root:
            return {}, parts
        E, r = joints.E, joints.r
        if p:
            names = [(row, j) for rows in group.rows for row, j in zip(rows, group.parents, strict=True)]
            K.add(names, mul.flat(co.row_to_parent(E, r, *R)))
        if n:
            moved = co.ties_to_parent(E, r, *blocks)
            k = len(group.neighbours)
            if group.tied:
                own.add(group.parents, co.both_sides(*[x[:, :, k] for x in moved]))
            if k:
                names = [(j, p) for slot in group.neighbours for j, p in zip(slot, group.parents, strict=True)]
                ties.add(names, mul.flat(tuple(x[:, :, :k] for x in moved)))
        return {"H": co.inertia_to_parent(E, r, A, C, M)}, parts

    parts = up(order, step, {"H": own}, given)
    return Factor(tuple(order), given, parts)


def _pick(x, slots: Sequence[int]):
    """Slots of (3, slots, k, lanes), repeated as asked."""
    return jnp.stack([x[:, s] for s in slots], 1)
