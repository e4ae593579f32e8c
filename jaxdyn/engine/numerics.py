"""Elementary functions, built from the program's arithmetic, so that their bits are the same everywhere.

`FUNCTIONS` maps names of JAX primitives to functions of a program and values. Errors are at most two units in the last
place for float32 and float64, also for denormal results. Infinities and NaN are treated as in C.
"""

from collections.abc import Callable

from . import arcs, divisions, exponentials, logarithms, trigonometry
from .floats import Floats
from .ops import Type
from .program import Program


def square(p: Program, x: int) -> int:
    return p.mul(x, x)


def integer_pow(p: Program, x: int, y: int) -> int:
    """Return x to a known integer power, by repeated squaring."""
    one = p.constant(1, Type(p.type_of(x)))
    if y == 0:
        return one
    n, found = abs(y), None
    while n:
        if n & 1:
            found = x if found is None else p.mul(found, x)
        n >>= 1
        if n:
            x = p.mul(x, x)
    assert found is not None
    return p.div(one, found) if y < 0 else found


def rsqrt(p: Program, x: int) -> int:
    return p.div(p.constant(1, Type(p.type_of(x))), p.sqrt(x))


def sign(p: Program, x: int) -> int:
    t = Type(p.type_of(x))
    zero, one = p.constant(0, t), p.constant(1, t)
    if t in (Type.uint32, Type.uint64):
        return p.select(p.eq(x, zero), zero, one)
    return p.select(p.lt(zero, x), one, p.select(p.lt(x, zero), p.neg(one), x))


def ceil(p: Program, x: int) -> int:
    return p.neg(p.floor(p.neg(x)))


def round_(p: Program, x: int) -> int:
    """Return the nearest integer, with halves rounded away from zero."""
    f = Floats(p, x)
    size = p.abs_(x)
    low = p.floor(size)
    up = p.le(f.number(0.5), p.sub(size, low))
    return f.signed(p.select(up, p.add(low, f.number(1)), low), f.sign(x))


def is_finite(p: Program, x: int) -> int:
    f = Floats(p, x)
    return p.lt(p.abs_(x), f.number(float("inf")))


FUNCTIONS: dict[str, Callable] = {
    "sin": trigonometry.sin,
    "cos": trigonometry.cos,
    "tan": trigonometry.tan,
    "atan": arcs.atan,
    "atan2": arcs.atan2,
    "asin": arcs.asin,
    "acos": arcs.acos,
    "sinh": exponentials.sinh,
    "cosh": exponentials.cosh,
    "tanh": exponentials.tanh,
    "asinh": logarithms.asinh,
    "acosh": logarithms.acosh,
    "atanh": logarithms.atanh,
    "exp": exponentials.exp,
    "exp2": exponentials.exp2,
    "expm1": exponentials.expm1,
    "logistic": exponentials.logistic,
    "log": logarithms.log,
    "log1p": logarithms.log1p,
    "pow": logarithms.pow_,
    "cbrt": divisions.cbrt,
    "rem": divisions.rem,
    "nextafter": divisions.nextafter,
    "square": square,
    "integer_pow": integer_pow,
    "rsqrt": rsqrt,
    "sign": sign,
    "ceil": ceil,
    "round": round_,
    "is_finite": is_finite,
}
