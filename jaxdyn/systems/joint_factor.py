"""Damped systems in joint coordinates: sparse factors of [M Jᵀ; J −R] and of M + Jᵀ μ J; see `jaxdyn.tree.fronts`."""

import itertools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..dynamics.crba import mass_matrix_at
from ..dynamics.rnea import joint_forces
from ..engine.core import joined, lanes_of, widen
from ..kinematics.embedding import body_rates, jacobian_at
from ..tree.blocks import blocks_of, dragging, moving
from ..tree.fronts import Front, Pattern, SparseFactor, factorise_sparse, fronts
from ..tree.plan import Plan
from ..tree.topology import Topology
from .base import System
from .problem import Problem
from .weights import vanishing


class JointFactor(System):
    """A factor in joint coordinates; `rows` is True if the constraint multipliers are among its variables."""

    problem: Problem
    factor: SparseFactor
    weights: Array
    rows: bool = eqx.field(static=True)

    def solve(self, tau, force, r2):
        problem, rows = self.problem, self.problem.rows
        if rows is not None and not self.rows and r2 is not None:
            force = rows.forces(-self.weights * r2, force)
        b = tau - joint_forces(problem.motion, force)
        nv = b.shape[0]
        if self.rows and rows is not None:
            right = jnp.zeros((rows.plan.rows, 1), b.dtype) if r2 is None else r2
            lanes = lanes_of(b, right)
            b = jnp.concatenate(widen([b, right], lanes))
        found = self.factor.solve(b)
        x = found[:nv]
        moved = body_rates(problem.motion, x)
        if rows is None:
            return x, moved, None, None
        image = rows.times(moved)
        if self.rows:
            return x, moved, -found[nv:], image
        return x, moved, self.weights * (-image if r2 is None else r2 - image), image

    def inverse_inertia(self) -> Array:
        """Return Λ⁻¹ = J M⁻¹ Jᵀ + R (m, m, lanes), the inverse of the (damped) operational-space inertia (proximal_ltl,
        Eqs. 20, 24). Eliminating the velocities leaves it in the rows."""
        return -self.factor.remainder(self.problem.model.nv)

    def inertia(self) -> Array:
        """Return Λ, the (damped) operational-space inertia: (m, m, lanes)."""
        return -self.factor.inverse(self.problem.model.nv)


def supports(topology: Topology, plan: Plan) -> list[tuple[int, ...]]:
    """Return, by constraint, the blocks of velocities that move its rows."""
    movers = blocks_of(topology).movers
    return [tuple(sorted({m for b in bodies for m in movers[b]})) for bodies in dragging(topology, plan)]


def saddle_fronts(topology: Topology, plan: Plan, dense: bool = False) -> tuple[Front, ...]:
    """Return the fronts of [M Jᵀ; J −R]: bodies from the leaves, then the constraints' rows, in their order. If
    `dense`, all rows count as coupled, as in the paper; else rows that no joint couples stay separate."""
    supported, blocks = supports(topology, plan), blocks_of(topology)
    sizes, n = [*blocks.sizes, *(layout.rows for layout in plan.layouts)], len(blocks.sizes)
    edges = set(blocks.edges) | {(b, n + k) for k, bodies in enumerate(supported) for b in bodies}
    rows = range(n, len(sizes))
    if dense:
        edges |= set(itertools.combinations(rows, 2))
    return fronts(tuple(sizes), (*blocks.order, *rows), frozenset(edges), n)


def flat(*parts: Array) -> Array:
    """Return the entries of the matrices one after the other, followed by a zero."""
    return joined([*(x.reshape(-1, x.shape[-1]) for x in parts), jnp.zeros((1, 1), parts[0].dtype)])


def saddle_factor(problem: Problem, weights: Array, hard: bool = False, dense: bool = False) -> JointFactor:
    """Return U D Uᵀ of [M Jᵀ; J −1/μ] (proximal_ltl, section IV). If `hard`, omit 1/μ; `dense` is passed to
    `saddle_fronts`."""
    topology, rows = problem.model.topology, problem.rows
    parts, compliance, least = [mass_matrix_at(problem.motion)], None, None
    if rows is not None:
        parts.append(jacobian_at(problem.motion, rows))
        compliance, least = (None, vanishing(problem)) if hard else (1 / weights, None)
    plan = problem.plan
    pattern = Pattern(problem.model.nv, plan.rows)
    factor = factorise_sparse(saddle_fronts(topology, plan, dense), flat(*parts), pattern, compliance, least)
    return JointFactor(problem, factor, weights, True)


def penalised_factor(problem: Problem, weights: Array) -> JointFactor:
    """Return L D Lᵀ of M + Jᵀ μ J (lcaba_proxbbo, Eq. 15), where all joints that move one constraint are coupled."""
    topology, rows = problem.model.topology, problem.rows
    plan, nv = problem.plan, problem.model.nv
    supported = supports(topology, plan)
    blocks = blocks_of(topology, frozenset(moving(topology, plan)))
    M, edges = flat(mass_matrix_at(problem.motion)), set(blocks.edges)
    if rows is not None:
        J = jacobian_at(problem.motion, rows)
        lanes = lanes_of(M, J, weights)
        M = widen(M, lanes)
        for c, movers in enumerate(supported):
            v = np.asarray(blocks.velocities(movers))
            block = sum(weights[r][None, None] * J[r, v][:, None] * J[r, v][None] for r in plan.span(c))
            M = M.at[(v[:, None] * nv + v[None]).ravel()].add(widen(block.reshape(-1, block.shape[-1]), lanes))
            edges |= set(itertools.combinations(movers, 2))
    order = fronts(blocks.sizes, blocks.order, frozenset(edges), len(blocks.sizes))
    return JointFactor(problem, factorise_sparse(order, M, Pattern(nv, 0), None), weights, False)
