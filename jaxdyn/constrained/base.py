"""What a solver is, and what it returns."""

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
from ..tree.plan import Order, elimination
from ..tree.rows import Plan
from ..tree.topology import Topology


class Found(NamedTuple):
    """Accelerations (nv, lanes), multipliers of minimum norm (m, lanes), and the number of solves (lanes,).

    Where those multipliers take work of their own, also `some` that do for derivatives of the accelerations, and
    `settled` accelerations, which go with the former to the last digit. Accuracy is told from the accelerations of the
    `bodies`, the multipliers that are in `balance` with them to the last digit, whatever their norm, and the factorised
    `system`, as far as they are at hand. `unfinished` are the lanes (lanes,) that would have gone on."""

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

    A solver knows its recursion alone; validation, derivatives, batching and errors are those of
    `forward_dynamics`.
    """

    #: whether rows are pulled at rather than fulfilled
    soft: ClassVar[bool] = False
    #: whether dependent rows leave no numbers
    hard: ClassVar[bool] = False
    #: whether it eliminates bodies, and so may take rotors for gyrostats
    recursive: ClassVar[bool] = False
    #: whether it factorises whole matrices, which no kernel does
    factorises: ClassVar[bool] = False
    #: whether it takes constraints that act on one moving body alone
    grounded: ClassVar[bool] = False

    def check(self, call: str, topology: Topology, constraints: Sequence[Constraint]) -> None:
        """Raise `ValueError` for constraints that the solver cannot treat."""
        if self.grounded:
            refuse_loops(type(self).__name__, call, topology, constraints)

    def unrolled(self) -> "Solver":
        """The solver with its iterations unrolled, for ``adjoint="unrolled"``."""
        return self

    def order(self, topology: Topology, plan: Plan) -> Order:
        """In which order it eliminates bodies and multipliers: without more ado bodies alone, leaves first."""
        return elimination(topology, frozenset())

    def factorised(self, problem: Problem) -> System | None:
        """The system whose factor corrects accelerations, for callers that solve with it several times; None if the
        solver has none."""
        return None

    @abc.abstractmethod
    def solve(self, problem: Problem, start: Start, warm: Array | None, multipliers: bool) -> Found:
        """The solution. `warm` are multipliers (m, lanes) to start from. If `multipliers` is False, those of minimum
        norm may be zeros: the caller ignores them.
        """


class Unrollable(Solver):
    """A solver with loops that depend on data, which ``adjoint="unrolled"`` makes loops of a fixed length."""

    _unrolled: bool = eqx.field(static=True, default=False, kw_only=True)

    def unrolled(self):
        return dataclasses.replace(self, _unrolled=True)


def check_solver(call: str, solver: Any) -> None:
    check_instance(call, "solver", solver, Solver, " Use one such as `jd.solvers.LCABA()`.")


def name_of(constraint: Constraint, index: int) -> str:
    """How error messages call a constraint."""
    return repr(constraint.name) if constraint.name else f"number {index} ({type(constraint).__name__})"


def refuse_loops(
    solver: str,
    call: str,
    topology: Topology,
    constraints: Sequence[Constraint],
    others: str = "`jd.solvers.LCABA()` or `jd.solvers.ProxLTL()`",
) -> None:
    """Raise `ValueError` for constraints that act on several moving bodies. `others` take them."""
    for k, constraint in enumerate(constraints):
        bodies = [repr(topology.body_names[b]) for b in constraint.layout(topology).bodies]
        if len(bodies) > 1:
            joined = f"bodies {', '.join(bodies[:-1])} and {bodies[-1]}" if len(bodies) < 6 else f"{len(bodies)} bodies"
            raise ValueError(
                f"{call}: `{solver}` cannot close kinematic loops: constraint {name_of(constraint, k)} joins "
                f"{joined}. Use {others}."
            )
