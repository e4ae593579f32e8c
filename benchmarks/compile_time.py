"""Measure the time to trace and compile, and the program size, of functions that users compile once per robot.

    python benchmarks/compile_time.py [MODEL ...]

Prints one line per function: CPU seconds of tracing, CPU and wall seconds of compiling, number of kernels in the
compiled program, and seconds of a second compilation from JAX's persistent cache. Without arguments, it uses a shipped
robot.
"""

import sys
import tempfile
import time
from collections.abc import Callable

import jax
import jax.numpy as jnp

import jaxdyn as jd


def tree(model):
    return lambda q, v, tau: jd.forward_dynamics(model, jd.State(q, v), tau, constraints=()).acceleration


def loops(model):
    return lambda q, v, tau: jd.forward_dynamics(model, jd.State(q, v), tau).acceleration


def gradient(model):
    return jax.grad(lambda q, v, tau: loops(model)(q, v, tau).sum(), (0, 1, 2))


def inverse(model):
    return lambda q, v, tau: jd.inverse_dynamics(model, jd.State(q, v), tau)


FUNCTIONS = {"RNEA": inverse, "ABA": tree, "LCABA": loops, "LCABA, gradient": gradient}


def measure(name: str, make: Callable, *args) -> None:
    """Print the line for ``jax.vmap(make())`` on a batch of 256."""
    begin = time.process_time()
    lowered = jax.jit(jax.vmap(make())).lower(*args)
    traced, wall = time.process_time(), time.perf_counter()
    compiled = lowered.compile()
    spent, wall = time.process_time() - traced, time.perf_counter() - wall
    kernels = compiled.as_text().count(" fusion(")
    jax.clear_caches()
    again = time.perf_counter()
    jax.jit(jax.vmap(make())).lower(*args).compile()
    again = time.perf_counter() - again
    print(
        f"{name:28s} trace {traced - begin:5.1f} s   compile {spent:6.1f} s of CPU, {wall:6.1f} s   "
        f"{kernels:5d} kernels   cached {again:5.1f} s",
        flush=True,
    )


def main(paths: list[str]) -> None:
    models = [jd.load(p) for p in paths] or [jd.load("strider")]
    with tempfile.TemporaryDirectory() as folder:
        jax.config.update("jax_compilation_cache_dir", folder)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        for model in models:
            print(model)
            q = jnp.broadcast_to(model.neutral(), (256, model.nq))
            v = jnp.zeros((256, model.nv))

            for name, make in FUNCTIONS.items():
                measure(name, lambda make=make, model=model: make(model), q, v, v)


if __name__ == "__main__":
    main(sys.argv[1:])
