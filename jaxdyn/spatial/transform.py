"""`Transform`: the pose of one frame in another."""

from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from .instances import check_instance
from .numbers import ArrayLike, check, direction, finite, floats, is_rotation
from .rotation import matrix_from_quaternion, quaternion_from_matrix

#: advice where something else is in the place of a placement
PLACEMENT = " Give a translation (3,), `jd.Transform(np.eye(3), xyz)`, or `jd.Transform.from_rpy(rpy, xyz)`."


class Transform(eqx.Module):
    """Pose of a frame B in a frame A: ``x_A = rotation @ x_B + translation``.

    **Fields:** `rotation` (..., 3, 3), an orthonormal matrix; `translation` (..., 3), in metres.

    **Raises** `ValueError` for wrong shapes, and for matrices that are not rotations and numbers that are not finite
    (unless they are traced).
    """

    rotation: Float[Array, "*batch 3 3"]
    translation: Float[Array, "*batch 3"]

    def __init__(self, rotation: ArrayLike, translation: ArrayLike):
        self.rotation = floats("`Transform`", "rotation", rotation)
        self.translation = floats("`Transform`", "translation", translation)
        r, t = self.rotation.shape, self.translation.shape
        if r[-2:] != (3, 3) or t[-1:] != (3,) or r[:-2] != t[:-1]:
            raise ValueError(f"`Transform` takes `rotation` (..., 3, 3) and `translation` (..., 3); got {r} and {t}.")
        self.check("`Transform`")

    def check(self, call: str, name: str = "") -> None:
        """Raise `ValueError`, naming the `call`, unless there is a rotation and all numbers are finite."""
        check(call, f"{name}rotation", self.rotation, is_rotation)
        check(call, f"{name}translation", self.translation, finite)

    @staticmethod
    def identity() -> "Transform":
        """Return the pose of a frame in itself."""
        return Transform(jnp.eye(3), jnp.zeros(3))

    @staticmethod
    def from_quaternion(wxyz: ArrayLike, xyz: ArrayLike = (0.0, 0.0, 0.0)) -> "Transform":
        """Return the pose with a rotation given by a quaternion ``(w, x, y, z)`` of any length, and a translation.

        **Raises** `ValueError` if the quaternion is zero or not finite (and not traced), or does not have four
        components.
        """
        call = "`Transform.from_quaternion`"
        wxyz = direction(call, "wxyz", wxyz, 4)
        return Transform(matrix_from_quaternion(wxyz), floats(call, "xyz", xyz, (3,), finite))

    @staticmethod
    def from_rpy(rpy: ArrayLike, xyz: ArrayLike = (0.0, 0.0, 0.0)) -> "Transform":
        """Return the pose that URDF writes as ``<origin rpy xyz>``: a translation (3,), m, and turns by the angles
        (3,), rad, about the fixed axes x, then y, then z of frame A.

        **Raises** `ValueError` for wrong shapes, and for numbers that are not finite (and not traced).
        """
        call = "`Transform.from_rpy`"
        angles = floats(call, "rpy", rpy, (3,), finite)
        (cr, cp, cy), (sr, sp, sy) = jnp.cos(angles), jnp.sin(angles)
        rotation = [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
        return pose(jnp.stack([jnp.stack(row) for row in rotation]), floats(call, "xyz", xyz, (3,), finite))

    @property
    def quaternion(self) -> Float[Array, "*batch 4"]:
        """Return the rotation as a unit quaternion ``(..., 4)`` in the order w, x, y, z."""
        return jnp.moveaxis(quaternion_from_matrix(jnp.moveaxis(self.rotation, (-2, -1), (0, 1))), 0, -1)

    def inverse(self) -> "Transform":
        """Return the pose of A in B."""
        r = jnp.swapaxes(self.rotation, -1, -2)
        return pose(r, -jnp.einsum("...ij,...j->...i", r, self.translation))

    def __matmul__(self, other: "Transform") -> "Transform":
        """Return the pose of C in A, where `other` is the pose of C in B."""
        check_instance("`Transform @ other`", "other", other, Transform, " Use `.apply` for points.")
        self._check_stack("`Transform @ other`", "other", other.translation.shape)
        r = jnp.einsum("...ij,...jk->...ik", self.rotation, other.rotation)
        return pose(r, self._moved(other.translation))

    def apply(self, point: ArrayLike) -> Float[Array, "*batch 3"]:
        """Return the coordinates in A of a point ``(..., 3)`` given in B. **Raises** `TypeError` and `ValueError` for
        anything else."""
        call = "`Transform.apply`"
        point = floats(call, "point", point)
        self._check_stack(call, "point", point.shape)
        return self._moved(point)

    def _moved(self, point: Array) -> Array:
        turned = jnp.einsum("...ij,...j->...i", self.rotation, point)
        return turned + jnp.broadcast_to(self.translation, turned.shape)

    def _check_stack(self, call: str, name: str, shape: tuple[int, ...]) -> None:
        """Raise `ValueError` unless points of this shape fit the pose, or the stack of poses."""
        try:
            if shape[-1:] == (3,):
                jnp.broadcast_shapes(shape, self.translation.shape)
                return
        except ValueError:
            pass
        own = self.translation.shape[:-1]
        hint = f", nor does it fit a stack {own}" if own else ""
        raise ValueError(f"{call}: `{name}` has points of shape {shape}, not (..., 3){hint}.")

    def __getitem__(self, index) -> "Transform":
        """Return one pose of a stack, or several."""
        return pose(self.rotation[index], self.translation[index])

    def __iter__(self) -> Iterator["Transform"]:
        """Return the poses of a stack, one after the other: arrays of JAX end at no index. **Raises** `TypeError` for a
        single pose."""
        if self.translation.ndim < 2:
            raise TypeError("This `Transform` is a single pose, not a stack: take its `rotation` and `translation`.")
        return (self[k] for k in range(len(self.translation)))


def placed(call: str, name: str, value: Any) -> Transform:
    """Return a placement that a user gives: a `Transform`, a vector (3,), which is a translation in metres, or None for
    the identity. **Raises** `TypeError` for anything else."""
    if value is None:
        return Transform.identity()
    if getattr(value, "shape", None) == (3,) or (isinstance(value, list | tuple) and len(value) == 3):
        xyz = floats(call, name, value, (3,), finite)
        return pose(jnp.eye(3, dtype=xyz.dtype), xyz)
    check_instance(call, name, value, Transform, PLACEMENT)
    return value


def pose(rotation: Array, translation: Array) -> Transform:
    """Return the `Transform` of computed arrays, without checks: wrong values are no mistake of the caller's."""
    made = object.__new__(Transform)
    object.__setattr__(made, "rotation", rotation)
    object.__setattr__(made, "translation", translation)
    return made
