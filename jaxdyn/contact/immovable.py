"""Contacts along whose normal no force moves any body, such as those of wheels on a planar base, or on a slide along a
ramp; and joints that loops, brakes or drives hold, at their limits or where they rub.

Their entry of G is zero to rounding. If they overlap, by rounding or because they were placed so, the law asks for a
speed that no force brings about, and forces without bound would jam what slides. Any force is as good as none there, so
they bear none, and the law calls them unsolved where they overlap by more than rounding.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import joined, lanes_of, widen
from ..systems.weights import vanishing
from .cones import Cones, Counts, Limited
from .effect import Unformed, diagonal
from .gauss_seidel import LEAST

#: the rounding of a gap, over that of its point in the world
ROUNDING = 8
#: dry friction and limits of joints that have none: accelerations beyond any, whose multiples are finite
FREE = 0.0, -1e12, 1e12


def movable(step, kept) -> Array:
    """Return whether forces along the normals of contacts, and along the rows of joints, move anything
    (contacts + joints, lanes)."""
    (a, b), first = step.cones.counts.ends, step.first
    every = diagonal(kept.G)
    own, joints = every[:a].reshape(-1, 3, every.shape[-1]), every[b:]
    nothing = vanishing(step.problem)[first : first + a : 3] if a else own[:, 0]
    # G of a tree is a sum of squares of rows, which are zero to rounding here; loops subtract from it
    least = LEAST[own.dtype.itemsize] if first else (32 * jnp.finfo(own.dtype).eps) ** 2
    of_contacts = own[:, 0] > least * own.sum(1) + nothing + kept.rounding[:a:3]
    # without loops all joints move
    return joined([of_contacts, joints > least * _alone(step, kept) if first else jnp.ones_like(joints, bool)])


def _alone(step, kept) -> Array:
    """Return the least that the diagonal of G would be without loops (joints, lanes): 1 / D of the joints."""
    counts, first, topology = step.cones.counts, step.first, step.problem.model.topology
    Dinv, bodies = kept.factor.parts["U"][2], step.problem.plan.firsts[first + counts.ends[1] :]
    own = [Dinv[topology.v_slice(b)].max(0) for b in bodies]  # rows of several turns are no velocities
    return jnp.stack(own) if own else Dinv[:0]


def parting(G, g: Array, cones: Cones, moves: Array):
    """Return G, g (m, lanes) and cones in which contacts that cannot move part, and joints that cannot have neither
    limits nor dry friction."""
    (a, b), n, limited = cones.counts.ends, cones.counts.contacts, cones.limited
    g = widen(g, lanes_of(g, moves))
    if a:
        g = g.at[:a:3].set(jnp.where(moves[:n], g[:a:3], jnp.abs(g).max(0)))
    if cones.counts.joints:
        free = Limited(*(jnp.where(moves[n:], x, y) for x, y in zip(jax.tree.leaves(limited), FREE, strict=True)))
        cones = dataclasses.replace(cones, limited=free)
        if isinstance(G, Unformed):  # scaled by rounding, such a row would drown the others in a damped inverse
            own = widen(G.diagonal, moves.shape[-1])
            G = dataclasses.replace(G, diagonal=own.at[b:].set(jnp.where(moves[n:], own[b:], own.max(0))))
    return G, g, cones


def borne(counts: Counts, f: Array, moves: Array) -> Array:
    """Return f (m, lanes) without forces of contacts and joints that cannot move."""
    (a, b), n = counts.ends, counts.contacts
    of_contacts = [jnp.where(jnp.repeat(moves[:n], 3, axis=0), f[:a], 0)] if a else [f[:a]]
    of_joints = [jnp.where(moves[n:], f[b:], 0)] if counts.joints else [f[b:]]
    return joined([*of_contacts, f[a:b], *of_joints])


def weighed(counts: Counts, w: Array, moves: Array) -> Array:
    """Return the weights w (m, lanes), zero for contacts and joints that cannot move: without a weight, their forces
    stay zero in derivatives."""
    (a, b), n, moves = counts.ends, counts.contacts, moves.astype(w.dtype)
    w = w.at[:a:3].multiply(moves[:n]) if n else w
    return w.at[b:].multiply(moves[n:]) if counts.joints else w


def tolerated(step, moves: Array, recovery: float, dt: Array) -> Array:
    """Return the rounding of gaps and of positions of joints (m, lanes), as accelerations that the law asks for, where
    contacts and joints cannot move."""
    counts = step.cones.counts
    (a, b), n = counts.ends, counts.contacts
    place = joined([jnp.zeros((0, 1), dt.dtype), *(jnp.abs(rows.touch.point).max(1) for rows in step.slots.touching)])
    position = jnp.maximum(jnp.abs(step.problem.rows.residual[step.first + b :]), 1)
    size = ROUNDING * jnp.finfo(place.dtype).eps * recovery / (dt * dt)
    of_contacts, of_joints = (jnp.where(m, 0, size * x) for m, x in ((moves[:n], place), (moves[n:], position)))
    none = jnp.zeros_like(of_contacts)
    twists = jnp.zeros((b - a, none.shape[-1]), none.dtype)
    return joined([jnp.stack([of_contacts, none, none], 1).reshape(a, none.shape[-1]), twists, of_joints])
