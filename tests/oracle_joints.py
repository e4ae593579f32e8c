"""Joints of the oracle, in NumPy: poses, world-frame motion columns, and steps on the manifold.

Every joint is a chain of turns about and slides along axes of the frame reached so far; nothing else is
derived. All functions but `integrate` and `difference` are analytic and accept complex configurations, so
that derivatives along a motion can be taken by the complex step.
"""

import numpy as np

I3 = np.eye(3)


def skew(x):
    """The matrix of y -> x × y."""
    return np.array([[0, -x[2], x[1]], [x[2], 0, -x[0]], [-x[1], x[0], 0]])


def turn(axis, angle):
    """Rotation about a unit axis."""
    return np.cos(angle) * I3 + np.sin(angle) * skew(axis) + (1 - np.cos(angle)) * np.outer(axis, axis)


def from_quaternion(q):
    """Rotation matrix along the quaternion (w, x, y, z), whatever its length."""
    w, x = q[0], q[1:]
    return ((w * w - x @ x) * I3 + 2 * np.outer(x, x) + 2 * w * skew(x)) / (q @ q)


def times(a, b):
    """Product of two quaternions."""
    return np.concatenate([[a[0] * b[0] - a[1:] @ b[1:]], a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])])


def across(normal):
    """The two unit vectors that go with a direction: x and y after the shortest turn of z, or of -z for a
    direction that points down (then y is reversed, to stay right-handed)."""
    side = 1.0 if normal[2] >= 0 else -1.0
    up = side * np.asarray(normal, float)
    k = skew(np.cross([0, 0, 1], up))
    r = I3 + k + k @ k / (1 + up[2])
    return r[:, 0], side * r[:, 1]


class Chain:
    """Walks from the joint frame (R, p) to the moved frame, noting for each velocity the world twist it
    makes: `A`, angular, and `U`, linear at the world's origin."""

    def __init__(self, R, p):
        self.R, self.p, self.A, self.U = R, p, [], []

    def screw(self, axis, angle, move):
        """Turn about and slide along `axis` of the present frame, one velocity per unit of angle."""
        w = self.R @ axis
        self.A.append(w)
        self.U.append(skew(self.p) @ w + move * w)
        self.p = self.p + move * angle * w
        self.R = self.R @ turn(axis, angle)

    def slide(self, axis, length):
        d = self.R @ axis
        self.A.append(0 * d)
        self.U.append(d)
        self.p = self.p + length * d

    def ball(self, quaternion):
        """Rotate freely; velocities are the angular velocity in the moved axes."""
        self.R = self.R @ from_quaternion(quaternion)
        for w in self.R.T:
            self.A.append(w)
            self.U.append(skew(self.p) @ w)

    def fly(self, position, quaternion):
        """Move freely; velocities are the linear and angular ones in the moved axes, at the moved origin."""
        self.p = self.p + self.R @ position
        R = self.R @ from_quaternion(quaternion)
        for d in R.T:
            self.A.append(0 * d)
            self.U.append(d)
        self.ball(quaternion)


def walk(kind, axis, axis2, pitch, q, R, p):
    """The `Chain` through a joint of the kind of that class name, from the joint frame (R, p)."""
    c = Chain(R, p)
    if kind == "RevoluteKind":
        c.screw(axis, q[0], 0.0)
    elif kind == "HelicalKind":
        c.screw(axis, q[0], pitch)
    elif kind == "PrismaticKind":
        c.slide(axis, q[0])
    elif kind == "CylindricalKind":
        c.slide(axis, q[0])
        c.screw(axis, q[1], 0.0)
    elif kind == "UniversalKind":
        c.screw(axis, q[0], 0.0)
        c.screw(axis2, q[1], 0.0)
    elif kind == "TranslationKind":
        for e, x in zip(I3, q, strict=True):
            c.slide(e, x)
    elif kind == "PlanarKind":
        e1, e2 = across(axis)
        c.slide(e1, q[0])
        c.slide(e2, q[1])
        c.screw(axis, q[2], 0.0)
    elif kind == "SphericalKind":
        c.ball(q)
    elif kind == "FreeKind":
        c.fly(q[:3], q[3:])
    else:
        raise ValueError(f"the oracle has no joint of kind {kind!r}")
    return c


def rate(kind, q, v):
    """dq/dt of one joint."""
    if kind == "SphericalKind":
        return 0.5 * times(q, np.concatenate([[0.0], v]))
    if kind == "FreeKind":
        return np.concatenate([from_quaternion(q[3:]) @ v[:3], rate("SphericalKind", q[3:], v[3:])])
    return v


def _exp(w):
    angle = np.linalg.norm(w)
    return np.concatenate([[np.cos(angle / 2)], 0.5 * np.sinc(angle / 2 / np.pi) * w])


def _drift(w):
    """The integral over a unit of time of the rotation that `w` makes, by its series."""
    total = I3
    for k in range(60, 1, -1):
        total = I3 + skew(w) @ total / k
    return total


def _unskew(m):
    return np.array([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]]) / 2


def rotation_vector(R):
    """Rotation vector, of length at most pi, of a rotation matrix."""
    axis = _unskew(R)
    angle = np.arctan2(np.linalg.norm(axis), (np.trace(R) - 1) / 2)
    if angle < 1e-7:
        return axis
    if angle < 3:
        return angle * axis / np.linalg.norm(axis)
    values, vectors = np.linalg.eigh((R + R.T) / 2)  # near pi the antisymmetric part has lost the axis
    best = vectors[:, np.argmax(values)]
    return angle * best * (1.0 if best @ axis >= 0 else -1.0)


def integrate(kind, q, step):
    """The configuration after the velocity `step` held for a unit of time (on a free joint: in its own axes)."""
    if kind == "SphericalKind":
        return times(q, _exp(step))
    if kind == "FreeKind":
        moved = q[:3] + from_quaternion(q[3:]) @ _drift(step[3:]) @ step[:3]
        return np.concatenate([moved, times(q[3:], _exp(step[3:]))])
    return q + step


def difference(kind, q0, q1):
    """The step that leads from q0 to q1, the shortest one for rotations."""
    if kind == "SphericalKind":
        return rotation_vector(from_quaternion(q0).T @ from_quaternion(q1))
    if kind == "FreeKind":
        R0 = from_quaternion(q0[3:])
        w = rotation_vector(R0.T @ from_quaternion(q1[3:]))
        return np.concatenate([np.linalg.solve(_drift(w), R0.T @ (q1[:3] - q0[:3])), w])
    return q1 - q0
