"""`Dense`: the reference solver, by factorisations of whole matrices.

With M = L Lᵀ, the singular values of J L⁻ᵀ = U Σ Vᵀ (a complete orthogonal decomposition, which separates redundant
rows from independent ones), y = L⁻¹ r1, and Uᵣ, Σᵣ, Vᵣ of the numerical rank,

    λ = Uᵣ Σᵣ⁻² Uᵣᵀ (r2 − J L⁻ᵀ y),    q̈ = L⁻ᵀ (y + Vᵣ Σᵣ⁻¹ Uᵣᵀ (r2 − J L⁻ᵀ y)).
"""

from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from ..dynamics.crba import mass_matrix_at
from ..engine.core import widen
from ..kinematics.embedding import jacobian_at
from ..spatial.options import check_number
from ..systems.problem import right_sides
from .apart import apart
from .base import Found, Solver


class Dense(Solver):
    """Forward dynamics from the dense mass matrix and Jacobian: any constraints, O(n³ + m n²).

    **Arguments:** `rcond`, the ratio to the largest singular value below which a direction of the rows counts as
    redundant. None: 1e-6 in double, 3e-4 in single precision.
    """

    factorises: ClassVar[bool] = True
    rcond: float | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_number("Dense", "rcond", self.rcond, lambda x: 0 < x < 1, "a number between 0 and 1", optional=True)

    def solve(self, problem, start, warm, multipliers):
        q = problem.q
        M, r1, rows, J = apart(_matrices, (), problem, start, compiler=problem.model.compiler)
        lanes = M.shape[-1]
        M = jnp.moveaxis(M, -1, 0)
        L = jnp.linalg.cholesky(M)
        y = solve_triangular(L, widen(r1, lanes).T[..., None], lower=True)
        steps = jnp.ones((lanes,), jnp.int32)
        if rows is None:
            qdd = solve_triangular(L, y, lower=True, trans=1)[..., 0].T
            return Found(qdd, jnp.zeros((0, lanes), qdd.dtype), steps)
        r2 = jnp.moveaxis(widen(rows, lanes), -1, 0)[..., None]
        A = solve_triangular(L, jnp.swapaxes(jnp.moveaxis(widen(J, lanes), -1, 0), 1, 2), lower=True)
        A = jnp.swapaxes(A, 1, 2)
        # a lane of NaN must not keep the decomposition of the others from converging
        sound = jnp.isfinite(A).all((1, 2), keepdims=True)
        U, s, Vt = jnp.linalg.svd(jnp.where(sound, A, 0), full_matrices=False)
        rcond = self.rcond or (1e-6 if q.dtype == jnp.float64 else 3e-4)
        keep = s > rcond * s.max(-1, keepdims=True)
        inverse = jnp.where(keep, 1 / jnp.where(keep, s, 1), 0)[..., None]
        part = inverse * (jnp.swapaxes(U, 1, 2) @ (r2 - A @ y))
        lam = jnp.where(sound, U @ (inverse * part), jnp.nan)
        qdd = solve_triangular(L, y + jnp.swapaxes(Vt, 1, 2) @ part, lower=True, trans=1)
        return Found(jnp.where(sound, qdd, jnp.nan)[..., 0].T, lam[..., 0].T, steps)


def _matrices(problem, start):
    """Return M, r1, r2 and J; the last two are None without constraints."""
    r1, rows = right_sides(problem, start)
    M = mass_matrix_at(problem.motion)
    return M, r1, rows, None if rows is None else jacobian_at(problem.motion, problem.rows)
