"""`free_name`: names that loaders give to what the file does not name, beside names that the file uses."""

from collections.abc import Container

from .xml import Element, Notes


def free_name(notes: Notes, element: Element, what: str, wanted: str, taken: Container[str]) -> str:
    """Return `wanted`, with underscores appended if it is taken. Note the change; `what` is a plural such as
    ``"frames"``."""
    name = wanted
    while name in taken:
        name += "_"
    if name != wanted:
        notes.add(element, f"{what} whose name was taken: {{}}.", f"{wanted!r} is now {name!r}")
    return name
