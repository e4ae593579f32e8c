"""Static plans: which bodies are worked on together, and in which order bodies are eliminated.

Everything here is a pure, cached function of hashable things, evaluated while tracing.
"""

import dataclasses
import functools
from collections import defaultdict

from .topology import WORLD, Topology


@dataclasses.dataclass(frozen=True)
class Group:
    """Bodies of one signature that are handled by the same array operations.

    `neighbours` holds, per slot, the neighbour of each body (bodies tied to it when it is eliminated, without
    its parent); `tied` tells that the parents are neighbours besides being parents.
    """

    kind: object
    nodes: tuple[int, ...]
    parents: tuple[int, ...]
    neighbours: tuple[tuple[int, ...], ...] = ()
    tied: bool = False

    @property
    def root(self) -> bool:
        return self.parents[0] == WORLD

    def __len__(self) -> int:
        return len(self.nodes)


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
def elimination(topology: Topology, cliques: frozenset[tuple[int, ...]]) -> tuple[Group, ...]:
    """Elimination order of the bodies, leaves first, grouped by signature.

    `cliques` are the sets of moving bodies that one constraint ties together. The order is minimum degree on
    the graph of bodies and constraints under the restriction that a body goes after all its children
    (lcaba_proxbbo, section on the elimination order). Eliminating a body ties its neighbours, and its parent,
    to each other. Without constraints the order is that of `levels`, backwards.
    """
    if not any(len(c) > 1 for c in cliques):
        return levels(topology)[::-1]
    parents = topology.parents
    ties: dict[int, set[int]] = {b: set() for b in range(topology.nb)}
    for clique in cliques:
        for a in clique:
            ties[a].update(x for x in clique if x != a)
    children = [parents.count(b) for b in range(topology.nb)]
    left, out = set(range(topology.nb)), []
    while left:
        ready = sorted(b for b in left if children[b] == 0)
        degree = {b: len(ties[b] - {parents[b]}) for b in ready}
        fewest = min(degree.values())
        batch: list[int] = []
        blocked: set[int] = set()
        for b in ready:
            if degree[b] == fewest and b not in blocked:
                batch.append(b)
                blocked |= ties[b]
        groups: dict[tuple, list[tuple[int, tuple[int, ...]]]] = defaultdict(list)
        for b in batch:
            others = tuple(sorted(ties[b] - {parents[b]}))
            tied = parents[b] in ties[b] and parents[b] != WORLD
            groups[topology.kinds[b], tied, parents[b] == WORLD].append((b, others))
        for (kind, tied, _), members in groups.items():
            nodes = tuple(b for b, _ in members)
            slots = tuple(zip(*[n for _, n in members], strict=True))
            out.append(Group(kind, nodes, tuple(parents[b] for b in nodes), slots, tied))
        for b in batch:
            p = parents[b]
            # a body with six freedoms of its own takes nothing to its parent
            inherits = p != WORLD and ties[b] and topology.kinds[b].nv < 6
            clique = ties[b] | ({p} if inherits else set())
            for a in clique:
                ties[a] |= clique - {a}
                ties[a].discard(b)
            if p != WORLD:
                children[p] -= 1
            left.discard(b)
    return tuple(out)
