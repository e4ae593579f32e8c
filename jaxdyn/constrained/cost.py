"""What solving costs, told from the plan alone: for `Auto` and `Unified` to choose by.

A cost is a sum of features of an order of elimination (operations by the kind of work, and kernels called), weighted
by nanoseconds that were fitted to measured times: `benchmarks/fit_cost.py`. The weights are of a batch on one core of
a CPU; what they are used for is ratios.
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
    f = dict.fromkeys(("bodies", "body calls", "ties", "tie calls", "rows", "row calls", "pivots", "pivot calls"), 0.0)
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
                work = 2 * left**2 + bodies * (12 * left + 54) + 36 * bodies * (bodies - 1)
                f["pivots"] += k * (work + SOLVES * (4 * left + 24 * bodies + 4))
                f["pivot calls"] += 4 + bodies + 4 * SOLVES
            f["pivot calls"] += 4 + 6 * bodies + bodies * (bodies - 1) / 2 + 4 * SOLVES
            continue
        n, p, nv = len(group.neighbours) + group.tied, len(group.rows), group.kind.nv
        f["bodies"] += k * (nv * (90 + 36 * SOLVES) + (360 + 60 * SOLVES) * (not group.root))
        f["body calls"] += nv * (2 + 3 * SOLVES) + 8 + 4 * SOLVES
        if n:
            f["ties"] += k * (nv * (150 * n + 36 * n * (n - 1) + 24 * n * SOLVES) + 260 * n)
            f["tie calls"] += nv * (6 + 5 * (n > 1) + SOLVES) + 8 + 3 * SOLVES
        if p:
            f["rows"] += k * (nv * (24 * p + 24 * n * p + 2 * p**2 + 4 * p * SOLVES) + 48 * p)
            f["row calls"] += nv * (3 + n + SOLVES) + 4 + 4 * SOLVES
    return f


def sparse(order: Sequence[Front], velocities: int, rows: int) -> Features:
    """Of `jaxdyn.tree.fronts` in this order, and of the matrices that it takes."""
    f = dict.fromkeys(("columns", "column calls", "entries"), 0.0)
    f["entries"] = float(velocities**2 + velocities * rows)
    for front in order:
        k, own, d = len(front.nodes), len(front.own[0]), len(front.front[0])
        sizes = range(d, d + own)
        f["columns"] += k * sum(2 * s**2 + 4 * s * SOLVES for s in sizes)
        f["column calls"] += own * (2 + 2 * SOLVES) + 6 + 4 * SOLVES
        f["entries"] += k * (own + d) ** 2
    return f


#: nanoseconds
WEIGHTS: Features = {
    "bodies": 0.06,
    "body calls": 1.0,
    "ties": 0.06,
    "tie calls": 1.0,
    "rows": 0.1,
    "row calls": 1.0,
    "pivots": 0.1,
    "pivot calls": 1.0,
    "columns": 0.1,
    "column calls": 1.0,
    "entries": 0.1,
}


def nanoseconds(features: Features) -> float:
    """Of one evaluation."""
    return sum(WEIGHTS[k] * x for k, x in features.items())
