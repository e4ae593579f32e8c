"""How far off accelerations are, as far as their precision can tell.

The undamped equations leave (r1, r2) over at the solution that was found. The correction δa that a damped factor makes
of them is the error of the accelerations, as far as the factor sees it: forces against the inertia that they move.

- Rows that are nearly redundant are corrected by less than their share: the longest step along δa that makes r2 smaller
  tells by how much.
- Links that are too light for the factor, beside the penalties or beside heavier links, are corrected by as much less
  as their pivots are too large. What the equations leave over at the correction itself tells by how much: a second
  correction ought to be nothing but rounding. Where it is a part c of the first, all that follow are 1 / (1 − c) times
  the first. A factor in which rows ride, whose pivots meet no penalties, is then asked as well.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import widen
from ..systems.base import System
from ..systems.body_factor import BodyFactor, every_constraint
from ..systems.problem import Problem, Start, left_over, rows_left_over
from ..systems.weights import automatic_weights, farthest
from .base import Found
from .iteration import beyond_rounding, inner, largest_of, ratio_of
from .lcaba import damped
from .prox_bbo import ProxBBO

#: a second correction that is a larger part of the first is not rounding alone
SECOND = 0.1
#: a factor whose second correction is a smaller part of the first is taken at its word
CLEAR = 0.5
#: as many times the first may all corrections be: where the second is as large, digits are gone
ALL = 100.0


def balance_of(found: Found) -> Array:
    """The multipliers that go with the accelerations to the last digit."""
    return found.multipliers if found.balance is None else found.balance


class _Correction(NamedTuple):
    """What a factor makes of the residual. **Fields:** `change` (nv, lanes) and `image` (m, lanes), J times it;
    `second` (nv, lanes), what it makes of what is then left over of r1."""

    change: Array
    image: Array | None
    second: Array

    @property
    def part(self) -> Array:
        """How large the second correction is, by the first one; infinite where there is none."""
        part = ratio_of(largest_of(self.second), largest_of(self.change))
        return jnp.where(jnp.isfinite(part), part, jnp.inf)

    @property
    def whole(self) -> Array:
        """The size of all corrections together, if each is the same part of the one before."""
        along = ratio_of(inner(self.change, self.second), inner(self.change, self.change))
        return largest_of(self.change) / (1 - jnp.clip(along, 0, 1 - 1 / ALL))


def error_of(problem: Problem, start: Start, found: Found, soft: bool, least: Array) -> tuple[Array, Array]:
    """Per lane, the estimated error of the accelerations, and the largest conflict between rows. Errors below `least`
    are looked at twice only where the correction takes nothing off them."""
    rates, system = found.acceleration, found.system
    if system is None or not (system.judges or soft):  # soft rows are those of their own system
        system = damped(problem)
    lanes, zero = rates.shape[-1], jnp.zeros(rates.shape[-1], rates.dtype)
    start = start._replace(tau=widen(start.tau, lanes))
    left = left_over(problem, start, rates, found.bodies, balance_of(found))
    if problem.rows is None:
        return _corrected(problem, system, *left, None).whole, zero
    r2 = widen(rows_left_over(problem, start, found.bodies), lanes)
    if soft:
        r2 = r2 - balance_of(found) / system.weights
    first = _corrected(problem, system, *left, r2)
    change, image = first.change, first.image
    assert image is not None
    along, square = inner(r2, image), inner(image, image)
    sizes = largest_of(change), jnp.maximum(largest_of(rates), largest_of(start.rows))
    longer = ratio_of(along, square)
    # beyond the farthest step rows count as redundant, as they do for solvers
    told = beyond_rounding(along, r2, square, sizes) & (longer < farthest(problem, system.weights))
    told &= rates.dtype == jnp.float32  # double precision resolves what loops drawn with a few digits leave open
    longer = jnp.maximum(jnp.where(told, longer, 1), 1)
    conflict = zero if soft else largest_of(r2 - longer * image)
    # multipliers of rows that disagree are large, and so is their rounding
    seen = first.whole if soft else _seen(problem, system, first, left, r2, jnp.maximum(least, conflict))
    return jnp.maximum(largest_of(change) * longer, seen), conflict


def _corrected(problem: Problem, system: System, tau: Array, force, r2: Array | None) -> _Correction:
    """The correction of what is left over: `tau` (nv, lanes), `force` of the bodies, and r2 (m, lanes)."""
    lanes = tau.shape[-1]
    change, bodies, y, image = system.solve(tau, force, r2)
    change, image = widen(change, lanes), None if image is None else widen(image, lanes)
    if not isinstance(system, BodyFactor):  # its equations are not those of the problem alone
        return _Correction(change, image, jnp.zeros_like(change))
    left = left_over(problem, Start(tau, None, None, force), change, bodies, y)
    second, *_ = system.solve(*left, None if r2 is None else jnp.zeros_like(r2))
    return _Correction(change, image, widen(second, lanes))


def _seen(
    problem: Problem, system: System, first: _Correction, left: tuple[Array, Any], r2: Array, least: Array
) -> Array:
    """The size of all corrections by the factor, or, where it does not see all, by one in which rows ride."""
    size = largest_of(first.change)
    # what is below `least` matters where nothing is taken off: then digits are gone without end
    none = largest_of(first.second - first.change) < SECOND * size
    doubtful = (first.part > SECOND) & ((size > least) | none)
    if not isinstance(system, BodyFactor) or system.riding == every_constraint(problem):
        return jnp.where(doubtful, first.whole, size)

    def asked():
        other = _corrected(problem, ProxBBO().system(problem, automatic_weights(problem)), *left, r2)
        # a factor that does not see all either tells no less
        whole = jnp.where(other.part < CLEAR, other.whole, jnp.fmax(other.whole, first.whole))
        return jnp.where(doubtful, whole, size)

    return jax.lax.cond(doubtful.any(), asked, lambda: size)
