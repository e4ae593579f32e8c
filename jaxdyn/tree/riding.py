"""How each column of a joint changes riding rows, i.e. rows that pass on to the parent: rules for `articulated.py`, and
steps for riders that are taken along on their own (`parties.py`).

| symbol | name here | equation (lcaba_proxbbo 45 and 46) |
| --- | --- | --- |
| V_r | ``r``, ``R`` | K_ri s |
| K_ra, L_rs | | K_ra − V_r U_aᵀ / D, L_rs + V_r V_s / D |
| b_r | ``taken`` | b_r − V_r u / D |
"""

import functools
import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..engine.core import joined
from ..spatial.small import summed
from . import columns as co


class Riding:
    """Riding rows while a body is eliminated. `K` are (moment, force) of (rows, 3, lanes), by constraint; `pairs` are
    the pairs of constraints that have blocks in L, by their places, including each with itself."""

    def __init__(self, K, pairs):
        self.counts = [x.shape[0] for x, _ in K]
        ends = np.cumsum([0, *self.counts])
        #: the rows of each constraint, among all
        self._spans = [range(a, b) for a, b in itertools.pairwise(ends)]
        self._K = tuple(joined(x) for x in zip(*K, strict=True))
        self._pairs = pairs
        self.R: list[Any] = []
        self._near: dict[int, Any] = {}
        self._L: Any = None

    def column(self, s, scaled, Dinv, V, H):
        """Update the rows for a column s with `scaled` U / D and V of the neighbours. Return H, which riding rows do
        not change."""
        if not self.counts:
            return H
        # all rows at once: there may be many, of many constraints
        r = co.product(s, *(jnp.swapaxes(x, 0, 1) for x in self._K))
        self._K = tuple(x - r[:, None] * u for x, u in zip(self._K, scaled, strict=True))
        x = r * Dinv
        for i, v in enumerate(V):
            self._near[i] = co.added(self._near.get(i), tuple(-x[:, None] * part for part in v))
        first, second = self._entries
        self._L = co.added(self._L, (x[first] * r[second],))
        self.R.append(r)
        return H

    @functools.cached_property
    def _entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the two rows of every entry of the blocks of L, pair by pair. Blocks of a constraint with itself are
        symmetric."""
        of = [(k, l, i, j) for k, l in self._pairs for i in self._spans[k] for j in self._spans[l]]
        both = [(max(i, j), min(i, j)) if k == l else (i, j) for k, l, i, j in of]
        return tuple(np.array(both, int).reshape(-1, 2).T)

    @property
    def K(self) -> list[Any]:
        """Return the remaining coefficients, by constraint."""
        return [tuple(x[span.start : span.stop] for x in self._K) for span in self._spans]

    @property
    def factor(self):
        """Return R of all columns, for the solves."""
        return jnp.concatenate(self.R) if self.R else None

    @property
    def on_neighbours(self) -> tuple:
        """Return the additions to K of the neighbours, by constraint and neighbour."""
        return tuple(
            tuple(x[span.start : span.stop] for x in near) for span in self._spans for near in self._near.values()
        )

    @functools.cached_property
    def coupling(self) -> tuple:
        """Return the additions to L, by pair of constraints."""
        if self._L is None:
            return ()
        ends = np.cumsum([self.counts[k] * self.counts[l] for k, l in self._pairs])
        return tuple(jnp.split(self._L[0], ends[:-1]))

    @property
    def diagonal(self) -> tuple:
        """Return the additions to the diagonal of L, by constraint."""
        own = [x for (k, l), x in zip(self._pairs, self.coupling, strict=False) if k == l]
        return tuple(x[:: n + 1] for n, x in zip(self.counts, own, strict=True)) if own else ()


class _Factor:
    def __init__(self, counts, R):
        self.counts, self.R = counts, R

    def at(self, c: int) -> tuple:
        """Return R of a column, by constraint."""
        return co.apart(self.R, self.counts, c * sum(self.counts))


class Forces(_Factor):
    """Riding rows on the way up, with the additions to their right sides."""

    def __init__(self, counts, R):
        super().__init__(counts, R)
        self._taken: list[Any] = [None] * len(counts)

    def column(self, c, k, force):
        self._taken = [co.added(t, (-r * k,)) for t, r in zip(self._taken, self.at(c), strict=True)]
        return force

    @property
    def taken(self) -> tuple:
        return tuple(x for (x,) in self._taken)


class Rates(_Factor):
    """Riding rows on the way down, with their multipliers `nu` by constraint."""

    def __init__(self, counts, R, nu):
        super().__init__(counts, R)
        self.nu = nu

    def column(self, c, u, motion):
        if not self.counts:
            return u
        return u - summed((r * x).sum(0) for r, x in zip(self.at(c), self.nu, strict=True))


def along(kind, n, root, coupled, par, q, pose, U, V, K, u):
    """Take the rows `K` of a party along from an eliminated body with n neighbours. `coupled` are the pairs of its
    parts that have a block in L. `u` are those of a solve that has begun; None before.

    Returns R for the solves; then the additions to K of the parent by part, to K of the neighbours by part, to L row by
    row, by pair of parts, to its diagonal by part, and to the right sides by part.
    """
    rows = Riding(K, coupled)
    for c, s in enumerate(kind.columns(par, q)):
        Un, Uf, Dinv = (x[c] for x in U)
        rows.column(s, (Un * Dinv, Uf * Dinv), Dinv, [(V[0][c * n + i], V[1][c * n + i]) for i in range(n)], None)
    parent = () if root else tuple(co.rows_to_parent(pose, k) for k in rows.K)
    blocks = zip(coupled, rows.coupling, strict=True)
    L = tuple(tuple(x.reshape(rows.counts[k], -1, x.shape[-1])) for (k, _), x in blocks)
    taken = () if u is None else pushed(rows.counts, u, U, rows.factor)
    return rows.factor, parent, rows.on_neighbours, L, rows.diagonal, taken


def coupled(counts, others, pairs, both, R, S, U):
    """Return the additions to L of pairs of parts of two parties with these numbers of rows: row by row and, where they
    are there `both` ways, those of the transpose."""
    first, second = (
        co.apart(jnp.swapaxes(x.reshape(-1, sum(n), x.shape[-1]), 0, 1), n) for x, n in ((R, counts), (S, others))
    )
    blocks = []
    for (k, l), way in zip(pairs, both, strict=True):
        # as `Riding` does: within a constraint the later row is scaled, so that equal entries have equal bits
        x, y = (first[k], second[l] * U[2]) if way else (first[k] * U[2], second[l])
        blocks.append(summed(x[:, None, c] * y[None, :, c] for c in range(len(U[2]))))
    back = [tuple(jnp.swapaxes(x, 0, 1)) if way else () for x, way in zip(blocks, both, strict=True)]
    return tuple((tuple(x), way) for x, way in zip(blocks, back, strict=True))


def pushed(counts, u, U, R):
    """Return the additions to the right sides of a party, by part."""
    rows = Forces(counts, R)
    for c in range(len(u)):
        rows.column(c, u[c] * U[2][c], None)
    return rows.taken


def pulled(R, nu):
    """Return the forces of the multipliers of a party, by column."""
    nu = jnp.concatenate(nu)
    R = R.reshape(-1, len(nu), R.shape[-1])
    return summed(R[:, r] * nu[r] for r in range(len(nu)))
