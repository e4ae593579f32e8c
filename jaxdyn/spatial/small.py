"""3x3 algebra on component-first arrays: a vector is ``(3, ...)``, a matrix ``(3, 3, ...)``.

The trailing axes (lanes of a batch) broadcast as in NumPy, and may be absent. Products are single operations of the
traced code, see `bilinear.py`. For XLA they are sums of outer slices: on a CPU this vectorises over the lanes and
runs several times faster than ``einsum`` on small matrices.
"""

import jax.numpy as jnp

from .bilinear import contraction, form


def _cross(x, y):
    return jnp.stack([x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0]])


def _times_skew(a, r):
    return jnp.stack(
        [a[:, 1] * r[2] - a[:, 2] * r[1], a[:, 2] * r[0] - a[:, 0] * r[2], a[:, 0] * r[1] - a[:, 1] * r[0]], 1
    )


#: A B
mm = contraction("ik,kj->ij", lambda a, b: summed(a[:, k, None] * b[None, k] for k in range(3)))
#: A Bᵀ
mmt = contraction("ik,jk->ij", lambda a, b: summed(a[:, k, None] * b[None, :, k] for k in range(3)))
#: Aᵀ B
mtm = contraction("ki,kj->ij", lambda a, b: summed(a[k, :, None] * b[k, None] for k in range(3)))
#: A x
mv = contraction("ij,j->i", lambda a, x: summed(a[:, k] * x[k] for k in range(3)))
#: Aᵀ x
mtv = contraction("ji,j->i", lambda a, x: summed(a[k] * x[k] for k in range(3)))
#: x · y
dot = contraction("i,i->", lambda x, y: summed(x[k] * y[k] for k in range(3)))
#: x yᵀ
outer = contraction("i,j->ij", lambda x, y: x[:, None] * y[None])
#: x y of a number and a vector
scaled = contraction(",i->i", lambda x, y: x[None] * y)

_EVEN = [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
_SIGNED = [(i, j, k, 1) for i, j, k in _EVEN] + [(i, k, j, -1) for i, j, k in _EVEN]
#: x × y
cross = form((3,), (3,), (3,), _SIGNED, _cross)
#: A skew(r)
times_skew = form(
    (3, 3),
    (3,),
    (3, 3),
    [(3 * a + o, 3 * a + i, j, s) for o, i, j, s in _SIGNED for a in range(3)],
    _times_skew,
)
#: skew(r) Aᵀ
skew_times_transpose = form(
    (3,),
    (3, 3),
    (3, 3),
    [(3 * o + a, i, 3 * a + j, s) for o, i, j, s in _SIGNED for a in range(3)],
    lambda r, a: _cross(r, (a[:, 0], a[:, 1], a[:, 2])),
)
#: skew(r) A
skew_times = form(
    (3,), (3, 3), (3, 3), [(3 * o + a, i, 3 * j + a, s) for o, i, j, s in _SIGNED for a in range(3)], _cross
)


def summed(terms):
    """Return the sum of an iterable of arrays, without a leading zero."""
    terms = iter(terms)
    total = next(terms)
    for term in terms:
        total = total + term
    return total


def composed(outer, inner):
    """Return the pose (R, p) in which `outer` sees what has the pose `inner` in its axes."""
    (R, p), (E, r) = outer, inner
    return mm(R, E), p + mv(R, r)


def transpose(a):
    """Return Aᵀ."""
    return jnp.swapaxes(a, 0, 1)


def skew(x):
    """Return the matrix of ``y -> x × y``."""
    zero = jnp.zeros_like(x[0])
    return jnp.stack(
        [
            jnp.stack([zero, -x[2], x[1]]),
            jnp.stack([x[2], zero, -x[0]]),
            jnp.stack([-x[1], x[0], zero]),
        ]
    )


def eye(like):
    """Return the identity (3, 3, 1, ...) with as many trailing axes as the vector ``like`` has."""
    return jnp.eye(3, dtype=like.dtype).reshape((3, 3) + (1,) * (like.ndim - 1))
