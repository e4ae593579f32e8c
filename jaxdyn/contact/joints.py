"""Contact rows of joints with limits or dry friction: velocities of a joint, as in `Lock`."""

import jax.numpy as jnp
from jaxtyping import Array

from ..model.constraints import Rows
from ..model.lock import Lock
from ..model.model import Model
from .slots import without_gains

#: distance to the limit of a joint without one
FAR = 1e3


class _Rows(Lock):
    """The velocities of the joint that moves a body of a model, whose arrays are lanes-last."""

    def __init__(self, model: Model, body: int):
        self.joint, self.rows = model.topology.joint_names[body], model.topology.kinds[body].nv
        self.name = self.position = None
        self.target = jnp.zeros((self.rows, 1), model.joints.friction.dtype)
        self.stabilization = without_gains(self.target[0])


class Rub(_Rows):
    """The velocities of a joint with dry friction; `bound` (rows, lanes), in N or N m, is the largest friction."""

    bound: Array

    def __init__(self, model: Model, body: int):
        super().__init__(model, body)
        self.bound = model.joints.friction[model.topology.v_slice(body)]


class Stop(_Rows):
    """The velocities of a joint away from its nearest limits; residuals are the distances to them."""

    lower: Array
    upper: Array

    def __init__(self, model: Model, body: int):
        super().__init__(model, body)
        at = model.topology.v_slice(body)
        self.lower, self.upper = model.joints.lower[at], model.joints.upper[at]

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
    """Return the rows of joints with dry friction, and of those with limits."""
    scene = model.collision.scene
    rubbing = tuple(Rub(model, b) for b in scene.rubbing) if friction else ()
    return rubbing, tuple(Stop(model, b) for b in scene.limited) if limits else ()
