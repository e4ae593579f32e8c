"""The problem of a law in tiles: scaled so that G has ones on its diagonal, and filled up with rows that do nothing.

The three rows of a contact share a scale, so that its cone stays as it is and their diagonal is one in the mean.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..tree import tiles
from ..tree.tiles import WIDE, lower, place
from .cones import Cones, Counts, calling, natural, scales


class Filled(NamedTuple):
    """Rows that fill tiles: `counts` with those that do nothing, and where each row that there was stands."""

    counts: Counts
    rows: tuple[int, ...]

    @classmethod
    def of(cls, counts: Counts) -> "Filled":
        """Two contacts, six twists or six rows of joints fill a tile."""
        full = lambda n, of: -(-n // of) * of  # noqa: E731
        contacts, twists = full(counts.contacts, 2), full(len(counts.twists), WIDE)
        single = counts.bounded + counts.pushing
        own = (*counts.twists, *[0] * (twists - len(counts.twists)))
        made = Counts(contacts, own, counts.bounded, full(single, WIDE) - counts.bounded)
        first, second, _ = counts.ends
        starts = (0, first), (made.ends[0], second - first), (made.ends[1], single)
        return cls(made, tuple(k for start, n in starts for k in range(start, start + n)))

    def vector(self, x: Array, rest: float = 0.0) -> Array:
        """Numbers of rows (m, lanes) as tiles (n, WIDE, lanes), with others in the rest."""
        full = jnp.full((self.counts.rows, x.shape[-1]), rest, x.dtype).at[np.asarray(self.rows, int)].set(x)
        return full.reshape(-1, WIDE, x.shape[-1])

    def numbers(self, x: Array) -> Array:
        """Those of the rows, of tiles."""
        return flat(x)[np.asarray(self.rows, int)]


class Tiled(NamedTuple):
    """A problem s = H x + h with x = f / d, H = G d dᵀ and h = g d. **Fields:** `filled`; `H`, as `tiles.py` keeps
    matrices; `h` and `d` (n, WIDE, lanes); `cones`, of x."""

    filled: Filled
    H: Array
    h: Array
    d: Array
    cones: Cones

    def answer(self, x: Array) -> Array:
        """H x + h."""
        return tiles.product(self.H, x) + self.h

    def left_over(self, x: Array) -> Array:
        """How far x is from the law (lanes,), as `cones.left_over` tells it of f."""
        d, h = flat(self.d), flat(self.h)
        left = jnp.abs(natural(self.cones, jnp.ones_like(d), flat(x), flat(self.answer(x))) / d).max(0)
        return left / jnp.maximum(calling(self.filled.counts, h / d), jnp.finfo(h.dtype).tiny)


def tiled(G: Array, g: Array, cones: Cones) -> Tiled:
    """The problem of G (m, m, lanes), g (m, lanes) and the cones of f."""
    filled = Filled.of(cones.counts)
    d = filled.vector(jnp.sqrt(scales(cones.counts, G)), 1.0)
    m, size = len(g), filled.counts.rows
    number = np.full(size, m)
    number[list(filled.rows)] = range(m)
    row, column = np.meshgrid(number, number, indexing="ij")
    at = np.where((row < m) & (column < m), row * m + column, m * m + np.eye(size, dtype=int))
    ends = jnp.stack([jnp.zeros_like(G[0, 0]), jnp.ones_like(G[0, 0])])
    cells = jnp.take(jnp.concatenate([G.reshape(m * m, G.shape[-1]), ends]), at.ravel(), axis=0, mode="clip")
    H = swept(_scaling(len(d)), {"G": cells, "d": d})["H"]
    return Tiled(filled, H, filled.vector(g) * d, d, _scaled(cones, filled, flat(d)))


def flat(x: Array) -> Array:
    """Tiles as the numbers of their rows."""
    return x.reshape(-1, x.shape[-1])


def _scaled(cones: Cones, filled: Filled, d: Array) -> Cones:
    """The cones of forces over d; those of contacts stay as they are."""
    counts, (first, second, third) = filled.counts, filled.counts.ends
    more = lambda x, n: jnp.concatenate([x, jnp.zeros((n - len(x), x.shape[-1]), x.dtype)])  # noqa: E731
    radius, twists = more(cones.radius, len(counts.twists)), jnp.asarray(counts.twists, int)
    radius = radius * d[:first:3][twists] / d[first:second] if len(twists) else radius
    bound = cones.bound / d[second:third] if counts.bounded else cones.bound
    return Cones(counts, more(cones.friction, counts.contacts), radius, bound)


def _tile(rows, across, along):
    return jnp.stack(rows) * across[:, None] * along[None]


@tables
def _scaling(n: int) -> Table:
    def row(i: int, j: int) -> Row:
        own = tuple(Ref("G", (WIDE * i + k) * WIDE * n + WIDE * j, WIDE) for k in range(WIDE))
        return Row(Step(_tile), (own, Ref("d", i), Ref("d", j)), Ref("H", place(i, j)))

    return Table([row(i, j) for i, j in lower(n)], {"H": n * (n + 1) // 2})
