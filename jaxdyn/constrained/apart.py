"""Kernels within a program that XLA compiles, for solvers by factorisations of whole matrices.

No kernel has such a factorisation, so that the whole program is left to XLA, which takes half a minute for what stands
around it for a robot of 12 freedoms. In kernels of their own those parts take seconds.
"""

import functools
from collections.abc import Callable

import jax

from ..engine.core import Function, bind


def apart(fn: Callable, static: tuple, *args, compiler: str):
    """fn(*static, *args) as a core of its own. `fn` is a module-level function of arrays with lanes last, `static`
    hashable."""
    leaves, tree = jax.tree.flatten(args)
    outs = bind(Function(fn, static, tree, (None,) * len(leaves), compiler), *leaves)
    return jax.tree.unflatten(jax.tree.structure(jax.eval_shape(functools.partial(fn, *static), *args)), outs)
