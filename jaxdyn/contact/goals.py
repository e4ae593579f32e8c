"""The goals of contact rows: the velocities that they must reach within a step.

Over a step dt the rows move at J v⁺ = J (v + dt a). A normal row must open at a speed of at least its goal:

- gap φ > 0: −φ / dt, so that bodies approach until they touch (speculative contact);
- φ < 0: −ρ φ / dt, at most a set speed, so that a step removes the share ρ of the overlap;
- restitution e > 0, if the bodies would touch within the step, faster than a threshold: −e J v;
- with stiffness k and damping d, f = −k (φ + dt J v⁺) − d J v⁺: the goal −φ k / (k dt + d) and the compliance
  R = 1 / (dt (k dt + d)). This is implicit: none is too stiff for dt.

A joint may move towards a limit at the distance φ as a normal row may. In accelerations: s = J a + c + R f with
c = (J v − goal) / dt.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .cones import Counts, Limited
from .joints import Held
from .laws import Impact, Law
from .places import Surface

#: m/s, the speed at which separate shapes may approach in an impact, i.e. no limit
ANY = 1e6


def goals(law: Law, surface: Surface, counts: Counts, gaps: Array, rates: Array, dt: Array):
    """Return c and R of all rows (m, lanes). `gaps` (m, lanes) are read at normal rows; `rates` are J v."""
    a, _ = counts.ends
    goal, compliance = _normal(law, surface, gaps[:a:3], rates[:a:3], dt)
    apart = lambda x: jnp.stack([x, jnp.zeros_like(x), jnp.zeros_like(x)], 1).reshape(a, x.shape[-1])  # noqa: E731
    # the goal of twists and of joints with dry friction is rest
    none = jnp.zeros((len(gaps) - a, goal.shape[-1]), gaps.dtype)
    c = (rates - jnp.concatenate([apart(goal), none])) / dt
    return c, jnp.concatenate([apart(compliance), none])


def limited(law: Law, held: Held, position: Array, dt: Array) -> Limited:
    """Return the law of rows of joints at positions (joints, lanes)."""
    below, above = held.rooms(position)
    return Limited(held.bound, _rigid(law, below, dt) / dt, -_rigid(law, above, dt) / dt)


def _rigid(law: Law, gap: Array, dt: Array) -> Array:
    if isinstance(law, Impact):
        return jnp.where(gap <= law.near, 0, -ANY)
    return jnp.where(gap > 0, -gap / dt, jnp.minimum(-law.recovery * gap / dt, law.recovery_speed))


def _normal(law: Law, surface: Surface, gap: Array, speed: Array, dt: Array) -> tuple[Array, Array]:
    """Return the goals and compliances of normal rows."""
    restitution, stiffness, damping = surface.restitution, surface.stiffness, surface.damping
    soft = jnp.isfinite(stiffness)
    k, d = jnp.where(soft, stiffness, 1), jnp.where(soft & jnp.isfinite(damping), damping, 0)
    rigid = _rigid(law, gap, dt)
    if isinstance(law, Impact):
        bounced = jnp.where(gap <= law.near, jnp.maximum(-restitution * speed, 0), rigid)
        return bounced, jnp.zeros_like(bounced)
    # without restitution bodies go on until they touch
    hits = (restitution > 0) & (gap + dt * speed < 0) & (speed < -law.bounce_speed)
    rigid = jnp.where(hits, jnp.maximum(rigid, -restitution * speed), rigid)
    # a stiffness of zero without damping bears nothing
    yields = jnp.maximum(k * dt + d, float(np.sqrt(jnp.finfo(gap.dtype).tiny)))
    goal = jnp.where(soft, -gap * k / yields, rigid)
    return goal, jnp.broadcast_to(jnp.where(soft, 1 / (dt * yields), 0), goal.shape)
