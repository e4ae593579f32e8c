"""The cones of admissible contact forces, and the natural map, which is zero where the contact law holds.

The rows of forces f, and of the accelerations s (or velocities over dt) along them, have this order: three for every
contact (normal n, two tangents t), one for every contact that resists twisting, and one for every velocity of joints
with limits or dry friction. Arrays are (rows, lanes); a lane is one element of the batch.

| rows | law |
| --- | --- |
| n | 0 ≤ fₙ ⊥ sₙ ≥ 0 (Signorini) |
| t | ‖f_t‖ ≤ μ fₙ; where it slides, of full size and opposite to s_t (Coulomb, maximum dissipation) |
| twist | abs(f) ≤ r fₙ, likewise |
| joint | low ≤ s ≤ high by limits, where f pushes; between them abs(f) ≤ c, likewise, by dry friction |

Limits and dry friction of a joint act along one row, because their sum is a function of one number too: f is c against
the motion, plus any force at a limit.
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import joined, widen
from ..spatial.small import summed
from . import smooth
from .effect import Unformed, diagonal, product
from .parts import largest


class Counts(NamedTuple):
    """The number of contacts, the contacts that resist twists, the number of rows of joints, and whether any of these
    may have dry friction."""

    contacts: int = 0
    twists: tuple[int, ...] = ()
    joints: int = 0
    rub: bool = True

    @property
    def rows(self) -> int:
        return self.ends[1] + self.joints

    @property
    def ends(self) -> tuple[int, int]:
        """Return the ends of the rows of contacts and of twists."""
        first = 3 * self.contacts
        return first, first + len(self.twists)


class Limited(eqx.Module):
    """The law of rows of joints. **Fields** (joints, lanes): `bound`, the largest dry friction c in N or N m; `low` and
    `high`, between which s must be."""

    bound: Array
    low: Array
    high: Array

    def project(self, z: Array, w: Array | float = 1.0, k: Array | None = None) -> Array:
        """Return the force f of rows at s with f − w s = z (joints, lanes), see `Cones.project`. Rows with w = 0 bear
        none."""
        rub = bounded(z, self.bound if isinstance(w, float) else jnp.where(w > 0, self.bound, 0), k)
        up, down = z + w * self.low, z + w * self.high
        if k is not None:
            return jnp.where(w > 0, rub + pushing(up - rub, k) - pushing(rub - down, k), 0)
        least = jnp.where(up > rub, up, rub)  # with a derivative of 0 or 1 where both are equal
        return jnp.where(down < least, down, least)


class Cones(eqx.Module):
    """The admissible forces. **Fields:** `counts`; `friction` (contacts, lanes), μ; `radius` (twists, lanes), r in m;
    `limited`, the law of rows of joints; `parts`, see `parts.py`."""

    counts: Counts = eqx.field(static=True)
    friction: Array
    radius: Array
    limited: Limited
    parts: tuple[int, ...] = eqx.field(static=True, default=())

    def project(self, z: Array, w: Array, k: Array | None = None) -> Array:
        """Return the projection P(z) of the natural map for z = f − w s (m, lanes): normal forces that push, and
        tangential ones within the bounds set by these. With k (m, lanes), its derivatives are smoothed; see
        `smooth.py`."""
        (n, t), a = self._split(z), self.counts.ends[0]
        normal = pushing(n, part(k, 0, a, 3))
        return self._whole(z, w, normal, within(t, self.friction * normal, part(k, 1, a, 3)), k)

    def nearest(self, z: Array, w: Array) -> Array:
        """Return the admissible forces nearest to z = f − w s (m, lanes), for w (lanes,), with each contact's projected
        onto its cone."""
        n, t = self._split(z)
        length = lengths(t)
        n, along, inside, opposite = self._cases(n, length)
        ratio = self.friction * along / jnp.where(length > 0, length, 1)
        choose = lambda x, y: jnp.where(inside, x, jnp.where(opposite, 0, y))  # noqa: E731
        return self._whole(z, widen(w[None], z.shape[-1]), choose(n, along), t * choose(1, ratio)[:, None])

    def _cases(self, n: Array, length: Array) -> tuple[Array, Array, Array, Array]:
        """Return the normal components of points inside the cones and of the points on the cones nearest to those
        outside, and whether points are inside, and nearest to the tip, for normal components n and lengths of
        tangential ones."""
        mu = self.friction
        # without friction, or where it slides, both mu and the length may be zero for n below zero
        inside, opposite = (length <= mu * n) & (n >= 0), mu * length <= -n
        return n, (mu * length + n) / (1 + mu * mu), inside, opposite

    def bear(self, g: Array) -> Array:
        """Return whether forces must act (lanes,): the law does not hold without any, at the accelerations g."""
        a, b = self.counts.ends
        none = self.limited.project(-g[b:]) == 0 if self.counts.joints else g[:0] == 0
        return ~joined([g[:a:3] >= 0, none]).all(0)  # also if there are NaN

    def shift(self, s: Array) -> Array:
        """Return De Saxcé's shift of s (m, lanes), μ ‖s_t‖ along normals: added to s, it turns Coulomb's law into
        complementarity with the dual cone."""
        a = self.counts.ends[0]
        mu_s = self.friction * lengths(self._split(s)[1])
        zero = jnp.zeros_like(mu_s)
        return jnp.concatenate([jnp.stack([mu_s, zero, zero], 1).reshape(a, s.shape[-1]), jnp.zeros_like(s[a:])])

    def _split(self, z: Array) -> tuple[Array, Array]:
        """Return the normal and the tangential components of contacts: (contacts, lanes) and (contacts, 2, lanes)."""
        blocks = z[: 3 * self.counts.contacts].reshape(-1, 3, z.shape[-1])
        return blocks[:, 0], blocks[:, 1:]

    def _whole(self, z: Array, w: Array, normal: Array, tangent: Array, k: Array | None = None) -> Array:
        """Return the given forces of contacts, and for the other rows the admissible forces nearest to z."""
        a, b = self.counts.ends
        parts = [jnp.concatenate([normal[:, None], tangent], 1).reshape(a, z.shape[-1])]
        if self.counts.twists:
            most = self.radius * normal[jnp.asarray(self.counts.twists)]
            parts.append(bounded(z[a:b], most, part(k, a, b)))
        if self.counts.joints:
            parts.append(self.limited.project(z[b:], w if len(w) == 1 else w[b:], part(k, b)))
        return jnp.concatenate(parts)


class Convex(Cones):
    """The same sets of forces, with the law of a convex minimum in place of Coulomb's: without De Saxcé's shift it
    holds for the admissible f with the least f·(G f / 2 + g). All rows have one weight, and a twist beyond its bound
    raises the normal force, as a tangential force does. **Fields**, besides those of `Cones`: `pinned` (contacts,
    lanes), normal forces that are known, zero where they are not."""

    pinned: Array = eqx.field(kw_only=True)

    def project(self, z: Array, w: Array, k: Array | None = None) -> Array:
        return self.nearest(z, w[0])

    def nearest(self, z: Array, w: Array) -> Array:
        if not self.counts.twists:
            return super().nearest(z, w)
        n, t = self._split(z)
        normal = self._normal(n, lengths(t), z[slice(*self.counts.ends)])
        return self._whole(z, widen(w[None], z.shape[-1]), normal, within(t, self.friction * normal))

    def _normal(self, n: Array, length: Array, twist: Array) -> Array:
        """Return the normal components of the nearest admissible forces.

        That is the x ≥ 0 with the least (x − n)² + (‖t‖ − μ x)₊² + (|τ| − r x)₊². Half the derivative is the least of
        four increasing functions, one for each choice of the squares that are positive, so that its root is the
        largest of their roots."""
        of, mu, r = jnp.asarray(self.counts.twists, int), self.friction, self.radius
        squared = jnp.zeros_like(n).at[of].add(r * r)  # padding has no radius
        pull, turn = mu * length, jnp.zeros_like(n).at[of].add(r * jnp.abs(twist))
        normal = jnp.where(n > 0, n, 0)
        for more, over in ((pull, mu * mu), (turn, squared), (pull + turn, mu * mu + squared)):
            root = (n + more) / (1 + over)
            normal = jnp.where(root > normal, root, normal)
        return jnp.where(self.pinned > 0, self.pinned, normal)

    def _cases(self, n, length):
        n, along, inside, opposite = super()._cases(n, length)
        p, known = self.pinned, self.pinned > 0
        n, along = jnp.where(known, p, n), jnp.where(known, p, along)
        return n, along, jnp.where(known, length <= self.friction * p, inside), opposite & ~known

    def shift(self, s: Array) -> Array:
        return jnp.zeros_like(s)


def lengths(t: Array) -> Array:
    """Return the lengths of vectors (n, 2, lanes); the derivative at zero is zero."""
    square = (t * t).sum(1)
    some = square > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, square, 1)), 0)


def part(k: Array | None, start: int, end: int | None = None, by: int = 1) -> Array | None:
    """Return some rows of the smoothing forces k, or None if k is None."""
    return None if k is None else k[start:end:by]


def pushing(z: Array, k: Array | None = None) -> Array:
    """Return the nearest forces that push."""
    return jnp.maximum(z, 0) if k is None else smooth.pushing(z, k)


def bounded(z: Array, bound: Array, k: Array | None = None) -> Array:
    """Return the nearest forces within bounds; the derivative at a bound is that beyond it."""
    if k is not None:
        return z * smooth.share(jnp.abs(z), bound, k)
    return jnp.where(jnp.abs(z) < bound, z, jnp.where(z > 0, bound, -bound))


def within(t: Array, radius: Array, k: Array | None = None) -> Array:
    """Return the nearest vectors (n, 2, lanes) of lengths up to `radius` (n, lanes); their derivative is zero without a
    radius."""
    if k is not None:
        return t * smooth.share(lengths(t), radius, k)[:, None]
    square = (t * t).sum(1)
    outside = square > radius * radius
    length = jnp.sqrt(jnp.where(outside, square, 1))  # the square root has no derivative at zero
    return t * jnp.where(outside, radius / length, jnp.where(radius > 0, 1, 0))[:, None]


def natural(cones: Cones, w: Array, f: Array, s: Array, k: Array | None = None) -> Array:
    """Return the natural map f − P(f − w s) (m, lanes), which is zero where the law holds. Positive weights w
    (m, lanes), equal for both tangents of a contact, do not change the solution (Alart and Curnier 1991). With k
    (m, lanes), its derivatives are smoothed."""
    return f - cones.project(f - w * s, w, k)


def scales(counts: Counts, own: Array, apart: bool = False) -> Array:
    """Return the weights (m, lanes) of the natural map: for every row 1 over its `own` entry of the diagonal of G, but
    for the rows of a contact 3 over their trace or, if `apart`, for its tangents 2 over their trace."""
    a = 3 * counts.contacts
    first = 1 if apart else 0
    mean = summed(own[k:a:3] for k in range(first, 3)) / (3 - first) if a else own[:0]
    of_contacts = jnp.repeat(mean, 3, axis=0)
    of_contacts = of_contacts.at[::3].set(own[:a:3]) if apart else of_contacts
    sizes = jnp.concatenate([of_contacts, own[a:]])
    return 1 / jnp.maximum(sizes, jnp.finfo(own.dtype).tiny ** 0.5)


def left_over(cones: Cones, G: Array | Unformed, g: Array, f: Array) -> Array:
    """Return how far f is from the law (lanes,): the largest entry of the natural map, as an acceleration, relative to
    the `measures` of its row."""
    w = scales(cones.counts, diagonal(G))
    left = jnp.abs(natural(cones, w, f, product(G, f) + g) / w)
    return (left / jnp.maximum(measures(cones, calling(cones, g), w), jnp.finfo(g.dtype).tiny)).max(0)


def calling(cones: Cones, g: Array) -> Array:
    """Return the g that require forces (m, lanes): along tangents, against normals, against dry friction and beyond
    limits."""
    (a, b), joints = cones.counts.ends, cones.limited
    of_contacts = jnp.stack([-g[:a:3], jnp.abs(g[1:a:3]), jnp.abs(g[2:a:3])], 1).reshape(a, g.shape[-1])
    beyond = jnp.maximum(joints.low - g[b:], g[b:] - joints.high)
    rubbed = jnp.where(joints.bound > 0, jnp.abs(g[b:]), 0)
    return joined([of_contacts, jnp.abs(g[a:b]), jnp.maximum(beyond, rubbed)])


def measures(cones: Cones, called: Array, w: Array) -> Array:
    """Return what to compare each row with (m, lanes), for accelerations `called` and the weights w, 1 over the
    diagonal of G: the largest of its part. Contacts are compared with contacts, in m/s². Rows that turn have another
    unit, so they are compared by √w times the acceleration, the square root of an energy."""
    a, parts = cones.counts.ends[0], cones.parts
    root, of_contacts = jnp.sqrt(w), called[:a]
    of_contacts = largest(of_contacts, parts[:a]) if a else of_contacts
    if a == len(called):
        return of_contacts
    moves = w * jnp.finfo(w.dtype).tiny ** 0.5 < 1  # the mass of a row that cannot move is infinite
    return joined([of_contacts, largest(jnp.where(moves, called * root, 0), parts)[a:] / root[a:]])
