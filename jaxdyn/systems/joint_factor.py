"""Damped systems in joint coordinates: sparse factors of [M Jᵀ; J −R] and of M + Jᵀ μ J; see `jaxdyn.tree.fronts`."""

import itertools
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..dynamics.crba import mass_matrix_at
from ..dynamics.rnea import joint_forces
from ..engine.core import widen
from ..engine.kept import tables
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
        return -self.factor.remainder(self.problem.model.nv)

    def inertia(self) -> Array:
        """Λ, the (damped) operational-space inertia: (m, m, lanes)."""
        return -self.factor.inverse(self.problem.model.nv)


class Blocks(NamedTuple):
    """The independent velocities as blocks, body by body: how many each has, which blocks move every body against its
    parent (those of a cluster move all of its bodies), pairs of blocks that the mass matrix couples, and an order,
    leaves first."""

    sizes: tuple[int, ...]
    movers: tuple[tuple[int, ...], ...]
    edges: frozenset[tuple[int, int]]
    order: tuple[int, ...]

    def velocities(self, blocks) -> list[int]:
        starts = (0, *itertools.accumulate(self.sizes))
        return [v for b in blocks for v in range(starts[b], starts[b + 1])]


@tables
def blocks_of(topology: Topology, cliques: frozenset[tuple[int, ...]] = frozenset()) -> Blocks:
    """The blocks of a tree, whose order keeps that of an elimination in which `cliques` of bodies are tied."""
    counts = [sum(v in topology.places for v in range(*topology.v_starts[b : b + 2])) for b in range(topology.nb)]
    bodies = [b for b, n in enumerate(counts) if n]
    number = {b: k for k, b in enumerate(bodies)}
    clusters = [tuple(number[b] for b in c.bodies if b in number) for c in topology.clusters]
    movers = tuple(
        clusters[topology.cluster_of[b]] if b in topology.cluster_of else (number[b],) for b in range(topology.nb)
    )
    supports = {frozenset(m for a in topology.ancestors(b) for m in movers[a]) for b in range(topology.nb)}
    edges = frozenset(pair for moving in supports for pair in itertools.combinations(sorted(moving), 2))
    when = {}
    for k, b in enumerate(bodies_of(elimination(topology, cliques))):
        when |= dict.fromkeys(movers[b], k)  # a cluster goes when the last of its bodies does
    order = tuple(sorted(range(len(bodies)), key=when.__getitem__))
    return Blocks(tuple(counts[b] for b in bodies), movers, edges, order)


def supports(topology: Topology, plan: Plan) -> list[tuple[int, ...]]:
    """By constraint, the blocks of velocities that move its rows."""
    movers = blocks_of(topology).movers
    return [tuple(sorted({m for b in bodies for m in movers[b]})) for bodies in _moving(topology, plan)]


def _moving(topology: Topology, plan: Plan) -> list[tuple[int, ...]]:
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
    moving, blocks = supports(topology, plan), blocks_of(topology)
    sizes, n = [*blocks.sizes, *(layout.rows for layout in plan.layouts)], len(blocks.sizes)
    edges = set(blocks.edges) | {(b, n + k) for k, bodies in enumerate(moving) for b in bodies}
    rows = range(n, len(sizes))
    if dense:
        edges |= set(itertools.combinations(rows, 2))
    return fronts(tuple(sizes), (*blocks.order, *rows), frozenset(edges), n)


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
    pattern = Pattern(problem.model.nv, plan.rows)
    factor = factorise_sparse(saddle_fronts(topology, plan, dense), _flat(*parts), pattern, compliance, least)
    return JointFactor(problem, factor, weights, True)


def penalised_factor(problem: Problem, weights: Array) -> JointFactor:
    """L D Lᵀ of M + Jᵀ μ J (lcaba_proxbbo, Eq. 15): the joints that move one constraint are all coupled."""
    topology, rows = problem.model.topology, problem.rows
    plan, nv = problem.plan, problem.model.nv
    moving = supports(topology, plan)
    blocks = blocks_of(topology, frozenset(_moving(topology, plan)))
    flat, edges = _flat(mass_matrix_at(problem.motion)), set(blocks.edges)
    if rows is not None:
        J = jacobian_at(problem.motion, rows)
        lanes = max(x.shape[-1] for x in (flat, J, weights))
        flat = widen(flat, lanes)
        for c, movers in enumerate(moving):
            v = np.asarray(blocks.velocities(movers))
            block = sum(weights[r][None, None] * J[r, v][:, None] * J[r, v][None] for r in plan.span(c))
            flat = flat.at[(v[:, None] * nv + v[None]).ravel()].add(widen(block.reshape(-1, block.shape[-1]), lanes))
            edges |= set(itertools.combinations(movers, 2))
    order = fronts(blocks.sizes, blocks.order, frozenset(edges), len(blocks.sizes))
    return JointFactor(problem, factorise_sparse(order, flat, Pattern(nv, 0), None), weights, False)
