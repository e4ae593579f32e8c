"""How operations, CPU time and compile time grow with the robot, for every solver that takes its constraints.

    python benchmarks/scaling.py [FAMILY ...] [--largest N] [--batch N] [--out FOLDER]

Families are the synthetic topologies of `topologies.py`. Each solver makes one damped solve, not refined, in float32,
batched, on one core. Writes `scaling.json`, in which earlier numbers are kept unless `--again`, and one plot a family
with the fitted exponents. What is measured: `measure.py`.
"""

import argparse
import json
from pathlib import Path

import matplotlib
import numpy as np
import topologies
from measure import measure
from tqdm import tqdm

import jaxdyn as jd
from jaxdyn.bench import one_core
from jaxdyn.output import complete

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402 - after the backend

OUT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks"
GROUND = ("PVSoft", "ConstrainedABA", "PVEarly", "PV", "LTL", "ProxLTL")
LOOPS = ("LCABA", "ProxBBO", "Unified", "ProxLTL", "ProxLTLSoft")

#: builder, sizes, solvers, and what the size counts
FAMILIES = {
    "chain": (topologies.chain, (6, 12, 25, 50, 100), GROUND, "joints"),
    "tree": (topologies.tree, (10, 20, 40, 80), GROUND, "joints, ten a limb"),
    "ladder": (topologies.ladder, (1, 2, 4, 8), GROUND, "rungs"),
    "cycle": (topologies.cycle, (8, 16, 32, 64), LOOPS, "links of one loop"),
    "loop_chain": (topologies.loop_chain, (1, 2, 4, 8), LOOPS, "loops of seven links"),
    "nested": (topologies.nested_loops, (1, 2, 4, 6), LOOPS, "loops around one middle"),
    "branching": (topologies.branching_loops, (1, 2, 4, 6), LOOPS, "branches on one object"),
}


def points(rows: dict, key: str) -> tuple[list[int], list[float]]:
    """Sizes and values, where there are any."""
    found = {int(n): r[key] for n, r in rows.items() if key in r}
    return list(found), list(found.values())


def exponent(sizes, values) -> float:
    """The slope of a line through the logarithms of the upper half of the sizes; NaN of a single one."""
    if len(sizes) < 2:
        return float("nan")
    half = len(sizes) // 2
    if len(sizes) - half < 2:
        half = 0
    return float(np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)[0])


def plot(name: str, about: str, found: dict, folder: Path) -> None:
    keys = [
        k for k in ("operations", "microseconds", "compile_seconds") if any(points(r, k)[0] for r in found.values())
    ]
    figure, axes = plt.subplots(1, len(keys), figsize=(4.4 * len(keys), 4), squeeze=False)
    for axis, key in zip(axes[0], keys, strict=True):
        for solver, rows in found.items():
            sizes, values = points(rows, key)
            slope = f" ({exponent(sizes, values):.2f})" if len(sizes) > 1 else ""
            axis.loglog(sizes, values, marker="o", label=f"{solver}{slope}")
        axis.set(xlabel=f"{name}: {about}", title=key.replace("_", " "))
        axis.legend(fontsize="small")
    figure.tight_layout()
    with complete(folder / f"scaling_{name}.png") as path:
        figure.savefig(path, format="png", dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", metavar="FAMILY", help=f"of {', '.join(FAMILIES)}; default: all")
    parser.add_argument("--largest", type=int, default=10**9, help="leave larger robots out")
    parser.add_argument("--timed", type=int, default=10**9, help="only count the operations of robots above this size")
    parser.add_argument("--again", action="store_true", help="measure anew what is there already")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    unknown = sorted(set(options.families) - set(FAMILIES))
    if unknown:
        parser.error(f"no family {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "scaling.json"
    kept = json.loads(file.read_text()) if file.exists() else {}

    def keep() -> None:
        with complete(file) as path:
            Path(path).write_text(json.dumps(kept, indent=1) + "\n")

    with one_core():
        for name in options.families or FAMILIES:
            build, sizes, solvers, about = FAMILIES[name]
            found = kept.setdefault(name, {})
            for n in tqdm([n for n in sizes if n <= options.largest], desc=name):
                key = "microseconds" if n <= options.timed else "operations"
                if options.again or any(key not in found.get(s, {}).get(str(n), {}) for s in solvers):
                    model = build(n)
                    kinds = {s: (model, model.neutral(), getattr(jd, s)(max_steps=1)) for s in solvers}
                    for solver, row in measure(kinds, options.batch, n <= options.timed).items():
                        rows = found.get(solver, {}) | {str(n): row}
                        found[solver] = dict(sorted(rows.items(), key=lambda item: int(item[0])))
                    keep()
            for solver, rows in found.items():
                slopes = [f"{key} n^{exponent(*points(rows, key)):.2f}" for key in ("operations", "microseconds")]
                print(f"{name:12s} {solver:15s} {', '.join(slopes)}")
            plot(name, about, found, options.out)


if __name__ == "__main__":
    main()
