"""The robots that jaxdyn ships, by name: files, and a biped that Python builds."""

from collections.abc import Callable
from pathlib import Path

from ..model.spec import ModelSpec
from .strider import strider

#: name to the robot's file, or to what makes its `ModelSpec`
SHIPPED: dict[str, Path | Callable[[], ModelSpec]] = {
    "strider": strider,
    "four_bar": Path(__file__).with_name("four_bar.urdf"),
}


def missing(source: object) -> str:
    """The text for a source that is neither a file nor a robot's name."""
    return f"there is no file {str(source)[:80]!r}, and no robot of that name is shipped ({', '.join(SHIPPED)})."
