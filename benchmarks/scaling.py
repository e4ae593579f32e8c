"""How operations, CPU time and compile time grow with the robot, for every solver that takes its constraints.

    python benchmarks/scaling.py [FAMILY ...] [--largest N] [--batch N] [--out FOLDER]

Families are the synthetic topologies of `topologies.py`. Each solver makes one damped solve, not refined, in float32,
batched, on one core. Writes `scaling.json` (kept numbers of other families stay) and one plot a family with the
fitted exponents. What is measured: `measure.py`.
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


def exponent(sizes, values) -> float:
    """The slope of a line through the logarithms of the upper half of the sizes."""
    half = len(sizes) // 2
    if len(sizes) - half < 2:
        half = 0
    return float(np.polyfit(np.log(sizes[half:]), np.log(values[half:]), 1)[0])


def plot(name: str, about: str, found: dict, folder: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(13, 4))
    for axis, key in zip(axes, ("operations", "microseconds", "compile_seconds"), strict=True):
        for solver, rows in found.items():
            sizes, values = [int(s) for s in rows], [r[key] for r in rows.values()]
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
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    unknown = sorted(set(options.families) - set(FAMILIES))
    if unknown:
        parser.error(f"no family {', '.join(unknown)}; there are {', '.join(FAMILIES)}")
    options.out.mkdir(parents=True, exist_ok=True)
    file = options.out / "scaling.json"
    kept = json.loads(file.read_text()) if file.exists() else {}
    with one_core():
        for name in options.families or FAMILIES:
            build, sizes, solvers, about = FAMILIES[name]
            cases = [(s, n) for s in solvers for n in sizes if n <= options.largest]
            found: dict = {}
            for solver, n in tqdm(cases, desc=name):
                model = build(n)
                row = measure(model, model.neutral(), getattr(jd, solver)(max_steps=1), options.batch)
                found.setdefault(solver, {})[str(n)] = row
            for solver, rows in found.items():
                at = [int(n) for n in rows]
                slopes = {k: exponent(at, [r[k] for r in rows.values()]) for k in ("operations", "microseconds")}
                last = rows[str(at[-1])]
                counted = f"{last['operations']:8d} operations (n^{slopes['operations']:.2f})"
                timed = f"{last['microseconds']:8.2f} µs (n^{slopes['microseconds']:.2f})"
                print(f"{name:12s} {solver:15s} n = {at[-1]:3d}: {counted}, {timed}")
            kept[name] = found
            with complete(file) as path:
                Path(path).write_text(json.dumps(kept, indent=1) + "\n")
            plot(name, about, found, options.out)


if __name__ == "__main__":
    main()
