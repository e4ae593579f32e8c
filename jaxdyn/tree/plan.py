"""The order in which bodies and multipliers are eliminated.

Everything here is a pure, cached function of hashable things, evaluated while tracing.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable

from ..engine.kept import tables
from .rows import Plan
from .sweep import up
from .topology import WORLD, Topology


@dataclasses.dataclass(frozen=True)
class Joint:
    """The elimination of a body's joint. `neighbours` are the bodies tied to it, in the order in which they are
    eliminated, the parent among them if it is tied; `before` counts those that go before the parent. `riders` are the
    constraints whose rows ride there. A body of a cluster is substituted without its own velocities, which are those of
    the cluster, constraint `drives`; that of a cluster's columns rides there too, if others have left it something."""

    body: int
    parent: int
    neighbours: tuple[int, ...] = ()
    before: int = 0
    riders: tuple[int, ...] = ()
    drives: int | None = None

    @property
    def root(self) -> bool:
        return self.parent == WORLD

    @property
    def cluster(self) -> int:
        """The constraint that stands for the body's cluster."""
        assert self.drives is not None
        return self.drives

    @property
    def tied(self) -> int | None:
        """The parent's place among the neighbours."""
        return self.neighbours.index(self.parent) if self.parent in self.neighbours else None


@dataclasses.dataclass(frozen=True)
class Multipliers:
    """The elimination of the multipliers of `riders` at `node` (the world: beyond all bodies), or of the velocities of
    a cluster, when the last of its bodies has gone. `others` are the constraints that they are coupled with and that
    stay; `bodies`, on which their rows act, are in the order in which they are eliminated; `acting` tells for every
    rider on which of these."""

    node: int
    riders: tuple[int, ...]
    others: tuple[int, ...]
    bodies: tuple[int, ...]
    acting: tuple[tuple[bool, ...], ...]


@dataclasses.dataclass(frozen=True)
class Rider:
    """A constraint (its number, its rows) whose rows ride from its bodies to `root`, their common ancestor, and are
    eliminated there. Rows that are `kept` ride to the world, or to a body that is their root, and stay: what they exert
    on each other, the blocks L, is their Delassus matrix as far as the bodies that they have left make it."""

    constraint: int
    rows: tuple[int, ...]
    bodies: tuple[int, ...]
    root: int = WORLD
    kept: bool = False
    #: whether penalties in its place would tie bodies
    ties: bool = True


Order = tuple[Joint | Multipliers, ...]


def riders_of(topology: Topology, plan: Plan) -> tuple[Rider, ...]:
    """Every constraint as one that rides to the common ancestor of its bodies."""
    riders = []
    for c, layout in enumerate(plan.layouts):
        grounded = len(layout.bodies) == 1 or any(b == WORLD for b, _ in layout.attachments)
        root = WORLD if grounded else topology.common_ancestor(layout.bodies)
        riders.append(Rider(c, tuple(plan.span(c)), tuple(layout.bodies), root, ties=not layout.velocities))
    return tuple(riders)


def beyond_a_base(topology: Topology, rider: Rider) -> bool:
    """Whether its rows ride through a floating base to the world."""
    moved = {a for b in rider.bodies for a in topology.ancestors(b)}
    return rider.root == WORLD and not moved.isdisjoint(topology.floating_bases)


def kept_riders(plan: Plan, constraints: Iterable[int]) -> tuple[Rider, ...]:
    """Constraints of a plan as riders that ride to the world and are kept."""
    return tuple(Rider(c, tuple(plan.span(c)), tuple(plan.bodies(c)), kept=True) for c in constraints)


@tables
def elimination(topology: Topology, cliques: frozenset[tuple[int, ...]], riders: tuple[Rider, ...] = ()) -> Order:
    """Elimination order of the bodies, leaves first, and of the riders' multipliers.

    `cliques` are the sets of moving bodies that one constraint ties together. The order is minimum degree on
    the graph of bodies and constraints under the restriction that a body goes after all its children
    (lcaba_proxbbo, section on the elimination order). Eliminating a body ties its neighbours, and its parent,
    to each other, and its rows act on them. Multipliers go as soon as their rows have left all bodies but the root
    (section on early elimination).
    """
    return _Elimination(topology, cliques, riders).run()


@tables
def relays(topology: Topology, given: tuple[int, ...], most: int) -> tuple[int, ...]:
    """The bodies at which more than `most` rows meet, leaves first: there they stop, and `most` others that stand for
    the body ride on. `given` counts the rows on every body."""
    rows, found = list(given), []

    def row(b, p):
        if rows[b] > most:
            found.append(b)
            rows[b] = most
        if p != WORLD:
            rows[p] += rows[b]

    up(topology, row)
    return tuple(found)


def bodies_of(order: Order) -> tuple[int, ...]:
    """The bodies alone, one after the other."""
    return tuple(x.body for x in order if isinstance(x, Joint))


class _Elimination:
    """The graph while it is eliminated: per body its ties, per rider the bodies it acts on (`at`), those of them that
    its own bodies have led to (`tips`), and the riders it is coupled with."""

    def __init__(self, topology: Topology, cliques, riders: tuple[Rider, ...]):
        self.topology, self.parents = topology, topology.parents
        self.ties: dict[int, set[int]] = {b: set() for b in range(topology.nb)}
        for clique in cliques:
            self.tie(set(clique))
        self.riders = {r.constraint: r for r in riders}
        self.at = {c: set(r.bodies) for c, r in self.riders.items()}
        self.tips = {c: set(r.bodies) for c, r in self.riders.items()}
        self.coupled: dict[int, set[int]] = {c: set() for c in self.riders}
        self.riding = set(self.riders)
        #: by cluster, its bodies that are left
        self.members = {-1 - k: set(c.bodies) for k, c in enumerate(topology.clusters) if topology.columns[k]}
        for c in self.members:
            self.at[c], self.coupled[c] = set(), set()
        self.drives = {b: -1 - k for b, k in topology.cluster_of.items() if topology.columns[k]}
        #: by body, how many go before it: its children, and the rotors that go with its joint
        self.children = [self.parents.count(b) for b in range(topology.nb)]
        for leader in topology.geared.values():
            self.children[leader] += 1
        self.left = set(range(topology.nb))
        self.out: list[Joint | Multipliers] = []

    def run(self) -> Order:
        self.multipliers()
        while self.left:
            for b in self.batch():
                self.body(b)
            self.clusters()
            self.multipliers()
        when = {b: k for k, b in enumerate(bodies_of(tuple(self.out)))}
        return tuple(_sorted(x, when) for x in self.out)

    def tie(self, clique: set[int]) -> None:
        for a in clique:
            self.ties[a] |= clique - {a}

    def rows_at(self, b: int) -> list[int]:
        """The riders, and the clusters' columns, that leave a body with it."""
        stays = lambda c: c in self.riders and self.riders[c].kept and self.riders[c].root == b  # noqa: E731
        return [c for c in sorted(self.riding | set(self.members)) if b in self.at[c] and not stays(c)]

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

    def body(self, b: int) -> None:
        p, riders, drives = self.parents[b], self.rows_at(b), self.drives.get(b)
        self.out.append(Joint(b, p, tuple(self.ties[b]), 0, tuple(riders), drives))
        inherits = p != WORLD  # six freedoms with armature leave the parent something, too
        if drives is not None:
            self.members[drives].discard(b)
            # a joint that is substituted ties nobody: its neighbours are tied to the parent alone
            for j in self.ties[b] - {p} if inherits else ():
                self.tie({j, p})
            riders = sorted({*riders, drives})
        clique = self.ties[b] | ({p} if inherits and self.ties[b] else set())
        for c in riders:
            # rows of a body that is substituted act on its parent alone, columns on its neighbours as well
            near = self.ties[b] if drives in (None, c) else set()
            self.at[c] |= near | ({p} if inherits else set())
            self.at[c].discard(b)
            self.coupled[c] |= {drives} - {c} if drives not in (None, c) else set(riders) - {c}
            if b in self.tips.get(c, ()):
                self.tips[c] = self.tips[c] - {b} | ({p} if inherits else set())
        if drives is None:
            self.tie(clique)
        for a in self.ties[b]:
            self.ties[a].discard(b)
        for after in (p, self.topology.geared.get(b, WORLD)):
            if after != WORLD:
                self.children[after] -= 1
        self.left.discard(b)

    def clusters(self) -> None:
        """The columns of those of whose bodies none is left."""
        for c in [c for c, left in self.members.items() if not left]:
            del self.members[c]
            self.leave(WORLD, [c])

    def multipliers(self) -> None:
        """Those that have arrived."""
        arrived: dict[int, list[int]] = defaultdict(list)
        for c in sorted(self.riding):
            root = self.riders[c].root
            if self.tips[c] <= {root} and not self.riders[c].kept:
                arrived[root].append(c)
        for node, here in ((node, part) for node, riders in arrived.items() for part in self.apart(riders)):
            self.riding -= set(here)
            self.leave(node, here)

    def leave(self, node: int, here: list[int]) -> None:
        """Eliminate the rows of riders, or the columns of a cluster."""
        others = sorted(set().union(*[self.coupled[c] for c in here]) - set(here))
        bodies = set().union(*[self.at[c] for c in here])
        acting = tuple(tuple(b in self.at[c] for b in bodies) for c in here)
        self.out.append(Multipliers(node, tuple(here), tuple(others), tuple(bodies), acting))
        self.tie(bodies)
        for c in others:
            self.at[c] |= bodies
            self.coupled[c] |= set(others) - {c}
            self.coupled[c] -= set(here)

    def apart(self, riders: list[int]) -> list[list[int]]:
        """Sets that no body has coupled."""
        parts: list[list[int]] = []
        for c in riders:
            met = [p for p in parts if self.coupled[c] & set(p)]
            parts = [p for p in parts if p not in met] + [sorted([c, *(x for p in met for x in p)])]
        return parts


def _sorted(x: Joint | Multipliers, when: dict[int, int]) -> Joint | Multipliers:
    """With bodies in the order in which they are eliminated."""
    if isinstance(x, Multipliers):
        places = sorted(range(len(x.bodies)), key=lambda k: when[x.bodies[k]])
        acting = tuple(tuple(acts[k] for k in places) for acts in x.acting)
        return dataclasses.replace(x, bodies=tuple(x.bodies[k] for k in places), acting=acting)
    neighbours = tuple(sorted(x.neighbours, key=when.__getitem__))
    before = sum(when[b] < when[x.parent] for b in neighbours) if not x.root else 0
    return dataclasses.replace(x, neighbours=neighbours, before=before)
