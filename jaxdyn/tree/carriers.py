"""Poses of the bodies of closed loops, seen from the bodies that carry the loops.

A loop through bodies of one tree is carried by their last common ancestor. Its rows do not change when the carrier
moves, so they are evaluated as if the carrier were the world. Single precision loses no digits to the distance between
the robot and the world's origin, or between the loop and the root of the robot.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..spatial.small import mm, mv
from .sweep import down
from .topology import WORLD, Topology


class Carried(NamedTuple):
    """The carriers of constraints, and the table of the field ``"seen"`` from the field ``"pose"``, with the cell of
    each (carrier, body) pair."""

    carriers: tuple[int, ...]
    table: Table
    cells: dict[tuple[int, int], int]


def carrier_of(topology: Topology, layout) -> int:
    """Return the last body whose motion does not change the rows of a constraint with this `Layout`: the last common
    ancestor of its bodies, or the world."""
    return topology.common_ancestor(layout.bodies) if layout.relative and len(layout.bodies) > 1 else WORLD


def _compose(pose, above):
    """Return a body's pose seen from a carrier, from its pose in its parent and that of the parent."""
    (E, r), (R, p) = pose, above
    return mm(R, E), p + mv(R, r)


def _shared(topology: Topology, layouts: Sequence) -> tuple[int, ...]:
    """Return a carrier for each constraint: where loops overlap, that of the largest one, so that a body is seen from
    one carrier, however many loops lie within each other."""
    found = [carrier_of(topology, x) for x in layouts]
    depth = lambda b: topology.depths[b]  # noqa: E731
    owner: dict[int, int] = {}
    for c in sorted((c for c, b in enumerate(found) if b != WORLD), key=lambda c: depth(found[c])):
        met = {owner[b] for body in layouts[c].bodies for b in _below(topology, body, found[c]) if b in owner}
        found[c] = min(met, default=found[c], key=depth)
        for body in layouts[c].bodies:
            owner |= {b: owner.get(b, found[c]) for b in _below(topology, body, found[c])}
    return tuple(found)


def _below(topology: Topology, body: int, carrier: int) -> tuple[int, ...]:
    """Return the bodies from `body` up to the carrier, without the latter."""
    path = topology.ancestors(body)
    return path[: path.index(carrier)]


@tables
def carried(topology: Topology, layouts: Sequence) -> Carried:
    """Return the table for the bodies between constraints and their carriers, without the children of carriers, whose
    poses are known. The world is the carrier of constraints with no other."""
    carriers = _shared(topology, layouts)
    above: list[set[int]] = [set() for _ in topology.parents]  # carriers, by body
    for layout, carrier in zip(layouts, carriers, strict=True):
        for body in layout.bodies if carrier != WORLD else ():
            for b in _below(topology, body, carrier)[:-1]:
                above[b].add(carrier)
    pairs = [(carrier, b) for b, carriers_of in enumerate(above) for carrier in sorted(carriers_of)]
    cells = {pair: k for k, pair in enumerate(pairs)}

    def row(b, p):
        reads = lambda carrier: (Ref("pose", b), seen_from(topology, cells, carrier, p))  # noqa: E731
        return [Row(Step(_compose), reads(c), Ref("seen", cells[c, b])) for c in sorted(above[b])]

    return Carried(carriers, Table(down(topology, row), {"seen": len(cells)}), cells)


def seen_from(topology: Topology, cells: dict[tuple[int, int], int], carrier: int, body: int) -> Ref:
    """Return the cell of a body's pose seen from its carrier."""
    if carrier == WORLD:
        return Ref("world", body)
    if body == carrier:
        return Ref("rest", 0)
    return Ref("pose", body) if topology.parents[body] == carrier else Ref("seen", cells[carrier, body])
