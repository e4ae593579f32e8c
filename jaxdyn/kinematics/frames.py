"""Poses, velocities, accelerations and Jacobians of bodies and frames."""

from typing import Literal, get_args

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..engine.lanes import laned
from ..model.checks import at_q, check_frame, check_model, check_state, check_vector, common_dtype
from ..model.model import Model
from ..model.pairs import Distance, FrameConstraint, PointOnPlane
from ..model.state import State
from ..spatial.instances import check_instance
from ..spatial.numbers import ArrayLike
from ..spatial.small import composed, cross, mv, transpose
from ..spatial.transform import Transform, pose
from ..tree.columns import from_parent, rows_to_parent
from ..tree.topology import WORLD
from .embedding import kinematics, wrench_jacobian
from .forward import tree_kinematics

#: axes of a frame's motion
Reference = Literal["local", "world_aligned"]


def _poses(model: Model, q):
    """Return the rotations (nb, 3, 3, lanes) and translations (nb, 3, lanes) of all bodies in the world."""
    return tree_kinematics(model, q).world


def _placement(model: Model, frame: int | None):
    """Return the rotation and translation of a frame in its body, None for the body's own frame."""
    return None if frame is None else (model.frames.rotation[frame], model.frames.translation[frame])


def _pose(body: int, frame: int | None, model: Model, q):
    at, placement = tuple(x[body] for x in _poses(model, q)), _placement(model, frame)
    return at if placement is None else composed(at, placement)


def _in_frame(placement, motions, body: int):
    """Return the motion (angular, linear) of a frame that is fixed in a body, in its axes at its origin."""
    motion = tuple(x[body] for x in motions)
    return motion if placement is None else from_parent(placement, motion)


def _turned(motion, local: bool, body: int, placement, parts):
    """Return vectors in the axes of a frame, joined: in these axes, or in the world's."""
    if not local:
        rotation = motion.world[0][body]
        parts = [mv(rotation, x if placement is None else mv(placement[0], x)) for x in parts]
    return jnp.concatenate(parts)


def _velocity(body: int, frame: int | None, local: bool, model: Model, q, v):
    """Return the twist (6, lanes) of a frame, linear part first."""
    motion, placement = kinematics(model, q, v), _placement(model, frame)
    w, l = _in_frame(placement, motion.velocity, body)
    return _turned(motion, local, body, placement, [l, w])


def _acceleration(body: int, frame: int | None, local: bool, model: Model, q, v, a):
    """Return the classical acceleration (6, lanes) of a frame, linear part first."""
    motion, placement = kinematics(model, q, v, a), _placement(model, frame)
    w, l = _in_frame(placement, motion.velocity, body)
    aw, al = _in_frame(placement, motion.acceleration, body)
    return _turned(motion, local, body, placement, [al + cross(w, l), aw])


def _jacobian(body: int, frame: int | None, local: bool, model: Model, q):
    """Return the Jacobian (6, nv, lanes) of a frame: its rows are unit wrenches, carried up the tree."""
    motion, placement = kinematics(model, q), _placement(model, frame)
    unit = jnp.eye(6, dtype=q.dtype)[..., None]
    wrenches = unit[:, 3:], unit[:, :3]
    if not local:  # turn the frame at its origin to the world's axes
        origin = jnp.zeros((3, 1), q.dtype) if placement is None else placement[1]
        placement = transpose(motion.world[0][body]), origin
    return wrench_jacobian(motion, body, wrenches if placement is None else rows_to_parent(placement, wrenches))


def forward_kinematics(model: Model, q: ArrayLike) -> Transform:
    """Return the poses of all bodies in the world at q (nq,), stacked: rotation (nb, 3, 3), translation (nb, 3).

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    return pose(*laned(_poses)(*at_q("forward_kinematics", model, q)))


def frame_pose(model: Model, q: ArrayLike, frame: str) -> Transform:
    """Return the pose in the world, at q (nq,), of the body or frame of that name. Raises `ValueError` for an unknown
    name."""
    return _pose_of("frame_pose", model, q, frame)


def _pose_of(call: str, model: Model, q: ArrayLike, frame: str) -> Transform:
    check_model(call, model)
    q = check_vector(call, "q", q, (model.nq,))
    body, index = check_frame(call, model, frame)
    model, q = common_dtype(model, q)
    if body == WORLD:
        origin = pose(jnp.eye(3, dtype=q.dtype), jnp.zeros(3, q.dtype))
        return origin if index is None else model.frames[index]
    return pose(*laned(_pose, body, index)(model, q))


def frame_velocity(model: Model, state: State, frame: str, *, reference: Reference = "local") -> Float[Array, "6"]:
    """Return the twist (6,) of a body or frame at its origin: linear (m/s), angular (rad/s). `reference` as in
    `jacobian`.

    Raises `ValueError` for wrong shapes, unknown frames and references, `TypeError` for other types.
    """
    return _motion_of("frame_velocity", _velocity, reference, model, state, frame)


def frame_acceleration(
    model: Model, state: State, acceleration: ArrayLike, frame: str, *, reference: Reference = "local"
) -> Float[Array, "6"]:
    """Return the classical acceleration (6,) of a body or frame for a joint acceleration (nv,): that of its origin
    (m/s²), then the angular one (rad/s²). `reference` as in `jacobian`.

    Raises `ValueError` for wrong shapes, unknown frames and references, `TypeError` for other types.
    """
    call = "frame_acceleration"
    check_model(call, model)
    acceleration = check_vector(call, "acceleration", acceleration, (model.nv,))
    return _motion_of(call, _acceleration, reference, model, state, frame, acceleration)


def _motion_of(call: str, fn, reference: str, model: Model, state: State, frame: str, *acceleration) -> Array:
    check_model(call, model)
    state = check_state(call, model, state)
    local = _is_local(call, reference)
    body, index = check_frame(call, model, frame)
    model, *motion = common_dtype(model, state.q, state.v, given=acceleration)
    return jnp.zeros(6, motion[0].dtype) if body == WORLD else laned(fn, body, index, local)(model, *motion)


def _is_local(call: str, reference: str) -> bool:
    check_instance(f"`{call}`", "reference", reference, str, " Use 'local' or 'world_aligned'.")
    if reference not in get_args(Reference):
        raise ValueError(f"`{call}`: `reference` is {reference!r:.60}; choose 'local' or 'world_aligned'.")
    return reference == "local"


def jacobian(model: Model, q: ArrayLike, frame: str, *, reference: Reference = "local") -> Float[Array, "6 nv"]:
    """Return the Jacobian (6, nv) of a body or frame at q (nq,): its twist is ``jacobian @ v``, linear rows first.

    `reference`: "local" for the frame's own axes, "world_aligned" for the world's axes at the frame's origin.

    Raises `ValueError` for wrong shapes, unknown frames and references, `TypeError` for other types.
    """
    check_model("jacobian", model)
    q = check_vector("jacobian", "q", q, (model.nq,))
    local = _is_local("jacobian", reference)
    body, index = check_frame("jacobian", model, frame)
    model, q = common_dtype(model, q)
    if body == WORLD:
        return jnp.zeros((6, model.nv), q.dtype)
    return laned(_jacobian, body, index, local)(model, q)


def anchored(model: Model, q: ArrayLike, constraint: FrameConstraint) -> FrameConstraint:
    """Return the constraint with `placement_b` changed so that it holds exactly at q (nq,). Of a `PointOnPlane` only
    the translation changes, so that the plane keeps the direction of its `normal`; of a `Distance`, the `length`
    changes instead.

    ``jd.anchored(model, q, jd.constraints.Point("foot"))`` holds the foot's origin at its current position in the
    world. ``jd.anchored(model, q, jd.constraints.PointOnPlane("foot"))`` holds it at its current height.

    Raises `ValueError` for wrong shapes and unknown bodies, `TypeError` for other types.
    """
    check_model("anchored", model)
    check_instance(
        "`anchored`", "constraint", constraint, FrameConstraint, " Use one such as `jd.constraints.Point(...)`."
    )
    a = _pose_of("anchored", model, q, constraint.body_a) @ constraint.placement_a
    b = _pose_of("anchored", model, q, constraint.body_b)
    if isinstance(constraint, Distance):
        gap = a.translation - (b @ constraint.placement_b).translation
        return eqx.tree_at(lambda c: c.length, constraint, jnp.sqrt(jnp.sum(gap * gap)))
    seen = b.inverse() @ a
    if isinstance(constraint, PointOnPlane):
        return eqx.tree_at(lambda c: c.placement_b.translation, constraint, seen.translation)
    return eqx.tree_at(lambda c: c.placement_b, constraint, seen)
