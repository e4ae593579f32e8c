"""Laws of contact: how forces between touching bodies are found from G and g, with s = G f + g."""

import abc
import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..constrained.iterated import check_number, check_positive_integer
from .cones import Cones
from .effect import Unformed
from .gauss_seidel import prepared, sweep
from .tiled import Tiled, flat, in_tiles, tiled

#: most rows of which G is formed: its code and its memory grow with their square
FORMED = 200
#: what a law that is solved to a tolerance leaves of itself, in single and double precision
TOLERANCE = {4: 1e-5, 8: 1e-9}
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
    def solve(self, G: Array | Unformed, g: Array, cones: Cones, f: Array) -> Array:
        """The forces (m, lanes) of a symmetric G (m, m, lanes) and g (m, lanes), from a guess f on."""

    def without_matrix(self, rows: int) -> bool:
        """Whether `solve` takes an `Unformed` G where there are so many rows."""
        return False


class Around(Law):
    """A law for other unknowns than forces over a step, solved by the `law`, whose arguments are its own."""

    law: Law

    @classmethod
    def of(cls, law: Law, **own):
        """That of a law, with arguments `own`."""
        return cls(law=law, **{f.name: getattr(law, f.name) for f in dataclasses.fields(Law)} | own)

    def solve(self, G, g, cones, f):
        return self.law.solve(G, g, cones, f)

    def without_matrix(self, rows):
        return self.law.without_matrix(rows)


class Impact(Around):
    """A law for impulses, for which time stands still: shapes that are nearer than `near` (m) strike, with their
    restitution, however slowly; others and dry friction of joints do not matter."""

    near: float = eqx.field(static=True, kw_only=True)


class Closing(Around):
    """A law for the normal forces that a step should have had: so that at its end shapes that touch neither overlap
    nor part, if of `positions`, else so that they have no speed there."""

    positions: bool = eqx.field(static=True, kw_only=True)


#: relative change of the forces in a sweep at which a lane is done, in single and double precision
SETTLED = {4: 1e-6, 8: 1e-13}


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
        problem = tiled(G, g, cones)
        return problem.forces(self.swept(problem, problem.start(f)))

    def swept(self, problem: Tiled, x: Array) -> Array:
        """Its forces x (rows, lanes), from a guess x on."""
        counts, h = problem.counts, in_tiles(problem.h)
        given, lanes = prepared(problem), h.shape[-1]
        settled = SETTLED[h.dtype.itemsize]

        def once(carried):
            before, active, count = carried
            x = sweep(counts, given, h, before)
            moves = jnp.abs(x - before).max((0, 1)) > settled * jnp.abs(x).max((0, 1))
            return jnp.where(active, x, before), active & moves, count + 1

        go_on = lambda s: s[1].any() & (s[2] < self.sweeps)  # noqa: E731
        x = jnp.broadcast_to(in_tiles(x), h.shape)
        return flat(jax.lax.while_loop(go_on, once, (x, jnp.ones(lanes, bool), 0))[0])
