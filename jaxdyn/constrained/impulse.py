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
from .result import CONFLICT, GOOD, MEMBERS, Result, result_of


def least(model: Model, constraints: Sequence[Constraint], q, p, r2, solver: Solver, warm=None) -> tuple[Array, Array]:
    """Return (x, y) with M x − Jᵀ y = p and J x = r2, differentiable in all inputs; iterations start at y = `warm`."""
    return solved(model, constraints, q, p, r2, solver, warm)[:2]


def solved(model, constraints, q, p, r2, solver: Solver, warm=None) -> tuple[Array, Array, Array]:
    """Return x and y of `least`, and another y, which balances x to the last digit, of any norm."""
    if isinstance(solver, Auto):
        solver = solver.pick(model.topology, constraints, q.dtype)
    tree = jax.tree.structure((model, constraints, q))
    x, y, some = call(lambda _, known, c: SaddleSolve(solver, tree, known, c), model, constraints, q, p, r2, warm)
    return x, y, some


def rates(model: Model, constraints: Sequence[Constraint], q, v) -> Array:
    """Return J v (m,)."""
    return laned(saddle)(model, constraints, q, v, jnp.zeros(rows_of(model, constraints), v.dtype))[1]


def outcome(model: Model, constraints: Sequence[Constraint], q, p, r2, solver: Solver, x, y) -> Result:
    """Return how a solve for (x, y) ended: from what is left of both equations, relative to their largest terms."""
    code_of, good = MEMBERS.index, GOOD[x.dtype.itemsize]
    none = jnp.zeros_like(y)
    momentum, moved = laned(saddle)(model, constraints, q, x, none)
    pushed, _ = laned(saddle)(model, constraints, q, jnp.zeros_like(x), y)
    largest = lambda *xs: jnp.stack([jnp.abs(x).max(initial=0.0) for x in xs]).max()  # noqa: E731
    left, size = largest(momentum + pushed - p), largest(momentum, pushed, p)
    apart, speed = largest(r2 - moved), largest(r2, moved)
    code = jnp.where(left <= good * size, code_of("successful"), code_of("inaccurate"))
    code = jnp.where(apart > good * speed, code_of("inaccurate"), code)
    code = jnp.where(apart > CONFLICT * speed, code_of("inconsistent_constraints"), code)
    known = jnp.stack([jnp.isfinite(x).all() for x in (q, p, r2)]).all()
    lost = jnp.where(known & solver.hard & (len(y) > 0), code_of("dependent_rows"), code_of("not_finite"))
    return result_of(jnp.where(known & jnp.isfinite(left + apart), code, lost))
