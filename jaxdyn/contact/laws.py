"""Laws of contact: how forces between touching bodies are found from G and g, with s = G f + g."""

import abc
import functools
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..constrained.iterated import check_number, check_positive_integer
from ..spatial.small import summed
from .cones import Cones, within


class Law(eqx.Module):
    """Base class: static, hashable, without arrays.

    **Arguments** of all laws: `recovery`, the share of an overlap that one step takes away, at most at the speed
    `recovery_speed` (m/s); `bounce_speed` (m/s), below which impacts do not bounce; `limits`, whether joints stop at
    their limits, and `dry_friction`, whether they rub: each adds a row a joint.
    """

    recovery: float = eqx.field(static=True, default=0.2, kw_only=True)
    recovery_speed: float = eqx.field(static=True, default=1.0, kw_only=True)
    bounce_speed: float = eqx.field(static=True, default=0.05, kw_only=True)
    limits: bool = eqx.field(static=True, default=True, kw_only=True)
    dry_friction: bool = eqx.field(static=True, default=True, kw_only=True)

    def __check_init__(self):
        name = type(self).__name__
        check_number(name, "recovery", self.recovery, lambda x: 0 <= x <= 1, "a number from 0 to 1")
        for what in ("recovery_speed", "bounce_speed"):
            check_number(name, what, getattr(self, what), lambda x: x >= 0, "a number from 0 on")

    @abc.abstractmethod
    def solve(self, G: Array, g: Array, cones: Cones, f: Array) -> Array:
        """The forces (m, lanes) of a symmetric G (m, m, lanes) and g (m, lanes), from a guess f on."""


#: relative change of the forces in a sweep at which a lane is done, in single and double precision
SETTLED = {4: 3e-7, 8: 1e-13}


class PGS(Law):
    """Projected Gauss-Seidel: contact after contact, each with the others' forces held. Few sweeps, so that no lane
    waits long for another.

    A contact that sticks is solved exactly; one that slides takes the normal force first and then a step of its
    tangential forces.

    **Arguments:** `sweeps`, most of them over all contacts; a lane whose forces have settled makes no more.
    """

    sweeps: int = eqx.field(static=True, default=20)

    def __check_init__(self):
        check_positive_integer(self, "sweeps")

    def solve(self, G, g, cones, f):
        contacts = [Block(G, cones, k) for k in range(cones.counts.contacts)]
        first, second, third = cones.counts.ends
        rows = [G[k] for k in range(len(g))]
        inverse = {k: 1 / G[k, k] for k in range(first, len(g))}

        def at(k, f):
            return g[k] + summed(rows[k][j] * f[j] for j in range(len(f)))

        def sweep(carried):
            before, active, count = carried
            f = list(before)
            for k, block in enumerate(contacts):
                s = [at(i, f) for i in range(3 * k, 3 * k + 3)]
                f[3 * k : 3 * k + 3] = block.updated(s, f[3 * k : 3 * k + 3])
            for i in range(first, len(f)):
                z = f[i] - at(i, f) * inverse[i]
                if i < second:
                    most = cones.radius[i - first] * f[3 * cones.counts.twists[i - first]]
                    f[i] = jnp.clip(z, -most, most)
                elif i < third:
                    f[i] = jnp.clip(z, -cones.bound[i - second], cones.bound[i - second])
                else:
                    f[i] = jnp.maximum(z, 0)
            change = functools.reduce(jnp.maximum, [jnp.abs(x - y) for x, y in zip(f, before, strict=True)])
            size = functools.reduce(jnp.maximum, [jnp.abs(x) for x in f])
            kept = tuple(jnp.where(active, x, y) for x, y in zip(f, before, strict=True))
            return kept, active & (change > SETTLED[g.dtype.itemsize] * size), count + 1

        lanes = max(x.shape[-1] for x in (G, g, f))
        start = tuple(jnp.broadcast_to(f[k], (lanes,)) for k in range(len(g)))
        go_on = lambda s: s[1].any() & (s[2] < self.sweeps)  # noqa: E731
        return jnp.stack(jax.lax.while_loop(go_on, sweep, (start, jnp.ones(lanes, bool), 0))[0])


class Block:
    """One contact: its block of G, which is inverted for sticking."""

    #: of the trace, that is added to the diagonal: bodies may be unable to move along a direction
    LEAST: ClassVar[dict[int, float]] = {4: 1e-6, 8: 1e-12}

    def __init__(self, G: Array, cones: Cones, k: int):
        own = G[3 * k : 3 * k + 3, 3 * k : 3 * k + 3]
        self.mu, self.own = cones.friction[k], own
        trace = own[0, 0] + own[1, 1] + own[2, 2]
        least = self.LEAST[G.dtype.itemsize] * trace + jnp.finfo(G.dtype).tiny
        a, b, c, d, e, f = own[0, 0] + least, own[0, 1], own[0, 2], own[1, 1] + least, own[1, 2], own[2, 2] + least
        first = [d * f - e * e, c * e - b * f, b * e - c * d]
        over = 1 / (a * first[0] + b * first[1] + c * first[2])
        p, q, r = a * f - c * c, b * c - a * e, a * d - b * b
        self.inverse = [[x * over for x in row] for row in (first, [first[1], p, q], [first[2], q, r])]
        half = (own[1, 1] - own[2, 2]) / 2
        largest = (own[1, 1] + own[2, 2]) / 2 + jnp.sqrt(half * half + own[1, 2] * own[1, 2])
        self.normal, self.tangential = 1 / (own[0, 0] + least), 1 / (largest + least)

    def updated(self, s, f):
        """The forces of the contact that answer s, at its forces f."""
        stick = [x - summed(a * b for a, b in zip(row, s, strict=True)) for x, row in zip(f, self.inverse, strict=True)]
        sticks = (stick[0] > 0) & (stick[1] * stick[1] + stick[2] * stick[2] <= (self.mu * stick[0]) ** 2)
        normal = jnp.maximum(f[0] - s[0] * self.normal, 0)
        change = normal - f[0]
        z = [
            x - (y + self.own[0, k] * change) * self.tangential for k, (x, y) in enumerate(zip(f, s, strict=True)) if k
        ]
        slide = within(jnp.stack(z)[None], (self.mu * normal)[None])[0]
        return [jnp.where(sticks, x, y) for x, y in zip(stick, (normal, slide[0], slide[1]), strict=True)]
