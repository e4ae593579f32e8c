"""The correction of the state at the end of a step that projects it.

The step had the normal forces f. At its end, loops are slightly open and gaps differ from their goals. Replacing f by
normal forces F leads to q ⊕ dt² a and v + dt a instead, with

    M a − J_lᵀ ν − Jᵀ F = −Jᵀ f,    0 ≤ F ⊥ s = J a + c ≥ 0.

For positions, c = φ / dt² and J_l a closes the loops. For velocities, c = (J v − r) / dt at contacts that pushed only,
and J_l a cancels the rates of the loops. So overlapping shapes are pushed apart; shapes that pushed stay in touch, if
necessary by pushing less; and no contact pulls. The law has no friction: a is the least correction in the metric of M.
Limits of joints push like contacts.

The rate r is zero where shapes touched before the step. Where they were apart by φ, the step let them approach at
φ / dt, and r is J v within −φ / dt ≤ r ≤ 0: the next step stops what is left of an impact, because a correction would
do so without its friction. To push less at such a rate would add energy: faster than `bounce_speed`, F ≥ f.
"""

import jax.numpy as jnp
from jaxtyping import Array

from .cones import Cones, Counts, Limited
from .goals import ANY
from .joints import Held
from .laws import Closing


def closing(law: Closing, counts: Counts, held: Held, gaps, rates, dt: Array, f: Array, before, restitution, stiffness):
    """Return the cones of F, and c and f of all rows (m, lanes), from their gaps and rates at the end of a step with
    the forces f of contacts and limits. `before` (contacts, lanes) are the gaps at its start; `restitution` and
    `stiffness` are those of the surfaces."""
    a, b = counts.ends
    soft, force, stops = jnp.isfinite(stiffness), f[:a:3], f[b:]
    free = soft | (restitution > 0)
    if law.positions:
        c = gaps[:a:3] / (dt * dt)
    else:
        rate = jnp.clip(rates[:a:3], jnp.minimum(-before / dt, 0), 0)
        c = jnp.where(force > 0, (rates[:a:3] - rate) / dt, ANY)
        free = free | (rate < -law.bounce_speed)
    # a soft surface keeps the overlap that its force needs, and bouncing shapes may part
    c, pushed = jnp.where(soft, ANY, c), jnp.where(free, 0, force)
    none = lambda n: jnp.zeros((n, 1), f.dtype)  # noqa: E731
    if law.positions:
        below, above = (room / (dt * dt) for room in held.rooms(gaps[b:]))
        own = none(counts.joints)
    else:
        # rates of joints do not change with q: those towards a limit are what the step let them be
        own = rates[b:] / dt
        near = jnp.maximum(-jnp.sign(stops) * own, 0)
        below, above = (jnp.where(pushes, near, ANY) for pushes in (stops > 0, stops < 0))
        stops = jnp.where(near * dt > law.bounce_speed, 0, stops)
    put = lambda x, y: jnp.zeros_like(f).at[:a:3].set(x).at[b:].set(y)  # noqa: E731
    limited = Limited(none(counts.joints), -below, above)
    cones = Cones(counts, none(counts.contacts), none(len(counts.twists)), limited)
    return cones, put(c, own), put(pushed, stops)
