"""What the numbers of a model may be, by field: where it is built, and where numbers are replaced."""

import dataclasses

import numpy as np

from ..spatial.inertia import is_rotational
from ..spatial.numbers import (
    Rule,
    check,
    constants,
    finite,
    is_rotation,
    is_unit,
    named,
    normalized,
    not_nan,
    not_negative,
    numbers_of,
    positive,
    reals,
    shown,
)
from ..tree.topology import Topology
from .joints import Joint

#: rules of fields by their last name; other fields are finite
RULES: dict[str, tuple[Rule, ...]] = {
    "mass": (finite, not_negative),
    "rotational": (finite, is_rotational),
    "rotation": (is_rotation,),
    "axis": (is_unit,),
    "axis2": (is_unit,),
    "armature": (finite, not_negative),
    "damping": (finite, not_negative),
    "stiffness": (finite, not_negative),
    "friction": (finite, not_negative),
    "effort": (not_nan, not_negative),
    "lower": (not_nan,),
    "upper": (not_nan,),
    "length": (finite, positive),
}
#: fields that may be infinite, so that single precision may make them so
BOUNDS = ("effort", "lower", "upper")


def rules_of(path: str) -> tuple[Rule, ...]:
    """Return the rules of the field with that dotted name."""
    return RULES.get(path.rsplit(".", 1)[-1], (finite,))


def check_field(call: str, path: str, value, topology: Topology) -> None:
    """Raise `ValueError` for values of a field (with batch axes in front or not) that a robot cannot have."""
    check(call, path, value, *rules_of(path))
    rest = numbers_of(value) if path == "joints.rest" else None
    for body, kind in enumerate(topology.kinds if rest is not None else ()):
        if kind.nq != kind.nv:
            quaternion = rest[..., topology.q_slice(body)][..., -4:]
            check(call, f"{path} of {topology.joint_names[body]}", quaternion, is_unit)


def check_limits(call: str, lower, upper) -> None:
    """Raise `ValueError` for lower limits above upper ones, where both are there."""
    lower, upper = numbers_of(lower), numbers_of(upper)
    if lower is not None and upper is not None and (lower > upper).any():
        raise ValueError(f"{call}: the lower limit {shown(lower)} is above the upper limit {shown(upper)}.")


def checked_joint(call: str, joint: Joint, body: str) -> Joint:
    """Return the joint of a body with its numbers as arrays, axes of unit length, and a name."""
    kind = joint.kind
    changes: dict = {"name": joint.name or body}
    for what in ("axis", "axis2"):
        axis = normalized(call, f"joint.{what}", _known(call, f"joint.{what}", getattr(joint, what), (3,)))
        if what in [f.name for f in dataclasses.fields(joint)]:
            changes[what] = axis
    for what in ("armature", "damping", "stiffness", "effort", "friction"):
        changes[what] = _per_velocity(call, f"joint.{what}", getattr(joint, what), kind.nv, what in BOUNDS)
        check(call, f"joint.{what}", changes[what], *RULES[what])
    constants(call, "joint.pitch", joint.pitch, (), finite)
    changes["rest"] = _rest(call, kind, joint.rest)
    limits = (-np.inf, np.inf) if joint.limits is None else joint.limits
    if not isinstance(limits, tuple | list | np.ndarray) or len(limits) != 2:
        raise ValueError(f"{call}: `joint.limits` is {limits!r}, not a pair (lower, upper).")
    lower, upper = (_per_velocity(call, f"joint.limits[{k}]", x, kind.nv, True) for k, x in enumerate(limits))
    for k, x in enumerate((lower, upper)):
        check(call, f"joint.limits[{k}]", x, not_nan)
    check_limits(call, lower, upper)
    return dataclasses.replace(joint, limits=(lower, upper), **changes)


def _known(call: str, name: str, x, shape) -> np.ndarray:
    """As `constants`, of any size."""
    found = named(call, name, reals, x).astype(float)
    if found.shape != shape:
        raise ValueError(f"{call}: `{name}` has shape {found.shape}, not {shape}.")
    return found


def _per_velocity(call: str, name: str, x, nv: int, any_size: bool) -> np.ndarray:
    found = named(call, name, reals, x).astype(float) if any_size else constants(call, name, x, None)
    if found.shape not in ((), (nv,)):
        raise ValueError(f"{call}: `{name}` has shape {found.shape}; give a scalar or ({nv},).")
    return np.broadcast_to(found, (nv,)).copy()


def _rest(call: str, kind, rest) -> np.ndarray:
    found = kind.neutral() if rest is None else constants(call, "joint.rest", rest, None, finite)
    if found.shape not in ((), (kind.nq,)) or (found.shape == () and kind.nq != kind.nv):
        raise ValueError(f"{call}: `joint.rest` has shape {found.shape}, not ({kind.nq},).")
    found = np.broadcast_to(found, (kind.nq,)).copy()
    if kind.nq != kind.nv and abs(np.linalg.norm(found[-4:]) - 1) > 1e-6:
        raise ValueError(f"{call}: the quaternion of `joint.rest` is not of unit length: {found[-4:]}.")
    return found
