"""Base class of the cores of integrator steps: from a state to the next, with implicit derivatives."""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import Core
from ..engine.lanes import call
from ..model.checks import rows_of
from .base import Solver
from .result import Result, result_of


class Stepped(NamedTuple):
    """The result of a step: q (nq,), v (nv,), the multipliers (m,) of its solve, and how the solve ended."""

    q: Array
    v: Array
    multipliers: Array
    result: Result


@dataclasses.dataclass(frozen=True)
class StepCore(Core):
    """The core that maps (model, constraints, q, v, tau, external, dt, warm) to a and λ, q and v after the step, how
    the solve ended, and some λ. `tree` is the structure of all operands."""

    solver: Solver
    tree: Any
    known: tuple[bytes | None, ...]
    compiler: str = "auto"

    implicit: ClassVar[int] = 6

    def shapes(self, used, avals):
        model, constraints, q, v, *_ = jax.tree.unflatten(self.tree, avals)
        multipliers = (rows_of(model, constraints),), v[1]
        return v, multipliers, q, v, ((), jnp.dtype(jnp.int32)), multipliers

    def instead(self, outs, used):
        a, lam, *_, some = outs
        lam = lam if used is None or used[1] else some
        return [a, lam, *[a] * 3, some]


def stepped(core_of: Callable, solver: Solver, model, constraints, q, v, tau, external, dt, warm) -> Stepped:
    """Return the `Stepped` of a single state, differentiable in all arguments, by the core ``core_of(solver, tree,
    known, compiler)``, whose solve starts from the multipliers `warm`."""
    solver = solver.pick(model.topology, constraints, q.dtype)
    args = model, tuple(constraints), q, v, tau, external, dt, warm
    _, lam, end, w, code, _ = call(lambda *given: core_of(solver, *given), *args, parameters=(6,))  # dt
    return Stepped(end, w, lam, result_of(code))
