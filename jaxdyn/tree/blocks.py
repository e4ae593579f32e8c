"""The sparsity of the mass matrix by blocks of velocities, and the bodies that move the rows of constraints."""

import itertools
from typing import NamedTuple

from ..engine.kept import tables
from .carriers import carrier_of
from .order import bodies_of, elimination
from .plan import Plan
from .topology import WORLD, Topology


class Blocks(NamedTuple):
    """The independent velocities as blocks, body by body.

    **Fields:** `sizes`, the number of velocities of each block; `movers`, by body, the blocks that move it relative to
    its parent (those of a cluster move all of its bodies); `edges`, the pairs of blocks that the mass matrix couples;
    `order`, an elimination order, leaves first."""

    sizes: tuple[int, ...]
    movers: tuple[tuple[int, ...], ...]
    edges: frozenset[tuple[int, int]]
    order: tuple[int, ...]

    def velocities(self, blocks) -> list[int]:
        starts = (0, *itertools.accumulate(self.sizes))
        return [v for b in blocks for v in range(starts[b], starts[b + 1])]


@tables
def blocks_of(topology: Topology, cliques: frozenset[tuple[int, ...]] = frozenset()) -> Blocks:
    """Return the blocks of a tree, ordered as in an elimination in which `cliques` of bodies are tied."""
    counts = [sum(v in topology.places for v in range(*topology.v_starts[b : b + 2])) for b in range(topology.nb)]
    bodies = [b for b, n in enumerate(counts) if n]
    number = {b: k for k, b in enumerate(bodies)}
    clusters = [tuple(number[b] for b in c.bodies if b in number) for c in topology.clusters]
    movers = tuple(
        clusters[topology.cluster_of[b]] if b in topology.cluster_of else (number[b],) for b in range(topology.nb)
    )
    supports = {frozenset(m for a in topology.ancestors(b) for m in movers[a]) for b in range(topology.nb)}
    edges = frozenset(pair for moving in supports for pair in itertools.combinations(sorted(moving), 2))
    when = {}
    for k, b in enumerate(bodies_of(elimination(topology, cliques))):
        when |= dict.fromkeys(movers[b], k)  # a cluster is eliminated with the last of its bodies
    order = tuple(sorted(range(len(bodies)), key=when.__getitem__))
    return Blocks(tuple(counts[b] for b in bodies), movers, edges, order)


def moving(topology: Topology, plan: Plan) -> list[tuple[int, ...]]:
    """Return, by constraint, the bodies whose joints move its rows where it is closed."""
    return [_below(topology, layout, carrier_of(topology, layout)) for layout in plan.layouts]


def dragging(topology: Topology, plan: Plan) -> list[tuple[int, ...]]:
    """Return, by constraint, the bodies whose joints move its rows, also where it is open."""
    still = lambda layout: WORLD if layout.dragged else carrier_of(topology, layout)  # noqa: E731
    return [_below(topology, layout, still(layout)) for layout in plan.layouts]


def _below(topology: Topology, layout, still: int) -> tuple[int, ...]:
    """Return the bodies of a constraint and all above them that are not above the body `still`, nor this body."""
    moving = {a for b in layout.bodies for a in topology.ancestors(b)}
    return tuple(sorted(moving.difference(topology.ancestors(still))))
