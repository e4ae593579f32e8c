"""The damped factor: M + μ JᵀJ, eliminated body by body, and the weight μ."""

import jax.numpy as jnp
from jaxtyping import Array

from ..dynamics.crba import rigid
from ..engine.kernel import kernel
from ..spatial.small import outer, summed
from ..tree.elimination import Articulated, Factor, factorise
from ..tree.field import Field
from ..tree.sweep import each
from .problem import Problem


def _products(mu, pairs):
    """μ Σ_r x_r y_rᵀ of each pair."""
    return tuple(mu * summed(outer(x[r], y[r]) for r in range(x.shape[0])) for x, y in pairs)


@kernel
def _tie_own(mu, ang, lin):
    """μ KᵀK as (A, C, M)."""
    return _products(mu, ((ang, ang), (ang, lin), (lin, lin)))


@kernel
def _tie_pair(mu, a, b, c, d):
    return _products(mu, ((a, c), (a, d), (b, c), (b, d)))


def automatic_weight(problem: Problem) -> Array:
    """μ (lanes,) from the precision and the size of the inertia: so large that a step gains several digits, so
    small that μ JᵀJ leaves those of M. Measured on the benchmark systems: `docs/algorithms/lcaba.md`."""
    return _digits(problem, 3e3, 1e7) * _mean_mass(problem)


def _digits(problem: Problem, single: float, double: float) -> float:
    return double if problem.q.dtype == jnp.float64 else single


def _mean_mass(problem: Problem) -> Array:
    return jnp.maximum(problem.model.bodies.mass.mean(0), 1e-3)


def farthest(problem: Problem, mu: Array) -> Array:
    """The longest conjugate step. An eigenvalue w of J M⁻¹ Jᵀ calls for 1 / (μ w); what is smaller than 1e-9 (single
    precision: 1e-7) over the mean mass counts as zero. Rows that are redundant where loops are closed have
    w of 1e-12 where the loops are open by a micrometre: resolving those would make forces of rounding errors."""
    return jnp.maximum(_digits(problem, 1e7, 1e9) * _mean_mass(problem) / mu, 1)


def penalised(problem: Problem, mu: Array) -> Factor:
    """The factor of M + μ JᵀJ; `mu` is (lanes,) or (1,)."""
    own, ties = Field(), Field()
    each(
        problem.groups,
        lambda g, _, link: own.add(g.nodes, rigid(link.mass, link.first, link.second)),
        {},
        problem.links,
    )
    for bundle, e in zip(problem.bundles, problem.evaluated, strict=True):
        K = e.rows.K
        for s, slot in enumerate(bundle.slots):
            own.add(slot, _tie_own(mu, *K[s]))
            for t in range(s + 1, len(K)):
                pairs = list(zip(slot, bundle.slots[t], strict=True))
                ties.add(pairs, _tie_pair(mu, *K[s], *K[t]))
    return factorise(problem.groups, problem.joints, Articulated(own, ties))
