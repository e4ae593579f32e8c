"""log and related functions: the exponent times log 2, plus the logarithm of a number between √½ and √2."""

from .exponentials import LOG2, exp
from .floats import Floats
from .ops import Type
from .program import Program

#: (log((1 + s) / (1 - s)) / s - 2) / s², in powers of s²
SERIES = (
    (0.6666678, 0.3997679, 0.2989352),
    (
        0.666666666666674,
        0.3999999999937658,
        0.2857142875164139,
        0.2222219755010004,
        0.18183621043363785,
        0.15312514485622758,
        0.14812120515327318,
    ),
)
#: the same minus 2/3, divided by 2 s²
FURTHER = (
    0.19999999999999987,
    0.14285714285723522,
    0.11111111108541004,
    0.09090909461685873,
    0.07692276721309589,
    0.0666822128007195,
    0.05836198883276654,
    0.06004424769809925,
)
THIRD = (0.3333333333333333, 1.850371707708594e-17)
#: log 2 in two parts; the first one times an exponent is exact
EXACT_LOG2 = (0.6931471805598903, 5.497923018708371e-14)


def _split(f: Floats, x: int) -> tuple[int, int]:
    """Return (n, m) with x = 2ⁿ m, for x that is positive and not denormal. n has an integer type."""
    p = f.p
    root = f.integer(f.of((0x3F3504F3, 0x3FE6A09E667F3BCD)))
    n = p.shr(p.sub(f.bits(x), root), f.integer(f.format.fraction))
    return n, f.from_bits(p.sub(f.bits(x), p.shl(n, f.integer(f.format.fraction))))


def _normal(f: Floats, x: int) -> tuple[int, int]:
    """Return (n, y) with x = 2ⁿ y, where y is not denormal if x is positive; n is a float."""
    p = f.p
    bits = f.format.fraction + 1
    tiny = p.lt(x, f.number(2.0 ** (1 - f.format.bias)))
    scaled = p.mul(x, f.number(2.0**bits))
    return p.select(tiny, f.number(-bits), f.number(0)), p.select(tiny, scaled, x)


def _number(f: Floats, n: int) -> int:
    """Return a small integer as a float. Processors have no vector instruction for integers of 64 bits."""
    return f.p.convert(f.p.convert(n, Type.int32), f.type)


def _log(f: Floats, n: int, a: int) -> int:
    """Return n log 2 + log(1 + a)."""
    p = f.p
    s = p.div(a, p.add(a, f.number(2)))
    z = p.mul(s, s)
    half = p.mul(p.mul(a, f.number(0.5)), a)
    first, second = (f.number(c) for c in f.of(LOG2))
    tail = f.fma(s, f.fma(z, f.horner(z, f.of(SERIES)), half), p.mul(n, second))
    return f.fma(n, first, p.sub(a, p.sub(half, tail)))


def _special(f: Floats, x: int, value: int) -> int:
    """Return `value`, or the value of log x if x is not positive or not finite."""
    p, zero, infinity = f.p, f.number(0), f.number(float("inf"))
    value = p.select(p.lt(x, infinity), value, x)
    value = p.select(p.lt(x, zero), f.number(float("nan")), value)
    return p.select(p.eq(x, zero), p.neg(infinity), value)


def log(p: Program, x: int) -> int:
    f = Floats(p, x)
    before, y = _normal(f, x)
    n, m = _split(f, y)
    return _special(f, x, _log(f, p.add(_number(f, n), before), p.sub(m, f.number(1))))


def log1p(p: Program, x: int, low: int | None = None) -> int:
    """Return log(1 + x + low); `low` is the rounding error of x."""
    f = Floats(p, x)
    one = f.number(1)
    u = p.add(x, one)
    less = p.sub(u, one)
    lost = p.add(p.sub(one, p.sub(u, less)), p.sub(x, less))
    lost = lost if low is None else p.add(lost, low)
    n, m = _split(f, u)
    # the power is 0 if it would underflow: the rounding error does not matter there
    back = f.power(p.max_(p.sub(f.integer(f.format.bias), n), f.integer(0)))
    a = f.fma(lost, back, p.sub(m, one))
    return _special(f, u, _log(f, _number(f, n), a))


def asinh(p: Program, x: int) -> int:
    f = Floats(p, x)
    one, size = f.number(1), p.abs_(x)
    square = p.mul(size, size)
    arm = p.add(one, p.sqrt(p.add(square, one)))
    value = _large(f, size, f.sum(size, p.div(square, arm)))
    return f.signed(value, f.sign(x))


def acosh(p: Program, x: int) -> int:
    f = Floats(p, x)
    t = p.sub(x, f.number(1))
    double = p.add(t, t)
    square = f.fma(t, t, double)
    root = p.sqrt(square)
    # the rounding errors of the root and of its square
    rest = p.add(f.fma(p.neg(root), root, square), f.fma(t, t, p.sub(double, square)))
    rest = p.select(p.eq(root, f.number(0)), root, p.div(rest, p.add(root, root)))
    main, low = f.sum(root, t)
    value = _large(f, x, (main, p.add(low, rest)))
    return p.select(p.lt(x, f.number(1)), f.number(float("nan")), value)


def _large(f: Floats, x: int, y: tuple[int, int]) -> int:
    """Return log(1 + y), or log(2 x) if x is so large that both are equal and y may have overflowed."""
    p, zero = f.p, f.number(0)
    large = p.lt(f.number(f.of((2.0**30, 2.0**60))), x)
    value = log1p(p, p.select(large, x, y[0]), p.select(large, zero, y[1]))
    return p.add(value, p.select(large, f.number(f.of(LOG2)[0]), zero))


def atanh(p: Program, x: int) -> int:
    f = Floats(p, x)
    size, one = p.abs_(x), f.number(1)
    double, (rest, lost) = p.add(size, size), f.sum(one, p.neg(size))
    ratio = p.div(double, rest)
    # the ratio's rounding error: `low` divided by 1 - x, i.e. times 1 + ratio / 2
    back = p.neg(ratio)
    low = f.fma(back, lost, f.fma(back, rest, double))
    value = log1p(p, ratio, f.fma(low, p.mul(ratio, f.number(0.5)), low))
    return f.signed(p.mul(value, f.number(0.5)), f.sign(x))


def pow_(p: Program, x: int, y: int) -> int:
    """Return x to the power y, of x's type, with C's results if either is zero, infinite or NaN."""
    f = Floats(p, x)
    y = p.convert(y, f.type)
    size, one, zero = p.abs_(x), f.number(1), f.number(0)
    if f.double:
        value = _power(f, size, y)
    else:
        wide = p.mul(p.convert(y, Type.float64), log(p, p.convert(size, Type.float64)))
        value = p.convert(exp(p, wide), f.type)
    certain = p.or_(p.eq(y, zero), p.and_(p.eq(size, one), p.or_(p.eq(x, one), p.eq(y, y))))
    value = p.select(certain, one, value)
    whole = p.eq(p.floor(y), y)
    half = p.mul(y, f.number(0.5))
    odd = p.and_(whole, p.ne(p.floor(half), half))
    value = p.select(p.and_(odd, f.negative(x)), p.neg(value), value)
    inside = p.and_(p.lt(x, zero), p.lt(size, f.number(float("inf"))))
    return p.select(p.and_(inside, p.not_(whole)), f.number(float("nan")), value)


def _power(f: Floats, x: int, y: int) -> int:
    """Return exp(y log x) of doubles, with the logarithm in two parts."""
    p = f.p
    one, two = f.number(1), f.number(2)
    before, scaled = _normal(f, x)
    n, m = _split(f, scaled)
    n = p.add(_number(f, n), before)
    # log m = 2 artanh(s), s = (m - 1) / (m + 1) in two parts
    a, d = p.sub(m, one), p.add(m, one)
    s = p.div(a, d)
    back = p.neg(s)
    s2 = p.div(f.fma(back, p.sub(m, p.sub(d, one)), f.fma(back, d, a)), d)
    # s² in two parts
    z = p.mul(s, s)
    z2 = f.fma(p.mul(s, two), s2, f.fma(s, s, p.neg(z)))
    # s² (1/3 + s² ...) in two parts
    u = p.mul(z, f.horner(z, FURTHER))
    third = f.number(THIRD[0])
    v = p.add(third, u)
    v2 = p.add(p.add(p.sub(third, v), u), f.number(THIRD[1]))
    w = p.mul(z, v)
    w2 = p.add(f.fma(z, v, p.neg(w)), f.fma(z, v2, p.mul(z2, v)))
    # 2 s (1 + that)
    main, t = p.mul(s, two), p.mul(s2, two)
    more = p.mul(main, w)
    more2 = p.add(f.fma(main, w, p.neg(more)), f.fma(main, w2, f.fma(t, w, t)))
    # add the exponent's part
    large = p.mul(n, f.number(EXACT_LOG2[0]))
    sum1 = p.add(large, main)
    lost1 = p.add(p.sub(large, sum1), main)
    sum2 = p.add(sum1, more)
    lost2 = p.add(p.sub(sum1, sum2), more)
    small = p.add(f.fma(n, f.number(EXACT_LOG2[1]), more2), p.add(lost1, lost2))
    h = p.add(sum2, small)
    rest = p.add(p.sub(sum2, h), small)
    h = _special(f, x, h)
    product = p.mul(y, h)
    low = f.fma(y, rest, f.fma(y, h, p.neg(product)))
    fine = p.lt(p.abs_(product), f.number(1000))
    return exp(p, product, p.select(fine, low, f.number(0)))
