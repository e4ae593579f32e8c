"""`Newton`: a law solved to rounding by a few steps of Newton's method on the natural map, even if contacts jam.

With H, h, x of `tiled.py`, s = H x + h, and the law's projection P with its derivative D at x − s, a step solves

    (1 − D + D (H + ε 1)) Δx = P(x − s) − x.

With ε = 0 this is the method of Alart and Curnier (1991), which cycles if contacts jam and is singular if they are
redundant. Here each step is that of a robot with slightly soft contacts, which harden as it converges: ε is a share of
the residual of the law. In each lane (element of the batch) the share finds its own size, as in the method of Levenberg
and Marquardt: it doubles where a step brings no residual below the least so far, which ends most cycles, and shrinks
where steps approach the solution slowly. Steps are full, and the best forces seen are returned. A lane whose residual
comes to rest near the tolerance, as rounding makes it do in single precision, ends there. Sweeps of Gauss-Seidel
come first, which bring most lanes near the solution.

Where there are at least as many rows of joints as of contacts, contacts are solved first, with the forces of joints
held: if these then fulfil their law, because no limit is reached, nothing more is to be done.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..spatial.options import check_number, check_positive_integer
from .gauss_seidel import prepared, without_joints
from .laws import PGS, TOLERANCE, Law
from .newton_step import newton_step
from .tiled import Tiled, flat, in_tiles, tiled

#: the least ε, in single and double precision
LEAST = {4: 3e-5, 8: 1e-9}
#: the share of the residual of the law that ε is at first; its factors after steps that find no residual below the
#: least so far, and after those that find one above HALF of it; its bounds; the residual beyond which ε does not grow
SHARE, MORE, LESS, HALF, SHARES, MOST = 1.0, 2.0, 0.5, 0.5, (2e-3, 16.0), 1e-2
#: a lane ends near the tolerance, within this factor, after a step that does not halve the residual
NEAR = 10
#: number of contacts up to which joints that rub are solved with them at once: their forces change in most batches
FEW = 4


class Newton(Law):
    """Gauss-Seidel, then Newton's method if that has not converged: exact also for contacts that jam and for feet with
    redundant contact points.

    **Arguments:** `tol`, of the law relative to the speeds at the contacts (None: 1e-9 in double, 1e-5 in single
    precision), up to ten times as much where a step no longer halves what is left; `max_steps` of Newton's method;
    `sweeps` of Gauss-Seidel before it.
    """

    tol: float | None = eqx.field(static=True, default=None)
    max_steps: int = eqx.field(static=True, default=24)
    sweeps: int = eqx.field(static=True, default=25)

    def __check_init__(self):
        check_number("Newton", "tol", self.tol, lambda x: x >= 0, "a number from 0 on", optional=True)
        check_positive_integer(self, "max_steps")
        check_positive_integer(self, "sweeps")

    def solve(self, G, g, cones, f):
        tol = TOLERANCE[g.dtype.itemsize] if self.tol is None else self.tol
        problem = tiled(G, g, cones)
        counts, x, active = problem.counts, problem.start(f), True
        end, given = counts.ends[1], prepared(problem)
        if 0 < end <= counts.joints and (counts.contacts > FEW or not counts.rub):
            x = PGS(1).swept(problem, given, x)
            h = without_joints(counts, problem.H, in_tiles(problem.h), in_tiles(x))
            x = jnp.concatenate([self._solved(problem.of_contacts(flat(h)), given, x[:end], True, tol), x[end:]])
            active = problem.left_over(x) > tol
        return problem.forces(self._solved(problem, given, x, active, tol))

    def _solved(self, problem: Tiled, given, x: Array, active: Array | bool, tol: float) -> Array:
        return self._stepped(problem, PGS(self.sweeps).swept(problem, given, x, active), tol)

    def _stepped(self, problem: Tiled, x: Array, tol: float) -> Array:
        step, minimum = newton_step(problem), LEAST[x.dtype.itemsize]

        def once(carried):
            x, s, off, best, least, share, mark, active, count = carried
            ridge = jnp.maximum(share * jnp.minimum(off, MOST), minimum)
            x = jnp.where(active, x + step(x, s, ridge), x)
            s = problem.answer(x)
            off = problem.left_of(x, s)
            better = active & (off < least)
            factor = jnp.where(off < HALF * least, 1, jnp.where(better, LESS, MORE))
            best, least = jnp.where(better, x, best), jnp.where(better, off, least)
            share = jnp.clip(factor * share, *SHARES)
            halved = least < HALF * mark
            active &= (least > tol) & (halved | (least >= NEAR * tol))
            return x, s, off, best, least, share, jnp.where(halved, least, mark), active, count + 1

        s = problem.answer(x)
        off = problem.left_of(x, s)
        begun = x, s, off, x, off, jnp.full_like(off, SHARE), off, off > tol, jnp.asarray(0)
        return jax.lax.while_loop(lambda c: c[-2].any() & (c[-1] < self.max_steps), once, begun)[3]
