"""Keyframes as a `ModelSpec` describes them, and their conversion to the arrays of a `Model`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from ..spatial.instances import check_instance
from ..spatial.numbers import check, constants, is_unit, normalized
from ..tree.topology import Topology, unknown
from .arrays import floats_of
from .keyframes import Keyframes


class KeyframeSpec(NamedTuple):
    """A keyframe as a `ModelSpec` describes it: coordinates and velocities by joint, commands by actuator."""

    q: Mapping[str, np.ndarray]
    v: Mapping[str, np.ndarray]
    command: Mapping[str, np.ndarray]


def keyframe(call: str, **parts: Any) -> KeyframeSpec:
    """Return a keyframe with checked numbers. Joints and actuators are looked up later, by `keyframes_of`."""
    checked = {}
    for what, part in parts.items():
        check_instance(call, what, part, Mapping, " Give one such as `{'knee': 0.3}`.")
        checked[what] = {str(k): np.atleast_1d(constants(call, f"{what} of {k!r}", x, None)) for k, x in part.items()}
    return KeyframeSpec(**checked)


def keyframes_of(call: str, topology: Topology, given: Mapping[str, KeyframeSpec]) -> Keyframes | None:
    """Return the keyframes as arrays, None if there are none. Joints that a keyframe does not name are neutral there
    and at rest, commands are zero. Raise `ValueError` for unknown names and for other sizes than theirs."""
    if not given:
        return None
    rows = [_row(f"{call}: keyframe {name!r}", topology, one) for name, one in given.items()]
    q, v, command = (floats_of(np.stack(column)) for column in zip(*rows, strict=True))
    return Keyframes(q, v, command, tuple(given))


def _row(call: str, topology: Topology, one: KeyframeSpec) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the q (nq,), v (n,) and commands (nu,) of a keyframe."""
    joints, actuators, kinds = topology.joint_names, topology.actuator_names, topology.kinds
    q = np.concatenate([np.zeros(0), *(np.asarray(kind.neutral(), float) for kind in kinds)])
    v, command = np.zeros(topology.nv), np.zeros(len(actuators))
    _fill(f"{call}: `q`", q, one.q, "joint", joints, topology.q_slice)
    _fill(f"{call}: `v`", v, one.v, "joint", joints, topology.v_slice)
    _fill(f"{call}: `command`", command, one.command, "actuator", actuators, lambda k: slice(k, k + 1))
    for b, kind in enumerate(kinds):
        if kind.quaternion is not None:
            turn, what = q[topology.q_slice(b)][kind.quaternion], f"q of {joints[b]!r}"
            check(call, what, turn, is_unit)
            turn[:] = normalized(call, what, turn)
    return q, v, command


def _fill(
    call: str, out: np.ndarray, given: Mapping[str, np.ndarray], kind: str, known: tuple[str, ...], place
) -> None:
    """Set the numbers that are given for joints or actuators of known names, at their places."""
    for name, x in given.items():
        if name not in known:
            raise ValueError(f"{call}: {unknown(kind, name, known)}")
        at = place(known.index(name))
        if x.shape != out[at].shape:
            raise ValueError(f"{call} of {name!r} has shape {x.shape}, not {out[at].shape}.")
        out[at] = x
