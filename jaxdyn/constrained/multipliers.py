"""Multipliers of given accelerations."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.lanes import widen
from ..kinematics import rows as rw
from ..model.links import split_v
from ..tree.elimination import Factor
from ..tree.field import Field
from ..tree.sweep import each
from .damped import farthest
from .iteration import Stop, advance, conjugate, largest_of, loop
from .problem import Problem, Start
from .proximal import body_forces


def multipliers(
    problem: Problem, factor: Factor, mu: Array, start: Start, rates: list[Array], motions: list, stop: Stop
) -> list[Array]:
    """The minimum-norm λ with Jᵀλ = M a + h − τ, by λ += μ J (M + μ JᵀJ)⁻¹ (M a + h − τ − Jᵀλ) from zero.

    Every iterate lies in the range of J. Those of `iterate` do not where rows are redundant, and carry μ
    times the rounding of J a.
    """
    bundles, rows, groups = problem.bundles, problem.evaluated, problem.groups
    lanes, dtype = motions[0][0].shape[-1], problem.q.dtype
    far = farthest(problem, mu)
    left = [
        i * x - t
        for t, i, x in zip(
            split_v(problem.model.topology, widen(start.tau, lanes), groups),
            [j.armature for j in problem.joints],
            rates,
            strict=True,
        )
    ]
    forces = body_forces(problem, start, motions)

    def change_at(lam):
        field = Field()
        each(groups, lambda g, own, x: field.add(g.nodes, tuple(-y for y in x)), {}, forces)
        for slot, (n, f) in rw.transposed(bundles, rows, lam):
            field.add(slot, (n, f))
        _, y = factor.solve(left, field)
        return [mu * widen(z, lanes) for z in rw.times(bundles, rows, y)]

    def improve(s):
        lam, change, direction, image, last, active = s
        ahead = advance(lam, change, 1)
        after = change_at(ahead)
        if stop.unrolled:
            return ahead, after, *s[2:]
        now = [x - y for x, y in zip(change, after, strict=True)]
        step = largest_of(change)
        turned, turned_image, size, useful = conjugate(step > 0.1 * last, change, now, direction, image, change, far)
        new = (advance(lam, turned, size), advance(change, turned_image, -size), turned, turned_image, step)
        new = jax.tree.map(lambda x, y: jnp.where(active, x, y), new, s[:-1])
        creeps = (step > 0.5 * last) & ~useful  # rows as good as redundant
        return *new, active & ~creeps & (largest_of(new[1]) > stop.tol * largest_of(new[0]))

    zero = [jnp.zeros((b.layout.rows, len(b.members), lanes), dtype) for b in bundles]
    state = (zero, change_at(zero), zero, zero, jnp.full(lanes, jnp.inf, dtype), jnp.ones(lanes, bool))
    return loop(lambda s: s[-1], improve, state, stop)[0]
