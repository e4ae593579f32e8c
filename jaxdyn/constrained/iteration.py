"""Pieces that the iterations share: when they stop, conjugate steps, sizes per lane."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

#: of the square of a residual: where a step takes off less, the rest is rows in conflict
CONFLICTING = 1e-3


class Stop(NamedTuple):
    """When to stop: the estimated relative error of the accelerations, and the most damped solves. `plain` makes the
    steps of the papers alone, `unrolled` all of them, plain, in a loop that reverse differentiation can go through.
    Without `refined`, steps after the first take r1 for zero, as the papers do."""

    tol: float
    max_steps: int
    unrolled: bool = False
    plain: bool = False
    refined: bool = True

    @property
    def accelerated(self) -> bool:
        return not (self.unrolled or self.plain)


def loop(active, step, state, stop: Stop):
    """Repeat `step` while some lane of ``active(state)`` goes on."""
    if stop.max_steps == 1:
        return step(state)
    if stop.unrolled:
        return jax.lax.scan(lambda s, _: (step(s), None), state, length=stop.max_steps)[0]
    go_on = lambda s: active(s[0]).any() & (s[1] < stop.max_steps)  # noqa: E731
    return jax.lax.while_loop(go_on, lambda s: (step(s[0]), s[1] + 1), (state, 0))[0]


def conjugate(slow, direction, image, last_direction, last_image, residual, far, sizes, most=jnp.inf, best=True):
    """One step of the conjugate residual method: the direction with an image orthogonal to the last one's, if that step
    had the `best` length, and how far to go along it to make the residual smallest. Plain steps (as they are, and 1)
    where convergence is fast, where what the direction can take away drowns in rounding, and where the way would be
    longer than `far`: there the rows are as good as redundant. Parts of the residual that conflict with all rows do not
    matter, since no image has a part along them; where next to nothing but conflict is left, steps are no longer than
    `most`. `sizes` are those of the numbers that image and residual are differences of. The last results tell where the
    step is longer than a plain one, and where it has the best length."""
    back = jnp.where(slow & best, -ratio_of(inner(image, last_image), inner(last_image, last_image)), 0)
    turned, turned_image = advance(direction, last_direction, back), advance(image, last_image, back)
    along, square = inner(residual, turned_image), inner(turned_image, turned_image)
    size = ratio_of(along, square)
    useful = slow & (size > 1) & (size < far) & beyond_rounding(along, residual, square, sizes)
    bounded = (along * size < CONFLICTING * inner(residual, residual)) & (size > most)
    choose = lambda new, old: jnp.where(useful, new, old)  # noqa: E731
    return (
        jax.tree.map(choose, turned, direction),
        jax.tree.map(choose, turned_image, image),
        jnp.where(useful, jnp.where(bounded, most, size), 1),
        useful,
        useful & ~bounded,
    )


def right_length(image, before, now, ahead):
    """How far the last step should have gone: `ahead` times a direction with an `image`, it shrank the images of plain
    steps from `before` to what they are `now`. Images hardly see rows that are as good as redundant, whereas a residual
    that cannot be taken off those asks for a step too long for all others."""
    along = jnp.where(ahead > 1, image, now)  # after a plain step, what is left tells best
    whole, taken = inner(along, image), inner(along, before - now)
    return jnp.where((whole > 0) & (taken > 0), ahead * ratio_of(whole, taken), jnp.inf)


def beyond_rounding(along, residual, square, sizes):
    """Whether the inner product `along` of a residual and an image of squared length `square` is more than the rounding
    of the numbers, of `sizes`, that image and residual are differences of."""
    rounding = sizes[0] * jnp.sqrt(inner(residual, residual)) + sizes[1] * jnp.sqrt(square)
    return along > 30 * jnp.finfo(along.dtype).eps * rounding


def advance(at, direction, size):
    return jax.tree.map(lambda x, d: x + size * d, at, direction)


def inner(x: Array, y: Array) -> Array:
    """Per lane, the inner product of two vectors (n, lanes)."""
    return (x * y).sum(0)


def ratio_of(x, y):
    return x / jnp.maximum(y, jnp.finfo(y.dtype).tiny)


def largest_of(x: Array) -> Array:
    """Largest magnitude per lane of a vector (n, lanes); NaN where there is one."""
    return jnp.abs(x).max(0)
