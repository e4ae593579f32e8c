"""The table of solvers that the tests cross with the catalogue: adding a solver is adding a row."""

from typing import NamedTuple

from catalogue import CATALOGUE

import jaxdyn as jd

TREES = ("pendulum", "joints_floating", "joints_grounded", "quadruped")
#: linkages, thin rods, duplicated and singular rows, a free joint below another, rows on many bodies
FEW = ("four_bar_point", "thin_rods", "duplicated", "stretched_arm", "parent_and_child", "balanced")


class Row(NamedTuple):
    """A solver and what may be asked of it.

    `robots`: those that the tests solve with it, by the names of the catalogue. `constraints`: whether it takes any.
    `acceleration` and `multipliers` are the errors allowed relative to max(1, |unconstrained acceleration|) and
    max(1, |multipliers|); `single` is the former in single precision. `iterates`: has `max_steps` and `mu`.
    """

    solver: jd.Solver
    robots: tuple[str, ...]
    constraints: bool = True
    acceleration: float = 1e-8
    multipliers: float = 1e-6
    single: float = 1e-4
    iterates: bool = False


CONSTRAINED = tuple(sorted(n for n in CATALOGUE if CATALOGUE[n].constrained))

SOLVERS = {
    "ABA": Row(jd.ABA(), TREES, constraints=False),
    "LCABA": Row(jd.LCABA(), CONSTRAINED, iterates=True),
    "Dense": Row(jd.Dense(), FEW),
    "Auto": Row(jd.Auto(), ("pendulum", "four_bar_point", "balanced")),
}


def cases(of=lambda row: row.robots) -> list[tuple[str, str]]:
    """(solver, robot) for every row of the table."""
    return [(solver, robot) for solver, row in SOLVERS.items() for robot in of(row)]
