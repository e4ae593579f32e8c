"""Static plans: which bodies are worked on together, and in which order bodies are eliminated.

Everything here is a pure, cached function of hashable things, evaluated while tracing.
"""

import dataclasses
import functools
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from .topology import WORLD, Topology


@dataclasses.dataclass(frozen=True)
class Group:
    """Bodies of one signature that are handled by the same array operations.

    `neighbours` holds, per slot, the neighbour of each body (bodies tied to it when it is eliminated, without
    its parent); `tied` tells that the parents are neighbours besides being parents. `rows` holds, per slot, the row of
    each body: those of the constraints that ride there.
    """

    kind: Any
    nodes: tuple[int, ...]
    parents: tuple[int, ...]
    neighbours: tuple[tuple[int, ...], ...] = ()
    tied: bool = False
    rows: tuple[tuple[int, ...], ...] = ()

    @property
    def root(self) -> bool:
        return self.parents[0] == WORLD

    def __len__(self) -> int:
        return len(self.nodes)


@dataclasses.dataclass(frozen=True)
class Multipliers:
    """Rows whose multipliers are eliminated together, one set at each of `nodes` (the world: beyond all bodies).

    Per slot and node: `rows`, eliminated in this order, the `others` that they are coupled with and that stay, and the
    `neighbours` of the node, bodies on which the eliminated rows act too.
    """

    nodes: tuple[int, ...]
    rows: tuple[tuple[int, ...], ...]
    others: tuple[tuple[int, ...], ...]
    neighbours: tuple[tuple[int, ...], ...]
    root: bool = True  # nothing of it goes to a parent

    def __len__(self) -> int:
        return len(self.nodes)


@dataclasses.dataclass(frozen=True)
class Rider:
    """A constraint whose rows ride from its bodies to `root`, their common ancestor, and are eliminated there."""

    rows: tuple[int, ...]
    bodies: tuple[int, ...]
    root: int


@functools.lru_cache(maxsize=256)
def levels(topology: Topology) -> tuple[Group, ...]:
    """Bodies of one depth and joint kind, roots first: the order of sweeps that go down.

    Within a level, bodies follow the order of their parents, so that most gathers are plain slices.
    """
    place: dict[int, int] = {WORLD: -1}
    out = []
    for depth in range(max(topology.depths, default=-1) + 1):
        level = [b for b in range(topology.nb) if topology.depths[b] == depth]
        level.sort(key=lambda b: (place[topology.parents[b]], b))
        by_kind: dict[object, list[int]] = defaultdict(list)
        for b in level:
            by_kind[topology.kinds[b]].append(b)
        for kind, nodes in by_kind.items():
            out.append(Group(kind, tuple(nodes), tuple(topology.parents[b] for b in nodes)))
            for b in nodes:
                place[b] = len(place)
    return tuple(out)


@functools.lru_cache(maxsize=256)
def elimination(
    topology: Topology, cliques: frozenset[tuple[int, ...]], riders: tuple[Rider, ...] = ()
) -> tuple[Group | Multipliers, ...]:
    """Elimination order of the bodies, leaves first, and of the riders' multipliers, grouped by signature.

    `cliques` are the sets of moving bodies that one constraint ties together. The order is minimum degree on
    the graph of bodies and constraints under the restriction that a body goes after all its children
    (lcaba_proxbbo, section on the elimination order). Eliminating a body ties its neighbours, and its parent,
    to each other, and its rows act on them. Multipliers go as soon as their rows have left all bodies but the root
    (section on early elimination). Without constraints the order is that of `levels`, backwards.
    """
    if not riders and not any(len(c) > 1 for c in cliques):
        return levels(topology)[::-1]
    return _Elimination(topology, cliques, riders).run()


def bodies_of(order: Iterable[Group | Multipliers]) -> tuple[int, ...]:
    """The bodies alone, one after the other."""
    return tuple(b for group in order if isinstance(group, Group) for b in group.nodes)


class _Elimination:
    """The graph while it is eliminated: per body its ties, per rider the bodies it acts on (`at`), those of them that
    its own bodies have led to (`tips`), and the riders it is coupled with."""

    def __init__(self, topology: Topology, cliques, riders: tuple[Rider, ...]):
        self.topology, self.parents = topology, topology.parents
        self.ties: dict[int, set[int]] = {b: set() for b in range(topology.nb)}
        for clique in cliques:
            self.tie(set(clique))
        self.riders = riders
        self.at = [set(r.bodies) for r in riders]
        self.tips = [set(r.bodies) for r in riders]
        self.coupled: list[set[int]] = [set() for _ in riders]
        self.riding = set(range(len(riders)))
        self.children = [self.parents.count(b) for b in range(topology.nb)]
        self.left = set(range(topology.nb))
        self.out: list[Group | Multipliers] = []

    def run(self) -> tuple[Group | Multipliers, ...]:
        self.multipliers()
        while self.left:
            self.bodies(self.batch())
            self.multipliers()
        return tuple(self.out)

    def tie(self, clique: set[int]) -> None:
        for a in clique:
            self.ties[a] |= clique - {a}

    def rows_at(self, b: int) -> list[int]:
        return [c for c in sorted(self.riding) if b in self.at[c]]

    def rows_of(self, riders) -> tuple[int, ...]:
        return tuple(r for c in riders for r in self.riders[c].rows)

    def batch(self) -> list[int]:
        """Leaves with the fewest neighbours, none tied to another."""
        ready = sorted(b for b in self.left if self.children[b] == 0)
        degree = {b: (len(self.ties[b] - {self.parents[b]}), len(self.rows_at(b))) for b in ready}
        fewest = min(degree.values())
        batch: list[int] = []
        blocked: set[int] = set()
        for b in ready:
            if degree[b] == fewest and b not in blocked:
                batch.append(b)
                blocked |= self.ties[b]
        return batch

    def bodies(self, batch: list[int]) -> None:
        groups: dict[tuple, list[tuple[int, tuple[int, ...], tuple[int, ...]]]] = defaultdict(list)
        for b in batch:
            p = self.parents[b]
            others = tuple(sorted(self.ties[b] - {p}))
            tied = p in self.ties[b] and p != WORLD
            rows = self.rows_of(self.rows_at(b))
            groups[self.topology.kinds[b], tied, p == WORLD, len(rows)].append((b, others, rows))
        for (kind, tied, *_), members in groups.items():
            nodes = tuple(b for b, *_ in members)
            slots, rows = (tuple(zip(*[m[k] for m in members], strict=True)) for k in (1, 2))
            self.out.append(Group(kind, nodes, tuple(self.parents[b] for b in nodes), slots, tied, rows))
        for b in batch:
            p = self.parents[b]
            inherits = p != WORLD  # six freedoms with armature leave the parent something, too
            riders = self.rows_at(b)
            clique = self.ties[b] | ({p} if inherits and self.ties[b] else set())
            for c in riders:
                self.at[c] |= self.ties[b] | ({p} if inherits else set())
                self.at[c].discard(b)
                self.coupled[c] |= set(riders) - {c}
                if b in self.tips[c]:
                    self.tips[c] = self.tips[c] - {b} | ({p} if inherits else set())
            self.tie(clique)
            for a in self.ties[b]:
                self.ties[a].discard(b)
            if p != WORLD:
                self.children[p] -= 1
            self.left.discard(b)

    def multipliers(self) -> None:
        """Those that have arrived."""
        arrived: dict[int, list[int]] = defaultdict(list)
        for c in sorted(self.riding):
            root = self.riders[c].root
            if self.tips[c] <= {root}:
                arrived[root].append(c)
        groups: dict[tuple, list] = defaultdict(list)
        touched: set = set()
        for node, here in ((node, part) for node, riders in arrived.items() for part in self.apart(riders)):
            others = sorted(set().union(*[self.coupled[c] for c in here]) - set(here))
            bodies = set().union(*[self.at[c] for c in here])
            if touched & {*here, *others}:  # one after the other
                self.emit(groups)
                groups, touched = defaultdict(list), set()
            touched |= {*here, *others}
            member = node, self.rows_of(here), self.rows_of(others), tuple(sorted(bodies - {node}))
            groups[node == WORLD, *map(len, member[1:])].append(member)
            self.riding -= set(here)
            self.tie(bodies)
            for c in others:
                self.at[c] |= bodies
                self.coupled[c] |= set(others) - {c}
                self.coupled[c] -= set(here)
        self.emit(groups)

    def apart(self, riders: list[int]) -> list[list[int]]:
        """Sets that no body has coupled."""
        parts: list[list[int]] = []
        for c in riders:
            met = [p for p in parts if self.coupled[c] & set(p)]
            parts = [p for p in parts if p not in met] + [sorted([c, *(x for p in met for x in p)])]
        return parts

    def emit(self, groups) -> None:
        for members in groups.values():
            slots = (tuple(zip(*[m[k] for m in members], strict=True)) for k in (1, 2, 3))
            self.out.append(Multipliers(tuple(m[0] for m in members), *slots))
