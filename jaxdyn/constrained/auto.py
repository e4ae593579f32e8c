"""`Auto`: the solver that suits the constraints."""

import jax.numpy as jnp

from ..engine.kept import tables
from ..kinematics.rows import plan_of
from ..systems import cost
from ..systems.joint_factor import saddle_fronts, supports
from ..tree.order import riders_of
from ..tree.plan import Plan
from ..tree.topology import Topology
from .base import Solver
from .lcaba import ABA, LCABA
from .ltl import ProxLTL
from .prox_bbo import ProxBBO
from .unified import Unified, mixture, riding_of


def features_of(topology: Topology, plan: Plan, single: bool = False) -> dict[str, cost.Features]:
    """Return, by name of the solver, the features from which its cost is predicted. In `single` precision solvers with
    penalties make more solves, and those whose rows ride fewer (`jaxdyn.systems.weights`)."""
    riders = riders_of(topology, plan)
    every, solves = frozenset(riders), cost.SINGLE if single else cost.DOUBLE
    riding = {"LCABA": frozenset(), "ProxBBO": every, "Unified": riding_of(topology, riders)[1]}
    found = {name: mixture(topology, riders, ride, solves[ride == every])[0] for name, ride in riding.items()}
    moving = supports(topology, plan)
    moved = [(layout.rows, len(bodies)) for layout, bodies in zip(plan.layouts, moving, strict=True)]
    return found | {"ProxLTL": cost.sparse(saddle_fronts(topology, plan), topology, moved, solves[True])}


@tables
def _cheapest(topology: Topology, plan: Plan, single: bool) -> Solver:
    features = features_of(topology, plan, single)
    # in single precision riding rows are also more accurate: they need no advantage in cost
    name = cost.cheapest({name: cost.nanoseconds(f) for name, f in features.items()}, 1.0 if single else cost.GAIN)
    return {"LCABA": LCABA, "ProxBBO": ProxBBO, "Unified": Unified, "ProxLTL": ProxLTL}[name]()


class Auto(Solver):
    """The solver that suits the constraints: `ABA` if there are none, else the one of `LCABA`, `ProxBBO`, `Unified` and
    `ProxLTL` that the plan predicts to be fastest (`jaxdyn.systems.cost`); `LCABA` if links have no inertia of their
    own. Functions that take a solver use what `pick` returns."""

    def pick(self, topology, constraints, dtype=None) -> Solver:
        plan = plan_of(topology, constraints)
        if not plan.layouts:
            return ABA()
        # LCABA alone eliminates constraints before it divides by inertias
        single = jnp.dtype(jnp.result_type(float) if dtype is None else dtype) == jnp.float32
        return LCABA() if topology.singular else _cheapest(topology, plan, single)

    def solve(self, problem, start, warm, multipliers):
        picked = self.pick(problem.model.topology, problem.constraints, problem.q.dtype)
        return picked.solve(problem, start, warm, multipliers)
