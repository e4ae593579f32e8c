"""The solution of a step's equations with its law.

One pass solves the law on top of the factor. If loops are penalties, there are several passes: each solves the law
again for the whole forces f, from the residual of the passes before, so that contact becomes exact together with the
loops.

On trees, contact rows ride only where they are needed: after the bodies, and if some lane of a group may touch. All
other lanes move without contact first; if the law does not hold for that motion, contact rows ride for them too.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..constrained.iteration import Stop, loop
from ..constrained.proximal import At, Iteration
from ..engine.core import joined, lanes_of, widen
from ..systems.base import System
from ..systems.problem import Problem, given_accelerations, left_over, still
from ..tree.factor import Factor, kept_of
from .cones import Cones
from .effect import Unformed, diagonal, product
from .immovable import borne, movable, parting
from .laws import Law
from .problem import Eliminated, Kept, Step, eliminated

#: number of passes if loops are penalties, in single and double precision: eliminated loops are exact after one
PASSES = {4: 3, 8: 6}
#: m/s² or rad/s² (m/s or rad/s in an impact): rows on which forces must act after such a change may touch. Only last
#: bits, and how often rows ride, depend on it
ALERT = 1e3


class Ridden(NamedTuple):
    """What is known where contact rows have ridden: the `diagonal` of G, which contacts and joints `moves`
    (contacts + joints, lanes), and the `effect` G f of the contact forces (m, lanes)."""

    diagonal: Array
    moves: Array
    effect: Array


class Solved(NamedTuple):
    """The solution of a step: the point `at`, what is `left` of its rows (r2), the number of `steps`, and what is known
    from rows that have `ridden`. `judge` is the factor with constant contact forces."""

    at: At
    left: Array
    steps: Array
    ridden: Ridden
    judge: System


def solved(step: Step, law: Law, warm: Array | None) -> Solved:
    """Return the solution of a step, starting from the forces `warm` (rows, lanes)."""
    factor, first = eliminated(step, law), step.first
    guess = jnp.zeros((step.cones.counts.rows, 1), step.problem.q.dtype) if warm is None else warm[first:]
    if factor.factor.tables.later:
        return _OnDemand(step, law, factor, guess).solved()
    kept, compliance = factor.kept(), joined([jnp.zeros((first, 1), guess.dtype), step.compliance])
    moves = movable(step, kept)
    none = jnp.zeros_like(guess)
    given = step.problem, kept.weights, kept, law, step.cones, moves
    system = _Lawful(*given, none, None if kept.penalised else guess)
    stop = Stop(0.0, PASSES[guess.dtype.itemsize] if kept.penalised else 1, plain=True)
    passes = _Passes(system, step.start, warm if kept.penalised else None, stop, compliance)
    end = loop(lambda s: s.active, passes.step, passes.begun(), stop)
    at = passes.finished(end)
    ridden = Ridden(diagonal(kept.G), moves, product(kept.G, at.lam[first:]))
    return Solved(at, end.r2, end.steps, ridden, _ConstantForces(step.problem, kept.weights, kept.factor))


def forces(law: Law, G: Array | Unformed, cones: Cones, g: Array, guess: Array, moves: Array) -> Array:
    """Return the forces of the law (m, lanes), which is solved only where forces must act. `moves`
    (contacts + joints, lanes) says which contacts and joints can move."""
    G, g, cones = parting(G, g, cones, moves)
    lanes = lanes_of(g, cones)
    acts, none = jnp.broadcast_to(cones.bear(g), lanes), jnp.zeros((len(g), lanes), g.dtype)
    acting = lambda: jnp.where(acts, law.solve(G, g, cones, guess), 0)  # noqa: E731
    return borne(cones.counts, jax.lax.cond(acts.any(), acting, lambda: none), moves)


class _Lawful(System):
    """The factor with a law on top, at contact forces `f`. The law starts from the `guess`, or from f if it is None.
    `moves` (contacts + joints, lanes) says which contacts and joints can move."""

    problem: Problem
    weights: Array
    kept: Kept
    law: Law
    cones: Cones
    moves: Array
    f: Array
    guess: Array | None

    def solve(self, tau, force, r2):
        def top(b):
            guess = self.f if self.guess is None else self.guess
            g = -b - product(self.kept.G, self.f)
            change = forces(self.law, self.kept.G, self.cones, g, guess, self.moves) - self.f
            return change, change

        return self.kept.corrected(tau, force, r2, top)


class _ConstantForces(System):
    """The factor with constant contact forces."""

    problem: Problem
    weights: Array
    factor: Factor

    judges: ClassVar[bool] = True

    def solve(self, tau, force, r2):
        tables = self.factor.tables
        none = None if tables.later else jnp.zeros((tables.plan.rows, tau.shape[-1]), tau.dtype)
        x, moved, _ = self.factor.down(kept_of(self.factor.up(tau, force, none)), none)
        return x, moved, None, None


class _Passes(Iteration):
    """The passes of one step; each updates the contact forces of its system."""

    def change(self, at: At, r2, refined: bool = True):
        self.system = dataclasses.replace(self.system, f=at.lam[len(self.system.weights) :])
        return super().change(at, r2, refined)


class _OnDemand:
    """The step of a tree, whose rows ride where they are needed."""

    def __init__(self, step: Step, law: Law, factor: Eliminated, guess: Array):
        self.step, self.law, self.factor, self.guess = step, law, factor, guess
        self.lanes = lanes_of(step.problem.q, step.start, step.cones)

    def solved(self) -> Solved:
        step, bare = self.step, self.factor.factor
        problem, rows = step.problem, step.problem.rows
        given = given_accelerations(problem, step.start)
        tau, force = left_over(problem, step.start, jnp.zeros_like(step.start.tau), given, None)
        up = kept_of(bare.up(widen(tau, self.lanes), force))

        def free():
            x, bodies = self.moved(up)
            return x, bodies, step.cones.bear(rows.times(bodies) - step.right)

        alert = self.alert()
        none = widen((jnp.zeros_like(tau), still(problem, tau)), self.lanes)
        x, bodies, called = jax.lax.cond(alert.all(), lambda: (*none, jnp.zeros_like(alert)), free)
        asked = alert | called
        x, bodies, f, ridden = jax.lax.cond(
            asked.any(), lambda: self.touching(asked, up), lambda: (x, bodies, *self.untouched())
        )
        left = step.right - rows.times(bodies) - step.compliance * f
        at = At(x, jax.tree.map(jnp.add, given, bodies), f, jnp.ones(self.lanes, left.dtype))
        judge = _ConstantForces(problem, self.factor.weights, bare)
        return Solved(at, left, jnp.ones(self.lanes, jnp.int32), ridden, judge)

    def alert(self) -> Array:
        """Return which lanes may need forces (lanes,)."""
        cones, s = self.step.cones, -self.step.right
        found = cones.bear(s - ALERT) | cones.bear(s + ALERT)
        # the weights of smoothed derivatives are those of G, also where nothing touches
        return jnp.broadcast_to(jnp.ones_like(found) if self.law.smoothing else found, self.lanes)

    def moved(self, up) -> tuple[Array, Any]:
        """Return the changes of the accelerations of joints, and of bodies."""
        x, bodies, _ = self.factor.factor.down(up)
        return widen((x, bodies), self.lanes)

    def touching(self, asked: Array, up):
        """Return these changes with contact in the lanes `asked`, its forces, and what is known of its rows."""
        kept, b = self.factor.ridden_after(up)
        cones, moves = self.step.cones, movable(self.step, kept)
        f = forces(self.law, kept.G, cones, -self.step.right - b, self.guess, moves)
        f = jnp.where(asked, f, 0)
        ridden = Ridden(diagonal(kept.G), moves, product(kept.G, f))
        ridden = jax.tree.map(lambda x, y: jnp.where(asked, x, y), ridden, self.untouched()[1])
        return *self.moved(up | kept.factor.pulled(-kept.own.pushes(f))), f, ridden

    def untouched(self) -> tuple[Array, Ridden]:
        """Return forces of zero, and placeholders for what is known of rows: where the law holds without forces,
        neither the residual nor derivatives depend on them."""
        none = jnp.zeros((self.step.cones.counts.rows, self.lanes), self.step.right.dtype)
        counts = self.step.cones.counts
        moves = jnp.ones((counts.contacts + counts.joints, self.lanes), bool)
        return none, Ridden(jnp.ones_like(none), moves, none)
