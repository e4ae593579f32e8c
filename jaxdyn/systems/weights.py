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


#: rows whose squared length is off that of a unit row by less than this factor share one weight
EQUAL = 8.0


def _sizes(problem: Problem) -> Array:
    """The squared lengths of the rows beside those of a row between two bodies, 1 where they are about as long."""
    sizes = problem.rows.squares() / 2
    alike = (sizes < EQUAL) & (sizes * EQUAL > 1)
    return jnp.where(alike | (sizes == 0), 1, sizes)


def automatic_weights(problem: Problem) -> Array:
    """The weights of all rows (m, lanes): `automatic_weight`, but as much smaller or larger as rows are longer or
    shorter. A coupling of 10 and −1 would weigh a hundred times more than others, and round light rotors away."""
    mu = automatic_weight(problem)
    if problem.rows is None:
        return jnp.zeros((0, mu.shape[-1]), mu.dtype)
    return mu / _sizes(problem)


def farthest(problem: Problem, weights: Array) -> Array:
    """The longest conjugate step. An eigenvalue w of J M⁻¹ Jᵀ calls for 1 / (μ w); what is smaller than 1e-9 (single
    precision: 1e-7) over the mean mass counts as zero. Rows that are redundant where loops are closed have
    w of 1e-12 where the loops are open by a micrometre: resolving those would make forces of rounding errors."""
    weight = (weights * _sizes(problem)).max(0)
    return jnp.maximum(_digits(problem, 1e7, 1e9) * _mean_mass(problem) / weight, 1)


def uniform(problem: Problem, mu: Array) -> Array:
    """One weight for all rows: (m, lanes)."""
    rows = 0 if problem.rows is None else problem.rows.plan.rows
    return jnp.broadcast_to(mu, (rows, mu.shape[-1]))


def vanishing(problem: Problem) -> Array:
    """What rounding leaves of J M⁻¹ Jᵀ of a row that moves nothing, though it acts on bodies: (m, lanes)."""
    eps = jnp.finfo(problem.q.dtype).eps
    return (32 * eps) ** 2 * problem.rows.squares() / _mean_mass(problem)
