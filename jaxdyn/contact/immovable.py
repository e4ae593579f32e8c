"""Contacts along whose normal no force moves any body, such as those of wheels on a planar base, or on a slide along a
ramp.

Their entry of G is zero to rounding. If they overlap, by rounding or because they were placed so, the law asks for a
speed that no force brings about, and forces without bound would jam what slides. Any force is as good as none there, so
they bear none, and the law calls them unsolved where they overlap by more than rounding.
"""

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import joined, widen
from ..systems.weights import vanishing
from .cones import Counts
from .effect import diagonal
from .gauss_seidel import LEAST

#: the rounding of a gap, over that of its point in the world
ROUNDING = 8


def movable(step, kept) -> Array:
    """Return whether forces along the normals of contacts move anything (contacts, lanes)."""
    a, first = step.cones.counts.ends[0], step.first
    own = diagonal(kept.G)[:a]
    own = own.reshape(-1, 3, own.shape[-1])
    nothing = vanishing(step.problem)[first : first + a : 3] if a else own[:, 0]
    # G of a tree is a sum of squares of rows, which are zero to rounding here; loops subtract from it
    least = LEAST[own.dtype.itemsize] if first else (32 * jnp.finfo(own.dtype).eps) ** 2
    return own[:, 0] > least * own.sum(1) + nothing + kept.rounding[:a:3]


def parting(counts: Counts, g: Array, moves: Array) -> Array:
    """Return g (m, lanes) in which contacts that cannot move part."""
    a, lanes = counts.ends[0], max(g.shape[-1], moves.shape[-1])
    g = widen(g, lanes)
    return g.at[:a:3].set(jnp.where(moves, g[:a:3], jnp.abs(g).max(0))) if a else g


def borne(counts: Counts, f: Array, moves: Array) -> Array:
    """Return f (m, lanes) without forces of contacts that cannot move."""
    a = counts.ends[0]
    return joined([jnp.where(jnp.repeat(moves, 3, axis=0), f[:a], 0), f[a:]]) if a else f


def tolerated(step, moves: Array, recovery: float, dt: Array) -> Array:
    """Return the rounding of gaps (m, lanes), as accelerations that the law asks for, where contacts cannot move."""
    counts, place = step.cones.counts, joined([jnp.abs(rows.touch.point).max(1) for rows in step.slots.touching])
    error = jnp.where(moves, 0, ROUNDING * jnp.finfo(place.dtype).eps * recovery * place / (dt * dt))
    none = jnp.zeros_like(error)
    rest = jnp.zeros((counts.rows - counts.ends[0], error.shape[-1]), error.dtype)
    return joined([jnp.stack([error, none, none], 1).reshape(-1, error.shape[-1]), rest])
