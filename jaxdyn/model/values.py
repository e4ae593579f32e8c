"""Checks of the numbers of a model, by field. They run when a model is built and when its numbers are replaced."""

import dataclasses
import warnings
from typing import Any

import jax
import numpy as np

from ..spatial.inertia import is_definite, is_rotational
from ..spatial.instances import check_instance, described
from ..spatial.numbers import (
    Rule,
    at_most_one,
    check,
    constants,
    in_range,
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
from .kind import Kind


class ModelWarning(UserWarning):
    """Warns of something unusual in a model; the text says how jaxdyn handles it."""


#: rules by the last part of the field's name, or the whole name; all other fields follow `in_range`
RULES: dict[str, tuple[Rule, ...]] = {
    "mass": (in_range, not_negative),
    "rotational": (in_range, is_rotational),
    "rotation": (is_rotation,),
    "axis": (is_unit,),
    "axis2": (is_unit,),
    "armature": (in_range, not_negative),
    "damping": (in_range, not_negative),
    "stiffness": (in_range, not_negative),
    "friction": (in_range, not_negative),
    "effort": (not_nan, not_negative),
    "lower": (not_nan,),
    "upper": (not_nan,),
    "lower_command": (not_nan,),
    "upper_command": (not_nan,),
    "length": (in_range, positive),
    "size": (in_range, not_negative),
    "torsion": (in_range, not_negative),
    "restitution": (in_range, not_negative, at_most_one),
    "pair_friction": (in_range, not_negative),
    "pair_torsion": (in_range, not_negative),
    # infinity stands for rigid
    "collision.stiffness": (not_nan, not_negative),
    "collision.damping": (not_nan, not_negative),
}


def rules_of(path: str) -> tuple[Rule, ...]:
    """Return the rules of the field with that dotted name; a joint's own parameters may be any numbers in range."""
    if path.startswith("joints.own."):
        return (in_range,)
    return RULES.get(path) or RULES.get(path.rsplit(".", 1)[-1], (in_range,))


def check_field(call: str, path: str, value, topology: Topology) -> None:
    """Raise `ValueError` for values of a field, with or without leading batch axes, that a robot cannot have.

    A negative principal moment of inertia is only a `ModelWarning`, because some files have such bodies.
    """
    check(call, path, value, *rules_of(path))
    values = numbers_of(value) if is_rotational in rules_of(path) else None
    problem = None if values is None else is_definite(values)
    if problem is not None:
        warnings.warn(f"{call}: `{path}` {problem}; used as it is.", ModelWarning, stacklevel=3)
    rest = numbers_of(value) if path == "joints.rest" else None
    for body, kind in enumerate(topology.kinds if rest is not None else ()):
        if kind.quaternion is not None:
            quaternion = rest[..., topology.q_slice(body)][..., kind.quaternion]
            check(call, f"{path} of {topology.joint_names[body]}", quaternion, is_unit)


def check_limits(call: str, lower, upper) -> None:
    """Raise `ValueError` for lower limits above upper ones, and for infinite limits of the wrong sign. Traced limits
    are not checked."""
    lower, upper = numbers_of(lower), numbers_of(upper)
    if lower is None or upper is None:
        return
    if (lower == np.inf).any() or (upper == -np.inf).any():
        raise ValueError(f"{call}: the limits {shown(lower)}, {shown(upper)} are endless on the wrong side.")
    if (lower > upper).any():
        raise ValueError(f"{call}: the lower limit {shown(lower)} is above the upper limit {shown(upper)}.")


def checked_rotation(call: str, name: str, x: Any) -> np.ndarray:
    """Return a rotation matrix (3, 3), made orthonormal to double precision: matrices in single precision or from
    printed digits are only nearly so."""
    r = constants(call, name, x, (3, 3), is_rotation)
    if np.array_equal(r, np.eye(3)):
        return r
    u, _, vt = np.linalg.svd(r)
    return u @ vt


def checked_joint(call: str, joint: Joint, body: str) -> Joint:
    """Return the joint of a body with checked numbers as arrays, axes of unit length, and a name."""
    if joint.name is not None:
        check_instance(call, "joint.name", joint.name, str)
    kind = getattr(joint, "kind", None)
    if not isinstance(kind, Kind):
        raise TypeError(f"{call}: `{type(joint).__name__}.kind` is {described(kind)}, not a `jaxdyn.extend.Kind`.")
    if len(kind.units) != kind.nv or not set(kind.units) <= {"l", "a"}:
        raise ValueError(
            f"{call}: `{type(kind).__name__}.units` is {kind.units!r}; give one letter, 'l' or 'a', for each of the "
            f"joint's velocities ({kind.nv})."
        )
    changes: dict = {"name": joint.name or body}
    for what in {"axis", "axis2"} & set(vars(joint)):
        axis = _any_size(call, f"joint.{what}", getattr(joint, what), (3,))
        changes[what] = normalized(call, f"joint.{what}", axis)
    for what in ("armature", "damping", "stiffness", "effort", "friction"):
        changes[what] = _per_velocity(call, f"joint.{what}", getattr(joint, what), kind.nv, *RULES[what])
    pitch = constants(call, "joint.pitch", joint.pitch, ())
    if "pitch" in vars(joint):
        changes["pitch"] = float(pitch)
    changes |= {what: constants(call, f"joint.{what}", value, None) for what, value in joint.own.items()}
    changes["rest"] = _rest(call, kind, joint.rest)
    changes["limits"] = limits_of(call, "joint.limits", joint.limits, kind.nv)
    return dataclasses.replace(joint, **changes)


def _any_size(call: str, name: str, x, shape) -> np.ndarray:
    """Return an array of this shape, as `constants` does, but without checking the range of its numbers."""
    found = named(call, name, reals, x).astype(float)
    if found.shape != shape:
        raise ValueError(f"{call}: `{name}` has shape {found.shape}, not {shape}.")
    return found


def _per_velocity(call: str, name: str, x, nv: int, *rules: Rule) -> np.ndarray:
    found = named(call, name, reals, x).astype(float)
    if found.shape not in ((), (nv,)):
        raise ValueError(f"{call}: `{name}` has shape {found.shape}; give a scalar or ({nv},).")
    check(call, name, found, *rules)
    return np.full(nv, found)


def limits_of(call: str, name: str, limits, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a pair of bounds, (n,) each, infinite for None."""
    if limits is None:
        return np.full(n, -np.inf), np.full(n, np.inf)
    pair = isinstance(limits, tuple | list) or isinstance(limits, np.ndarray | jax.Array) and limits.ndim > 0
    if not pair or len(limits) != 2:
        raise ValueError(f"{call}: `{name}` is {limits!r:.60}, not a pair (lower, upper).")
    lower, upper = (_per_velocity(call, f"{name}[{k}]", x, n, not_nan) for k, x in enumerate(limits))
    check_limits(f"{call}: `{name}`", lower, upper)
    return lower, upper


def _rest(call: str, kind: Kind, rest) -> np.ndarray:
    if rest is None:
        return kind.neutral()
    found = constants(call, "joint.rest", rest, None)
    if found.shape not in ((), (kind.nq,)) or (found.shape == () and kind.nq != kind.nv):
        raise ValueError(f"{call}: `joint.rest` has shape {found.shape}, not ({kind.nq},).")
    found = np.full(kind.nq, found)
    if kind.quaternion is not None:
        check(call, "joint.rest", found[kind.quaternion], is_unit)
        found[kind.quaternion] = normalized(call, "joint.rest", found[kind.quaternion])
    return found
