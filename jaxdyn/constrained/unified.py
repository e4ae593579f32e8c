"""The unified algorithm: each constraint becomes penalties between its bodies (LCABA) or rows that ride to their common
ancestor (ProxBBO), whichever makes the whole elimination cheaper.

Both algorithms eliminate [M Jᵀ; J −1/μ], and so does every mixture (the LCABA paper, section VII-D, leaves this open).
The choice depends on the plan alone. It compares the predicted costs of the elimination orders of mixtures, starting
from the cheaper of the two algorithms and changing one constraint at a time while that lowers the cost.
"""

from typing import ClassVar

from ..engine.kept import parts, tables
from ..systems import cost
from ..systems.body_factor import body_factor, tied_factor
from ..systems.weights import automatic_weights, riding_weights
from ..tree.order import Order, Rider, elimination, riders_of
from ..tree.plan import Plan
from ..tree.topology import Topology
from .iterated import Proximal

#: with more constraints than this, all or none ride: every mixture that is tried needs its own elimination order
MOST = 32
#: number of solves for which mixtures are compared
SOLVES = cost.DOUBLE[0]


@parts
def mixture(
    topology: Topology, riders: tuple[Rider, ...], ride: frozenset[Rider], solves: int
) -> tuple[cost.Features, Order]:
    """Return the features of the cost of that many solves, and the elimination order, if the constraints `ride` ride
    and the others are penalties."""
    stay = [r for r in riders if r not in ride]
    cliques = frozenset(tuple(sorted(r.bodies)) for r in stay if r.ties)
    order = elimination(topology, cliques, tuple(r for r in riders if r in ride))
    return cost.recursion(topology, riders, order, stay, solves), order


@tables
def riding_of(topology: Topology, riders: tuple[Rider, ...]) -> tuple[Order, frozenset[Rider]]:
    """Return the order of the cheapest mixture found, and the constraints that ride in it."""
    price = lambda ride: cost.nanoseconds(mixture(topology, riders, ride, SOLVES)[0])  # noqa: E731
    pure = cost.cheapest({ride: price(ride) for ride in (frozenset(), frozenset(riders))})
    best, improved = pure, len(riders) <= MOST
    while improved:
        improved = False
        for rider in riders:
            other = best ^ {rider}
            if price(other) < price(best):
                best, improved = other, True
    best = cost.cheapest({pure: price(pure), best: price(best)})
    return mixture(topology, riders, best, SOLVES)[1], best


class Unified(Proximal):
    """LCABA or ProxBBO, constraint by constraint, by predicted run time: any constraints, redundant ones too.

    **Arguments:** `mu`, `tol`, `max_steps`, `refine`, see `jaxdyn.extend.Proximal`.
    """

    recursive: ClassVar[bool] = True
    penalised = staticmethod(tied_factor)

    def order(self, topology, plan: Plan):
        return riding_of(topology, riders_of(topology, plan))[0]

    def weights(self, problem):
        riders = riders_of(problem.model.topology, problem.plan)
        every = len(riding_of(problem.model.topology, riders)[1]) == len(riders)
        return riding_weights(problem) if every else automatic_weights(problem)

    def system(self, problem, weights):
        topology = problem.model.topology
        order, ride = riding_of(topology, riders_of(topology, problem.plan))
        return body_factor(problem, order, weights, frozenset(r.constraint for r in ride))
