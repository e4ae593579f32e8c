"""`jaxdyn bench` measures CPU time per evaluation on one core, next to the other engines that are installed.

All engines do the same work: forward dynamics of the same random states, of the tree alone (ABA) and with the model's
constraints (LCABA). They run in this process on one core and one thread. Pinocchio (`pin`) is called from Python for
one state after the other, which adds about a microsecond to its C++; MuJoCo's MJX is batched and compiled like jaxdyn.
"""

import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import jax
import jax.numpy as jnp
import numpy as np
from tqdm import tqdm

from ..constrained.forward_dynamics import forward_dynamics
from ..constrained.lcaba import ABA, LCABA
from ..model.model import Model
from ..model.state import State
from ..spatial.instances import counted
from . import peers
from .output import complete
from .terminal import tell


@contextmanager
def one_core() -> Iterator[None]:
    """Pin all threads of this process to a single core, and give one thread to libraries with OpenMP that are loaded
    within the ``with`` block."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    threads = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = "1"
    if before:
        _pin({min(before)})
    try:
        yield
    finally:
        if before:
            _pin(before)
        if threads is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = threads


def _pin(cores: set[int]) -> None:
    """Let all threads of this process, among them those of XLA, run on these cores only."""
    for thread in os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else ["0"]:
        with suppress(ProcessLookupError):  # it has ended since
            os.sched_setaffinity(int(thread), cores)


def best(run: Callable[[], object], evaluations: int, repeats: int) -> float:
    """Return the least CPU microseconds per evaluation over `repeats` measurements, each of at least a twentieth of a
    second."""
    run()
    times = 1
    while True:
        begin = time.process_time()
        for _ in range(times):
            run()
        spent = time.process_time() - begin
        if spent > 0.05:
            break
        times *= 2
    least = spent
    for _ in range(repeats - 1):
        begin = time.process_time()
        for _ in range(times):
            run()
        least = min(least, time.process_time() - begin)
    return 1e6 * least / (times * evaluations)


def own(model: Model, states: State, tau, solver, constrained: bool, dtype, repeats: int) -> tuple[float, float]:
    """Return jaxdyn's microseconds per evaluation, and the seconds of compilation."""
    cast = lambda tree: jax.tree.map(lambda x: jnp.asarray(x, dtype), tree)  # noqa: E731
    model, states, tau = cast(model), cast(states), cast(tau)
    constraints = model.constraints if constrained else ()

    def solve(state, tau):  # closes over the model, as the programs of users should, which is faster
        return forward_dynamics(model, state, tau, constraints=constraints, solver=solver).acceleration

    begin = time.perf_counter()
    batched = jax.jit(jax.vmap(solve)).lower(states, tau).compile()
    compiled = time.perf_counter() - begin
    us = best(lambda: jax.block_until_ready(batched(states, tau)), len(states.q), repeats)
    return us, compiled


def random_states(model: Model, batch: int) -> tuple[State, jax.Array]:
    """Return random states and torques (batch, ...). Their loops are open, which does not change the cost."""
    states = jax.vmap(model.random_state)(jax.random.split(jax.random.key(0), batch))
    tau = jax.random.normal(jax.random.key(1), (batch, model.nv))
    return states, tau


def measure(model: Model, batch: int, repeats: int, tick=lambda text: None) -> list[dict]:
    """Return one record per measurement: algorithm, engine, µs, and for jaxdyn seconds of compilation. If an engine
    cannot run a model, the record says why."""
    states, tau = random_states(model, batch)
    cases = [("ABA", ABA(), False)]
    if model.constraints:
        cases.append(("LCABA, 3 solves", LCABA(max_steps=3, tol=0.0), True))
    records = []
    for name, solver, constrained in cases:
        for dtype in (jnp.float32, jnp.float64):
            bits = np.dtype(dtype).name
            tick(f"{model.name}: {name} {bits}")
            us, compiled = own(model, states, tau, solver, constrained, dtype, repeats)
            records.append({"algorithm": name, "who": f"jaxdyn {bits}", "us": us, "compile_s": compiled})
        for peer in peers.installed():
            tick(f"{model.name}: {name} {peer.name}")
            made = peer.prepare(model, states, tau, constrained)
            if isinstance(made, str):
                records.append({"algorithm": name, "who": peer.name, "why": made})
            else:
                records.append({"algorithm": name, "who": peer.name, "us": best(made, batch, repeats)})
    return records


def table(records: Sequence[dict]) -> str:
    """Return the records of one model as text, with the ratio of jaxdyn's float32 time to each peer's."""
    lines = []
    reference: dict[str, float] = {}
    for r in records:
        if r["who"] == "jaxdyn float32":
            reference[r["algorithm"]] = r["us"]
        ratio = ""
        if "us" not in r:
            lines.append(f"  {r['algorithm']:<16} {r['who']:<16} not measured: {r['why']}")
            continue
        if not r["who"].startswith("jaxdyn"):
            ratio = f"jaxdyn float32 / {r['who']} = {reference[r['algorithm']] / r['us']:.2f}"
        compiled = f"compiled in {r['compile_s']:.1f} s" if "compile_s" in r else ""
        lines.append(f"  {r['algorithm']:<16} {r['who']:<16} {r['us']:8.2f} µs  {compiled}{ratio}")
    return "\n".join(lines)


def run(models: Sequence[tuple[str, Model]], *, batch: int, repeats: int, out: str | None = None, say=tell) -> int:
    """Measure and print, and write the results to `out` as JSON. Return 0."""
    results = {}
    before = jax.config.jax_enable_x64
    names = [p.name for p in peers.installed()]
    say(f"CPU time per evaluation, batch {batch}, one core; peers: {', '.join(names) or 'none installed'}")
    for missing in peers.missing():
        say(f"  {missing}")
    try:
        jax.config.update("jax_enable_x64", True)
        with one_core(), tqdm(models, unit="robot", disable=None) as bar:
            for source, model in bar:
                results[source] = measure(model, batch, repeats, lambda text: bar.set_description(text))
                say(f"{source}: nv {model.nv}, {counted(len(model.constraints), 'constraint')}")
                say(table(results[source]))
    finally:
        jax.config.update("jax_enable_x64", before)
    if out:
        with complete(out) as temporary:
            temporary.write_text(json.dumps({"batch": batch, "results": results}, indent=1))
        say(f"wrote {out}")
    return 0
