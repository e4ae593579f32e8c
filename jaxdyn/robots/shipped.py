"""The robots that jaxdyn ships, by name: files, and a biped that is built in Python."""

from collections.abc import Callable
from pathlib import Path

from ..model.spec import ModelSpec
from .strider import strider

#: the robot's file by name, or a function that returns its `ModelSpec`
SHIPPED: dict[str, Path | Callable[[], ModelSpec]] = {
    "strider": strider,
    "four_bar": Path(__file__).with_name("four_bar.urdf"),
}


def missing(source: object) -> str:
    """Return the error message for a source that is neither a file nor a robot's name."""
    return f"there is no file {str(source)[:80]!r}, and no robot of that name is shipped ({', '.join(SHIPPED)})."
