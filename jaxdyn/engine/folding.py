"""Operations on constants."""

import numpy as np

from .ops import Op, Type

FOLD = {
    Op.add: lambda x, y: x + y,
    Op.sub: lambda x, y: x - y,
    Op.mul: lambda x, y: x * y,
    Op.div: lambda x, y: x / y if x.dtype.kind == "f" else _quotient(x, y),
    Op.neg: lambda x, _: -x,
    Op.sqrt: lambda x, _: np.sqrt(x),
    Op.abs_: lambda x, _: abs(x),
    Op.rint: lambda x, _: np.rint(x),
    Op.floor: lambda x, _: np.floor(x),
    Op.max_: lambda x, y: np.maximum(x, y),
    Op.min_: lambda x, y: np.minimum(x, y),
    Op.lt: lambda x, y: x < y,
    Op.le: lambda x, y: x <= y,
    Op.eq: lambda x, y: x == y,
    Op.ne: lambda x, y: x != y,
    Op.and_: lambda x, y: x & y,
    Op.or_: lambda x, y: x | y,
    Op.xor: lambda x, y: x ^ y,
    Op.not_: lambda x, _: ~x,
    Op.shl: lambda x, y: x << y,
    Op.shr: lambda x, y: x >> y,
}


def _quotient(x, y):
    """Return the quotient of integers, rounded towards zero. As in XLA, division by zero gives -1, and overflow wraps
    around."""
    found = -1 if y == 0 else abs(int(x)) // abs(int(y)) * (1 if (x < 0) == (y < 0) else -1)
    return np.array(found).astype(x.dtype)[()]


def converted(x, t: Type):
    """Return numbers converted to type t. A float outside its range becomes the nearest number of the range, NaN
    becomes zero."""
    if x.dtype.kind != "f" or t.floating or t == Type.bool_:
        return x.astype(t.dtype)
    info = np.iinfo(t.dtype)
    return 0 if np.isnan(x) else info.min if x <= info.min else info.max if x >= info.max else int(x)
