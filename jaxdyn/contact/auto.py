"""`Auto`: the law that suits the number of contacts."""

from .admm import ADMM
from .laws import FORMED, PGS, Law

#: most rows of which G is factored in every round, which takes time that grows with their cube
MOST = 96


class Auto(Law):
    """`ADMM` up to 96 rows, three a contact and one a joint that rubs or has limits: in double precision to its
    tolerance, in single precision to 2e-4 and in at most 100 steps. Beyond, `PGS` with 100 sweeps, and above 200 rows
    `ADMM` again, without a matrix."""

    def pick(self, rows: int, size: int) -> Law:
        """The law for so many rows of floats of so many bytes."""
        if MOST < rows <= FORMED:
            return PGS(100)
        return ADMM() if size == 8 else ADMM(2e-4, max_steps=100 if rows <= MOST else 200)

    def without_matrix(self, rows):
        return rows > FORMED

    def solve(self, G, g, cones, f):
        return self.pick(len(g), g.dtype.itemsize).solve(G, g, cones, f)
