"""What the engine knows of a joint: its *kind* of motion.

A kind is stateless and hashable. Its methods take and return component-first arrays whose last axis is the batch, with
one *lane* per element: a vector is (3, lanes), q is (nq, lanes):

| function | returns |
| --- | --- |
| ``pose(par, q)`` | rotation and translation (None: zero) of the moved frame in the joint frame |
| ``columns(par, q)`` | the motion subspace, one `Column` per velocity, in the moved frame |
| ``prepare(par, R0, p0)`` | the constant parts of the body's pose in its parent; R0, p0 are the placement |
| ``place(prepared, q)`` | the body's pose in its parent |
| ``change(prepared, q, dv)`` | the change of that pose, rotation and translation, by the motion dv |
| ``bias(par, q, v)`` | time derivative of the subspace times v, (angular, linear); None when the subspace is constant |
| ``integrate(q, dv)``, ``difference(q0, q1)`` | exponential and logarithm on the joint's manifold |

`par` holds the joint's ``axis``, ``axis2`` (3, lanes), ``pitch`` (lanes,), and ``own``, a dictionary of the parameters
that its class adds.
"""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..spatial.small import eye, mm, mv, outer, skew


class Column(NamedTuple):
    """A direction of motion: angular and linear part, each an array (3, ...), a unit axis 0 to 2, or None (zero)."""

    angular: "Array | int | None"
    linear: "Array | int | None"


class JointParameters(NamedTuple):
    """The float parameters of a joint, component-first; `own` holds those that its class adds, by name."""

    axis: Array
    axis2: Array
    pitch: Array
    own: dict[str, Array]


def axis_change(axis, angle, turn):
    """Return the change of `axis_rotation` by a further `turn`, to the last digit of a small one."""
    return wave_change(skew(axis), outer(axis, axis) - eye(axis), angle, turn)


def wave_change(sine, cosine, angle, turn):
    """Return the change of sin(x) `sine` − cos(x) `cosine` at x = `angle` by a further `turn`, likewise."""
    chord, middle = 2 * jnp.sin(turn / 2), angle + turn / 2
    return chord * (jnp.cos(middle) * sine + jnp.sin(middle) * cosine)


def axis_rotation(axis, angle):
    """Return the rotation matrix about a unit axis (Rodrigues). For a constant axis, K and K² have a single lane."""
    k = skew(axis)
    kk = outer(axis, axis) - eye(axis)
    return eye(axis) + jnp.sin(angle) * k + (1 - jnp.cos(angle)) * kk


class Kind:
    """Base class of kinds. Its methods suit joints whose configuration space is a vector space."""

    nq: ClassVar[int]
    nv: ClassVar[int]
    #: one letter per velocity: "l" for linear (metres), "a" for angular (radians)
    units: ClassVar[str] = ""
    #: the coordinates that are a unit quaternion (w, x, y, z), if there are such
    quaternion: ClassVar[slice | None] = None

    def __init_subclass__(cls):
        moved = {"pose", "prepare", "place", "integrate"} & set(vars(cls))
        if moved and "change" not in vars(cls):  # that of the base class is for other poses
            cls.change = Kind.change  # type: ignore[method-assign]

    # kinds are equal by value: options that change the code path are attributes, which are set before any use
    def __eq__(self, other):
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self):
        return hash((type(self), tuple(sorted(vars(self).items()))))

    def __repr__(self):
        own = ", ".join(f"{name}={value!r}" for name, value in sorted(vars(self).items()))
        return f"{type(self).__name__}({own})" if own else type(self).__name__

    @property
    def name(self) -> str:
        """The name of joints of this kind, such as ``"Free"``."""
        return type(self).__name__.removesuffix("Kind")

    def neutral(self) -> np.ndarray:
        return np.zeros(self.nq)

    def normalize(self, q):
        return q

    def prepare(self, par, R0, p0):
        return par, R0, p0

    def place(self, prepared, q):
        par, R0, p0 = prepared
        E, p = self.pose(par, q)
        return mm(R0, E), (p0 if p is None else p0 + mv(R0, p))

    def change(self, prepared, q, dv):
        # joints override this, since a difference of poses has the rounding of poses, however small it is
        (E0, p0), (E1, p1) = self.place(prepared, q), self.place(prepared, self.integrate(q, dv))
        return E1 - E0, p1 - p0

    def bias(self, par, q, v):
        return None

    def integrate(self, q, dv):
        self._check_vector_space("integrate")
        return q + dv

    def difference(self, q0, q1):
        self._check_vector_space("difference")
        return q1 - q0

    def _check_vector_space(self, method: str) -> None:
        if self.nq != self.nv:
            raise ValueError(
                f"`{type(self).__name__}` has {self.nq} coordinates and {self.nv} velocities: it needs a method "
                f"`{method}` of its own."
            )
