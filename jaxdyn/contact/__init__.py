"""Contact between the shapes of a model: `step` and `simulate` take a law of contact as `contacts=`."""

from .admm import ADMM
from .laws import PGS, Law

__all__ = ["ADMM", "PGS", "Law"]
