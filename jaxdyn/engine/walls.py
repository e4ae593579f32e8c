"""Walls: functions that XLA compiles as one piece, which it neither inlines into callers nor recomputes.

Without walls, XLA:CPU fuses element-wise code across joints and recomputes shared values without bound. A jitted
function that is called under ``inlineable="false"`` stays a call in the compiled program, also under `vmap`,
derivatives and sharding. `walls_on` decides where walls are used.
"""

import functools
from collections.abc import Callable

import jax
from jax.experimental.xla_metadata import set_xla_metadata


def walled(fn: Callable) -> Callable:
    """Return a function of arrays with a wall around it. Keep the result: each application traces the function anew."""
    jitted = jax.jit(fn)

    @functools.wraps(fn)
    def call(*args):
        if not walls_on():
            return fn(*args)
        with set_xla_metadata(inlineable="false"):
            return jitted(*args)

    return call


def walls_on() -> bool:
    """Return whether walls are used on the default backend."""
    return jax.default_backend() == "cpu"
