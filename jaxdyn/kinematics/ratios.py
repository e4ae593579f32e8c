"""The map from independent velocities w to all velocities v of the tree: v = G w and q̈ = G ẇ + g.

Embedded constraints say K v = 0 and K q̈ + k = 0. With the columns of K split into dependent and independent ones,
G_d = −K_d⁺ K_i and g_d = −K_d⁺ k (constraint_embedding, Eq. 4, and Kumar et al. 2022, its reference 11). Rows may be
redundant, such as those of a hinge in a planar loop. K_d⁺ is therefore computed from K_d = Q R, whose columns are
orthogonalised one after the other, and never from the normal equations.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..spatial.small import summed
from ..tree.sweep import refs
from ..tree.topology import Cluster, Topology


class Ratios(NamedTuple):
    """The result of `solved` by cluster, with cells as in `Cells`: orthogonal columns Q and the entries of R above its
    unit diagonal, with K_d = Q R; G; and `left`, for each dependent column, the squared norm of its part orthogonal to
    the columns before it, relative to that of the column, (lanes,) each: zero if K_d is singular."""

    Q: Array
    R: Array
    G: Array
    left: Array


def _solve(rows, n, K):
    """Return Q, R, G and `left`, see `Ratios`, for K (rows, n + independent), dependent columns first."""
    K = K.reshape(rows, -1, K.shape[-1])
    columns = [K[:, j] for j in range(K.shape[1])]
    Q, R, left = [], [], []
    for j in range(n):
        whole = columns[j]
        square = (whole * whole).sum(0)
        Q.append(whole)
        left.append(square)
        for i in range(j + 1, len(columns)):
            x = (whole * columns[i]).sum(0) / square
            columns[i] = columns[i] - x * whole
            R.append(x)
    first = [(K[:, j] * K[:, j]).sum(0) for j in range(n)]
    width = len(columns)
    along = [[R[_place(width, j, c)] for j in range(n)] for c in range(n, width)]
    G = [_substituted(R, n, width, x) for x in along]
    shares = [x / jnp.where(y > 0, y, 1) for x, y in zip(left, first, strict=True)]
    flat = jnp.stack([x for row in zip(*G, strict=True) for x in row]) if G else None
    upper = jnp.stack(R) if R else None
    return jnp.concatenate(Q), upper, flat, jnp.stack(shares)


def _place(width: int, j: int, i: int) -> int:
    """Return the index of R_ji among the entries above the diagonal, row by row."""
    return sum(width - 1 - m for m in range(j)) + i - j - 1


def _substituted(R, n, width, x) -> list:
    """Return −R⁻¹ x of a list x (n,)."""
    x = list(x)
    for j in reversed(range(n - 1)):
        x[j] = x[j] - summed(R[_place(width, j, i)] * x[i] for i in range(j + 1, n))
    return [-y for y in x]


def _apply(rows, n, width, Q, R, k):
    """Return −K_d⁺ k."""
    x = []
    for q in Q.reshape(n, rows, -1):
        x.append((q * k).sum(0) / (q * q).sum(0))
        k = k - x[-1] * q
    return tuple(_substituted(R, n, width, x))


class Cells(NamedTuple):
    """The layout of the clusters' numbers in cells. `sizes` holds, by cluster, the number of rows, of dependent
    velocities, and of all velocities."""

    sizes: tuple[tuple[int, int, int], ...]

    def ref(self, name: str, k: int) -> Ref | None:
        """Return the cells of cluster `k` for an array: K (rows, all), row by row; Q (rows, dependent), column by
        column; R above the diagonal; G (dependent, independent); ``"k"``, one per row; ``"left"``, one per dependent
        velocity."""
        count = {
            "K": lambda m, d, n: m * n,
            "Q": lambda m, d, n: m * d,
            "R": lambda m, d, n: sum(n - 1 - j for j in range(d)),
            "G": lambda m, d, n: d * (n - d),
            "k": lambda m, d, n: m,
            "left": lambda m, d, n: d,
        }[name]
        own = count(*self.sizes[k])
        return Ref(name, sum(count(*size) for size in self.sizes[:k]), own) if own else None

    def total(self, name: str) -> int:
        last = self.ref(name, len(self.sizes) - 1)
        return 0 if last is None else last.start + (last.count or 0)


@tables
def _solving(cells: Cells) -> Table:
    def row(k):
        rows, n, _ = cells.sizes[k]
        return Row(
            Step(_solve, (rows, n)), (cells.ref("K", k),), tuple(cells.ref(x, k) for x in ("Q", "R", "G", "left"))
        )

    sizes = {name: cells.total(name) for name in ("Q", "R", "G", "left")}
    return Table([row(k) for k in range(len(cells.sizes))], sizes)


def solved(cells: Cells, K: Array) -> Ratios:
    """Return the ratios of rows K (cells, lanes), in which dependent velocities come first."""
    found = swept(_solving(cells), {"K": K})
    none = jnp.zeros((0, K.shape[-1]), K.dtype)
    return Ratios(*(found.get(name, none) for name in Ratios._fields))


@tables
def _applied(cells: Cells, topology: Topology) -> Table:
    def row(k):
        reads = tuple(cells.ref(x, k) for x in ("Q", "R", "k"))
        return Row(Step(_apply, cells.sizes[k]), reads, refs("g", topology.clusters[k].dependent))

    return Table([row(k) for k in range(len(cells.sizes))], {"g": topology.nv})


def moved(cells: Cells, topology: Topology, ratios: Ratios, k: Array) -> Array:
    """Return −K_d⁺ k at the dependent velocities, zero at all others: (velocities of the tree, lanes)."""
    return swept(_applied(cells, topology), {"Q": ratios.Q, "R": ratios.R, "k": k})["g"]


def _balance(rows, n, width, Q, R, tau):
    """Return the λ of least norm with K_dᵀ λ = τ."""
    Q = Q.reshape(n, rows, -1)
    z: list = []
    for j in range(n):
        above = summed(R[_place(width, i, j)] * z[i] for i in range(j)) if j else 0
        z.append(tau[j] - above)
    return summed(q * x / (q * q).sum(0) for q, x in zip(Q, z, strict=True))


@tables
def _balancing(cells: Cells, topology: Topology) -> Table:
    def row(k):
        reads = *(cells.ref(x, k) for x in ("Q", "R")), refs("tau", topology.clusters[k].dependent)
        return Row(Step(_balance, cells.sizes[k]), reads, cells.ref("k", k))

    return Table([row(k) for k in range(len(cells.sizes))], {"k": cells.total("k")})


def balanced(cells: Cells, topology: Topology, ratios: Ratios, tau: Array) -> Array:
    """Return the multipliers of least norm of all rows, by cluster, that balance forces τ (velocities of the tree,
    lanes) at the dependent velocities."""
    return swept(_balancing(cells, topology), {"Q": ratios.Q, "R": ratios.R, "tau": tau})["k"]


def _combine(n, G, w):
    """Return the dependent part of G w of a cluster."""
    return tuple(summed(G[j * len(w) + i] * x for i, x in enumerate(w)) for j in range(n))


def _pull(n, G, tau):
    """Return Gᵀ τ of a cluster, for forces τ at the dependent velocities alone."""
    i = G.shape[0] // n
    return tuple(summed(G[j * i + c] * x for j, x in enumerate(tau)) for c in range(i))


def _ratios_of(topology: Topology, cluster: Cluster) -> Ref | None:
    if not cluster.independent:
        return None
    start, count = topology.ratios[cluster.dependent[0]]
    return Ref("G", start, count * len(cluster.dependent))


@tables
def _spreading(topology: Topology) -> Table:
    def row(c):
        reads = _ratios_of(topology, c), refs("w", (topology.places[v] for v in c.independent))
        return Row(Step(_combine, (len(c.dependent),)), reads, refs("v", c.dependent))

    return Table([row(c) for c in topology.clusters if c.independent], {"v": topology.nv})


@tables
def _gathering(topology: Topology) -> Table:
    def row(c):
        reads = _ratios_of(topology, c), refs("tau", c.dependent)
        return Row(Step(_pull, (len(c.dependent),)), reads, refs("w", (topology.places[v] for v in c.independent)))

    return Table([row(c) for c in topology.clusters if c.independent], {"w": len(topology.independent)})


def spread(topology: Topology, G: Array, w: Array) -> Array:
    """Return G w: velocities of the tree (.., lanes) from independent ones."""
    v = jnp.zeros((topology.nv, *w.shape[1:]), w.dtype).at[jnp.asarray(topology.independent)].set(w)
    return swept(_spreading(topology), {"G": G, "w": w, "v": v})["v"]


def gathered(topology: Topology, G: Array, tau: Array) -> Array:
    """Return Gᵀ τ: forces along independent velocities from those along velocities of the tree (.., lanes)."""
    w = jnp.take(tau, jnp.asarray(topology.independent), axis=0)
    return swept(_gathering(topology), {"G": G, "tau": tau, "w": w})["w"]
