"""Measure how operations, CPU time and compile time grow with the robot, for every solver that accepts its constraints.

    python benchmarks/scaling.py [FAMILY ...] [--largest N] [--timed N] [--solvers SOLVER ...] [--batch N] [--again]
                                 [--out FOLDER]

Families are the synthetic topologies of `topologies.py`. Each solver makes one damped solve without refinement, in
float32, batched, on one core. Writes `scaling.json`, which keeps earlier numbers unless `--again` is given, the fitted
exponents as `scaling.md`, and one plot per family. `measure.py` makes the measurements.
"""

import functools
import itertools
from collections.abc import Callable

import jax
import numpy as np
import topologies
from measure import measure
from results import Results, parser
from tqdm import tqdm

import jaxdyn as jd
from jaxdyn.commands.bench import one_core

GROUND = ("PVSoft", "ConstrainedABA", "PVEarly", "PV", "LTL", "ProxLTL")
LOOPS = ("LCABA", "ProxBBO", "Unified", "ProxLTL", "ProxLTLSoft")

#: by family: builder, sizes, solvers, and the unit of the size
FAMILIES = {
    "chain": (topologies.chain, (6, 12, 25, 50, 100), GROUND, "joints"),
    "tree": (topologies.tree, (10, 20, 40, 80), GROUND, "joints, ten a limb"),
    "ladder": (topologies.ladder, (1, 2, 4, 8), GROUND, "rungs"),
    "cycle": (topologies.cycle, (8, 16, 32, 64), LOOPS, "links of one loop"),
    "loop_chain": (topologies.loop_chain, (1, 2, 4, 8), LOOPS, "loops of seven links"),
    "nested": (topologies.nested_loops, (1, 2, 4, 6), LOOPS, "loops around one middle"),
    "branching": (topologies.branching_loops, (2, 4, 8, 12), LOOPS, "branches with welded tips"),
}


def points(rows: dict, key: str) -> tuple[list[int], list[float]]:
    """Return the sizes and values of rows that have `key`."""
    found = {int(n): r[key] for n, r in rows.items() if key in r}
    return list(found), list(found.values())


def exponent(sizes, values) -> float:
    """Return the slope of a line fitted to the logarithms of the upper half of the sizes; NaN for a single one."""
    if len(sizes) < 2:
        return float("nan")
    half = len(sizes) // 2
    if len(sizes) - half < 2:
        half = 0
    return float(np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)[0])


KEYS = {"operations": "operations", "microseconds": "time", "compile_seconds": "compile time"}


def written(families: dict, told: Callable[[str], str]) -> str:
    """Return exponents and the values of the largest robot as Markdown; `told` gives the origin of a family."""
    out = ["# Growth", "", "Made by `benchmarks/scaling.py`: exponents of n, fitted to the upper half of the sizes."]
    for family, solvers in families.items():
        out += ["", f"## {family}", "", f"n counts {FAMILIES[family][3]}. {told(family)}".rstrip(), ""]
        out += ["| solver | sizes | " + " | ".join(KEYS.values()) + " | of the largest: µs | operations |"]
        out += ["|---" * (4 + len(KEYS)) + "|"]
        for solver, rows in solvers.items():
            slopes = [exponent(*points(rows, key)) for key in KEYS]
            last = rows[max(rows, key=int)]
            cells = [", ".join(rows), *(f"{x:.2f}" if x == x else "" for x in slopes)]
            cells += [f"{last['microseconds']:.2f}" if "microseconds" in last else "", f"{last['operations']:,}"]
            out.append(f"| {solver} | " + " | ".join(cells) + " |")
    return "\n".join(out) + "\n"


def draw(pyplot, name: str, about: str, found: dict):
    keys = [k for k in KEYS if any(points(r, k)[0] for r in found.values())]
    figure, axes = pyplot.subplots(1, len(keys), figsize=(4.4 * len(keys), 4), squeeze=False, layout="tight")
    for axis, key in zip(axes[0], keys, strict=True):
        for solver, rows in found.items():
            sizes, values = points(rows, key)
            slope = f" ({exponent(sizes, values):.2f})" if len(sizes) > 1 else ""
            axis.loglog(sizes, values, marker="o", label=f"{solver}{slope}")
        axis.set(xlabel=f"{name}: {about}", title=key.replace("_", " "))
        axis.legend(fontsize="small")
    return figure


def missing(name: str, found: dict, options) -> tuple[dict, dict]:
    """Return the missing cases for `measure` by (solver, size): those to be timed, and those of which only operations
    are counted."""
    build, sizes, solvers, _ = FAMILIES[name]
    build, timed, counted = functools.cache(build), {}, {}
    for n, solver in itertools.product([n for n in sizes if n <= options.largest], solvers):
        chosen = n <= options.timed and (not options.solvers or solver in options.solvers)
        key = "microseconds" if chosen else "operations"
        if options.again or key not in found.get(solver, {}).get(str(n), {}):
            case = build(n), build(n).neutral(), getattr(jd.solvers, solver)(max_steps=1)
            (timed if chosen else counted)[solver, n] = case
    return timed, counted


def main() -> None:
    options = parser(__doc__, "family", FAMILIES)
    options.add_argument("--largest", type=int, default=10**9, help="leave larger robots out")
    options.add_argument("--timed", type=int, default=10**9, help="only count the operations of robots above this size")
    options.add_argument("--solvers", nargs="*", help="only count the operations of others than these")
    options.add_argument("--again", action="store_true", help="measure anew what is there already")
    options.add_argument("--batch", type=int, default=256)
    options = options.parse_args()
    results = Results(options.out, "scaling")
    with one_core():
        for name in tqdm(options.names or FAMILIES):
            about = FAMILIES[name][3]
            found = results.found.setdefault(name, {})
            timed, counted = missing(name, found, options)
            # all sizes in turns, too, so that a temporary slowdown of the machine does not distort the curve
            measured = measure(counted, options.batch, False) if counted else {}
            measured |= measure(timed, options.batch, rounds=100) if timed else {}
            for (solver, n), row in measured.items():
                rows = found.get(solver, {}) | {str(n): row}
                found[solver] = dict(sorted(rows.items(), key=lambda item: int(item[0])))
            jax.clear_caches()
            results.keep(name, [f"{solver} {n}" for solver, n in measured])
            for solver, rows in found.items():
                slopes = [f"{key} n^{exponent(*points(rows, key)):.2f}" for key in ("operations", "microseconds")]
                print(f"{name:12s} {solver:15s} {', '.join(slopes)}")
            results.write(".md", written(results.found, results.origins.told))
            results.plot(name, functools.partial(draw, name=name, about=about, found=found))


if __name__ == "__main__":
    main()
