"""Checks of the classes of arguments."""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np


def check_instance(call: str, name: str, value: Any, kind: type, hint: str = "") -> None:
    """Raise `TypeError` unless `value` is a `kind`. A package imported twice has two classes of each name."""
    if isinstance(value, kind):
        return
    for c in value.__mro__ if isinstance(value, type) else type(value).__mro__:
        if c is not kind and (c.__module__, c.__qualname__) == (kind.__module__, kind.__qualname__):
            raise TypeError(
                f"{call}: `{name}` comes from another import of jaxdyn, whose `{kind.__name__}` is not the one in use: "
                "make it anew, or start Python again and import jaxdyn once."
            )
    article = "an" if kind.__name__[0] in "AEIOU" else "a"
    raise TypeError(f"{call}: `{name}` is {described(value)}, not {article} `{kind.__name__}`.{hint}")


def check_flag(call: str, name: str, value: Any, hint: str = "") -> None:
    """Raise `TypeError` unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{call}: `{name}` is {described(value)}, neither True nor False.{hint}")


def check_callable(call: str, name: str, value: Any, count: int) -> None:
    """Raise `TypeError` unless `value` can be called with this many arguments."""
    if not callable(value):
        raise TypeError(f"{call}: `{name}` is {described(value)}, not a function.")
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):  # functions of C have none
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        plural = "s" if count > 1 else ""
        raise TypeError(f"{call}: `{name}` cannot be called with {count} argument{plural}: {error}.") from None


def check_names(call: str, name: str, value: Any) -> tuple[str, ...]:
    """Return a name, or a list or tuple of them, as a tuple. Raise `TypeError` for anything else."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(n, str) for n in names):
        raise TypeError(f"{call}: `{name}` is {described(value)}, neither a name nor a list of names.")
    return tuple(names)


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `one`, or `many` (default: with an s)."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def listed(items: Sequence[str], most: int, what: str = "", between: str = ", ") -> str:
    """Return the first `most` items as text, and how many more there are (of `what`)."""
    more = f" and {len(items) - most} more {what}".rstrip() if len(items) > most else ""
    return between.join(items[:most]) + more


def described(value: Any) -> str:
    """Return a description of the value: its type, and the value itself if that is short."""
    if isinstance(value, type):
        return f"the class `{value.__name__}`"
    if isinstance(value, int | float):
        return repr(value)
    text = f"{type(value).__name__} {value!r}" if isinstance(value, str | bytes) else ""
    return text if text and len(text) <= 50 else type(value).__name__
