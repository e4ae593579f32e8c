"""The linearised natural map in tiles: F_f + F_s G, and solves with it, in code of one size for any number of rows.

With the derivative P' of the projection, F_f = 1 − P' and F_s = P' w, so that

    F_f + F_s G = 1 − P' + P' w G.

P' couples the rows of each contact, those of twists to their contacts and, in a convex problem, contacts to their
twists; otherwise it is diagonal.

| step | equation |
| --- | --- |
| `_through` | P'_ic w_c G_cj |
| `_rest` | 1 − P'_ii, or −P'_ic |
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine.core import widen
from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..tree import square
from ..tree.tiles import WIDE
from .cones import Cones, Convex, Counts, natural
from .tiled import Filled, filled_cells, in_tiles


class At(eqx.Module):
    """The natural map F linearised at forces f and accelerations s, with weights w; k smooths its derivatives."""

    cones: Cones
    w: Array
    f: Array
    s: Array
    k: Array | None = None

    def moved(self, df: Array, ds: Array) -> Array:
        """Return F_f df + F_s ds."""
        value = lambda f, s: natural(self.cones, self.w, f, s, self.k)  # noqa: E731
        return jax.jvp(value, (self.f, self.s), (df, ds))[1]

    def by_s(self, ds: Array) -> Array:
        """Return F_s ds."""
        return self.moved(jnp.zeros_like(ds), ds)

    def slopes(self) -> list[Array]:
        """Return P' as products (m, lanes) with the unit vectors of the first, second and third rows of all contacts,
        and with that of all other rows: no two of the same kind are coupled."""
        a, z = self.cones.counts.ends[0], self.f - self.w * self.s
        project = lambda z: self.cones.project(z, self.w, self.k)  # noqa: E731
        found = []
        for rows in (slice(0, a, 3), slice(1, a, 3), slice(2, a, 3), slice(a, None)):
            unit = np.zeros((len(z), 1))
            unit[rows] = 1
            unit = jnp.broadcast_to(jnp.asarray(unit, z.dtype), z.shape)
            found.append(jax.jvp(project, (z,), (unit,))[1])
        return found

    def diagonal(self) -> Array:
        """Return the diagonal of P' (m, lanes)."""
        a, (n, t, b, own) = self.cones.counts.ends[0], self.slopes()
        of_contacts = jnp.stack([n[:a:3], t[1:a:3], b[2:a:3]], 1).reshape(a, n.shape[-1])
        return jnp.concatenate([of_contacts, own[a:]])

    def transposed(self, z: Array) -> tuple[Array, Array]:
        """Return F_fᵀ z and F_sᵀ z."""
        return jax.linear_transpose(self.moved, self.f, self.s)(z)


class Slope(eqx.Module):
    """The factor of F_f + F_s G, or of its transpose, for a matrix G."""

    factor: dict[str, Array]
    filled: Filled = eqx.field(static=True)

    @classmethod
    def of(cls, at: At, G: Array, across: bool = False) -> "Slope":
        """Return the factor of F_f + F_s G for G (m, m, lanes), or of its transpose if `across`."""
        filled, both = Filled.of(at.cones.counts), isinstance(at.cones, Convex)
        given = {
            "P": _tiles_of(at, filled, both),
            "w": filled.vector(widen(at.w, at.f.shape[-1])),
            "G": filled_cells(filled, G),
        }
        return cls(square.factorise(swept(_slope(filled.counts, both, across), given)["A"]), filled)

    def solve(self, b: Array) -> Array:
        """Return x with A x = b (m, lanes)."""
        return self.filled.numbers(square.solve(self.factor, self.filled.vector(b)))


@tables
def _places(counts: Counts, both: bool) -> tuple[tuple[int, int], ...]:
    """Return the tiles of P' that may differ from zero; `both` couples contacts to their twists, too."""
    n, (first, second) = counts.rows // WIDE, (x // WIDE for x in counts.ends)
    diagonal = [(k, k) for k in range(n)]
    of_twists = [(k, c // 2) for k in range(first, second) for c in counts.twists[WIDE * (k - first) :][:WIDE]]
    of_contacts = [(c, k) for k, c in of_twists] if both else []
    return *diagonal, *dict.fromkeys(of_twists), *dict.fromkeys(of_contacts)


def _tiles_of(at: At, filled: Filled, both: bool) -> Array:
    """Return the tiles of P' (places, WIDE, WIDE, lanes)."""
    counts, a, twists = filled.counts, filled.counts.ends[0], at.cones.counts.twists  # without padding
    columns = [in_tiles(filled.vector(x).reshape(-1, x.shape[-1])) for x in at.slopes()]
    eye = jnp.eye(WIDE, dtype=at.f.dtype)[..., None]
    of_contacts = np.arange(WIDE) // 3

    def owners(i: int, c: int) -> np.ndarray:
        """Return the place of each twist's contact in tile c, or -1, for tile i of twists."""
        of = twists[WIDE * i - a :][:WIDE]
        return np.array([k % 2 if k // 2 == c else -1 for k in of] + [-1] * (WIDE - len(of)))

    def tile(i: int, c: int) -> Array:
        if i == c and WIDE * c >= a:  # only the diagonal
            return columns[3][i][:, None] * eye
        if WIDE * c >= a:
            mine, whole = of_contacts[:, None] == owners(c, i), columns[3][i][:, None]
        else:
            owner = of_contacts if i == c else owners(i, c)
            mine = owner[:, None] == of_contacts
            whole = jnp.stack([columns[k % 3][i] for k in range(WIDE)], 1)
        return whole * jnp.asarray(mine, whole.dtype)[..., None]

    return jnp.stack([tile(i, c) for i, c in _places(counts, both)])


def _through(turned: bool, P: Array, w: Array, rows: tuple[Array, ...]) -> Array:
    return _turned(turned, square.times(P, jnp.stack(rows) * w[:, None]))


def _rest(turned: bool, diagonal: bool, P: Array) -> Array:
    return _turned(turned, jnp.eye(WIDE, dtype=P.dtype)[..., None] - P if diagonal else -P)


def _turned(turned: bool, A: Array) -> Array:
    return jnp.swapaxes(A, 0, 1) if turned else A


@tables
def _slope(counts: Counts, both: bool, across: bool) -> Table:
    n, rows = counts.rows // WIDE, []
    at = lambda i, j: Ref("A", square.place(n, j, i) if across else square.place(n, i, j))  # noqa: E731
    for p, (i, c) in enumerate(_places(counts, both)):
        rows.append(Row(Step(_rest, (across, i == c)), (Ref("P", p),), at(i, c)))
        for j in range(n):
            own = tuple(Ref("G", (WIDE * c + k) * WIDE * n + WIDE * j, WIDE) for k in range(WIDE))
            rows.append(Row(Step(_through, (across,)), (Ref("P", p), Ref("w", c), own), at(i, j)))
    return Table(rows, {"A": n * n})
