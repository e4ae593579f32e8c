"""Finds the numbers of a parameter that are exactly 0, 1 or -1.

Most parameters of a robot are such numbers: axes, rotations between joints, symmetric inertias. A program that knows
them leaves out half of its operations or more. All other numbers stay operands, so that they can change and have
derivatives.
"""

import contextlib
import functools
import weakref
from collections.abc import Sequence

import jax
import numpy as np

#: the values that a number can be known to have; `ANY` means any other value
ZERO, ONE, MINUS, ANY = range(4)

_found: dict[int, tuple[weakref.ref, bytes]] = {}
#: of traced arrays, by their id
_told: dict[int, bytes] = {}


def of(leaf) -> bytes:
    """Return a byte for each number: `ZERO`, `ONE`, `MINUS` or `ANY`. All numbers of a traced array are `ANY`, unless
    they are `told`."""
    if isinstance(leaf, jax.core.Tracer):
        return _told.get(id(leaf)) or any_of(leaf.size)
    if not isinstance(leaf, jax.Array):  # mutable, so not cached
        return _look(np.asarray(leaf))
    key = id(leaf)
    known = _found.get(key)
    if known is None or known[0]() is not leaf:
        known = _found[key] = (weakref.ref(leaf, lambda _, key=key: _found.pop(key, None)), _look(np.asarray(leaf)))
    return known[1]


@functools.lru_cache(64)
def any_of(size: int) -> bytes:
    """Return bytes for so many numbers that say nothing of them."""
    return bytes([ANY]) * size


@contextlib.contextmanager
def told(leaves: Sequence, known: Sequence[bytes | None]):
    """Tell what is known of traced arrays, until the context ends. Contexts may tell of the same array in each other,
    as without `jit` they do."""
    mine = {id(x): k for x, k in zip(leaves, known, strict=True) if k is not None and isinstance(x, jax.core.Tracer)}
    before = {key: _told[key] for key in mine if key in _told}
    _told.update(mine)
    try:
        yield
    finally:
        for key in mine:
            del _told[key]
        _told.update(before)


def _look(x: np.ndarray) -> bytes:
    out = np.full(x.size, ANY, np.uint8)
    if x.dtype.kind == "f":
        x = x.ravel()
        out[x == 0], out[x == 1], out[x == -1] = ZERO, ONE, MINUS
    return out.tobytes()
