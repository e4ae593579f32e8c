"""Sweeps of projected Gauss-Seidel, as tables (lists of array steps), whose code is the same for any number of
contacts.

A tile is six rows, such as those of two contacts. A sweep updates one tile after the other, from the new forces of the
tiles before it and the old forces of those after it. Rows of joints are swept half as often as contacts: they are
often more, and converge faster, because contacts act on them more than they act on contacts.

| step | reads | writes |
| --- | --- | --- |
| `pulled`, `pulled_back` | a tile of H, forces of its columns | its part of s = H x + h |
| `pressed` | s, the tile's own H and forces, of two contacts | their new forces |
| `turned`, `held` | the same of rows that resist twisting, and of joints | their new forces |

A contact that sticks is solved exactly, by s = 0. One that slides with the friction μ f_n z / ‖z‖ has s_n = 0 where

    z = f_t − s_t / a,    a = eᵀ H_tt e for the unit vector e across f_t,
    f_n ← f_n − s_n / (H_nn + μ H_nt z / ‖z‖),    with s_n of the friction μ f_n z / ‖z‖.

The first line is Newton's step of the direction: where s_t = −λ f_t, to turn f_t by an angle φ turns s_t across it by
φ (a + λ) ‖f_t‖, and z is f_t turned by s_⊥ / ((a + λ) ‖f_t‖). The second one is Newton's step of the normal force. Its
divisor is kept above a share of H_nn, `least`: a contact jams where it is not positive, and if two contacts slide
against each other, sweeps whose normal forces overshoot may not converge.
"""

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import widen
from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..tree.tiles import WIDE, beside, place, pulled_back
from .cones import Counts, Limited, bounded
from .tiled import Tiled

#: fields with one cell for a tile of rows of joints
JOINTS = "bound", "low", "high"
#: share of the trace of a contact's own H added to its diagonal: bodies may be unable to move along a direction
LEAST = {4: 1e-6, 8: 1e-12}
#: most 1 / a over the least one, see above
FAR = 10.0


def prepared(problem: Tiled) -> dict[str, Array]:
    """Return the fields that sweeps of a problem read, and sweeps of its contacts alone."""
    given = {"H": problem.H, **bounds(problem)}
    return given | swept(_preparing(problem.counts), {"H": problem.H})


def bounds(problem: Tiled) -> dict[str, Array]:
    """Return the bounds of the forces of a problem, tile by tile: `friction` of contacts, `radius` of twists, `bound`,
    `low` and `high` of joints."""
    cones, lanes = problem.cones, problem.h.shape[-1]
    given = {"friction": widen(cones.friction, lanes).reshape(-1, 2, lanes)}
    given["radius"] = widen(cones.radius, lanes).reshape(-1, WIDE, lanes)
    return given | {name: widen(getattr(cones.limited, name), lanes).reshape(-1, WIDE, lanes) for name in JOINTS}


def sweep(counts: Counts, given: dict[str, Array], h: Array, x: Array) -> Array:
    """Return the forces (n, WIDE, lanes) after one sweep."""
    return swept(_sweep(counts, 0, len(x)), given | {"s": h, "x": x})["new"]


def twice(counts: Counts, given: dict[str, Array], h: Array, x: Array) -> tuple[Array, Array]:
    """Return the forces (n, WIDE, lanes) before and after the last update of each row, in two sweeps of contacts and
    twists followed by one of joints; in two sweeps if there are no contacts, or no joints."""
    end = counts.ends[1] // WIDE
    if not end or not counts.joints:
        last = sweep(counts, given, h, x)
        return last, sweep(counts, given, h, last)
    alone = counts._replace(joints=0)
    pulled_by = without_joints(counts, given["H"], h, x)
    last = sweep(alone, given, pulled_by, x[:end])
    new = sweep(alone, given, pulled_by, last)
    held = swept(_sweep(counts, end, len(x)), given | {"s": h, "x": jnp.concatenate([new, x[end:]])})["new"]
    return jnp.concatenate([last, x[end:]]), jnp.concatenate([new, held])


def without_joints(counts: Counts, H: Array, h: Array, x: Array) -> Array:
    """Return h of contacts and twists where the forces of joints are those of x; all are (n, WIDE, lanes)."""
    end = counts.ends[1] // WIDE
    return swept(_pulled(end, len(x)), {"H": H, "x": x, "s": h[:end]})["s"]


def _inverted(H):
    """Return, for two contacts, the inverses of their own blocks of H (for sticking), and for each one over the normal
    entry and one over the largest eigenvalue of the tangential block (for sliding)."""
    found = [_inverse(H[k : k + 3, k : k + 3]) for k in (0, 3)]
    return jnp.stack([x for x, _ in found]), jnp.stack([x for _, x in found])


def _inverse(own):
    trace = own[0, 0] + own[1, 1] + own[2, 2]
    least = LEAST[own.dtype.itemsize] * trace + jnp.finfo(own.dtype).tiny
    a, b, c, d, e, f = own[0, 0] + least, own[0, 1], own[0, 2], own[1, 1] + least, own[1, 2], own[2, 2] + least
    # by L D Lᵀ with bounded pivots: the determinant of a block of rank one would be rounding alone
    x = 1 / a
    l, m = b * x, c * x
    second = jnp.maximum(d - b * l, least)
    y = 1 / second
    n = (e - b * m) * y
    z = 1 / jnp.maximum(f - c * m - n * n * second, least)
    k = l * n - m
    first = [x + l * l * y + k * k * z, -l * y - k * n * z, k * z]
    p, q, r = y + n * n * z, -n * z, z
    inverse = jnp.stack([jnp.stack(row) for row in (first, [first[1], p, q], [first[2], q, r])])
    half = (own[1, 1] - own[2, 2]) / 2
    largest = (own[1, 1] + own[2, 2]) / 2 + jnp.sqrt(half * half + own[1, 2] * own[1, 2])
    return inverse, jnp.stack([1 / (own[0, 0] + least), 1 / (largest + least)])


def _pressed(s, H, x, mu, inverse, over, least):
    """Return the new forces of two contacts, solved one after the other with all other forces held."""
    one, two = slice(3), slice(3, 6)
    along, share = _answer(s[one] + (H[one] * x[None]).sum(1), H[one, one], x[one], mu[0], inverse[0], over[0], least)
    # what was computed last is added last: the second contact waits for the first one's share, and that for a root
    answer = s[two] + (H[two, two] * x[None, two]).sum(1) + share * (H[two, one] * along[None]).sum(1)
    first = share * along
    along, share = _answer(answer, H[two, two], x[two], mu[1], inverse[1], over[1], least)
    return jnp.concatenate([first, share * along])


def _answer(s, own, f, mu, inverse, over, least):
    """Return a vector and a number whose product is the new force of a contact."""
    stick = [f[k] - inverse[k, 0] * s[0] - inverse[k, 1] * s[1] - inverse[k, 2] * s[2] for k in range(3)]
    sticks = (stick[0] > 0) & (stick[1] * stick[1] + stick[2] * stick[2] <= (mu * stick[0]) ** 2)
    less = s[0] * over[0]
    pressed, lifted = jnp.maximum(f[0] - less, 0), jnp.where(less < f[0], less, f[0])
    s_t = [s[k] - lifted * own[0, k] for k in (1, 2)]
    inside = [f[k] - s_t[k - 1] * over[1] for k in (1, 2)]
    slides = (inside[0] * inside[0] + inside[1] * inside[1] > (mu * pressed) ** 2) & ~sticks
    step = _across(own, f, over[1])
    z = [f[k] - s_t[k - 1] * step for k in (1, 2)]
    length = jnp.sqrt(z[0] * z[0] + z[1] * z[1] + jnp.finfo(s.dtype).tiny)  # z may be zero
    # times length and over H_nn, so that one root and one division follow on z
    turn = mu * over[0] * (own[0, 1] * z[0] + own[0, 2] * z[1])
    missing = (s[0] - own[0, 1] * f[1] - own[0, 2] * f[2]) * over[0] * length + turn * f[0]
    steep = length + turn
    slide = jnp.maximum(f[0] - missing / jnp.where(steep > least * length, steep, least * length), 0)
    free = [jnp.where(sticks, x, y) for x, y in zip(stick, (pressed, *inside), strict=True)]
    ratio = mu / length
    along = [jnp.where(slides, x, y) for x, y in zip((1, ratio * z[0], ratio * z[1]), free, strict=True)]
    return jnp.stack(along), jnp.where(slides, slide, 1)


def _across(own, f, over):
    """Return one over the entry of H across the friction of a contact, `over` without friction. With this step the
    direction in which it slides converges like with Newton's method."""
    square = f[1] * f[1] + f[2] * f[2]
    across = own[1, 1] * f[2] * f[2] - 2 * own[1, 2] * f[1] * f[2] + own[2, 2] * f[1] * f[1]
    step = square / across
    return jnp.where(square > 0, jnp.where(step < FAR * over, step, FAR * over), over)


def _turned(places, s, H, x, radius, normals):
    """Return the new forces of rows that resist twisting, within bounds set by the normal forces at `places`."""
    most = jnp.stack([r * f[k] for r, f, k in zip(radius, normals, places, strict=True)])
    return _in_turn(s, H, x, lambda k, z: bounded(z, most[k]))


def _held(s, H, x, *limited):
    """Return the new forces of rows of joints."""
    return _in_turn(s, H, x, lambda k, z: Limited(*(of[k] for of in limited)).project(z))


def _in_turn(s, H, x, nearest):
    """Return the new forces of rows, solved one after the other: those ``nearest(k, z)`` to z = x − s for row k."""
    new = list(x)
    for k in range(WIDE):
        answer = s[k] + sum(H[k, j] * new[j] for j in range(WIDE))
        new[k] = nearest(k, new[k] - answer)  # H has ones on its diagonal
    return jnp.stack(new)


@tables
def _preparing(counts: Counts) -> Table:
    n = counts.contacts // 2
    rows = [Row(Step(_inverted), (Ref("H", place(k, k)),), (Ref("inverse", k), Ref("over", k))) for k in range(n)]
    return Table(rows, {"inverse": n, "over": n})


@tables
def _pulled(end: int, n: int) -> Table:
    """Return the table that adds the effect of the tiles from `end` on to the other tiles."""
    pairs = [(k, j) for k in range(end) for j in range(end, n)]
    return Table(
        [Row(Step(pulled_back), (Ref("H", place(j, k)), Ref("x", j)), Ref("s", k)) for k, j in pairs], {"s": end}
    )


@tables
def _sweep(counts: Counts, start: int, end: int) -> Table:
    """Return the table of a sweep over the tiles from `start` to `end`."""
    n, (first, second) = counts.rows // WIDE, (x // WIDE for x in counts.ends)
    rows: list[Row] = []
    for k in range(start, end):
        newest = lambda j, k=k: Ref("new", j - start) if start <= j < k else Ref("x", j)  # noqa: E731
        rows += beside(n, k, "H", newest, "s")
        own = Ref("s", k), Ref("H", place(k, k)), Ref("x", k)
        if k < first:
            step, more = Step(_pressed), tuple(Ref(name, k) for name in ("friction", "inverse", "over"))
            more += (Ref("least", 0),)
        elif k < second:
            of = counts.twists[WIDE * (k - first) : WIDE * (k - first + 1)]
            step = Step(_turned, (tuple(3 * (c % 2) for c in of),))
            more = Ref("radius", k - first), tuple(Ref("new", c // 2) for c in of)
        else:
            step, more = Step(_held), tuple(Ref(name, k - second) for name in JOINTS)
        rows.append(Row(step, (*own, *more), Ref("new", k - start)))
    return Table(rows, {"s": n, "new": end - start})
