"""Inverse inertias of bodies, and how forces and motions pass from body to body: the sweeps of EFPA and KJR.

With U and 1 / D of a joint's columns s from the elimination (`jaxdyn.tree.articulated`), a motion of the parent moves
the body, whose joint is free, by P X, with P = 1 − s Uᵀ / D column by column. A force on the body reaches the parent by
the transpose, the extended force propagator (popov_vereshchagin, section VII-C, and its references 28, 30, 31).

| symbol | name here | recursion |
| --- | --- | --- |
| Ω_i | ``omega`` | P X Ω_p Xᵀ Pᵀ + Σ s sᵀ / D: how body i accelerates by a force on it; the world's is zero |
| Ω_ij | ``across`` | P X Ω_pj along the way down from a common ancestor: by a force on body j (KJR) |
| K_i^g | ``ride`` | K_i P X along the way up to a common ancestor g (EFPA) |

Ω has 3x3 blocks (aa, al, la, ll): rows are (angular, linear), columns (moment, force).
"""

import dataclasses
import itertools
from collections.abc import Callable, Sequence

import jax.numpy as jnp

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..spatial.small import dot, mtm, mtv, mv, outer, skew_times, transpose
from . import columns as co
from .plan import Plan
from .riding import Riding
from .sweep import down, place_of, v_of
from .topology import WORLD, Topology


def _turned(omega):
    """Return the transpose."""
    aa, al, la, ll = omega
    return transpose(aa), transpose(la), transpose(al), transpose(ll)


def _seen(pose, omega):
    """Return X Ω."""
    E, r = pose
    aa, al, la, ll = omega
    return mtm(E, aa), mtm(E, al), mtm(E, la - skew_times(r, aa)), mtm(E, ll - skew_times(r, al))


def _directions(kind, par, q, U):
    """Yield per column, last first, (s_a, s_l), U and 1 / D."""
    for c, column in reversed(list(enumerate(kind.columns(par, q)))):
        parts = co.motion([column], [jnp.ones_like(U[2][c])])
        zero = jnp.zeros_like(U[0][c])
        yield tuple(zero if x is None else x for x in parts), (U[0][c], U[1][c]), U[2][c]


def _propagated(kind, par, q, pose, U, omega):
    """Return P X Ω."""
    aa, al, la, ll = _seen(pose, omega)
    for (a, l), (n, f), Dinv in _directions(kind, par, q, U):
        x = Dinv * (mtv(aa, n) + mtv(la, f))
        y = Dinv * (mtv(al, n) + mtv(ll, f))
        aa, al, la, ll = aa - outer(a, x), al - outer(a, y), la - outer(l, x), ll - outer(l, y)
    return aa, al, la, ll


def _inverse_inertia(kind, par, q, pose, U, above):
    """Return Ω of a body from that of its parent, None for the world."""
    if above is None:
        zero = jnp.zeros((3, 3, U[2].shape[-1]), U[2].dtype)
        aa, al, ll = zero, zero, zero
    else:
        aa, al, _, ll = _seen(pose, _turned(_seen(pose, above)))
    for (a, l), (n, f), Dinv in _directions(kind, par, q, U):
        x, y = Dinv * (mv(aa, n) + mv(al, f)), Dinv * (mtv(al, n) + mv(ll, f))
        half = Dinv * (1 + dot(n, x) + dot(f, y)) / 2
        x, y = half * a - x, half * l - y
        aa = aa + outer(a, x) + outer(x, a)
        al = al + outer(a, y) + outer(x, l)
        ll = ll + outer(l, y) + outer(y, l)
    return aa, al, transpose(al), ll


def _ride(kind, par, q, pose, U, K):
    """Return K P X."""
    rows = Riding([K], ((0, 0),))
    for c, s in enumerate(kind.columns(par, q)):
        rows.column(s, (U[0][c] * U[2][c], U[1][c] * U[2][c]), U[2][c], (), None)
    return co.rows_to_parent(pose, rows.K[0])


def _met(omega, K):
    """Return Ω Kᵀ row by row: how a body accelerates by forces along rows."""
    n, f = K
    aa, al, la, ll = omega
    parts = [(mv(aa, n[r]) + mv(al, f[r]), mv(la, n[r]) + mv(ll, f[r])) for r in range(n.shape[0])]
    return tuple(jnp.stack(x) for x in zip(*parts, strict=True))


def _between(twice, K, met):
    """Return K Ω Kᵀ of the rows of two bodies, row by row, plus its transpose if one constraint has both bodies."""
    (n, f), (w, l) = K, met
    block = [[dot(n[r], w[s]) + dot(f[r], l[s]) for s in range(w.shape[0])] for r in range(n.shape[0])]
    if twice:
        block = [[x + block[s][r] for s, x in enumerate(row)] for r, row in enumerate(block)]
    return jnp.stack([x for row in block for x in row])


@dataclasses.dataclass(frozen=True)
class Leg:
    """The rows of a constraint on one of its bodies."""

    constraint: int
    body: int
    cells: Ref


class Propagation:
    """Tables: `omega` computes the inverse inertias, and `between` the blocks of G, the cells of the field ``"G"``.

    `at` has the first cell of the block of every two constraints c ≤ d that are coupled, row by row of c.
    """

    def __init__(self, topology: Topology, plan: Plan, extended: bool):
        self.topology, self.plan = topology, plan
        legs = [Leg(c, b, k) for c in range(len(plan)) for b, k in zip(plan.bodies(c), plan.K(c), strict=True)]
        pairs = [(x, y, topology.common_ancestor((x.body, y.body))) for x, y in _pairs(legs)]
        pairs = [p for p in pairs if p[2] != WORLD]
        needed = {a for *_, g in pairs for a in topology.ancestors(g)}
        self.omega = Table(down(topology, self._omega(needed)), {"omega": topology.nb})
        self.at: dict[tuple[int, int], int] = {}
        self.size, self.rows, self.cells = 0, [], {}
        self.counts = {"ride": 0, "across": 0, "met": 0}
        block = self._extended if extended else self._relative
        for x, y, g in pairs:
            block(x, y, g)
        self.between = Table(self.rows, self.counts | {"G": self.size})

    def _omega(self, needed: set[int]) -> Callable:
        def row(b, p):
            if b not in needed:
                return []
            reads = *place_of(self.topology, b), v_of(self.topology, b, "U"), None if p == WORLD else Ref("omega", p)
            return Row(Step(_inverse_inertia, (self.topology.kinds[b],)), reads, Ref("omega", b))

        return row

    def _joint(self, step, b: int, reads, writes) -> None:
        kind = self.topology.kinds[b]
        self.rows.append(
            Row(Step(step, (kind,)), (*place_of(self.topology, b), v_of(self.topology, b, "U"), reads), writes)
        )

    def _new(self, name: str, key, count: int | None) -> Ref:
        start = self.counts[name]
        self.counts[name] += 1 if count is None else count
        self.cells[key] = Ref(name, start, count)
        return self.cells[key]

    def _block(self, x: Leg, y: Leg, K: Ref, omega: Ref, other: Ref) -> None:
        c, d = x.constraint, y.constraint
        size = len(self.plan.span(c)) * len(self.plan.span(d))
        if (c, d) not in self.at:
            self.at[c, d] = self.size
            self.size += size
        if (omega, other) not in self.cells:
            self.rows.append(Row(Step(_met), (omega, other), self._new("met", (omega, other), other.count)))
        step = Step(_between, (c == d and x != y,))
        self.rows.append(Row(step, (K, self.cells[omega, other]), Ref("G", self.at[c, d], size)))

    def _extended(self, x: Leg, y: Leg, g: int) -> None:
        """EFPA: take the rows of both legs to the common ancestor."""
        self._block(x, y, self._ridden(x, g), Ref("omega", g), self._ridden(y, g))

    def _ridden(self, x: Leg, g: int) -> Ref:
        at = x.cells
        for b in self.topology.way(x.body, g):
            key = x, self.topology.parents[b]
            if key not in self.cells:
                self._joint(_ride, b, at, self._new("ride", key, at.count))
            at = self.cells[key]
        return at

    def _relative(self, x: Leg, y: Leg, g: int) -> None:
        """KJR: compute Ω_xy from the common ancestor down to both bodies, separately for every pair of bodies."""
        key = g, y.body, "turned"
        if key not in self.cells:
            reached = self._descended(Ref("omega", g), y.body, g, (g,))
            self.rows.append(Row(Step(_turned), (reached,), self._new("across", key, None)))
        self._block(x, y, x.cells, self._descended(self.cells[key], x.body, g, (g, y.body)), y.cells)

    def _descended(self, at: Ref, body: int, g: int, key: tuple) -> Ref:
        for b in reversed(self.topology.way(body, g)):
            if (*key, b, "down") not in self.cells:
                self._joint(_propagated, b, at, self._new("across", (*key, b, "down"), None))
            at = self.cells[*key, b, "down"]
        return at


def _pairs(legs: Sequence[Leg]):
    """Return all pairs of legs, including each with itself, the constraint with the lower number first."""
    return itertools.combinations_with_replacement(legs, 2)


@tables
def propagation_of(topology: Topology, plan: Plan, extended: bool) -> Propagation:
    """Return the tables of EFPA (`extended`) or KJR; equal ones are one object."""
    return Propagation(topology, plan, extended)
