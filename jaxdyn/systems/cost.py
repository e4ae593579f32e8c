"""Predicted run time of a plan, used by `Auto` and `Unified` to choose.

The prediction counts the operations of an elimination order by kind of work (its features) and weights them by
nanoseconds that `benchmarks/fit_cost.py` fits to measured times of a batch on one core of a CPU. Only ratios of
predictions matter.
"""

from collections.abc import Sequence

from ..tree.fronts import Front
from ..tree.order import Multipliers, Order, Rider
from ..tree.topology import Topology

Features = dict[str, float]

#: assumed number of damped solves with one factor: with penalties, and if all rows ride
DOUBLE, SINGLE = (3, 3), (4, 2)


def recursion(
    topology: Topology, riders: Sequence[Rider], order: Order, penalised: Sequence[Rider], solves: int
) -> Features:
    """Return the features of `jaxdyn.tree.elimination` in this order; `penalised` are the constraints whose rows do not
    ride."""
    f = dict.fromkeys(("bodies", "ties", "pairs of ties", "rows", "pairs of rows", "multipliers"), 0.0)
    for rider in (r for r in penalised if r.ties):
        n, r = len(rider.bodies), len(rider.rows)
        f["ties"] += r * (54 * n + 36 * n * (n - 1))
    rows = {r.constraint: len(r.rows) for r in riders}
    rows |= {-1 - k: len(c.independent) for k, c in enumerate(topology.clusters)}
    for x in order:
        if isinstance(x, Multipliers):
            bodies, own = len(x.bodies), sum(rows[c] for c in x.riders)
            left = own + sum(rows[c] for c in x.others)
            for _ in range(own):
                left -= 1
                f["pairs of rows"] += 2 * left**2
                f["multipliers"] += bodies * (12 * left + 54) + 36 * bodies * (bodies - 1)
                f["multipliers"] += solves * (4 * left + 24 * bodies + 4)
            continue
        if x.drives is not None:  # substituted with its joint locked
            columns, p = rows[x.drives], sum(rows[c] for c in x.riders)
            f["bodies"] += (360 + 60 * solves) * (not x.root)
            f["ties"] += len(x.neighbours) * (260 + 72 * columns)
            f["rows"] += columns * (120 + 24 * solves) + 48 * p
            f["pairs of rows"] += 24 * columns * (columns + p)
            continue
        n, p, nv = len(x.neighbours), sum(rows[c] for c in x.riders), topology.kinds[x.body].nv
        f["bodies"] += nv * (90 + 36 * solves) + (360 + 60 * solves) * (not x.root)
        f["ties"] += nv * n * (150 + 24 * solves) + 260 * n
        f["pairs of ties"] += nv * 36 * n * (n - 1)
        f["rows"] += nv * p * (24 + 24 * n + 4 * solves) + 48 * p
        f["pairs of rows"] += nv * 2 * p**2
    return f


def sparse(order: Sequence[Front], topology: Topology, supports: Sequence[tuple[int, int]], solves: int) -> Features:
    """Return the features of `jaxdyn.tree.fronts` in this order, and of the matrices that it factorises; `supports`
    are, by constraint, the numbers of its rows and of the bodies that move them."""
    f = dict.fromkeys(("bodies", "columns", "solves", "matrices"), 0.0)
    f["bodies"] = topology.nb * (360 + 96 * solves)
    visits = sum(topology.kinds[b].nv for b, _ in topology.related())
    f["matrices"] = 40.0 * (visits + sum(rows * bodies for rows, bodies in supports))
    for front in order:
        own, d = len(front.own), len(front.front)
        f["columns"] += sum(2 * s**2 for s in range(d, d + own))
        f["solves"] += sum(4 * s * solves for s in range(d, d + own))
    return f


#: nanoseconds of the part that does not grow with the robot, and of one operation of each kind
FIXED = 11.8
WEIGHTS: Features = {
    "bodies": 0.0158,
    "ties": 0.0115,
    "pairs of ties": 0.0116,
    "rows": 0.0111,
    "pairs of rows": 0.0102,
    "multipliers": 0.0122,
    "columns": 0.0124,
    "solves": 0.0139,
    "matrices": 0.011,
}


def nanoseconds(features: Features) -> float:
    """Return the predicted time of one evaluation."""
    return FIXED + sum(WEIGHTS[k] * x for k, x in features.items())


#: a later choice must cost less than this fraction of the best so far: the model is no more accurate than that
GAIN = 0.9


def cheapest(prices: dict, gain: float = GAIN):
    """Return the first key, unless a later one costs less than `gain` times the best so far."""
    best = next(iter(prices))
    for key, value in prices.items():
        if value < gain * prices[best]:
            best = key
    return best
