"""Proximal (augmented Lagrangian) iterations with a damped factor, refined by the undamped residual.

With the factor of M + μ JᵀJ, each step corrects (lcaba_proxbbo, Alg. 3, with r1 added: without it the error's floor
rises with μ)

    δa = (M + μ JᵀJ)⁻¹ (r1 + μ Jᵀ r2),    δλ = μ (r2 − J δa),

where r1 = τ − h − M a + Jᵀλ and r2 = a* − γ − J a are evaluated at the bodies: inertia times acceleration enters the
sweep as a force, and r1 is never formed in joint coordinates. The iterations accumulate the accelerations of the bodies
along with those of the joints. If accelerations become much smaller than they were on the way, the two have drifted
apart by the rounding of the largest ones, which rows near a singular pose magnify. Then another step is made, which
first recomputes those of the bodies by a sweep.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import lanes_of, widen
from ..systems.base import System
from ..systems.problem import Start, body_accelerations, given_accelerations, left_over, rows_left_over, still
from ..systems.weights import redundant
from .base import Found
from .iteration import SLOW, STUCK, Stop, advance, conjugate, largest_of, longer, loop, moves, right_length

#: a step that exceeds the least step so far by this factor is not made, and ends its lane
FARTHER = 1e3
#: consecutive steps that may grow, or creep along rows that are as good as redundant, before a lane ends
PATIENCE = 3
#: rows shrink slowly if a longer step would remove this share of their squared residual; conflict is not along images
ALIGNED = 0.25
#: number of steps before the loop: most lanes need no more
STRAIGHT = 3


class At(NamedTuple):
    """A point of the iteration, or a step of it: accelerations of joints (nv, lanes) and bodies (angular, linear),
    multipliers (m, lanes), and the number of plain steps that they amount to (lanes,)."""

    rates: Array
    bodies: Any
    lam: Array
    steps: Array


class _State(NamedTuple):
    """The state of the iterations.

    **Fields:** the point `at`; the `direction` of the last step, and its `image`, J times it; how far `ahead` it went
    (lanes,), and whether that was the `best` length; J times the `plain` step; `r2`; per lane, the `peak` of the
    accelerations since bodies were swept, the `last` step, the `least` step, the largest step (`scale`), whether the
    lane is `active`, how often in a row the step has `grown` or not shrunk, how often it was the same (`crept`), and
    the number of `steps`."""

    at: At
    direction: At
    image: Array
    ahead: Array
    best: Array
    plain: Array
    r2: Array
    peak: Array
    last: Array
    least: Array
    scale: Array
    active: Array
    grown: Array
    crept: Array
    steps: Array


class Iteration:
    """The steps of one solve."""

    def __init__(self, system: System, start: Start, lam: Array | None, stop: Stop, compliance: Array | None):
        self.system, self.problem, self.stop, self.compliance = system, system.problem, stop, compliance
        rows = self.problem.rows
        self.lanes = lanes_of(self.problem.q, start.tau, start.rows, lam)
        self.start = start._replace(tau=widen(start.tau, self.lanes))
        self.dtype = self.problem.q.dtype
        self.constrained = rows is not None
        self.wanted = largest_of(start.rows) if self.constrained else 0
        self.moving = self.constrained and stop.accelerated and stop.max_steps > 1
        self.redundant = redundant(self.problem) if self.moving else None
        self.warm = lam

    def begun(self) -> _State:
        m = self.start.rows.shape[0] if self.constrained else 0
        lam = jnp.zeros((m, self.lanes), self.dtype) if self.warm is None else widen(self.warm, self.lanes)
        zero, count = jnp.zeros(self.lanes, self.dtype), jnp.zeros(self.lanes, jnp.int32)
        bodies = widen(given_accelerations(self.problem, self.start), self.lanes)
        at = At(jnp.zeros_like(self.start.tau), bodies, lam, zero)
        return _State(
            at=at,
            direction=jax.tree.map(jnp.zeros_like, at),
            image=jnp.zeros_like(lam),
            ahead=zero,
            best=jnp.zeros(self.lanes, bool),
            plain=jnp.zeros_like(lam),
            r2=self.residual(at),
            peak=zero,
            last=jnp.full(self.lanes, jnp.inf, self.dtype),
            least=jnp.full(self.lanes, jnp.inf, self.dtype),
            scale=zero,
            active=jnp.ones(self.lanes, bool),
            grown=count,
            crept=count,
            steps=count,
        )

    def residual(self, at: At) -> Array:
        """Return r2, with the compliance of the rows."""
        if not self.constrained:
            return at.lam
        left = widen(rows_left_over(self.problem, self.start, at.bodies), self.lanes)
        return left if self.compliance is None else left - self.compliance * at.lam

    def change(self, at: At, r2: Array, refined: bool = True):
        """Return the factor's correction of the residual, and J times it."""
        if refined:
            tau, force = left_over(self.problem, self.start, at.rates, at.bodies, at.lam)
        else:
            tau = jnp.zeros_like(self.start.tau)
            force = still(self.problem, tau)
        return self.made(tau, force, r2 if self.constrained else None)

    def made(self, tau, force, r2: Array | None):
        """Return the correction for the residuals τ − force and r2, and J times it."""
        x, bodies, y, image = self.system.solve(tau, force, r2)
        if y is None:
            y = image = jnp.zeros((0, self.lanes), self.dtype)
        x, bodies, y = widen((x, bodies, y), self.lanes)
        if self.compliance is not None:
            image = image + self.compliance * y
        made = At(x, bodies, y, jnp.ones(self.lanes, self.dtype))
        return made, widen(image, self.lanes)

    def moves(self, direction: At, image: Array) -> Array:
        return moves(self.redundant, direction.lam, image)

    def step(self, s: _State, refined: bool = True, further: bool = True) -> _State:
        """Return the state after one step, which goes `further` in lanes where plain steps shrink slowly."""
        if self.moving and further:
            s = self.swept(s)
        change, image = self.change(s.at, s.r2, refined)
        step = largest_of(change.rates)
        sizes = step, jnp.maximum(s.peak, self.wanted)
        direction, plain, ahead, stuck, useful = change, image, jnp.ones_like(step), False, False
        best = jnp.zeros_like(s.best)
        if self.moving and further:
            slow = (s.steps > 1) & (step > SLOW * s.last)
            most = right_length(s.image, s.plain, plain, s.ahead)
            direction, image, ahead, useful, best = conjugate(
                slow, change, image, s.direction, s.image, s.r2, self.moves, sizes, most, s.best
            )
            stuck = slow & (step > STUCK * s.last) & ~useful
        stop = self.stop
        if not stop.accelerated and stop.tol == 0 or stop.unrolled or stop.max_steps == 1:
            at = advance(s.at, direction, ahead)
            return s._replace(at=at, r2=self.residual(at), steps=s.steps + 1)
        runs_away = (step > FARTHER * jnp.maximum(s.least, stop.tol * s.scale)) & (stop.tol > 0)
        goes = s.active & ~runs_away
        at = jax.tree.map(lambda new, old: jnp.where(goes, new, old), advance(s.at, direction, ahead), s.at)
        new = self.judged(s, change, plain, sizes, step * ahead, step, stuck, useful)
        new = new._replace(direction=direction, image=image, ahead=ahead, best=best, plain=plain)
        new = new._replace(r2=self.residual(at), peak=jnp.maximum(s.peak, largest_of(at.rates)))
        active = new.active & ~runs_away | self.drifted(at, new.peak) & s.active
        new = new._replace(active=active, least=jnp.minimum(s.least, step))
        return jax.tree.map(lambda new, old: jnp.where(s.active, new, old), new, s)._replace(at=at)

    def drifted(self, at: At, peak) -> Array:
        """Return the lanes whose accelerations have become much smaller than they were on the way."""
        return largest_of(at.rates) < 0.2 * peak if self.moving else jnp.zeros_like(peak, bool)

    def swept(self, s: _State) -> _State:
        """Return the state with the accelerations of the bodies recomputed by a sweep where they have drifted."""
        drifted = s.active & self.drifted(s.at, s.peak)

        def anew():
            bodies = body_accelerations(self.problem, self.start, s.at.rates)
            at = s.at._replace(bodies=jax.tree.map(lambda x, y: jnp.where(drifted, x, y), bodies, s.at.bodies))
            return at.bodies, jnp.where(drifted, self.residual(at), s.r2)

        bodies, r2 = jax.lax.cond(drifted.any(), anew, lambda: (s.at.bodies, s.r2))
        peak = jnp.where(drifted, largest_of(s.at.rates), s.peak)
        return s._replace(at=s.at._replace(bodies=bodies), r2=r2, peak=peak)

    def judged(self, s: _State, change: At, plain: Array, sizes, made, step, stuck, useful) -> _State:
        """Return the state with the quantities that decide which lanes go on."""
        tol = self.stop.tol
        scale = jnp.maximum(s.scale, made)
        # error after this step, from the rate at which steps shrink; a longer step breaks the series
        ratio = jnp.where(jnp.isinf(s.last), 1, step / jnp.maximum(s.last, jnp.finfo(self.dtype).tiny))
        rest = jnp.minimum(ratio / (1 - jnp.minimum(ratio, 0.99)), 10)
        if self.moving and self.dtype == jnp.float32:
            # rows that hardly move shrink slowly, however small the step; in double precision μ is large enough
            rest = jnp.maximum(rest, longer(self.moves(change, plain), s.r2, plain, sizes, ALIGNED) - 1)
        rest = jnp.where((s.ahead > 1) | useful, 1, rest)
        grown = jnp.where((step >= s.last) | stuck, s.grown + 1, 0)
        other = largest_of(change.rates - s.direction.rates)
        crept = jnp.where(stuck & (other < 0.1 * step), s.crept + 1, 0)
        # written so that NaN ends a lane
        active = s.active & (made * rest > tol * scale) & (made > tol * scale * 1e-2)
        active &= (grown < PATIENCE) | (crept > 0) & (crept < PATIENCE - 1)
        if tol == 0:  # the caller wants a fixed number of steps
            active = s.active
        return s._replace(last=step, scale=scale, active=active, grown=grown, crept=crept, steps=s.steps + 1)

    def cleared(self, at: At, r2: Array) -> Array:
        """Return the multipliers without the part that no row can have. In every plain step that part grows by the same
        amount, μ times the conflict or the rounding of the rows. One more step, for the residual of the rows alone,
        measures it."""
        if not self.moving:
            return at.lam
        return at.lam - at.steps * self.change(at, r2, False)[0].lam

    def finished(self, s: _State) -> At:
        """Return the point where the iterations end."""
        if not (self.moving and self.stop.max_steps >= PATIENCE):
            return s.at
        # a step that repeats is along rows that are as good as redundant but conflict with the others: undo all of them
        crept = s.crept >= PATIENCE - 1
        return advance(s.at, s.direction, jnp.where(crept, -s.at.steps, 0))


def _few(iteration: Iteration, state: _State) -> _State:
    """Return the state after all steps of an iteration that usually takes few. Loops carry their state through memory;
    branches that are not taken do not."""
    stop = iteration.stop

    def on(s: _State, made: int) -> _State:
        """Return the state after all steps, from the state after `made` steps."""
        if made == stop.max_steps:
            return s
        if made == STRAIGHT:
            more = lambda s: loop(lambda s: s.active, iteration.step, s, stop._replace(max_steps=stop.max_steps - made))  # noqa: E731
        else:
            more = lambda s: on(iteration.step(s, further=made > 1), made + 1)  # noqa: E731
        if made < 2 or stop.tol == 0:  # before the third, no step is longer or superfluous
            return more(s)
        return jax.lax.cond(s.active.any(), more, lambda s: s, s)

    return on(state, 0)


def iterate(system: System, start: Start, lam: Array | None, stop: Stop, compliance: Array | None = None) -> Found:
    """Return the result of the iterations. With a `compliance` R (m, lanes) of the rows they converge to r2 = a* − γ −
    J a − R λ = 0. This is for soft systems, whose rows are penalised, not enforced, and whose R is that of the factor.
    """
    iteration = Iteration(system, start, lam, stop, compliance)
    state, going = iteration.begun(), lambda s: s.active
    if iteration.moving:
        state = _few(iteration, state)
    elif stop.refined:
        state = loop(going, iteration.step, state, stop)
    else:
        state = iteration.step(state)
        if stop.max_steps > 1:
            rest = stop._replace(max_steps=stop.max_steps - 1)
            state = loop(going, lambda s: iteration.step(s, False), state, rest)
    at = iteration.finished(state)
    some = iteration.cleared(at, state.r2)
    return Found(at.rates, at.lam, state.steps, some, None, at.bodies, at.lam, system, state.active)
