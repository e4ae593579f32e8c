"""`Auto`: the law that suits the number of contacts."""

from .admm import ADMM
from .laws import FORMED, PGS, Law
from .newton import Newton

#: most rows of which a step of Newton's method, whose time grows with their cube, costs less than it saves
MOST = 96
#: tolerance in single precision
SINGLE = 1e-4


class Auto(Law):
    """`Newton` up to 96 rows, three a contact and one a joint that rubs or has limits: in double precision to its
    tolerance, in single precision to 1e-4. Beyond, `PGS` with 100 sweeps, and above 200 rows `ADMM`, without a
    matrix."""

    def pick(self, rows: int, size: int) -> Law:
        """The law for so many rows of floats of so many bytes."""
        tol = None if size == 8 else SINGLE
        if rows <= MOST:
            return Newton(tol)
        return PGS(100) if rows <= FORMED else ADMM(tol)

    def without_matrix(self, rows):
        return rows > FORMED

    def solve(self, G, g, cones, f):
        return self.pick(len(g), g.dtype.itemsize).solve(G, g, cones, f)
