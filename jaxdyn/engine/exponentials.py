"""exp and related functions: a power of two times exp of a number up to log(2)/2, computed from hyperbolic sine and
cosine."""

import dataclasses

from .floats import Floats
from .program import Program

#: log 2 in two parts
LOG2 = ((0.6931472, -1.9046542e-09), (0.6931471805599453, 2.3190468138462996e-17))
#: 1 / log 2
PER_LOG2 = 1.4426950408889634
#: exp of smaller numbers is 0
LEAST = (-104.0, -746.0)
#: (sinh x / x - 1) / x², in powers of x²
SINE = (
    (0.16666667, 0.008333178, 0.00019970548),
    (
        0.1666666666666668,
        0.008333333333318831,
        0.00019841269893968247,
        2.755723569129658e-06,
        2.5112186479755898e-08,
    ),
)
#: ((cosh x - 1) / x² - 1/2) / x², in powers of x²
COSINE = (
    (0.04166644, 0.0013937472),
    (
        0.04166666666666669,
        0.0013888888888868756,
        2.4801587359226616e-05,
        2.755724266221372e-07,
        2.0924731225665096e-09,
    ),
)


@dataclasses.dataclass(frozen=True)
class Parts:
    """The decomposition exp(x) = 2ⁿ (1 + sinh r + (cosh r - 1)) with a small number r. `main` and `rest` add up to sinh
    r; `more` is cosh r - 1 as two factors; `bits` holds n in the low bits of an integer."""

    f: Floats
    bits: int
    main: int
    rest: int
    more: tuple[int, int]

    def less_one(self) -> int:
        """Return exp r - 1, minus `main`."""
        return self.f.fma(*self.more, self.rest)


def _parts(f: Floats, x: int, low: int | None = None) -> Parts:
    """Return the parts of x + low."""
    n, bits = f.nearest(x, PER_LOG2)
    first, second = (f.number(-part) for part in f.of(LOG2))
    tail = f.p.mul(n, second)
    return _series(f, bits, f.fma(n, first, x), tail if low is None else f.p.add(tail, low))


def _series(f: Floats, bits: int, main: int, tail: int) -> Parts:
    p = f.p
    r = p.add(main, tail)
    z = p.mul(r, r)
    rest = f.fma(p.mul(z, r), f.horner(z, f.of(SINE)), tail)
    return Parts(f, bits, main, rest, (z, f.fma(z, f.horner(z, f.of(COSINE)), f.number(0.5))))


def _scaled(e: Parts) -> int:
    """Return exp x, with the power of two as two factors, so that neither overflows or underflows before the product
    does."""
    f, p = e.f, e.f.p
    value = p.add(f.number(1), p.add(e.main, e.less_one()))
    n = f.exponent(e.bits, 2 * f.format.bias)
    half = p.shr(n, f.integer(1))
    return p.mul(p.mul(value, f.power(half)), f.power(p.sub(n, half)))


def exp(p: Program, x: int, low: int | None = None) -> int:
    """Return exp(x + low); `low` is much smaller than 1."""
    f = Floats(p, x)
    x = f.at_least(f.at_most(x, f.of((89.0, 710.0))), f.of(LEAST))
    return _scaled(_parts(f, x, low))


def exp2(p: Program, x: int) -> int:
    f = Floats(p, x)
    x = f.at_least(f.at_most(x, f.of((129.0, 1025.0))), f.of((-151.0, -1076.0)))
    n, bits = f.nearest(x, 1.0)
    part = p.sub(x, n)
    first, second = (f.number(c) for c in f.of(LOG2))
    return _scaled(_series(f, bits, p.mul(part, first), p.mul(part, second)))


def expm1(p: Program, x: int) -> int:
    f = Floats(p, x)
    x = f.at_least(f.at_most(x, f.of((89.0, 710.0))), f.of((-18.0, -38.0)))
    e = _parts(f, x)
    n = f.exponent(e.bits, 0)
    # half of the power of two, which does not overflow
    half = f.power(p.add(n, f.integer(f.format.bias - 1)))
    less = e.less_one()
    large = f.fma(half, less, f.fma(half, e.main, p.sub(half, f.number(0.5))))
    return p.select(p.eq(n, f.integer(0)), p.add(e.main, less), p.add(large, large))


def _halves(f: Floats, x: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return half of sinh and half of cosh of a number that is not negative, up to where sinh overflows.

    Each is the sum of a large part and a small one; the third number is the large part's rounding error.
    """
    p = f.p
    e = _parts(f, x)
    bias = f.format.bias
    n = f.exponent(e.bits, bias - 2)
    a = f.power(n)
    b = f.power(p.max_(p.sub(f.integer(2 * bias - 4), n), f.integer(0)))
    plus, minus = p.add(a, b), p.sub(a, b)
    plus_lost, minus_lost = p.add(p.sub(a, plus), b), p.sub(p.sub(a, minus), b)
    more = p.mul(*e.more)

    def half(a, b, lost):
        large = f.fma(a, e.main, b)
        return large, f.fma(b, more, p.mul(a, e.rest)), p.add(f.fma(a, e.main, p.sub(b, large)), lost)

    return half(plus, minus, minus_lost), half(minus, plus, plus_lost)


def sinh(p: Program, x: int) -> int:
    f = Floats(p, x)
    size = p.abs_(x)
    (*parts, _), _ = _halves(f, f.at_most(size, f.of((89.5, 710.6))))
    half = p.add(*parts)
    return _odd(f, x, size, p.add(half, half))


def cosh(p: Program, x: int) -> int:
    f = Floats(p, x)
    _, (large, small, lost) = _halves(f, f.at_most(p.abs_(x), f.of((89.5, 710.6))))
    half = p.add(large, p.add(small, lost))
    return p.add(half, half)


def tanh(p: Program, x: int) -> int:
    f = Floats(p, x)
    size = p.abs_(x)
    s, c = _halves(f, f.at_most(size, f.of((10.0, 22.0))))
    s, c = (f.sum(large, p.add(small, lost)) for large, small, lost in (s, c))
    return _odd(f, x, size, f.ratio(s, c))


def _odd(f: Floats, x: int, size: int, value: int) -> int:
    """Return `value` with the sign of x, or x itself if it is so small that both are equal."""
    small = f.p.lt(size, f.number(f.of((2.0**-12, 2.0**-26))))
    return f.signed(f.p.select(small, size, value), f.sign(x))


def logistic(p: Program, x: int) -> int:
    f = Floats(p, x)
    one, zero = f.number(1), f.number(0)
    e = _scaled(_parts(f, f.at_least(p.neg(p.abs_(x)), f.of(LEAST))))
    return f.ratio((p.select(p.lt(x, zero), e, one), zero), f.sum(one, e))
