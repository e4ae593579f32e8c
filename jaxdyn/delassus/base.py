"""The interface of methods that evaluate the Delassus operator G = J M⁻¹ Jᵀ."""

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
    """The inputs of an operator. `held` are the constraints that are enforced (`within`), `asked` those whose rows the
    operator acts on."""

    model: Model
    held: tuple[Constraint, ...]
    asked: tuple[Constraint, ...]
    q: Array

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return (*self.held, *self.asked)

    @property
    def rows(self) -> int:
        """Return the number of rows of the `asked` constraints."""
        return sum(c.layout(self.model.topology).rows for c in self.asked)


class Method(eqx.Module):
    """A method to evaluate the Delassus operator G = J M⁻¹ Jᵀ: static, hashable, without arrays.

    A method implements its recursion only. `Delassus` does validation, columns, refinement and the derivatives of the
    inverse. All functions are for single states.
    """

    def check(self, call: str, topology: Topology, held: Sequence[Constraint], asked: Sequence[Constraint]) -> None:
        """Raise `ValueError` for constraints that the method cannot treat."""

    @abc.abstractmethod
    def prepare(self, given: Given) -> Any:
        """Return the arrays that all products share."""

    @abc.abstractmethod
    def times(self, given: Given, made: Any, x: Array) -> Array:
        """Return G x (m,), differentiable in everything; `made` is the result of `prepare`."""

    def rounding(self, made: Any) -> Array | float:
        """Return the rounding error of the eigenvalues of G () that damping must exceed."""
        return 0.0

    @abc.abstractmethod
    def damp(self, given: Given, made: Any, R: Damping) -> Any:
        """Return the arrays that all solves with the positive damping R share."""

    @abc.abstractmethod
    def solve(self, given: Given, made: Any, damped: Any, R: Damping, b: Array) -> Array:
        """Return (G + R)⁻¹ b (m,), which is never differentiated. `damped` is the result of `damp`."""


def refuse_held(method: Method, call: str, held: Sequence[Constraint]) -> None:
    """Raise `ValueError` if there are constraints that hold, i.e. if `within` is not empty."""
    if held:
        raise ValueError(
            f"{call}: `{type(method).__name__}` takes no constraints that hold, and `within` has {len(held)}. "
            "Use `jd.osim.MatrixFree()`, `jd.osim.PV()` or `jd.osim.LTL()`."
        )
