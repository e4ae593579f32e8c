"""Building blocks of the iterations: when they stop, conjugate steps, sizes per lane (element of the batch)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

#: if a step removes less than this fraction of the squared residual, the rest is conflict between rows
CONFLICTING = 1e-3
#: convergence is slow if a step is longer than this share of the one before: plain steps shrink more without weak rows
SLOW = 0.1
#: rounding of residuals and images, in last digits of the numbers whose differences they are. With 30, what is left of
#: rows that hardly move counts as rounding; with one, lanes chase rounding
ROUNDING = 4.0
#: steps that shrink less than this, without conjugate ones to help, move rows that are as good as redundant
STUCK = 0.5


def tolerance(dtype, tol: float | None = None) -> float:
    """Return `tol`, or the one of solvers by default if that is None."""
    if tol is not None:
        return float(tol)
    return 1e-12 if dtype == jnp.float64 else 1e-6


class Stop(NamedTuple):
    """When to stop: `tol`, the estimated relative error of the accelerations, and `max_steps`, the maximum number of
    damped solves. `plain` takes only the steps of the papers. `unrolled` makes all steps, plain ones, in a loop that
    reverse differentiation can traverse. Without `refined`, steps after the first take r1 to be zero, as the papers do.
    """

    tol: float
    max_steps: int
    unrolled: bool = False
    plain: bool = False
    refined: bool = True

    @property
    def accelerated(self) -> bool:
        return not (self.unrolled or self.plain)


def loop(active, step, state, stop: Stop):
    """Return the state after repeating `step` while ``active(state)`` holds in some lane, at most `stop.max_steps`
    times."""
    if stop.max_steps == 1:
        return step(state)
    if stop.unrolled:
        return jax.lax.scan(lambda s, _: (step(s), None), state, length=stop.max_steps)[0]
    go_on = lambda s: active(s[0]).any() & (s[1] < stop.max_steps)  # noqa: E731
    return jax.lax.while_loop(go_on, lambda s: (step(s[0]), s[1] + 1), (state, 0))[0]


def conjugate(slow, direction, image, last_direction, last_image, residual, counts, sizes, most=jnp.inf, best=True):
    """Return one step of the conjugate residual method.

    The direction is changed so that its image is orthogonal to the last image, if the last step had the `best` length.
    The length is the one that makes the residual smallest. A lane keeps the plain step (the given direction, length 1)
    if convergence is not `slow`, if the part of the residual that the direction can remove is below rounding, or if not
    ``counts(direction, image)``, since such rows are as good as redundant.

    Parts of the residual that conflict with all rows do not matter, since no image has a part along them. Where almost
    only conflict is left, the length is at most `most`. `sizes` are the sizes of the numbers whose differences are the
    image and the residual.

    Returns direction, image, length, whether the step is longer than a plain one, and whether it has the best length.
    """
    back = jnp.where(slow & best, -ratio_of(inner(image, last_image), inner(last_image, last_image)), 0)
    turned, turned_image = advance(direction, last_direction, back), advance(image, last_image, back)
    along, square = inner(residual, turned_image), inner(turned_image, turned_image)
    size = ratio_of(along, square)
    useful = slow & (size > 1) & counts(turned, turned_image) & beyond_rounding(along, residual, square, sizes)
    bounded = (along * size < CONFLICTING * inner(residual, residual)) & (size > most)
    choose = lambda new, old: jnp.where(useful, new, old)  # noqa: E731
    return (
        jax.tree.map(choose, turned, direction),
        jax.tree.map(choose, turned_image, image),
        jnp.where(useful, jnp.where(bounded, most, size), 1),
        useful,
        useful & ~bounded,
    )


def moves(redundant, lam, image):
    """Return whether forces λ, with an `image` J M⁻¹ Jᵀ λ, move rows that do not count as `redundant` (the eigenvalue
    up to which they do). An image of rounding may point against λ, which no other image does: sizes are compared."""
    return inner(image, image) > redundant * jnp.abs(inner(image, lam))


def longer(moving, residual, image, sizes, share=0.0):
    """Return by what factor a plain step with this image should have been longer to make the residual smallest: 1 if
    it is not `moving` rows, if that is below rounding, or if it would remove less than a `share` of the squared
    residual."""
    along, square = inner(residual, image), inner(image, image)
    told = moving & beyond_rounding(along, residual, square, sizes)
    told &= along * along >= share * square * inner(residual, residual)
    return jnp.maximum(jnp.where(told, ratio_of(along, square), 1), 1)


def right_length(image, before, now, ahead):
    """Return how far the last step should have gone. It went `ahead` times along a direction with an `image`, and
    shrank the images of plain steps from `before` to `now`. Images hardly contain rows that are as good as redundant. A
    residual that cannot be removed along those would ask for a step too long for all other rows."""
    along = jnp.where(ahead > 1, image, now)  # after a plain step, the new image is the best measure
    whole, taken = inner(along, image), inner(along, before - now)
    return jnp.where((whole > 0) & (taken > 0), ahead * ratio_of(whole, taken), jnp.inf)


def beyond_rounding(along, residual, square, sizes):
    """Return whether the inner product `along` of a residual and an image of squared length `square` exceeds the
    rounding of the numbers, of `sizes`, whose differences are the image and the residual."""
    rounding = sizes[0] * jnp.sqrt(inner(residual, residual)) + sizes[1] * jnp.sqrt(square)
    return along > ROUNDING * jnp.finfo(along.dtype).eps * rounding


def advance(at, direction, size):
    return jax.tree.map(lambda x, d: x + size * d, at, direction)


def inner(x: Array, y: Array) -> Array:
    """Return, per lane, the inner product of two vectors (n, lanes)."""
    return (x * y).sum(0)


def ratio_of(x, y):
    return x / jnp.maximum(y, jnp.finfo(y.dtype).tiny)


def largest_of(x: Array) -> Array:
    """Return, per lane, the largest magnitude of a vector (n, lanes); NaN if an entry is NaN."""
    return jnp.abs(x).max(0)
