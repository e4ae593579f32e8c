"""Early elimination: every column of a joint eliminates one riding row (popov_vereshchagin, section VIII).

A Householder reflection turns the rows at a body so that the column moves only the first of them, whose multiplier is
then eliminated at once:

| symbol | name here | equation (popov_vereshchagin) |
| --- | --- | --- |
| ks | ``k`` | K s, 67 |
| w, 2 / wᵀw | ``w, t`` | 65, 67 |
| Σ | ``s² / D + R`` | 66, with the compliance R of a proximal step |
| K̃ | ``Kn, Kf`` | 60: the row that goes, folded into the inertia (63) |
| λ | ``ν`` | 62 and 64 |

A body has at most six independent rows; more are turned into six (remark 9), and the others become zero. The paper
decides by the rank whether a row is eliminated (remark 8). Here it always is, so that shapes are static: if the column
does not move it (s = 0), its pivot is R alone. That makes it a penalty on the body, as in LCABA, and the proximal
iterations converge to the solution. Reflections do not change R because it is the same for all rows.
"""

import dataclasses
import functools
import itertools
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..spatial.small import summed
from . import columns as co
from .articulated import eliminate_columns, pull_columns, push_columns, seen_from
from .sweep import down, of_parent, place_of, up, v_of
from .topology import WORLD, Topology

#: maximum number of independent rows at a body
MOST = 6


@dataclasses.dataclass(frozen=True)
class Early:
    """The number of rows at every body: `given` counts those of its constraints, `rows` also those that its children
    hand on, `above` those that it hands on."""

    given: tuple[int, ...]
    rows: tuple[int, ...]
    above: tuple[int, ...]

    @functools.cached_property
    def starts(self) -> tuple[int, ...]:
        """Return the first cell of the rows at every body: those of its constraints, then those handed on."""
        return (0, *itertools.accumulate(self.rows))


@tables
def early(topology: Topology, given: tuple[int, ...]) -> Early:
    """Return the number of rows at every body; `given` counts the rows of constraints on every body."""
    rows, above = list(given), [0] * topology.nb

    def row(b, p):
        if p != WORLD:
            above[b] = max(min(rows[b], MOST) - topology.kinds[b].nv, 0)
            rows[p] += above[b]

    up(topology, row)
    return Early(given, tuple(rows), tuple(above))


def _reflection(k):
    """Return w and 2 / wᵀw of the reflection that turns k (rows, lanes) into (s, 0, ...), and s. If k vanishes, the
    reflection is the identity."""
    square = summed(x * x for x in k)
    some = square > 0
    norm = jnp.sqrt(jnp.where(some, square, 1))
    s = jnp.where(some, jnp.where(k[0] < 0, norm, -norm), 0)
    t = jnp.where(some, 1 / jnp.where(some, norm * (norm + jnp.abs(k[0])), 1), 0)
    return jnp.concatenate([(k[0] - s)[None], k[1:]]), t, s


def _reflected(w, t, x):
    """Return x − w t wᵀx along the first axis."""
    w = w.reshape(w.shape[0], *(1,) * (x.ndim - 2), w.shape[-1])
    return x - w * (t * summed(w[r] * x[r] for r in range(w.shape[0])))


def _six(rows):
    """Turn the rows (n, 6, lanes) so that all but six vanish. Return the reflections, and the six rows."""
    turns = []
    for j in range(MOST):
        w, t, _ = _reflection(rows[j:, j])
        turns.append((w, t))
        rows = jnp.concatenate([rows[:j], _reflected(w, t, rows[j:])])
    return tuple(turns), rows[:MOST]


class _Gone:
    """Rows (n, 6, lanes) of which every column eliminates one: a rule for `eliminate_columns`."""

    def __init__(self, K, compliance):
        self.compliance, self.turns, self.gone = compliance, (), []
        self.rows = None if K is None else jnp.concatenate(K, 1)
        if self.rows is not None and self.rows.shape[0] > MOST:
            self.turns, self.rows = _six(self.rows)

    def column(self, s, scaled, Dinv, V, H):
        if self.rows is None or not self.rows.shape[0]:
            self.gone.append(None)
            return H
        by_part = jnp.swapaxes(self.rows, 0, 1)
        w, t, met = _reflection(co.product(s, by_part[:3], by_part[3:]))
        rows = _reflected(w, t, self.rows)
        n, f = rows[0, :3] - met * scaled[0], rows[0, 3:] - met * scaled[1]
        Linv = 1 / (met * met * Dinv + self.compliance[0])
        self.rows = rows[1:]
        self.gone.append(((w, t), met, n, f, Linv))
        return co.added(H, co.symmetric_product(Linv, (n, f)))

    @property
    def left(self):
        """Return the rows that go on, (moment, force), or None."""
        none = self.rows is None or not self.rows.shape[0]
        return None if none else (self.rows[:, :3], self.rows[:, 3:])


def _eliminate(kind, root, inertia, H, par, q, armature, pose, K, compliance):
    """Eliminate a body whose rows are `K` (moment, force).

    Returns (U, 1/D), the reflections into six rows, and by column the row that it eliminates: reflection, s, K̃ and
    1/Σ; then the inertia and the rows that go to the parent."""
    rows, H = _Gone(K, compliance), co.added(co.rigid(*inertia), H)
    U, _, H, *_ = eliminate_columns(kind, par, q, armature, H, (), rows)
    factor = U, rows.turns, tuple(rows.gone)
    if root:
        return factor, None, None
    left = None if rows.left is None else co.rows_to_parent(pose, rows.left)
    return factor, co.inertia_to_parent(pose, H), left


class _Forces:
    """The right sides `b` of the rows on the way up."""

    def __init__(self, turns, gone, b):
        for j, (w, t) in enumerate(turns):
            b = jnp.concatenate([b[:j], _reflected(w, t, b[j:])])
        self.gone, self.own = gone, []
        self.spare, self.b = (b[MOST:], b[:MOST]) if turns else (None, b)

    def column(self, c, k, force):
        if self.gone[c] is None:
            return force
        (w, t), met, n, f, Linv = self.gone[c]
        b = _reflected(w, t, self.b)
        self.own.append((b[0] - met * k) * Linv)
        self.b = b[1:]
        return co.added(force, (-n * self.own[-1], -f * self.own[-1]))

    @property
    def rest(self):
        return self.b if self.b is not None and self.b.shape[0] else None


def _push(kind, root, par, q, pose, tau, force, factor, b):
    """Process one body on the way up. Return u by column, and the right sides of eliminated rows, of rows that remain
    at a root, and of rows beyond six; then the force on the parent, and the right sides of the rows that it receives.
    """
    U, turns, gone = factor
    rows = _Forces(turns, gone, b)
    us, force, _ = push_columns(kind, par, q, tau, force, U, None, 0, rows)
    kept = us, tuple(rows.own), rows.rest if root else None, rows.spare
    return kept, None if root else co.to_parent(pose, force), None if root else rows.rest


class _Rates:
    """The multipliers `nu` of the rows on the way down; `own` are the right sides of those that were eliminated at this
    body."""

    def __init__(self, gone, own, nu):
        self.gone, self.own, self.nu = gone, list(own), nu

    def column(self, c, u, motion):
        if self.gone[c] is None:
            return u
        (w, t), met, n, f, Linv = self.gone[c]
        first = co.product((n, f), *motion) * Linv - self.own.pop()
        nu = first[None] if self.nu is None else jnp.concatenate([first[None], self.nu])
        self.nu = _reflected(w, t, nu)
        return u - met * first


def _pull(kind, par, q, pose, kept, factor, above, nu, compliance):
    """Process one body on the way down. Return the accelerations of the joint and the body, and the multipliers of all
    its rows; `nu` are those of the rows that went on."""
    (us, own, rest, spare), (U, turns, gone) = kept, factor
    rows = _Rates(gone, own, nu if rest is None else -rest / compliance)  # nothing moves the rows that remain at a root
    x, motion = pull_columns(kind, par, q, us, U, None, seen_from(pose, above, U[0][0]), (), rows)
    nu = rows.nu
    if turns:
        nu = jnp.concatenate([nu, -spare / compliance])
        for j, (v, t) in reversed(list(enumerate(turns))):
            nu = jnp.concatenate([nu[:j], _reflected(v, t, nu[j:])])
    return x, motion, nu


class EarlyElimination:
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
        """Return the name of the field that holds the results of bodies of one kind with equally many rows, which share
        a structure."""
        root = self.topology.parents[b] == WORLD
        kinds = self.topology.kinds
        return f"{name} {kinds.index(kinds[b])} {self.plan.rows[b]} {root}"

    def rows(self, name: str, b: int) -> Ref | None:
        """Return the cells of a body's rows."""
        n = self.plan.rows[b]
        return Ref(name, self.plan.starts[b], n) if n else None

    def handed(self, name: str, b: int) -> Ref | None:
        """Return the cells of the rows that a body hands on."""
        return None if self.to[b] is None else self.to[b]._replace(name=name)

    def eliminate(self, b: int, p: int) -> Row:
        par, q, pose = place_of(self.topology, b)
        H = Ref("H", b) if b in self.parents else None
        armature = v_of(self.topology, b, "armature")
        reads = Ref("inertia", b), H, par, q, armature, pose, self.rows("K", b), Ref("compliance", 0, 1)
        to = None if p == WORLD else Ref("H", p)
        writes = Ref(self.named("factor", b), b), to, self.handed("K", b)
        return Row(Step(_eliminate, (self.topology.kinds[b], p == WORLD)), reads, writes)

    def push(self, b: int, p: int) -> Row:
        tau, factor = v_of(self.topology, b, "tau"), Ref(self.named("factor", b), b)
        reads = *place_of(self.topology, b), tau, Ref("force", b), factor, self.rows("b", b)
        to = None if p == WORLD else Ref("force", p)
        writes = Ref(self.named("kept", b), b), to, self.handed("b", b)
        return Row(Step(_push, (self.topology.kinds[b], p == WORLD)), reads, writes)

    def pull(self, b: int, p: int) -> Row:
        kept, factor = Ref(self.named("kept", b), b), Ref(self.named("factor", b), b)
        nu = self.handed("nu", b)
        reads = *place_of(self.topology, b), kept, factor, of_parent("a", p), nu, Ref("compliance", 0, 1)
        writes = v_of(self.topology, b, "x"), Ref("a", b), self.rows("nu", b)
        return Row(Step(_pull, (self.topology.kinds[b],)), reads, writes)


@tables
def early_elimination(topology: Topology, plan: Early) -> EarlyElimination:
    """Return the tables of an elimination; equal ones are one object."""
    return EarlyElimination(topology, plan)


class EarlyFactor(eqx.Module):
    """The factor of a tree without ties, whose rows are eliminated on the way up. See `jaxdyn.tree.factor.Factor`.

    **Fields:** `places`, the cell of every row of the constraints."""

    tables: EarlyElimination = eqx.field(static=True)
    places: tuple[int, ...] = eqx.field(static=True)
    joints: dict[str, Any]
    compliance: Array
    parts: dict[str, Any]

    def solve(self, tau: Array, force, b: Array | None) -> tuple[Array, Any, Array | None]:
        """Return what `Factor.solve` returns."""
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
    tables: EarlyElimination, inertia, armature: Array, joints: dict[str, Any], K, places, compliance: Array
) -> EarlyFactor:
    """Return the factor. `K` are the coefficients (moment, force) of the constraints' rows, row by row, whose cells are
    `places`; `compliance` is R (1, lanes)."""
    given = joints | {"inertia": inertia, "armature": armature, "compliance": compliance}
    rows = tables.plan.starts[-1]
    if rows:
        spread = lambda x: jnp.zeros((rows, *x.shape[1:]), x.dtype).at[jnp.asarray(places)].set(x)  # noqa: E731
        given["K"] = tuple(map(spread, K))
    found = swept(tables.factor, given)
    parts = {name: x for name, x in found.items() if name.startswith("factor")}
    return EarlyFactor(tables, tuple(places), joints, compliance, parts)
