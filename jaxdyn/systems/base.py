"""Damped systems, M x − Jᵀ y = r1 and J x + R y = r2 with a small compliance R = 1/μ: factorised once, and solved in
every proximal iteration."""

import abc
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array

from .problem import Problem


class System(eqx.Module):
    """A factorised damped system. `weights` are μ of the rows, (m, lanes)."""

    #: whether it sees all that rounding leaves of light bodies, and so may judge solutions
    judges: ClassVar[bool] = False

    problem: eqx.AbstractVar[Problem]
    weights: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def solve(self, tau: Array, force, r2: Array | None) -> tuple[Array, Any, Array | None, Array | None]:
        """x and y with M x − Jᵀ y = τ − force and J x + R y = r2; None is zero.

        `tau` is (nv, lanes), `force` (moment, force) of the bodies, `r2` (m, lanes). Returns x, the accelerations
        of the bodies, y and J x; y and J x are None if nothing is constrained.
        """
