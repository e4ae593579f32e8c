"""Rows of joints that hit their limits or rub: velocities of a joint, as `Lock` has them."""

import jax.numpy as jnp
from jaxtyping import Array

from ..model.constraints import Rows
from ..model.lock import Lock
from ..model.model import Model
from .pairs import without_gains

#: how far a joint without a limit is from it
FAR = 1e3


class Rub(Lock):
    """The velocities of a joint with dry friction; `bound` (rows,), in N or N m, is as large as it gets."""

    bound: Array

    def __init__(self, model: Model, body: int):
        topology, joints = model.topology, model.joints
        at = topology.v_slice(body)
        self.joint, self.rows, self.name = topology.joint_names[body], topology.kinds[body].nv, None
        self.position, self.bound = None, joints.friction[at]
        self.target = jnp.zeros((self.rows, 1), joints.friction.dtype)
        self.stabilization = without_gains(self.target[0])


class Stop(Lock):
    """The velocities of a joint away from the limits that are nearest; residuals are how far it is from them."""

    lower: Array
    upper: Array

    def __init__(self, model: Model, body: int):
        topology, joints = model.topology, model.joints
        at = topology.v_slice(body)
        self.joint, self.rows, self.name = topology.joint_names[body], topology.kinds[body].nv, None
        self.position, self.lower, self.upper = None, joints.lower[at], joints.upper[at]
        self.target = jnp.zeros((self.rows, 1), joints.lower.dtype)
        self.stabilization = without_gains(self.target[0])

    def evaluate(self, layout, attachments, views, robot) -> Rows:
        found, kind, q = super().evaluate(layout, attachments, views, robot), layout.signature[1], robot.joint(0).q
        neutral = jnp.asarray(kind.neutral(), q.dtype).reshape(-1, *[1] * (q.ndim - 1))
        way = kind.difference(neutral, q)
        below, above = _far(way, self.lower, way - self.lower), _far(way, self.upper, self.upper - way)
        sign = jnp.where(below <= above, jnp.ones_like(way), -jnp.ones_like(way))
        K = [tuple(sign[:, None] * x for x in pair) for pair in found.K]
        return Rows(K, jnp.zeros_like(way), jnp.minimum(below, above))


def _far(way: Array, limit: Array, room: Array) -> Array:
    return jnp.where(jnp.isfinite(limit), room, jnp.full_like(way, FAR))


def joints_of(model: Model, limits: bool, friction: bool) -> tuple[tuple[Rub, ...], tuple[Stop, ...]]:
    """The rows of joints that rub, and of those with limits."""
    scene = model.collision.scene
    rubbing = tuple(Rub(model, b) for b in scene.rubbing) if friction else ()
    return rubbing, tuple(Stop(model, b) for b in scene.limited) if limits else ()
