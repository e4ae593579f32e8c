"""Kernels within a program that XLA compiles, for solvers that factorise whole matrices.

No kernel contains such a factorisation, so XLA compiles the whole program. The code around the factorisation takes half
a minute to compile for a robot of 12 freedoms. As cores of their own (`jaxdyn.engine.core`), which become kernels,
these parts take seconds.
"""

import functools
from collections.abc import Callable

import jax

from ..engine.core import Function, bind


def apart(fn: Callable, static: tuple, *args, compiler: str):
    """Return fn(*static, *args), computed by a core of its own. `fn` is a module-level function of arrays with lanes
    last, `static` is hashable."""
    leaves, tree = jax.tree.flatten(args)
    outs = bind(Function(fn, static, tree, (None,) * len(leaves), compiler), *leaves)
    return jax.tree.unflatten(jax.tree.structure(jax.eval_shape(functools.partial(fn, *static), *args)), outs)


def parted(factorises: bool, compiler: str) -> Callable:
    """Return `apart` with this compiler if a solver `factorises` whole matrices; otherwise the same function without a
    core of its own."""
    return functools.partial(apart, compiler=compiler) if factorises else _inlined


def _inlined(fn, static, *args):
    return fn(*static, *args)
