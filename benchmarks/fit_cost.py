"""Fit the weights of `jaxdyn.constrained.cost` to measured times, and tell how well the choice does.

    python benchmarks/fit_cost.py measured.json

`measured.json` is what `tables.py choice` writes: microseconds by robot and solver. Least squares of relative errors,
with weights that are not negative; robots whose name starts with "random" are not fitted, only chosen for.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.optimize import nnls
from tables import robot

from jaxdyn.constrained.auto import features_of
from jaxdyn.kinematics.rows import bundles_of


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path)
    data = json.loads(parser.parse_args().measured.read_text())["choice"]
    rows, times, names = [], [], []
    for name, solvers in data.items():
        model, _ = robot(name)
        found = features_of(model.topology, bundles_of(model.topology, model.constraints))
        for solver, row in solvers.items():
            if solver in found:
                names.append((name, solver))
                rows.append(found[solver])
                times.append(row["microseconds"])
    every = sorted({k for f in rows for k in f})
    A = np.array([[f.get(k, 0.0) for k in every] for f in rows])
    t = np.array(times)
    fitted = np.array([not n.startswith("random") for n, _ in names])
    scaled = A / t[:, None]
    size = scaled.max(0)
    weights = nnls(scaled[fitted] / size, np.ones(fitted.sum()))[0] / size
    for k, w in zip(every, weights, strict=True):
        print(f'    "{k}": {1e3 * w:.3g},')
    guess = A @ weights
    for (name, solver), x, y in zip(names, t, guess, strict=True):
        print(f"{name:28s} {solver:10s} {x:8.2f} µs, model {y:8.2f} ({y / x:.2f})")


if __name__ == "__main__":
    main()
