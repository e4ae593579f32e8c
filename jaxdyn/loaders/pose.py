"""Poses in NumPy and double precision, for the loaders."""

from typing import NamedTuple

import numpy as np

from ..spatial.transform import Transform


class Pose(NamedTuple):
    """A rotation (3, 3) and a translation (3,): the placement of one frame in another."""

    R: np.ndarray = np.eye(3)
    p: np.ndarray = np.zeros(3)

    def __matmul__(self, other: "Pose") -> "Pose":
        return Pose(self.R @ other.R, self.p + self.R @ other.p)

    def inverse(self) -> "Pose":
        return Pose(self.R.T, -self.R.T @ self.p)

    def transform(self) -> Transform:
        return Transform(self.R, self.p)

    def is_identity(self) -> bool:
        return bool(np.abs(self.R - np.eye(3)).max() < 1e-12 and np.abs(self.p).max() < 1e-12)


class Mass(NamedTuple):
    """Mass properties in NumPy: mass, centre of mass (3,) and rotational inertia (3, 3) about it."""

    mass: float = 0.0
    center: np.ndarray = np.zeros(3)
    rotational: np.ndarray = np.zeros((3, 3))

    def seen_from(self, pose: Pose) -> "Mass":
        """Return the mass properties in a frame A, where `pose` is the pose of the body's frame in A."""
        with np.errstate(invalid="ignore"):  # numbers that are not finite are refused where bodies are added
            rotational = pose.R @ self.rotational @ pose.R.T
            center = pose.p + pose.R @ self.center
        return Mass(self.mass, center, (rotational + rotational.T) / 2)


def from_rpy(rpy) -> np.ndarray:
    """Return the rotation of roll, pitch and yaw: turns about the fixed axes x, y, z in this order."""
    (cr, cp, cy), (sr, sp, sy) = np.cos(rpy), np.sin(rpy)
    return np.array(
        [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    )


def from_quaternion(wxyz) -> np.ndarray:
    """Return the rotation of a quaternion (w, x, y, z) of any nonzero length."""
    w, x, y, z = np.asarray(wxyz, float) / np.linalg.norm(wxyz)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def about(axis, angle: float) -> np.ndarray:
    """Return the rotation by `angle` about a unit axis."""
    x, y, z = axis
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * (k @ k)


def rotation_to(normal) -> np.ndarray:
    """Return a rotation that turns z into the direction of a vector. Raise `ValueError` for a zero vector."""
    length = float(np.linalg.norm(normal))
    if not length > 0:
        raise ValueError("the normal is zero")
    x, y, z = np.asarray(normal, float) / length
    if z < -1 + 1e-12:
        return np.diag([1.0, -1.0, -1.0])
    return np.array(
        [[1 - x * x / (1 + z), -x * y / (1 + z), x], [-x * y / (1 + z), 1 - y * y / (1 + z), y], [-x, -y, z]]
    )


def moments(ixx, iyy, izz, ixy=0.0, ixz=0.0, iyz=0.0) -> np.ndarray:
    """Return the rotational inertia (3, 3) from its six numbers."""
    return np.array([[ixx, ixy, ixz], [ixy, iyy, iyz], [ixz, iyz, izz]])
