"""`Auto`: the solver that suits the constraints."""

from ..engine.kept import tables
from ..kinematics.rows import plan_of
from ..systems import cost
from ..systems.joint_factor import saddle_fronts, supports
from ..tree.plan import riders_of
from ..tree.rows import Plan
from ..tree.topology import Topology
from .base import Solver, Unrollable
from .lcaba import ABA, LCABA
from .ltl import ProxLTL
from .prox_bbo import ProxBBO
from .unified import Unified, mixture, riding_of


def features_of(topology: Topology, plan: Plan) -> dict[str, cost.Features]:
    """Return, by name of the solver, the features from which its cost is predicted."""
    riders = riders_of(topology, plan)
    riding = {"LCABA": frozenset(), "ProxBBO": frozenset(riders), "Unified": riding_of(topology, riders)[1]}
    found = {name: mixture(topology, riders, ride)[0] for name, ride in riding.items()}
    moving = supports(topology, plan)
    moved = [(layout.rows, len(bodies)) for layout, bodies in zip(plan.layouts, moving, strict=True)]
    return found | {"ProxLTL": cost.sparse(saddle_fronts(topology, plan), topology, moved)}


@tables
def _cheapest(topology: Topology, plan: Plan) -> Solver:
    features = features_of(topology, plan)
    name = cost.cheapest({name: cost.nanoseconds(f) for name, f in features.items()})
    return {"LCABA": LCABA, "ProxBBO": ProxBBO, "Unified": Unified, "ProxLTL": ProxLTL}[name]()


class Auto(Unrollable):
    """The solver that suits the constraints: `ABA` if there are none, else the one of `LCABA`, `ProxBBO`, `Unified` and
    `ProxLTL` that the plan predicts to be fastest (`jaxdyn.systems.cost`); `LCABA` if links have no inertia of their
    own."""

    def pick(self, topology, constraints) -> Solver:
        """Return the solver for these constraints."""
        return self._pick(topology, plan_of(topology, constraints))

    def _pick(self, topology, plan) -> Solver:
        if not plan.layouts:
            return ABA()
        # LCABA alone eliminates constraints before it divides by inertias
        solver = LCABA() if topology.singular else _cheapest(topology, plan)
        return solver.unrolled() if self._unrolled else solver

    def order(self, topology, plan):
        return self._pick(topology, plan).order(topology, plan)

    def solve(self, problem, start, warm, multipliers):
        return self.pick(problem.model.topology, problem.constraints).solve(problem, start, warm, multipliers)
