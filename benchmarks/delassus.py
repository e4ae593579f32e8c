"""Measure all methods for the Delassus operator J M⁻¹ Jᵀ + R of rows in contact, and compare them with dense algebra.

    python benchmarks/delassus.py [SCENE ...] [--methods METHOD ...] [--batches N ...] [--dtypes DTYPE ...]
                                  [--rounds N] [--again] [--out FOLDER]

Scenes are those of `scenes.py`, including the paper's Table I and families of growing size (`swimmer_25`, `stack_8`).
Measures CPU time on one core: first a product, a damped solve, and both, starting from a configuration; then, for an
existing operator, a product and a solve with another vector, and a solve with another damping. Methods of a scene are
timed in turns. A batch of 1 means evaluations one after the other in one program.

Memory in bytes: what an operator stores for one state, what an XLA program allocates temporarily, and what a kernel
needs for one state while it runs. A batch is skipped if its operators would take more than `--most` megabytes, or its
slowest program more than `--patience` seconds per run.

Writes `delassus.json`, which keeps earlier measurements unless `--again` is given, `delassus.md`, and one plot per
family.
"""

import argparse
import functools

import jax
import jax.numpy as jnp
import numpy as np
import scenes
from delassus_programs import METHODS, STEPS, TIMES, Programs, programs, reference, refusal
from delassus_report import draw, written
from measure import together
from results import Results, parser
from scene_parts import ContactScene
from tqdm import tqdm

from jaxdyn.commands.bench import one_core

BATCHES, DTYPES = (1, 16, 512), ("float32", "float64")
SECTION = "scenes"


def key(name: str, dtype: str, batch: int) -> str:
    return f"{name} {dtype} {batch}"


def too_much(row: dict, options, batch: int) -> str | None:
    """Return why a batch is skipped, or None, judged by the results `row` of the same method for a smaller batch."""
    megabytes = batch * (row["stored_bytes"] + max(row["temporary_bytes"].values())) / 1e6
    seconds = batch * max(row["microseconds"].values()) / 1e6
    if megabytes > options.most:
        return f"would take {megabytes:.0f} MB"
    return f"would take {seconds:.1f} s a run" if seconds > options.patience else None


def prepared(scene: ContactScene, method: str, batch: int, dtype: str, smaller: dict | None, options):
    """Return the programs, or the reason why there are none."""
    if smaller is not None:
        why = smaller.get("left out") or too_much(smaller, options, batch)
        if why:
            return {"left out": why}
    why = refusal(scene, method)
    return {"left out": why} if why else programs(scene, method, batch, jnp.dtype(dtype), options.steps)


def differences(made: Programs, wanted: dict[str, np.ndarray]) -> dict[str, float]:
    """Return the errors by program: the largest difference relative to the largest entry."""
    off = lambda a, b: float(f"{np.abs(a - b).max() / np.abs(b).max():.2g}")  # noqa: E731
    return {name: off(made.outputs[name], x) for name, x in wanted.items()}


def measured(scene: ContactScene, methods, batch: int, dtype: str, smaller: dict, options) -> dict:
    """Return the results by method; all methods are timed in turns."""
    made = {m: prepared(scene, m, batch, dtype, smaller.get(m), options) for m in tqdm(methods, leave=False)}
    ready = {m: p for m, p in made.items() if isinstance(p, Programs)}
    runs = [p.runs[t] for p in ready.values() for t in TIMES]
    times = together(runs, options.steps if batch == 1 else batch, options.rounds) if runs else []
    wanted = reference(scene, options.steps, batch) if ready else {}
    found: dict = {m: p for m, p in made.items() if not isinstance(p, Programs)}
    for (method, p), k in zip(ready.items(), range(0, len(times), len(TIMES)), strict=True):
        us = dict(zip(TIMES, times[k : k + len(TIMES)], strict=True))
        found[method] = {"microseconds": us, **p.found, "difference": differences(p, wanted)}
    return {m: found[m] for m in methods}


def size(scene: ContactScene) -> dict:
    return {"nv": scene.model.nv, "contacts": len(scene.contacts), "rows": scene.rows}


def options_of(arguments=None) -> argparse.Namespace:
    options = parser(__doc__, "scene", scenes.NAMES)
    options.add_argument("--methods", nargs="*", choices=METHODS, default=METHODS, metavar="METHOD")
    options.add_argument("--batches", nargs="*", type=int, default=BATCHES)
    options.add_argument("--dtypes", nargs="*", choices=DTYPES, default=DTYPES)
    options.add_argument("--rounds", type=int, default=7)
    options.add_argument("--steps", type=int, default=STEPS, help="evaluations of a batch of 1")
    options.add_argument("--most", type=float, default=1500.0, metavar="MB", help="memory of a batch of operators")
    options.add_argument("--patience", type=float, default=5.0, metavar="S", help="CPU seconds of one run")
    options.add_argument("--again", action="store_true", help="measure anew what is there already")
    return options.parse_args(arguments)


def main(arguments=None) -> None:
    options = options_of(arguments)
    jax.config.update("jax_enable_x64", True)
    results = Results(options.out, "delassus")
    rows = results.found.setdefault(SECTION, {})
    with one_core():
        for name in tqdm(options.names or (*scenes.PAPER, *scenes.GROWING)):
            scene = None
            for dtype in options.dtypes:
                smaller: dict = {}
                for batch in sorted(options.batches):
                    row = rows.get(key(name, dtype, batch), {}).get("methods", {})
                    missing = [m for m in options.methods if options.again or m not in row]
                    if missing:
                        scene = scene or scenes.scene(name)
                        new = measured(scene, missing, batch, dtype, smaller, options)
                        row = {m: (row | new)[m] for m in METHODS if m in row | new}
                        rows[key(name, dtype, batch)] = size(scene) | {"methods": row}
                        results.keep(SECTION, [key(name, dtype, batch)])
                        results.write(".md", written(rows, results.origins.told(SECTION)))
                    smaller = smaller | row
            jax.clear_caches()
        for family in scenes.FAMILIES:
            if any(row.startswith(f"{family}_") for row in rows):
                results.plot(family, functools.partial(draw, family=family, rows=rows))


if __name__ == "__main__":
    main()
