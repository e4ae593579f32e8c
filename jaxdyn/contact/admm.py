"""`ADMM`: a contact law solved to a tolerance by the alternating direction method of multipliers, even if contacts jam.

The problem and the steps are those of Carpentier et al., From Compliant to Rigid Contact Simulation (2024), which
Pinocchio implements as `ADMMContactSolver`: with G and g scaled by contact, a penalty ρ and a proximal weight η,

    y = P(x − z / ρ),    (G + (η + ρ) 1) x' = ρ y + η x + z − g − shift(z),    z' = z − ρ (x' − y).

Two things differ. First, sweeps of Gauss-Seidel come before, which already solve most lanes (elements of the batch) and
bring the others near the solution. Second, ρ is balanced a few times, between rounds of steps that share one factor.
Without a matrix (`effect.py`) there are no sweeps, because updating one row would cost as much as updating all.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..spatial.instances import check_flag
from ..spatial.options import check_number, check_positive_integer
from .effect import Unformed
from .gauss_seidel import prepared
from .laws import FORMED, PGS, TOLERANCE, Law
from .tiled import Scaled, free, tiled

#: proximal weight, in single and double precision
PROXIMAL = {4: 1e-5, 8: 1e-6}
#: number of rounds with a constant ρ, and the largest factor by which ρ changes between rounds
ROUNDS, CHANGE = 4, 10.0
#: number of power iterations for the largest eigenvalue
POWERS = 4


class ADMM(Law):
    """Gauss-Seidel, then alternating directions if that has not converged: exact also for contacts that jam and for
    feet with redundant contact points.

    **Arguments:** `tol`, of the law relative to the speeds at the contacts (None: 1e-9 in double, 1e-5 in single
    precision); `max_steps` of alternating directions; `sweeps` of Gauss-Seidel before them, if there is a matrix;
    `matrix_free`: do not form G, but apply it and its damped inverses by sweeps over the robot (None: if there are more
    than 200 rows).
    """

    tol: float | None = eqx.field(static=True, default=None)
    max_steps: int = eqx.field(static=True, default=200)
    sweeps: int = eqx.field(static=True, default=50)
    matrix_free: bool | None = eqx.field(static=True, default=None)

    def __check_init__(self):
        check_number("ADMM", "tol", self.tol, lambda x: x >= 0, "a number from 0 on", optional=True)
        check_positive_integer(self, "max_steps")
        check_positive_integer(self, "sweeps")
        if self.matrix_free is not None:
            check_flag("`ADMM`", "matrix_free", self.matrix_free)

    def without_matrix(self, rows):
        return rows > FORMED if self.matrix_free is None else self.matrix_free

    def solve(self, G, g, cones, f):
        tol = TOLERANCE[g.dtype.itemsize] if self.tol is None else self.tol
        if isinstance(G, Unformed):
            problem = free(G, g, cones)
            x = problem.start(f)
        else:
            problem = tiled(G, g, cones)
            x = PGS(self.sweeps).swept(problem, prepared(problem), problem.start(f))
        off = problem.left_over(x)
        active = off > tol
        found = jax.lax.cond(active.any(), lambda: self._alternated(problem, x, active, tol), lambda: x)
        better = active & (problem.left_over(found) < off)
        return problem.forces(jnp.where(better, found, x))

    def _alternated(self, problem: Scaled, x: Array, active: Array, tol: float) -> Array:
        h = problem.h
        steps = _Steps(problem, PROXIMAL[h.dtype.itemsize], tol)
        z = problem.answer(x)
        none = jnp.zeros_like(active, h.dtype)
        state = (x, x, z + problem.cones.shift(z), none, none, active), steps.penalty()

        def round_(carried):
            state, rho, count = carried
            state = steps.taken(state, rho, -(-self.max_steps // ROUNDS))
            x, _, z, primal, dual, active = state
            tiny = jnp.finfo(h.dtype).tiny
            sizes = (jnp.maximum(jnp.abs(v).max(0), tiny) for v in (z, x))
            ratio = primal * next(sizes) / jnp.maximum(dual * next(sizes), tiny)
            change = jnp.clip(jnp.sqrt(ratio), 1 / CHANGE, CHANGE)
            return state, jnp.where(active, rho * change, rho), count + 1

        go_on = lambda s: s[0][-1].any() & (s[2] < ROUNDS)  # noqa: E731
        (x, _, z, *_), rho, _ = jax.lax.while_loop(go_on, round_, (*state, 0))
        return problem.cones.nearest(x - z / rho, 1 / rho)


class _Steps(NamedTuple):
    """The ADMM steps of one problem, which share η and the tolerance."""

    problem: Scaled
    eta: float
    tol: float

    def penalty(self) -> Array:
        """Return ρ = (L η)^½ (L / η)^⅕ (lanes,), where L is the largest eigenvalue of H."""
        x = np.random.default_rng(1).normal(size=(len(self.problem.h), 1))  # no eigenvector of a symmetric box
        x = jnp.broadcast_to(jnp.asarray(x, self.problem.h.dtype), self.problem.h.shape)
        length = jnp.ones(x.shape[-1], x.dtype)
        for _ in range(POWERS):
            y = self.problem.product(x)
            length = jnp.sqrt((y * y).sum(0))
            x = y / length
        return jnp.sqrt(1.1 * length * self.eta) * (1.1 * length / self.eta) ** 0.2

    def taken(self, state, rho: Array, most: int):
        """Return the state after at most `most` steps with one ρ: x, y, z, the primal and the dual residual, relative
        to the measures of rows, and which lanes go on."""
        h, cones, solve = self.problem.h, self.problem.cones, self.problem.solver(self.eta + rho)

        def step(carried):
            (x, y, z, primal, dual, active), count = carried
            y1 = cones.nearest(x - z / rho, 1 / rho)
            x1 = solve(rho * y1 + self.eta * x + z - h - cones.shift(z))
            z1 = z - rho * (x1 - y1)
            left = x1 - y1, rho * (y1 - y) + self.eta * (x1 - x)
            off = [(jnp.abs(v) * self.problem.over).max(0) for v in left]
            made = [jnp.where(active, a, b) for a, b in zip((x1, y1, z1, *off), (x, y, z, primal, dual), strict=True)]
            return (*made, active & ~((off[0] <= self.tol) & (off[1] <= self.tol))), count + 1

        go_on = lambda s: s[0][-1].any() & (s[1] < most)  # noqa: E731
        return jax.lax.while_loop(go_on, step, (state, 0))[0]
