"""Rotations: unit quaternions ``(w, x, y, z)``, matrices and rotation vectors, component-first.

Values and derivatives are finite wherever the mathematics is smooth, for instance at the identity.
"""

import jax.numpy as jnp

from .small import cross, dot, mm, skew


def quaternion_multiply(a, b):
    """Return the Hamilton product of two quaternions ``(4, ...)``."""
    w = a[0] * b[0] - dot(a[1:], b[1:])
    xyz = a[0] * b[1:] + b[0] * a[1:] + cross(a[1:], b[1:])
    return jnp.concatenate([w[None], xyz])


def quaternion_conjugate(a):
    """Return the inverse of a unit quaternion."""
    return jnp.concatenate([a[:1], -a[1:]])


def quaternion_normalize(a):
    """Return ``a`` divided by its length."""
    return a / jnp.sqrt((a * a).sum(0))


def matrix_from_quaternion(a):
    """Return the rotation matrix ``(3, 3, ...)`` of a unit quaternion."""
    w, x, y, z = a[0], a[1], a[2], a[3]
    return jnp.stack(
        [
            jnp.stack([1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)]),
            jnp.stack([2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)]),
            jnp.stack([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)]),
        ]
    )


def turn_from_quaternion(a):
    """Return the rotation matrix of a unit quaternion minus the identity, to the last digit of a small rotation."""
    k = skew(a[1:])
    return 2 * (a[0] * k + mm(k, k))


def quaternion_from_matrix(r):
    """Return the unit quaternion of a rotation matrix, from the largest of its components (Shepperd 1978)."""
    t0, t1, t2 = r[0, 0], r[1, 1], r[2, 2]
    four_squares = jnp.stack([1 + t0 + t1 + t2, 1 + t0 - t1 - t2, 1 - t0 + t1 - t2, 1 - t0 - t1 + t2])
    best = jnp.argmax(four_squares, axis=0)
    wx, wy, wz = r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1]
    xy, xz, yz = r[1, 0] + r[0, 1], r[0, 2] + r[2, 0], r[2, 1] + r[1, 2]
    rows = [
        jnp.stack([four_squares[0], wx, wy, wz]),
        jnp.stack([wx, four_squares[1], xy, xz]),
        jnp.stack([wy, xy, four_squares[2], yz]),
        jnp.stack([wz, xz, yz, four_squares[3]]),
    ]
    a = rows[0]
    for k in (1, 2, 3):
        a = jnp.where(best == k, rows[k], a)
    return quaternion_normalize(a)


def sinc_half(angle2):
    """Return sin(θ/2)/θ and cos(θ/2) as smooth functions of θ²."""
    small = angle2 < 1e-6
    angle = jnp.sqrt(jnp.where(small, 1.0, angle2))
    series = 0.5 - angle2 / 48 + angle2 * angle2 / 3840
    cos_series = 1 - angle2 / 8 + angle2 * angle2 / 384
    return (
        jnp.where(small, series, jnp.sin(angle / 2) / angle),
        jnp.where(small, cos_series, jnp.cos(angle / 2)),
    )


def quaternion_exp(rotvec):
    """Return the unit quaternion of a rotation vector ``(3, ...)``."""
    s, c = sinc_half(dot(rotvec, rotvec))
    return jnp.concatenate([c[None], s * rotvec])


def quaternion_log(a):
    """Return the rotation vector, of length at most π, of a unit quaternion."""
    a = jnp.where(a[0] < 0, -a, a)
    n2 = dot(a[1:], a[1:])
    small = n2 < 1e-8 * a[0] * a[0]
    n = jnp.sqrt(jnp.where(small, 1.0, n2))
    w = jnp.where(small, a[0], 1.0)
    t2 = n2 / (w * w)
    series = 2 / w * (1 - t2 / 3 + t2 * t2 / 5)
    return jnp.where(small, series, 2 * jnp.arctan2(n, a[0]) / n) * a[1:]


def rotate(a, x):
    """Return the vector ``x`` rotated by the unit quaternion ``a``."""
    t = 2 * cross(a[1:], x)
    return x + a[0] * t + cross(a[1:], t)
