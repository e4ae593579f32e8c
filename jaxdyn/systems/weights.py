"""The weight μ of proximal steps and penalties, and the thresholds for redundant rows."""

import jax.numpy as jnp
from jaxtyping import Array

from .problem import Problem

#: squared length of a unit row between bodies some tens of centimetres apart, and the most by which longer rows count
USUAL, LONGEST = 4.0, 100.0


def automatic_weights(problem: Problem) -> Array:
    """Return μ of all rows (m, lanes) for factors with penalties, from the precision and the mean mass: so large that a
    step gains several digits, so small that adding μ JᵀJ does not lose the digits of M. Measured on the benchmark
    systems: `docs/algorithms/lcaba.md`.

    All rows have the same weight, so that contradicting rows settle at the least-squares point. In single precision a
    long row, such as a coupling of 10 and −1, would cost a light rotor its digits; then the weight of all rows is
    reduced."""
    mu = _digits(problem, 3e3, 1e7) * _mean_mass(problem)
    if problem.rows is None:
        return jnp.zeros((0, mu.shape[-1]), mu.dtype)
    if problem.q.dtype == jnp.float64:  # enough digits for long rows
        return uniform(problem, mu)
    longest = (problem.rows.squares() / 2).max(0)
    return uniform(problem, mu / jnp.clip(longest / USUAL, 1, LONGEST))


def riding_weights(problem: Problem) -> Array:
    """Return μ of all rows (m, lanes) for factors in which all of them ride. No inertia contains a penalty there, and
    in single precision μ can be larger. In double precision it cannot: rows that are redundant where loops are closed
    would count where they are open by a micrometre."""
    return uniform(problem, _digits(problem, 1e5, 1e7) * _mean_mass(problem))


def _digits(problem: Problem, single: float, double: float) -> float:
    return double if problem.q.dtype == jnp.float64 else single


def _mean_mass(problem: Problem) -> Array:
    return jnp.maximum(problem.model.bodies.mass.mean(0), 1e-3)


def mobility(problem: Problem) -> Array:
    """Return the size (lanes,) that entries of J M⁻¹ Jᵀ have where rows move bodies: 1 over the mean mass."""
    return 1 / _mean_mass(problem)


def redundant(problem: Problem) -> Array:
    """Return the eigenvalue of J M⁻¹ Jᵀ (lanes,) up to which it counts as zero: 1e-9 (single precision: 1e-7) over the
    mean mass. Rows that are redundant where loops are closed have one of 1e-12 where the loops are open by a
    micrometre: resolving it would turn rounding errors into forces."""
    return 1 / (_digits(problem, 1e7, 1e9) * _mean_mass(problem))


def uniform(problem: Problem, mu: Array) -> Array:
    """Return the weight `mu` for all rows: (m, lanes)."""
    rows = 0 if problem.rows is None else problem.rows.plan.rows
    return jnp.broadcast_to(mu, (rows, mu.shape[-1]))


def vanishing(problem: Problem) -> Array:
    """Return the rounding error of J M⁻¹ Jᵀ for rows that act on bodies but move nothing, (m, lanes)."""
    eps = jnp.finfo(problem.q.dtype).eps
    return (32 * eps) ** 2 * problem.rows.squares() / _mean_mass(problem)
