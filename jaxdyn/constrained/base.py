"""What a solver is, and what it returns."""

import abc
from collections.abc import Sequence

import equinox as eqx
from jaxtyping import Array

from ..model.constraints import Constraint
from ..tree.topology import Topology
from .problem import Problem, Start


class Solver(eqx.Module):
    """A method of constrained forward dynamics: static, hashable, without arrays.

    A solver knows its recursion alone; validation, derivatives, batching and errors are those of
    `forward_dynamics`.
    """

    def check(self, call: str, topology: Topology, constraints: Sequence[Constraint]) -> None:
        """Raise `ValueError` for constraints that the solver cannot treat."""

    def unrolled(self) -> "Solver":
        """The solver with its iterations unrolled, for ``adjoint="unrolled"``."""
        return self

    @abc.abstractmethod
    def solve(
        self, problem: Problem, start: Start, warm: list[Array] | None, multipliers: bool
    ) -> tuple[Array, Array, Array]:
        """Accelerations (nv, lanes), multipliers (m, lanes), and the number of solves (lanes,).

        `warm` are multipliers to start from, by bundle. Without `multipliers` nobody reads them: zeros do.
        """


def name_of(constraint: Constraint, index: int) -> str:
    """How error messages call a constraint."""
    return repr(constraint.name) if constraint.name else f"number {index} ({type(constraint).__name__})"
