"""The correction of the state at the end of a step that projects it.

The step had the normal forces f. At its end, loops are slightly open and gaps differ from their goals. Replacing f by
normal forces F leads to q ⊕ dt² a and v + dt a instead, with

    M a − J_lᵀ ν − Jᵀ F = −Jᵀ f,    0 ≤ F ⊥ s = J a + c ≥ 0.

For positions, c = φ / dt² and J_l a closes the loops. For velocities, c = J v / dt at contacts that pushed only, and
J_l a cancels the rates of the loops. So overlapping shapes are pushed apart; shapes that pushed stay in touch, if
necessary by pushing less; and no contact pulls. The law has no friction: a is the least correction in the metric of M,
and the correction of velocities never adds energy. Limits of joints push like contacts.
"""

import jax.numpy as jnp
from jaxtyping import Array

from .cones import Cones, Counts, Limited
from .goals import ANY
from .joints import Held
from .laws import Closing


def closing(law: Closing, counts: Counts, held: Held, gaps, rates, dt: Array, f: Array, restitution, stiffness):
    """Return the cones of F, and c and f of all rows (m, lanes), from their gaps and rates at the end of a step with
    the forces f of contacts and limits. `restitution` and `stiffness` (contacts, lanes) are those of the surfaces."""
    a, b = counts.ends
    soft, force, stops = jnp.isfinite(stiffness), f[:a:3], f[b:]
    c = gaps[:a:3] / (dt * dt) if law.positions else jnp.where(force > 0, rates[:a:3] / dt, ANY)
    # a soft surface keeps the overlap that its force needs, and bouncing shapes may part
    c, pushed = jnp.where(soft, ANY, c), jnp.where(soft | (restitution > 0), 0, force)
    none = lambda n: jnp.zeros((n, 1), f.dtype)  # noqa: E731
    if law.positions:
        below, above = (room / (dt * dt) for room in held.rooms(gaps[b:]))
        own = none(counts.joints)
    else:
        below, above = (jnp.where(pushes, 0, jnp.full_like(stops, ANY)) for pushes in (stops > 0, stops < 0))
        own = rates[b:] / dt
    put = lambda x, y: jnp.zeros_like(f).at[:a:3].set(x).at[b:].set(y)  # noqa: E731
    limited = Limited(none(counts.joints), -below, above)
    cones = Cones(counts, none(counts.contacts), none(len(counts.twists)), limited)
    return cones, put(c, own), put(pushed, stops)
