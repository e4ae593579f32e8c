"""`Auto`: the law that suits the number of contacts."""

from .admm import ADMM
from .laws import FORMED, PGS, Law
from .newton import Newton

#: most rows of which a step of Newton's method, whose time grows with their cube, costs less than it saves
MOST = 96


class Auto(Law):
    """`Newton` up to 96 rows, three a contact and one a joint that rubs or has limits. Beyond, `PGS` with 100 sweeps,
    and above 200 rows `ADMM`, without a matrix, in single precision to 2e-4."""

    def pick(self, rows: int, size: int) -> Law:
        """The law for so many rows of floats of so many bytes."""
        if rows <= MOST:
            return Newton()
        return PGS(100) if rows <= FORMED else ADMM(None if size == 8 else 2e-4)

    def without_matrix(self, rows):
        return rows > FORMED

    def solve(self, G, g, cones, f):
        return self.pick(len(g), g.dtype.itemsize).solve(G, g, cones, f)
