"""`Auto`: the solver that suits the constraints."""

from ..kinematics.rows import bundles_of, cliques_of
from ..tree.plan import elimination
from .base import Solver
from .dense import Dense
from .lcaba import ABA, LCABA

#: more neighbours than this at once, and eliminating bodies costs more than whole matrices
WIDEST = 12


class Auto(Solver):
    """`ABA` where nothing is constrained; `LCABA` where constraints tie bodies locally; `Dense` where one constraint
    ties so many bodies (a centre of mass of a large robot) that eliminating them body by body costs more."""

    def pick(self, topology, constraints) -> Solver:
        """The solver for these constraints."""
        return self._pick(topology, bundles_of(topology, constraints))

    def _pick(self, topology, bundles) -> Solver:
        if not bundles:
            return ABA()
        groups = elimination(topology, cliques_of(bundles))
        widest = max(len(g.neighbours) for g in groups)
        return LCABA() if widest <= WIDEST else Dense()

    def unrolled(self):
        return _UnrolledAuto()

    def order(self, topology, bundles):
        return self._pick(topology, bundles).order(topology, bundles)

    def solve(self, problem, start, warm, multipliers):
        return self.pick(problem.model.topology, problem.constraints).solve(problem, start, warm, multipliers)


class _UnrolledAuto(Auto):
    def _pick(self, topology, bundles):
        return Auto._pick(self, topology, bundles).unrolled()
