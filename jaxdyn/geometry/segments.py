"""The contact points of spheres and capsules with each other, from the nearest points of two segments."""

import jax.numpy as jnp
from jax import Array

from ..spatial.small import cross, dot, scaled
from .placed import PARALLEL, Placed, Touch, away, between, upwards


def sphere_sphere(a: Placed, b: Placed) -> list[Touch]:
    """Return the point between the centers; where those coincide, the normal is the world's z axis."""
    return [between(a.p, b.p, a.size[0], b.size[0], upwards(a.p))]


def sphere_capsule(a: Placed, b: Placed) -> list[Touch]:
    """Return the nearest points. Where the center is on the axis, the normal is the capsule's x axis."""
    axis = b.R[:, 2]
    along = jnp.clip(dot(axis, a.p - b.p), -b.size[1], b.size[1])
    return [between(a.p, b.p + scaled(along, axis), a.size[0], b.size[0], b.R[:, 0])]


def capsule_capsule(a: Placed, b: Placed) -> list[Touch]:
    """Return, for the upper and the lower half of a, the points nearest to b.

    The lesser gap is the distance. If the axes are parallel, the slots are the ends of the parts side by side. Where
    the axes cross, the normal is perpendicular to both.
    """
    u, w, r = a.R[:, 2], b.R[:, 2], a.p - b.p
    half_a, half_b = a.size[1], b.size[1]
    both, on_a, on_b = dot(u, w), dot(u, r), dot(w, r)
    normal = cross(u, w)
    square = dot(normal, normal)
    side = square < PARALLEL**2
    _, normal = away(normal, a.R[:, 0])
    along = (both * on_b - on_a) / jnp.where(side, 1, square)

    def half(low: Array, high: Array, end: Array) -> Touch:
        s, t = nearest(jnp.where(side, end, along), (low, high), half_b, both, on_a, on_b)
        return between(a.p + scaled(s, u), b.p + scaled(t, w), a.size[0], b.size[0], normal)

    return [half(jnp.where(side, -half_a, 0), half_a, half_a), half(-half_a, jnp.where(side, half_a, 0), -half_a)]


def nearest(along: Array, first: tuple[Array, Array], half: Array, both: Array, on_u: Array, on_w: Array):
    """Return how far along their directions u and w the nearest points of two segments are (Ericson, Real-Time
    Collision Detection, 2005, 5.1.9).

    The points of the lines are p + s u and q + t w. `along` is the s of the lines' nearest point, or any if they are
    parallel. `first` are the bounds of s and `half` bounds abs(t); `both` is u · w, `on_u` is u · (p − q) and `on_w` is
    w · (p − q).
    """
    t = jnp.clip(on_w + both * jnp.clip(along, *first), -half, half)
    return jnp.clip(both * t - on_u, *first), t
