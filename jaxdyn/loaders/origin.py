"""Reads the `<origin>` of URDF and URDF+."""

from .pose import Pose, from_quaternion, from_rpy
from .xml import Element, fail, vector


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
