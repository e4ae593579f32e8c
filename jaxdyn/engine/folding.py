"""Operations on constants, and products that cancel a quotient."""

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


def undone(program, x: int, y: int) -> int | None:
    """Return u if the product of the values x and y is p and u (1 / p), in either order, else None."""
    if x < 0 or y < 0:
        return None
    op, a, b = program.op, program.a, program.b
    for p, scaled in ((x, y), (y, x)):
        if op[scaled] == Op.div and _inverse(program, scaled, p):
            return a[scaled]
        if op[scaled] == Op.mul:
            for u, r in ((a[scaled], b[scaled]), (b[scaled], a[scaled])):
                if r >= 0 and op[r] == Op.div and _inverse(program, r, p):
                    return u
    return None


def _inverse(program, r: int, p: int) -> bool:
    """Return whether r is the quotient 1 / p of floats."""
    one = program.value(program.a[r])
    return program.b[r] == p and one is not None and one == 1 and Type(program.type[r]).floating


def converted(x, t: Type):
    """Return numbers converted to type t. A float outside the range of t becomes the nearest number in the range; NaN
    becomes zero."""
    if x.dtype.kind != "f" or t.floating or t == Type.bool_:
        return x.astype(t.dtype)
    info = np.iinfo(t.dtype)
    return 0 if np.isnan(x) else info.min if x <= info.min else info.max if x >= info.max else int(x)
