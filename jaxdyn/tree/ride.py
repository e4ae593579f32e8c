"""Columns that ride up the tree: each visits its body and all ancestors, and leaves a number at every joint.

Mass matrices and Jacobians are made so, in body axes all the way.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from .field import Field
from .plan import Group


def ride(
    groups: Sequence[Group], boarding: Sequence[tuple[Sequence[int], Any]], step: Callable[..., tuple[Any, Array]]
) -> list[tuple[Group, tuple[int, ...], tuple[int, ...], Array]]:
    """Columns board at bodies and go leaves to roots.

    `boarding` lists (bodies, values): values (..., columns, lanes), a body a column; columns are numbered in
    that order. ``step(group, places, values)`` gets the columns that are at the group's bodies, with their
    places in the group, and returns them as seen from the parents, and the numbers (rows, columns, lanes) that they
    leave. Returns, per visit, (group, places, columns, numbers).
    """
    field, at, column = Field(), defaultdict(list), 0
    for bodies, values in boarding:
        field.add(range(column, column + len(bodies)), values)
        for body in bodies:
            at[body].append(column)
            column += 1
    out = []
    for group in groups:
        riders = [(place, c) for place, b in enumerate(group.nodes) for c in at[b]]
        if not riders:
            continue
        places, columns = tuple(p for p, _ in riders), tuple(c for _, c in riders)
        moved, numbers = step(group, places, field.get(columns))
        out.append((group, places, columns, numbers))
        if not group.root:
            field.replace(columns, moved)
            for p, c in riders:
                at[group.parents[p]].append(c)
    return out


def dense(visits, rows: Sequence[Sequence[int]], at_joint: Sequence[int], shape: tuple[int, int], dtype) -> Array:
    """The numbers of a ride as a matrix (rows, nv, lanes): column c of the ride adds to the rows ``rows[c]``.

    `at_joint` holds the first velocity of every body.
    """
    lanes = max(x.shape[-1] for *_, x in visits)
    numbers, place, position = [jnp.zeros((1, lanes), dtype)], defaultdict(list), 1
    for group, places, columns, x in visits:
        numbers.append(jnp.broadcast_to(x, (*x.shape[:-1], lanes)).reshape(-1, lanes))
        for r in range(x.shape[0]):
            for p, c in zip(places, columns, strict=True):
                for row in rows[c]:
                    place[row, at_joint[group.nodes[p]] + r].append(position)
                position += 1
    flat = jnp.concatenate(numbers)
    total = None
    for rank in range(max((len(v) for v in place.values()), default=1)):
        index = [
            [(place[i, j][rank] if rank < len(place[i, j]) else 0) for j in range(shape[1])] for i in range(shape[0])
        ]
        part = jnp.take(flat, jnp.asarray(index, jnp.int32).reshape(shape), axis=0)
        total = part if total is None else total + part
    return total
