"""PVEarly: the Popov-Vereshchagin solver with early elimination of the multipliers, O(n + m) (Sathya et al. 2024,
popov_vereshchagin, section VIII; Householder form Eqs. 65 to 68, see `jaxdyn.tree.early`)."""

from typing import ClassVar

import jax.numpy as jnp

from ..systems.body_factor import BodyFactor, every_constraint
from ..tree.early import early, early_elimination, factorise_early
from ..tree.plan import Plan
from ..tree.topology import Topology, refuse_clusters
from .iterated import Proximal


def _given(topology: Topology, plan: Plan) -> list[list[int]]:
    """Return the rows of constraints on every body."""
    out: list[list[int]] = [[] for _ in range(topology.nb)]
    for c in range(len(plan)):
        (body,) = plan.bodies(c)
        out[body] += plan.span(c)
    return out


class PVEarly(Proximal):
    """Popov-Vereshchagin solver with early elimination: constraints to the ground, redundant ones too, in O(n + m).

    **Arguments:** `mu`, `tol`, `max_steps`, `refine`, see `jaxdyn.extend.Proximal`.
    """

    grounded: ClassVar[bool] = True

    def check(self, call, topology, constraints):
        super().check(call, topology, constraints)
        refuse_clusters(type(self).__name__, call, topology, "jd.solvers.ProxBBO()")

    def system(self, problem, weights):
        model, rows = problem.model, problem.rows
        plan = problem.plan
        given = _given(model.topology, plan)
        carried = early(model.topology, tuple(map(len, given)))
        cell = {row: carried.starts[b] + k for b, at in enumerate(given) for k, row in enumerate(at)}
        # a constraint has one body, so its coefficients are in the order of its rows
        places = tuple(cell[r] for r in range(plan.rows))
        compliance = 1 / weights[:1] if rows is not None else jnp.ones((1, 1), problem.q.dtype)
        K = None if rows is None else rows.K
        tables = early_elimination(model.topology, carried)
        factor = factorise_early(
            tables, problem.motion.inertia, model.joints.armature, problem.motion.joints, K, places, compliance
        )
        return BodyFactor(problem, factor, weights, every_constraint(problem))
