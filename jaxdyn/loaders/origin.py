"""Readers of `<origin>` and `<axis>` in URDF and URDF+."""

import numpy as np

from .pose import Pose, from_quaternion, from_rpy
from .xml import Element, attribute, fail, numbers, vector


def origin(element: Element | None) -> Pose:
    """Return the pose in an `<origin xyz rpy>` (or `quat_xyzw`), the identity if there is none."""
    if element is None:
        return Pose()
    p = vector(element, "xyz", (0, 0, 0))
    if element.get("quat_xyzw") is None:
        return Pose(from_rpy(vector(element, "rpy", (0, 0, 0))), p)
    if element.get("rpy") is not None:
        fail(element, "give `rpy` or `quat_xyzw`, not both.")
    x, y, z, w = vector(element, "quat_xyzw", (0, 0, 0, 1), 4)
    if x * x + y * y + z * z + w * w < 1e-12:
        fail(element, "`quat_xyzw` is zero.")
    return Pose(from_quaternion((w, x, y, z)), p)


def direction_of(axis: Element) -> np.ndarray:
    """Return the direction (3,) in an `<axis xyz>`. Raise `ValueError` if it is missing or zero."""
    direction = numbers(axis, attribute(axis, "xyz"), 3, "xyz")
    if not direction.any():
        fail(axis, "the axis is zero.")
    return direction
