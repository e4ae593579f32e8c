"""Methods of the Delassus operator: ``jd.delassus(..., method=jd.osim.MatrixFree())``."""

from .delassus.base import Method
from .delassus.joint_space import LTL, Dense
from .delassus.matrix_free import MatrixFree
from .delassus.riding import PV

__all__ = [
    "Dense",
    "LTL",
    "MatrixFree",
    "Method",
    "PV",
]
