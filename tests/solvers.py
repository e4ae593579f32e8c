"""The table of solvers that the tests cross with the catalogue: adding a solver is adding a row."""

from typing import NamedTuple

from catalogue import CATALOGUE

import jaxdyn as jd

#: robots with all that a solver of some capabilities is asked for: (loops, redundant) to a name of the catalogue
WIDEST = {
    (True, True): "everything",
    (True, False): "everything_once",
    (False, True): "held",
    (False, False): "held_once",
}
TREES = ("pendulum", "joints_floating", "joints_grounded", "quadruped")
CONSTRAINED = tuple(sorted(n for n in CATALOGUE if CATALOGUE[n].constrained and not n.endswith("_once")))


class Row(NamedTuple):
    """A solver and what is asked of it.

    `also`: robots that it solves besides its `widest`. `constraints`: whether it takes any; `loops`: whether they may
    join moving bodies, two or more, of whatever kind; `redundant`: whether they may depend on each other; `soft`:
    whether it solves the soft principle instead, with weights. `acceleration` and `multipliers` are the errors allowed
    relative to max(1, |unconstrained acceleration|) and max(1, |multipliers|); `single` is the former in single
    precision. `iterates`: has `max_steps`, `mu` and `refine`.
    """

    solver: jd.solvers.Solver
    also: tuple[str, ...] = ()
    constraints: bool = True
    loops: bool = True
    redundant: bool = True
    soft: bool = False
    acceleration: float = 1e-8
    multipliers: float = 1e-6
    single: float = 1e-4
    iterates: bool = False

    @property
    def widest(self) -> str:
        """The robot with everything that the solver must be capable of."""
        return WIDEST[self.loops, self.redundant]

    @property
    def robots(self) -> tuple[str, ...]:
        """Those that the tests solve with it, by the names of the catalogue."""
        return tuple(dict.fromkeys(((self.widest,) if self.constraints else ()) + self.also))


#: besides the widest: a singular pose; the longest way of six rows; loops that share links, under several ancestors
SOLVERS = {
    "ABA": Row(jd.solvers.ABA(), TREES, constraints=False),
    "PV": Row(jd.solvers.PV(), loops=False, redundant=False),
    "PVEarly": Row(jd.solvers.PVEarly(), ("stretched_arm", "tip_weld"), loops=False, iterates=True),
    "PVSoft": Row(jd.solvers.PVSoft(), loops=False, soft=True),
    "ConstrainedABA": Row(jd.solvers.ConstrainedABA(), ("stretched_arm",), loops=False, iterates=True),
    "ProxPV": Row(jd.solvers.ProxPV(), ("stretched_arm",), loops=False, iterates=True),
    "LCABA": Row(jd.solvers.LCABA(), CONSTRAINED, iterates=True),
    "ProxBBO": Row(jd.solvers.ProxBBO(), ("crossing_loops", "two_robots"), iterates=True),
    "Unified": Row(jd.solvers.Unified(), ("crossing_loops",), iterates=True),
    "LTL": Row(jd.solvers.LTL(), ("crossing_loops",), redundant=False),
    "LTLSoft": Row(jd.solvers.LTLSoft(), soft=True),
    "ProxLTL": Row(jd.solvers.ProxLTL(), ("crossing_loops",), iterates=True),
    "ProxLTLSoft": Row(jd.solvers.ProxLTLSoft(), ("crossing_loops",), iterates=True),
    "Dense": Row(jd.solvers.Dense(), ("stretched_arm", "thin_rods")),
    "Auto": Row(jd.solvers.Auto(), ("pendulum", "four_bar_point")),
}


def cases(of=lambda row: row.robots) -> list[tuple[str, str]]:
    """(solver, robot) for every row of the table."""
    return [(solver, robot) for solver, row in SOLVERS.items() for robot in of(row)]


def names(wanted=lambda row: True) -> list[str]:
    return [name for name, row in SOLVERS.items() if wanted(row)]
