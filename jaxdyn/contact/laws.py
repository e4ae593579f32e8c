"""Laws of contact: how forces between touching bodies are found from G and g, with s = G f + g."""

import abc
import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..constrained.iterated import check_number, check_positive_integer
from ..engine.core import widen
from ..engine.kernel import kernel
from .cones import Cones, within

#: m/s, which rounding hides
LEAST_SMOOTHING = 1e-9


class Law(eqx.Module):
    """Base class: static, hashable, without arrays.

    **Arguments** of all laws: `recovery`, the share of an overlap that one step takes away, at most at the speed
    `recovery_speed` (m/s); `bounce_speed` (m/s), below which impacts do not bounce; `limits`, whether joints stop at
    their limits, and `dry_friction`, whether they rub: each adds a row a joint; `slots`, at how many places two limbs,
    or a limb and a shape of the world, touch at a time: of more places, those that are nearest to touching in each
    step (None: all of them, or 4 where there would be more than 200 rows); `smoothing` (m/s, and rad/s of joints that
    turn), the speed over which derivatives are smoothed: motions are the same, and 0 gives exact derivatives.
    """

    recovery: float = eqx.field(static=True, default=0.2, kw_only=True)
    recovery_speed: float = eqx.field(static=True, default=1.0, kw_only=True)
    bounce_speed: float = eqx.field(static=True, default=0.05, kw_only=True)
    limits: bool = eqx.field(static=True, default=True, kw_only=True)
    dry_friction: bool = eqx.field(static=True, default=True, kw_only=True)
    slots: int | None = eqx.field(static=True, default=None, kw_only=True)
    smoothing: float = eqx.field(static=True, default=0.0, kw_only=True)

    def __check_init__(self):
        name = type(self).__name__
        check_number(name, "recovery", self.recovery, lambda x: 0 <= x <= 1, "a number from 0 to 1")
        for what in ("recovery_speed", "bounce_speed"):
            check_number(name, what, getattr(self, what), lambda x: x >= 0, "a number from 0 on")
        if self.slots is not None:
            check_positive_integer(self, "slots")
        allowed, which = lambda x: x == 0 or x >= LEAST_SMOOTHING, f"0 or a speed from {LEAST_SMOOTHING:g} m/s on"
        check_number(name, "smoothing", self.smoothing, allowed, which)

    @abc.abstractmethod
    def solve(self, G: Array, g: Array, cones: Cones, f: Array) -> Array:
        """The forces (m, lanes) of a symmetric G (m, m, lanes) and g (m, lanes), from a guess f on."""


class Around(Law):
    """A law for other unknowns than forces over a step, solved by the `law`, whose arguments are its own."""

    law: Law

    @classmethod
    def of(cls, law: Law, **own):
        """That of a law, with arguments `own`."""
        return cls(law=law, **{f.name: getattr(law, f.name) for f in dataclasses.fields(Law)} | own)

    def solve(self, G, g, cones, f):
        return self.law.solve(G, g, cones, f)


class Impact(Around):
    """A law for impulses, for which time stands still: shapes that are nearer than `near` (m) strike, with their
    restitution, however slowly; others and dry friction of joints do not matter."""

    near: float = eqx.field(static=True, kw_only=True)


class Closing(Around):
    """A law for the normal forces that a step should have had: so that at its end shapes that touch neither overlap
    nor part, if of `positions`, else so that they have no speed there."""

    positions: bool = eqx.field(static=True, kw_only=True)


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
        first, second, third = cones.counts.ends
        lanes = max(x.shape[-1] for x in (G, g, f))
        G, g, f = widen(G, lanes), widen(g, lanes), widen(f, lanes)
        contacts = [_block(G[at : at + 3, at : at + 3]) for at in range(0, first, 3)]
        inverse = 1 / jnp.stack([G[k, k] for k in range(first, len(g))]) if first < len(g) else None

        def bounds(i, f):
            if i < second:
                most = cones.radius[i - first] * f[3 * cones.counts.twists[i - first]]
                return -most, most
            return (-cones.bound[i - second], cones.bound[i - second]) if i < third else (0.0, jnp.inf)

        def sweep(carried):
            before, active, count = carried
            f = before
            for k, block in enumerate(contacts):
                own = slice(3 * k, 3 * k + 3)
                f = f.at[own].set(_updated(G[own], g[own], f, f[own], cones.friction[k], *block))
            for i in range(first, len(f)):
                f = f.at[i].set(jnp.clip(_single(G[i], g[i], f, f[i], inverse[i - first]), *bounds(i, f)))
            moves = jnp.abs(f - before).max(0) > SETTLED[g.dtype.itemsize] * jnp.abs(f).max(0)
            return jnp.where(active, f, before), active & moves, count + 1

        go_on = lambda s: s[1].any() & (s[2] < self.sweeps)  # noqa: E731
        return jax.lax.while_loop(go_on, sweep, (f, jnp.ones(lanes, bool), 0))[0]


#: of the trace of a block, that is added to its diagonal: bodies may be unable to move along a direction
LEAST = {4: 1e-6, 8: 1e-12}


@kernel
def _block(own: Array):
    """Of a contact's block of G (3, 3, lanes): the block, its inverse, which is for sticking, and one over its normal
    entry and over the largest eigenvalue of the tangential ones."""
    trace = own[0, 0] + own[1, 1] + own[2, 2]
    least = LEAST[own.dtype.itemsize] * trace + jnp.finfo(own.dtype).tiny
    a, b, c, d, e, f = own[0, 0] + least, own[0, 1], own[0, 2], own[1, 1] + least, own[1, 2], own[2, 2] + least
    first = [d * f - e * e, c * e - b * f, b * e - c * d]
    over = 1 / (a * first[0] + b * first[1] + c * first[2])
    p, q, r = a * f - c * c, b * c - a * e, a * d - b * b
    inverse = jnp.stack([jnp.stack(row) for row in (first, [first[1], p, q], [first[2], q, r])]) * over
    half = (own[1, 1] - own[2, 2]) / 2
    largest = (own[1, 1] + own[2, 2]) / 2 + jnp.sqrt(half * half + own[1, 2] * own[1, 2])
    return own, inverse, 1 / (own[0, 0] + least), 1 / (largest + least)


@kernel
def _updated(rows, g, every, f, mu, own, inverse, normal, tangential):
    """The forces of a contact that answer those of all."""
    s = g + (rows * every).sum(1)
    stick = f - (inverse * s).sum(1)
    sticks = (stick[0] > 0) & (stick[1] * stick[1] + stick[2] * stick[2] <= (mu * stick[0]) ** 2)
    pressed = jnp.maximum(f[0] - s[0] * normal, 0)
    change = pressed - f[0]
    z = jnp.stack([f[k] - (s[k] + own[0, k] * change) * tangential for k in (1, 2)])
    slide = within(z[None], (mu * pressed)[None])[0]
    return jnp.where(sticks, stick, jnp.stack([pressed, *slide]))


@kernel
def _single(row, g, every, f, inverse):
    """What a single row would answer to all forces without bounds."""
    return f - (g + (row * every).sum(0)) * inverse
