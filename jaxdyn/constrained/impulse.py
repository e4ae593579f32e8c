"""The linear solve for the jump of the velocity when constraints begin to hold, or at an impact."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.lanes import call, laned
from ..model.checks import rows_of
from ..model.constraints import Constraint
from ..model.model import Model
from ..systems.problem import Start, problem_of, with_gyrostats
from .base import Solver
from .implicit import SaddleSolve, saddle
from .result import Result, jumped, result_of


def least(model: Model, constraints: Sequence[Constraint], q, p, r2, solver: Solver) -> tuple[Array, Array]:
    """Return (x, y) with M x − Jᵀ y = p and J x = r2, differentiable in all inputs."""
    return solved(model, constraints, q, p, r2, solver)[:2]


def solved(model, constraints, q, p, r2, solver: Solver, warm=None) -> tuple[Array, Array, Array]:
    """Return x and y of `least`, and another y, which balances x to the last digit, of any norm. Iterations start at y
    = `warm`."""
    solver = solver.pick(model.topology, constraints, q.dtype)
    tree = jax.tree.structure((model, constraints, q))
    return tuple(call(lambda _, known, c: SaddleSolve(solver, tree, known, c), model, constraints, q, p, r2, warm))


def rates(model: Model, constraints: Sequence[Constraint], q, v) -> Array:
    """Return J v (m,)."""
    return laned(saddle)(model, constraints, q, v, jnp.zeros(rows_of(model, constraints), v.dtype))[1]


def outcome(model: Model, constraints: Sequence[Constraint], q, v, p, r2, solver: Solver, x, y) -> Result:
    """Return how a solve for the jump (x, y) of a velocity v ended."""
    solver = solver.pick(model.topology, constraints, q.dtype)
    args = jax.lax.stop_gradient((model, tuple(constraints), q, v, p, r2, x, y))
    return result_of(laned(_outcome, solver)(*args).astype(jnp.int32))


def _outcome(solver: Solver, model, constraints, q, v, p, r2, x, y):
    if solver.recursive:
        model = with_gyrostats(model, constraints, None)
    problem = problem_of(model, constraints, q, None, x)
    return jumped(solver, problem, Start(p, r2 if constraints else None, None, None), v, x, y).astype(q.dtype)
