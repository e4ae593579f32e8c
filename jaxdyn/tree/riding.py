"""What a column does to rows that ride on: rules for `articulated.py`.

| symbol | name here | equation (lcaba_proxbbo 45 and 46) |
| --- | --- | --- |
| V_r | ``r``, ``R`` | K_ri s |
| K_ra, L_rs | | K_ra − V_r U_aᵀ / D, L_rs + V_r V_s / D |
| b_r | ``taken`` | b_r − V_r u / D |
"""

from typing import Any

import jax.numpy as jnp

from ..spatial.small import summed
from . import columns as co
from . import panels


class Riding:
    """Rows while a body is eliminated: `K` by constraint, (moment, force) of (rows, 3, lanes)."""

    def __init__(self, K):
        self.K, self.R = list(K), []
        self._near: dict[tuple[int, int], Any] = {}
        self._L: dict[tuple[int, int], Any] = {}

    def column(self, s, scaled, Dinv, V, H):
        """Follow a column s with `scaled` U / D and V of the neighbours. Returns H, which rows that ride on leave."""
        r = [co.product(s, *(jnp.swapaxes(x, 0, 1) for x in k)) for k in self.K]
        self.K = [
            tuple(x - y[:, None] * u for x, u in zip(k, scaled, strict=True)) for k, y in zip(self.K, r, strict=True)
        ]
        for k, x in enumerate(r):
            x = x * Dinv
            for i, v in enumerate(V):
                less = tuple(-x[:, None] * part for part in v)
                self._near[k, i] = co.added(self._near.get((k, i)), less)
            for l in range(k, len(r)):
                self._L[k, l] = co.added(self._L.get((k, l)), (x[:, None] * r[l][None],))
        self.R += r
        return H

    @property
    def factor(self):
        """R of all columns, for the solves."""
        return jnp.concatenate(self.R) if self.R else None

    @property
    def on_neighbours(self) -> tuple:
        """What is added to K of the neighbours, by constraint and neighbour."""
        return tuple(self._near.values())

    @property
    def coupling(self) -> tuple:
        """What is added to L, by pair of constraints."""
        blocks = [panels.mirrored(x) if k == l else x for (k, l), (x,) in self._L.items()]
        return tuple(x.reshape(-1, x.shape[-1]) for x in blocks)

    @property
    def diagonal(self) -> tuple:
        """What is added to the diagonal of L, by constraint."""
        blocks = [self._L[k, k][0] for k in range(len(self.K)) if (k, k) in self._L]
        return tuple(jnp.stack([x[r, r] for r in range(x.shape[0])]) for x in blocks)


class _Factor:
    def __init__(self, counts, R):
        self.counts, self.R = counts, R

    def at(self, c: int) -> tuple:
        """R of a column, by constraint."""
        return co.apart(self.R, self.counts, c * sum(self.counts))


class Forces(_Factor):
    """Rows on the way up: what is taken from their right sides."""

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
    """Rows on the way down, with their multipliers `nu` by constraint."""

    def __init__(self, counts, R, nu):
        super().__init__(counts, R)
        self.nu = nu

    def column(self, c, u, motion):
        if not self.counts:
            return u
        return u - summed((r * x).sum(0) for r, x in zip(self.at(c), self.nu, strict=True))
