"""The order in which bodies and multipliers are eliminated.

Everything here is a pure, cached function of hashable arguments, evaluated while tracing.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable

from ..engine.kept import tables
from ..engine.sets import connected
from .plan import Plan
from .sweep import up
from .topology import WORLD, Topology


@dataclasses.dataclass(frozen=True)
class Joint:
    """The elimination of a body's joint. `neighbours` are the bodies tied to it, in elimination order, with the parent
    among them if it is tied; `before` counts those that are eliminated before the parent. `riders` are the constraints
    whose rows ride there, i.e. whose coefficients pass from body to parent. A body of a cluster is substituted without
    velocities of its own. Its velocities are those of the cluster, which is constraint `drives`. That constraint is
    also among `riders` if eliminations before have left coefficients of the cluster's columns on the body."""

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
        """Return the constraint that represents the body's cluster."""
        assert self.drives is not None
        return self.drives

    @property
    def tied(self) -> int | None:
        """Return the parent's place among the neighbours, None if it is not tied."""
        return self.neighbours.index(self.parent) if self.parent in self.neighbours else None


@dataclasses.dataclass(frozen=True)
class Multipliers:
    """The elimination of the multipliers of `riders` at `node` (-1, the world, means after all bodies), or of the
    velocities of a cluster, after the last of its bodies. `others` are the constraints that they are coupled with and
    that stay. `bodies`, on which their rows act, are in elimination order; `acting` says for every rider on which of
    these it acts."""

    node: int
    riders: tuple[int, ...]
    others: tuple[int, ...]
    bodies: tuple[int, ...]
    acting: tuple[tuple[bool, ...], ...]


@dataclasses.dataclass(frozen=True)
class Rider:
    """A constraint (its number, its rows) whose rows ride from its bodies to `root`, their common ancestor, and are
    eliminated there. Rows that are `kept` ride to the world, or to a body that is their root, and stay. Their blocks L
    are the part of their Delassus matrix that comes from the bodies that they have left."""

    constraint: int
    rows: tuple[int, ...]
    bodies: tuple[int, ...]
    root: int = WORLD
    kept: bool = False
    #: True if penalties in its place would tie bodies
    ties: bool = True


Order = tuple[Joint | Multipliers, ...]


def riders_of(topology: Topology, plan: Plan) -> tuple[Rider, ...]:
    """Return every constraint as a rider to the common ancestor of its bodies."""
    riders = []
    for c, layout in enumerate(plan.layouts):
        grounded = len(layout.bodies) == 1 or any(b == WORLD for b, _ in layout.attachments)
        root = WORLD if grounded else topology.common_ancestor(layout.bodies)
        riders.append(Rider(c, tuple(plan.span(c)), tuple(layout.bodies), root, ties=not layout.velocities))
    return tuple(riders)


def beyond_a_base(topology: Topology, rider: Rider) -> bool:
    """Return whether its rows ride through a floating base to the world."""
    moved = {a for b in rider.bodies for a in topology.ancestors(b)}
    return rider.root == WORLD and not moved.isdisjoint(topology.floating_bases)


def kept_riders(plan: Plan, constraints: Iterable[int]) -> tuple[Rider, ...]:
    """Return constraints of a plan as riders to the world that are kept."""
    return tuple(Rider(c, tuple(plan.span(c)), tuple(plan.bodies(c)), kept=True) for c in constraints)


@tables
def elimination(topology: Topology, cliques: frozenset[tuple[int, ...]], riders: tuple[Rider, ...] = ()) -> Order:
    """Return the elimination order of the bodies, leaves first, and of the riders' multipliers.

    `cliques` are the sets of moving bodies that one constraint ties together. The order is minimum degree on the graph
    of bodies and constraints, with the restriction that a body comes after all its children (lcaba_proxbbo, section on
    the elimination order). Eliminating a body ties its neighbours, and its parent, to each other, and its rows act on
    them. Multipliers are eliminated as soon as their rows have left all bodies but the root (section on early
    elimination), and the columns of clusters that they passed are eliminated.
    """
    return _Ordering(topology, cliques, riders).run()


@tables
def relays(topology: Topology, given: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return the bodies at which more than `most` rows meet, leaves first. There the rows stop, and `most` other rows,
    which represent the body, ride on. `given` counts the rows on every body. A body represents what is beyond it only
    if no joint there moves with a joint elsewhere: clusters are beyond a relay with all of their bodies, or with none.
    """
    rows, found, clusters = list(given), [], topology.clusters
    beyond = [[0] * len(clusters) for _ in rows]

    def row(b, p):
        whole = all(n in (0, len(c.bodies)) for n, c in zip(beyond[b], clusters, strict=True))
        if rows[b] > most and whole:
            found.append(b)
            rows[b] = most
        if p != WORLD:
            rows[p] += rows[b]
            beyond[p] = [m + n + (b in c.bodies) for m, n, c in zip(beyond[p], beyond[b], clusters, strict=True)]

    up(topology, row)
    return tuple(found)


def bodies_of(order: Order) -> tuple[int, ...]:
    """Return only the bodies, in order."""
    return tuple(x.body for x in order if isinstance(x, Joint))


class _Ordering:
    """The graph during the elimination: per body its ties; per rider the bodies it acts on (`at`), those of them that
    its rows have reached from its own bodies by way of parents (`tips`), and the riders it is coupled with."""

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
        #: by cluster, its bodies that are not yet eliminated
        self.members = {-1 - k: set(c.bodies) for k, c in enumerate(topology.clusters) if topology.columns[k]}
        for c in self.members:
            self.at[c], self.coupled[c] = set(), set()
        self.drives = {b: -1 - k for b, k in topology.cluster_of.items() if topology.columns[k]}
        #: by body, how many must precede it: its children, and the rotors that are eliminated with its joint
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
        """Return the riders, and the clusters' columns, that move on when a body is eliminated."""
        stays = lambda c: c in self.riders and self.riders[c].kept and self.riders[c].root == b  # noqa: E731
        return [c for c in sorted(self.riding | set(self.members)) if b in self.at[c] and not stays(c)]

    def batch(self) -> list[int]:
        """Return leaves with the fewest neighbours, none tied to another."""
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
        inherits = p != WORLD  # six freedoms with armature also add to the parent
        if drives is not None:
            self.members[drives].discard(b)
            # a substituted joint ties its neighbours only to the parent, not to each other
            for j in self.ties[b] - {p} if inherits else ():
                self.tie({j, p})
            riders = sorted({*riders, drives})
        clique = self.ties[b] | ({p} if inherits and self.ties[b] else set())
        for c in riders:
            # rows of a substituted body then act only on its parent, columns also on its neighbours
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
        """Eliminate the columns of clusters whose bodies are all eliminated."""
        for c in [c for c, left in self.members.items() if not left]:
            del self.members[c]
            for d in self.coupled[c] & self.riding:  # its rows move what the cluster moves, on other branches too
                self.tips[d] = self.tips[d] | self.at[c]
            self.leave(WORLD, [c])

    def multipliers(self) -> None:
        """Eliminate the multipliers whose rows have reached their root, or have passed it."""
        arrived: dict[int, list[int]] = defaultdict(list)
        for c in sorted(self.riding):
            root = self.riders[c].root
            if self.tips[c] <= set(self.topology.ancestors(root)) and not (self.riders[c].kept or self.waits(c)):
                arrived[root].append(c)
        for node, here in ((node, part) for node, riders in arrived.items() for part in self.apart(riders)):
            self.riding -= set(here)
            self.leave(node, here)

    def waits(self, c: int) -> bool:
        """Return whether a rider is coupled with columns of clusters that are not eliminated yet. Without what these
        add, its pivots may be zero."""
        return not self.coupled[c].isdisjoint(self.members)

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
        """Return the riders in sets that are not coupled with each other."""
        near = set(riders)
        return [[riders[k] for k in own] for own in connected([{c} | self.coupled[c] & near for c in riders])]


def _sorted(x: Joint | Multipliers, when: dict[int, int]) -> Joint | Multipliers:
    """Return `x` with its bodies in elimination order."""
    if isinstance(x, Multipliers):
        places = sorted(range(len(x.bodies)), key=lambda k: when[x.bodies[k]])
        acting = tuple(tuple(acts[k] for k in places) for acts in x.acting)
        return dataclasses.replace(x, bodies=tuple(x.bodies[k] for k in places), acting=acting)
    neighbours = tuple(sorted(x.neighbours, key=when.__getitem__))
    before = sum(when[b] < when[x.parent] for b in neighbours) if not x.root else 0
    return dataclasses.replace(x, neighbours=neighbours, before=before)
