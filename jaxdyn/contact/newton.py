"""`Newton`: a law solved to rounding by a few steps of Newton's method on the natural map, even if contacts jam.

With H, h, x of `tiled.py`, s = H x + h, and the law's projection P with its derivative D at x − s, a step solves

    (1 − D + D (H + ε 1)) Δx = P(x − s) − x.

With ε = 0 this is the method of Alart and Curnier (1991), which cycles if contacts jam and is singular if they are
redundant. Here ε is twice the residual of the law, up to a bound: each step is that of a robot with slightly soft
contacts, which harden as it converges. The bound grows with the steps, so that no cycle lasts. Steps are full, and the
best forces seen are returned. Sweeps of Gauss-Seidel come first, which bring most lanes (elements of the batch) near
the solution.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..spatial.options import check_number, check_positive_integer
from ..tree import square
from ..tree.tiles import WIDE
from ..tree.tiles import place as lower
from .cones import Cones, Counts, Limited, bounded
from .gauss_seidel import JOINTS, bounds
from .laws import PGS, TOLERANCE, Law
from .tiled import Tiled, flat, in_tiles, tiled

#: the least ε, in single and double precision
LEAST = {4: 1e-5, 8: 1e-9}
#: ε over the residual of the law, its bound, and the steps after which the bound has doubled; the diagonal of H is 1
SHARE, MOST, DOUBLED = 2.0, 2e-2, 8


class Newton(Law):
    """Gauss-Seidel, then Newton's method if that has not converged: exact also for contacts that jam and for feet with
    redundant contact points.

    **Arguments:** `tol`, of the law relative to the speeds at the contacts (None: 1e-9 in double, 1e-5 in single
    precision); `max_steps` of Newton's method; `sweeps` of Gauss-Seidel before it.
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
        x = PGS(self.sweeps).swept(problem, problem.start(f))
        return problem.forces(self._stepped(problem, x, tol))

    def _stepped(self, problem: Tiled, x: Array, tol: float) -> Array:
        step, least = _steps(problem), LEAST[x.dtype.itemsize]

        def once(carried):
            x, s, off, best, least_off, active, count = carried
            most = MOST * (1 + count.astype(x.dtype) / DOUBLED)
            x = jnp.where(active, x + step(x, s, jnp.clip(SHARE * off, least, most)), x)
            s = problem.answer(x)
            off = problem.left_of(x, s)
            better = active & (off < least_off)
            best, least_off = jnp.where(better, x, best), jnp.where(better, off, least_off)
            return x, s, off, best, least_off, active & (least_off > tol), count + 1

        s = problem.answer(x)
        off = problem.left_of(x, s)
        go_on = lambda c: c[-2].any() & (c[-1] < self.max_steps)  # noqa: E731
        return jax.lax.while_loop(go_on, once, (x, s, off, x, off, off > tol, jnp.asarray(0)))[3]


def _steps(problem: Tiled):
    """Return the function from (x, s, ε) to Δx; all are (rows, lanes), but ε is (lanes,)."""
    counts = problem.counts
    given = {"H": problem.H, **bounds(problem)}

    def step(x, s, ridge):
        fields = given | {"x": in_tiles(x), "s": in_tiles(s), "ridge": ridge[None]}
        return flat(swept(_table(counts), fields)["move"])

    return step


def _linearised(project, x, s):
    """Return P(x − s) − x, and D."""
    z = x - s
    units = jnp.broadcast_to(jnp.asarray(np.eye(WIDE), z.dtype)[..., None], (WIDE, *z.shape))
    D = jax.vmap(lambda unit: jax.jvp(project, (z,), (unit,))[1], out_axes=1)(units)
    return project(z) - x, D


def _touching(x, s, friction):
    none = friction[:0]
    cones = Cones(Counts(2), friction, none, Limited(none, none, none))
    return _linearised(lambda z: cones.project(z, jnp.ones_like(z)), x, s)


def _turning(places, x, s, radius, *pressed):
    """Return P(x − s) − x, and D, of rows that resist twisting, with bounds set by the present normal forces."""
    most = jnp.stack([r * jnp.maximum(f[k] - t[k], 0) for r, (f, t), k in zip(radius, pressed, places, strict=True)])
    return _linearised(lambda z: bounded(z, most), x, s)


def _held(x, s, *limited):
    return _linearised(Limited(*limited).project, x, s)


def _own(D, H, ridge):
    one = jnp.eye(WIDE, dtype=H.dtype)[..., None]
    return square.times(D, H + ridge * one) + one - D


def _back_across(D, H):
    return square.times(D, jnp.swapaxes(H, 0, 1))


@tables
def _table(counts: Counts) -> Table:
    n, (first, second) = counts.rows // WIDE, (x // WIDE for x in counts.ends)
    rows: list[Row] = []
    for k in range(n):
        own, made = (Ref("x", k), Ref("s", k)), (Ref("left", k), Ref("D", k))
        if k < first:
            rows.append(Row(Step(_touching), (*own, Ref("friction", k)), made))
        elif k < second:
            of = counts.twists[WIDE * (k - first) : WIDE * (k - first + 1)]
            pressed = [(Ref("x", c // 2), Ref("s", c // 2)) for c in of]
            step = Step(_turning, (tuple(3 * (c % 2) for c in of),))
            rows.append(Row(step, (*own, Ref("radius", k - first), *pressed), made))
        else:
            rows.append(Row(Step(_held), (*own, *(Ref(name, k - second) for name in JOINTS)), made))
        for j in range(n):
            D, to = Ref("D", k), Ref("A", square.place(n, k, j))
            if j == k:
                rows.append(Row(Step(_own), (D, Ref("H", lower(k, k)), Ref("ridge", 0)), to))
            elif j < k:
                rows.append(Row(Step(square.times), (D, Ref("H", lower(k, j))), to))
            else:
                rows.append(Row(Step(_back_across), (D, Ref("H", lower(j, k))), to))
    rows += square.solution(n, "A", "left", "move")
    return Table(rows, {"left": n, "D": n, "A": n * n, "move": n} | square.cells(n))
