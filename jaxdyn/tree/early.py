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
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kernel import kernel
from ..spatial.small import outer, summed
from . import columns as co
from .elimination import Joints
from .field import Field
from .multipliers import flat, flat_rows, rows_on, slots_of, stack
from .plan import Group
from .sweep import down, up
from .topology import WORLD, Topology

#: rows that a body can have without one depending on the others
MOST = 6


@dataclasses.dataclass(frozen=True)
class Carrying(Group):
    """Bodies of one kind with equally many rows: per slot, the row's name at each body, (body, number); `above` are the
    names at their parents of those that go on."""

    above: tuple[tuple[Any, ...], ...] = ()

    @property
    def left(self) -> int:
        """Rows that go on to the parents."""
        return len(self.above)


@functools.lru_cache(maxsize=256)
def carrying(topology: Topology, given: tuple[int, ...]) -> tuple[Carrying, ...]:
    """The order of elimination, leaves first; `given` counts the rows of constraints on every body."""
    count, above = list(given), {}
    for b in reversed(range(topology.nb)):
        p, nv = topology.parents[b], topology.kinds[b].nv
        left = max(min(count[b], MOST) - nv, 0)
        above[b] = () if p == WORLD else tuple((p, count[p] + k) for k in range(left))
        if p != WORLD:
            count[p] += left
    groups: dict[tuple, list[int]] = defaultdict(list)
    for b in sorted(range(topology.nb), key=lambda b: -topology.depths[b]):
        groups[-topology.depths[b], topology.kinds[b], count[b]].append(b)
    out = []
    for (_, kind, n), nodes in groups.items():
        rows = tuple(tuple((b, k) for b in nodes) for k in range(n))
        moved = tuple(zip(*[above[b] for b in nodes], strict=True))
        parents = tuple(topology.parents[b] for b in nodes)
        out.append(Carrying(kind, tuple(nodes), parents, rows=rows, above=moved))
    return tuple(out)


@kernel
def _reflection(k):
    """w and 2 / wᵀw that turn k (rows, ...) into (s, 0, ...), and s; nothing where k vanishes."""
    square = summed(x * x for x in k)
    some = square > 0
    norm = jnp.sqrt(jnp.where(some, square, 1))
    s = jnp.where(some, jnp.where(k[0] < 0, norm, -norm), 0)
    w0 = k[0] - s
    return w0, jnp.where(some, 1 / jnp.where(some, norm * (norm + jnp.abs(k[0])), 1), 0), s


@kernel
def _reflected(w, t, x):
    """x − w t wᵀx along the first axis."""
    return x - w * (t * summed(w[r] * x[r] for r in range(w.shape[0])))


def _turned(w, t, pair):
    """Rows (3, slots, nodes, lanes) of moments and forces, reflected."""
    return tuple(jnp.moveaxis(_reflected(w[:, None], t, jnp.moveaxis(x, 1, 0)), 0, 1) for x in pair)


def _vector(w0, k):
    return stack([w0, *k[1:]])


@kernel
def _less(n, f, s, Kn, Kf, Dinv, R):
    """The first row after its column, and 1 / (s² / D + R)."""
    return n - s * Kn, f - s * Kf, 1 / (s * s * Dinv + R)


@kernel
def _folded(A, C, M, n, f, Linv):
    """H + K̃ᵀ K̃ / Σ."""
    x, y = n * Linv, f * Linv
    return A + outer(x, n), C + outer(x, f), M + outer(y, f)


class Gone(NamedTuple):
    """A column and the row that it took with it: (w, t) and s, K̃ and 1 / Σ; None where no row was left."""

    Un: Array
    Uf: Array
    Dinv: Array
    Kn: Array
    Kf: Array
    row: Any


def _six(pair):
    """The rows turned so that all but six vanish: reflections, and the six."""
    turns = []
    pair = jnp.broadcast_arrays(*pair)
    for j in range(MOST):
        x = jnp.concatenate(pair)[:, j:]
        w0, t, _ = _reflection(x[j])
        w = _vector(w0, x[j])
        turns.append((w, t))
        pair = tuple(
            jnp.concatenate([y[:, :j], z], 1) for y, z in zip(pair, _turned(w, t, (x[:3], x[3:])), strict=True)
        )
    return turns, tuple(x[:, :MOST] for x in pair)


class EarlyFactor(eqx.Module):
    """A factorised tree without ties, whose rows have gone on the way. See `jaxdyn.tree.elimination.Factor`."""

    order: tuple[Carrying, ...] = eqx.field(static=True)
    names: tuple[tuple[int, Any], ...] = eqx.field(static=True)  # (row, its name)
    joints: list[Joints]
    compliance: Array
    parts: list[tuple[list, list[Gone]]]

    def solve(self, tau: Sequence[Array], force: Field, rows: Field) -> tuple[list[Array], Field, Field]:
        """As `Factor.solve`."""
        given = Field()
        if self.names:
            given.add([name for _, name in self.names], rows.get([r for r, _ in self.names]))

        def up_step(group, own, tau, joints, parts):
            turns, columns = parts
            n, f = own["force"]
            p = len(group.rows)
            b = slots_of(given.get([x for slot in group.rows for x in slot]), p, len(group)) if p else None
            for j, (w, t) in enumerate(turns):
                b = stack([*b[:j], *_reflected(w, t, b[j:])])
            spare, b = (b[MOST:], b[:MOST]) if turns else (None, b)
            us, bs = [], []
            for c, e in enumerate(columns):
                if e.row is not None:
                    b = _reflected(*e.row[0], b)
                u = co.steps(group.kind, c).force(joints.par, joints.q, tau[c], n, f)
                n, f = co.pushed(n, f, e.Kn, e.Kf, u)
                if e.row is not None:
                    _, s, kn, kf, Linv = e.row
                    gone = (b[0] - s * e.Dinv * u) * Linv
                    n, f = co.pushed(n, f, kn, kf, -gone)
                    bs.append(gone)
                    b = b[1:]
                us.append(u)
            if group.left:
                given.add([x for slot in group.above for x in slot], flat_rows(b))
                b = None
            out = us, bs, b, spare
            return ({} if group.root else {"force": co.to_parent(joints.E, joints.r, n, f)}), out

        done = up(self.order, up_step, {"force": force}, tau, self.joints, self.parts)
        accelerations, found = Field(), Field()

        def down_step(group, parent, done, joints, parts):
            (us, bs, rest, spare), (turns, columns) = done, parts
            zero = jnp.zeros((3, len(group), 1), joints.E.dtype)
            w, l = (zero, zero) if parent is None else co.from_parent(joints.E, joints.r, *parent["a"])
            if group.left:
                nu = slots_of(found.get([x for slot in group.above for x in slot]), group.left, len(group))
            elif rest is not None and rest.shape[0]:  # beyond a root: nothing moves them
                nu = -rest / self.compliance[None]
            else:
                nu = None
            xs, bs = [None] * len(columns), list(bs)
            for c in reversed(range(len(columns))):
                e, u = columns[c], us[c]
                if e.row is not None:
                    turn, s, kn, kf, Linv = e.row
                    first = _rate(kn, kf, w, l) * Linv - bs.pop()
                    u = u - s * first
                    nu = stack([first]) if nu is None else stack([first, *nu])
                    nu = _reflected(*turn, nu)
                x = co.pivot(u, e.Dinv, e.Un, e.Uf, w, l)
                w, l = co.steps(group.kind, c).motion(joints.par, joints.q, x, w, l)
                xs[c] = x
            if turns:
                nu = stack([*nu, *(-spare / self.compliance[None])])
                for j, (v, t) in reversed(list(enumerate(turns))):
                    nu = stack([*nu[:j], *_reflected(v, t, nu[j:])])
            if group.rows:
                found.add([x for slot in group.rows for x in slot], flat_rows(nu))
            accelerations.add(group.nodes, (w, l))
            return {"a": (w, l)}, stack(xs)

        _, rates = down(self.order[::-1], down_step, done[::-1], self.joints[::-1], self.parts[::-1])
        out = Field()
        if self.names:
            out.add([r for r, _ in self.names], found.get([name for _, name in self.names]))
        return rates[::-1], accelerations, out


@kernel
def _rate(n, f, w, l):
    """K a of one row."""
    return co.product((n, f), w, l)


def factorise_early(
    order: Sequence[Carrying],
    names: tuple[tuple[int, Any], ...],
    joints: Sequence[Joints],
    own: Field,
    K: Field,
    compliance: Array,
) -> EarlyFactor:
    """`K` holds rows (moment, force) by (name, body), `compliance` R (1, lanes)."""

    def step(group: Carrying, at, joints: Joints):
        A, C, M = at["H"]
        p = len(group.rows)
        rows = rows_on(K, group.rows, group.nodes) if p else None
        turns: list = []
        if p > MOST:
            turns, rows = _six(rows)
            p = MOST
        columns = []
        for c in range(group.kind.nv):
            kernels = co.steps(group.kind, c)
            Un, Uf, Dinv, Kn, Kf = kernels.apply(joints.par, joints.q, joints.armature[c], A, C, M)
            row = None
            A, C, M = co.downdate(A, C, M, Un, Uf, Kn, Kf)
            if p:
                k = kernels.apply_rows(joints.par, joints.q, *rows)
                w0, t, s = _reflection(k)
                w = _vector(w0, k)
                rows = _turned(w, t, rows)
                n, f, Linv = _less(rows[0][:, 0], rows[1][:, 0], s, Kn, Kf, Dinv, compliance)
                A, C, M = _folded(A, C, M, n, f, Linv)
                rows = tuple(x[:, 1:] for x in rows)
                row = ((w, t), s, n, f, Linv)
                p -= 1
            columns.append(Gone(Un, Uf, Dinv, Kn, Kf, row))
        if group.root:
            return {}, (turns, columns)
        E, r = joints.E, joints.r
        if group.left:
            moved = zip(group.above, [group.parents] * group.left, strict=True)
            K.add(
                [(name, b) for slot, parents in moved for name, b in zip(slot, parents, strict=True)],
                flat(co.row_to_parent(E, r, *rows)),
            )
        return {"H": co.inertia_to_parent(E, r, A, C, M)}, (turns, columns)

    parts = up(order, step, {"H": own}, joints)
    return EarlyFactor(tuple(order), names, list(joints), compliance, parts)
