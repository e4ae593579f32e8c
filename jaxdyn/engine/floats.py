"""Tools for elementary functions: constants, polynomials and bits of one float type in a program."""

import dataclasses
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from .ops import Type
from .program import Program


@dataclasses.dataclass(frozen=True)
class Format:
    """A float type: the integer type of the same size, the number of bits of the fraction, and the bias of the
    exponent."""

    integer: Type
    fraction: int
    bias: int


FORMATS = {Type.float32: Format(Type.int32, 23, 127), Type.float64: Format(Type.int64, 52, 1023)}


class Floats:
    """Arithmetic on numbers of x's type in a program. Constants that depend on the type are given as a pair, for
    float32 and for float64."""

    def __init__(self, p: Program, x: int):
        self.p, self.type = p, Type(p.type_of(x))
        self.format = FORMATS[self.type]
        self.double = self.type == Type.float64

    def of(self, pair: tuple):
        """Return the member of the pair for this type."""
        return pair[self.double]

    def number(self, value: float) -> int:
        return self.p.constant(value, self.type)

    def integer(self, value: int) -> int:
        return self.p.constant(value, self.format.integer)

    def fma(self, x: int, y: int, z: int) -> int:
        """Return x y + z, rounded once. It is a constant if all three are."""
        if x < 0 and y < 0 and z < 0:
            return self.number(_exactly(*(self.p.value(v) for v in (x, y, z))))
        return self.p.fma(x, y, z)

    def horner(self, x: int, coefficients: Sequence[float]) -> int:
        """Return the polynomial with these coefficients, lowest power first."""
        *rest, last = coefficients
        found = self.number(last)
        for c in reversed(rest):
            found = self.fma(found, x, self.number(c))
        return found

    def bits(self, x: int) -> int:
        return self.p.bits(x, self.format.integer)

    def from_bits(self, bits: int) -> int:
        return self.p.bits(bits, self.type)

    def sum(self, x: int, y: int) -> tuple[int, int]:
        """Return the sum of x and a smaller y, and its rounding error."""
        s = self.p.add(x, y)
        return s, self.p.add(self.p.sub(x, s), y)

    def any_sum(self, x: int, y: int) -> tuple[int, int]:
        """Return the sum and its rounding error, whichever number is larger."""
        p = self.p
        s = p.add(x, y)
        part = p.sub(s, x)
        return s, p.add(p.sub(x, p.sub(s, part)), p.sub(y, part))

    def ratio(self, x: tuple[int, int], y: tuple[int, int]) -> int:
        """Return the ratio of two numbers that are given with their rounding errors."""
        inverse = self.p.div(self.number(1), y[0])
        near = self.p.mul(x[0], inverse)
        back = self.p.neg(near)
        rest = self.p.add(self.fma(back, y[0], x[0]), self.fma(back, y[1], x[1]))
        return self.fma(rest, inverse, near)

    @property
    def magic(self) -> float:
        """A number whose unit in the last place is 1. Adding it to another number rounds that to an integer, found in
        the low bits of the sum."""
        return 1.5 * 2.0**self.format.fraction

    def nearest(self, x: int, factor: float) -> tuple[int, int]:
        """Return the integer nearest to x times the factor, as a number and in the low bits of an integer."""
        found = self.fma(x, self.number(factor), self.number(self.magic))
        return self.p.sub(found, self.number(self.magic)), self.bits(found)

    def exponent(self, bits: int, offset: int) -> int:
        """Return the integer in the low bits (from `nearest`) plus an offset, as an integer."""
        return self.p.sub(
            bits, self.integer(int(self.type.dtype.type(self.magic).view(self.of((np.int32, np.int64)))) - offset)
        )

    def power(self, field: int) -> int:
        """Return 2 to the power of (field - bias), for an integer field; 0 if the field is 0."""
        return self.from_bits(self.p.shl(field, self.integer(self.format.fraction)))

    def sign(self, x: int) -> int:
        """Return the sign bit alone."""
        return self.p.and_(self.bits(x), self.integer(-(2 ** (8 * self.type.bytes - 1))))

    def signed(self, x: int, sign: int) -> int:
        """Return x, negated if the sign bit is set."""
        return self.from_bits(self.p.xor(self.bits(x), sign))

    def negative(self, x: int) -> int:
        """Return whether the sign bit is set."""
        return self.p.lt(self.bits(x), self.integer(0))

    def at_most(self, x: int, bound: float) -> int:
        """Return the smaller number; NaN stays NaN."""
        bound_ = self.number(bound)
        return self.p.select(self.p.lt(bound_, x), bound_, x)

    def at_least(self, x: int, bound: float) -> int:
        """Return the larger number; NaN stays NaN."""
        bound_ = self.number(bound)
        return self.p.select(self.p.lt(x, bound_), bound_, x)


def _exactly(x, y, z):
    """Return x y + z of finite numbers, rounded once."""
    if not (np.isfinite(x) and np.isfinite(y) and np.isfinite(z)):
        with np.errstate(all="ignore"):
            return x * y + z
    exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
    try:
        near = np.float64(float(exact))
    except OverflowError:
        return np.inf if exact > 0 else -np.inf
    if x.dtype == np.float32 and Fraction(float(near)) != exact and not near.view(np.int64) & 1:
        # round to odd, so that the second rounding is correct
        near = np.nextafter(near, np.inf if exact > Fraction(float(near)) else -np.inf)
    return near
