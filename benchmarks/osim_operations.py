"""Count the arithmetic operations of the methods for the Delassus matrix, part by part (popov_vereshchagin, Fig. 2).

    python benchmarks/osim_operations.py [SECTION ...] [--branches N ...] [--out FOLDER]

- `robots`: arms, quadrupeds and humanoids with one to four limbs held to the ground, with six rows each, or three where
  six would be dependent.
- `stem`: mechanisms with a long stem whose ends have many branches (`topologies.long_stem`). Every additional link of a
  stem takes as many operations as the last one, so that two sizes determine where one method becomes cheaper than
  another.

`lane_operations.py` counts the operations, `osim_parts.py` defines the parts. The counts are made in double precision
and do not depend on it. Writes `osim_operations.json`, `osim_operations.md`, and a plot of each section.
"""

import functools
import math

import jax
import osim_parts
import systems
import topologies
from osim_report import draw_robots, draw_stem, written
from results import Results, parser
from tqdm import tqdm

ROBOTS = ("iiwa_point", "iiwa_weld", *(f"{robot}_{n}" for robot in ("go1", "atlas", "talos") for n in (1, 2, 3, 4)))
#: number of links per branch, and numbers of branches that start at each end
STEMS = {7: (2, 4, 6, 8, 10, 12), 1: (2, 4, 6, 8, 10, 12)}
SIZES = (3, 4)
SECTIONS = ("robots", "stem")


def of_robot(name: str) -> dict:
    """Return the parts of all methods, and the operations of the kernels if their steps are called."""
    model, q = systems.system(name)
    found = {m: osim_parts.parts(m, model, q) for m in osim_parts.METHODS}
    called = {m: osim_parts.matrix(m, model, q, called=True) for m in osim_parts.METHODS}
    rows = sum(c.layout(model.topology).rows for c in model.constraints)
    return {"nv": model.nv, "rows": rows, "parts": found, "called": called}


def of_stem(branches: int, links: int, turned: bool) -> dict:
    """Return the operations of the matrix for a stem of the first size, and of every additional link."""
    found: dict = {}
    for method in ("PV", "EFPA"):
        models = [topologies.long_stem(n, branches, links, turned) for n in SIZES]
        few, many = (osim_parts.matrix(method, model, model.neutral()) for model in models)
        found[method] = {"first": few, "link": many - few}
    return found | {"crossover": crossover(found)}


def stem_operations(found: dict, links: float) -> float:
    return found["first"] + (links - SIZES[0]) * found["link"]


def crossover(found: dict) -> int | None:
    """Return the least number of links, at least two, for which `EFPA` takes fewer operations than `PV`, or None."""
    pv, efpa = found["PV"], found["EFPA"]
    ahead, gain = efpa["first"] - pv["first"], pv["link"] - efpa["link"]
    if gain <= 0:
        return None
    return max(2, SIZES[0] + math.floor(ahead / gain) + 1)


def main(arguments=None) -> None:
    options = parser(__doc__, "section", SECTIONS)
    options.add_argument("--robots", nargs="*", choices=ROBOTS, default=ROBOTS, metavar="ROBOT")
    options.add_argument("--branches", nargs="*", type=int, help="of stems, instead of all")
    options = options.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    results = Results(options.out, "osim_operations")
    found = results.found
    for section in options.names or SECTIONS:
        rows = found.setdefault(section, {})
        if section == "robots":
            for name in tqdm(options.robots):
                rows[name] = of_robot(name)
                results.keep(section, [name])
        else:
            chosen = lambda most: most if options.branches is None else options.branches  # noqa: E731
            cases = [(b, links) for links, most in STEMS.items() for b in chosen(most)]
            for turned in (True, False):
                for branches, links in tqdm(cases):
                    name = f"{branches} branches of {links}, {'turned' if turned else 'parallel'}"
                    row = {"branches": branches, "links": links, "turned": turned}
                    rows[name] = row | of_stem(branches, links, turned)
                    results.keep(section, [name])
                    jax.clear_caches()
    if "robots" in found:
        results.plot("robots", functools.partial(draw_robots, rows=found["robots"]))
    if "stem" in found:
        results.plot("stem", functools.partial(draw_stem, rows=found["stem"], at=stem_operations))
    results.write(".md", written(found, results.origins.told))


if __name__ == "__main__":
    main()
