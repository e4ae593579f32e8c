"""Gyrostats: bodies that turn about an axis of symmetry, as geared rotors do, and their steps in all sweeps.

The mass distribution of such a body does not change as it turns, so its inertia belongs to its carrier, the parent.
Only its spin remains. With s the axis in the carrier's axes, I the inertia about it, θ the joint's coordinate, and ω, α
of the carrier,

| symbol | name here | |
| --- | --- | --- |
| sθ̇, sθ̈ | motions of the body | relative to the carrier, in its axes |
| n_c | on the carrier | I (sθ̈ + ω × sθ̇) |
| n | on the body | I (sθ̈ + α), of which only s · n counts |
| U_c, D | | I G_c s on the carrier, I Gᵀ G, see `driven.py` |
"""

import jax.numpy as jnp

from ..spatial.small import cross, dot, summed
from .driven import moves_of, reflected


def motion(spin, rate):
    """Return the motion of a body at a rate of its joint (1, lanes)."""
    turning = spin[0] * rate[0]
    return turning, jnp.zeros_like(turning)


def motions(spin, v, a):
    """Return its velocity and acceleration; None for an argument of None."""
    return tuple(None if x is None else motion(spin, x) for x in (v, a))


def force(spin, velocity, acceleration, above, lifted):
    """Return the forces on the carrier and on the body, from the body's motions and the carrier's velocity and
    acceleration; None is zero."""
    s, inertia = spin
    on = own = jnp.zeros_like(s)
    if acceleration is not None:
        on = inertia * acceleration[0]
        own = inertia * (acceleration[0] + lifted[0])
    if velocity is not None:
        on = on + inertia * cross(above[0], velocity[0])
    none = jnp.zeros_like(on)
    return (on, none), (own + none, none)


def torque(spin, force):
    """Return the joint's torque (1, lanes)."""
    return dot(spin[0], force[0])[None]


def substitute(moves, n, spin, armature, G):
    """Return what a body adds to the coefficients of its cluster's columns on the carrier, and to L."""
    s, inertia = spin
    ratios = moves_of(moves, n, G, inertia)
    U = jnp.stack([inertia * x * s for x in ratios])
    L = jnp.stack(
        [
            -(inertia * x * y + reflected(moves, G, armature, c, d))
            for c, x in enumerate(ratios)
            for d, y in enumerate(ratios)
        ]
    )
    return (U, jnp.zeros_like(U)), L


def push(moves, n, spin, G, force):
    """Return what a body adds to the columns' right sides on the way up."""
    torque = dot(spin[0], force[0])
    return jnp.stack([-x * torque for x in moves_of(moves, n, G, torque)])


def pull(moves, n, spin, G, w):
    """Return the body's acceleration on the way down."""
    rate = summed(x * y for x, y in zip(moves_of(moves, n, G, w[0]), w, strict=True))
    return motion(spin, rate[None])
