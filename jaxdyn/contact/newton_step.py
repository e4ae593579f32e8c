"""One step of Newton's method on the natural map, as tables whose code is the same for any number of rows.

With left = P(x − s) − x, the step Δ solves (1 − D + D (H + ε 1)) Δ = left, see `newton.py`. D has a block for each
contact, which is not symmetric. In the other rows, those of joints and twists, it is diagonal, of ones (rows that are
held) and zeros (rows at a bound, or free). There Δ = (1 − D) left is known, except in held rows. These have the
symmetric system D (H + ε 1) D, are eliminated first, and leave S in place of H to the contacts:

| step | equation |
| --- | --- |
| `_touching` | left and D of two contacts |
| `_turning`, `_held` | (1 − D) left, D left and D of twists, and of joints |
| `_between`, `_at`, `_across` | D H D, D H D + 1 − D; H D |
| `_minus_held` | y ← y − D H (1 − D) left |
| `_own`, `times`, `_back_across` | A = 1 − D + D (S + ε 1) |
| `_right` | left + D y |

`tiles.py` eliminates the held rows, and `square.py` the contacts.
"""

import jax
import jax.numpy as jnp
import numpy as np

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..tree import square, tiles
from ..tree.tiles import WIDE
from ..tree.tiles import place as lower
from .cones import Cones, Counts, Limited, bounded
from .gauss_seidel import JOINTS, bounds
from .tiled import Tiled, flat, in_tiles


def newton_step(problem: Tiled):
    """Return the function from (x, s, ε) to Δ; all are (rows, lanes), but ε is (lanes,)."""
    counts, given = problem.counts, {"H": problem.H, **bounds(problem)}
    n, contacts = counts.rows // WIDE, counts.ends[0] // WIDE
    others = n - contacts

    def step(x, s, ridge):
        found = swept(_linearised(counts), given | {"x": in_tiles(x), "s": in_tiles(s)})
        own = {name: found[name] for name in ("left", "D") if name in found} | {"ridge": ridge[None]}
        if not others:
            return flat(swept(_contacts(contacts, 0), own | {"S": problem.H})["move"])
        factor = tiles.factorise(found["S"], ridge, others)
        up, moved = tiles.forward(factor, found["y"]), found["y"][:0]
        if contacts:
            moved = swept(_contacts(contacts, others), own | {"S": factor["S"], "y": up["y"]})["move"]
        rest = found["given"] + tiles.backward(factor, up["w"], moved)
        return flat(jnp.concatenate([moved, rest]))

    return step


def _touching(x, s, friction):
    none = friction[:0]
    cones, z = Cones(Counts(2), friction, none, Limited(none, none, none)), x - s
    project = lambda z: cones.project(z, jnp.ones_like(z))  # noqa: E731
    units = jnp.broadcast_to(jnp.asarray(np.eye(WIDE), z.dtype)[..., None], (WIDE, *z.shape))
    D = jax.vmap(lambda unit: jax.jvp(project, (z,), (unit,))[1], out_axes=1)(units)
    return project(z) - x, D


def _split(project, x, s):
    """Return (1 − D) left, D left and D."""
    found, D = jax.jvp(project, (x - s,), (jnp.ones_like(x),))
    left = found - x
    return (1 - D) * left, D * left, D


def _turning(places, x, s, radius, *pressed):
    """Return `_split` of rows that resist twisting, with bounds set by the present normal forces."""
    most = jnp.stack([r * jnp.maximum(f[k] - t[k], 0) for r, (f, t), k in zip(radius, pressed, places, strict=True)])
    return _split(lambda z: bounded(z, most), x, s)


def _held(x, s, *limited):
    return _split(Limited(*limited).project, x, s)


def _between(D, H, E):
    return D[:, None] * H * E[None]


def _at(D, H):
    return _between(D, H, D) + (1 - D)[:, None] * jnp.eye(WIDE, dtype=H.dtype)[..., None]


def _across(H, D):
    return jnp.swapaxes(H * D[:, None], 0, 1)


def _same(H):
    return H


def _minus_held(D, H, given):
    return -D * tiles.pulled(H, given)


def _minus_held_back(D, H, given):
    return -D * tiles.pulled_back(H, given)


@tables
def _linearised(counts: Counts) -> Table:
    n, (first, second) = counts.rows // WIDE, (x // WIDE for x in counts.ends)
    others, rows = n - first, []
    for k in range(first):
        own = Ref("x", k), Ref("s", k), Ref("friction", k)
        rows.append(Row(Step(_touching), own, (Ref("left", k), Ref("D", k))))
    for e, k in enumerate(range(first, n)):
        own, made = (Ref("x", k), Ref("s", k)), (Ref("given", e), Ref("y", e), Ref("held", e))
        if k < second:
            of = counts.twists[WIDE * e : WIDE * (e + 1)]
            pressed = [(Ref("x", c // 2), Ref("s", c // 2)) for c in of]
            step = Step(_turning, (tuple(3 * (c % 2) for c in of),))
            rows.append(Row(step, (*own, Ref("radius", e), *pressed), made))
        else:
            rows.append(Row(Step(_held), (*own, *(Ref(name, k - second) for name in JOINTS)), made))
    for e in range(others):
        rows += _of_others(first, e, n)
    if others:
        for i, j in tiles.lower(first):
            rows.append(Row(Step(_same), (Ref("H", lower(i, j)),), Ref("S", lower(others + i, others + j))))
    sizes = {"left": first, "D": first, "given": others, "held": others}
    return Table(rows, sizes | ({"y": n, "S": n * (n + 1) // 2} if others else {}))


def _of_others(first: int, e: int, n: int) -> list[Row]:
    """Return the rows of the held ones among tile e of joints and twists."""
    held, here, others, rows = Ref("held", e), first + e, n - first, []
    for f in range(others):
        at, given = Ref("H", lower(max(here, first + f), min(here, first + f))), Ref("given", f)
        rows.append(Row(Step(_minus_held if f <= e else _minus_held_back), (held, at, given), Ref("y", e)))
        if f < e:
            rows.append(Row(Step(_between), (held, at, Ref("held", f)), Ref("S", lower(e, f))))
        elif f == e:
            rows.append(Row(Step(_at), (held, at), Ref("S", lower(e, e))))
    for c in range(first):
        at = Ref("H", lower(here, c))
        rows.append(Row(Step(_across), (at, held), Ref("S", lower(others + c, e))))
        rows.append(Row(Step(tiles.minus_pulled_back), (at, Ref("given", e)), Ref("y", others + c)))
    return rows


def _own(D, H, ridge):
    one = jnp.eye(WIDE, dtype=H.dtype)[..., None]
    return square.times(D, H + ridge * one) + one - D


def _back_across(D, H):
    return square.times(D, jnp.swapaxes(H, 0, 1))


def _right(left, D, y):
    return left + tiles.pulled(D, y)


@tables
def _contacts(n: int, others: int) -> Table:
    rows: list[Row] = []
    right = "right" if others else "left"
    for k in range(n):
        D = Ref("D", k)
        if others:
            rows.append(Row(Step(_right), (Ref("left", k), D, Ref("y", others + k)), Ref(right, k)))
        for j in range(n):
            to, at = Ref("A", square.place(n, k, j)), Ref("S", lower(others + max(k, j), others + min(k, j)))
            if j == k:
                rows.append(Row(Step(_own), (D, at, Ref("ridge", 0)), to))
            else:
                rows.append(Row(Step(square.times if j < k else _back_across), (D, at), to))
    rows += square.solution(n, "A", right, "move")
    return Table(rows, {right: n, "A": n * n, "w": n, "z": n, "move": n} | square.cells(n))
