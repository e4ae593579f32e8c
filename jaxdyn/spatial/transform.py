"""`Transform`: the pose of one frame in another."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from .rotation import matrix_from_quaternion, quaternion_from_matrix


def as_floats(x) -> Array:
    """Return ``x`` as a floating-point JAX array: floats keep their precision, other numbers get the default."""
    if isinstance(x, jax.Array) and jnp.issubdtype(x.dtype, jnp.floating):
        return x
    if isinstance(x, np.ndarray) and np.issubdtype(x.dtype, np.floating):
        return jnp.asarray(x)
    dtype = jnp.result_type(float)
    if not isinstance(x, jax.Array):  # a conversion in NumPy costs a tenth of one in JAX
        try:
            plain = np.asarray(x)
        except (TypeError, ValueError):  # traced numbers, or no array
            return jnp.asarray(x, dtype=dtype)
        if plain.dtype.kind in "iuf":
            return jnp.asarray(plain.astype(dtype))
    return jnp.asarray(x, dtype=dtype)


class Transform(eqx.Module):
    """Pose of a frame B in a frame A: ``x_A = rotation @ x_B + translation``.

    **Fields:** `rotation` (..., 3, 3), an orthonormal matrix; `translation` (..., 3), in metres.
    """

    rotation: Float[Array, "*batch 3 3"]
    translation: Float[Array, "*batch 3"]

    def __init__(self, rotation: ArrayLike, translation: ArrayLike):
        self.rotation = as_floats(rotation)
        self.translation = as_floats(translation)

    def __check_init__(self):
        r, t = np.shape(self.rotation), np.shape(self.translation)
        if r[-2:] != (3, 3) or t[-1:] != (3,) or r[:-2] != t[:-1]:
            raise ValueError(f"`Transform` takes `rotation` (..., 3, 3) and `translation` (..., 3); got {r} and {t}.")

    @staticmethod
    def identity() -> "Transform":
        """Return the pose of a frame in itself."""
        return Transform(jnp.eye(3), jnp.zeros(3))

    @staticmethod
    def from_quaternion(wxyz: ArrayLike, xyz: ArrayLike = (0.0, 0.0, 0.0)) -> "Transform":
        """Return the pose with a rotation given by a quaternion ``(w, x, y, z)`` of any length, and a translation.

        **Raises** `ValueError` if the quaternion is zero (and not traced), or does not have four components.
        """
        wxyz = as_floats(wxyz)
        if wxyz.shape != (4,):
            raise ValueError(f"`Transform.from_quaternion`: `wxyz` has shape {wxyz.shape}, not (4,).")
        if not isinstance(wxyz, jax.core.Tracer) and not np.linalg.norm(np.asarray(wxyz)) > 0:
            raise ValueError(f"`Transform.from_quaternion`: `wxyz` = {wxyz} has no direction.")
        return Transform(matrix_from_quaternion(wxyz / jnp.linalg.norm(wxyz)), xyz)

    @property
    def quaternion(self) -> Float[Array, "*batch 4"]:
        """Return the rotation as a unit quaternion ``(..., 4)`` in the order w, x, y, z."""
        return jnp.moveaxis(quaternion_from_matrix(jnp.moveaxis(self.rotation, (-2, -1), (0, 1))), 0, -1)

    def inverse(self) -> "Transform":
        """Return the pose of A in B."""
        r = jnp.swapaxes(self.rotation, -1, -2)
        return Transform(r, -jnp.einsum("...ij,...j->...i", r, self.translation))

    def __matmul__(self, other: "Transform") -> "Transform":
        """Return the pose of C in A, where `other` is the pose of C in B."""
        if not isinstance(other, Transform):
            return NotImplemented
        r = jnp.einsum("...ij,...jk->...ik", self.rotation, other.rotation)
        return Transform(r, self.apply(other.translation))

    def apply(self, point: ArrayLike) -> Float[Array, "*batch 3"]:
        """Return the coordinates in A of a point ``(..., 3)`` given in B."""
        return jnp.einsum("...ij,...j->...i", self.rotation, jnp.asarray(point)) + self.translation

    def __getitem__(self, index) -> "Transform":
        """Return one pose of a stack, or several."""
        return Transform(self.rotation[index], self.translation[index])
