"""Damped systems in joint coordinates: sparse factors of [M Jᵀ; J −R] and of M + Jᵀ μ J; see `jaxdyn.tree.fronts`."""

import itertools
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..dynamics.crba import mass_matrix_of
from ..dynamics.jacobians import jacobian_of
from ..dynamics.rnea import forces_up
from ..engine.core import widen
from ..kinematics import rows as rw
from ..model.links import join_v, split_v
from ..tree.fronts import Front, Pattern, SparseFactor, factorise_sparse, fronts
from ..tree.plan import bodies_of, elimination
from ..tree.topology import Topology
from .damped import System, push, row_weights, vanishing, weighed
from .problem import Problem, accelerations_of


class JointSpace(System):
    """A factor in joint coordinates; `rows` tells whether those of the constraints are among its variables."""

    problem: Problem
    factor: SparseFactor
    weights: list[Array]
    rows: bool = eqx.field(static=True)

    def solve(self, tau, force, lam, r2):
        problem, topology = self.problem, self.problem.model.topology
        bundles, evaluated = problem.bundles, problem.evaluated
        push(problem, force, lam if self.rows else weighed(self.weights, lam, r2))
        links, coordinates = problem.links[::-1], [j.q for j in problem.joints[::-1]]
        b = join_v(topology, tau, problem.groups) - forces_up(problem.model, problem.fields, links, coordinates, force)
        if self.rows and bundles:
            m = sum(b.layout.rows * len(b.members) for b in bundles)
            right = jnp.zeros((m, 1), b.dtype) if r2 is None else rw.flatten(bundles, r2)
            lanes = max(b.shape[-1], right.shape[-1])
            b = jnp.concatenate([widen(b, lanes), widen(right, lanes)])
        found = self.factor.solve(b)
        x = split_v(topology, found[: topology.nv], problem.groups)
        accelerations = accelerations_of(problem, x)
        image = rw.times(bundles, evaluated, accelerations)
        if self.rows:
            y = [-v for v in rw.unflatten(bundles, found[topology.nv :])] if bundles else []
        else:
            left = [-i for i in image] if r2 is None else [r - i for r, i in zip(r2, image, strict=True)]
            y = [w * e for w, e in zip(self.weights, left, strict=True)]
        return x, accelerations, y, image

    def inverse_inertia(self) -> Array:
        """Λ⁻¹ = J M⁻¹ Jᵀ + R, the inverse of the (damped) operational-space inertia (proximal_ltl, Eqs. 20, 24):
        (m, m, lanes). It is there once the velocities have been eliminated."""
        return -self.factor.remainder(self.problem.model.topology.nv)

    def inertia(self) -> Array:
        """Λ, the (damped) operational-space inertia: (m, m, lanes)."""
        return -self.factor.inverse(self.problem.model.topology.nv)


def supports(topology: Topology, bundles: Sequence[rw.Bundle]) -> dict[int, tuple[tuple[int, ...], tuple[int, ...]]]:
    """By first row: a constraint's rows, and the bodies whose joints move them."""
    out = {}
    for bundle in bundles:
        for start, bodies in zip(bundle.starts, zip(*bundle.slots, strict=True), strict=True):
            below = [set(topology.ancestors(b)) for b in bodies]
            moving = set.union(*below)
            if bundle.layout.relative and len(bodies) > 1:
                moving -= set.intersection(*below)
            out[start] = tuple(range(start, start + bundle.layout.rows)), tuple(sorted(moving))
    return dict(sorted(out.items()))


def saddle_fronts(topology: Topology, bundles: Sequence[rw.Bundle], dense: bool = False) -> tuple[Front, ...]:
    """Fronts of [M Jᵀ; J −R]: bodies leaves first, then the constraints' rows, in their order. `dense` takes all rows
    for coupled, as the paper does; else those that no joint couples stay apart."""
    blocks = list(supports(topology, bundles).values())
    sizes = [k.nv for k in topology.kinds] + [len(rows) for rows, _ in blocks]
    edges = set(topology.related())
    edges |= {(b, topology.nb + k) for k, (_, bodies) in enumerate(blocks) for b in bodies}
    rows = range(topology.nb, len(sizes))
    if dense:
        edges |= set(itertools.combinations(rows, 2))
    order = (*bodies_of(elimination(topology, frozenset())), *rows)
    return fronts(tuple(sizes), order, frozenset(edges), topology.nb)


def _matrices(problem: Problem) -> tuple[Array, Array | None]:
    geometry = (problem.fields, problem.links[::-1], [j.q for j in problem.joints[::-1]])
    M = mass_matrix_of(problem.model, *geometry)
    if not problem.bundles:
        return M, None
    return M, jacobian_of(problem.model, problem.constraints, problem.q, problem.evaluated, *geometry)


def saddle_factor(problem: Problem, weights: list[Array], hard: bool = False, dense: bool = False) -> JointSpace:
    """U D Uᵀ of [M Jᵀ; J −1/μ] (proximal_ltl, section IV); `hard` leaves 1/μ out, `dense` is that of
    `saddle_fronts`."""
    topology = problem.model.topology
    M, J = _matrices(problem)
    parts, compliance, least = [M.reshape(-1, M.shape[-1])], None, None
    if J is not None:
        parts.append(J.reshape(-1, J.shape[-1]))
        compliance, least = (None, vanishing(problem)) if hard else (1 / row_weights(problem, weights), None)
    lanes = max(x.shape[-1] for x in parts)
    flat = jnp.concatenate([*(widen(x, lanes) for x in parts), jnp.zeros((1, lanes), M.dtype)])
    pattern = Pattern(topology.nv, 0 if J is None else J.shape[0])
    factor = factorise_sparse(saddle_fronts(topology, problem.bundles, dense), flat, pattern, compliance, least)
    return JointSpace(problem, factor, weights, True)


def penalised_factor(problem: Problem, weights: list[Array]) -> JointSpace:
    """L D Lᵀ of M + Jᵀ μ J (lcaba_proxbbo, Eq. 15): the joints that move one constraint are all coupled."""
    topology, bundles = problem.model.topology, problem.bundles
    M, J = _matrices(problem)
    flat, edges = M.reshape(-1, M.shape[-1]), set(topology.related())
    velocities = lambda bodies: [v for b in bodies for v in range(topology.v_starts[b], topology.v_starts[b + 1])]  # noqa: E731
    acting = supports(topology, bundles)
    if J is not None:
        weight = row_weights(problem, weights)
        lanes = max(x.shape[-1] for x in (flat, J, weight))
        flat = widen(flat, lanes)
        for rows, bodies in acting.values():
            v = np.asarray(velocities(bodies))
            block = sum(weight[r][None, None] * J[r, v][:, None] * J[r, v][None] for r in rows)
            flat = flat.at[(v[:, None] * topology.nv + v[None]).ravel()].add(
                widen(block.reshape(-1, block.shape[-1]), lanes)
            )
            edges |= {(a, b) for a in bodies for b in bodies if a < b}
    flat = jnp.concatenate([flat, jnp.zeros((1, flat.shape[-1]), flat.dtype)])
    cliques = frozenset(bodies for _, bodies in acting.values())
    leaves_first = bodies_of(elimination(topology, cliques))
    order = fronts(tuple(k.nv for k in topology.kinds), leaves_first, frozenset(edges), topology.nb)
    return JointSpace(problem, factorise_sparse(order, flat, Pattern(topology.nv, 0), None), weights, False)
