"""Alternating directions: a law that is solved to a tolerance where contacts jam.

The problem and the steps are those of Carpentier et al., From Compliant to Rigid Contact Simulation (2024), which
Pinocchio has as `ADMMContactSolver`: with G and g scaled by contact, a penalty ρ and a proximal weight η,

    y = P(x − z / ρ),    (G + (η + ρ) 1) x' = ρ y + η x + z − g − shift(z),    z' = z − ρ (x' − y).

Two things differ: sweeps of Gauss-Seidel come first, which settle most lanes alone and bring the others near, and ρ
is balanced a few times, between rounds of steps that share one factor.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..constrained.iterated import check_number, check_positive_integer
from ..engine.core import widen
from ..spatial.small import summed
from ..tree import panels
from .cones import Cones, calling, left_over, product, scales
from .laws import PGS, Law

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
        lanes = max(x.shape[-1] for x in (G, g, f))
        G, g = widen(G, lanes), widen(g, lanes)
        f = PGS(self.sweeps).solve(G, g, cones, f)
        off = left_over(cones, G, g, f)
        active = off > tol
        found = jax.lax.cond(active.any(), lambda: self._alternated(G, g, cones, f, active, tol), lambda: f)
        better = active & (left_over(cones, G, g, found) < off)
        return jnp.where(better, found, f)

    def _alternated(self, G: Array, g: Array, cones: Cones, f: Array, active: Array, tol: float) -> Array:
        d = jnp.sqrt(scales(cones.counts, G))
        scaled = _scaled(cones, d)
        H, h, x = G * d[:, None] * d[None], g * d, f / d
        problem = _Problem(H, h, scaled, PROXIMAL[g.dtype.itemsize], tol * jnp.maximum(calling(cones.counts, h), 1e-30))
        z = product(H, x) + h
        none = jnp.zeros_like(active, g.dtype)
        state = (x, x, z + scaled.shift(z), none, none, active), problem.penalty()

        def round_(carried):
            state, rho, count = carried
            state = problem.steps(state, rho, -(-self.max_steps // ROUNDS))
            x, _, z, primal, dual, active = state
            tiny = jnp.finfo(g.dtype).tiny
            sizes = (jnp.maximum(jnp.abs(v).max(0), tiny) for v in (z, x))
            ratio = primal * next(sizes) / jnp.maximum(dual * next(sizes), tiny)
            change = jnp.clip(jnp.sqrt(ratio), 1 / CHANGE, CHANGE)
            return state, jnp.where(active, rho * change, rho), count + 1

        go_on = lambda s: s[0][-1].any() & (s[2] < ROUNDS)  # noqa: E731
        (x, _, z, *_), rho, _ = jax.lax.while_loop(go_on, round_, (*state, 0))
        return scaled.nearest(x - z / rho) * d


def _scaled(cones: Cones, d: Array) -> Cones:
    """The cones of forces over d; those of contacts stay as they are."""
    (first, second, third), twists = cones.counts.ends, jnp.asarray(cones.counts.twists, int)
    radius = cones.radius * d[:first:3][twists] / d[first:second] if len(twists) else cones.radius
    bound = cones.bound / d[second:third] if cones.counts.bounded else cones.bound
    return Cones(cones.counts, cones.friction, radius, bound)


class _Problem:
    """Steps of one scaled problem that share η and the tolerance."""

    def __init__(self, H: Array, h: Array, cones: Cones, eta: float, tol: Array):
        self.H, self.h, self.cones, self.eta, self.tol = H, h, cones, eta, tol

    def penalty(self) -> Array:
        """ρ = (L η)^½ (L / η)^⅕ with the largest eigenvalue L (lanes,)."""
        m = len(self.h)
        x = jnp.asarray(np.random.default_rng(1).normal(size=(m, 1)), self.h.dtype)  # no vector of a symmetric box
        for _ in range(POWERS):
            y = product(self.H, x)
            length = jnp.sqrt(summed(v * v for v in y))
            x = y / length
        return jnp.sqrt(1.1 * length * self.eta) * (1.1 * length / self.eta) ** 0.2

    def steps(self, state, rho: Array, most: int):
        """The state after at most so many steps with one ρ: x, y, z, what is left of both, and who goes on."""
        m = len(self.h)
        A = self.H + (self.eta + rho) * jnp.eye(m, dtype=self.h.dtype)[..., None]
        _, inverse, below, _ = panels.eliminate(A, m, lambda k, d, _: 1 / d)
        inverse, below = jnp.stack(inverse), jnp.concatenate(below)

        def step(carried):
            (x, y, z, primal, dual, active), count = carried
            y1 = self.cones.nearest(x - z / rho)
            x1 = panels.solve(inverse, below, rho * y1 + self.eta * x + z - self.h - self.cones.shift(z))
            z1 = z - rho * (x1 - y1)
            off = jnp.abs(x1 - y1).max(0), jnp.abs(rho * (y1 - y) + self.eta * (x1 - x)).max(0)
            made = [jnp.where(active, a, b) for a, b in zip((x1, y1, z1, *off), (x, y, z, primal, dual), strict=True)]
            return (*made, active & ~((off[0] <= self.tol) & (off[1] <= self.tol))), count + 1

        go_on = lambda s: s[0][-1].any() & (s[1] < most)  # noqa: E731
        return jax.lax.while_loop(go_on, step, (state, 0))[0]
