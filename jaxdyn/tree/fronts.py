"""Sparse L D Lᵀ of symmetric quasi-definite matrices, front by front: the elimination in joint coordinates.

Variables come in blocks (a joint's velocities, a constraint's rows). Eliminating a block fills in among the blocks that
it is coupled with (its front). The remainder goes to the first of them, so that the sweeps of `jaxdyn.tree.sweep` run
over the tree of eliminations. For a mass matrix, leaves first, this is the kinematic tree: fronts are the ancestors,
nothing fills in, and the factor is Featherstone's LᵀL (Rigid Body Dynamics Algorithms, section 6.5). With the rows of
constraints last it is the U D Uᵀ of proximal_ltl (section IV), whose last blocks factorise the damped Delassus matrix.
Any symmetric positive definite matrix with the sparsity of a tree can be factorised (section IV-F).
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine.core import widen
from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from . import panels
from .sweep import refs


@dataclasses.dataclass(frozen=True)
class Front:
    """A run of blocks that are eliminated together: its `own` variables and those of its `front`. `parent` is the index
    of the run that receives the remainder, None for a root; `places` are the indices of the front's variables among the
    `size` variables of the parent and its front."""

    own: tuple[int, ...]
    front: tuple[int, ...]
    parent: int | None
    places: tuple[int, ...]
    size: int


@tables
def fronts(
    sizes: tuple[int, ...], order: tuple[int, ...], edges: frozenset[tuple[int, int]], rows: int
) -> tuple[Front, ...]:
    """Return the runs of blocks of `sizes`, eliminated in `order` and coupled by `edges`: children before parents.

    Blocks follow each other in one run if all that couples to the first also couples to the second (a supernode): the
    remainder of a matrix is passed on once per run. Blocks from `rows` on are in runs of their own.
    """
    when = {b: k for k, b in enumerate(order)}
    coupled: dict[int, set[int]] = {b: set() for b in order}
    for a, b in edges:
        first, second = (a, b) if when[a] < when[b] else (b, a)
        coupled[first].add(second)
    parent: dict[int, int | None] = {}
    below: dict[int | None, list[int]] = {}
    for b in order:
        parent[b] = p = min(coupled[b], key=when.__getitem__, default=None)
        below.setdefault(p, []).append(b)
        if p is not None:
            coupled[p] |= coupled[b] - {p}
    runs: dict[int, tuple[int, ...]] = {}  # by last block
    for b in order:
        kids = below.get(b, [])
        joins = len(kids) == 1 and coupled[kids[0]] == coupled[b] | {b} and (kids[0] < rows) == (b < rows)
        runs[b] = (*runs.pop(kids[0]), b) if joins else (b,)
    last = {b: end for end, run in runs.items() for b in run}
    starts = np.cumsum((0, *sizes)).tolist()
    variables = lambda blocks: tuple(v for b in blocks for v in range(starts[b], starts[b + 1]))  # noqa: E731
    front = {end: variables(sorted(coupled[end], key=when.__getitem__)) for end in runs}
    ends = sorted(runs, key=when.__getitem__)
    out = []
    for end in ends:
        up = None if parent[end] is None else last[parent[end]]
        around = () if up is None else variables(runs[up]) + front[up]
        place = {v: k for k, v in enumerate(around)}
        places = tuple(place[v] for v in front[end])
        out.append(Front(variables(runs[end]), front[end], None if up is None else ends.index(up), places, len(around)))
    return tuple(out)


def bordered(order: Sequence[Front], first: int) -> tuple[Front, ...]:
    """Return the runs whose variables are before `first`. They do not pass a remainder to the other runs."""
    kept = [x for x in order if x.own[0] < first]
    ends = lambda x: x.parent is None or order[x.parent].own[0] >= first  # noqa: E731
    return tuple(dataclasses.replace(x, parent=None, places=(), size=0) if ends(x) else x for x in kept)


@dataclasses.dataclass(frozen=True)
class Pattern:
    """Where the entries of a matrix are in a flat array: `width` velocities, then rows of constraints.

    The flat array holds M (width, width), J (rows, width) and a zero, one after the other. The diagonal of the rows is
    −R, which is given separately.
    """

    width: int
    rows: int

    def __call__(self, i: int, j: int) -> int:
        i, j = max(i, j), min(i, j)
        return self.width * i + j if j < self.width else self.width * (self.width + self.rows)


def _square(entries, carried, k, d):
    """Return the matrix of a run's variables and its front's, from the lower triangle of the first k columns."""
    n = k + d
    at = np.full((n, n), len(entries))
    place = 0
    for c in range(k):
        for r in range(c, n):
            at[r, c] = at[c, r] = place
            place += 1
    zero = jnp.zeros_like(entries[0])
    A = jnp.take(jnp.stack([*entries, zero]), at, axis=0, mode="clip")
    return A if carried is None else A + carried.reshape(n, n, carried.shape[-1])


def _eliminate(k, d, of_rows, hard, rows, places, size, entries, carried, whole, R):
    """Eliminate the k variables of a run. Return 1 / D and the columns below the diagonal over D, one after the other,
    and what the parent receives of the matrix and of `whole`. The latter is the size of all that velocities have
    contributed to the diagonal of rows, which is all of one sign."""
    A = _square(jnp.broadcast_arrays(*entries), carried, k, d)
    whole = jnp.zeros((k + d, A.shape[-1]), A.dtype) if whole is None else whole

    if of_rows:
        rule = panels.hard if hard else panels.damped
        A, inverse, below, _, whole = panels.eliminate_rows(A, k, rule, whole, R, -1)
    else:
        A, inverse, below, _ = panels.eliminate(A, k, lambda c, diagonal, below: 1 / diagonal)
    flat = jnp.concatenate(below) if k + d > 1 else None
    if not size:
        return (jnp.stack(inverse), flat), None, None
    if rows:
        if not of_rows:
            whole = jnp.abs(jnp.stack([A[r, r] for r in range(d)]))
        whole = panels.spread(whole, places, size, (0,))
    else:
        whole = None
    A = panels.spread(A, places, size, (0, 1))
    return (jnp.stack(inverse), flat), A.reshape(-1, A.shape[-1]), whole


def _forward(k, d, places, size, b, carried, Dinv, flat):
    b = jnp.stack(b)
    left = jnp.concatenate([b, jnp.zeros((d, b.shape[-1]), b.dtype)]) if d else b
    own, left = panels.lowered(flat, left if carried is None else left + carried, k)
    return own * Dinv, panels.spread(left, places, size, (0,)) if size else None


def _backward(scaled, flat, above):
    return tuple(panels.raised(flat, scaled, above))


class FrontElimination:
    """Tables for a matrix, front by front: of the factor, and of both sweeps of a solve."""

    def __init__(self, order: tuple[Front, ...], pattern: "Pattern", hard: bool):
        self.order, self.pattern = order, pattern
        cells = {"A": 0, "whole": 0, "D": 0, "l": 0}
        self.at: list[dict[str, Ref]] = []
        for x in order:
            k, n = len(x.own), len(x.own) + len(x.front)
            sizes = {"A": n * n, "whole": n, "D": k, "l": k * n - k * (k + 1) // 2}
            self.at.append({name: Ref(name, cells[name], size) for name, size in sizes.items()})
            cells = {name: cells[name] + size for name, size in sizes.items()}
        parents = {x.parent for x in order}
        self.carried = [k in parents for k in range(len(order))]
        n = sum(len(x.own) for x in order)
        self.factor = Table([self.eliminate(k, x, hard) for k, x in enumerate(order)], cells)
        forward = [self.forward(k, x) for k, x in enumerate(order)]
        self.up = Table(forward, {"scaled": cells["D"], "carried": cells["whole"]})
        self.down = Table([self.backward(k, x) for k, x in reversed(list(enumerate(order)))], {"x": n})

    def part(self, k: int, name: str) -> Ref | None:
        """Return the cells of a run, None if there are none."""
        ref = self.at[k][name]
        return ref if ref.count else None

    def eliminate(self, k: int, x: Front, hard: bool) -> Row:
        every = x.own + x.front
        entries = [(every[r], v) for c, v in enumerate(x.own) for r in range(c, len(every))]
        of_rows = x.own[0] >= self.pattern.width
        of_rows_at = tuple(Ref("R", v - self.pattern.width) for v in x.own) if of_rows else None
        reads = (
            tuple(Ref("flat", self.pattern(i, j)) for i, j in entries),
            self.part(k, "A") if self.carried[k] else None,
            self.part(k, "whole") if self.carried[k] and of_rows else None,
            of_rows_at,
        )
        up = None if x.parent is None else self.part(x.parent, "A")
        rows = self.pattern.rows > 0
        whole = self.part(x.parent, "whole") if rows and x.parent is not None else None
        static = len(x.own), len(x.front), of_rows, hard, rows, x.places, x.size
        return Row(Step(_eliminate, static), reads, ((self.part(k, "D"), self.part(k, "l")), up, whole))

    def forward(self, k: int, x: Front) -> Row:
        carried = lambda j: self.at[j]["whole"]._replace(name="carried")  # noqa: E731
        given = carried(k) if self.carried[k] else None
        reads = refs("b", x.own), given, self.part(k, "D"), self.part(k, "l")
        writes = self.at[k]["D"]._replace(name="scaled"), None if x.parent is None else carried(x.parent)
        return Row(Step(_forward, (len(x.own), len(x.front), x.places, x.size)), reads, writes)

    def backward(self, k: int, x: Front) -> Row:
        scaled = self.at[k]["D"]._replace(name="scaled")
        reads = scaled, self.part(k, "l"), refs("x", x.front)
        return Row(Step(_backward), reads, refs("x", x.own))


@tables
def front_elimination(order: tuple[Front, ...], pattern: "Pattern", hard: bool) -> FrontElimination:
    """Return the tables of an elimination; equal ones are one object."""
    return FrontElimination(order, pattern, hard)


def columns(order: Iterable[Front]) -> Iterator[tuple[int, tuple[int, ...], int]]:
    """Return, for each column of a factor in the order of its D: its variable, the variables of its entries below the
    diagonal, and the place of the first of these in its l."""
    at = 0
    for front in order:
        every = front.own + front.front
        for c, v in enumerate(front.own):
            yield v, every[c + 1 :], at
            at += len(every) - c - 1


class SparseFactor(eqx.Module):
    """A factorised matrix. `D` holds 1 / D, `l` the columns below the diagonal over D, run by run."""

    tables: FrontElimination = eqx.field(static=True)
    D: Array
    l: Array | None

    @property
    def parts(self):
        return {"D": self.D} | ({} if self.l is None else {"l": self.l})

    def solve(self, b: Array) -> Array:
        """Return x with A x = b, both (n, lanes)."""
        scaled = swept(self.tables.up, self.parts | {"b": b})["scaled"]
        return swept(self.tables.down, self.parts | {"scaled": scaled})["x"]

    def remainder(self, first: int) -> Array:
        """Return the Schur complement after eliminating the variables before `first`: Σ D l lᵀ of the remaining
        columns, (n − first, n − first, lanes)."""
        lanes, count = self.D.shape[-1], 0 if self.l is None else len(self.l)
        kept = [(k, v, below, at) for k, (v, below, at) in enumerate(columns(self.tables.order)) if v >= first]
        places = np.full((len(kept), len(kept)), count)
        for c, (_, v, below, at) in enumerate(kept):
            places[c, v - first] = count + 1
            places[c, [u - first for u in below]] = np.arange(at, at + len(below))
        ends = [jnp.zeros((1, lanes), self.D.dtype), jnp.ones((1, lanes), self.D.dtype)]
        L = jnp.take(jnp.concatenate(([] if self.l is None else [self.l]) + ends), places, axis=0, mode="clip")
        D = 1 / jnp.take(self.D, np.asarray([k for k, *_ in kept]), axis=0, mode="clip")
        return jnp.einsum("cil,cl,cjl->ijl", L, D, L)

    def inverse(self, first: int) -> Array:
        """Return the block of the inverse of the matrix for the variables from `first` on: (n − first, n − first,
        lanes)."""
        n = sum(len(x.own) for x in self.tables.order)
        unit = jnp.eye(n, dtype=self.D.dtype)[first:, :, None]
        return jnp.moveaxis(jax.lax.map(lambda e: self.solve(widen(e, self.D.shape[-1]))[first:], unit), 0, 1)


def factorise_sparse(
    order: Sequence[Front], flat: Array, pattern: Pattern, compliance: Array | None, least: Array | None = None
) -> SparseFactor:
    """Return the factor of the matrix with the entries of `flat` (entries, lanes) at `pattern`. `compliance` holds R of
    the rows (rows, lanes). None is zero; then the pivots of rows must exceed `least`."""
    hard = compliance is None and pattern.rows > 0
    tables = front_elimination(tuple(order), pattern, hard)
    R = least if compliance is None else compliance
    found = swept(tables.factor, {"flat": flat} | ({} if R is None else {"R": R}))
    return SparseFactor(tables, found["D"], found.get("l"))


def factorise_tree(matrix: Array, parents: Sequence[int], sizes: Sequence[int]) -> SparseFactor:
    """Return the factor of a symmetric positive definite matrix (n, n, lanes) in blocks of `sizes`, where only blocks
    of which one is an ancestor of the other are coupled (proximal_ltl, IV-F): nothing fills in. `parents` come before
    their children, and are −1 for roots. Only the coupled blocks of the lower triangle are read."""
    above: list[tuple[int, ...]] = []
    for b, p in enumerate(parents):
        if not -1 <= p < b:
            raise ValueError(f"`factorise_tree`: the parent {p} of block {b} must come before it (-1 for a root).")
        above.append((*above[p], p) if p >= 0 else ())
    edges = frozenset((a, b) for b in range(len(above)) for a in above[b])
    order = fronts(tuple(sizes), tuple(reversed(range(len(above)))), edges, len(above))
    n, lanes = sum(sizes), matrix.shape[-1]
    flat = jnp.concatenate([matrix.reshape(-1, lanes), jnp.zeros((1, lanes), matrix.dtype)])
    return factorise_sparse(order, flat, Pattern(n, 0), None)
