"""Contact rows of joints with limits or dry friction: velocities of a joint, as in `Lock`."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..model.constraints import Rows
from ..model.kind import Kind
from ..model.lock import Lock
from ..model.model import Model
from .cones import bounded
from .laws import Law
from .limbs import jointed, rubbing_and_limited
from .slots import without_gains

#: distance to the limit of a joint without one
FAR = 1e3


class JointRows(Lock):
    """The velocities of the joint that moves a body of a model, whose arrays are lanes-last. Residuals are positions:
    differences from the neutral configuration. If a joint that turns about several axes is `limited`, its rows are the
    rates of these, which are not its velocities."""

    turned: bool = eqx.field(static=True)

    def __init__(self, model: Model, body: int, limited: bool):
        self.turned = limited and type(model.topology.kinds[body]).integrate is not Kind.integrate
        self.joint, self.rows = model.topology.joint_names[body], model.topology.kinds[body].nv
        self.name = self.position = None
        self.target = jnp.zeros((self.rows, 1), model.joints.friction.dtype)
        self.stabilization = without_gains(self.target[0])

    def layout(self, topology):
        found = super().layout(topology)
        if not self.turned:
            return found
        return dataclasses.replace(found, signature=(*found.signature, "turned"), velocities=())

    def evaluate(self, layout, attachments, views, robot) -> Rows:
        found, kind, q = super().evaluate(layout, attachments, views, robot), layout.signature[1], robot.joint(0).q
        neutral = jnp.asarray(kind.neutral(), q.dtype).reshape(-1, *[1] * (q.ndim - 1))
        K, away = found.K, lambda d: kind.difference(neutral, kind.integrate(q, d))
        if layout.signature[-1] == "turned":
            none = jnp.zeros_like(found.gamma)
            D = [jax.jvp(away, (none,), (none.at[k].set(1),))[1] for k in range(kind.nv)]
            K = [tuple(sum(d[:, None] * x[k][None] for k, d in enumerate(D)) for x in body) for body in K]
        return Rows(K, jnp.zeros_like(found.gamma), kind.difference(neutral, q))


class Held(NamedTuple):
    """What stops or rubs joints. **Fields** (rows, lanes): `bound`, dry friction in N or N m, zero without; `lower` and
    `upper`, limits, infinite without."""

    bound: Array
    lower: Array
    upper: Array

    def stopped(self, f: Array) -> Array:
        """Return the part of forces f (rows, lanes) that limits bear: what dry friction cannot."""
        beyond = jnp.abs(f) > self.bound * (1 + 8 * jnp.finfo(f.dtype).eps)  # friction at its bound has been scaled
        return jnp.where(beyond, f - bounded(f, self.bound), 0)

    def rooms(self, position: Array) -> tuple[Array, Array]:
        """Return the distances to the lower and the upper limits (rows, lanes)."""
        return _far(position, self.lower, position - self.lower), _far(position, self.upper, self.upper - position)


def _far(position: Array, limit: Array, room: Array) -> Array:
    return jnp.where(jnp.isfinite(limit), room, jnp.full_like(position, FAR))


def joint_rows(model: Model, law: Law) -> tuple[JointRows, ...]:
    """Return the rows of the joints that a law stops or rubs, in a model whose arrays are lanes-last."""
    limited = rubbing_and_limited(model, law)[1]
    return tuple(JointRows(model, b, b in limited) for b in jointed(model, law))


def held_of(model: Model, law: Law) -> Held:
    """Return what stops or rubs these joints; arrays of the model may have lanes or not."""
    bodies, (rubbing, limited), joints = jointed(model, law), rubbing_and_limited(model, law), model.joints

    def of(values: Array, own: tuple[int, ...], without: float) -> Array:
        parts = [(b in own, values[model.topology.v_slice(b)]) for b in bodies]
        return jnp.concatenate([values[:0], *(x if has else jnp.full_like(x, without) for has, x in parts)])

    friction, far = of(joints.friction, rubbing, 0.0), jnp.inf
    return Held(friction, of(joints.lower, limited, -far), of(joints.upper, limited, far))


def apart(model: Model, law: Law, f: Array) -> tuple[Array, Array]:
    """Return the dry friction of joints that rub and the forces of limits of joints that have them, away from the
    limits, from the forces f (rows, ...) of joints."""
    stopped = held_of(model, law).stopped(f)
    every = [b for b in jointed(model, law) for _ in range(model.topology.kinds[b].nv)]
    rubbing, limited = (
        np.asarray([k for k, b in enumerate(every) if b in bodies], int) for bodies in rubbing_and_limited(model, law)
    )
    return (f - stopped)[rubbing], jnp.abs(stopped[limited])
