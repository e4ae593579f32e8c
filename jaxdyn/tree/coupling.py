"""What riding rows exert on each other, L_rs: bodies leave terms V_r V_s / D, summed up when rows are eliminated.

Many bodies in a row carry the same rows. The sum over them is one pass over a block of L.
"""

from collections import defaultdict
from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kernel import kernel
from ..spatial.small import outer, summed
from . import panels
from .field import Field
from .plan import Group, Multipliers

#: terms that one kernel sums up
TERMS = 6


@kernel
def _sum_of_products(xs, ys):
    """Σ x yᵀ of slots: (slots, slots, nodes, lanes)."""
    return summed(outer(x, y) for x, y in zip(xs, ys, strict=True))


@kernel
def _more(total, xs, ys):
    return total + summed(outer(x, y) for x, y in zip(xs, ys, strict=True))


class Coupling:
    """L while bodies and rows are eliminated."""

    def __init__(self) -> None:
        self._bodies: dict[int, tuple[tuple[int, ...], int]] = {}
        self._terms, self._blocks = Field(), Field()

    def add(self, group: Group, V: Sequence[Array], scaled: Sequence[Array]) -> None:
        """Σ_c V_c V_cᵀ / D_c of the columns of a group of bodies; V and V / D are (rows, nodes, lanes)."""
        for k, b in enumerate(group.nodes):
            self._bodies[b] = tuple(slot[k] for slot in group.rows), len(V)
        for c, pair in enumerate(zip(V, scaled, strict=True)):
            self._terms.add([(b, c) for b in group.nodes], pair)

    def replace(self, rows: Sequence[Sequence[int]], block: Array) -> None:
        """Give rows by slot, whose terms are summed up, the block (slots, slots, nodes, lanes)."""
        self._blocks.replace(_pairs(rows), block.reshape(-1, block.shape[-1]))

    def take(self, group: Multipliers) -> Array:
        """The block of the rows of `group` and the others: (slots, slots, nodes, lanes)."""
        slots = (*group.rows, *group.others)
        total = self._blocks.get(_pairs(slots))
        shape = (len(slots), len(slots), len(group))
        total = None if total is None else total.reshape(*shape, -1)
        found = [self._found(rows, len(group.rows)) for rows in zip(*slots, strict=True)]
        kinds = [tuple((at, len(terms)) for at, terms in f.items()) for f in found]
        if len(set(kinds)) == 1:
            return self._sum(shape, total, found)
        parts = []
        for k, f in enumerate(found):
            part = None if total is None else total[:, :, k : k + 1]
            parts.append(self._sum((*shape[:2], 1), part, [f]))
        lanes = max(p.shape[-1] for p in parts)
        return jnp.concatenate([jnp.broadcast_to(p, (*p.shape[:-1], lanes)) for p in parts], 2)

    def _found(self, rows: tuple[int, ...], first: int) -> dict[tuple[int, ...], list[tuple[int, int]]]:
        """Terms (body, column) in which any of the first rows occurs, by the places of their rows."""
        place = {r: k for k, r in enumerate(rows)}
        terms = defaultdict(list)
        for b, (on, columns) in list(self._bodies.items()):
            if any(place.get(r, first) < first for r in on):
                del self._bodies[b]
                terms[tuple(place[r] for r in on)] += [(b, c) for c in range(columns)]
        return dict(sorted(terms.items(), key=lambda item: (-len(item[0]), item[0])))

    def _sum(self, shape: tuple[int, ...], total: Array | None, found: Sequence[dict]) -> Array:
        for at in found[0]:
            every = list(zip(*[f[at] for f in found], strict=True))
            whole = at == tuple(range(shape[0]))  # a body may name its rows in another order
            part = total if whole else None
            for start in range(0, len(every), TERMS):
                pairs = [self._terms.get(terms) for terms in every[start : start + TERMS]]
                xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
                part = _sum_of_products(xs, ys) if part is None else _more(part, xs, ys)
            if whole:
                total = part
            else:
                part = panels.spread(part, at, shape[0], (0, 1))
                total = part if total is None else total + part
        return total


def _pairs(rows: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Names of the blocks of L, slot by slot; both orders of a pair are kept."""
    return [p for a in rows for b in rows for p in zip(a, b, strict=True)]
