"""Corrections of a kick, and the linear equations of its derivatives, all by one factor.

With the residuals (r1, r2) of a and λ (`jaxdyn.constrained.kick`), a tangent of their solution solves

    −∂(r1, r2)/∂(a, λ) (x, y) = (dr1, dr2),

whose matrix is not symmetric: it is [M −Jᵀ; J 0] at q₀ but for terms of the order of dt |v|. The damped factor of that
one corrects x and y as it does a and λ, and those of the transposed equations: these are the proximal iterations of
`jaxdyn.constrained.proximal`, one solve a step, with other equations to fulfil.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import Core, Function, bind, widen
from ..kinematics.forward import accelerations
from ..systems.base import System
from ..systems.problem import Problem, Start, still
from ..systems.weights import automatic_weights
from .base import Found, Solver
from .implicit import tangent_of
from .iterated import Proximal
from .iteration import Stop, loop
from .kick import begun
from .proximal import At, Iteration

#: most corrections, and the change, relative to what is corrected, that is left when they end
CORRECTIONS = 30
LEFT = {4: 1e-7, 8: 3e-9}


class Whole(System):
    """The problem of a solver that has no factor to solve with several times."""

    problem: Problem
    weights: Array
    solver: Solver

    def solve(self, tau, force, r2):
        found = Found(*self.solver.solve(self.problem, Start(tau, r2, None, force), None, False))
        rows, moved = self.problem.rows, accelerations(self.problem.motion, found.acceleration)
        if rows is None:
            return found.acceleration, moved, None, None
        y = found.multipliers if found.some is None else found.some
        return found.acceleration, moved, y, rows.times(moved)


def system_of(solver: Solver, problem: Problem) -> System:
    """The damped system at q₀, whose solutions are the corrections."""
    system = solver.factorised(problem)
    return Whole(problem, automatic_weights(problem), solver) if system is None else system


class _Corrections(Iteration):
    """Iterations for what ``left_over(a, lam)`` tells, (tau, force, r2)."""

    def __init__(self, system: System, solver: Solver, left_over: Callable, like: Array, lam, floor: Array):
        left, plain = LEFT[like.dtype.itemsize], not (isinstance(solver, Proximal) and solver.refine)
        stop = Stop(left, CORRECTIONS, plain=plain)
        start = Start(jnp.zeros_like(like), lam if len(lam) else None, None, None)
        compliance = 1 / system.weights if solver.soft and len(lam) else None
        super().__init__(system, start, lam if len(lam) else None, stop, compliance)
        self.far = 0  # r2 is not linear in the steps, and tells nothing of how much longer one should be
        self.left_over, self.floor = left_over, floor
        self.now: Any = None

    def begun(self):
        return super().begun()._replace(scale=self.floor)

    def residual(self, at: At):
        return jnp.zeros_like(at.lam)  # it comes with the forces, in the next step

    def change(self, at: At, r2, refined: bool = True):
        tau, force, r2 = self.now or self._found(at)
        return self.made(tau, force, r2)

    def step(self, s, refined: bool = True):
        self.now = self._found(s.at)
        s = super().step(s if self.now[2] is None else s._replace(r2=self.now[2]), refined)
        self.now = None
        return s

    def _found(self, at: At):
        tau, force, r2 = self.left_over(at.rates, at.lam)
        if r2 is not None:
            r2 = self.wide(r2 if self.compliance is None else r2 - self.compliance * at.lam)
        return self.wide(tau), force, r2


def corrected(system: System, solver: Solver, left_over, like, lam, floor) -> Found:
    """Accelerations, shaped as `like`, and multipliers from `lam` on that leave nothing over, but for a share `LEFT` of
    a, or of `floor` if that is larger."""
    iteration = _Corrections(system, solver, left_over, like, lam, floor)
    state = loop(lambda s: s.active, iteration.step, iteration.begun(), iteration.stop)
    at = iteration.finished(state)
    return Found(at.rates, at.lam, state.steps, at.lam, None, at.bodies, at.lam, system, state.active)


@dataclasses.dataclass(frozen=True)
class KickSolve(Core):
    """The linearised equations of a kick: (model, constraints, q, v, tau, external, dt, a, λ), then r1 and r2, in which
    it is linear, to the changes (x, y) of (a, λ) that they call for. `tree` is the structure of the first; `across`
    solves with the transposed matrix."""

    solver: Solver
    projected: bool
    tree: Any
    known: tuple[bytes | None, ...]
    compiler: str = "auto"
    across: bool = False

    implicit: ClassVar[int] = 2

    def run(self, args, used):
        lanes = max(x.shape[-1] for x in args)
        *given, a, lam = jax.tree.unflatten(self.tree, args[:-2])
        a, lam, r1, r2 = (widen(x, lanes) for x in (a, lam, *args[-2:]))
        step = begun(self.projected, *given)
        system = system_of(self.solver, step.problem)
        sign = -1 if self.across else 1

        def moved(x, y):
            d1, d2 = jax.jvp(step.residuals, (a, lam), (x, y))[1]
            return d1, d2

        image = moved
        if self.across:
            back = jax.linear_transpose(moved, a, lam)
            image = lambda x, y: back((x, y))  # noqa: E731

        def left_over(x, y):
            moved1, moved2 = image(x, sign * y)
            left1 = r1 + moved1
            return left1, still(step.problem, left1), sign * (r2 + moved2) if len(lam) else None

        none = jnp.zeros(lanes, a.dtype)
        found = corrected(system, self.solver, left_over, jnp.zeros_like(a), jnp.zeros_like(lam), none)
        return [found.acceleration, sign * found.multipliers]

    def transpose(self, args, undefined, cotangents, used):
        n = len(args) - 2
        zeros = [jnp.zeros(getattr(x, "aval", x).shape, getattr(x, "aval", x).dtype) for x in args[n:]]
        given = [z if c is None else c for z, c in zip(zeros, cotangents, strict=True)]
        found = bind(dataclasses.replace(self, across=not self.across), *args[:n], *given)
        return [None] * n + [x if u else None for x, u in zip(found, undefined[n:], strict=True)]

    def tangents(self, primals, tangents, outs, used):
        *matrix, r1, r2 = primals
        *moved, d1, d2 = tangents
        right = [jnp.zeros_like(r) if d is None else d for r, d in ((r1, d1), (r2, d2))]
        if any(t is not None for t in moved):
            leaves = jax.tree.leaves(self.tree.unflatten(range(len(matrix))))
            tree = jax.tree.structure((*self.tree.unflatten(leaves), 0, 0))
            image = Function(_image, (self.projected, self.across), tree, (*self.known[:-2], None, None), self.compiler)
            along = tangent_of(image, [*matrix, *outs], [*moved, None, None])
            right = [r + t for r, t in zip(right, along, strict=True)]
        return bind(self, *matrix, *right)


def _image(projected, across, model, constraints, q, v, tau, external, dt, a, lam, x, y):
    """The change of the residuals with (a, λ) along (x, y), or that of its transpose."""
    step = begun(projected, model, constraints, q, v, tau, external, dt)
    moved = lambda x, y: jax.jvp(step.residuals, (a, lam), (x, y))[1]  # noqa: E731
    return jax.linear_transpose(moved, a, lam)((x, y)) if across else moved(x, y)
