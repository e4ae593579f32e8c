"""Fit the weights of `jaxdyn.systems.cost` to measured times, and report predicted and measured times.

    python benchmarks/fit_cost.py measured.json

`measured.json` is written by `tables.py choice`: microseconds by robot and solver. Minimises the squares of relative
errors with non-negative weights. The robots of `topologies.UNSEEN` are not used for the fit, only for the report.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy.optimize import nnls
from systems import has_digit, system
from topologies import UNSEEN

from jaxdyn.constrained.auto import features_of
from jaxdyn.kinematics.rows import plan_of
from jaxdyn.systems import cost

#: prior in microseconds: fixed cost, and cost of an operation
PRIOR = {"fixed": 0.01}
OPERATION = 1.2e-5
STRENGTH = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path)
    data = json.loads(parser.parse_args().measured.read_text())["choice"]
    rows, times, names = [], [], []
    for name, solvers in data.items():
        if "digit" in name and not has_digit():
            continue
        model, _ = system(name)
        found = features_of(model.topology, plan_of(model.topology, model.constraints))
        for solver, row in solvers.items():
            if solver in found:
                names.append((name, solver))
                rows.append(found[solver])
                times.append(row["microseconds"])
    every = ["fixed", *cost.WEIGHTS]
    A = np.array([[f.get(k, float(k == "fixed")) for k in every] for f in rows])
    times = np.array(times)
    t = times
    fitted = np.array([n not in UNSEEN for n, _ in names])
    own = np.array([[n == m for m, _ in names] for n, _ in names], float)
    own /= own.sum(1, keepdims=True)
    prior = np.array([PRIOR.get(k, OPERATION) for k in every])
    for _ in range(20):
        scaled = A / t[:, None]
        size = np.maximum(scaled.max(0), 1e-9)
        # weights that the data do not determine stay near the prior
        strength = STRENGTH * np.eye(len(every))
        left = np.concatenate([scaled[fitted] / size, strength])
        right = np.concatenate([np.ones(fitted.sum()), strength @ (prior * size)])
        weights = nnls(left, right)[0] / size
        # the speed of the machine varies: only ratios of the solvers on one robot count
        t = times * np.exp(own @ np.log(A @ weights / times))
    for k, w in zip(every, weights, strict=True):
        print(f'    "{k}": {1e3 * w:.3g},')
    guess = A @ weights
    for (name, solver), x, y in zip(names, t, guess, strict=True):
        print(f"{name:28s} {solver:10s} {x:8.2f} µs, model {y:8.2f} ({y / x:.2f})")


if __name__ == "__main__":
    main()
