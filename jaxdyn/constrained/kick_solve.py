"""Corrections of a kick, and the linear equations of its derivatives, with the same factor.

With the residuals (r1, r2) of a and λ (`jaxdyn.constrained.kick`), a tangent of their solution solves

    −∂(r1, r2)/∂(a, λ) (x, y) = (dr1, dr2).

This matrix is not symmetric: it is [M −Jᵀ; J 0] at q₀ except for terms of the order of dt |v|. The damped factor of the
latter corrects a and λ, the solution (x, y), and the solution of the transposed equations.
"""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import lanes_of, widen
from ..kinematics.forward import accelerations
from ..systems.base import System
from ..systems.problem import Problem, Start, still
from ..systems.weights import automatic_weights
from .base import Found, Solver
from .iterated import Proximal
from .kick import begun, residuals
from .linearised import Linearised, corrected


class Whole(System):
    """The system of a solver that has no factor to reuse: each solve solves the whole problem."""

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
    """Return the damped system at q₀, whose solutions are the corrections."""
    system = solver.factorised(problem)
    return Whole(problem, automatic_weights(problem), solver) if system is None else system


def kick_corrected(system: System, solver: Solver, left_over, like, lam, floor) -> Found:
    """Return accelerations and multipliers with zero residual (see `corrected`), using the solver's kind of steps."""
    plain = not (isinstance(solver, Proximal) and solver.refine)
    compliance = 1 / system.weights if solver.soft and len(lam) else None
    return corrected(system, left_over, like, lam, floor, plain, compliance)


@dataclasses.dataclass(frozen=True)
class KickSolve(Linearised):
    """The linearised equations of a kick: the core from (model, constraints, q, v, tau, external, dt, a, λ), r1 and r2
    to the changes (x, y) of (a, λ) that remove these residuals."""

    solver: Solver = dataclasses.field(kw_only=True)

    residuals: ClassVar[Callable] = residuals
    unknowns: ClassVar[int] = 2

    def run(self, args, used):
        lanes = lanes_of(args)
        *given, a, lam = jax.tree.unflatten(self.tree, args[:-2])
        a, lam, r1, r2 = widen((a, lam, *args[-2:]), lanes)
        step = begun(*self.static, *given)
        system = system_of(self.solver, step.problem)
        sign = -1 if self.across else 1
        image = self.image((*given, a, lam))

        def left_over(x, y):
            moved1, moved2 = image(x, sign * y)
            left1 = r1 + moved1
            return left1, still(step.problem, left1), sign * (r2 + moved2) if len(lam) else None

        none = jnp.zeros(lanes, a.dtype)
        found = kick_corrected(system, self.solver, left_over, jnp.zeros_like(a), jnp.zeros_like(lam), none)
        return [found.acceleration, sign * found.multipliers]
