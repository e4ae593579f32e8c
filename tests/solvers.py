"""The table of solvers that the tests cross with the catalogue: adding a solver is adding a row."""

from typing import NamedTuple

from catalogue import CATALOGUE

import jaxdyn as jd

TREES = ("pendulum", "joints_floating", "joints_grounded", "quadruped")
#: linkages, thin rods, duplicated and singular rows, a free joint below another, rows on many bodies
FEW = ("four_bar_point", "thin_rods", "duplicated", "stretched_arm", "parent_and_child", "balanced")
#: held to the ground, by independent rows: a fixed base, a floating one that is constrained itself
GROUND = ("tip_weld", "standing")
#: and by redundant ones: more than six on a body, the same twice, a singular pose
HELD = (*GROUND, "overheld", "duplicated", "stretched_arm")
#: independent rows: loops within loops, balls and free joints, a centre of mass
INDEPENDENT = ("standing", "crossing_loops", "parent_and_child", "balanced")


#: every way in which rows meet on their way up
LOOPS = (
    "balanced",
    "general_of_three",
    "overheld",
    "crossing_loops",
    "two_robots",
    "free_in_the_middle",
    "differential",
)


class Row(NamedTuple):
    """A solver and what is asked of it.

    `robots`: those that the tests solve with it, by the names of the catalogue. `constraints`: whether it takes any;
    `loops`: whether they may join moving bodies; `redundant`: whether they may depend on each other; `soft`: whether it
    solves the soft principle instead, with weights. `acceleration` and `multipliers` are the errors allowed relative
    to max(1, |unconstrained acceleration|) and max(1, |multipliers|); `single` is the former in single precision.
    `iterates`: has `max_steps`, `mu` and `refine`.
    """

    solver: jd.Solver
    robots: tuple[str, ...]
    constraints: bool = True
    loops: bool = True
    redundant: bool = True
    soft: bool = False
    acceleration: float = 1e-8
    multipliers: float = 1e-6
    single: float = 1e-4
    iterates: bool = False


CONSTRAINED = tuple(sorted(n for n in CATALOGUE if CATALOGUE[n].constrained))

SOLVERS = {
    "ABA": Row(jd.ABA(), TREES, constraints=False),
    "PV": Row(jd.PV(), GROUND, loops=False, redundant=False),
    "PVEarly": Row(jd.PVEarly(), HELD, loops=False, iterates=True),
    "PVSoft": Row(jd.PVSoft(), ("overheld",), loops=False, soft=True),
    "ConstrainedABA": Row(jd.ConstrainedABA(), ("overheld", "stretched_arm"), loops=False, iterates=True),
    "ProxPV": Row(jd.ProxPV(), ("standing", "overheld", "stretched_arm"), loops=False, iterates=True),
    "LCABA": Row(jd.LCABA(), CONSTRAINED, iterates=True),
    "ProxBBO": Row(jd.ProxBBO(), LOOPS, iterates=True),
    "Unified": Row(jd.Unified(), ("parent_and_child", "overheld", "crossing_loops"), iterates=True),
    "LTL": Row(jd.LTL(), INDEPENDENT, redundant=False),
    "LTLSoft": Row(jd.LTLSoft(), ("same_pair",), soft=True),
    "ProxLTL": Row(jd.ProxLTL(), ("four_bar_point", "overheld", "balanced", "crossing_loops"), iterates=True),
    "ProxLTLSoft": Row(jd.ProxLTLSoft(), ("overheld", "balanced", "crossing_loops"), iterates=True),
    "Dense": Row(jd.Dense(), FEW),
    "Auto": Row(jd.Auto(), ("pendulum", "four_bar_point", "balanced")),
}


def cases(of=lambda row: row.robots) -> list[tuple[str, str]]:
    """(solver, robot) for every row of the table."""
    return [(solver, robot) for solver, row in SOLVERS.items() for robot in of(row)]


def names(wanted=lambda row: True) -> list[str]:
    return [name for name, row in SOLVERS.items() if wanted(row)]
