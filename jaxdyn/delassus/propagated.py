"""`KJR` and `EFPA`: methods that propagate inverse inertias of bodies from the root; see `jaxdyn.tree.propagation`."""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np

from ..engine.core import at_or_zero
from ..engine.kept import tables
from ..engine.lanes import laned
from ..engine.sweeps import swept
from ..kinematics.rows import plan_of
from ..systems.body_factor import body_factor
from ..systems.problem import problem_of
from ..tree.order import elimination
from ..tree.plan import Plan
from ..tree.propagation import propagation_of
from ..tree.topology import Topology, refuse_clusters
from .base import Given, refuse_held
from .explicit import Explicit


def _fields(extended: bool, given: Given) -> dict:
    """Return the results of the sweeps: `U` of the joints, `omega` of the bodies, and the fields of
    `Propagation.between`."""
    problem = problem_of(given.model, given.constraints, given.q)
    topology = given.model.topology
    alone = problem._replace(constraints=(), rows=None)
    weights = jnp.zeros((0, 1), given.q.dtype)
    factor = body_factor(alone, elimination(topology, frozenset()), weights, frozenset()).factor
    tables = propagation_of(topology, problem.plan, extended)
    found = {"U": factor.parts["U"]}
    fields = problem.motion.joints | found
    omega = swept(tables.omega, fields) if tables.omega.rows else {}
    between = swept(tables.between, fields | omega | {"K": problem.rows.K}) if tables.size else {}
    return found | omega | between


def _blocks(extended: bool, given: Given):
    """Return the cells (entries by number) of G."""
    return _fields(extended, given).get("G", jnp.zeros((0, 1), given.q.dtype))


@tables
def _places(topology: Topology, plan: Plan, extended: bool) -> np.ndarray:
    """Return the cell of every entry of G (m, m), one beyond the last for a zero entry."""
    made = propagation_of(topology, plan, extended)
    return plan.placed(made.at, made.size)


class _Propagated(Explicit):
    extended: ClassVar[bool]

    def check(self, call, topology, held, asked):
        refuse_held(self, call, held)
        refuse_clusters(type(self).__name__, call, topology, "jd.osim.MatrixFree()")

    def matrix(self, given):
        cells = laned(_blocks, self.extended)(given)
        plan = plan_of(given.model.topology, given.constraints)
        return at_or_zero(cells, _places(given.model.topology, plan, self.extended))


class KJR(_Propagated):
    """The algorithm of Kreutz-Delgado, Jain and Rodriguez (1992): inverse inertias between bodies, as 6x6 matrices,
    along the path of every pair of bodies, O(n + m² d). It takes any constraints, but none that hold."""

    extended: ClassVar[bool] = False


class EFPA(_Propagated):
    """The extended-force-propagator algorithm (Chang and Khatib 2001; Wensing, Featherstone and Orin 2012): rows ride
    (are propagated) up to the common ancestor of two bodies and meet its inverse inertia there, O(n + m d + m²). It
    takes any constraints, but none that hold."""

    extended: ClassVar[bool] = True
