"""Proximal (augmented Lagrangian) iterations around a damped factor, refined by the undamped residual.

With the factor of M + μ JᵀJ, each step corrects (lcaba_proxbbo, Alg. 3, with r1 added: without it the error's
floor rises with μ)

    δa = (M + μ JᵀJ)⁻¹ (r1 + μ Jᵀ r2),    δλ = μ (r2 − J δa),

where r1 = τ − h − M a + Jᵀλ and r2 = a* − γ − J a are taken at the bodies: inertia times acceleration goes into
the sweep as a force, and r1 never has to be formed in joint coordinates.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kernel import kernel
from ..engine.lanes import widen
from ..kinematics import rows as rw
from ..model.links import inertia_times, join_v, split_v
from ..tree.elimination import Factor
from ..tree.field import Field
from ..tree.sweep import each
from .damped import farthest
from .iteration import Stop, advance, conjugate, largest_of, loop
from .problem import Problem, Start

#: steps in a row that may grow, or creep along rows that are as good as redundant, before a lane is done
PATIENCE = 3


class _State(NamedTuple):
    """Carried through the iterations: joint and body accelerations by group and λ by bundle, the last direction in
    which they moved and J times it, r2 by bundle, and per lane the last step, whether it was made longer, the
    largest one, whether to go on, how often in a row the step did not shrink, and the number of steps."""

    at: tuple[list[Array], list[tuple[Array, Array]], list[Array]]
    direction: tuple[list[Array], list[tuple[Array, Array]], list[Array]]
    image: list[Array]
    r2: list[Array]
    last: Array
    longer: Array
    scale: Array
    active: Array
    grown: Array
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


def iterate(
    problem: Problem, factor: Factor, mu: Array, start: Start, lam: list[Array] | None, stop: Stop
) -> tuple[list[Array], list, Array]:
    """Joint accelerations and body accelerations by group, and the number of damped solves per lane."""
    bundles, rows, groups = problem.bundles, problem.evaluated, problem.groups
    lanes = max([x.shape[-1] for x in (problem.q, start.tau, *start.rows, *(lam or []))])
    dtype = problem.q.dtype
    far = farthest(problem, mu)
    tau = split_v(problem.model.topology, widen(start.tau, lanes), groups)
    armature = [j.armature for j in problem.joints]
    none = [None] * len(bundles)

    def initial(group, own):
        a = None if start.acceleration is None else own["a"]
        return (jnp.zeros((3, len(group), lanes), dtype),) * 2 if a is None else tuple(widen(x, lanes) for x in a)

    motions = each(groups, initial, {} if start.acceleration is None else {"a": start.acceleration})

    def image_of(motions):
        field = Field()
        each(groups, lambda g, own, a: field.add(g.nodes, a), {}, motions)
        return [widen(x, lanes) for x in rw.times(bundles, rows, field)]

    def residual(motions):
        return [b - x for b, x in zip(start.rows, image_of(motions), strict=True)]

    def correct(s: _State) -> _State:
        rates, motions, lam = s.at
        field = Field()
        each(groups, lambda g, own, x: field.add(g.nodes, x), {}, body_forces(problem, start, motions))
        for slot, (n, f) in rw.transposed(bundles, rows, [x + mu * r for x, r in zip(lam, s.r2, strict=True)]):
            field.add(slot, (-n, -f))
        joint = [t - i * x for t, i, x in zip(tau, armature, rates, strict=True)]
        change, accelerations = factor.solve(joint, field)
        moved = each(groups, lambda g, own: own["a"], {"a": accelerations})
        step = largest_of(change)
        if bundles:
            image = rw.times(bundles, rows, accelerations)
            pushed = [mu * (r - x) for r, x in zip(s.r2, image, strict=True)]
            direction, ahead, stuck, useful = (change, moved, pushed), 1, False, False
            if not stop.unrolled:
                slow = (s.steps > 1) & (step > 0.1 * s.last)
                direction, image, ahead, useful = conjugate(slow, direction, image, s.direction, s.image, s.r2, far)
                stuck = slow & (step > 0.5 * s.last) & ~useful
            at = advance(s.at, direction, ahead)
            r2 = residual(at[1])
        else:
            direction, image, r2, ahead, stuck, useful = (change, moved, []), [], [], 1, False, False
            at = advance(s.at, direction, 1)
        if stop.unrolled:
            return s._replace(at=at, r2=r2, steps=s.steps + 1)
        made = step * ahead
        scale = jnp.maximum(s.scale, made)
        # error left after this step, from the rate at which steps shrink; a longer one breaks the series
        ratio = jnp.where(jnp.isinf(s.last), 1, step / jnp.maximum(s.last, jnp.finfo(dtype).tiny))
        rest = jnp.where(s.longer | useful, 1, jnp.minimum(ratio / (1 - jnp.minimum(ratio, 0.99)), 10))
        left = made * rest
        grown = jnp.where((step >= s.last) | stuck, s.grown + 1, 0)
        # written so that NaN ends a lane
        active = s.active & (left > stop.tol * scale) & (made > stop.tol * scale * 1e-2) & (grown < PATIENCE)
        longer = jnp.broadcast_to(useful, step.shape)
        if stop.tol == 0:  # a fixed number of steps was asked for
            active = s.active
        new = _State(at, direction, image, r2, step, longer, scale, active, grown, s.steps + 1)
        return jax.tree.map(lambda new, old: jnp.where(s.active, new, old), new, s)

    rates = [jnp.zeros((g.kind.nv, len(g), lanes), dtype) for g in groups]
    lam = [widen(jnp.zeros_like(b) if x is None else x, lanes) for b, x in zip(start.rows, lam or none, strict=True)]
    zeros = jax.tree.map(jnp.zeros_like, (rates, motions, lam))
    state = _State(
        (rates, motions, lam),
        zeros,
        zeros[2],
        residual(motions) if bundles else [],
        jnp.full(lanes, jnp.inf, dtype),
        jnp.zeros(lanes, bool),
        jnp.zeros(lanes, dtype),
        jnp.ones(lanes, bool),
        jnp.zeros(lanes, jnp.int32),
        jnp.zeros(lanes, jnp.int32),
    )
    state = loop(lambda s: s.active, correct, state, stop)
    return *state.at[:2], state.steps


def joined(problem: Problem, rates: list[Array], lam: list[Array]) -> tuple[Array, Array]:
    """(nv, lanes) and (m, lanes)."""
    qdd = join_v(problem.model.topology, rates, problem.groups)
    flat = rw.flatten(problem.bundles, lam) if lam else jnp.zeros((0, qdd.shape[-1]), qdd.dtype)
    return qdd, flat
