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
from ..kinematics import rows as rw
from ..model.links import inertia_times, join_v, split_v
from ..spatial.small import eye, skew
from ..tree.elimination import Articulated, Factor, factorise
from ..tree.field import Field
from ..tree.sweep import each
from .problem import Problem, Start


class Stop(NamedTuple):
    """When to stop: the estimated relative error of the accelerations, and the most damped solves."""

    tol: float
    max_steps: int


@kernel
def _rigid(mass, first, second):
    return second, skew(first), mass * eye(first)


@kernel
def _tie_own(mu, ang, lin):
    """μ KᵀK as (A, C, M)."""
    return tuple(mu * (x[:, :, None] * y[:, None]).sum(0) for x, y in ((ang, ang), (ang, lin), (lin, lin)))


@kernel
def _tie_pair(mu, a, b, c, d):
    return tuple(mu * (x[:, :, None] * y[:, None]).sum(0) for x, y in ((a, c), (a, d), (b, c), (b, d)))


def penalised(problem: Problem, mu: Array) -> Factor:
    """The factor of M + μ JᵀJ; `mu` is (lanes,) or (1,)."""
    own, ties = Field(), Field()
    each(
        problem.groups,
        lambda g, _, link: own.add(g.nodes, _rigid(link.mass, link.first, link.second)),
        {},
        problem.links,
    )
    for bundle, e in zip(problem.bundles, problem.evaluated, strict=True):
        K = e.rows.K
        for s, slot in enumerate(bundle.slots):
            own.add(slot, _tie_own(mu, *K[s]))
            for t in range(s + 1, len(K)):
                pairs = list(zip(slot, bundle.slots[t], strict=True))
                ties.add(pairs, _tie_pair(mu, *K[s], *K[t]))
    return factorise(problem.groups, problem.joints, Articulated(own, ties))


class _State(NamedTuple):
    """Carried through the iterations: joint and body accelerations by group, λ and r2 by bundle, and per lane the
    last step, the largest one, whether to go on, how often the step grew, and the number of steps."""

    rates: list[Array]
    motions: list[tuple[Array, Array]]
    lam: list[Array]
    r2: list[Array]
    last: Array
    scale: Array
    active: Array
    grown: Array
    steps: Array


@kernel
def _body_force(mass, first, second, w, l, n, f):
    """I a plus what the body exerts besides."""
    a, b = inertia_times(mass, first, second, w, l)
    return n + a, f + b


@kernel
def _largest(parts):
    return jnp.stack([jnp.abs(x).max((0, 1)) for x in parts]).max(0)


def _norm(parts: Sequence[Array]) -> Array:
    """Largest magnitude per lane; NaN where there is one."""
    return _largest(list(parts))


def _body_forces(problem: Problem, start: Start, motions: Sequence[tuple[Array, Array]]) -> list[tuple[Array, Array]]:
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
    tau = split_v(problem.model.topology, _wide(start.tau, lanes), groups)
    armature = [j.armature for j in problem.joints]

    def initial(group, own):
        a = None if start.acceleration is None else own["a"]
        return (jnp.zeros((3, len(group), lanes), dtype),) * 2 if a is None else tuple(_wide(x, lanes) for x in a)

    motions = each(groups, initial, {} if start.acceleration is None else {"a": start.acceleration})
    def residual(motions):
        field = Field()
        each(groups, lambda g, own, a: field.add(g.nodes, a), {}, motions)
        now = rw.times(bundles, rows, field)
        return [_wide(b - x, lanes) for b, x in zip(start.rows, now, strict=True)]

    def correct(s: _State) -> _State:
        weight = [x + mu * r for x, r in zip(s.lam, s.r2, strict=True)]
        field = Field()
        each(groups, lambda g, own, x: field.add(g.nodes, x), {}, _body_forces(problem, start, s.motions))
        for slot, (n, f) in rw.transposed(bundles, rows, weight):
            field.add(slot, (-n, -f))
        rest = [t - i * x for t, i, x in zip(tau, armature, s.rates, strict=True)]
        change, accelerations = factor.solve(rest, field)
        moved = each(groups, lambda g, own: own["a"], {"a": accelerations})
        rates = [x + d for x, d in zip(s.rates, change, strict=True)]
        motions = [(w + x, l + y) for (w, l), (x, y) in zip(s.motions, moved, strict=True)]
        r2 = residual(motions) if bundles else []
        lam = [x + mu * r for x, r in zip(s.lam, r2, strict=True)]
        step = _norm(change)
        scale = jnp.maximum(s.scale, step)
        # error left after this step, from the rate at which steps shrink
        ratio = jnp.minimum(jnp.where(jnp.isinf(s.last), 1, step / jnp.maximum(s.last, jnp.finfo(dtype).tiny)), 0.99)
        left = step * ratio / (1 - ratio)
        grown = s.grown + (step >= s.last)
        steps = s.steps + s.active
        # written so that NaN ends a lane
        active = s.active & (left > stop.tol * scale) & (step > stop.tol * scale * 1e-2) & (grown < 2)
        new = _State(rates, motions, lam, r2, step, scale, active, grown, steps)
        return jax.tree.map(lambda new, old: jnp.where(s.active, new, old), new, s)

    state = _State(
        [jnp.zeros((g.kind.nv, len(g), lanes), dtype) for g in groups],
        motions,
        [jnp.zeros_like(_wide(b, lanes)) for b in start.rows] if lam is None else [_wide(x, lanes) for x in lam],
        residual(motions) if bundles else [],
        jnp.full(lanes, jnp.inf, dtype),
        jnp.zeros(lanes, dtype),
        jnp.ones(lanes, bool),
        jnp.zeros(lanes, jnp.int32),
        jnp.zeros(lanes, jnp.int32),
    )
    state = jax.lax.while_loop(
        lambda s: s[0].active.any() & (s[1] < stop.max_steps),
        lambda s: (correct(s[0]), s[1] + 1),
        (state, 0),
    )[0]
    return state.rates, state.motions, state.steps


def multipliers(
    problem: Problem, factor: Factor, mu: Array, start: Start, rates: list[Array], motions: list, stop: Stop
) -> list[Array]:
    """The minimum-norm λ with Jᵀλ = M a + h − τ, by λ += μ J (M + μ JᵀJ)⁻¹ (M a + h − τ − Jᵀλ) from zero.

    Every iterate lies in the range of J. Those of `iterate` do not where rows are redundant, and carry μ
    times the rounding of J a.
    """
    bundles, rows, groups = problem.bundles, problem.evaluated, problem.groups
    lanes, dtype = motions[0][0].shape[-1], problem.q.dtype
    left = [i * x - t for t, i, x in zip(
        split_v(problem.model.topology, _wide(start.tau, lanes), groups),
        [j.armature for j in problem.joints], rates, strict=True)]
    forces = _body_forces(problem, start, motions)

    def improve(s):
        lam, last, active = s
        field = Field()
        each(groups, lambda g, own, x: field.add(g.nodes, tuple(-y for y in x)), {}, forces)
        for slot, (n, f) in rw.transposed(bundles, rows, lam):
            field.add(slot, (n, f))
        _, y = factor.solve(left, field)
        change = [mu * z for z in rw.times(bundles, rows, y)]
        step, size = _norm(change), _norm(lam)
        new = [jnp.where(active, x + d, x) for x, d in zip(lam, change, strict=True)]
        return new, jnp.where(active, step, last), active & (step > stop.tol * size) & (step < last)

    zero = [jnp.zeros((b.layout.rows, len(b.members), lanes), dtype) for b in bundles]
    state = (zero, jnp.full(lanes, jnp.inf, dtype), jnp.ones(lanes, bool))
    return jax.lax.while_loop(
        lambda s: s[0][2].any() & (s[1] < stop.max_steps), lambda s: (improve(s[0]), s[1] + 1), (state, 0)
    )[0][0]


def _wide(x: Array, lanes: int) -> Array:
    return jnp.broadcast_to(x, (*x.shape[:-1], lanes)) if x.shape[-1] < lanes else x


def joined(problem: Problem, rates: list[Array], lam: list[Array]) -> tuple[Array, Array]:
    """(nv, lanes) and (m, lanes)."""
    qdd = join_v(problem.model.topology, rates, problem.groups)
    flat = rw.flatten(problem.bundles, lam) if lam else jnp.zeros((0, qdd.shape[-1]), qdd.dtype)
    return qdd, flat
