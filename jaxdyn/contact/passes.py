"""The solution of a step's equations with its law.

One pass solves the law on top of the factor. If loops are penalties, there are several passes: each solves the law
again for the whole forces f, from the residual of the passes before, so that contact becomes exact together with the
loops.

On trees, contact rows ride only where they are needed: first come the bodies alone, then, if some lane of a group may
touch, the rows, G and the law, then the way down. Other lanes are asked whether the law holds for the motion without
contact, and if it does not, the rows ride for them after all.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..constrained.iteration import Stop, loop
from ..constrained.proximal import At, Iteration
from ..engine.core import joined, widen
from ..systems.base import System
from ..systems.problem import Problem, given_accelerations, left_over
from ..tree.factor import Factor, kept_of
from .cones import Cones
from .effect import Unformed, diagonal, product
from .immovable import borne, movable, parting
from .laws import Law
from .problem import Eliminated, Kept, Step, eliminated

#: number of passes if loops are penalties, in single and double precision: eliminated loops are exact after one
PASSES = {4: 3, 8: 6}
#: m/s² or rad/s²: rows that the law would ask for forces after such a change of acceleration may touch. The value does
#: not change results, only how often rows ride
ALERT = 1e3


class Ridden(NamedTuple):
    """What is known where contact rows have ridden: the `diagonal` of G, which contacts `move` (contacts, lanes), and
    the `effect` G f of the contact forces (m, lanes)."""

    diagonal: Array
    moves: Array
    effect: Array


class Solved(NamedTuple):
    """The solution of a step: the point `at`, what is `left` of its rows (r2), the number of `steps`, and what is known
    from rows that have `ridden`. `held` is the factor with constant contact forces."""

    at: At
    left: Array
    steps: Array
    ridden: Ridden
    held: System


def solved(step: Step, law: Law, warm: Array | None, reads: bool) -> Solved:
    """Return the solution of a step, starting from the forces `warm` (rows, lanes). Unless it `reads` more than
    accelerations of joints and forces, the rest may be anything."""
    factor, first = eliminated(step, law), step.first
    guess = jnp.zeros((step.cones.counts.rows, 1), step.problem.q.dtype) if warm is None else warm[first:]
    if factor.factor.tables.later:
        return _Later(step, law, factor, guess).solved(reads)
    kept, compliance = factor.kept(), joined([jnp.zeros((first, 1), guess.dtype), step.compliance])
    moves = movable(step, kept)
    system = _Lawful(
        step.problem, kept.weights, kept, law, step.cones, moves, guess * 0, None if kept.penalised else guess
    )
    stop = Stop(0.0, PASSES[guess.dtype.itemsize] if kept.penalised else 1, plain=True)
    passes = _Passes(system, step.start, warm if kept.penalised else None, stop, compliance)
    end = loop(lambda s: s.active, passes.step, passes.begun(), stop)
    at = passes.finished(end)
    ridden = Ridden(diagonal(kept.G), moves, product(kept.G, at.lam[first:]))
    return Solved(at, end.r2, end.steps, ridden, _Held(step.problem, kept.weights, kept.factor))


def forces(law: Law, G: Array | Unformed, cones: Cones, g: Array, guess: Array, moves: Array) -> Array:
    """Return the forces of the law (m, lanes), which is solved only where forces must act. `moves` (contacts, lanes)
    says which contacts can move along their normals."""
    g = parting(cones.counts, g, moves)
    lanes = max(x.shape[-1] for x in jax.tree.leaves((g, cones)))

    def acting(carried):
        left, _ = carried
        return jnp.zeros_like(left), jnp.where(left, law.solve(G, g, cones, guess), 0)

    start = jnp.broadcast_to(cones.bear(g), lanes), jnp.zeros((len(g), lanes), g.dtype)
    return borne(cones.counts, jax.lax.while_loop(lambda carried: carried[0].any(), acting, start)[1], moves)


class _Lawful(System):
    """The factor with a law on top, at contact forces `f`. The law starts from the `guess`, or from f if it is None.
    `moves` (contacts, lanes) says which contacts can move along their normals."""

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


class _Held(System):
    """The factor with constant contact forces."""

    problem: Problem
    weights: Array
    factor: Factor

    judges: ClassVar[bool] = True

    def solve(self, tau, force, r2):
        none = jnp.zeros((self.factor.tables.plan.rows, tau.shape[-1]), tau.dtype)
        up = self.factor.up(tau, force, None if self.factor.tables.later else none)
        x, moved, _ = self.factor.down(kept_of(up), None if self.factor.tables.later else none)
        return x, moved, None, None


class _Passes(Iteration):
    """The passes of one step; each updates the contact forces of its system."""

    def change(self, at: At, r2, refined: bool = True):
        self.system = dataclasses.replace(self.system, f=at.lam[len(self.system.weights) :])
        return super().change(at, r2, refined)


class _Round(NamedTuple):
    """The state of a step whose rows ride later: lanes that need forces now (`asked`), and those that have been asked
    (`known`); contact forces f, and their `load` on the joints; what the rows tell that have `ridden`; accelerations x
    of joints, and those of `bodies`."""

    asked: Array
    known: Array
    f: Array
    load: dict
    ridden: Ridden
    x: Array
    bodies: Any


class _Later:
    """The step of a tree, whose rows ride where they are needed."""

    def __init__(self, step: Step, law: Law, factor: Eliminated, guess: Array):
        self.step, self.law, self.factor, self.guess = step, law, factor, guess
        self.problem, self.start = step.problem, step.start
        self.lanes = max(x.shape[-1] for x in jax.tree.leaves((self.problem.q, self.start, step.cones)))

    def wide(self, tree):
        return jax.tree.map(lambda x: widen(x, self.lanes), tree)

    def solved(self, reads: bool) -> Solved:
        self.reads = reads
        given = given_accelerations(self.problem, self.start)
        tau, force = left_over(self.problem, self.start, jnp.zeros_like(self.start.tau), given, None)
        right, bare, rows = self.step.right, self.factor.factor, self.problem.rows
        up = kept_of(bare.up(self.wide(tau), force))

        def made(s: _Round) -> _Round:
            s = jax.lax.cond(s.asked.any(), lambda: self.ridden(s, up, right), lambda: s)
            x, bodies, _ = bare.down(up | s.load)
            known = s.known | s.asked
            calls = lambda: ~known & self.step.cones.bear(rows.times(bodies) - right)  # noqa: E731
            asked = jax.lax.cond(known.all(), lambda: jnp.zeros_like(known), calls)
            s = s._replace(asked=asked, known=known, x=x)
            return s._replace(bodies=self.wide(bodies)) if reads else s

        begun = self.begun(right), jnp.ones(self.lanes, bool)
        end, _ = jax.lax.while_loop(lambda s: s[1].any(), lambda s: (lambda t: (t, t.asked))(made(s[0])), begun)
        left = right - rows.times(end.bodies) - self.step.compliance * end.f
        bodies = jax.tree.map(jnp.add, given, end.bodies)
        at = At(end.x, bodies, end.f, jnp.ones(self.lanes, left.dtype))
        steps = jnp.ones(self.lanes, jnp.int32)
        return Solved(at, left, steps, end.ridden, _Held(self.problem, self.factor.weights, bare))

    def begun(self, right: Array) -> _Round:
        """Return the state before anything is known but the residuals `right` of the rows where joints do not
        accelerate."""
        cones, counts, nv = self.step.cones, self.step.cones.counts, self.problem.model.nv
        dtype, lanes = right.dtype, self.lanes
        asked = cones.bear(-right - ALERT) | cones.bear(ALERT - right)
        if self.law.smoothing:  # its derivatives need G everywhere
            asked = jnp.ones_like(asked)
        none = jnp.zeros((counts.rows, lanes), dtype)
        one = jnp.ones_like(none)
        ridden = Ridden(one, jnp.ones((counts.contacts, lanes), bool), none)
        still = jnp.zeros((self.problem.model.nb, 3, lanes), dtype)
        x = jnp.zeros((nv, lanes), dtype)
        asked = jnp.broadcast_to(asked, lanes)
        return _Round(asked, jnp.zeros_like(asked), none, {"load": x}, ridden, x, (still, still))

    def ridden(self, s: _Round, up, right: Array) -> _Round:
        """Return the state after the rows have ridden, with the forces of the asked lanes."""
        kept, b = self.factor.joined(up)
        moves = movable(self.step, kept)
        f = forces(self.law, kept.G, self.step.cones, -(right + b), self.guess, moves)
        f = jnp.where(s.asked, f, s.f)
        s = s._replace(f=f, load=self.wide(kept.factor.pulled(-kept.own.pushes(f))))
        if not self.reads:
            return s
        known = Ridden(diagonal(kept.G), moves, product(kept.G, f))
        return s._replace(ridden=jax.tree.map(lambda new, old: jnp.where(s.asked, new, old), known, s.ridden))
