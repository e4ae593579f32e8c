"""Products of wrenches with the motion subspaces of all joints between their body and the root.

A wrench is carried up the tree, from each body to its parent. At every joint on the way its product with the motion
subspace is one number per velocity. This computes the mass matrix and Jacobians: the rows of a constraint are wrenches,
and J_rj is the product of row r with column j of a joint.
"""

import dataclasses
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine.core import at_or_zero
from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..tree.columns import product, rows_to_parent
from ..tree.plan import Plan
from ..tree.sweep import place_of
from ..tree.topology import WORLD, Topology
from .forward import Kinematics
from .rows import Rows


def _carry(kind, root, par, q, pose, wrench):
    """Return Sᵀ F of wrenches (count, 3, lanes) as (nv count, lanes), and the wrenches transformed to the parent."""
    n, f = (jnp.swapaxes(x, 0, 1) for x in wrench)
    numbers = jnp.stack([product(s, n, f) for s in kind.columns(par, q)])
    moved = None if root else rows_to_parent(pose, wrench)
    return numbers.reshape(-1, numbers.shape[-1]), moved


@dataclasses.dataclass(frozen=True)
class Boarding:
    """A group of `count` wrenches that are carried up together from `body`. They are the cells of field ``"wrench"``
    from `start` on. `rows` are their rows in the matrix."""

    body: int
    start: int
    count: int
    rows: tuple[int, ...]


class Ride(NamedTuple):
    """The table that carries wrenches up, and the places of its numbers in the matrix. Each entry of the matrix is a
    sum of numbers: ``places[k]`` holds the index of the k-th term of every entry. The index `size` stands for zero."""

    table: Table
    size: int
    places: tuple[np.ndarray, ...]


@tables
def _ride(topology: Topology, boarding: tuple[Boarding, ...], height: int) -> Ride:
    rows, number, cell = [], 0, 0
    entries: list[list[tuple[int, int, int]]] = []
    for x in boarding:
        at, own = Ref("wrench", x.start, x.count), []
        for b in topology.ancestors(x.body):
            kind, root = topology.kinds[b], topology.parents[b] == WORLD
            count = kind.nv * x.count
            numbers = Ref("number", number, count)
            moved = None if root else Ref("moved", cell, x.count)
            reads = *place_of(topology, b), at
            rows.append(Row(Step(_carry, (kind, root)), reads, (numbers, moved)))
            place = np.arange(count).reshape(kind.nv, x.count) + number
            own += [
                (row, topology.v_starts[b] + j, place[j, k]) for j in range(kind.nv) for k, row in enumerate(x.rows)
            ]
            number += count
            if moved is not None:
                at, cell = moved, cell + x.count
        entries.append(own)
    places: list[np.ndarray] = []
    depth: dict[tuple[int, int], int] = {}
    for own in entries:
        for i, j, at_number in own:
            rank = depth.get((i, j), 0)
            depth[i, j] = rank + 1
            if rank == len(places):
                places.append(np.full((height, topology.nv), number, np.int32))
            places[rank][i, j] = at_number
    return Ride(Table(rows, {"number": number, "moved": cell}), number, tuple(places))


def ridden(motion: Kinematics, boarding: tuple[Boarding, ...], wrench, height: int) -> Array:
    """Return the matrix (height, nv, lanes) of the products of wrenches with the motion subspaces of the joints above
    them."""
    ride = _ride(motion.model.topology, boarding, height)
    numbers = swept(ride.table, motion.joints | {"wrench": wrench})["number"]
    parts = [at_or_zero(numbers, at) for at in ride.places]
    return sum(parts[1:], parts[0])


@tables
def _of_rows(plan: Plan) -> tuple[Boarding, ...]:
    return tuple(
        Boarding(b, k, layout.rows, tuple(plan.span(c)))
        for c, layout in enumerate(plan.layouts)
        for b, k in zip(layout.bodies, plan.coefficients[c], strict=True)
    )


def tree_jacobian(motion: Kinematics, rows: Rows) -> Array:
    """Return J (m, velocities of the tree, lanes) of constraints with evaluated rows."""
    return ridden(motion, _of_rows(rows.plan), rows.K, rows.plan.rows)
