"""Which numbers of a parameter are exactly 0, 1 or -1.

Most of a robot's parameters are: axes, rotations between joints, symmetric inertias. A program that knows them leaves
out what they make superfluous, half of it and more. Other values stay operands, so that they can change and carry
derivatives.
"""

import weakref

import jax
import numpy as np

#: what a number may be known to be; anything else is `ANY`
ZERO, ONE, MINUS, ANY = range(4)

_found: dict[int, tuple[weakref.ref, bytes]] = {}


def of(leaf) -> bytes:
    """A byte for every number: `ZERO`, `ONE`, `MINUS`, or `ANY`, which is all that a traced array tells."""
    if isinstance(leaf, jax.core.Tracer):
        return bytes([ANY]) * leaf.size
    if not isinstance(leaf, jax.Array):  # may be written to
        return _look(np.asarray(leaf))
    key = id(leaf)
    known = _found.get(key)
    if known is None or known[0]() is not leaf:
        known = _found[key] = (weakref.ref(leaf, lambda _, key=key: _found.pop(key, None)), _look(np.asarray(leaf)))
    return known[1]


def _look(x: np.ndarray) -> bytes:
    out = np.full(x.size, ANY, np.uint8)
    if x.dtype.kind == "f":
        x = x.ravel()
        out[x == 0], out[x == 1], out[x == -1] = ZERO, ONE, MINUS
    return out.tobytes()
