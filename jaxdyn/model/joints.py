"""The joints: the classes that users write (`Revolute(axis=...)`), and the kind of motion of each.

To add a joint, write a kind (see `kind.py`) and a dataclass that names it; see `docs/extending.md`. No other file lists
the joints.
"""

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from ..spatial.numbers import ArrayLike
from ..spatial.rotation import (
    matrix_from_quaternion,
    quaternion_conjugate,
    quaternion_exp,
    quaternion_log,
    quaternion_multiply,
    quaternion_normalize,
    rotate,
    sinc_half,
    turn_from_quaternion,
)
from ..spatial.small import cross, eye, mm, mtv, mv, skew
from .kind import Column, Kind, axis_change, axis_rotation, wave_change


class FreeKind(Kind):
    nq, nv, units, quaternion = 7, 6, "lllaaa", slice(3, 7)

    def neutral(self):
        return np.array([0.0, 0, 0, 1, 0, 0, 0])

    def normalize(self, q):
        return jnp.concatenate([q[:3], quaternion_normalize(q[3:])])

    def pose(self, par, q):
        return matrix_from_quaternion(q[3:]), q[:3]

    def columns(self, par, q):
        return [Column(None, k) for k in range(3)] + [Column(k, None) for k in range(3)]

    def change(self, prepared, q, dv):
        _, R0, _ = prepared
        turn = mm(matrix_from_quaternion(q[3:]), turn_from_quaternion(quaternion_exp(dv[3:])))
        return mm(R0, turn), mv(R0, rotate(q[3:], self._move(dv)))

    def integrate(self, q, dv):
        move = rotate(q[3:], self._move(dv))
        return jnp.concatenate([q[:3] + move, quaternion_multiply(q[3:], quaternion_exp(dv[3:]))])

    def _move(self, dv):
        # exponential of SE(3): the body's twist held constant in its own axes
        w, l = dv[3:], dv[:3]
        angle2 = (w * w).sum(0)
        small = angle2 < 1e-4
        a2 = jnp.where(small, 1.0, angle2)
        a = jnp.sqrt(a2)
        half = sinc_half(angle2)[0]
        b = 2 * half * half  # (1 - cos a) / a², which would cancel digits
        c = jnp.where(small, 1 / 6 - angle2 / 120 + angle2**2 / 5040, (a - jnp.sin(a)) / (a2 * a))
        return l + b * cross(w, l) + c * cross(w, cross(w, l))

    def difference(self, q0, q1):
        inverse = quaternion_conjugate(q0[3:])
        w = quaternion_log(quaternion_multiply(inverse, q1[3:]))
        move = rotate(inverse, q1[:3] - q0[:3])
        angle2 = (w * w).sum(0)
        small = angle2 < 1e-4
        a2 = jnp.where(small, 1.0, angle2)
        a = jnp.sqrt(a2)
        half_cot = jnp.where(
            small, 1 / 12 + angle2 / 720 + angle2**2 / 30240, (1 - a / 2 * jnp.cos(a / 2) / jnp.sin(a / 2)) / a2
        )
        l = move - 0.5 * cross(w, move) + half_cot * cross(w, cross(w, move))
        return jnp.concatenate([l, w])


class RevoluteKind(Kind):
    nq, nv, units = 1, 1, "a"

    # R0 (1 + sin K + (1 - cos) K²), where products of constants are computed once, not for every lane
    def prepare(self, par, R0, p0):
        k = skew(par.axis)
        kk = mm(k, k)
        return R0 + mm(R0, kk), mm(R0, k), mm(R0, kk), p0

    def place(self, prepared, q):
        base, sine, cosine, p0 = prepared
        return base + jnp.sin(q[0]) * sine - jnp.cos(q[0]) * cosine, p0

    def change(self, prepared, q, dv):
        _, sine, cosine, p0 = prepared
        return wave_change(sine, cosine, q[0], dv[0]), jnp.zeros_like(p0)

    def pose(self, par, q):
        return axis_rotation(par.axis, q[0]), None

    def columns(self, par, q):
        return [Column(par.axis, None)]


class PrismaticKind(Kind):
    nq, nv, units = 1, 1, "l"

    def prepare(self, par, R0, p0):
        return R0, p0, mv(R0, par.axis)

    def place(self, prepared, q):
        R0, p0, along = prepared
        return R0, p0 + along * q[0]

    def change(self, prepared, q, dv):
        R0, _, along = prepared
        return jnp.zeros_like(R0), along * dv[0]

    def pose(self, par, q):
        return eye(par.axis), par.axis * q[0]

    def columns(self, par, q):
        return [Column(None, par.axis)]


class SphericalKind(Kind):
    nq, nv, units, quaternion = 4, 3, "aaa", slice(0, 4)

    def neutral(self):
        return np.array([1.0, 0, 0, 0])

    def normalize(self, q):
        return quaternion_normalize(q)

    def pose(self, par, q):
        return matrix_from_quaternion(q), None

    def columns(self, par, q):
        return [Column(k, None) for k in range(3)]

    def change(self, prepared, q, dv):
        _, R0, p0 = prepared
        turn = mm(matrix_from_quaternion(q), turn_from_quaternion(quaternion_exp(dv)))
        return mm(R0, turn), jnp.zeros_like(p0)

    def integrate(self, q, dv):
        return quaternion_multiply(q, quaternion_exp(dv))

    def difference(self, q0, q1):
        return quaternion_log(quaternion_multiply(quaternion_conjugate(q0), q1))


class TranslationKind(Kind):
    nq, nv, units = 3, 3, "lll"

    def pose(self, par, q):
        return eye(par.axis), q

    def change(self, prepared, q, dv):
        _, R0, _ = prepared
        return jnp.zeros_like(R0), mv(R0, dv)

    def columns(self, par, q):
        return [Column(None, k) for k in range(3)]


def plane_axes(normal):
    """Return two unit vectors that form a right-handed frame with `normal` (Duff et al. 2017): x and y for z, x and -z
    for y, -z and y for x."""
    x, y, z = normal[0], normal[1], normal[2]
    sign = jnp.where(z < 0, -1.0, 1.0).astype(normal.dtype)
    a = -1 / (sign + z)
    b = x * y * a
    first = jnp.stack([1 + sign * x * x * a, sign * b, -sign * x])
    second = jnp.stack([b, sign + y * y * a, -y])
    return first, second


class PlanarKind(Kind):
    """Motion in a plane: q = (x, y, angle) along and about the joint frame's axes; v is its rate."""

    nq, nv, units = 3, 3, "lla"

    def pose(self, par, q):
        e1, e2 = plane_axes(par.axis)
        return axis_rotation(par.axis, q[2]), e1 * q[0] + e2 * q[1]

    def change(self, prepared, q, dv):
        par, R0, _ = prepared
        e1, e2 = plane_axes(par.axis)
        return mm(R0, axis_change(par.axis, q[2], dv[2])), mv(R0, e1 * dv[0] + e2 * dv[1])

    def columns(self, par, q):
        r = axis_rotation(par.axis, q[2])
        e1, e2 = plane_axes(par.axis)
        return [Column(None, mtv(r, e1)), Column(None, mtv(r, e2)), Column(par.axis, None)]

    def bias(self, par, q, v):
        r = axis_rotation(par.axis, q[2])
        e1, e2 = plane_axes(par.axis)
        linear = mtv(r, e1 * v[0] + e2 * v[1])
        return None, -cross(par.axis * v[2], linear)


class UniversalKind(Kind):
    """A turn about `axis`, then about `axis2` (in the axes of the turned frame)."""

    nq, nv, units = 2, 2, "aa"

    def pose(self, par, q):
        return mm(axis_rotation(par.axis, q[0]), axis_rotation(par.axis2, q[1])), None

    def change(self, prepared, q, dv):
        par, R0, p0 = prepared
        first = mm(axis_change(par.axis, q[0], dv[0]), axis_rotation(par.axis2, q[1] + dv[1]))
        second = mm(axis_rotation(par.axis, q[0]), axis_change(par.axis2, q[1], dv[1]))
        return mm(R0, first + second), jnp.zeros_like(p0)

    def columns(self, par, q):
        return [Column(mtv(axis_rotation(par.axis2, q[1]), par.axis), None), Column(par.axis2, None)]

    def bias(self, par, q, v):
        first = mtv(axis_rotation(par.axis2, q[1]), par.axis)
        return -cross(par.axis2 * v[1], first * v[0]), None


class CylindricalKind(Kind):
    """A slide along and a turn about `axis`: q = (displacement, angle)."""

    nq, nv, units = 2, 2, "la"

    def pose(self, par, q):
        return axis_rotation(par.axis, q[1]), par.axis * q[0]

    def change(self, prepared, q, dv):
        par, R0, _ = prepared
        return mm(R0, axis_change(par.axis, q[1], dv[1])), mv(R0, par.axis * dv[0])

    def columns(self, par, q):
        return [Column(None, par.axis), Column(par.axis, None)]


class HelicalKind(Kind):
    """A screw: q is the angle; it advances by ``pitch * q``."""

    nq, nv, units = 1, 1, "a"

    def pose(self, par, q):
        return axis_rotation(par.axis, q[0]), par.axis * (par.pitch * q[0])

    def change(self, prepared, q, dv):
        par, R0, _ = prepared
        return mm(R0, axis_change(par.axis, q[0], dv[0])), mv(R0, par.axis * (par.pitch * dv[0]))

    def columns(self, par, q):
        return [Column(par.axis, par.axis * par.pitch)]


class FixedKind(Kind):
    nq, nv = 0, 0


Scalars = ArrayLike


@dataclasses.dataclass(frozen=True, eq=False)
class Joint:
    """Base class of joints, with the arguments that every joint takes.

    **Arguments:** `name` (default: the body's); `axis` (3,), normalised, which `Free`, `Spherical` and `Translation` do
    not use; `armature` (reflected inertia, kg m² or kg), `damping` (N m s/rad or N s/m), `stiffness` (N m/rad or N/m),
    `effort` (largest actuator force) and `friction` (Coulomb), each a scalar or one number per velocity; `rest`, the
    configuration at which the spring is slack, a scalar or (nq,); `limits`, a pair (lower, upper) of scalars or (nv,),
    in which -inf and inf, not None, mean no limit. `friction` and `limits` act in steps with a contact law; `effort` is
    stored, but bounds nothing.
    """

    name: str | None = None
    axis: ArrayLike = (0.0, 0.0, 1.0)
    armature: Scalars = 0.0
    damping: Scalars = 0.0
    stiffness: Scalars = 0.0
    rest: Scalars | None = None
    limits: ArrayLike | None = None
    effort: Scalars = np.inf
    friction: Scalars = 0.0

    kind: ClassVar[Kind]
    axis2: ClassVar = (0.0, 1.0, 0.0)
    pitch: ClassVar = 0.0

    @property
    def own(self) -> dict[str, Any]:
        """Return the parameters that the joint's class adds, by name: its own fields, all of which are floats."""
        names = {f.name for f in dataclasses.fields(self)} - {f.name for f in dataclasses.fields(Joint)}
        return {name: getattr(self, name) for name in sorted(names - {"axis2", "pitch"})}


@dataclasses.dataclass(frozen=True, eq=False)
class Free(Joint):
    """Six degrees of freedom: q = (x, y, z, qw, qx, qy, qz), v = (linear, angular) in the body's axes."""

    kind = FreeKind()


@dataclasses.dataclass(frozen=True, eq=False)
class Revolute(Joint):
    """A turn about `axis`; q in radians, unbounded if there are no `limits`."""

    kind = RevoluteKind()


@dataclasses.dataclass(frozen=True, eq=False)
class Prismatic(Joint):
    """A slide along `axis`; q in metres."""

    kind = PrismaticKind()


@dataclasses.dataclass(frozen=True, eq=False)
class Spherical(Joint):
    """A ball joint: q is a quaternion (w, x, y, z), v the angular velocity in the body's axes."""

    kind = SphericalKind()


@dataclasses.dataclass(frozen=True, eq=False)
class Planar(Joint):
    """Motion in the plane normal to `axis`: q = (two displacements, angle about `axis`), v its rates.

    The displacements are along the joint frame's x and y for the axis z, x and −z for y, −z and y for x, and x and z
    for −y: ``Planar(axis=(0, -1, 0))`` suits a robot in the vertical plane of x and z.
    """

    kind = PlanarKind()


@dataclasses.dataclass(frozen=True, eq=False)
class Translation(Joint):
    """Three slides along the joint frame's axes, no rotation."""

    kind = TranslationKind()


@dataclasses.dataclass(frozen=True, eq=False)
class Universal(Joint):
    """A Cardan joint: a turn about `axis` (default x), then about `axis2` (default y) of the turned frame."""

    axis: ArrayLike = (1.0, 0.0, 0.0)
    axis2: ArrayLike = (0.0, 1.0, 0.0)  # type: ignore[misc]
    kind = UniversalKind()


@dataclasses.dataclass(frozen=True, eq=False)
class Cylindrical(Joint):
    """A slide along and a turn about `axis`: q = (displacement, angle)."""

    kind = CylindricalKind()


@dataclasses.dataclass(frozen=True, eq=False)
class Helical(Joint):
    """A screw about `axis` that advances `pitch` metres per radian."""

    pitch: float = 0.0  # type: ignore[misc]
    kind = HelicalKind()


@dataclasses.dataclass(frozen=True, eq=False)
class Fixed(Joint):
    """No motion: the body becomes part of its parent, and a frame keeps its name and pose."""

    kind = FixedKind()
