"""Poses of the bodies of closed loops, seen from the bodies that carry the loops.

A loop through bodies of one tree is carried by their last common ancestor. Its rows do not change when the carrier
moves, so they are evaluated as if the carrier were the world. Single precision loses no digits to the distance between
the robot and the world's origin, or between the loop and the root of the robot.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..spatial.small import composed
from .sweep import down
from .topology import WORLD, Topology


class Carried(NamedTuple):
    """Where the poses of a constraint's bodies are, as their carrier sees them.

    **Fields:** `places`, the cells by constraint and body: in ``"world"``; in ``"pose"``, for children of the carrier;
    in ``"rest"``, for the carrier itself; or in ``"seen"``, which `table` makes from ``"pose"``."""

    places: tuple[dict[int, Ref], ...]
    table: Table


def carrier_of(topology: Topology, layout) -> int:
    """Return the last body whose motion does not change the rows of a constraint with this `Layout`: the last common
    ancestor of its bodies, or the world."""
    return topology.common_ancestor(layout.bodies) if layout.relative and len(layout.bodies) > 1 else WORLD


def _shared(topology: Topology, layouts: Sequence) -> tuple[int, ...]:
    """Return a carrier for each constraint: where loops overlap, that of the largest one, so that a body is seen from
    one carrier, however many loops lie within each other."""
    found = [carrier_of(topology, x) for x in layouts]
    depth = topology.depths.__getitem__
    owner: dict[int, int] = {}
    for c in sorted((c for c, b in enumerate(found) if b != WORLD), key=lambda c: depth(found[c])):
        met = {owner[b] for body in layouts[c].bodies for b in topology.way(body, found[c]) if b in owner}
        found[c] = min(met, default=found[c], key=depth)
        for body in layouts[c].bodies:
            owner |= {b: owner.get(b, found[c]) for b in topology.way(body, found[c])}
    return tuple(found)


@tables
def carried(topology: Topology, layouts: Sequence) -> Carried:
    """Return the places of the bodies of constraints, seen from their carriers, or from the world if there is none."""
    carriers = _shared(topology, layouts)
    cells: dict[tuple[int, int], int] = {}
    above: list[list[int]] = [[] for _ in topology.parents]  # by body, the carriers that see it at a cell of ``"seen"``
    for layout, carrier in zip(layouts, carriers, strict=True):
        for body in layout.bodies if carrier != WORLD else ():
            for b in topology.way(body, carrier)[:-1]:
                if (carrier, b) not in cells:
                    cells[carrier, b] = len(cells)
                    above[b].append(carrier)

    def place(carrier, b):
        if carrier == WORLD:
            return Ref("world", b)
        if b == carrier:
            return Ref("rest", 0)
        return Ref("pose", b) if topology.parents[b] == carrier else Ref("seen", cells[carrier, b])

    def row(b, p):
        return [Row(Step(composed), (place(c, p), Ref("pose", b)), place(c, b)) for c in above[b]]

    places = tuple({b: place(c, b) for b in x.bodies} for x, c in zip(layouts, carriers, strict=True))
    return Carried(places, Table(down(topology, row), {"seen": len(cells)}))
