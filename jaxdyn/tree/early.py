"""Early elimination: every column of a joint takes one riding row with it (popov_vereshchagin, section VIII).

The rows at a body are turned by a Householder reflection so that the column meets the first of them alone, whose
multiplier is then eliminated at once:

| symbol | name here | equation (popov_vereshchagin) |
| --- | --- | --- |
| ks | ``k`` | K s, 67 |
| w, 2 / wᵀw | ``w, t`` | 65, 67 |
| Σ | ``s² / D + R`` | 66, with the compliance R of a proximal step |
| K̃ | ``Kn, Kf`` | 60: the row that goes, folded into the inertia (63) |
| λ | ``ν`` | 62 and 64 |

A body has at most six independent rows; more are turned into six (remark 9), and what is left of the others is zero.
The paper decides by the rank whether a row goes (remark 8). Here it always goes, so that shapes are static: where
the column does not move it (s = 0), R alone is its pivot, which makes it a penalty on the body, as in LCABA, and the
proximal iterations bring it to the solution. Reflections leave R as it is because it is the same for all rows.
"""

import dataclasses
import functools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..spatial.small import summed
from . import columns as co
from .sweep import down, of_parent, q_of, up, v_of
from .topology import WORLD, Topology

#: rows that a body can have without one depending on the others
MOST = 6


@dataclasses.dataclass(frozen=True)
class Early:
    """Rows at every body: `given` counts those of its constraints, `rows` also those that its children hand on, `above`
    those that it hands on."""

    given: tuple[int, ...]
    rows: tuple[int, ...]
    above: tuple[int, ...]

    @functools.cached_property
    def starts(self) -> tuple[int, ...]:
        """The first cell of the rows at every body; those of its constraints come first, then those handed on."""
        out = [0]
        for n in self.rows:
            out.append(out[-1] + n)
        return tuple(out)


@functools.lru_cache(maxsize=256)
def early(topology: Topology, given: tuple[int, ...]) -> Early:
    """What every body carries; `given` counts the rows of constraints on every body."""
    rows, above = list(given), [0] * topology.nb

    def row(b, p):
        if p != WORLD:
            above[b] = max(min(rows[b], MOST) - topology.kinds[b].nv, 0)
            rows[p] += above[b]

    up(topology, row)
    return Early(given, tuple(rows), tuple(above))


def _reflection(k):
    """w and 2 / wᵀw that turn k (rows, lanes) into (s, 0, ...), and s; nothing where k vanishes."""
    square = summed(x * x for x in k)
    some = square > 0
    norm = jnp.sqrt(jnp.where(some, square, 1))
    s = jnp.where(some, jnp.where(k[0] < 0, norm, -norm), 0)
    t = jnp.where(some, 1 / jnp.where(some, norm * (norm + jnp.abs(k[0])), 1), 0)
    return jnp.concatenate([(k[0] - s)[None], k[1:]]), t, s


def _reflected(w, t, x):
    """x − w t wᵀx along the first axis."""
    w = w.reshape(w.shape[0], *(1,) * (x.ndim - 2), w.shape[-1])
    return x - w * (t * summed(w[r] * x[r] for r in range(w.shape[0])))


def _six(rows):
    """The rows (n, 6, lanes) turned so that all but six vanish: reflections, and the six."""
    turns = []
    for j in range(MOST):
        w, t, _ = _reflection(rows[j:, j])
        turns.append((w, t))
        rows = jnp.concatenate([rows[:j], _reflected(w, t, rows[j:])])
    return tuple(turns), rows[:MOST]


def _eliminate(kind, root, inertia, H, par, q, armature, pose, K, compliance):
    """Eliminate a body whose rows are `K` (moment, force). Returns reflections into six rows, and by column (U, 1/D)
    and the row that it took with it: reflection, s, K̃ and 1/Σ; then what goes to the parent: inertia, rows."""
    H = co.added(co.rigid(*inertia), H)
    turns, rows = (), None if K is None else jnp.concatenate(K, 1)
    if rows is not None and rows.shape[0] > MOST:
        turns, rows = _six(rows)
    columns = []
    for c, s in enumerate(kind.columns(par, q)):
        Un, Uf = co.times(s, *H)
        Dinv = 1 / (co.product(s, Un, Uf) + armature[c])
        Kn, Kf = Un * Dinv, Uf * Dinv
        H, row = co.downdate(*H, Un, Uf, Kn, Kf), None
        if rows is not None and rows.shape[0]:
            by_part = jnp.swapaxes(rows, 0, 1)
            w, t, met = _reflection(co.product(s, by_part[:3], by_part[3:]))
            rows = _reflected(w, t, rows)
            n, f = rows[0, :3] - met * Kn, rows[0, 3:] - met * Kf
            Linv = 1 / (met * met * Dinv + compliance[0])
            H = co.added(H, co.symmetric_product(Linv, n, f))
            rows, row = rows[1:], ((w, t), met, n, f, Linv)
        columns.append((Un, Uf, Dinv, row))
    factor = turns, tuple(columns)
    if root:
        return factor, None, None
    left = None if rows is None or not rows.shape[0] else co.rows_to_parent(pose, (rows[:, :3], rows[:, 3:]))
    return factor, co.inertia_to_parent(pose, H), left


def _push(kind, root, par, q, pose, tau, force, factor, b):
    """One body of the way up: u by column, right sides of rows that went, those that go on, those beyond six; then the
    force on the parent, and the right sides of the rows that it gets."""
    turns, columns = factor
    n, f = force
    for j, (w, t) in enumerate(turns):
        b = jnp.concatenate([b[:j], _reflected(w, t, b[j:])])
    spare, b = (b[MOST:], b[:MOST]) if turns else (None, b)
    us, gone = [], []
    for c, (s, (Un, Uf, Dinv, row)) in enumerate(zip(kind.columns(par, q), columns, strict=True)):
        u = tau[c] - co.product(s, n, f)
        n, f = n + Un * (Dinv * u), f + Uf * (Dinv * u)
        if row is not None:
            (w, t), met, kn, kf, Linv = row
            b = _reflected(w, t, b)
            first = (b[0] - met * Dinv * u) * Linv
            n, f, b = n - kn * first, f - kf * first, b[1:]
            gone.append(first)
        us.append(u)
    rest = b if b is not None and b.shape[0] else None
    kept = jnp.stack(us), tuple(gone), rest if root else None, spare
    return kept, None if root else co.to_parent(pose, (n, f)), None if root else rest


def _pull(kind, par, q, pose, kept, factor, above, nu, compliance):
    """One body of the way down: accelerations of the joint and the body, multipliers of all its rows; `nu` are those of
    the rows that went on."""
    (us, gone, rest, spare), (turns, columns) = kept, factor
    zero = jnp.zeros_like(columns[0][0])
    w, l = (zero, zero) if above is None else co.from_parent(pose, above)
    if rest is not None:  # beyond a root: nothing moves them
        nu = -rest / compliance
    steps, gone, xs = kind.columns(par, q), list(gone), []
    for s, u, (Un, Uf, Dinv, row) in reversed(list(zip(steps, us, columns, strict=True))):
        if row is not None:
            (v, t), met, kn, kf, Linv = row
            first = co.product((kn, kf), w, l) * Linv - gone.pop()
            u = u - met * first
            nu = first[None] if nu is None else jnp.concatenate([first[None], nu])
            nu = _reflected(v, t, nu)
        x = (u - co.product((Un, Uf), w, l)) * Dinv
        w, l = co.moved(s, x, w, l)
        xs.insert(0, x)
    if turns:
        nu = jnp.concatenate([nu, -spare / compliance])
        for j, (v, t) in reversed(list(enumerate(turns))):
            nu = jnp.concatenate([nu[:j], _reflected(v, t, nu[j:])])
    return jnp.stack(xs), (w, l), nu


class Elimination:
    """Tables of the factor and of both sweeps of a solve."""

    def __init__(self, topology: Topology, plan: Early):
        self.topology, self.plan = topology, plan
        self.parents = set(topology.parents)
        handed = dict.fromkeys(range(topology.nb), 0)
        self.to: dict[int, Ref | None] = {}

        def hand_on(b, p):
            n = plan.above[b]
            self.to[b] = Ref("K", plan.starts[p] + plan.given[p] + handed[p], n) if n else None
            if n:
                handed[p] += n

        up(topology, hand_on)
        bodies, rows = topology.nb, plan.starts[-1]
        kept = {self.named("factor", b): bodies for b in range(bodies)}
        self.factor = Table(up(topology, self.eliminate), {"H": bodies, "K": rows} | kept)
        pushed = {self.named("kept", b): bodies for b in range(bodies)}
        self.up = Table(up(topology, self.push), {"force": bodies, "b": rows} | pushed)
        self.down = Table(down(topology, self.pull), {"x": topology.nv, "a": bodies, "nu": rows})

    def named(self, name: str, b: int) -> str:
        """The field of what bodies of one kind with equally many rows leave, whose structure is theirs."""
        root = self.topology.parents[b] == WORLD
        return f"{name} {self.topology.kinds[b]!r} {self.plan.rows[b]} {root}"

    def rows(self, name: str, b: int) -> Ref | None:
        """The rows of a body."""
        n = self.plan.rows[b]
        return Ref(name, self.plan.starts[b], n) if n else None

    def handed(self, name: str, b: int) -> Ref | None:
        """Where the rows go that a body hands on."""
        return None if self.to[b] is None else self.to[b]._replace(name=name)

    def place(self, b: int) -> tuple[Ref, Ref, Ref]:
        return Ref("joint", b), q_of(self.topology, b), Ref("pose", b)

    def eliminate(self, b: int, p: int) -> Row:
        par, q, pose = self.place(b)
        H = Ref("H", b) if b in self.parents else None
        armature = v_of(self.topology, b, "armature")
        reads = Ref("inertia", b), H, par, q, armature, pose, self.rows("K", b), Ref("compliance", 0, 1)
        to = None if p == WORLD else Ref("H", p)
        writes = Ref(self.named("factor", b), b), to, self.handed("K", b)
        return Row(Step(_eliminate, (self.topology.kinds[b], p == WORLD)), reads, writes)

    def push(self, b: int, p: int) -> Row:
        tau, factor = v_of(self.topology, b, "tau"), Ref(self.named("factor", b), b)
        reads = *self.place(b), tau, Ref("force", b), factor, self.rows("b", b)
        to = None if p == WORLD else Ref("force", p)
        writes = Ref(self.named("kept", b), b), to, self.handed("b", b)
        return Row(Step(_push, (self.topology.kinds[b], p == WORLD)), reads, writes)

    def pull(self, b: int, p: int) -> Row:
        kept, factor = Ref(self.named("kept", b), b), Ref(self.named("factor", b), b)
        nu = self.handed("nu", b)
        reads = *self.place(b), kept, factor, of_parent("a", p), nu, Ref("compliance", 0, 1)
        writes = v_of(self.topology, b, "x"), Ref("a", b), self.rows("nu", b)
        return Row(Step(_pull, (self.topology.kinds[b],)), reads, writes)


@functools.lru_cache(maxsize=256)
def elimination_of(topology: Topology, plan: Early) -> Elimination:
    """The tables of an elimination; equal ones are one object."""
    return Elimination(topology, plan)


class EarlyFactor(eqx.Module):
    """A factorised tree without ties, whose rows have gone on the way. See `jaxdyn.tree.elimination.Factor`.

    **Fields:** `places`, the cell of every row of the constraints."""

    tables: Elimination = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)
    joints: dict[str, Any]
    compliance: Array
    parts: dict[str, Any]

    def solve(self, tau: Array, force, b: Array | None) -> tuple[Array, Any, Array | None]:
        """As `Factor.solve`."""
        given = self.joints | self.parts | {"compliance": self.compliance}
        rows = self.tables.plan.starts[-1]
        right = {}
        if rows:
            right = {"b": jnp.zeros((rows, b.shape[-1]), b.dtype).at[jnp.asarray(self.places)].set(b)}
        up = swept(self.tables.up, given | {"tau": tau, "force": force} | right)
        kept = {name: x for name, x in up.items() if name.startswith("kept")}
        found = swept(self.tables.down, given | kept)
        nu = jnp.take(found["nu"], jnp.asarray(self.places), axis=0, mode="clip") if rows else None
        return found["x"], found["a"], nu


def factorise_early(
    tables: Elimination, inertia, armature: Array, joints: dict[str, Any], K, places, compliance: Array
) -> EarlyFactor:
    """The factor; `K` are the coefficients (moment, force) of the constraints' rows, row by row, whose cells are
    `places`; `compliance` is R (1, lanes)."""
    given = joints | {"inertia": inertia, "armature": armature, "compliance": compliance}
    rows = tables.plan.starts[-1]
    if rows:
        spread = lambda x: jnp.zeros((rows, *x.shape[1:]), x.dtype).at[jnp.asarray(places)].set(x)  # noqa: E731
        given["K"] = tuple(map(spread, K))
    found = swept(tables.factor, given)
    parts = {name: x for name, x in found.items() if name.startswith("factor")}
    return EarlyFactor(tables, tuple(places), joints, compliance, parts)
