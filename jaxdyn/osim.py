"""Methods that compute the Delassus operator, ``jd.delassus(..., method=jd.osim.MatrixFree())``, and iterations on
it."""

from .delassus.base import Method
from .delassus.inverse import Solved
from .delassus.joint_space import LTL, Dense
from .delassus.krylov import conjugate_gradient, largest_eigenvalue, linear_operator
from .delassus.matrix_free import MatrixFree
from .delassus.propagated import EFPA, KJR
from .delassus.reduced import ConstrainedABA, PVReduced
from .delassus.riding import PV, PVFast

__all__ = [
    "ConstrainedABA",
    "Dense",
    "EFPA",
    "KJR",
    "LTL",
    "MatrixFree",
    "Method",
    "PV",
    "PVFast",
    "PVReduced",
    "Solved",
    "conjugate_gradient",
    "largest_eigenvalue",
    "linear_operator",
]
