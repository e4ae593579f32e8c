"""Parties: rows that ride on together, and the rows of tables that take them along.

The step of a joint takes its riders along, if these are few. Many riders, such as the contacts of all limbs at the base
of a robot, are taken along party by party: steps of their own update the rows of a party, and the blocks L between two
parties. All parties have about the same size, so that a few pieces of code serve any number of riders.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..engine.steps import Ref, Row, Step
from . import riding
from .cells import Cells
from .order import Joint, Multipliers
from .sweep import place_of, v_of

#: most rows of a party
MOST = 6


class Part(NamedTuple):
    """Some rows of a constraint: its number, the first of these rows, and how many they are."""

    constraint: int
    first: int
    rows: int

    def of(self, cells: Ref) -> Ref:
        """Return the cells of these rows among those of the constraint."""
        return cells._replace(start=cells.start + self.first, count=self.rows)


class Party(NamedTuple):
    """Parts that are taken along together, and the cells of their R."""

    parts: tuple[Part, ...]
    R: Ref

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(part.rows for part in self.parts)


def cut(counts: Sequence[int]) -> list[list[tuple[int, int, int]]]:
    """Return the parts of each party, (place of the constraint, first row, rows), for constraints with these numbers of
    rows. Small constraints stay whole and may share a party; the parts of a large one do not."""
    parties: list[list[tuple[int, int, int]]] = []
    room = 0
    for k, n in enumerate(counts):
        if n > MOST:
            parties += [[(k, first, min(MOST, n - first))] for first in range(0, n, MOST)]
            room = 0
        elif n <= room:
            parties[-1].append((k, 0, n))
            room -= n
        elif n:
            parties.append([(k, 0, n)])
            room = MOST - n
    return parties


def parties_of(e: Cells, x: Joint | Multipliers) -> list[Party]:
    """Return the parties of a body's riders; none if its own step takes them along."""
    if isinstance(x, Multipliers) or x.drives is not None:
        return []
    counts, nv = e.counts(x.riders), e.topology.kinds[x.body].nv
    parties = cut(counts)
    if len(parties) < (1 if e.later else 2):
        return []
    start = e.cells["R"](x.body, nv * sum(counts)).start
    found = []
    for party in parties:
        size = nv * sum(rows for *_, rows in party)
        found.append(Party(tuple(Part(x.riders[k], *rows) for k, *rows in party), Ref("R", start, size)))
        start += size
    return found


def block(e: Cells, a: Part, b: Part) -> tuple[Ref, ...]:
    """Return the cells of the block L of two parts, row by row of the first."""
    L, wide = e.L(a.constraint, b.constraint).start, e.count(b.constraint)
    return tuple(Ref("L", L + (a.first + i) * wide + b.first, b.rows) for i in range(a.rows))


def between(e: Cells, some: Sequence[Part], others: Sequence[Part]) -> dict[tuple[int, int], tuple]:
    """Return the cells of the blocks L between parts, by their places: of each part with those after it and with itself
    if `some` are `others`. Parts of one constraint have a block for each order, others one and ()."""
    found = {}
    for (k, a), (l, b) in itertools.product(enumerate(some), enumerate(others)):
        own = a.constraint == b.constraint
        if (some is others and k > l) or not (own or e.coupled(a.constraint, b.constraint)):
            continue
        found[k, l] = block(e, a, b), (block(e, b, a) if own and a != b else ())
    return found


def along(e: Cells, x: Joint, parties: Sequence[Party], solving: bool = False) -> Iterator[Row]:
    """Yield the rows of the factor that take parties along from a body to its parent. If `solving`, they also do what
    those of `pushed` do."""
    b, near = x.body, x.neighbours
    U, V = v_of(e.topology, b, "U"), e.cells["V"](b, e.topology.kinds[b].nv * len(near))
    for party in parties:
        parts, within = party.parts, between(e, party.parts, party.parts)
        K = tuple(part.of(e.K(part.constraint, b)) for part in parts)
        reads = *place_of(e.topology, b), U, V, K, v_of(e.topology, b, "u") if solving else None
        writes = (
            party.R,
            () if x.root else tuple(part.of(e.K(part.constraint, x.parent)) for part in parts),
            tuple(part.of(e.K(part.constraint, j)) for part in parts for j in near),
            tuple(rows for rows, _ in within.values()),
            tuple(part.of(e.plan.row("whole", part.constraint)) for part in parts),
            tuple(part.of(e.plan.row("b", part.constraint)) for part in parts) if solving else (),
        )
        yield Row(Step(riding.along, (e.topology.kinds[b], len(near), x.root, tuple(within))), reads, writes)
    for some, others in itertools.combinations(parties, 2):
        blocks = between(e, some.parts, others.parts)
        if blocks:
            both = tuple(bool(back) for _, back in blocks.values())
            step = Step(riding.coupled, (some.counts, others.counts, tuple(blocks), both))
            yield Row(step, (some.R, others.R, U), tuple(blocks.values()))


def pushed(e: Cells, x: Joint, parties: Sequence[Party]) -> Iterator[Row]:
    """Yield the rows of the way up that add a body's velocities u to the right sides of parties."""
    at = [v_of(e.topology, x.body, name) for name in ("u", "U")]
    for party in parties:
        to = tuple(part.of(e.plan.row("b", part.constraint)) for part in party.parts)
        yield Row(Step(riding.pushed, (party.counts,)), (*at, party.R), to)


def pulled(e: Cells, x: Joint, parties: Sequence[Party]) -> Iterator[Row]:
    """Yield the rows of the way down that add up the forces of parties on the joint of a body."""
    load = v_of(e.topology, x.body, "load")
    for party in parties:
        nu = tuple(part.of(e.plan.row("nu", part.constraint)) for part in party.parts)
        yield Row(Step(riding.pulled), (party.R, nu), load)
