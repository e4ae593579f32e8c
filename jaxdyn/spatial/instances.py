"""Arguments that must be of a class."""

from typing import Any


def check_instance(call: str, name: str, value: Any, kind: type, hint: str = "") -> None:
    """Raise `TypeError` unless `value` is a `kind`. A package that was imported twice has two classes of each name."""
    if isinstance(value, kind):
        return
    same = lambda c: (c.__module__, c.__qualname__) == (kind.__module__, kind.__qualname__)  # noqa: E731
    if any(map(same, type(value).__mro__)):
        raise TypeError(
            f"{call}: `{name}` is a `{type(value).__name__}` of another import of jaxdyn, which is loaded twice in "
            "this process: make it anew, or start Python again."
        )
    raise TypeError(f"{call}: `{name}` is {described(value)}, not a `{kind.__name__}`.{hint}")


def described(value: Any) -> str:
    """What kind of thing it is, and which if that is short."""
    if isinstance(value, type):
        return f"the class `{value.__name__}`"
    text = f"{type(value).__name__} {value!r}" if isinstance(value, str | int | float | bytes) else ""
    return text if text and len(text) <= 50 else type(value).__name__
