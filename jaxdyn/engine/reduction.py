"""Argument reduction of angles so large that subtracting a few products is not accurate (Payne and Hanek's method).

It splits an angle into a multiple of a right angle and a remainder. Of the quotient by a right angle only the part
modulo four matters, so only a few words of 2/π are needed, and the angle's exponent selects them. The arithmetic is in
integers modulo 2⁶⁴, except for the last step (`_angle`), which is in doubles.
"""

from .floats import Floats
from .ops import Type
from .program import Program

#: 2/π, its first bit worth 1/2
BITS = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e006492eea09d1921cfe1deb1cb129a73ee8"
    "8235f52ebb4484e99c7026b45f7e413991d639835339f49c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f46"
    "3f669e5fea2d7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046",
    16,
)
WIDTH = BITS.bit_length()
#: zeros before the first bit of 2/π, and what to subtract from an argument's exponent field to find the first bit
#: needed
LEAD = (16, 32)
SHIFT = (136, 1045)
#: a right angle in units of 2⁻⁶², in two parts
UNIT = (1.5707963267948966 * 2.0**-62, 6.123233995736766e-17 * 2.0**-62)


def huge(p: Program, x: int, tail: bool) -> list[int]:
    """Return [angle between -45 and 45 degrees, number of right angles in the low two bits] of a large angle; NaN for
    infinity.

    With `tail`, also return the angle's rounding error.
    """
    f = Floats(p, x)
    u = lambda value: p.constant(value, Type.uint64)  # noqa: E731
    fraction = f.format.fraction
    bits = p.convert(p.bits(p.abs_(x), f.of((Type.uint32, Type.uint64))), Type.uint64)
    field = p.sub(p.shr(bits, u(fraction)), u(f.of(SHIFT)))
    mantissa = p.or_(p.and_(bits, u(2**fraction - 1)), u(2**fraction))
    words = _window(p, field, f.of(LEAD), f.of((1, 4)), f.of((2, 3)))
    top, rest = _product(p, mantissa, words)
    whole = p.shr(p.add(top, u(1 << 61)), u(62))
    part = p.convert(p.sub(top, p.shl(whole, u(62))), Type.int64)
    angle = _angle(p, part, rest)
    if not f.double:
        first = p.convert(angle[0], Type.float32)
        angle = [first, p.convert(p.sub(angle[0], p.convert(first, Type.float64)), Type.float32)]
    sign = f.sign(x)
    r, lost = (f.signed(v, sign) for v in angle)
    r = p.select(p.lt(p.abs_(x), f.number(float("inf"))), r, f.number(float("nan")))
    count = p.convert(whole, f.format.integer)
    count = p.select(p.eq(sign, f.integer(0)), count, p.sub(f.integer(0), count))
    return [r, count, lost] if tail else [r, count]


def _window(p: Program, field: int, lead: int, choices: int, size: int) -> list[int]:
    """Return `size` words of 2/π, from the bit `field` on. `choices` is the number of bits that count the whole words
    before."""
    u = lambda value: p.constant(value, Type.uint64)  # noqa: E731
    steps = [1, 2, 4, 8][:choices]
    count = sum(steps) + size + 1
    text = BITS >> (WIDTH + lead - 64 * count)
    words = [u((text >> (64 * k)) & (2**64 - 1)) for k in reversed(range(count))]
    for step in reversed(steps):
        chosen = p.ne(p.and_(field, u(64 * step)), u(0))
        words = [p.select(chosen, b, a) for a, b in zip(words, words[step:], strict=False)]
    shift = p.and_(field, u(63))
    back = p.sub(u(63), shift)
    return [
        p.or_(p.shl(a, shift), p.shr(p.shr(b, u(1)), back))
        for a, b in zip(words[:size], words[1 : size + 1], strict=True)
    ]


def _product(p: Program, m: int, words: list[int]) -> tuple[int, int | None]:
    """Return two words of the product, the first modulo 2⁶⁴. With two words of 2/π the second is None."""
    u = lambda value: p.constant(value, Type.uint64)  # noqa: E731
    low = lambda v: p.and_(v, u(2**32 - 1))  # noqa: E731
    high = lambda v: p.shr(v, u(32))  # noqa: E731
    if len(words) == 2:
        return p.add(p.mul(m, words[0]), high(p.mul(m, high(words[1])))), None
    first, second, third = words
    mh, ml = high(m), low(m)
    h, l = high(third), low(third)
    tail = p.add(p.mul(mh, h), p.add(high(p.mul(ml, h)), high(p.mul(mh, l))))
    h, l = high(second), low(second)
    inner = p.add(p.mul(ml, h), high(p.mul(ml, l)))
    other = p.add(p.mul(mh, l), low(inner))
    upper = p.add(p.mul(mh, h), p.add(high(inner), high(other)))
    rest = p.add(p.mul(m, second), tail)
    carry = p.convert(p.lt(rest, tail), Type.uint64)
    return p.add(p.add(p.mul(m, first), upper), carry), rest


def _angle(p: Program, part: int, rest: int | None) -> list[int]:
    """Return [the angle that both words represent, its rounding error] as doubles."""
    whole = p.convert(part, Type.float64)
    f = Floats(p, whole)
    if rest is None:
        return [p.mul(whole, f.number(UNIT[0]))]
    # split into a number of 53 bits, and the rest of the first word with the second
    left = p.and_(part, p.constant(2**10 - 1, Type.int64))
    a = p.convert(p.sub(part, left), Type.float64)
    b = f.fma(p.convert(rest, Type.float64), f.number(2.0**-64), p.convert(left, Type.float64))
    big, small = f.sum(a, b)
    product = p.mul(big, f.number(UNIT[0]))
    lost = f.fma(big, f.number(UNIT[0]), p.neg(product))
    return list(f.sum(product, f.fma(big, f.number(UNIT[1]), f.fma(small, f.number(UNIT[0]), lost))))
