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


#: steps in a row that may grow before a lane is taken to be at its floor
PATIENCE = 3


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


def automatic_weight(problem: Problem) -> Array:
    """μ (lanes,) from the precision and the size of the inertia: so large that a step gains several digits, so
    small that μ JᵀJ leaves those of M. Measured on the benchmark systems: `docs/algorithms/lcaba.md`."""
    return _digits(problem, 3e3, 1e7) * _mean_mass(problem)


def _digits(problem: Problem, single: float, double: float) -> float:
    return double if problem.q.dtype == jnp.float64 else single


def _mean_mass(problem: Problem) -> Array:
    return jnp.maximum(problem.model.bodies.mass.mean(0), 1e-3)


def _farthest(problem: Problem, mu: Array) -> Array:
    """The longest conjugate step: an eigenvalue w of J M⁻¹ Jᵀ calls for 1 / (μ w), and what is smaller than
    about 1e-12 (single precision: 1e-5) of the largest counts as zero."""
    return jnp.maximum(_digits(problem, 1e5, 1e12) * _mean_mass(problem) / mu, 1)


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
    """Carried through the iterations: joint and body accelerations by group and λ by bundle, the last direction in
    which they moved and J times it, r2 by bundle, and per lane the last step, the largest one, whether to go
    on, how often the step grew, and the number of steps."""

    at: tuple[list[Array], list[tuple[Array, Array]], list[Array]]
    direction: tuple[list[Array], list[tuple[Array, Array]], list[Array]]
    image: list[Array]
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
    far = _farthest(problem, mu)
    tau = split_v(problem.model.topology, _wide(start.tau, lanes), groups)
    armature = [j.armature for j in problem.joints]
    none = [None] * len(bundles)

    def initial(group, own):
        a = None if start.acceleration is None else own["a"]
        return (jnp.zeros((3, len(group), lanes), dtype),) * 2 if a is None else tuple(_wide(x, lanes) for x in a)

    motions = each(groups, initial, {} if start.acceleration is None else {"a": start.acceleration})
    def image_of(motions):
        field = Field()
        each(groups, lambda g, own, a: field.add(g.nodes, a), {}, motions)
        return [_wide(x, lanes) for x in rw.times(bundles, rows, field)]

    def residual(motions):
        return [b - x for b, x in zip(start.rows, image_of(motions), strict=True)]

    def correct(s: _State) -> _State:
        rates, motions, lam = s.at
        field = Field()
        each(groups, lambda g, own, x: field.add(g.nodes, x), {}, _body_forces(problem, start, motions))
        for slot, (n, f) in rw.transposed(bundles, rows, [x + mu * r for x, r in zip(lam, s.r2, strict=True)]):
            field.add(slot, (-n, -f))
        rest = [t - i * x for t, i, x in zip(tau, armature, rates, strict=True)]
        change, accelerations = factor.solve(rest, field)
        moved = each(groups, lambda g, own: own["a"], {"a": accelerations})
        step = _norm(change)
        if bundles:
            image = rw.times(bundles, rows, accelerations)
            pushed = [mu * (r - x) for r, x in zip(s.r2, image, strict=True)]
            slow = (s.steps > 1) & (step > 0.1 * s.last)
            direction, image, ahead = _conjugate(slow, (change, moved, pushed), image, s.direction, s.image, s.r2, far)
            at = _step(s.at, direction, ahead)
            r2 = residual(at[1])
        else:
            direction, image, r2, ahead = (change, moved, []), [], [], 1
            at = _step(s.at, direction, 1)
        step = step * ahead
        scale = jnp.maximum(s.scale, step)
        # error left after this step, from the rate at which steps shrink
        ratio = jnp.where(jnp.isinf(s.last), 1, step / jnp.maximum(s.last, jnp.finfo(dtype).tiny))
        left = step * jnp.minimum(ratio / (1 - jnp.minimum(ratio, 0.99)), 10)
        grown = jnp.where(step >= s.last, s.grown + 1, 0)
        # written so that NaN ends a lane
        active = s.active & (left > stop.tol * scale) & (step > stop.tol * scale * 1e-2) & (grown < PATIENCE)
        new = _State(at, direction, image, r2, step, scale, active, grown, s.steps + 1)
        return jax.tree.map(lambda new, old: jnp.where(s.active, new, old), new, s)

    rates = [jnp.zeros((g.kind.nv, len(g), lanes), dtype) for g in groups]
    lam = [_wide(jnp.zeros_like(b) if x is None else x, lanes) for b, x in zip(start.rows, lam or none, strict=True)]
    zeros = jax.tree.map(jnp.zeros_like, (rates, motions, lam))
    state = _State(
        (rates, motions, lam),
        zeros,
        zeros[2],
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
    return *state.at[:2], state.steps


def _conjugate(slow, direction, image, last_direction, last_image, residual, far):
    """One step of the conjugate residual method: the direction with an image orthogonal to the last one's, and how
    far to go along it to make the residual smallest. Plain steps (as they are, and 1) where convergence is
    fast, where the residual is not one that the direction can take away (conflicting rows, rounding), and where
    the way would be longer than `far`: there the rows are as good as redundant."""
    back = jnp.where(slow, -_ratio(_inner(image, last_image), _inner(last_image, last_image)), 0)
    turned, turned_image = _step(direction, last_direction, back), _step(image, last_image, back)
    along, square = _inner(residual, turned_image), _inner(turned_image, turned_image)
    size = _ratio(along, square)
    useful = slow & (size > 1) & (size < far) & (along * along > 0.1 * square * _inner(residual, residual))
    choose = lambda new, old: jnp.where(useful, new, old)  # noqa: E731
    return (
        jax.tree.map(choose, turned, direction),
        jax.tree.map(choose, turned_image, image),
        jnp.where(useful, size, 1),
    )


def _step(at, direction, size):
    return jax.tree.map(lambda x, d: x + size * d, at, direction)


def _inner(x: Sequence[Array], y: Sequence[Array]) -> Array:
    """Per lane, the inner product of two vectors of rows."""
    return sum((a * b).sum((0, 1)) for a, b in zip(x, y, strict=True))


def _ratio(x, y):
    return x / jnp.maximum(y, jnp.finfo(y.dtype).tiny)


def multipliers(
    problem: Problem, factor: Factor, mu: Array, start: Start, rates: list[Array], motions: list, stop: Stop
) -> list[Array]:
    """The minimum-norm λ with Jᵀλ = M a + h − τ, by λ += μ J (M + μ JᵀJ)⁻¹ (M a + h − τ − Jᵀλ) from zero.

    Every iterate lies in the range of J. Those of `iterate` do not where rows are redundant, and carry μ
    times the rounding of J a.
    """
    bundles, rows, groups = problem.bundles, problem.evaluated, problem.groups
    lanes, dtype = motions[0][0].shape[-1], problem.q.dtype
    far = _farthest(problem, mu)
    left = [i * x - t for t, i, x in zip(
        split_v(problem.model.topology, _wide(start.tau, lanes), groups),
        [j.armature for j in problem.joints], rates, strict=True)]
    forces = _body_forces(problem, start, motions)

    def change_at(lam):
        field = Field()
        each(groups, lambda g, own, x: field.add(g.nodes, tuple(-y for y in x)), {}, forces)
        for slot, (n, f) in rw.transposed(bundles, rows, lam):
            field.add(slot, (n, f))
        _, y = factor.solve(left, field)
        return [mu * _wide(z, lanes) for z in rw.times(bundles, rows, y)]

    def improve(s):
        lam, change, direction, image, last, active = s
        ahead = _step(lam, change, 1)
        now = [x - y for x, y in zip(change, change_at(ahead), strict=True)]
        step = _norm(change)
        turned, turned_image, size = _conjugate(step > 0.1 * last, change, now, direction, image, change, far)
        new = (_step(lam, turned, size), _step(change, turned_image, -size), turned, turned_image, step)
        new = jax.tree.map(lambda x, y: jnp.where(active, x, y), new, s[:-1])
        return *new, active & (_norm(new[1]) > stop.tol * _norm(new[0]))

    zero = [jnp.zeros((b.layout.rows, len(b.members), lanes), dtype) for b in bundles]
    state = (zero, change_at(zero), zero, zero, jnp.full(lanes, jnp.inf, dtype), jnp.ones(lanes, bool))
    return jax.lax.while_loop(
        lambda s: s[0][-1].any() & (s[1] < stop.max_steps), lambda s: (improve(s[0]), s[1] + 1), (state, 0)
    )[0][0]


def _wide(x: Array, lanes: int) -> Array:
    return jnp.broadcast_to(x, (*x.shape[:-1], lanes)) if x.shape[-1] < lanes else x


def joined(problem: Problem, rates: list[Array], lam: list[Array]) -> tuple[Array, Array]:
    """(nv, lanes) and (m, lanes)."""
    qdd = join_v(problem.model.topology, rates, problem.groups)
    flat = rw.flatten(problem.bundles, lam) if lam else jnp.zeros((0, qdd.shape[-1]), qdd.dtype)
    return qdd, flat
