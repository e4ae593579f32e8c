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

from ..engine.core import joined
from .cones import Cones, Counts
from .goals import ANY
from .laws import Closing


def closing(law: Closing, counts: Counts, gaps: Array, rates: Array, dt: Array, f: Array, restitution, stiffness):
    """Return the cones of F, and c and f of all rows (m, lanes), from their gaps and rates at the end of a step with
    the forces f. `restitution` and `stiffness` (contacts, lanes) are those of the surfaces."""
    a, _, b = counts.ends
    n = counts.contacts
    none = jnp.zeros((len(f) - b, 1), f.dtype)
    normals = lambda x: jnp.concatenate([x[:a:3], x[b:]])  # noqa: E731
    put = lambda x: jnp.zeros_like(f).at[:a:3].set(x[:n]).at[b:].set(x[n:])  # noqa: E731
    bounces, soft = joined([restitution, none]) > 0, joined([jnp.isfinite(stiffness).astype(f.dtype), none]) > 0
    force = normals(f)
    c = normals(gaps) / (dt * dt) if law.positions else jnp.where(force > 0, normals(rates) / dt, ANY)
    # a soft surface keeps the overlap that its force needs, and bouncing shapes may part
    c, held = jnp.where(soft, ANY, c), jnp.where(soft | bounces, 0, force)
    zero = jnp.zeros((1, 1), f.dtype)
    sizes = n, len(counts.twists), counts.bounded
    return Cones(counts, *(jnp.broadcast_to(zero, (k, 1)) for k in sizes)), put(c), put(held)
