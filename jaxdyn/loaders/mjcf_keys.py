"""Keyframes of a compiled MuJoCo model."""

from typing import Any

import numpy as np

from ..model.spec import ModelSpec
from .mjcf_tree import BALL, FREE, SIZES, Tree
from .pose import from_quaternion
from .xml import Document, located

#: a quaternion that is shorter turns nothing
SHORTEST = 1e-15


def add_keyframes(spec: ModelSpec, document: Document, m: Any, tree: Tree) -> None:
    """Add the keyframes, of all joints and actuators that were read."""
    joints = {b.joint.name for b in spec.bodies.values()}
    controls = {tree.name("ACTUATOR", k): tree.control(k) for k in range(tree.actuators)}
    for k in range(m.nkey):
        q, v = {}, {}
        for j, name in enumerate(tree.joint_names):
            if name in joints:
                q[name], v[name] = _state(m, k, j)
        command = {name: m.key_ctrl[k][at] for name, at in controls.items() if name in spec.actuators}
        located(document.root, spec.add_keyframe, tree.name("KEY", k), q, v=v, command=command)


def _state(m: Any, k: int, j: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the coordinates and velocities of a joint at a keyframe. The linear velocity of a free joint is in the
    body's axes, in MuJoCo in the world's."""
    kind, at, to = int(m.jnt_type[j]), int(m.jnt_qposadr[j]), int(m.jnt_dofadr[j])
    nq, nv = SIZES[kind]
    q, v = np.array(m.key_qpos[k][at : at + nq]), np.array(m.key_qvel[k][to : to + nv])
    if kind in (FREE, BALL):
        size = np.linalg.norm(q[-4:])
        q[-4:] = q[-4:] / size if size > SHORTEST else (1, 0, 0, 0)  # as MuJoCo
    if kind == FREE:
        v[:3] = from_quaternion(q[-4:]).T @ v[:3]
    return q, v
