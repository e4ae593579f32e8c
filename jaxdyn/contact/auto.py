"""`Auto`: the law chosen by the number of contact rows."""

from .admm import ADMM
from .laws import FORMED, PGS, SMALL, Law
from .newton import Newton


class Auto(Law):
    """`Newton` up to 96 rows (three a contact, one a joint with dry friction or limits), `PGS` with 100 sweeps up to
    200 rows, and beyond that `ADMM` without a matrix, in single precision to a tolerance of 2e-4."""

    def pick(self, rows: int, size: int) -> Law:
        """Return the law for a number of rows and a float size in bytes."""
        if rows <= SMALL:
            return Newton()
        return PGS(100) if rows <= FORMED else ADMM(None if size == 8 else 2e-4)

    def without_matrix(self, rows):
        return rows > FORMED

    def solve(self, G, g, cones, f):
        return self.pick(len(g), g.dtype.itemsize).solve(G, g, cones, f)
