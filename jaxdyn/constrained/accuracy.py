"""Estimate how far off accelerations are, from the residual of the undamped equations.

The solution leaves a residual (r1, r2) in the undamped equations. A damped factor turns it into a correction δa. This
is the error of the accelerations as far as the factor resolves it: forces divided by the inertia that they move. Two
cases need more:

- Nearly redundant rows. The factor corrects them too little. The step along δa that makes r2 smallest shows by what
  factor.
- Light links, beside the penalties or beside heavier links. The factor's pivots for them are too large, and the
  correction is too small by the same ratio. The residual at the correction shows this: a second correction should be
  rounding only. If it is a fraction c of the first, all corrections together are 1 / (1 − c) times the first. In this
  case the estimate is repeated with a factor in which rows ride (`jaxdyn.tree.elimination`), whose pivots contain no
  penalties.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import widen
from ..systems.base import System
from ..systems.body_factor import BodyFactor, every_constraint
from ..systems.problem import Problem, Start, left_over, rows_left_over
from ..systems.weights import redundant
from .base import Found
from .iteration import inner, largest_of, longer, moves, ratio_of
from .lcaba import damped
from .prox_bbo import ProxBBO

#: a second correction larger than this fraction of the first is more than rounding
SECOND = 0.1
#: if the second correction of the riding factor is a smaller fraction of the first, its estimate alone counts
CLEAR = 0.5
#: upper bound of all corrections together relative to the first: beyond it digits are lost
ALL = 100.0


def balance_of(found: Found) -> Array:
    """Return the multipliers that balance the accelerations to the last digit."""
    return found.multipliers if found.balance is None else found.balance


class _Correction(NamedTuple):
    """A factor's correction of the residual.

    **Fields:** `change` (nv, lanes); `image` (m, lanes), J times it; `multipliers` (m, lanes); `second` (nv, lanes),
    the correction of the r1 that remains after the first."""

    change: Array
    image: Array | None
    multipliers: Array | None
    second: Array

    @property
    def part(self) -> Array:
        """Return the size of the second correction relative to the first, or infinity if that is not finite."""
        part = ratio_of(largest_of(self.second), largest_of(self.change))
        return jnp.where(jnp.isfinite(part), part, jnp.inf)

    @property
    def whole(self) -> Array:
        """Return the size of all corrections together, if each is the same fraction of the one before."""
        along = ratio_of(inner(self.change, self.second), inner(self.change, self.change))
        return largest_of(self.change) / (1 - jnp.clip(along, 0, 1 - 1 / ALL))


def error_of(problem: Problem, start: Start, found: Found, soft: bool, least: Array) -> tuple[Array, Array]:
    """Return, per lane, the estimated error of the accelerations, and the largest conflict between rows. Errors below
    `least` are examined further only where the first correction does not reduce the residual."""
    rates, system = found.acceleration, found.system
    if system is None or not (system.judges or soft):  # the rows of a soft system include its compliance
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
    sizes = largest_of(change), jnp.maximum(largest_of(rates), largest_of(start.rows))
    moving = moves(redundant(problem), first.multipliers, image)
    # double precision resolves the gaps of loops given with few digits
    far = longer(moving & (rates.dtype == jnp.float32), r2, image, sizes)
    conflict = zero if soft else largest_of(r2 - far * image)
    # multipliers of conflicting rows are large, and so is their rounding
    seen = first.whole if soft else _seen(problem, system, first, left, r2, jnp.maximum(least, conflict))
    return jnp.maximum(largest_of(change) * far, seen), conflict


def _corrected(problem: Problem, system: System, tau: Array, force, r2: Array | None) -> _Correction:
    """Return the correction for a residual `tau` (nv, lanes), `force` of the bodies, and r2 (m, lanes)."""
    lanes = tau.shape[-1]
    change, bodies, y, image = system.solve(tau, force, r2)
    change, image = widen(change, lanes), None if image is None else widen(image, lanes)
    if not isinstance(system, BodyFactor):  # its equations are not those of the problem alone
        return _Correction(change, image, y, jnp.zeros_like(change))
    left = left_over(problem, Start(tau, None, None, force), change, bodies, y)
    second, *_ = system.solve(*left, None if r2 is None else jnp.zeros_like(r2))
    return _Correction(change, image, y, widen(second, lanes))


def _seen(
    problem: Problem, system: System, first: _Correction, left: tuple[Array, Any], r2: Array, least: Array
) -> Array:
    """Return the size of the first correction or, where that is doubtful, of all corrections together. If rows of the
    given factor enter as penalties, these are corrections by a factor in which all rows ride."""
    size = largest_of(first.change)
    # errors below `least` count if the correction reduces nothing: then the loss of digits has no bound
    none = largest_of(first.second - first.change) < SECOND * size
    doubtful = (first.part > SECOND) & ((size > least) | none)
    if not isinstance(system, BodyFactor) or system.riding == every_constraint(problem):
        return jnp.where(doubtful, first.whole, size)

    def asked():
        other = _corrected(problem, ProxBBO().factorised(problem), *left, r2)
        # if this factor does not resolve the error either, take the larger estimate
        whole = jnp.where(other.part < CLEAR, other.whole, jnp.fmax(other.whole, first.whole))
        return jnp.where(doubtful, whole, size)

    return jax.lax.cond(doubtful.any(), asked, lambda: size)
