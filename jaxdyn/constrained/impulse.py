"""The linear solve for the jump of the velocity when constraints begin to hold, or at an impact."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.lanes import call, laned
from ..model.checks import rows_of
from ..model.constraints import Constraint
from ..model.model import Model
from .auto import Auto
from .base import Solver
from .implicit import SaddleSolve, saddle


def least(model: Model, constraints: Sequence[Constraint], q, p, r2, solver: Solver, warm=None) -> tuple[Array, Array]:
    """Return (x, y) with M x − Jᵀ y = p and J x = r2, differentiable in all inputs; iterations start at y = `warm`."""
    if isinstance(solver, Auto):
        solver = solver.pick(model.topology, constraints, q.dtype)
    tree = jax.tree.structure((model, constraints, q))
    x, y, _ = call(lambda _, known, c: SaddleSolve(solver, tree, known, c), model, constraints, q, p, r2, warm)
    return x, y


def rates(model: Model, constraints: Sequence[Constraint], q, v) -> Array:
    """Return J v (m,)."""
    return laned(saddle)(model, constraints, q, v, jnp.zeros(rows_of(model, constraints), v.dtype))[1]
