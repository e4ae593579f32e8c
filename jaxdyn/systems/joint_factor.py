"""Damped systems in joint coordinates: sparse factors of [M Jᵀ; J −R] and of M + Jᵀ μ J; see `jaxdyn.tree.fronts`."""

import itertools

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..dynamics.crba import mass_matrix_at
from ..dynamics.rnea import joint_forces
from ..engine.core import widen
from ..kinematics.embedding import body_rates, jacobian_at
from ..tree.fronts import Front, Pattern, SparseFactor, factorise_sparse, fronts
from ..tree.plan import bodies_of, elimination
from ..tree.rows import Plan
from ..tree.topology import Topology
from .base import System
from .problem import Problem
from .weights import vanishing


class JointFactor(System):
    """A factor in joint coordinates; `rows` tells whether those of the constraints are among its variables."""

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
            lanes = max(b.shape[-1], right.shape[-1])
            b = jnp.concatenate([widen(b, lanes), widen(right, lanes)])
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
        """Λ⁻¹ = J M⁻¹ Jᵀ + R, the inverse of the (damped) operational-space inertia (proximal_ltl, Eqs. 20, 24):
        (m, m, lanes). It is there once the velocities have been eliminated."""
        return -self.factor.remainder(self.problem.model.topology.nv)

    def inertia(self) -> Array:
        """Λ, the (damped) operational-space inertia: (m, m, lanes)."""
        return -self.factor.inverse(self.problem.model.topology.nv)


def supports(topology: Topology, plan: Plan) -> list[tuple[int, ...]]:
    """By constraint, the bodies whose joints move its rows."""
    out = []
    for layout in plan.layouts:
        below = [set(topology.ancestors(b)) for b in layout.bodies]
        moving = set.union(*below)
        if layout.relative and len(below) > 1:
            moving -= set.intersection(*below)
        out.append(tuple(sorted(moving)))
    return out


def saddle_fronts(topology: Topology, plan: Plan, dense: bool = False) -> tuple[Front, ...]:
    """Fronts of [M Jᵀ; J −R]: bodies leaves first, then the constraints' rows, in their order. `dense` takes all rows
    for coupled, as the paper does; else those that no joint couples stay apart."""
    moving = supports(topology, plan)
    sizes = [k.nv for k in topology.kinds] + [layout.rows for layout in plan.layouts]
    edges = set(topology.related())
    edges |= {(b, topology.nb + k) for k, bodies in enumerate(moving) for b in bodies}
    rows = range(topology.nb, len(sizes))
    if dense:
        edges |= set(itertools.combinations(rows, 2))
    order = (*bodies_of(elimination(topology, frozenset())), *rows)
    return fronts(tuple(sizes), order, frozenset(edges), topology.nb)


def _flat(*parts: Array) -> Array:
    """The entries of matrices one after the other, and a zero."""
    lanes = max(x.shape[-1] for x in parts)
    flat = [widen(x.reshape(-1, x.shape[-1]), lanes) for x in parts]
    return jnp.concatenate([*flat, jnp.zeros((1, lanes), flat[0].dtype)])


def saddle_factor(problem: Problem, weights: Array, hard: bool = False, dense: bool = False) -> JointFactor:
    """U D Uᵀ of [M Jᵀ; J −1/μ] (proximal_ltl, section IV); `hard` leaves 1/μ out, `dense` is that of
    `saddle_fronts`."""
    topology, rows = problem.model.topology, problem.rows
    parts, compliance, least = [mass_matrix_at(problem.motion)], None, None
    if rows is not None:
        parts.append(jacobian_at(problem.motion, rows))
        compliance, least = (None, vanishing(problem)) if hard else (1 / weights, None)
    plan = problem.plan
    pattern = Pattern(topology.nv, plan.rows)
    factor = factorise_sparse(saddle_fronts(topology, plan, dense), _flat(*parts), pattern, compliance, least)
    return JointFactor(problem, factor, weights, True)


def penalised_factor(problem: Problem, weights: Array) -> JointFactor:
    """L D Lᵀ of M + Jᵀ μ J (lcaba_proxbbo, Eq. 15): the joints that move one constraint are all coupled."""
    topology, rows = problem.model.topology, problem.rows
    flat, edges = _flat(mass_matrix_at(problem.motion)), set(topology.related())
    velocities = lambda bodies: [v for b in bodies for v in range(topology.v_starts[b], topology.v_starts[b + 1])]  # noqa: E731
    plan = problem.plan
    moving = supports(topology, plan)
    if rows is not None:
        J = jacobian_at(problem.motion, rows)
        lanes = max(x.shape[-1] for x in (flat, J, weights))
        flat = widen(flat, lanes)
        for c, bodies in enumerate(moving):
            v = np.asarray(velocities(bodies))
            block = sum(weights[r][None, None] * J[r, v][:, None] * J[r, v][None] for r in plan.span(c))
            flat = flat.at[(v[:, None] * topology.nv + v[None]).ravel()].add(
                widen(block.reshape(-1, block.shape[-1]), lanes)
            )
            edges |= {(a, b) for a in bodies for b in bodies if a < b}
    leaves_first = bodies_of(elimination(topology, frozenset(moving)))
    order = fronts(tuple(k.nv for k in topology.kinds), leaves_first, frozenset(edges), topology.nb)
    return JointFactor(problem, factorise_sparse(order, flat, Pattern(topology.nv, 0), None), weights, False)
