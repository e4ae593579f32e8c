"""What the end of a step is corrected to, where it is projected.

The step had the normal forces f. At its end loops are open by a little, and gaps are not what they were to be. Normal
forces F in their place lead to q ⊕ dt² a and v + dt a instead, with

    M a − J_lᵀ ν − Jᵀ F = −Jᵀ f,    0 ≤ F ⊥ s = J a + c ≥ 0,

where for positions c = φ / dt² and J_l a closes the loops, and for velocities c = J v / dt, of contacts that pushed
alone, and J_l a takes their rates away. So what overlaps is pushed out; what pushed stays where it touches, by pushing
less if need be; and nothing pulls. It is a law without friction: a is the least motion in the metric of M that does so,
and the one of velocities takes energy and never gives it. Limits of joints push as contacts do.
"""

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import joined
from .cones import Cones, Counts
from .goals import ANY
from .laws import Closing


def closing(law: Closing, counts: Counts, gaps: Array, rates: Array, dt: Array, f: Array, restitution, stiffness):
    """F's cones, c and f of all rows (m, lanes), which have the gaps and rates at the end of a step that had the
    forces f; `restitution` and `stiffness` (contacts, lanes) are those of the surfaces."""
    a, _, b = counts.ends
    n = counts.contacts
    none = jnp.zeros((len(f) - b, 1), f.dtype)
    normals = lambda x: jnp.concatenate([x[:a:3], x[b:]])  # noqa: E731
    put = lambda x: jnp.zeros_like(f).at[:a:3].set(x[:n]).at[b:].set(x[n:])  # noqa: E731
    bounces, soft = joined([restitution, none]) > 0, joined([jnp.isfinite(stiffness).astype(f.dtype), none]) > 0
    force = normals(f)
    c = normals(gaps) / (dt * dt) if law.positions else jnp.where(force > 0, normals(rates) / dt, ANY)
    # a soft surface keeps the overlap that its force needs, and what bounces may part
    c, held = jnp.where(soft, ANY, c), jnp.where(soft | bounces, 0, force)
    zero = jnp.zeros((1, 1), f.dtype)
    sizes = n, len(counts.twists), counts.bounded
    return Cones(counts, *(jnp.broadcast_to(zero, (k, 1)) for k in sizes)), put(c), put(held)
