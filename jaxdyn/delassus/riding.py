"""Methods whose rows ride up the tree and are kept: `PV` and `PVFast`.

In the elimination of `jaxdyn.tree.elimination`, rows that ride leave L_cd + R_c R_dᵀ / D of every column of a joint. At
the world, that is G = J M⁻¹ Jᵀ (popov_vereshchagin, section VII and Alg. 2). The paper has constraints to the ground;
rows on several bodies ride from each of them, and where two ways meet their coefficients add up.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag, cho_solve
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.lanes import laned
from ..kinematics.rows import plan_of
from ..systems.body_factor import body_factor
from ..systems.problem import problem_of
from ..systems.weights import automatic_weights
from ..tree.elimination import Elimination, elimination_of
from ..tree.plan import Joint, Order, Rider, elimination
from ..tree.rows import Plan
from ..tree.topology import Topology
from .base import Given, Method
from .explicit import Explicit

#: eigenvalues of μ J_h M_μ⁻¹ J_hᵀ, which are 1 for rows that hold and 0 for redundant ones, that count as zero
REDUNDANT = {4: 1e-3, 8: 1e-6}


@tables
def _order(topology: Topology, plan: Plan, held: int, open_base: bool) -> Order:
    """All rows ride; the first `held` constraints are penalties as well. An open base is not eliminated."""
    riders = tuple(Rider(c, tuple(plan.span(c)), tuple(plan.bodies(c)), kept=True) for c in range(len(plan)))
    cliques = frozenset(tuple(sorted(plan.bodies(c))) for c in range(held))
    order = elimination(topology, cliques, riders)
    bases = set(_bases(topology)) if open_base else set()
    return tuple(x for x in order if not (isinstance(x, Joint) and x.body in bases))


@tables
def _bases(topology: Topology) -> tuple[int, ...]:
    """Roots with six freedoms."""
    return tuple(b for b, kind in enumerate(topology.kinds) if topology.parents[b] < 0 and kind.nv == 6)


def _factor(held: int, open_base: bool, given: Given):
    """The cells of L, of the rows' coefficients, and of what is added to the inertias; own inertias; μ."""
    problem = problem_of(given.model, given.constraints, given.q)
    order = _order(given.model.topology, problem.plan, held, open_base)
    mu = automatic_weights(problem)[:1]
    weights = jnp.broadcast_to(mu, (problem.plan.rows, mu.shape[-1]))
    rides = frozenset(range(len(problem.plan)))
    factor = body_factor(problem, order, weights, rides, penalised=tuple(range(held))).factor
    return factor.parts, problem.motion.inertia, mu


@tables
def _tables(topology: Topology, plan: Plan, held: int, open_base: bool) -> Elimination:
    return elimination_of(topology, plan, _order(topology, plan, held, open_base), tuple(range(held)), False)


@tables
def _places(topology: Topology, plan: Plan, held: int, open_base: bool) -> np.ndarray:
    """The cell of L of every entry of G, one beyond the last where there is none: (m, m)."""
    made = _tables(topology, plan, held, open_base)
    size = made.cells["L"].size
    out = np.full((plan.rows, plan.rows), size)
    for c in range(len(plan)):
        for d in range(c, len(plan)):
            start = made.block(c, d)
            if start is not None:
                n, k = len(plan.span(c)), len(plan.span(d))
                block = start + np.arange(n * k).reshape(n, k)
                out[np.ix_(plan.span(c), plan.span(d))] = block
                out[np.ix_(plan.span(d), plan.span(c))] = block.T
    return out


def _gathered(given: Given, parts, held: int, open_base: bool) -> Array:
    """L as a matrix."""
    plan = plan_of(given.model.topology, given.constraints)
    places = _places(given.model.topology, plan, held, open_base)
    L = parts["L"] if "L" in parts else jnp.zeros((0,), given.q.dtype)
    L = jnp.concatenate([L, jnp.zeros((1,), L.dtype)])[places]
    i, j = np.triu_indices(plan.rows, 1)  # blocks on the diagonal are symmetric but for rounding
    return L.at[j, i].set(L[i, j])


class PV(Explicit):
    """PV-OSIM: all rows ride to the world, O(n + m² d) (popov_vereshchagin, Alg. 2): any constraints.

    Constraints that hold enter as penalties μ, and ride as well: a small dense system of their rows takes away what the
    compliance 1/μ has left.
    """

    def matrix(self, given):
        held = len(given.held)
        parts, _, mu = laned(_factor, held, False)(given)
        G = _gathered(given, parts, held, False)
        n = G.shape[0] - given.rows
        if not n:
            return G
        S = mu * G[:n, :n]
        inverse = jnp.linalg.pinv((S + S.T) / 2, rtol=REDUNDANT[S.dtype.itemsize], hermitian=True)
        return G[n:, n:] - mu * G[n:, :n] @ inverse @ G[:n, n:]
