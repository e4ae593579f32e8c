"""A body as a `ModelSpec` describes it, in NumPy and double precision, and the checks of its numbers."""

import dataclasses
from typing import Any

import jax
import numpy as np

from .joints import Joint

#: models are cast to float32: numbers beyond this one would become infinite
LARGEST = float(np.finfo(np.float32).max)
_IDENTITY = np.eye(3)


@dataclasses.dataclass
class Body:
    """A body: its joint, the joint's placement in the parent's frame, and its mass properties in its own frame."""

    name: str
    parent: str
    joint: Joint
    rotation: np.ndarray
    translation: np.ndarray
    mass: float = 0.0
    center: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    rotational: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((3, 3)))

    def joined(self, body: "Body", r: np.ndarray, p: np.ndarray) -> "Body":
        """Return this body with another one welded to it, whose frame is at `r`, `p` in this one."""
        mass = self.mass + body.mass
        center = p + r @ body.center
        share = body.mass / mass if mass > 0 else 0.5
        d = center - self.center
        rotational = self.rotational + r @ body.rotational @ r.T
        rotational = rotational + self.mass * share * (d @ d * _IDENTITY - np.outer(d, d))
        return dataclasses.replace(self, mass=mass, center=self.center + share * d, rotational=rotational)


def concrete(call: str, what: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return an argument as an array of finite numbers. Raise if it is traced, of another shape, or too large."""
    if isinstance(value, jax.core.Tracer):
        raise TypeError(f"{call}: `{what}` is traced; build models outside of `jit` and use `Model.replace` inside.")
    out = np.asarray(value, float)
    if out.shape != shape:
        raise ValueError(f"{call}: `{what}` has shape {out.shape}, not {shape}.")
    check_size(call, what, out)
    return out


def check_size(call: str, what: str, value: np.ndarray) -> None:
    """Raise `ValueError` for numbers that are not finite, or infinite in float32."""
    if not (np.abs(value) <= LARGEST).all():
        why = "is beyond the range of float32" if np.isfinite(value).all() else "is not finite"
        raise ValueError(f"{call}: `{what}` {why}: {value.tolist()}.")


def rotation_of(call: str, what: str, value: Any) -> np.ndarray:
    """Return a rotation matrix, made orthonormal. Raise `ValueError` if it is far from one."""
    r = concrete(call, what, value, (3, 3))
    if np.array_equal(r, _IDENTITY):
        return r
    if np.abs(r @ r.T - _IDENTITY).max() > 1e-4 or np.linalg.det(r) < 0:
        raise ValueError(f"{call}: `{what}` is not a rotation matrix: {r.tolist()}.")
    u, _, vt = np.linalg.svd(r)  # rounding of single precision or of printed digits
    return u @ vt


def unit(call: str, what: str, value: Any) -> np.ndarray:
    """Return an axis (3,) of unit length."""
    axis = concrete(call, what, value, (3,))
    largest = np.abs(axis).max()
    if largest < 1e-12:
        raise ValueError(f"{call}: `{what}` is zero.")
    axis = axis / largest
    return axis / np.sqrt(axis @ axis)


def checked_joint(call: str, joint: Joint, body: str) -> Joint:
    """Return the joint with its name, unit axes, and one number per velocity where it takes scalars.

    **Raises** `ValueError` naming what has a wrong shape, is not finite, negative or in the wrong order.
    """
    kind = joint.kind
    changes: dict = {"name": joint.name or body}
    for what in ("axis", "axis2"):
        if what in vars(joint):
            changes[what] = unit(call, f"joint.{what}", getattr(joint, what))
    for what in ("armature", "damping", "stiffness", "effort", "friction"):
        value = getattr(joint, what)
        if type(value) is float and 0.0 <= value <= LARGEST:  # as nearly always: no more to check
            changes[what] = np.full(kind.nv, value)
            continue
        value = _per_velocity(call, f"joint.{what}", value, kind.nv)
        if what != "effort":
            check_size(call, f"joint.{what}", value)
        elif np.isnan(value).any():
            raise ValueError(f"{call}: `joint.effort` is not a number: {value}.")
        if (value < 0).any():
            raise ValueError(f"{call}: `joint.{what}` is negative: {value}.")
        changes[what] = value
    concrete(call, "joint.pitch", joint.pitch, ())
    rest = kind.neutral() if joint.rest is None else np.asarray(joint.rest, float)
    if rest.shape not in ((), (kind.nq,)) or (rest.shape == () and kind.nq != kind.nv):
        raise ValueError(f"{call}: `joint.rest` has shape {rest.shape}, not ({kind.nq},).")
    check_size(call, "joint.rest", rest)
    rest = np.full(kind.nq, rest)
    if kind.nq != kind.nv and abs(np.linalg.norm(rest[-4:]) - 1) > 1e-6:
        raise ValueError(f"{call}: the quaternion of `joint.rest` is not of unit length: {rest[-4:]}.")
    ends = (-np.inf, np.inf) if joint.limits is None else joint.limits
    lower, upper = (
        _per_velocity(call, f"{what} limit", x, kind.nv) for what, x in zip(("lower", "upper"), ends, strict=True)
    )
    if not ((lower < np.inf).all() and (upper > -np.inf).all()):
        raise ValueError(f"{call}: the limits {lower}, {upper} are no numbers, or endless on the wrong side.")
    if (lower > upper).any():
        raise ValueError(f"{call}: the lower limit {lower} is above the upper limit {upper}.")
    return dataclasses.replace(joint, rest=rest, limits=(lower, upper), **changes)


def _per_velocity(call: str, what: str, value: Any, nv: int) -> np.ndarray:
    value = np.asarray(value, float)
    if value.shape not in ((), (nv,)):
        raise ValueError(f"{call}: `{what}` has shape {value.shape}; give a scalar or ({nv},).")
    return np.full(nv, value)
