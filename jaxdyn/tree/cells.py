"""The cells of an elimination's fields: which cells hold what of a body, a pair of bodies, or constraints."""

import dataclasses
import itertools
from collections.abc import Hashable

import jax

from ..engine.steps import Ref, Row
from ..engine.steps import cells as numbers
from .plan import Plan
from .topology import Topology

#: the fields whose cells are numbered in the order in which they are named
FIELDS = "tie", "K", "L", "V", "R", "Linv", "below", "taken"


class _Field:
    """Cells of a field, numbered in the order in which they are named."""

    def __init__(self, name: str):
        self.name, self.size, self.at = name, 0, {}

    def __call__(self, key: Hashable, count: int | None = None) -> Ref | None:
        """Return the cells of `key`; None if it has none."""
        if count == 0:
            return None
        if key not in self.at:
            self.at[key] = self.size
            self.size += 1 if count is None else count
        return Ref(self.name, self.at[key], count)


class Cells:
    """The cells of an elimination (`elimination.py` explains the blocks). `apart` are the constraints that have no
    blocks L with each other; if `later`, rows ride in tables of their own."""

    later: bool

    def __init__(self, topology: Topology, plan: Plan):
        self.topology = topology
        self.plan = plan = dataclasses.replace(plan, clusters=tuple(map(len, topology.columns)))
        self.cells = {name: _Field(name) for name in FIELDS}
        self.apart: set[int] = set()
        self._written: set[tuple[str, int]] = set()
        for c in range(len(plan)):
            for b in plan.bodies(c):
                self.K(c, b)

    def K(self, c: int, b: int) -> Ref:
        return self.cells["K"]((c, b), self.count(c))

    def tie(self, first: int, later: int) -> Ref:
        """Return the block whose rows belong to the body that is eliminated later."""
        return self.cells["tie"]((later, first))

    def ties(self, bodies) -> tuple[Ref, ...]:
        return tuple(self.tie(i, j) for k, i in enumerate(bodies) for j in bodies[k + 1 :])

    def L(self, c: int, d: int) -> Ref:
        c, d = sorted((c, d))
        return self.cells["L"]((c, d), self.count(c) * self.count(d))

    def pairs(self, constraints) -> tuple[tuple[int, int], ...]:
        """Return the pairs that have blocks in L, by their places among the constraints."""
        every = itertools.combinations_with_replacement(range(len(constraints)), 2)
        return tuple((k, l) for k, l in every if k == l or self.coupled(constraints[k], constraints[l]))

    def coupled(self, c: int, d: int) -> bool:
        """Return whether two constraints have a block in L if both ride on a body."""
        return not self.apart.issuperset((c, d))

    @property
    def blocks(self) -> dict[tuple[int, int], int]:
        """Return where the blocks of constraints c ≤ d begin among the cells of L, row by row of c."""
        return {pair: at for pair, at in self.cells["L"].at.items() if min(pair) >= 0}

    def count(self, c: int) -> int:
        return self.plan.count(c)

    def counts(self, constraints) -> tuple[int, ...]:
        return tuple(map(self.count, constraints))

    def wrote(self, row: Row) -> Row:
        """Return a row, and take note of the cells that it writes."""
        for name, start, count in jax.tree.leaves(row.writes, is_leaf=lambda x: isinstance(x, Ref)):
            self._written.update((name, k) for k in numbers(start, count))
        return row

    def has(self, ref: Ref) -> bool:
        """Return whether rows so far write to some of these cells."""
        return any((ref.name, k) in self._written for k in numbers(ref.start, ref.count))

    def inertia(self, b: int) -> Ref | None:
        """Return the cell of what others have added to a body's inertia so far, None if nothing."""
        return Ref("H", b) if self.has(Ref("H", b)) else None
