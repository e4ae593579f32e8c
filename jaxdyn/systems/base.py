"""The interface of damped systems, M x − Jᵀ y = r1 and J x + R y = r2 with a small compliance R = 1/μ: factorised once,
solved in every proximal iteration.

Arrays are lanes-last: a lane is one element of the batch.
"""

import abc
from typing import Any, ClassVar

import equinox as eqx
from jaxtyping import Array

from .problem import Problem


class System(eqx.Module):
    """A factorised damped system. `weights` are the μ of the rows, (m, lanes)."""

    #: True if the factor resolves light bodies down to rounding, so that it may estimate the error of a solution
    judges: ClassVar[bool] = False

    problem: eqx.AbstractVar[Problem]
    weights: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def solve(self, tau: Array, force, r2: Array | None) -> tuple[Array, Any, Array | None, Array | None]:
        """Return x, the accelerations of the bodies, y and J x, with M x − Jᵀ y = τ − force and J x + R y = r2.

        `tau` is (nv, lanes), `force` the (moment, force) of the bodies, `r2` (m, lanes); None means zero. y and J x are
        None if the problem has no constraints.
        """
