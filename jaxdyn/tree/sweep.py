"""The two loops over a tree, which turn the step of a recursion into the rows of a table.

A recursion gives its step to a loop as ``row(body, parent)``, which names the cells that it reads and writes; nothing
is computed here. Fields have one cell per node (``"world"``, ``"force"``), one per velocity (``"v"``), or as many as a
table numbers. `jaxdyn.engine.steps` explains steps, tables and cells.
"""

from collections.abc import Callable, Iterable, Sequence

from ..engine.steps import Ref, Row
from .topology import WORLD, Topology


def down(topology: Topology, row: Callable[[int, int], Row | Sequence[Row]]) -> list[Row]:
    """Return the rows of all bodies, any number for each, parents before children."""
    return _joined(row(b, p) for b, p in enumerate(topology.parents))


def up(topology: Topology, row: Callable[[int, int], Row]) -> list[Row]:
    """Return the rows of all bodies, children before parents."""
    return [row(b, topology.parents[b]) for b in reversed(range(topology.nb))]


def each(topology: Topology, rows: Callable[[int], Row | Sequence[Row]]) -> list[Row]:
    """Return the rows of all bodies, any number for each, which do not depend on those of other bodies."""
    return _joined(rows(b) for b in range(topology.nb))


def _joined(found: Iterable[Row | Sequence[Row]]) -> list[Row]:
    return [row for x in found for row in ((x,) if isinstance(x, Row) else x)]


def of_parent(name: str, parent: int) -> Ref | None:
    """Return the parent's cell, None for the world."""
    return None if parent == WORLD else Ref(name, parent)


def above(name: str, parent: int) -> Ref:
    """Return the parent's cell; that of the world is in a field of its own."""
    return Ref(f"root {name}", 0) if parent == WORLD else Ref(name, parent)


def q_of(topology: Topology, body: int, name: str = "q") -> Ref:
    """Return the coordinates of a body's joint."""
    return Ref(name, topology.q_starts[body], topology.kinds[body].nq)


def v_of(topology: Topology, body: int, name: str = "v") -> Ref:
    """Return the velocities of a body's joint, or its cells in another field with one cell per velocity."""
    return Ref(name, topology.v_starts[body], topology.kinds[body].nv)


def place_of(topology: Topology, body: int) -> tuple[Ref, Ref, Ref]:
    """Return a body's joint: parameters, coordinates, and pose in the parent."""
    return Ref("joint", body), q_of(topology, body), Ref("pose", body)


def refs(name: str, nodes: Iterable[int]) -> tuple[Ref, ...]:
    """Return one cell for each node."""
    return tuple(Ref(name, b) for b in nodes)
