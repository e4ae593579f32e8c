"""Solvers in joint coordinates: sparse factors of the mass matrix and of its extensions by constraints
(see `jaxdyn.tree.fronts`).

| solver | what is factorised | source |
| --- | --- | --- |
| LTL | M = LᵀL leaves first, then J M⁻¹ Jᵀ | Featherstone, Rigid Body Dynamics Algorithms, 6.5 and 8.9 |
| LTLSoft | M, then J M⁻¹ Jᵀ + W⁻¹ | popov_vereshchagin, VI-A and its references |
| ProxLTL | U D Uᵀ of [M Jᵀ; J −1/μ] | proximal_ltl, Eqs. 18, 24 and section IV; lcaba_proxbbo, Eqs. 12, 13 |
| ProxLTLSoft | M + Jᵀ μ J | lcaba_proxbbo, Eqs. 14, 15 |

The order of elimination is that of U D Uᵀ from the last row upwards: joints leaves first, then multipliers, whose
block is then the (damped) Delassus matrix.
"""

from ..systems.joint_factor import penalised_factor, saddle_factor
from ..systems.weights import riding_weights
from .iterated import Direct, Proximal, Soft


class LTL(Direct):
    """Sparse factor of the mass matrix, then of the inverse operational-space inertia: any independent constraints.

    **Arguments:** `max_steps`, see `jaxdyn.extend.Direct`.
    """

    def system(self, problem, weights):
        return saddle_factor(problem, weights, hard=True)


class LTLSoft(Soft):
    """Soft Gauss principle by the sparse factor of the mass matrix: any constraints, with weights.

    **Arguments:** `weights`, `max_steps`, see `jaxdyn.extend.Soft`.
    """

    def system(self, problem, weights):
        return saddle_factor(problem, weights)


class ProxLTL(Proximal):
    """Proximal iterations with the sparse factor of the damped saddle-point matrix: any constraints, redundant ones
    too.

    **Arguments:** `mu`, `tol`, `max_steps`, `refine`, see `jaxdyn.extend.Proximal`.
    """

    penalised = staticmethod(penalised_factor)

    def weights(self, problem):
        return riding_weights(problem)

    def system(self, problem, weights):
        return saddle_factor(problem, weights)


class ProxLTLSoft(Proximal):
    """Proximal iterations with the sparse factor of the penalised mass matrix: any constraints, redundant ones too.

    **Arguments:** `mu`, `tol`, `max_steps`, `refine`, see `jaxdyn.extend.Proximal`.
    """

    def system(self, problem, weights):
        return penalised_factor(problem, weights)
