"""The sets that contact forces lie in, and the natural map that is zero where a law of contact holds.

Rows of forces f and of what they act on, s (accelerations, or velocities over dt), stand in this order: three for every
contact (normal n, two tangents t), one for every contact that resists twisting, those with a bound, and those that only
push.

| rows | law |
| --- | --- |
| n | 0 ≤ fₙ ⊥ sₙ ≥ 0 (Signorini) |
| t | ‖f_t‖ ≤ μ fₙ, against s_t and of full size where it slides (Coulomb, maximum dissipation) |
| twist | abs(f) ≤ r fₙ, likewise |
| bounded | abs(f) ≤ c, likewise: dry friction of joints |
| pushing | 0 ≤ f ⊥ s ≥ 0: limits of joints |
"""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..spatial.small import summed
from . import smooth
from .effect import Unformed, diagonal, product


class Counts(NamedTuple):
    """How many contacts; of which contacts the twists are resisted; how many rows are bounded, and how many push."""

    contacts: int = 0
    twists: tuple[int, ...] = ()
    bounded: int = 0
    pushing: int = 0

    @property
    def rows(self) -> int:
        return 3 * self.contacts + len(self.twists) + self.bounded + self.pushing

    @property
    def ends(self) -> tuple[int, int, int]:
        """Where contacts, twists and bounded rows end."""
        first = 3 * self.contacts
        return first, first + len(self.twists), first + len(self.twists) + self.bounded


class Cones(eqx.Module):
    """**Fields:** `counts`; `friction` (contacts, lanes), μ; `radius` (twists, lanes), r in m; `bound` (bounded,
    lanes), c in N or N m."""

    counts: Counts = eqx.field(static=True)
    friction: Array
    radius: Array
    bound: Array

    def project(self, z: Array, k: Array | None = None) -> Array:
        """What the natural map takes z (m, lanes) to: normal forces that push, and tangential ones within the bounds
        that these set. With k (m, lanes) its derivatives are smoothed; see `smooth.py`."""
        (n, t), a = self._split(z), self.counts.ends[0]
        normal = pushing(n, part(k, 0, a, 3))
        return self._whole(z, normal, within(t, self.friction * normal, part(k, 1, a, 3)), k)

    def nearest(self, z: Array) -> Array:
        """The forces nearest to z (m, lanes) that the law allows, each contact's on its cone."""
        (n, t), mu = self._split(z), self.friction
        length = lengths(t)
        along = (mu * length + n) / (1 + mu * mu)
        inside, opposite = length <= mu * n, mu * length <= -n
        ratio = mu * along / jnp.where(length > 0, length, 1)
        choose = lambda x, y: jnp.where(inside, x, jnp.where(opposite, 0, y))  # noqa: E731
        return self._whole(z, choose(n, along), t * choose(1, ratio)[:, None])

    def shift(self, s: Array) -> Array:
        """What makes the dual cone of s (m, lanes) that of Coulomb's law: μ ‖s_t‖ along normals (De Saxcé)."""
        a = self.counts.ends[0]
        mu_s = self.friction * lengths(self._split(s)[1])
        zero = jnp.zeros_like(mu_s)
        return jnp.concatenate([jnp.stack([mu_s, zero, zero], 1).reshape(a, s.shape[-1]), jnp.zeros_like(s[a:])])

    def _split(self, z: Array) -> tuple[Array, Array]:
        """The normal and the tangential numbers of contacts: (contacts, lanes) and (contacts, 2, lanes)."""
        blocks = z[: 3 * self.counts.contacts].reshape(-1, 3, z.shape[-1])
        return blocks[:, 0], blocks[:, 1:]

    def _whole(self, z: Array, normal: Array, tangent: Array, k: Array | None = None) -> Array:
        """The forces of contacts, and the nearest to z of the other rows."""
        a, b, c = self.counts.ends
        parts = [jnp.concatenate([normal[:, None], tangent], 1).reshape(a, z.shape[-1])]
        if self.counts.twists:
            most = self.radius * normal[jnp.asarray(self.counts.twists)]
            parts.append(bounded(z[a:b], most, part(k, a, b)))
        if self.counts.bounded:
            parts.append(bounded(z[b:c], self.bound, part(k, b, c)))
        return jnp.concatenate([*parts, pushing(z[c:], part(k, c))])


def lengths(t: Array) -> Array:
    """Lengths of vectors (n, 2, lanes); zero has the derivative zero."""
    square = (t * t).sum(1)
    some = square > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, square, 1)), 0)


def part(k: Array | None, start: int, end: int | None = None, by: int = 1) -> Array | None:
    """Some rows of what smooths derivatives, if it is there."""
    return None if k is None else k[start:end:by]


def pushing(z: Array, k: Array | None = None) -> Array:
    """The nearest forces that push."""
    return jnp.maximum(z, 0) if k is None else smooth.pushing(z, k)


def bounded(z: Array, bound: Array, k: Array | None = None) -> Array:
    """The nearest forces within bounds."""
    return jnp.clip(z, -bound, bound) if k is None else z * smooth.share(jnp.abs(z), bound, k)


def within(t: Array, radius: Array, k: Array | None = None) -> Array:
    """The nearest vectors (n, 2, lanes) of lengths up to `radius` (n, lanes)."""
    if k is not None:
        return t * smooth.share(lengths(t), radius, k)[:, None]
    square = (t * t).sum(1)
    outside = square > radius * radius
    length = jnp.sqrt(jnp.where(outside, square, 1))  # zero has no derivative
    return t * jnp.where(outside, radius / length, 1)[:, None]


def natural(cones: Cones, w: Array, f: Array, s: Array, k: Array | None = None) -> Array:
    """f − P(f − w s) (m, lanes): zero where the law holds. Positive weights w (m, lanes), the same for both tangents of
    a contact, change no solution (Alart and Curnier 1991). With k (m, lanes) its derivatives are smoothed."""
    return f - cones.project(f - w * s, k)


def scales(counts: Counts, G: Array | Unformed, apart: bool = False) -> Array:
    """Weights (m, lanes) of the natural map: 1 / G of a row, for the rows of a contact 3 over their trace, or, `apart`,
    for its tangents 2 over theirs."""
    a = 3 * counts.contacts
    own = diagonal(G)
    first = 1 if apart else 0
    mean = summed(own[k:a:3] for k in range(first, 3)) / (3 - first) if a else own[:0]
    of_contacts = jnp.repeat(mean, 3, axis=0)
    of_contacts = of_contacts.at[::3].set(own[:a:3]) if apart else of_contacts
    sizes = jnp.concatenate([of_contacts, own[a:]])
    return 1 / jnp.maximum(sizes, jnp.finfo(own.dtype).tiny ** 0.5)


def left_over(cones: Cones, G: Array | Unformed, g: Array, f: Array) -> Array:
    """How far f is from the law, (lanes,): what is left of the natural map, as accelerations, relative to the largest
    g that calls for forces."""
    w = scales(cones.counts, G)
    left = jnp.abs(natural(cones, w, f, product(G, f) + g) / w).max(0)
    return left / jnp.maximum(calling(cones.counts, g), jnp.finfo(g.dtype).tiny)


def calling(counts: Counts, g: Array) -> Array:
    """The largest g that calls for forces (lanes,): along tangents, and against normals."""
    a, _, c = counts.ends
    pushed = jnp.concatenate([g[:a:3], g[c:]])
    slides = jnp.concatenate([jnp.abs(g[1:a:3]), jnp.abs(g[2:a:3]), jnp.abs(g[a:c])])
    return jnp.concatenate([-pushed, slides]).max(0)
