"""Measure kernels on a GPU: millions of evaluations a second, beside XLA, and seconds to compile.

    JAX_PLATFORMS=cpu,cuda python benchmarks/gpu.py [CASE ...] [--batches N ...] [--compilers kernel xla]

Robots and states are those of `contact_robots.py`, torques are random. A simulation is one call of 100 steps, and
counts steps. `PGS` is without limits and dry friction of joints, `Auto` is with both. Inputs and outputs are in the
GPU's memory, in the order of users' arrays (batch first). Compile time is from the call to the result, without stored
code. *Differing* counts numbers that differ from those of the CPU, of 256 states (`tests/test_gpu.py` compares bits).
Writes `gpu.json`, which keeps earlier results that are not measured again, and `gpu.md`.
"""

import os
import time
from collections.abc import Callable
from unittest import mock

import gpu_report as report
import jax
import jax.numpy as jnp
import numpy as np
from contact import LAWS, cast, programs
from contact_robots import DT, ROBOTS, Batch, Standing, batch
from results import Results, parser

import jaxdyn as jd

#: number of different states; they are repeated
STATES = 2048
#: steps of a simulation
STEPS = 100
#: numbers of states whose bits are compared, and the least seconds of a measurement
COMPARED, SECONDS = 256, 0.1
#: names of steps, here and in `contact.py`
STEPPED = {"step": "no contact", "step, PGS": "PGS", "step, Auto": "Auto, limits and dry friction"}
SIMULATED = {"simulation, PGS": LAWS["PGS"], "simulation, Auto": jd.contact.Auto()}
PROGRAMS = ("ABA", "gradient of ABA", "step", *list(STEPPED)[1:], *SIMULATED)
CASES = {
    f"{robot}, {program}, {dtype}": (robot, program, dtype)
    for robot, names in {
        "go1": PROGRAMS,
        "talos": ("ABA", "gradient of ABA", "step, PGS"),
        "cassie": ("LCABA, 3 solves", "gradient of LCABA, 3 solves", *list(STEPPED)[1:], *SIMULATED),
    }.items()
    for program in names
    for dtype in ("float32", "float64")
    if dtype == "float32" or program in ("ABA", "step, PGS", "LCABA, 3 solves")
}


def function(model: jd.Model, name: str) -> Callable:
    """Return the program of this name, as a function (q, v, tau): one of `contact.py`'s, its gradient, or a
    simulation."""
    if name.startswith("gradient of "):
        inner = function(model, name.removeprefix("gradient of "))
        return lambda *x: jax.grad(lambda *y: inner(*y).sum(), (0, 1, 2))(*x)
    if name in SIMULATED:
        return lambda *x: simulated(model, SIMULATED[name], *x)
    return programs(model)[STEPPED.get(name, name)]


def simulated(model: jd.Model, law: jd.contact.Law, q, v, tau) -> tuple[jax.Array, jax.Array]:
    """Return q and v after `STEPS` steps with a law of contact."""
    forces = jnp.broadcast_to(tau, (STEPS, model.nv))
    found = jd.simulate(model, jd.State(q, v), forces, DT, contacts=law)
    return found.q[-1], found.v[-1]


def made(f: Callable, operands: tuple) -> tuple[float, Callable]:
    """Return the seconds from the call to the result, and the program."""
    begin = time.perf_counter()
    with mock.patch.dict(os.environ, JAXDYN_CACHE_DIR=""):
        run = jax.jit(jax.vmap(f)).lower(*operands).compile()
        jax.block_until_ready(run(*operands))
    return round(time.perf_counter() - begin, 2), run


def seconds(run: Callable, operands: tuple, rounds: int = 3) -> float:
    """Return the least time of a call, of several series."""

    def series(count: int) -> float:
        begin = time.perf_counter()
        for _ in range(count):
            out = run(*operands)
        jax.block_until_ready(out)
        return (time.perf_counter() - begin) / count

    count = max(2, int(SECONDS / series(2)))
    return min(series(count) for _ in range(rounds))


def differing(found, expected) -> int:
    """Return the number of elements that differ, other than NaN."""
    total = 0
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        a, b = np.asarray(a), np.asarray(b)
        total += int(np.sum((a != b) & ~((a != a) & (b != b))))
    return total


def measured(robot: Standing, states: Batch, case: tuple, compiler: str, batches: list[int]) -> dict:
    """Return the results of a case with a compiler."""
    _, name, dtype = case
    gpu = jax.devices("cuda")[0]
    model, states = cast(dtype, robot, states)
    parts = tuple(map(np.asarray, states))
    first = tuple(x[:COMPARED] for x in parts)
    f, steps = function(model.with_compiler(compiler), name), STEPS if name in SIMULATED else 1
    found: dict = {"millions": {}}
    with jax.default_device(gpu):
        for n in batches:
            operands = jax.device_put(tuple(np.resize(x, (n, *x.shape[1:])) for x in parts), gpu)
            compiling, run = made(f, operands)
            found.setdefault("compile_seconds", compiling)
            found["millions"][str(n)] = float(f"{1e-6 * n * steps / seconds(run, operands):.3g}")
        result = jax.jit(jax.vmap(f))(*jax.device_put(first, gpu))
    if compiler == "kernel":
        found["differing"] = differing(result, jax.jit(jax.vmap(function(model.with_compiler("kernel"), name)))(*first))
    return found


def main(arguments=None) -> None:
    options = parser(__doc__, "case", tuple(CASES))
    options.add_argument("--batches", nargs="+", type=int, default=[4096, 65536, 524288])
    options.add_argument("--compilers", nargs="+", choices=("kernel", "xla"), default=("kernel", "xla"))
    chosen = options.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    results, robots = Results(chosen.out, "gpu"), {}
    for key in chosen.names or CASES:
        case = CASES[key]
        if case[0] not in robots:
            robot = ROBOTS[case[0]]()
            robots[case[0]] = robot, batch(robot, STATES)
        for compiler in chosen.compilers:
            try:
                found = measured(*robots[case[0]], case, compiler, chosen.batches)
            except Exception as error:  # a compiler may fail at one program; the others are measured still
                found = {"failed": f"{type(error).__name__}: {error}"[:300]}
            print(key, compiler, found, flush=True)
            results.extend(key, results.found.get(key, {}), {compiler: found})
    results.write(".md", report.page(results.found, results.origins.runs))


if __name__ == "__main__":
    main()
