"""Methods of the Delassus operator: ``jd.delassus(..., method=jd.osim.MatrixFree())``."""

from .delassus.base import Method
from .delassus.joint_space import LTL, Dense
from .delassus.matrix_free import MatrixFree
from .delassus.propagated import EFPA, KJR
from .delassus.riding import PV, PVFast

__all__ = [
    "Dense",
    "EFPA",
    "KJR",
    "LTL",
    "MatrixFree",
    "Method",
    "PV",
    "PVFast",
]
