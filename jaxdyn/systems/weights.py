"""The weight μ of proximal steps and penalties, and the sizes that it is made of."""

import jax.numpy as jnp
from jaxtyping import Array

from .problem import Problem

#: rows as long as a unit row between bodies some tens of centimetres apart, and how much longer ones count at most
USUAL, LONGEST = 4.0, 100.0


def automatic_weights(problem: Problem) -> Array:
    """μ of all rows (m, lanes) from the precision and the size of the inertia: so large that a step gains several
    digits, so small that μ JᵀJ leaves those of M. Measured on the benchmark systems: `docs/algorithms/lcaba.md`.

    All rows weigh the same, since rows that contradict each other meet at the point of least squares. What a long
    row, such as a coupling of 10 and −1, would take in single precision from the digits of a light rotor makes all of
    them lighter."""
    mu = _digits(problem, 3e3, 1e7) * _mean_mass(problem)
    if problem.rows is None:
        return jnp.zeros((0, mu.shape[-1]), mu.dtype)
    if problem.q.dtype == jnp.float64:  # has digits enough
        return uniform(problem, mu)
    longest = (problem.rows.squares() / 2).max(0)
    return uniform(problem, mu / jnp.clip(longest / USUAL, 1, LONGEST))


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
