"""Sparse L D Lᵀ of symmetric quasi-definite matrices, front by front: the elimination in joint coordinates.

Variables come in blocks (a joint's velocities, a constraint's rows). Eliminating a block fills in among the blocks
that it is coupled with (its front); what it leaves is carried to the first of them, so that the sweeps of
`jaxdyn.tree.sweep` run over the tree of eliminations. For a mass matrix, leaves first, that is the kinematic tree,
fronts are the ancestors, nothing fills in, and the factor is Featherstone's LᵀL (Rigid Body Dynamics Algorithms,
section 6.5); with the rows of constraints last it is the U D Uᵀ of proximal_ltl (section IV), whose last blocks
factorise the damped Delassus matrix. Any symmetric positive definite matrix with the sparsity of a tree will do
(section IV-F).
"""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine.core import widen
from ..engine.kernel import kernel
from . import panels
from .field import Field
from .multipliers import stack
from .sweep import down, up
from .topology import WORLD


@dataclasses.dataclass(frozen=True)
class Front:
    """Runs of blocks, of one size and with fronts of one size. Per run: its variables and those of its front; `places`
    says where the front's variables are among those of the parent and its front, which are `size` many."""

    nodes: tuple[int, ...]
    parents: tuple[int, ...]
    own: tuple[tuple[int, ...], ...]
    front: tuple[tuple[int, ...], ...]
    places: tuple[int, ...]
    size: int

    @property
    def root(self) -> bool:
        return self.parents[0] == WORLD


@functools.lru_cache(maxsize=256)
def fronts(
    sizes: tuple[int, ...], order: tuple[int, ...], edges: frozenset[tuple[int, int]], rows: int
) -> tuple[Front, ...]:
    """Blocks of `sizes`, eliminated in `order`, coupled by `edges`, grouped by signature: children before parents.

    Blocks follow each other in one run where all that couples to the first couples to the second, too (a
    supernode): what is left of a matrix is handed on once a run. Blocks from `rows` on are in runs of their own.
    """
    when = {b: k for k, b in enumerate(order)}
    coupled: dict[int, set[int]] = {b: set() for b in order}
    for a, b in edges:
        first, second = (a, b) if when[a] < when[b] else (b, a)
        coupled[first].add(second)
    parent: dict[int, int] = {}
    for b in order:
        parent[b] = min(coupled[b], key=when.__getitem__, default=WORLD)
        if coupled[b]:
            coupled[parent[b]] |= coupled[b] - {parent[b]}
    children = defaultdict(list)
    for b in order:
        children[parent[b]].append(b)
    runs: dict[int, tuple[int, ...]] = {}  # by last block
    for b in order:
        below = children[b]
        joins = len(below) == 1 and coupled[below[0]] == coupled[b] | {b} and (below[0] < rows) == (b < rows)
        runs[b] = (*runs.pop(below[0]), b) if joins else (b,)
    last = {b: end for end, run in runs.items() for b in run}
    starts = np.cumsum((0, *sizes))
    variables = lambda blocks: tuple(v for b in blocks for v in range(starts[b], starts[b + 1]))  # noqa: E731
    front = {end: variables(sorted(coupled[end], key=when.__getitem__)) for end in runs}
    depth: dict[int, int] = {WORLD: -1}
    groups: dict[tuple, list[int]] = defaultdict(list)
    for end in sorted(runs, key=when.__getitem__, reverse=True):
        p = last.get(parent[end], WORLD)
        depth[end] = depth[p] + 1
        around = () if p == WORLD else variables(runs[p]) + front[p]
        places = tuple(around.index(v) for v in front[end])
        groups[-depth[end], len(variables(runs[end])), places, len(around)].append(end)
    out = []
    for (_, _, places, size), ends in sorted(groups.items(), key=lambda x: x[0][0]):
        ends = sorted(ends)
        own = tuple(variables(runs[end]) for end in ends)
        parents = tuple(last.get(parent[end], WORLD) for end in ends)
        out.append(Front(tuple(ends), parents, own, tuple(front[end] for end in ends), places, size))
    return tuple(out)


@dataclasses.dataclass(frozen=True)
class Pattern:
    """Where the entries of a matrix lie among the rows of a flat array: `width` velocities, then rows of constraints.

    The flat array holds M (width, width), J (rows, width) and a zero, one after the other. The diagonal of the
    rows is −R, which comes separately.
    """

    width: int
    rows: int

    def __call__(self, i: int, j: int) -> int:
        i, j = max(i, j), min(i, j)
        return self.width * i + j if j < self.width else self.width * (self.width + self.rows)


@kernel
def _inverse(d):
    return 1 / d


@kernel
def _damped(d, R):
    """Of a row, whose pivot −L − R cannot come nearer to zero than −R."""
    return 1 / (jnp.minimum(d, 0) - R)


@kernel
def _more(whole, l, column):
    """What the diagonal of the rows has been given by the velocities: J M⁻¹ Jᵀ before any row has gone."""
    return whole[1:] + jnp.abs(l * column)


@kernel
def _forward(left, l):
    return left[1:] - l * left[:1]


def _take(flat: Array, index) -> Array:
    """Rows of (entries, lanes), by an array of places."""
    return jnp.take(flat, np.asarray(index, np.int32), axis=0, mode="clip")


class SparseFactor(eqx.Module):
    """A factorised matrix. `columns` holds, per front and variable, 1 / D and the rest of the column over D."""

    order: tuple[Front, ...] = eqx.field(static=True)
    columns: list[list[tuple[Array, Array]]]

    def solve(self, b: Array) -> Array:
        """x with A x = b, both (n, lanes)."""

        def up_step(front, own, columns):
            left = _take(b, np.transpose(front.own))
            if front.front[0]:
                left = jnp.concatenate([left, jnp.zeros((len(front.front[0]), *left.shape[1:]), left.dtype)])
            carried = own["b"]
            left = left if carried is None else left + carried
            out = []
            for Dinv, l in columns:
                out.append(left[0] * Dinv)
                left = _forward(left, l)
            return ({} if front.root else {"b": panels.spread(left, front.places, front.size, (0,))}), out

        scaled = up(self.order, up_step, {"b": Field()}, self.columns)

        def down_step(front, parent, scaled, columns):
            x = [] if parent is None else [parent["x"][p] for p in front.places]
            for c in reversed(range(len(columns))):
                x.insert(0, panels.substituted(scaled[c], columns[c][1], x) if x else scaled[c])
            x = stack(x)
            return {"x": x}, x[: len(columns)]

        _, found = down(self.order[::-1], down_step, scaled[::-1], self.columns[::-1])
        place, position = {}, 0
        for front, x in zip(self.order[::-1], found, strict=True):
            for k in range(x.shape[0]):
                for own in front.own:
                    place[own[k]] = position
                    position += 1
        lanes = max(x.shape[-1] for x in found)
        flat = jnp.concatenate([widen(x, lanes).reshape(-1, lanes) for x in found])
        return _take(flat, [place[v] for v in range(position)])

    def remainder(self, first: int) -> Array:
        """What eliminating the variables before `first` leaves of the matrix, among those from there on: Σ D l lᵀ of
        their columns, (n − first, n − first, lanes)."""
        heads, columns = [], []
        for front, parts in zip(self.order, self.columns, strict=True):
            for k in range(len(front.own)):
                variables = front.own[k] + front.front[k]
                for c, (Dinv, l) in enumerate(parts):
                    if variables[c] >= first:
                        heads.append((variables[c] - first, Dinv[k]))
                        columns.append((variables[c + 1 :], l[:, k]))
        lanes = max(D.shape[-1] for _, D in heads)
        size = len(heads)
        flat = [widen(l, lanes) for _, l in columns]
        flat = jnp.concatenate([jnp.zeros((1, lanes)), jnp.ones((1, lanes)), *flat]).astype(flat[0].dtype)
        places, at = np.zeros((size, size), np.int32), 2
        for c, (head, (below, _)) in enumerate(zip(heads, columns, strict=True)):
            places[c, head[0]] = 1
            for v in below:
                places[c, v - first] = at
                at += 1
        L, D = _take(flat, places), 1 / jnp.stack([widen(D, lanes) for _, D in heads])
        return jnp.einsum("cil,cl,cjl->ijl", L, D, L)

    def inverse(self, first: int) -> Array:
        """The block of the inverse of the matrix for the variables from `first` on: (n − first, n − first, lanes)."""
        n = sum(len(own) for front in self.order for own in front.own)
        unit = jnp.eye(n, dtype=self.columns[0][0][0].dtype)[first:, :, None]
        return jnp.moveaxis(jax.lax.map(lambda e: self.solve(e)[first:], unit), 0, 1)


def factorise_sparse(
    order: Sequence[Front], flat: Array, pattern: Pattern, compliance: Array | None, least: Array | None = None
) -> SparseFactor:
    """The factor of the matrix whose entries are those of `flat` (entries, lanes) at `pattern`. `compliance` holds R of
    the rows (rows, lanes); None is zero, and then `least` what their pivots must exceed."""

    def step(front, own):
        k, d = len(front.own[0]), len(front.front[0])
        every = [a + b for a, b in zip(front.own, front.front, strict=True)]
        A = _take(flat, [[[pattern(v[i], v[j]) for v in every] for j in range(k + d)] for i in range(k)])
        if d:
            beside = jnp.concatenate([jnp.swapaxes(A[:, k:], 0, 1), jnp.zeros((d, d, *A.shape[2:]), A.dtype)], 1)
            A = jnp.concatenate([A, beside])
        carried = own["A"]
        A = A if carried is None else A + carried
        whole = own["whole"]
        if whole is None:
            whole = jnp.zeros((k + d, *A.shape[2:]), A.dtype)
        of_rows = front.own[0][0] >= pattern.width

        def pivot(c, d, below):
            nonlocal whole
            if not of_rows:
                return _inverse(d)
            rows = [v[c] - pattern.width for v in front.own]
            if compliance is not None:
                return _damped(d, _take(compliance, rows))
            whole = panels.followed(whole, below[-1]) if c else whole
            return -panels.hard(-d, whole[0], _take(least, rows))

        A, inverse, below, columns = panels.eliminate(A, k, pivot)
        out = list(zip(inverse, below, strict=True))
        if front.root:
            return {}, out
        if compliance is None and pattern.rows:
            for l, column in zip(below, columns, strict=True) if not of_rows else ():
                whole = _more(whole, l, column)
            whole = panels.followed(whole, below[-1]) if of_rows else whole
        carry = {"A": panels.spread(A, front.places, front.size, (0, 1))}
        if compliance is None and pattern.rows:
            carry["whole"] = panels.spread(whole, front.places, front.size, (0,))
        return carry, out

    return SparseFactor(tuple(order), up(order, step, {"A": Field(), "whole": Field()}))


def factorise_tree(matrix: Array, parents: Sequence[int], sizes: Sequence[int]) -> SparseFactor:
    """The factor of a symmetric positive definite matrix (n, n, lanes) in blocks of `sizes`, of which those alone are
    coupled where one is an ancestor of the other (proximal_ltl, IV-F): nothing fills in. `parents` come before their
    children, and are −1 for roots. Only the lower triangle is read, and of that the coupled blocks."""
    above: list[tuple[int, ...]] = []
    for b, p in enumerate(parents):
        if not WORLD <= p < b:
            raise ValueError(f"`factorise_tree`: the parent {p} of block {b} must come before it (-1 for a root).")
        above.append((*above[p], p) if p != WORLD else ())
    edges = frozenset((a, b) for b in range(len(above)) for a in above[b])
    order = fronts(tuple(sizes), tuple(reversed(range(len(above)))), edges, len(above))
    n, lanes = sum(sizes), matrix.shape[-1]
    flat = jnp.concatenate([matrix.reshape(-1, lanes), jnp.zeros((1, lanes), matrix.dtype)])
    return factorise_sparse(order, flat, Pattern(n, 0), None)
