"""Methods of the Delassus operator: ``jd.delassus(..., method=jd.osim.MatrixFree())``."""

from .delassus.base import Method
from .delassus.matrix_free import MatrixFree

__all__ = [
    "MatrixFree",
    "Method",
]
