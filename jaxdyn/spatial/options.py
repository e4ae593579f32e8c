"""Checks of options: numbers and counts."""

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np


def check_number(
    name: str, what: str, value: Any, allowed: Callable[[float], bool], which: str, optional: bool = False
) -> None:
    """Raise `TypeError` unless the option `what` of `name` is a number, `ValueError` unless it is finite and
    `allowed`; `which` says which numbers are. None is taken if it is `optional`."""
    if value is None and optional:
        return
    try:
        ok = isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(float(value)) and allowed(value)
    except OverflowError:  # a whole number that no float holds
        ok = False
    if not ok:
        raise (ValueError if isinstance(value, Real) else TypeError)(f"`{name}`: `{what}` = {value!r} is not {which}.")


def check_positive_integer(owner: object, name: str, optional: bool = False) -> None:
    """Raise `ValueError` unless the option `name` of an object is a positive integer, or None if `optional`."""
    check_count(type(owner).__name__, name, getattr(owner, name), optional)


def check_count(call: str, name: str, value: Any, optional: bool = False) -> None:
    """Raise `ValueError` unless an option is a positive integer, or None if `optional`."""
    if value is None and optional:
        return
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 0 < value < 2**31:
        raise ValueError(f"`{call}`: `{name}` = {value!r} is not a positive integer below 2**31.")
