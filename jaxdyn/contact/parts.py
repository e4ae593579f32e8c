"""Parts of a scene: bodies that may act on each other, because they share a tree, or a constraint or a contact may tie
their trees. Forces on one part never move another. Parts are known before any number is."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.sets import Disjoint
from ..tree.plan import Plan
from ..tree.topology import Topology


@tables
def parts_of(topology: Topology, plan: Plan, first: int) -> tuple[int, ...]:
    """Return the number of the part of every row from `first` on; none if there is only one part."""
    parts = Disjoint(range(topology.nb))
    for tied in (*enumerate(topology.roots), *(c.bodies for c in topology.clusters), *(x.bodies for x in plan.layouts)):
        for b in tied[1:]:
            parts.join(b, tied[0])
    owners = [parts.find(b) for b in plan.firsts[first:]]
    numbers = {b: k for k, b in enumerate(dict.fromkeys(owners))}
    return tuple(numbers[b] for b in owners) if len(numbers) > 1 else ()


def largest(x: Array, parts: tuple[int, ...]) -> Array:
    """Return for every row the largest x (m, lanes) of its part; without `parts` all rows are one."""
    numbers = list(dict.fromkeys(parts))
    if len(numbers) < 2:
        return jnp.broadcast_to(x.max(0), x.shape)
    members = [[k for k, p in enumerate(parts) if p == number] for number in numbers]
    most = max(map(len, members))
    # one table, filled up with each part's first row: the code is the same for any number of parts
    table = np.asarray([own + own[:1] * (most - len(own)) for own in members])
    found = x[table.ravel()].reshape(*table.shape, x.shape[-1]).max(1)
    return found[np.asarray([numbers.index(p) for p in parts])]
