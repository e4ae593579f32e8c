"""Alternating directions: a law that is solved to a tolerance where contacts jam.

The problem and the steps are those of Carpentier et al., From Compliant to Rigid Contact Simulation (2024), which
Pinocchio has as `ADMMContactSolver`: with G and g scaled by contact, a penalty ρ and a proximal weight η,

    y = P(x − z / ρ),    (G + (η + ρ) 1) x' = ρ y + η x + z − g − shift(z),    z' = z − ρ (x' − y).

Two things differ: sweeps of Gauss-Seidel come first, which settle most lanes alone and bring the others near, and ρ
is balanced a few times, between rounds of steps that share one factor.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..constrained.iterated import check_number, check_positive_integer
from ..tree import tiles
from .cones import Cones, calling
from .laws import PGS, Law
from .tiled import Tiled, flat, tiled

#: tolerance and proximal weight, in single and double precision
TOLERANCE, PROXIMAL = {4: 1e-5, 8: 1e-9}, {4: 1e-5, 8: 1e-6}
#: rounds in which ρ is the same, and by how much it changes at most
ROUNDS, CHANGE = 4, 10.0
#: power iterations towards the largest eigenvalue
POWERS = 4


class ADMM(Law):
    """Gauss-Seidel, then alternating directions where that has not settled: exact also for contacts that jam and feet
    that stand on more points than they need.

    **Arguments:** `tol`, of the law relative to the speeds at the contacts (None: 1e-9 in double, 1e-5 in single
    precision); `max_steps` of alternating directions; `sweeps` of Gauss-Seidel before.
    """

    tol: float | None = eqx.field(static=True, default=None)
    max_steps: int = eqx.field(static=True, default=200)
    sweeps: int = eqx.field(static=True, default=50)

    def __check_init__(self):
        check_number("ADMM", "tol", self.tol, lambda x: x >= 0, "a number from 0 on", optional=True)
        check_positive_integer(self, "max_steps")
        check_positive_integer(self, "sweeps")

    def solve(self, G, g, cones, f):
        tol = TOLERANCE[g.dtype.itemsize] if self.tol is None else self.tol
        problem = tiled(G, g, cones)
        x = PGS(self.sweeps).swept(problem, problem.filled.vector(f) / problem.d)
        off = problem.left_over(x)
        active = off > tol
        found = jax.lax.cond(active.any(), lambda: self._alternated(problem, x, active, tol), lambda: x)
        better = active & (problem.left_over(found) < off)
        return problem.filled.numbers(jnp.where(better, found, x) * problem.d)

    def _alternated(self, problem: Tiled, x: Array, active: Array, tol: float) -> Array:
        H, h, cones = problem.H, problem.h, problem.cones
        least = tol * jnp.maximum(calling(problem.filled.counts, flat(h)), 1e-30)
        steps = _Steps(H, h, cones, PROXIMAL[h.dtype.itemsize], least)
        z = problem.answer(x)
        none = jnp.zeros_like(active, h.dtype)
        state = (x, x, z + steps.shift(z), none, none, active), steps.penalty()

        def round_(carried):
            state, rho, count = carried
            state = steps.taken(state, rho, -(-self.max_steps // ROUNDS))
            x, _, z, primal, dual, active = state
            tiny = jnp.finfo(h.dtype).tiny
            sizes = (jnp.maximum(jnp.abs(v).max((0, 1)), tiny) for v in (z, x))
            ratio = primal * next(sizes) / jnp.maximum(dual * next(sizes), tiny)
            change = jnp.clip(jnp.sqrt(ratio), 1 / CHANGE, CHANGE)
            return state, jnp.where(active, rho * change, rho), count + 1

        go_on = lambda s: s[0][-1].any() & (s[2] < ROUNDS)  # noqa: E731
        (x, _, z, *_), rho, _ = jax.lax.while_loop(go_on, round_, (*state, 0))
        return steps.nearest(x - z / rho)


class _Steps(NamedTuple):
    """Steps of one problem, in tiles, that share η and the tolerance."""

    H: Array
    h: Array
    cones: Cones
    eta: float
    tol: Array

    def nearest(self, x: Array) -> Array:
        return self.cones.nearest(flat(x)).reshape(x.shape)

    def shift(self, z: Array) -> Array:
        return self.cones.shift(flat(z)).reshape(z.shape)

    def penalty(self) -> Array:
        """ρ = (L η)^½ (L / η)^⅕ with the largest eigenvalue L (lanes,)."""
        x = np.random.default_rng(1).normal(size=(*self.h.shape[:2], 1))  # no vector of a symmetric box
        x = jnp.broadcast_to(jnp.asarray(x, self.h.dtype), self.h.shape)
        length = jnp.ones(self.h.shape[-1], self.h.dtype)
        for _ in range(POWERS):
            y = tiles.product(self.H, x)
            length = jnp.sqrt((y * y).sum((0, 1)))
            x = y / length
        return jnp.sqrt(1.1 * length * self.eta) * (1.1 * length / self.eta) ** 0.2

    def taken(self, state, rho: Array, most: int):
        """The state after at most so many steps with one ρ: x, y, z, what is left of both, and who goes on."""
        factor = tiles.factorise(self.H, self.eta + rho)

        def step(carried):
            (x, y, z, primal, dual, active), count = carried
            y1 = self.nearest(x - z / rho)
            x1 = tiles.solve(factor, rho * y1 + self.eta * x + z - self.h - self.shift(z))
            z1 = z - rho * (x1 - y1)
            off = jnp.abs(x1 - y1).max((0, 1)), jnp.abs(rho * (y1 - y) + self.eta * (x1 - x)).max((0, 1))
            made = [jnp.where(active, a, b) for a, b in zip((x1, y1, z1, *off), (x, y, z, primal, dual), strict=True)]
            return (*made, active & ~((off[0] <= self.tol) & (off[1] <= self.tol))), count + 1

        go_on = lambda s: s[0][-1].any() & (s[1] < most)  # noqa: E731
        return jax.lax.while_loop(go_on, step, (state, 0))[0]
