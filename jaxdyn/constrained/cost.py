"""What solving costs, told from the plan alone: for `Auto` and `Unified` to choose by.

A cost is a sum of features of an order of elimination, operations by the kind of work, weighted by nanoseconds that
were fitted to measured times: `benchmarks/fit_cost.py`. They are of a batch on one core of a CPU; what they are used
for is ratios.
"""

from collections.abc import Sequence

from ..tree.fronts import Front
from ..tree.plan import Group, Multipliers, Rider
from ..tree.topology import WORLD

Features = dict[str, float]

#: damped solves that are made with one factor, as far as the choice is concerned
SOLVES = 3


def recursion(order: Sequence[Group | Multipliers], penalised: Sequence[Rider]) -> Features:
    """Of `jaxdyn.tree.elimination` in this order; `penalised` are the constraints whose rows do not ride."""
    f = dict.fromkeys(("bodies", "ties", "pairs of ties", "rows", "pairs of rows", "multipliers"), 0.0)
    for rider in penalised:
        n, r = len(rider.bodies), len(rider.rows)
        f["ties"] += r * (54 * n + 36 * n * (n - 1))
    for group in order:
        k = len(group)
        if isinstance(group, Multipliers):
            bodies = len(group.neighbours) + (group.nodes[0] != WORLD)
            left = len(group.rows) + len(group.others)
            for _ in group.rows:
                left -= 1
                f["pairs of rows"] += k * 2 * left**2
                f["multipliers"] += k * (bodies * (12 * left + 54) + 36 * bodies * (bodies - 1))
                f["multipliers"] += k * SOLVES * (4 * left + 24 * bodies + 4)
            continue
        n, p, nv = len(group.neighbours) + group.tied, len(group.rows), group.kind.nv
        f["bodies"] += k * (nv * (90 + 36 * SOLVES) + (360 + 60 * SOLVES) * (not group.root))
        f["ties"] += k * (nv * n * (150 + 24 * SOLVES) + 260 * n)
        f["pairs of ties"] += k * nv * 36 * n * (n - 1)
        f["rows"] += k * (nv * p * (24 + 24 * n + 4 * SOLVES) + 48 * p)
        f["pairs of rows"] += k * nv * 2 * p**2
    return f


def sparse(order: Sequence[Front], velocities: int, rows: int) -> Features:
    """Of `jaxdyn.tree.fronts` in this order, and of the matrices that it takes."""
    f = dict.fromkeys(("columns", "solves"), 0.0)
    f["matrices"] = float(velocities**2 + velocities * rows)
    for front in order:
        k, own, d = len(front.nodes), len(front.own[0]), len(front.front[0])
        f["columns"] += k * sum(2 * s**2 for s in range(d, d + own))
        f["solves"] += k * sum(4 * s * SOLVES for s in range(d, d + own))
        f["matrices"] += k * (own + d) ** 2
    return f


#: nanoseconds
WEIGHTS: Features = {
    "bodies": 0.225,
    "ties": 0.157,
    "pairs of ties": 0.888,
    "rows": 0.142,
    "pairs of rows": 0.309,
    "multipliers": 0.281,
    "columns": 0.341,
    "solves": 1.19,
    "matrices": 0.0,
}


def nanoseconds(features: Features) -> float:
    """Of one evaluation."""
    return sum(WEIGHTS[k] * x for k, x in features.items())
