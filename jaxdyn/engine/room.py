"""Gives long computations in Python room for their frames.

CPython 3.11 and later keep frames in chunks of 16 kB. A function that is called again and again where a chunk ends maps
and unmaps memory on every call. Where that is depends on how deep the stack happens to be: it costs up to a quarter of
the time to trace and compile a program.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

#: numbers on the stack of a frame for which Python takes a chunk of 512 kB, half of which is left for those above it
LARGE = 34_000


def _call(fn, args, kwargs):
    return fn(*args, **kwargs)


_call.__code__ = _call.__code__.replace(co_stacksize=LARGE)


def roomy(fn: Callable[P, R]) -> Callable[P, R]:
    """Return a function that calls `fn` in a new, large chunk of frames."""

    @functools.wraps(fn)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        return _call(fn, args, kwargs)

    return call
