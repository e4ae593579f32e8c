"""Proximal (augmented Lagrangian) iterations around a damped factor, refined by the undamped residual.

With the factor of M + μ JᵀJ, each step corrects (lcaba_proxbbo, Alg. 3, with r1 added: without it the error's
floor rises with μ)

    δa = (M + μ JᵀJ)⁻¹ (r1 + μ Jᵀ r2),    δλ = μ (r2 − J δa),

where r1 = τ − h − M a + Jᵀλ and r2 = a* − γ − J a are taken at the bodies: inertia times acceleration goes into
the sweep as a force, and r1 never has to be formed in joint coordinates. The bodies' accelerations are summed up
beside those of the joints. Where accelerations end much smaller than they were on the way, the two have drifted
apart by the rounding of the largest, which rows near a singular pose magnify: then the former are swept anew.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import widen
from ..engine.kernel import kernel
from ..kinematics import rows as rw
from ..model.links import inertia_times, join_v, split_v
from ..tree.field import Field
from ..tree.sweep import each
from .damped import System, farthest
from .iteration import Stop, advance, conjugate, largest_of, loop
from .problem import Problem, Start, accelerations_of

#: steps in a row that may grow, or creep along rows that are as good as redundant, before a lane is done
PATIENCE = 3


class _State(NamedTuple):
    """Carried through the iterations: joint and body accelerations by group, λ by bundle, and how many plain steps
    these have come; the last direction in which they moved and J times it, r2 by bundle; per lane, the largest
    accelerations since bodies were swept, the last step, whether it was made longer, the largest one, whether to go
    on, how often in a row the step did not shrink, how often it was the same, and the number of steps."""

    at: tuple[list[Array], list[tuple[Array, Array]], list[Array], Array]
    direction: tuple[list[Array], list[tuple[Array, Array]], list[Array], Array]
    image: list[Array]
    r2: list[Array]
    peak: Array
    last: Array
    longer: Array
    scale: Array
    active: Array
    grown: Array
    crept: Array
    steps: Array


@kernel
def _body_force(mass, first, second, w, l, n, f):
    """I a plus what the body exerts besides."""
    a, b = inertia_times(mass, first, second, w, l)
    return n + a, f + b


def body_forces(problem: Problem, start: Start, motions: Sequence[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
    """What the bodies exert on their joints, by group."""

    def body(group, own, link, a):
        zero = jnp.zeros_like(a[0])
        other = (zero, zero) if start.force is None else own["f"]
        return _body_force(link.mass, link.first, link.second, *a, *other)

    return each(problem.groups, body, {} if start.force is None else {"f": start.force}, problem.links, motions)


def _swept(problem: Problem, start: Start, where: Array, rates: Sequence[Array], motions: list) -> list:
    """`motions`; in the lanes of `where`, those of the bodies whose joints add `rates` to the start."""

    def anew():
        groups = problem.groups
        moved = each(groups, lambda g, own: own["a"], {"a": accelerations_of(problem, rates)})
        moved = advance(moved, _at_start(problem, start, where.shape[-1]), 1)
        return jax.tree.map(lambda x, y: jnp.where(where, x, y), moved, motions)

    return jax.lax.cond(where.any(), anew, lambda: motions)


def _at_start(problem: Problem, start: Start, lanes: int) -> list[tuple[Array, Array]]:
    """Accelerations of the bodies, by group, that a start gives."""

    def body(group, own):
        if start.acceleration is None:
            return (jnp.zeros((3, len(group), lanes), problem.q.dtype),) * 2
        return tuple(widen(x, lanes) for x in own["s"])

    return each(problem.groups, body, {} if start.acceleration is None else {"s": start.acceleration})


def iterate(
    system: System, start: Start, lam: list[Array] | None, stop: Stop, soft: bool = False
) -> tuple[list[Array], list, list[Array], list[Array], Array]:
    """Joint accelerations and body accelerations by group, multipliers by bundle, these without what they have outside
    the range of J, and the number of damped solves per lane. The solution of a `soft` system is that of the damped one
    itself, with r2 = a* − γ − J a − R λ."""
    problem = system.problem
    bundles, rows, groups = problem.bundles, problem.evaluated, problem.groups
    lanes = max([x.shape[-1] for x in (problem.q, start.tau, *start.rows, *(lam or []))])
    dtype = problem.q.dtype
    tau = split_v(problem.model.topology, widen(start.tau, lanes), groups)
    armature = [j.armature for j in problem.joints]
    none = [None] * len(bundles)
    wanted = largest_of(start.rows) if bundles else 0
    moving = bool(bundles) and stop.accelerated and stop.max_steps > 1
    far = farthest(problem, system.weights) if moving else None

    def residual(motions, lam):
        if not bundles:
            return []
        field = Field()
        each(groups, lambda g, own, a: field.add(g.nodes, a), {}, motions)
        image = [widen(x, lanes) for x in rw.times(bundles, rows, field)]
        left = [b - x for b, x in zip(start.rows, image, strict=True)]
        return [x - y / w for x, y, w in zip(left, lam, system.weights, strict=True)] if soft else left

    def left_over(at):
        """r1 as forces on joints and bodies."""
        rates, motions, lam, _ = at
        field = Field()
        each(groups, lambda g, own, x: field.add(g.nodes, x), {}, body_forces(problem, start, motions))
        return [t - i * x for t, i, x in zip(tau, armature, rates, strict=True)], field, lam if bundles else None

    def nothing():
        field = Field()
        each(groups, lambda g, own: field.add(g.nodes, (jnp.zeros((3, len(g), 1), dtype),) * 2), {})
        return [jnp.zeros_like(t) for t in tau], field, None

    def correct(s: _State, refined: bool = True) -> _State:
        forces = left_over(s.at) if refined else nothing()
        change, accelerations, found, image = system.solve(*forces, s.r2 if bundles else None)
        change, found = [widen(x, lanes) for x in change], [widen(x, lanes) for x in found]
        moved = each(groups, lambda g, own: tuple(widen(x, lanes) for x in own["a"]), {"a": accelerations})
        step = largest_of(change)
        direction, ahead, stuck, useful = (change, moved, found, one), 1, False, False
        image = [widen(x, lanes) for x in image]
        if moving:
            slow = (s.steps > 1) & (step > 0.1 * s.last)
            sizes = step, jnp.maximum(s.peak, wanted)
            direction, image, ahead, useful = conjugate(slow, direction, image, s.direction, s.image, s.r2, far, sizes)
            stuck = slow & (step > 0.5 * s.last) & ~useful
        at = advance(s.at, direction, ahead)
        if not stop.accelerated and stop.tol == 0 or stop.unrolled or stop.max_steps == 1:
            return s._replace(at=at, r2=residual(at[1], at[2]), steps=s.steps + 1)
        size = largest_of(at[0])
        peak = jnp.maximum(s.peak, size)
        if moving:
            drifted = s.active & (size < 0.2 * peak)
            at = (at[0], _swept(problem, start, drifted, *at[:2]), *at[2:])
            peak = jnp.where(drifted, size, peak)
        made = step * ahead
        scale = jnp.maximum(s.scale, made)
        # error left after this step, from the rate at which steps shrink; a longer one breaks the series
        ratio = jnp.where(jnp.isinf(s.last), 1, step / jnp.maximum(s.last, jnp.finfo(dtype).tiny))
        rest = jnp.where(s.longer | useful, 1, jnp.minimum(ratio / (1 - jnp.minimum(ratio, 0.99)), 10))
        grown = jnp.where((step >= s.last) | stuck, s.grown + 1, 0)
        other = largest_of([x - y for x, y in zip(change, s.direction[0], strict=True)])
        crept = jnp.where(stuck & (other < 0.1 * step), s.crept + 1, 0)
        # written so that NaN ends a lane
        active = s.active & (made * rest > stop.tol * scale) & (made > stop.tol * scale * 1e-2) & (grown < PATIENCE)
        longer = jnp.broadcast_to(useful, step.shape)
        if stop.tol == 0:  # a fixed number of steps was asked for
            active = s.active
        new = _State(
            at, direction, image, residual(at[1], at[2]), peak, step, longer, scale, active, grown, crept, s.steps + 1
        )
        return jax.tree.map(lambda new, old: jnp.where(s.active, new, old), new, s)

    rates = [jnp.zeros((g.kind.nv, len(g), lanes), dtype) for g in groups]
    motions = _at_start(problem, start, lanes)
    lam = [widen(jnp.zeros_like(b) if x is None else x, lanes) for b, x in zip(start.rows, lam or none, strict=True)]
    zero, one, count = jnp.zeros(lanes, dtype), jnp.ones(lanes, dtype), jnp.zeros(lanes, jnp.int32)
    at = (rates, motions, lam, zero)
    state = _State(
        at=at,
        direction=jax.tree.map(jnp.zeros_like, at),
        image=jax.tree.map(jnp.zeros_like, lam),
        r2=residual(motions, lam),
        peak=zero,
        last=jnp.full(lanes, jnp.inf, dtype),
        longer=jnp.zeros(lanes, bool),
        scale=zero,
        active=jnp.ones(lanes, bool),
        grown=count,
        crept=count,
        steps=count,
    )
    if stop.refined:
        state = loop(lambda s: s.active, correct, state, stop)
    else:
        state = correct(state)
        if stop.max_steps > 1:
            rest = stop._replace(max_steps=stop.max_steps - 1)
            state = loop(lambda s: s.active, lambda s: correct(s, False), state, rest)
    at = state.at
    if moving and stop.max_steps >= PATIENCE:
        # what is left is the same step again and again, along rows that are as good as redundant but want what the
        # others do not: none of them shall have been made
        at = advance(at, state.direction, jnp.where(state.crept >= PATIENCE - 1, -at[3], 0))
    cleared = at[2]
    if moving:
        # what no row can have grows by the same, μ times what rows disagree by or are rounded by, in every plain step:
        # one more step, of which little else is left, tells how much that is
        _, _, again, _ = system.solve(*left_over(at), state.r2)
        cleared = [x - at[3] * y for x, y in zip(at[2], again, strict=True)]
    return *at[:3], cleared, state.steps


def joined(problem: Problem, rates: list[Array], lam: list[Array]) -> tuple[Array, Array]:
    """(nv, lanes) and (m, lanes)."""
    qdd = join_v(problem.model.topology, rates, problem.groups)
    flat = rw.flatten(problem.bundles, lam) if lam else jnp.zeros((0, qdd.shape[-1]), qdd.dtype)
    return qdd, flat
