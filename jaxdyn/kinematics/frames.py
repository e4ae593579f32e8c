"""Poses, velocities, accelerations and Jacobians of bodies and frames."""

from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ..engine.lanes import laned
from ..model.checks import check_frame, check_model, check_state, check_vector, common_dtype
from ..model.model import Model
from ..model.pairs import FrameConstraint
from ..model.state import State
from ..spatial.instances import check_instance
from ..spatial.transform import Transform, pose
from ..tree.topology import WORLD
from .embedding import kinematics
from .forward import tree_kinematics


def _poses(model: Model, q):
    """Return the rotations (nb, 3, 3, lanes) and translations (nb, 3, lanes) of all bodies in the world."""
    return tree_kinematics(model, q).world


def _motions(body: int, model: Model, q, v, a):
    """Return twist and spatial acceleration of one body, (6, lanes) each, linear part first."""
    motion = kinematics(model, q, v, a)
    (w, l), (aw, al) = ([x[body] for x in pair] for pair in (motion.velocity, motion.acceleration))
    return jnp.concatenate([l, w]), jnp.concatenate([al, aw])


def forward_kinematics(model: Model, q: ArrayLike) -> Transform:
    """Return the poses of all bodies in the world at q (nq,), stacked: rotation (nb, 3, 3), translation (nb, 3)."""
    check_model("forward_kinematics", model)
    q = check_vector("forward_kinematics", "q", q, (model.nq,))
    return pose(*laned(_poses)(*common_dtype(model, q)))


def _placement(model: Model, index: int | None) -> Transform:
    if index is None:
        dtype = model.gravity.dtype
        return pose(jnp.eye(3, dtype=dtype), jnp.zeros(3, dtype))
    return model.frames[index]


def frame_pose(model: Model, q: ArrayLike, frame: str) -> Transform:
    """Return the pose in the world, at q (nq,), of the body or frame of that name. Raises `ValueError` for an unknown
    name."""
    check_model("frame_pose", model)
    q = check_vector("frame_pose", "q", q, (model.nq,))
    body, index = check_frame("frame_pose", model, frame)
    model, q = common_dtype(model, q)
    placement = _placement(model, index)
    return placement if body == WORLD else forward_kinematics(model, q)[body] @ placement


def _to_frame(placement: Transform, motion):
    """Return a body's twist (6,) in the axes and at the origin of a frame that is fixed in the body."""
    linear, angular = motion[:3], motion[3:]
    r = placement.rotation.T
    return jnp.concatenate([r @ (linear + jnp.cross(angular, placement.translation)), r @ angular])


def frame_velocity(model: Model, state: State, frame: str) -> Float[Array, "6"]:
    """Return the twist (6,) of a body or frame in its own axes at its origin: linear (m/s), angular (rad/s)."""
    return _frame_motion("frame_velocity", model, state, None, frame)[0]


def frame_acceleration(model: Model, state: State, acceleration: ArrayLike, frame: str) -> Float[Array, "6"]:
    """Return the classical acceleration (6,) of a body or frame in its own axes for a joint acceleration (nv,): that of
    its origin (m/s²), then the angular one (rad/s²)."""
    call = "frame_acceleration"
    check_model(call, model)
    acceleration = check_vector(call, "acceleration", acceleration, (model.nv,))
    v, a = _frame_motion(call, model, state, acceleration, frame)
    return a.at[:3].add(jnp.cross(v[3:], v[:3]))


def _frame_motion(call, model, state, acceleration, frame):
    check_model(call, model)
    state = check_state(call, model, state)
    body, index = check_frame(call, model, frame)
    if acceleration is None:
        acceleration = jnp.zeros_like(state.v)
    model, q, v, a = common_dtype(model, state.q, state.v, acceleration)
    if body == WORLD:
        return jnp.zeros(6, q.dtype), jnp.zeros(6, q.dtype)
    placement = _placement(model, index)
    return tuple(_to_frame(placement, x) for x in laned(_motions, body)(model, q, v, a))


def jacobian(
    model: Model, q: ArrayLike, frame: str, *, reference: Literal["local", "world_aligned"] = "local"
) -> Float[Array, "6 nv"]:
    """Return the Jacobian (6, nv) of a body or frame at q (nq,): its twist is ``jacobian @ v``, linear rows first.

    `reference`: "local" for the frame's own axes, "world_aligned" for the world's axes at the frame's origin.
    """
    check_model("jacobian", model)
    q = check_vector("jacobian", "q", q, (model.nq,))
    check_instance("`jacobian`", "reference", reference, str, " Use 'local' or 'world_aligned'.")
    if reference not in ("local", "world_aligned"):
        raise ValueError(f"`jacobian`: `reference` is {reference!r}; choose 'local' or 'world_aligned'.")
    check_frame("jacobian", model, frame)
    columns = jax.vmap(lambda e: frame_velocity(model, State(q, e), frame), out_axes=1)
    out = columns(jnp.eye(model.nv, dtype=q.dtype))
    if reference == "local":
        return out
    r = frame_pose(model, q, frame).rotation
    return jnp.concatenate([r @ out[:3], r @ out[3:]])


def anchored(model: Model, q: ArrayLike, constraint: FrameConstraint) -> FrameConstraint:
    """Return the constraint with `placement_b` changed so that it holds exactly at q (nq,).

    ``jd.anchored(model, q, jd.constraints.Point("foot"))`` holds the foot's origin at its current position in the
    world.
    """
    check_model("anchored", model)
    check_instance(
        "`anchored`", "constraint", constraint, FrameConstraint, " Use one such as `jd.constraints.Point(...)`."
    )
    a = frame_pose(model, q, constraint.body_a) @ constraint.placement_a
    b = frame_pose(model, q, constraint.body_b)
    return eqx.tree_at(lambda c: c.placement_b, constraint, b.inverse() @ a)
