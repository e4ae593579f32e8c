"""Measure the cost of one pass over the program, which even a small batch pays, and the cost of each additional state.

    python benchmarks/passes.py [CHAIN ...] [--states N ...] [--out FOLDER]

Measures microseconds of one damped solve of `PVSoft`, for chains whose tips are welded to the ground and batches of
several sizes; the batches of a chain are timed in turns. Sweeps are unrolled: the longer the chain, the longer the
machine code, which every pass loads. Writes `passes.json` and a plot of the time per joint.
"""

import functools

import topologies
from measure import program, together
from results import Results, parser
from tqdm import tqdm

import jaxdyn as jd
from jaxdyn.commands.bench import one_core

CHAINS = {str(n): n for n in (12, 25, 50)}


def passes(joints: int, states: list[int]) -> dict[str, float]:
    """Return the microseconds of a pass by the number of states."""
    model = topologies.chain(joints)
    runs = [program(model, model.neutral(), jd.solvers.PVSoft(max_steps=1), n)[1] for n in states]
    return dict(zip(map(str, states), together(runs, 1), strict=True))


def draw(pyplot, found: dict):
    figure, axes = pyplot.subplots(figsize=(6, 4), layout="tight")
    for joints, times in found.items():
        each = [us / int(joints) for us in times.values()]
        axes.loglog([int(n) for n in times], each, "o-", label=f"{joints} joints")
    axes.set(xlabel="states in the batch", ylabel="µs a joint")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def main() -> None:
    options = parser(__doc__, "chain", CHAINS)
    options.add_argument("--states", type=int, nargs="*", default=[16, 64, 256])
    options = options.parse_args()
    results = Results(options.out, "passes")
    with one_core():
        for name in tqdm(options.names or CHAINS):
            results.found[name] = passes(CHAINS[name], options.states)
            results.keep(name)
    results.plot("a_joint", functools.partial(draw, found=results.found))


if __name__ == "__main__":
    main()
