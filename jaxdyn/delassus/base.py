"""What a method of the Delassus operator is."""

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
from jaxtyping import Array

from ..model.constraints import Constraint
from ..model.model import Model
from ..tree.topology import Topology
from .damping import Damping


class Given(NamedTuple):
    """What an operator is made of: `held` are the constraints that hold, `asked` those whose rows it acts on."""

    model: Model
    held: tuple[Constraint, ...]
    asked: tuple[Constraint, ...]
    q: Array

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return (*self.held, *self.asked)

    @property
    def rows(self) -> int:
        """Of the constraints that are asked for."""
        return sum(c.layout(self.model.topology).rows for c in self.asked)


class Method(eqx.Module):
    """A method of the Delassus operator G = J M⁻¹ Jᵀ: static, hashable, without arrays.

    A method knows its recursion alone. Validation, columns, refinement and the derivatives of the inverse are those of
    `Delassus`. All functions are for single states.
    """

    def check(self, call: str, topology: Topology, held: Sequence[Constraint], asked: Sequence[Constraint]) -> None:
        """Raise `ValueError` for constraints that the method cannot treat."""

    @abc.abstractmethod
    def prepare(self, given: Given) -> Any:
        """What all products share, as arrays."""

    @abc.abstractmethod
    def times(self, given: Given, made: Any, x: Array) -> Array:
        """G x (m,), differentiable in everything; `made` is what `prepare` returns."""

    @abc.abstractmethod
    def damp(self, given: Given, made: Any, R: Damping) -> Any:
        """What all solves with the positive damping R share, as arrays."""

    @abc.abstractmethod
    def solve(self, given: Given, made: Any, damped: Any, R: Damping, b: Array) -> Array:
        """(G + R)⁻¹ b (m,); no derivative is taken of it. `damped` is what `damp` returns."""


def refuse_held(method: Method, call: str, held: Sequence[Constraint]) -> None:
    """Raise `ValueError` for constraints that hold."""
    if held:
        raise ValueError(
            f"{call}: `{type(method).__name__}` takes no constraints that hold, and `within` has {len(held)}. "
            "Use `jd.osim.MatrixFree()`, `jd.osim.PV()` or `jd.osim.LTL()`."
        )
