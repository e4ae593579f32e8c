"""Kernel walls: functions that XLA compiles as one piece and neither inlines nor recomputes.

Left alone, XLA:CPU fuses element-wise code across joints and recomputes shared values without bound. A jitted
function that is called under ``inlineable="false"`` stays a call in the compiled program, through `vmap`,
derivatives and sharding. Whether walls help on a GPU is decided by `walls_on`.
"""

import functools
from collections.abc import Callable

import jax
from jax.experimental.xla_metadata import set_xla_metadata


def kernel(fn: Callable) -> Callable:
    """Put a wall around a function of arrays. Apply it once, at module level, so that its traces are shared."""
    jitted = jax.jit(fn)

    @functools.wraps(fn)
    def walled(*args):
        if not walls_on():
            return fn(*args)
        with set_xla_metadata(inlineable="false"):
            return jitted(*args)

    return walled


def walls_on() -> bool:
    """Whether kernels keep their walls on the default backend."""
    return jax.default_backend() == "cpu"
