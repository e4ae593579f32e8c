"""Multipliers of given accelerations."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import widen
from ..model.links import split_v
from ..tree.field import Field
from ..tree.sweep import each
from .damped import System, farthest, largest_weight
from .iteration import Stop, advance, conjugate, largest_of, loop
from .problem import Start
from .proximal import body_forces


def multipliers(
    system: System, start: Start, rates: list[Array], motions: list, stop: Stop
) -> tuple[list[Array], list[Array]]:
    """The minimum-norm λ with Jᵀλ = M a + h − τ, by bundle, and accelerations that go with it, by group.

    With y = (M + μ JᵀJ)⁻¹ (M a + h − τ − Jᵀλ), λ += μ J y from zero: every iterate lies in the range of J. Those of
    `iterate` do not where rows are redundant, and carry μ times the rounding of J a. The last step also takes
    y from a: together they leave M a + h − τ − Jᵀλ = 0, even along rows that are as good as redundant.
    """
    problem = system.problem
    bundles, groups = problem.bundles, problem.groups
    lanes, dtype = motions[0][0].shape[-1], problem.q.dtype
    far, mu = farthest(problem, system.weights), largest_weight(system.weights)
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

    def left_at(lam):
        """y and μ J y."""
        field = Field()
        each(groups, lambda g, own, x: field.add(g.nodes, tuple(-y for y in x)), {}, forces)
        y, _, taken, _ = system.solve(left, field, [-x for x in lam], None)
        return [widen(x, lanes) for x in y], [-widen(z, lanes) for z in taken]

    def improve(s):
        at, change, direction, image, last, active = s
        ahead = advance(at[0], change, 1)
        y, after = left_at(ahead)
        if stop.unrolled:
            return (ahead, y), after, *s[2:]
        moved = (change, [b - a for a, b in zip(at[1], y, strict=True)])
        now = [x - y for x, y in zip(change, after, strict=True)]
        step = largest_of(change)
        sizes = mu * largest_of(moved[1]), jnp.maximum(mu * largest_of(at[1]), largest_of(at[0]))
        turned, turned_image, size, useful = conjugate(
            step > 0.1 * last, moved, now, direction, image, change, far, sizes
        )
        new = (advance(at, turned, size), advance(change, turned_image, -size), turned, turned_image, step)
        new = jax.tree.map(lambda x, y: jnp.where(active, x, y), new, s[:-1])
        creeps = (step > 0.5 * last) & ~useful  # rows as good as redundant
        return *new, active & ~creeps & (largest_of(new[1]) > stop.tol * largest_of(new[0][0]))

    zero = [jnp.zeros((b.layout.rows, len(b.members), lanes), dtype) for b in bundles]
    y, change = left_at(zero)
    still = (zero, jax.tree.map(jnp.zeros_like, y))
    state = ((zero, y), change, still, zero, jnp.full(lanes, jnp.inf, dtype), jnp.ones(lanes, bool))
    (lam, y), change, *_ = loop(lambda s: s[-1], improve, state, stop)
    if dtype != jnp.float64:  # there y is the rounding of λ
        return lam, rates
    return advance(lam, change, 1), [a - b for a, b in zip(rates, y, strict=True)]
