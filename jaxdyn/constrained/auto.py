"""`Auto`: the solver that suits the constraints."""

import functools

from ..kinematics.rows import Bundle, bundles_of
from ..tree import cost
from ..tree.topology import Topology
from .base import Solver
from .joint_space import saddle_fronts, supports
from .lcaba import ABA, LCABA
from .ltl import ProxLTL
from .prox_bbo import ProxBBO, riders_of
from .unified import Unified, mixture, plan


def features_of(topology: Topology, bundles: tuple[Bundle, ...]) -> dict[str, cost.Features]:
    """By name of the solver, what its cost is told from."""
    riders = riders_of(topology, bundles)
    riding = {"LCABA": frozenset(), "ProxBBO": frozenset(riders), "Unified": plan(topology, riders)[1]}
    found = {name: mixture(topology, riders, ride)[0] for name, ride in riding.items()}
    moved = [(len(rows), len(bodies)) for rows, bodies in supports(topology, bundles).values()]
    return found | {"ProxLTL": cost.sparse(saddle_fronts(topology, bundles), topology, moved)}


@functools.lru_cache(maxsize=256)
def _cheapest(topology: Topology, bundles: tuple[Bundle, ...]) -> Solver:
    features = features_of(topology, bundles)
    name = cost.cheapest({name: cost.nanoseconds(f) for name, f in features.items()})
    return {"LCABA": LCABA, "ProxBBO": ProxBBO, "Unified": Unified, "ProxLTL": ProxLTL}[name]()


class Auto(Solver):
    """`ABA` where nothing is constrained, else whichever of `LCABA`, `ProxBBO`, `Unified` and `ProxLTL` is told to be
    the fastest from the plan (`jaxdyn.tree.cost`). All four find the same with any constraints."""

    def pick(self, topology, constraints) -> Solver:
        """The solver for these constraints."""
        return self._pick(topology, bundles_of(topology, constraints))

    def _pick(self, topology, bundles) -> Solver:
        return _cheapest(topology, tuple(bundles)) if bundles else ABA()

    def unrolled(self):
        return _UnrolledAuto()

    def order(self, topology, bundles):
        return self._pick(topology, bundles).order(topology, bundles)

    def solve(self, problem, start, warm, multipliers):
        return self.pick(problem.model.topology, problem.constraints).solve(problem, start, warm, multipliers)


class _UnrolledAuto(Auto):
    def _pick(self, topology, bundles):
        return Auto._pick(self, topology, bundles).unrolled()
