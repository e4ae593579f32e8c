"""Methods in joint coordinates: `Dense`, the reference, and `LTL`.

With M = L D Lᵀ and Y = D^(-1/2) L⁻¹ Jᵀ, G = Yᵀ Y. Rows that hold (index h) remove their directions from Y: with the
orthogonal projector P onto the range of Y_h, G = Y_cᵀ (1 − P) Y_c. (A Schur complement of G would need the Gram matrix
of Y_h, which has only half of the digits.)
"""

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from ..dynamics.constraint_terms import rows_jacobian
from ..dynamics.crba import mass_matrix, mass_matrix_at
from ..engine.kept import tables
from ..engine.lanes import laned
from ..kinematics.embedding import jacobian_at
from ..kinematics.rows import plan_of
from ..systems.joint_factor import flat, saddle_fronts
from ..systems.problem import problem_of
from ..tree.fronts import Pattern, bordered, columns, factorise_sparse
from ..tree.topology import Topology
from .base import Given
from .explicit import Explicit, projected


def _gram(given: Given, Y):
    held = Y.shape[1] - given.rows
    left = projected(Y[:, :held], Y[:, held:])
    return left.T @ left


class Dense(Explicit):
    """J M⁻¹ Jᵀ by the Cholesky factor of the dense mass matrix, O(n³ + n²m + n m²): the reference. It takes any
    constraints."""

    def matrix(self, given):
        L = jnp.linalg.cholesky(laned(mass_matrix)(given.model, given.q))
        J = laned(rows_jacobian)(given.model, given.constraints, given.q)
        return _gram(given, solve_triangular(L, J.T, lower=True))


@tables
def _fronts(topology: Topology, plan):
    return bordered(saddle_fronts(topology, plan), len(topology.independent))


@tables
def _places(topology: Topology, plan) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices of the nonzero entries of Y, and for each the index of its pivot in D and of its entry in the
    factor's l."""
    nv, entries, pivots, places = len(topology.independent), [], [], []
    for pivot, (v, below, at) in enumerate(columns(_fronts(topology, plan))):
        for k, u in enumerate(below):
            if u >= nv:
                entries.append(v * plan.rows + u - nv)
                pivots.append(pivot)
                places.append(at + k)
    return np.asarray(entries), np.asarray(pivots), np.asarray(places)


def _factor(given: Given):
    """Return 1 / D and the columns of L, with the rows of J below those of M."""
    problem = problem_of(given.model, given.constraints, given.q)
    topology, plan = given.model.topology, problem.plan
    entries = flat(mass_matrix_at(problem.motion), jacobian_at(problem.motion, problem.rows))
    factor = factorise_sparse(_fronts(topology, plan), entries, Pattern(given.model.nv, plan.rows), None, None)
    return factor.D, factor.l


class LTL(Explicit):
    """LTL-OSIM: the sparse factor of the mass matrix, leaves first, with the rows of J as its last columns
    (Featherstone, Exploiting sparsity in operational-space dynamics, 2010; popov_vereshchagin, section II-C;
    proximal_ltl, IV), O(n d² + m d² + n m²). It takes any constraints."""

    def matrix(self, given):
        D, l = laned(_factor)(given)
        plan = plan_of(given.model.topology, given.constraints)
        entries, pivots, below = _places(given.model.topology, plan)
        values = l[below] * jnp.sqrt(1 / D)[pivots]
        Y = jnp.zeros(given.model.nv * plan.rows, D.dtype).at[entries].set(values, unique_indices=True)
        return _gram(given, Y.reshape(given.model.nv, plan.rows))
