"""Measure an evaluation of forward dynamics: operations, CPU time on one core, and CPU time to compile."""

import math
import os
import time
from collections.abc import Callable, Hashable, Sequence
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

import jaxdyn as jd


def states(model: jd.Model, q, n: int, seed: int = 0) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return random (q, v, tau), all (n, ...), around `q`; loops are slightly open, which costs the same."""
    rng = np.random.default_rng(seed)
    v, tau = rng.normal(size=(n, model.nv)), rng.normal(size=(n, model.nv))
    around = jax.vmap(lambda d: jd.integrate(model, q, d, 0.02))(jnp.asarray(v))
    return around, jnp.asarray(v), jnp.asarray(tau)


def counted(f: Callable, *args, trips: int = 1) -> int:
    """Return the operations of one more state in a batch over which `f` is mapped."""
    import operations  # imported here because older trees lack its dependencies

    of = lambda n: operations.operations(jax.vmap(f), *[x[:n] for x in args], trips=trips)  # noqa: E731
    return of(3) - of(2)


def acceleration_by(solver: jd.solvers.Solver) -> Callable:
    """Return a function from (model, q, v, tau) to accelerations; `ABA` ignores the constraints."""
    options = {"constraints": ()} if isinstance(solver, jd.solvers.ABA) else {}
    return lambda m, q, v, tau: jd.forward_dynamics(m, jd.State(q, v), tau, solver=solver, **options).acceleration


def compiled(run: Callable, args: Sequence[jax.Array]) -> tuple[float, Callable]:
    """Return the CPU seconds to trace and compile without jaxdyn's disk cache, and the batched program of `run`."""
    begin = time.process_time()
    with mock.patch.dict(os.environ, JAXDYN_CACHE_DIR=""):
        made = jax.jit(jax.vmap(run)).lower(*args).compile()
    return round(time.process_time() - begin, 2), lambda: jax.block_until_ready(made(*args))


def program(
    model: jd.Model, q, solver: jd.solvers.Solver, batch: int = 256, dtype=jnp.float32
) -> tuple[float, Callable]:
    """Return the CPU seconds to trace and compile, and the program of a batch in this precision."""
    robot, args = jax.tree.map(lambda x: jnp.asarray(x, dtype), (model, states(model, q, batch)))
    solve = acceleration_by(solver)
    return compiled(lambda *x: solve(robot, *x), args)


def prepare(
    model: jd.Model, q, solver: jd.solvers.Solver, batch: int = 256, timed: bool = True, dtype=jnp.float32
) -> tuple[dict, Callable | None]:
    """Return the operations of one more evaluation in a batch, with as many solves as `max_steps` allows. If `timed`,
    also return the results of `program`."""
    rows = sum(c.layout(model.topology).rows for c in model.constraints)
    found: dict = {"nv": model.nv, "rows": 0 if isinstance(solver, jd.solvers.ABA) else rows}
    solve, args = acceleration_by(solver), states(model, q, 3)
    found["operations"] = counted(lambda *x: solve(model, *x), *args, trips=getattr(solver, "max_steps", 1))
    if not timed:
        return found, None
    found["compile_seconds"], run = program(model, q, solver, batch, dtype)
    return found, run


def together(runs: Sequence[Callable], batch: int = 256, rounds: int = 25) -> list[float]:
    """Return the least CPU microseconds per evaluation of each program, timed in turns so that a temporary slowdown of
    the machine affects all."""
    times = []
    for run in runs:
        run()
        begin = time.process_time()
        run()
        times.append(max(1, int(0.02 / max(time.process_time() - begin, 1e-6))))
    least = [math.inf] * len(runs)
    for _ in range(rounds):
        for k, run in enumerate(runs):
            begin = time.process_time()
            for _ in range(times[k]):
                run()
            least[k] = min(least[k], (time.process_time() - begin) / times[k])
    return [round(1e6 * x / batch, 3) for x in least]


def measure(
    cases: dict[Hashable, tuple[jd.Model, jax.Array, jd.solvers.Solver]],
    batch: int = 256,
    timed: bool = True,
    rounds: int = 25,
) -> dict:
    """Return the results of `prepare` and the microseconds of `together` by name."""
    made = {name: prepare(*case, batch, timed) for name, case in tqdm(cases.items(), leave=False)}
    runs = [run for _, run in made.values() if run is not None]
    for (found, _), us in zip(made.values(), together(runs, batch, rounds) if runs else [], strict=False):
        found["microseconds"] = us
    return {name: found for name, (found, _) in made.items()}
