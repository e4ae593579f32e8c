"""Base classes of solvers, and the result that solvers return.

The last axis of arrays is the lanes; a lane is one element of the batch.
"""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Array

from ..model.constraints import Constraint
from ..spatial.instances import check_instance
from ..systems.base import System
from ..systems.problem import Problem, Start
from ..tree.order import Order, elimination
from ..tree.plan import Plan
from ..tree.topology import Topology


class Found(NamedTuple):
    """What a solver returns: accelerations (nv, lanes), minimum-norm multipliers (m, lanes), and the number of solves
    (lanes,).

    If the minimum-norm multipliers take work of their own, a solver also returns `some` multipliers, which suffice for
    derivatives of the accelerations, and `settled` accelerations, which balance the minimum-norm multipliers to the
    last digit. The accuracy is estimated, as far as they are available, from the accelerations of the `bodies`, the
    multipliers in `balance` with the accelerations to the last digit, whatever their norm, and the factorised `system`.
    `unfinished` (lanes,) marks the lanes that had not converged."""

    acceleration: Array
    multipliers: Array
    steps: Array
    some: Array | None = None
    settled: Array | None = None
    bodies: Any = None
    balance: Array | None = None
    system: System | None = None
    unfinished: Array | None = None


class Solver(eqx.Module):
    """A method of constrained forward dynamics: static, hashable, without arrays.

    A solver implements only its recursion; `forward_dynamics` does validation, derivatives, batching and errors.
    """

    #: True if constraints are penalised, not enforced
    soft: ClassVar[bool] = False
    #: True if dependent rows give NaN
    hard: ClassVar[bool] = False
    #: True if it eliminates bodies, and so can treat rotors as gyrostats
    recursive: ClassVar[bool] = False
    #: True if it factorises whole matrices, which no kernel does
    factorises: ClassVar[bool] = False
    #: True if it takes only constraints that act on a single moving body
    grounded: ClassVar[bool] = False

    def check(self, call: str, topology: Topology, constraints: Sequence[Constraint]) -> None:
        """Raise `ValueError` for constraints that the solver cannot treat."""
        if self.grounded:
            refuse_loops(type(self).__name__, call, topology, constraints)

    def pick(self, topology: Topology, constraints: Sequence[Constraint], dtype=None) -> "Solver":
        """Return the solver for these constraints in the precision of `dtype`, by default that of JAX's numbers:
        itself, except for `Auto`."""
        return self

    def unrolled(self) -> "Solver":
        """Return the solver with its iterations unrolled, for ``adjoint="unrolled"``."""
        return self

    def order(self, topology: Topology, plan: Plan) -> Order:
        """Return the order in which it eliminates bodies and multipliers; by default bodies only, leaves first."""
        return elimination(topology, frozenset())

    def factorised(self, problem: Problem) -> System | None:
        """Return the system whose factor corrects accelerations, for callers that solve with it several times, or None
        if the solver has none."""
        return None

    @abc.abstractmethod
    def solve(self, problem: Problem, start: Start, warm: Array | None, multipliers: bool) -> Found:
        """Return the solution. `warm` are multipliers (m, lanes) to start from. If `multipliers` is False, the
        minimum-norm multipliers may be zeros: the caller ignores them.
        """


class Unrollable(Solver):
    """A solver with data-dependent loops, which get a fixed length for ``adjoint="unrolled"``."""

    _unrolled: bool = eqx.field(static=True, default=False, kw_only=True)

    def unrolled(self):
        return dataclasses.replace(self, _unrolled=True)


def check_solver(call: str, solver: Any) -> None:
    check_instance(f"`{call}`", "solver", solver, Solver, " Use one such as `jd.solvers.LCABA()`.")


def name_of(constraint: Constraint, index: int) -> str:
    """Return the name of a constraint in error messages."""
    return repr(constraint.name) if constraint.name else f"number {index} ({type(constraint).__name__})"


def refuse_loops(
    solver: str,
    call: str,
    topology: Topology,
    constraints: Sequence[Constraint],
    others: str = "`jd.solvers.LCABA()` or `jd.solvers.ProxLTL()`",
) -> None:
    """Raise `ValueError` for constraints that act on several moving bodies. The message recommends the solvers
    `others`."""
    for k, constraint in enumerate(constraints):
        bodies = [repr(topology.body_names[b]) for b in constraint.layout(topology).bodies]
        if len(bodies) > 1:
            joined = f"bodies {', '.join(bodies[:-1])} and {bodies[-1]}" if len(bodies) < 6 else f"{len(bodies)} bodies"
            raise ValueError(
                f"{call}: `{solver}` cannot close kinematic loops: constraint {name_of(constraint, k)} joins "
                f"{joined}. Use {others}."
            )
