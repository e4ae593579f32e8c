"""The unified algorithm: per constraint, penalties between its bodies (LCABA) or rows that ride to their common
ancestor (ProxBBO), whichever makes the whole elimination cheaper.

Both eliminate [M Jᵀ; J −1/μ], and so does every mixture (the LCABA paper, section VII-D, leaves it open). The choice is
plan data: operations are counted on the order of elimination that a mixture leads to, starting from the cheaper of the
two algorithms and changing one constraint at a time while that makes it cheaper.
"""

import functools
from collections.abc import Sequence

from ..kinematics.rows import Bundle
from ..tree.plan import Group, Multipliers, Rider, elimination
from ..tree.topology import Topology
from .damped import factorised
from .iterated import Proximal
from .prox_bbo import riders_of

#: solves that are made with one factor, as far as the choice is concerned
SOLVES = 3


def operations(order: Sequence[Group | Multipliers], penalised: Sequence[Rider]) -> int:
    """What `jaxdyn.tree.elimination` does in this order: additions and products of the factorisation, and of `SOLVES`
    solves."""
    total = 0
    for rider in penalised:
        n, r = len(rider.bodies), len(rider.rows)
        total += r * (54 * n + 36 * n * (n - 1))
    for group in order:
        if isinstance(group, Multipliers):
            bodies = len(group.neighbours) + (group.nodes[0] >= 0)
            left = len(group.rows) + len(group.others)
            each = 0
            for _ in group.rows:
                left -= 1
                each += 2 * left**2 + bodies * (12 * left + 54) + 36 * bodies * (bodies - 1)
                each += SOLVES * (4 * left + 24 * bodies + 4)
        else:
            n, p = len(group.neighbours) + group.tied, len(group.rows)
            column = 90 + 150 * n + 36 * n * (n - 1) + 24 * p + 2 * p**2 + 24 * n * p + SOLVES * (36 + 24 * n + 4 * p)
            each = group.kind.nv * column
            if not group.root:
                each += 360 + 260 * n + 48 * p + SOLVES * 60
        total += each * len(group)
    return total


@functools.lru_cache(maxsize=256)
def _planned(topology: Topology, riders: tuple[Rider, ...], ride: frozenset[Rider]) -> tuple:
    stay = [r for r in riders if r not in ride]
    cliques = frozenset(tuple(sorted(r.bodies)) for r in stay)
    order = elimination(topology, cliques, tuple(r for r in riders if r in ride))
    return operations(order, stay), order


@functools.lru_cache(maxsize=256)
def plan(
    topology: Topology, riders: tuple[Rider, ...]
) -> tuple[int, tuple[Group | Multipliers, ...], frozenset[Rider]]:
    """Operations and order of the cheapest mixture that was found, and the constraints that ride in it."""
    best = min((frozenset(), frozenset(riders)), key=lambda ride: _planned(topology, riders, ride)[0])
    cost = _planned(topology, riders, best)[0]
    improved = True
    while improved:
        improved = False
        for rider in riders:
            other = best ^ {rider}
            if (now := _planned(topology, riders, other)[0]) < cost:
                best, cost, improved = other, now, True
    return cost, _planned(topology, riders, best)[1], best


class Unified(Proximal):
    """LCABA or ProxBBO, constraint by constraint, by operation count: any constraints, redundant ones too.

    **Arguments:** `mu`, `tol`, `max_steps`, `refine`, see `jaxdyn.constrained.iterated.Proximal`.
    """

    def order(self, topology, bundles: Sequence[Bundle]):
        return plan(topology, riders_of(topology, bundles))[1]

    def system(self, problem, weights):
        ride = plan(problem.model.topology, riders_of(problem.model.topology, problem.bundles))[2]
        return factorised(problem, weights, frozenset(r.rows[0] for r in ride))
