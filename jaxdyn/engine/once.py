"""Calls outside of `jit` of functions that loop.

There JAX compiles a `scan` or `while_loop` in each call, since its body is a new closure, and keeps all of these
programs. `once` compiles the whole function instead, once for all arguments that differ in numbers only. `anew` is for
functions that hold more than their arguments: it compiles the whole in each call, and the program goes afterwards.
"""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

import jax
import jax.extend.core
import numpy as np

from . import patterns
from .kept import programs
from .lanes import known_of

#: whether operations become part of a program. JAX calls it unsafe since results could depend on it, which they do not
#: here; without it transformations outside of `jit` compile anew
_in_program = getattr(jax.extend.core, "unsafe_am_i_under_a_jit_DO_NOT_USE", lambda: True)

P = ParamSpec("P")
T = TypeVar("T")


def once(fn: Callable[P, T]) -> Callable[P, T]:
    """Return the function `fn` of pytrees, which outside of `jit` is one program, also under `vmap` and `grad`.
    Within a program it is `fn` itself. `fn` is a module-level function or a method. Leaves that are not arrays are
    static."""

    @functools.wraps(fn)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        leaves, tree = jax.tree.flatten((args, kwargs))
        if any(isinstance(x, jax.core.Tracer) for x in leaves) and _in_program():
            return fn(*args, **kwargs)
        arrays = [x if isinstance(x, jax.Array | np.ndarray) else None for x in leaves]
        static = tuple(x if a is None else None for x, a in zip(leaves, arrays, strict=True))
        return _compiled(fn, tree, static, known_of((args, kwargs)))(arrays)

    return called


def anew(fn: Callable[[], T]) -> T:
    """Return ``fn()``. Outside of `jit` it is one program that nobody keeps. `fn` is a new function in each call."""
    return fn() if _in_program() else jax.jit(fn)()


@programs
def _compiled(fn: Callable, tree, static: tuple, known: tuple):
    """Return the compiled function of the arrays among the leaves."""

    def run(arrays):
        leaves = [x if a is None else a for x, a in zip(static, arrays, strict=True)]
        with patterns.told(leaves, known):  # the numbers of a robot that are known stay so
            args, kwargs = jax.tree.unflatten(tree, leaves)
            return fn(*args, **kwargs)

    return jax.jit(run)
