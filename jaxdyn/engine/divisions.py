"""cbrt, remainders and nextafter, which need iterations or the order of floats as integers."""

from .floats import Floats
from .ops import Type
from .program import Program

#: coefficients, in powers of x, of x to the power -1/3 between 1/2 and 4, within 0.3 %
INVERSE_ROOT = (1.7952596, -1.5035204, 1.0272192, -0.3891735, 0.07450666, -0.0056203287)


def cbrt(p: Program, x: int) -> int:
    f = Floats(p, x)
    fraction, bias = f.format.fraction, f.format.bias
    size = p.abs_(x)
    # scale by 2 to a multiple of three; a third of this exponent is subtracted in the end
    zeros = 3 * (fraction // 3 + 1)
    tiny = p.lt(size, f.number(2.0 ** (1 - bias)))
    field = f.bits(p.select(tiny, p.mul(size, f.number(2.0**zeros)), size))
    # x = 8ᵏ m with m from 1/2 to 4; the quotient by 3 is exact up to 2¹⁵
    n = p.convert(p.shr(field, f.integer(fraction)), Type.int32)
    small = lambda value: p.constant(value, Type.int32)  # noqa: E731
    k = p.shr(p.mul(p.add(n, small(1 + 3 * 2048 - bias)), small(21846)), small(16))
    k = p.convert(p.sub(k, small(2048)), f.format.integer)
    m = f.from_bits(p.sub(field, p.shl(p.mul(k, f.integer(3)), f.integer(fraction))))
    y = f.horner(m, INVERSE_ROOT)
    for _ in range(f.of((2, 3))):
        rest = f.fma(p.neg(p.mul(m, p.mul(y, y))), y, f.number(1))
        y = f.fma(p.mul(y, f.number(1 / 3)), rest, y)
    square = p.mul(y, y)
    root = p.mul(m, square)
    # one Newton step with an exact cube
    again = p.mul(root, root)
    lost = f.fma(root, root, p.neg(again))
    rest = f.fma(lost, root, f.fma(again, root, p.neg(m)))
    root = f.fma(p.mul(square, f.number(-1 / 3)), rest, root)
    k = p.sub(k, p.select(tiny, f.integer(zeros // 3), f.integer(0)))
    value = f.signed(p.mul(root, f.power(p.add(k, f.integer(bias)))), f.sign(x))
    usual = p.and_(p.lt(f.number(0), size), p.lt(size, f.number(float("inf"))))
    return p.select(usual, value, x)


def rem(p: Program, x: int, y: int) -> int:
    """Return the remainder of the division rounded towards zero, with the sign of x."""
    if not Type(p.type_of(x)).floating:
        return p.sub(x, p.mul(p.div(x, y), y))
    f = Floats(p, x)
    zero, infinity = f.number(0), f.number(float("inf"))
    size, by = p.abs_(x), p.abs_(y)
    usual = p.and_(p.lt(size, infinity), p.lt(zero, by))
    # multiples of y, for which the quotient stays finite
    step = f.number(f.of((2.0**100, 2.0**1000)))
    more = p.mul(by, step)
    most = p.mul(more, step)
    loop = p.loop([p.select(usual, size, zero)])
    (r,) = loop.carries
    rest = p.abs_(r)
    unit = p.select(p.le(most, rest), most, p.select(p.le(more, rest), more, by))
    # the remainder of a quotient rounded to nearest is exact
    quotient = p.rint(p.div(r, unit))
    (r,) = p.close(loop, p.le(by, rest), [f.fma(p.neg(quotient), unit, r)])
    r = p.select(p.lt(r, zero), p.add(r, by), r)
    value = p.select(usual, r, f.number(float("nan")))
    value = p.select(p.and_(p.lt(size, infinity), p.eq(by, infinity)), size, value)
    return f.signed(value, f.sign(x))


def nextafter(p: Program, x: int, y: int) -> int:
    """Return the float next to x in the direction of y."""
    f = Floats(p, x)
    zero = f.number(0)
    bits = f.bits(x)
    # larger bits mean further from zero
    away = p.xor(p.lt(x, y), p.lt(x, zero))
    moved = f.from_bits(p.add(bits, p.select(away, f.integer(1), f.integer(-1))))
    least = f.from_bits(p.or_(f.sign(y), f.integer(1)))
    moved = p.select(p.eq(x, zero), least, moved)
    moved = p.select(p.eq(x, y), y, moved)
    return p.select(p.and_(p.eq(x, x), p.eq(y, y)), moved, p.add(x, y))
