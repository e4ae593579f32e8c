"""Laws of contact: how contact forces f follow from G and g, with s = G f + g.

G is the Delassus matrix of the contact rows and s their accelerations. Arrays are lanes-last; a lane is one element of
the batch.
"""

import abc
import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..spatial.instances import check_flag
from ..spatial.options import check_number, check_positive_integer
from ..tree.tiles import WIDE
from .cones import Cones
from .effect import Unformed
from .gauss_seidel import prepared, sweep, twice
from .tiled import Tiled, flat, in_tiles, tiled

#: number of rows up to which G is formed: its code and its memory grow with their square
FORMED = 200
#: number of rows up to which Newton's method, whose time grows with their cube, pays off
SMALL = 96
#: tolerance of laws that are solved to one, in single and double precision
TOLERANCE = {4: 1e-5, 8: 1e-9}
#: m/s; smoothing over a smaller speed would be lost in rounding
LEAST_SMOOTHING = 1e-9


class Law(eqx.Module):
    """Base class of laws of contact: static, hashable, without arrays.

    **Arguments** of all laws: `recovery`, the share of an overlap that one step removes, at most at the speed
    `recovery_speed` (m/s, and rad/s at limits of joints that turn); `bounce_speed` (m/s), below which impacts do not
    bounce; `limits`: joints stop at their limits, and `dry_friction`: joints with dry friction rub (each adds a row for
    the joint); `slots`, the number of places at which two limbs, or a limb and a shape of the world, can touch at a
    time: each step selects those with the least gaps (None: all places, up to 96 rows; then 16, 8 or 4, up to 72; then
    16 for all places of a robot, up to 96; see `limbs.py` for what scenes with more rows have);
    `smoothing` (m/s, and rad/s for joints that turn), the speed over which derivatives are smoothed: it does not change
    motions, and 0 gives exact derivatives.
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
        check_positive_integer(self, "slots", optional=True)
        allowed, which = lambda x: x == 0 or x >= LEAST_SMOOTHING, f"0 or a speed from {LEAST_SMOOTHING:g} m/s on"
        check_number(name, "smoothing", self.smoothing, allowed, which)
        for what in ("limits", "dry_friction"):
            check_flag(f"`{name}`", what, getattr(self, what))

    @abc.abstractmethod
    def solve(self, G: Array | Unformed, g: Array, cones: Cones, f: Array) -> Array:
        """Return the forces (m, lanes) for a symmetric G (m, m, lanes) and g (m, lanes), starting from a guess f."""

    def without_matrix(self, rows: int) -> bool:
        """Return whether `solve` takes an `Unformed` G for this number of rows."""
        return False


class Around(Law):
    """Base class of laws for other unknowns than forces over a step. The wrapped `law` solves it, and gives it the
    arguments of `Law`."""

    law: Law

    @classmethod
    def of(cls, law: Law, **own):
        """Return an instance around a law, with further arguments `own`."""
        return cls(law=law, **{f.name: getattr(law, f.name) for f in dataclasses.fields(Law)} | own)

    def solve(self, G, g, cones, f):
        return self.law.solve(G, g, cones, f)

    def without_matrix(self, rows):
        return self.law.without_matrix(rows)


class Impact(Around):
    """A law for the impulses of an instantaneous impact: shapes nearer than `near` (m) strike with their restitution,
    at any speed; other shapes and dry friction of joints have no effect."""

    near: float = eqx.field(static=True, kw_only=True)


class Closing(Around):
    """A law for corrected normal forces of a step: touching shapes neither overlap nor part at its end. See
    `closing.py`."""


#: relative change of the forces in a sweep below which a lane is done, in single and double precision
SETTLED = {4: 1e-6, 8: 1e-13}
#: number of first sweeps with small divisors of normal forces, and their least share of H_nn, see `gauss_seidel.py`
BOLD, SHARE = 8, 0.3
#: number of first sweeps after which forces go ahead; the largest factor by which changes are taken to shrink from
#: sweep to sweep; the least squared cosine of the angle between changes that do
AHEAD, SLOWEST, ALIKE = 40, 0.95, 0.9


class PGS(Law):
    """Projected Gauss-Seidel: contact after contact, each with the others' forces held. It makes few sweeps, so that no
    element of the batch waits long for another.

    A contact that sticks is solved exactly, one that slides by a step of its direction and one of its normal force,
    nearly Newton's. After each of the first pairs of sweeps, contact forces go ahead along their latest change, as far
    as is still to come if changes go on shrinking as they did (Aitken's extrapolation).

    **Arguments:** `sweeps`, the maximum number of sweeps over all contacts; they end early for elements of the batch
    whose forces have settled. Every second one also updates the rows of joints.
    """

    sweeps: int = eqx.field(static=True, default=20)

    def __check_init__(self):
        check_positive_integer(self, "sweeps")

    def solve(self, G, g, cones, f):
        problem = tiled(G, g, cones)
        return problem.forces(self.swept(problem, prepared(problem), problem.start(f)))

    def swept(self, problem: Tiled, given: dict[str, Array], x: Array, active: Array | bool = True) -> Array:
        """Return the scaled forces x (rows, lanes) of a problem, starting from a guess x; they change in the `active`
        lanes only. `given` is what was `prepared`."""
        counts, h, lanes = problem.counts, in_tiles(problem.h), problem.h.shape[-1]
        end = counts.ends[1] // WIDE or len(h)  # beside contacts, joints are swept half as often

        def fields(count):
            share = jnp.where(count < BOLD, SHARE, 1).astype(h.dtype)
            return given | {"least": jnp.full((1, 1), share)}

        # whether forces have settled, and where they go, takes a part of a sweep to see: every second one is enough
        def more(carried):
            before, active, count = carried
            last, x = twice(counts, fields(count), h, before)
            first, change = (last - before)[:end], x - last
            moves = dot(change, change) > SETTLED[h.dtype.itemsize] ** 2 * dot(x, x)
            goes = moves & (count + 2 < min(self.sweeps, AHEAD))
            far = jnp.where(goes, ahead(first, change[:end]), 0)[None, None]
            x = jnp.concatenate([(1 + far) * x[:end] - far * last[:end], x[end:]])
            return jnp.where(active, x, before), active & moves, count + 2

        go_on = lambda s: s[1].any() & (s[2] < self.sweeps)  # noqa: E731
        x, odd, active = jnp.broadcast_to(in_tiles(x), h.shape), self.sweeps % 2, jnp.broadcast_to(active, lanes)
        if odd:
            x = jnp.where(active, sweep(counts, fields(0), h, x), x)
        return flat(jax.lax.while_loop(go_on, more, (x, active, odd))[0])


def ahead(first: Array, change: Array) -> Array:
    """Return how many times the `change` of the latest sweep is still to come (lanes,), if further changes shrink like
    from the `first` to this one; zero if they are not alike."""
    own, both = dot(first, first), dot(first, change)
    shared = jnp.clip(both, 0, SLOWEST * own)
    alike = both * both > ALIKE * own * dot(change, change)
    return jnp.where(alike, shared / (own - shared), 0)


def dot(x: Array, y: Array) -> Array:
    """Return the scalar products (lanes,) of vectors in tiles (n, WIDE, lanes)."""
    return (x * y).sum(0).sum(0)
