"""The factor of a damped system, eliminated body by body; see `jaxdyn.tree.elimination`.

The multipliers of a constraint are either eliminated first, which leaves the penalised M + Jᵀ μ J, or its rows *ride*:
they are carried up the tree with the bodies, and their multipliers are eliminated later."""

from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..tree import panels
from ..tree.early import EarlyFactor
from ..tree.elimination import elimination_of
from ..tree.factor import Factor, factorise
from ..tree.order import Order, elimination
from ..tree.plan import Plan
from .base import System
from .problem import Problem
from .weights import vanishing


class BodyFactor(System):
    """A damped system eliminated body by body. `riding` are the constraints whose rows ride up the tree (ProxBBO, PV);
    the others couple bodies by penalties, M + Jᵀ μ J (LCABA)."""

    judges: ClassVar[bool] = True

    problem: Problem
    factor: Factor | EarlyFactor
    weights: Array
    riding: frozenset[int] = eqx.field(static=True)

    def solve(self, tau, force, r2):
        rows = self.problem.rows
        if rows is None:
            x, accelerations, _ = self.factor.solve(tau, force, None)
            return x, accelerations, None, None
        rides = self._rides()
        if r2 is not None and not rides.all():
            pulled = self.weights * r2
            force = rows.forces(-jnp.where(rides, 0, pulled) if rides.any() else -pulled, force)
        right = None
        if self.riding:
            right = jnp.zeros((rows.plan.rows, 1), tau.dtype) if r2 is None else r2
        x, accelerations, nu = self.factor.solve(tau, force, right)
        image = rows.times(accelerations)
        y = self.weights * (-image if r2 is None else r2 - image)
        return x, accelerations, y if nu is None else jnp.where(rides, -nu, y), image

    def _rides(self) -> np.ndarray:
        """Return the mask of the rows that ride, (m, 1)."""
        plan = self.problem.rows.plan
        return np.array([[c in self.riding] for c in range(len(plan)) for _ in plan.span(c)])


def every_constraint(problem: Problem) -> frozenset[int]:
    """Return the numbers of all constraints."""
    return frozenset(range(len(problem.constraints)))


def body_factor(
    problem: Problem,
    order: Order,
    weights: Array,
    riding: frozenset[int],
    rule: Callable = panels.damped,
    penalised: tuple[int, ...] | None = None,
    apart: bool = False,
    later: bool = False,
) -> BodyFactor:
    """Factorise [M Jᵀ; J −1/μ] in the given order. `rule` (`panels.py`) gives 1 / D of riding rows from 1/μ, or, if it
    is `panels.hard`, from the rounding error of a row that moves nothing (`vanishing`). `penalised` are the constraints
    that enter as penalties: by default those that do not ride. If `apart`, L does not couple the kept rows of different
    constraints. If `later`, rows that are kept do not ride yet where that is possible, see `Factor.ridden`."""
    model, rows, motion = problem.model, problem.rows, problem.motion
    plan = problem.plan
    if penalised is None:
        penalised = tuple(c for c in range(len(plan)) if c not in riding)
    armature = model.joints.armature + _stiffened(plan, penalised, weights, model.topology.nv)
    tables = elimination_of(model.topology, plan, order, tying(plan, penalised), rule, apart, later)
    compliance = None
    if riding:
        compliance = vanishing(problem) if rule is panels.hard else 1 / weights
    K = None if rows is None else rows.K
    factor = factorise(tables, motion.inertia, armature, motion.driven, K, weights, compliance)
    return BodyFactor(problem, factor, weights, riding)


def tied_factor(problem: Problem, weights: Array) -> BodyFactor:
    """Return the factor of M + Jᵀ μ J, in which every constraint ties its bodies."""
    order = elimination(problem.model.topology, problem.plan.cliques)
    return body_factor(problem, order, weights, frozenset())


def tying(plan: Plan, constraints: Sequence[int]) -> tuple[int, ...]:
    """Return those constraints whose penalties act on bodies, not on single joint velocities."""
    return tuple(c for c in constraints if not plan.layouts[c].velocities)


def cliques_of(plan: Plan, constraints: Sequence[int]) -> frozenset[tuple[int, ...]]:
    """Return the sets of bodies that the penalties of the given constraints couple."""
    return frozenset(tuple(sorted(plan.bodies(c))) for c in tying(plan, constraints))


def _stiffened(plan: Plan, constraints: Sequence[int], weights: Array, nv: int) -> Array | float:
    """Return the penalties of rows that are single joint velocities, as armature (nv, lanes)."""
    own = [c for c in constraints if plan.layouts[c].velocities]
    if not own:
        return 0.0
    at = np.asarray([v for c in own for v in plan.layouts[c].velocities])
    rows = np.asarray([r for c in own for r in plan.span(c)])
    return jnp.zeros((nv, weights.shape[-1]), weights.dtype).at[at].add(weights[rows])
