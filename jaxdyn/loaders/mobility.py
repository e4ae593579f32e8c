"""`hinge_nearly_locks` decides if the axis of a hinge that closes a loop nearly locks the loop.

Cassie's achilles rods have a ball joint at one end and a revolute joint at the other, in a loop that is almost planar.
The hinge adds two rows of orientation. One stops the spin of the rod; the other nearly follows from the remaining rows.
If the axis is slightly tilted, this second row, imposed exactly, removes a degree of freedom of the mechanism, which
simulators with soft joints hardly notice. The loader closes such a rod with a `Point` instead.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from .sdf_parts import Part

#: an axis is slightly tilted, neither planar nor truly spatial, if a singular value lies between these shares of the
#: largest one
PLANE, SPATIAL = 1e-9, 5e-2


def columns(part: Part, at: np.ndarray) -> np.ndarray:
    """Return the unit velocities (linear, angular) that a joint gives to the point `at` of the world, one (6,) per
    degree of freedom."""
    if part.kind == "fixed":
        return np.zeros((0, 6))
    turns = np.eye(3) if part.kind == "ball" else np.array([part.pose.R @ a.direction / a.length for a in part.axes])
    out = []
    for axis in turns:
        swing = np.cross(axis, at - part.pose.p)
        if part.kind == "prismatic":
            out.append(np.r_[axis, 0, 0, 0])
        elif part.kind == "screw":
            out.append(np.r_[swing + part.pitch * axis, axis])
        else:
            out.append(np.r_[swing, axis])
    return np.array(out)


def hinge_nearly_locks(cut: Part, loop: Sequence[Part], touching: Mapping[str, Sequence[Part]]) -> bool:
    """Return True if `cut` ends a rod and its axis nearly locks the loop that it closes over the joints `loop`.

    `touching` lists the joints of every link.
    """
    ends = [[p for p in touching[link] if p is not cut] for link in (cut.parent, cut.child)]
    size = max([float(np.linalg.norm(p.pose.p - cut.pose.p)) for p in loop], default=0.0)
    if size == 0 or not any(len(others) == 1 and others[0].kind == "ball" for others in ends):
        return False
    motions = np.concatenate([columns(p, cut.pose.p) for p in loop])
    axis = cut.pose.R @ cut.axes[0].direction / cut.axes[0].length
    across = np.linalg.svd(axis[None])[2][1:]
    point = motions[:, :3] / size
    hinge = np.concatenate([point, motions[:, 3:] @ across.T], 1)

    def leans(rows: np.ndarray) -> bool:
        s = np.linalg.svd(rows, compute_uv=False)
        return bool(((s > PLANE * s[0]) & (s < SPATIAL * s[0])).any())

    return leans(hinge) and not leans(point)
