"""The problem of a law in tiles of six rows: scaled so that the diagonal of G is one, and padded with rows without
effect.

The three rows of a contact share a scale: its cone does not change, and the mean of their diagonal is one.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine.core import lanes_of, widen
from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..tree import tiles
from ..tree.tiles import WIDE, lower, place
from .cones import Cones, Convex, Counts, Limited, calling, measures, natural, scales
from .effect import Unformed, diagonal


class Filled(NamedTuple):
    """Rows padded to whole tiles: `counts`, with the padding, and the new index of each original row, `rows`."""

    counts: Counts
    rows: tuple[int, ...]

    @classmethod
    def of(cls, counts: Counts) -> "Filled":
        """Return the rows padded such that two contacts, six twists or six rows of joints fill a tile."""
        full = lambda n, of: -(-n // of) * of  # noqa: E731
        contacts, twists = full(counts.contacts, 2), full(len(counts.twists), WIDE)
        own = (*counts.twists, *[0] * (twists - len(counts.twists)))
        made = counts._replace(contacts=contacts, twists=own, joints=full(counts.joints, WIDE))
        first, second = counts.ends
        starts = (0, first), (made.ends[0], second - first), (made.ends[1], counts.joints)
        return cls(made, tuple(k for start, n in starts for k in range(start, start + n)))

    def vector(self, x: Array, rest: float = 0.0) -> Array:
        """Return values of rows (m, lanes) as tiles (n, WIDE, lanes), with `rest` in the padding."""
        full = jnp.full((self.counts.rows, x.shape[-1]), rest, x.dtype).at[np.asarray(self.rows, int)].set(x)
        return full.reshape(-1, WIDE, x.shape[-1])

    def numbers(self, x: Array) -> Array:
        """Return the values of the original rows (m, lanes), from tiles."""
        return flat(x)[np.asarray(self.rows, int)]


class Scaled(eqx.Module):
    """A scaled problem s = H x + h, with x = f / d, H = G d dᵀ (entry by entry) and h = g d. **Fields:** `h` and `d`
    (rows, lanes); `cones`, of x; `over` (rows, lanes), 1 over the `measures` of rows, as entries of h. A lane is one
    element of the batch."""

    h: Array
    d: Array
    cones: Cones
    over: Array

    @property
    def counts(self) -> Counts:
        return self.cones.counts

    @abc.abstractmethod
    def product(self, x: Array) -> Array:
        """Return H x (rows, lanes)."""

    @abc.abstractmethod
    def solver(self, shift: Array) -> Callable[[Array], Array]:
        """Return the function from b to (H + shift)⁻¹ b (rows, lanes), for a positive shift (lanes,)."""

    @abc.abstractmethod
    def filled_up(self, x: Array) -> Array:
        """Return values of the rows of G (m, lanes) as values of the rows of H, with zeros in the padding."""

    @abc.abstractmethod
    def forces(self, x: Array) -> Array:
        """Return f (m, lanes)."""

    def start(self, f: Array) -> Array:
        """Return x for forces f (m, lanes)."""
        return self.filled_up(f) / self.d

    def answer(self, x: Array) -> Array:
        """Return s = H x + h."""
        return self.product(x) + self.h

    def left_over(self, x: Array) -> Array:
        """Return how far x is from the law (lanes,), like `cones.left_over` for f."""
        return self.left_of(x, self.answer(x))

    def left_of(self, x: Array, s: Array) -> Array:
        """Return `left_over` of x, given s = H x + h."""
        return (jnp.abs(natural(self.cones, jnp.ones_like(self.d), x, s)) * self.over).max(0)


class Tiled(Scaled):
    """A problem with a matrix `H`, stored in tiles as in `tiles.py`."""

    H: Array
    filled: Filled = eqx.field(static=True)

    def product(self, x):
        return flat(tiles.product(self.H, in_tiles(x)))

    def solver(self, shift):
        factor = tiles.factorise(self.H, shift)
        return lambda b: flat(tiles.solve(factor, in_tiles(b)))

    def filled_up(self, x):
        return flat(self.filled.vector(x))

    def forces(self, x):
        return self.filled.numbers(in_tiles(x * self.d))

    def of_contacts(self, h: Array) -> "Tiled":
        """Return the problem of contacts and twists alone, given its h."""
        counts, cones, end = self.counts._replace(joints=0), self.cones, len(h)
        none, own = cones.limited.bound[:0], self.H[: place(end // WIDE, 0)]
        limited = Limited(none, none, none)
        cones = dataclasses.replace(cones, counts=counts, limited=limited, parts=cones.parts[:end])
        return Tiled(h, self.d[:end], cones, self.over[:end], own, Filled(counts, tuple(range(end))))


class Free(Scaled):
    """A problem with the operator `G`, without a matrix."""

    G: Unformed

    def product(self, x):
        return self.d * self.G.times(x * self.d)

    def solver(self, shift):
        factor = self.G.damped(shift / (self.d * self.d))
        return lambda b: factor.solve(b / self.d) / self.d

    def filled_up(self, x):
        return widen(x, self.h.shape[-1])

    def forces(self, x):
        return x * self.d


def free(G: Unformed, g: Array, cones: Cones) -> Free:
    """Return the problem of an operator G, g (m, lanes) and the cones of f."""
    lanes = lanes_of(g, G.diagonal)
    d = widen(jnp.sqrt(scales(cones.counts, G.diagonal)), lanes)
    h, filled = widen(g, lanes) * d, Filled(cones.counts, tuple(range(len(g))))
    scaled = _scaled(cones, filled, d)
    return Free(h, d, scaled, _over(scaled, h, d), G)


def tiled(G: Array, g: Array, cones: Cones) -> Tiled:
    """Return the problem of a matrix G (m, m, lanes), g (m, lanes) and the cones of f."""
    filled = Filled.of(cones.counts)
    d = filled.vector(jnp.sqrt(scales(cones.counts, diagonal(G))), 1.0)
    H = swept(_scaling(len(d)), {"G": filled_cells(filled, G), "d": d})["H"]
    d = flat(d)
    h, scaled = flat(filled.vector(g)) * d, _scaled(cones, filled, d)
    return Tiled(h, d, scaled, _over(scaled, h, d), H, filled)


def filled_cells(filled: Filled, G: Array) -> Array:
    """Return the entries of G (m, m, lanes), row by row, with a unit matrix in the padding."""
    m, size = len(G), filled.counts.rows
    number = np.full(size, m)
    number[list(filled.rows)] = range(m)
    row, column = np.meshgrid(number, number, indexing="ij")
    at = np.where((row < m) & (column < m), row * m + column, m * m + np.eye(size, dtype=int))
    ends = jnp.stack([jnp.zeros_like(G[0, 0]), jnp.ones_like(G[0, 0])])
    return jnp.take(jnp.concatenate([G.reshape(m * m, G.shape[-1]), ends]), at.ravel(), axis=0, mode="clip")


def flat(x: Array) -> Array:
    """Return tiles as values of rows (rows, lanes)."""
    return x.reshape(-1, x.shape[-1])


def in_tiles(x: Array) -> Array:
    """Return values of rows as tiles (n, WIDE, lanes)."""
    return x.reshape(-1, WIDE, x.shape[-1])


def _scaled(cones: Cones, filled: Filled, d: Array) -> Cones:
    """Return the cones of forces over d, with the padding; those of contacts do not change."""
    counts, (first, second) = filled.counts, filled.counts.ends
    more = lambda x, n: jnp.concatenate([x, jnp.zeros((n - len(x), x.shape[-1]), x.dtype)])  # noqa: E731
    radius, twists = more(cones.radius, len(counts.twists)), jnp.asarray(counts.twists, int)
    radius = radius * d[:first:3][twists] / d[first:second] if len(twists) else radius
    bound, low, high = (more(x, counts.joints) for x in jax.tree.leaves(cones.limited))
    own = d[second:]
    limited = Limited(bound / own, low * own, high * own)
    parts = dict(zip(filled.rows, cones.parts, strict=False))
    owners = tuple(parts.get(k, cones.parts[0]) for k in range(counts.rows)) if parts else ()
    friction = more(cones.friction, counts.contacts)
    known = {"pinned": more(cones.pinned, counts.contacts) / d[:first:3]} if isinstance(cones, Convex) else {}
    scaled = {"counts": counts, "friction": friction, "radius": radius, "limited": limited, "parts": owners}
    return dataclasses.replace(cones, **scaled, **known)


def _over(cones: Cones, h: Array, d: Array) -> Array:
    """Return 1 over the measures (rows, lanes) of a scaled problem."""
    return 1 / jnp.maximum(d * measures(cones, calling(cones, h) / d, d * d), jnp.finfo(h.dtype).tiny)


def _tile(rows, across, along):
    return jnp.stack(rows) * across[:, None] * along[None]


@tables
def _scaling(n: int) -> Table:
    def row(i: int, j: int) -> Row:
        own = tuple(Ref("G", (WIDE * i + k) * WIDE * n + WIDE * j, WIDE) for k in range(WIDE))
        return Row(Step(_tile), (own, Ref("d", i), Ref("d", j)), Ref("H", place(i, j)))

    return Table([row(i, j) for i, j in lower(n)], {"H": n * (n + 1) // 2})
