"""The correction of the positions at the end of a step that projects them.

The step had the normal forces f. At its end, loops are slightly open and gaps φ differ from their goals. Replacing f by
normal forces F leads to q ⊕ dt² a instead, with

    M a − J_lᵀ ν − Jᵀ F = −Jᵀ f,    0 ≤ F ⊥ s = J a + φ / dt² ≥ 0,

where J_l a closes the loops. So overlapping shapes are pushed apart; shapes that pushed stay in touch, if necessary by
pushing less; and no contact pulls. The law has no friction: a is the least correction in the metric of M. Limits of
joints push like contacts.

Contacts take no part in the projection of the velocity, since their law is one of velocities. The next step stops what
is left of an impact, and turns the velocity of a foot with its leg: a correction would do so without the friction.
"""

import jax.numpy as jnp
from jaxtyping import Array

from .cones import Cones, Counts, Limited
from .goals import ANY
from .joints import Held


def closing(counts: Counts, held: Held, gaps: Array, dt: Array, f: Array, restitution: Array, stiffness: Array):
    """Return the cones of F, φ / dt² and f of all rows (m, lanes), from their gaps at the end of a step with the forces
    f of contacts and limits. `restitution` and `stiffness` (contacts, lanes) are those of the surfaces."""
    a, b = counts.ends
    soft, force, stops = jnp.isfinite(stiffness), f[:a:3], f[b:]
    # a soft surface keeps the overlap that its force needs, and bouncing shapes may part
    c, pushed = jnp.where(soft, ANY, gaps[:a:3] / (dt * dt)), jnp.where(soft | (restitution > 0), 0, force)
    none = lambda n: jnp.zeros((n, 1), f.dtype)  # noqa: E731
    below, above = (room / (dt * dt) for room in held.rooms(gaps[b:]))
    put = lambda x, y: jnp.zeros_like(f).at[:a:3].set(x).at[b:].set(y)  # noqa: E731
    limited = Limited(none(counts.joints), -below, above)
    cones = Cones(counts, none(counts.contacts), none(len(counts.twists)), limited)
    return cones, put(c, none(counts.joints)), put(pushed, stops)
