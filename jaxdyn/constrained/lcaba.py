"""LCABA: the loop-constrained articulated-body algorithm (Sathya and Carpentier 2025, lcaba_proxbbo).

Constraints enter as penalties μ KᵢᵀKⱼ between the bodies that they tie (Eqs. 22 to 24). Bodies are eliminated leaves
first in a minimum-degree order, each tying its neighbours to each other (Eqs. 25 to 31, see `jaxdyn.tree.elimination`).
Proximal iterations reuse the factor through the reduced two-sweep form (Alg. 2, 3, see `jaxdyn.constrained.proximal`).
Without constraints this is Featherstone's articulated-body algorithm. If all constraints are to the ground, it is the
constrained ABA (Sathya and Carpentier, IEEE T-RO 41, 2025), and its first iterate solves the soft Gauss principle
(popov_vereshchagin, Eq. 52).
"""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from ..spatial.options import check_positive_integer
from ..systems.body_factor import tied_factor
from ..systems.weights import automatic_weights
from ..tree.order import elimination
from .base import Solver, name_of
from .iterated import Proximal, Soft
from .iteration import Stop
from .proximal import iterate


def damped(problem):
    """Return the factor of M + Jᵀ μ J with the automatic weight, in LCABA's order."""
    return tied_factor(problem, automatic_weights(problem))


def free(problem, start):
    """Return what a solve without constraints finds."""
    alone = problem._replace(constraints=(), rows=None)
    return iterate(damped(alone), start._replace(rows=None), None, Stop(0.0, 1))


def _steps(problem) -> int:
    """Return the number of solves that the precision needs: two in single precision for linkages and chains of belts,
    else one."""
    topology = problem.model.topology
    linked = any(len(c.bodies) - len(c.rotors) > len(c.independent) for c in topology.clusters)
    return 2 if (linked or topology.wide_in_series > 2) and problem.q.dtype == jnp.float32 else 1


class ABA(Solver):
    """The articulated-body algorithm: forward dynamics of trees, also with embedded loops, without constraints.

    **Arguments:** `max_steps`, the number of solves: 1, plus one for every refinement by the residual. None: 2 in
    single precision for embedded linkages and chains of belts, which lose digits in one solve, else 1.
    """

    max_steps: int | None = eqx.field(static=True, default=None)

    recursive: ClassVar[bool] = True

    def __check_init__(self):
        check_positive_integer(self, "max_steps", optional=True)

    def check(self, call, topology, constraints):
        if constraints:
            raise ValueError(
                f"{call}: `ABA` takes no constraints, and {name_of(constraints[0], 0)} is one. "
                "Use `jd.solvers.LCABA()`, or leave `constraints=()`."
            )

    def factorised(self, problem):
        return damped(problem)

    def solve(self, problem, start, warm, multipliers):
        steps = _steps(problem) if self.max_steps is None else self.max_steps
        return iterate(damped(problem), start, None, Stop(0.0, steps, plain=True))._replace(some=None)


class LCABA(Proximal):
    """Loop-constrained articulated-body algorithm: any constraints, redundant ones too.

    **Arguments:** `mu`, `tol`, `max_steps`, `refine`, see `jaxdyn.extend.Proximal`.
    """

    recursive: ClassVar[bool] = True

    def order(self, topology, plan):
        return elimination(topology, plan.cliques)

    def system(self, problem, weights):
        return tied_factor(problem, weights)


class ConstrainedABA(Proximal):
    """Constrained articulated-body algorithm: constraints to the ground, redundant ones too, in O(n + m).

    **Arguments:** `mu`, `tol`, `max_steps`, `refine`, see `jaxdyn.extend.Proximal`.
    """

    recursive: ClassVar[bool] = True

    grounded: ClassVar[bool] = True

    def system(self, problem, weights):
        return tied_factor(problem, weights)


class PVSoft(Soft):
    """Soft Gauss principle by articulated bodies, in O(n + m): constraints to the ground, with weights.

    **Arguments:** `weights`, `max_steps`, see `jaxdyn.extend.Soft`.
    """

    recursive: ClassVar[bool] = True

    grounded: ClassVar[bool] = True

    def system(self, problem, weights):
        return tied_factor(problem, weights)
