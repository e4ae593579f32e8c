"""The linear solve for the jump of the velocity when constraints begin to hold, or at an impact."""

import dataclasses
from collections.abc import Sequence
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.lanes import call, laned
from ..model.checks import rows_of
from ..model.constraints import Constraint
from ..model.model import Model
from ..systems.problem import body_accelerations
from .apart import parted
from .base import Solver
from .implicit import SaddleSolve, saddle
from .result import Result, jumped, result_of


@dataclasses.dataclass(frozen=True)
class JumpSolve(SaddleSolve):
    """The `SaddleSolve` for a jump x of the velocity v, its last operand, which also returns how the solve ended (see
    `result_of`): (x, y, how it ended, some y)."""

    implicit: ClassVar[int] = 4

    @property
    def plain(self) -> SaddleSolve:
        """Return the core without v and without how the solve ended."""
        return SaddleSolve(self.solver, self.tree, self.known[:-1], self.compiler, self.inside, self.settles)

    def shapes(self, used, avals):
        x, y, some = super().shapes(used, avals)
        return x, y, ((), jnp.dtype(jnp.int32)), some

    def run(self, args, used):
        *given, v = args
        problem, start, found = self.found(given, used is None or used[1])
        code = jnp.zeros_like(found.steps)
        if used is None or used[2]:
            inside = parted(self.solver.factorises, self.compiler)
            code = inside(_judged, (self.solver,), problem, start, found, v)
        return [found.acceleration, found.multipliers, code, found.some]

    def transpose(self, args, undefined, cotangents, used):
        return [*self.plain.transpose(args[:-1], undefined[:-1], _solved(cotangents), _solved(used)), None]

    def tangents(self, primals, tangents, outs, used):
        x, y, some = self.plain.tangents(primals[:-1], tangents[:-1], _solved(outs), _solved(used))
        return [x, y, None, some]

    def instead(self, outs, used):
        x, y, some = self.plain.instead(_solved(outs), _solved(used))
        return [x, y, x, some]


def _solved(outs):
    """Return the entries of (x, y, how it ended, some y) without how it ended; None is all of them."""
    return None if outs is None else (outs[0], outs[1], outs[3])


def _judged(solver: Solver, problem, start, found, v) -> Array:
    """Return how a solve for the jump of the velocity v ended."""
    if found.bodies is None:
        found = found._replace(bodies=body_accelerations(problem, start, found.acceleration))
    return jumped(solver, problem, start, found, v)


def least(model: Model, constraints: Sequence[Constraint], q, p, r2, solver: Solver) -> tuple[Array, Array]:
    """Return (x, y) with M x − Jᵀ y = p and J x = r2, differentiable in all inputs."""
    solver = solver.pick(model.topology, constraints, q.dtype)
    tree = jax.tree.structure((model, constraints, q))
    return tuple(call(lambda _, known, c: SaddleSolve(solver, tree, known, c), model, constraints, q, p, r2)[:2])


def jump(model, constraints, q, v, p, r2, solver: Solver, warm=None) -> tuple[Array, Array, Result]:
    """Return x and y of `least` for a jump x of the velocity v, and how the solve ended. Iterations start at y =
    `warm`."""
    solver = solver.pick(model.topology, constraints, q.dtype)
    tree = jax.tree.structure((model, constraints, q))
    core_of = lambda _, known, c: JumpSolve(solver, tree, known, c)  # noqa: E731
    x, y, code, _ = call(core_of, model, constraints, q, p, r2, warm, v)
    return x, y, result_of(code)


def rates(model: Model, constraints: Sequence[Constraint], q, v) -> Array:
    """Return J v (m,)."""
    return laned(saddle)(model, constraints, q, v, jnp.zeros(rows_of(model, constraints), v.dtype))[1]
