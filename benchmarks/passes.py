"""What one pass over the program costs, however small the batch, and what every state adds to it.

    python benchmarks/passes.py [CHAIN ...] [--states N ...] [--out FOLDER]

Microseconds of one damped solve of `PVSoft` for batches of some sizes, of chains of so many joints whose tips are
welded to the ground, a chain's batches in turns. Sweeps are unrolled: the longer the chain, the longer the machine
code, which every pass fetches. Writes `passes.json` and a plot of the time a joint.
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
    """Microseconds of a pass by the number of states."""
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
