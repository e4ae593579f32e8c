"""Which contact rows are combinations of the motions of bodies, and the tables for these; see `gathered.py`."""

import dataclasses
import functools
from collections.abc import Iterable

import jax.numpy as jnp
import numpy as np

from ..engine.kept import tables
from ..engine.sets import connected
from ..engine.steps import Ref, Row, Step, Table
from ..model.constraints import Layout
from ..spatial.small import summed
from ..tree.plan import Plan
from ..tree.topology import Topology

#: rows of a body's motion
SIX = 6


@dataclasses.dataclass(frozen=True)
class Gathering:
    """Which contact rows are combinations of motions. **Fields:** `plan` of all rows; `held`, the number of
    constraints before contacts; `members`, the constraints that are gathered; `bodies`, whose motions ride for them."""

    plan: Plan
    held: int
    members: tuple[int, ...]
    bodies: tuple[int, ...]

    @functools.cached_property
    def riding(self) -> Plan:
        """Return the plan of what rides: the rows of loops, the motions, and the other contact rows."""
        layouts, motions = self.plan.layouts, tuple(Layout(("motion",), SIX, (b,)) for b in self.bodies)
        return Plan((*layouts[: self.held], *motions, *(layouts[c] for c in self.others)))

    @functools.cached_property
    def others(self) -> tuple[int, ...]:
        """Return the contact constraints whose own rows ride."""
        return tuple(c for c in range(self.held, len(self.plan)) if c not in self.members)

    def motion(self, b: int) -> int:
        """Return the number of a body's motion among what rides."""
        return self.held + self.bodies.index(b)

    def other(self, c: int) -> int:
        """Return the number of a constraint whose own rows ride among what rides."""
        return self.held + len(self.bodies) + self.others.index(c)

    @functools.cached_property
    def _coefficients(self) -> Plan:
        return Plan(tuple(self.plan.layouts[c] for c in self.members))

    def C(self, c: int) -> tuple[Ref, ...]:
        """Return the cells of the coefficients of a constraint, one for each row, body by body."""
        return self._coefficients.K(self.members.index(c), "C")

    def rows(self, constraints: Iterable[int]) -> list[int]:
        """Return the numbers of the rows of constraints among contact rows."""
        first = self.plan.starts[self.held]
        return [k - first for c in constraints for k in self.plan.span(c)]

    def ridden(self, c: int) -> Ref:
        """Return the cells of a number among what rides for contact rows, in a field with one cell a row."""
        ref = self.riding.row("x", c)
        return ref._replace(start=ref.start - self.riding.starts[self.held])


@tables
def gathering(topology: Topology, plan: Plan, held: int, slots: tuple[int, ...]) -> Gathering:
    """Return which of the constraints `slots` are gathered: those between bodies that have more contact rows than
    motions, and joints above their own to ride through. Bodies that touch each other are gathered together."""
    members, found = [], set()
    for own in connected([plan.bodies(c) for c in slots]):
        together = [slots[k] for k in own]
        bodies = {b for c in together for b in plan.bodies(c)}
        if SIX * len(bodies) < sum(map(plan.count, together)) and bodies.isdisjoint(topology.roots):
            members += together
            found |= bodies
    return Gathering(plan, held, tuple(sorted(members)), tuple(sorted(found)))


def _rate(C, x):
    return summed((c * a[None]).sum(1) for c, a in zip(C, x, strict=True))


def _push(C, f):
    return tuple((c * f[:, None]).sum(0) for c in C)


def _along(C, L):
    """Return C Λ as one cell for each entry. `L` are the rows of Λ, by body."""
    found = summed((c[:, :, None] * jnp.stack(rows)[None]).sum(1) for c, rows in zip(C, L, strict=True))
    return found.reshape(-1, found.shape[-1])


def _coupled(n, T, C):
    """Return the block T Cᵀ of n rows, with T = C Λ."""
    found = summed((t.reshape(n, 1, SIX, -1) * c[None]).sum(2) for t, c in zip(T, C, strict=True))
    return found.reshape(-1, found.shape[-1])


def _own(n, T, C):
    """Return the block of a constraint with itself, of which one half is computed."""
    first, second = np.triu_indices(n)
    found = summed((t.reshape(n, SIX, -1)[first] * c[second]).sum(1) for t, c in zip(T, C, strict=True))
    at = np.zeros((n, n), int)
    at[first, second] = at[second, first] = range(len(first))
    return found[at.ravel()]


@tables
def rates(how: Gathering) -> Table:
    """Return the table of the rates of gathered rows, "y"."""
    rows, start = [], 0
    for c in how.members:
        x, n = tuple(how.ridden(how.motion(b)) for b in how.plan.bodies(c)), how.plan.count(c)
        rows.append(Row(Step(_rate), (how.C(c), x), Ref("y", start, n)))
        start += n
    return Table(rows, {"y": start})


@tables
def placed(how: Gathering) -> np.ndarray:
    """Return where all contact rows are: among the gathered ones, then all that rides."""
    own, rest = how.rows(how.members), how.rows(how.others)
    at = np.zeros(len(own) + len(rest), int)
    at[own + rest] = [*range(len(own)), *(len(own) + SIX * len(how.bodies) + np.arange(len(rest)))]
    return at


@tables
def pushes(how: Gathering) -> Table:
    """Return the table of the forces along motions."""
    rows = []
    for c in how.members:
        x, f = tuple(how.ridden(how.motion(b)) for b in how.plan.bodies(c)), how.plan.row("f", c)
        rows.append(Row(Step(_push), (how.C(c), f._replace(start=f.start - how.plan.starts[how.held])), x))
    return Table(rows, {"x": SIX * len(how.bodies)})


@tables
def coupling(how: Gathering, blocks: frozenset[tuple[int, int]]) -> tuple[Table, np.ndarray]:
    """Return the table of the blocks "G" of gathered rows, and where the entries of all G (m, m) are: among the
    blocks, then "L", the Delassus matrix of what rides row by row, then a zero. `blocks` are those of "L" that are not
    zero."""
    made = _Coupling(how, blocks)
    return Table(made.table, {"T": made.ends["T"], "G": made.ends["G"]}), made.at


class _Coupling:
    """The rows of a `table`, the ends of its fields, and the places `at` of all entries."""

    def __init__(self, how: Gathering, blocks: frozenset[tuple[int, int]]):
        self.how, self.blocks = how, blocks
        self.size = how.riding.rows - how.riding.starts[how.held]
        self.table: list[Row] = []
        self.ends = {"T": 0, "G": 0}
        T = {(c, b): self.along(c, how.motion(b), "T") for c in how.members for b in how.bodies}
        found = {(c, d): self.along(c, how.other(d), "G") for c in how.members for d in how.others}
        for k, c in enumerate(how.members):
            found |= {(c, d): self.block(c, d, T) for d in how.members[k:]}
        self.at = self.places({pair: ref for pair, ref in found.items() if ref is not None})

    def cells(self, name: str, count: int) -> Ref:
        self.ends[name] += count
        return Ref(name, self.ends[name] - count, count)

    def along(self, c: int, to: int, name: str) -> Ref | None:
        """Return the cells of C Λ from the bodies of a constraint to a number among what rides; None if it is zero."""
        how, count, column = self.how, self.how.riding.count(to), self.how.ridden(to).start
        own = [(C, how.motion(b)) for C, b in zip(how.C(c), how.plan.bodies(c), strict=True)]
        met = [(C, k) for C, k in own if (min(k, to), max(k, to)) in self.blocks]
        if not met:
            return None
        starts = [[self.size * (how.ridden(k).start + r) + column for r in range(SIX)] for _, k in met]
        L = tuple(tuple(Ref("L", start, count) for start in rows) for rows in starts)
        made = self.cells(name, how.plan.count(c) * count)
        self.table.append(Row(Step(_along), (tuple(C for C, _ in met), L), made))
        return made

    def block(self, c: int, d: int, T: dict[tuple[int, int], Ref | None]) -> Ref | None:
        """Return the cells of the block of two gathered constraints; None if it is zero."""
        how, n = self.how, self.how.plan.count(c)
        own = [(T[c, b], C) for C, b in zip(how.C(d), how.plan.bodies(d), strict=True) if T[c, b] is not None]
        if not own:
            return None
        made = self.cells("G", n * how.plan.count(d))
        self.table.append(Row(Step(_own if c == d else _coupled, (n,)), tuple(zip(*own, strict=True)), made))
        return made

    def places(self, found: dict[tuple[int, int], Ref]) -> np.ndarray:
        how, n, end = self.how, self.size, self.ends["G"]
        m = how.plan.rows - how.plan.starts[how.held]
        at = np.full((m, m), end + n * n)
        for (c, d), ref in found.items():
            rows, columns = how.rows([c]), how.rows([d])
            block = np.arange(ref.start, ref.start + len(rows) * len(columns)).reshape(len(rows), len(columns))
            at[np.ix_(rows, columns)], at[np.ix_(columns, rows)] = block, block.T
        rest = how.rows(how.others)
        kept = SIX * len(how.bodies) + np.arange(len(rest))
        at[np.ix_(rest, rest)] = end + n * kept[:, None] + kept
        return at
