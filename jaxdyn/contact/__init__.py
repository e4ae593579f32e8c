"""Contact between the shapes of a model: `step` and `simulate` take a law of contact as `contacts=`."""

from .admm import ADMM
from .auto import Auto
from .detection import Detection, detect
from .explain import Explanation, explain
from .laws import PGS, Law
from .newton import Newton
from .solution import Contacts

__all__ = ["ADMM", "PGS", "Auto", "Contacts", "Detection", "Explanation", "Law", "Newton", "detect", "explain"]


def __dir__() -> list[str]:
    return __all__
