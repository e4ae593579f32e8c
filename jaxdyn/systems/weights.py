"""The weight μ of proximal steps and penalties, and the sizes that it is made of."""

import jax.numpy as jnp
from jaxtyping import Array

from .problem import Problem


def automatic_weight(problem: Problem) -> Array:
    """μ (lanes,) from the precision and the size of the inertia: so large that a step gains several digits, so
    small that μ JᵀJ leaves those of M. Measured on the benchmark systems: `docs/algorithms/lcaba.md`."""
    return _digits(problem, 3e3, 1e7) * _mean_mass(problem)


def _digits(problem: Problem, single: float, double: float) -> float:
    return double if problem.q.dtype == jnp.float64 else single


def _mean_mass(problem: Problem) -> Array:
    return jnp.maximum(problem.model.bodies.mass.mean(0), 1e-3)


def farthest(problem: Problem, weights: Array) -> Array:
    """The longest conjugate step. An eigenvalue w of J M⁻¹ Jᵀ calls for 1 / (μ w); what is smaller than 1e-9 (single
    precision: 1e-7) over the mean mass counts as zero. Rows that are redundant where loops are closed have
    w of 1e-12 where the loops are open by a micrometre: resolving those would make forces of rounding errors."""
    return jnp.maximum(_digits(problem, 1e7, 1e9) * _mean_mass(problem) / weights.max(0), 1)


def uniform(problem: Problem, mu: Array) -> Array:
    """One weight for all rows: (m, lanes)."""
    rows = 0 if problem.rows is None else problem.rows.plan.rows
    return jnp.broadcast_to(mu, (rows, mu.shape[-1]))


def vanishing(problem: Problem) -> Array:
    """What rounding leaves of J M⁻¹ Jᵀ of a row that moves nothing, though it acts on bodies: (m, lanes)."""
    eps = jnp.finfo(problem.q.dtype).eps
    return (32 * eps) ** 2 * problem.rows.squares() / _mean_mass(problem)
