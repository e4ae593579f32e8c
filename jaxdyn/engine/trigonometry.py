"""sin, cos and tan: subtract a multiple of a right angle, then evaluate polynomials.

Sine and cosine of the same angle consist of the same expressions, which the program shares. A step that is compiled by
itself does not compute sine and cosine of its operands: it gets them as further operands from the program, which
computes them once.
"""

import weakref

from .floats import Floats
from .ops import Op, Type
from .program import Program
from .reduction import huge

#: a right angle in three parts
RIGHT = (
    (1.5707964, -4.371139e-08, -1.7151245e-15),
    (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
)
#: right angles in a radian: 2/π
RIGHTS = 0.6366197723675814
#: larger arguments need more parts of the right angle
LARGE = (2.0**17, 2.0**30)
#: (sin x / x - 1) / x², in powers of x²
SINE = (
    (-0.16666654, 0.008332093, -0.00019505156),
    (
        -0.1666666666666662,
        0.008333333333319709,
        -0.00019841269827616193,
        2.755731292471412e-06,
        -2.505063716849092e-08,
        1.5889749061192234e-10,
    ),
)
#: ((cos x - 1) / x² + 1/2) / x², in powers of x²
COSINE = (
    (0.04166664, -0.001388713, 2.4412086e-05),
    (
        0.041666666666666574,
        -0.0013888888888869725,
        2.4801587286735575e-05,
        -2.755731356035135e-07,
        2.0875615933813307e-09,
        -1.1354110349183835e-11,
    ),
)

_reduced: "weakref.WeakKeyDictionary[Program, dict]" = weakref.WeakKeyDictionary()


def _reduce(p: Program, x: int, tail: bool = False) -> list[int]:
    """Return [angle between about -45 and 45 degrees, an integer with the number of right angles in its low two bits].

    With `tail`, also return the angle's rounding error.
    """
    # the program does not share equal branches, so share them here
    known = _reduced.setdefault(p, {})
    key = (x, p.here, tail)
    if key not in known:
        known[key] = _reduction(p, x, tail)
    return known[key]


def _reduction(p: Program, x: int, tail: bool) -> list[int]:
    f = Floats(p, x)
    n, bits = f.nearest(x, RIGHTS)
    first, second, third = (f.number(-part) for part in f.of(RIGHT))
    # the first difference is exact; the final remainder is at least 1e-9 (1e-19) of a right angle
    r = f.fma(n, first, x)
    if tail:
        product = p.mul(n, second)
        near, lost = f.any_sum(r, product)
        lost = p.add(lost, f.fma(n, second, p.neg(product)))
        r, lost = f.sum(near, f.fma(n, third, lost))
        usual = [r, bits, lost]
    else:
        usual = [f.fma(n, third, f.fma(n, second, r)), bits]
    large = p.lt(f.number(f.of(LARGE)), p.abs_(x))
    if large < 0:
        return huge(p, x, tail) if large == p.true else usual
    made = p.branches([large])
    p.enter(made)
    p.leave(made, huge(p, x, tail))
    p.enter(made)
    p.leave(made, usual)
    return p.join(made)


def _parts(p: Program, x: int) -> tuple[int, int, int]:
    """Return (the sine up to its sign, the cosine up to its sign, the number of right angles)."""
    f = Floats(p, x)
    r, rights, *_ = _reduce(p, x)
    z = p.mul(r, r)
    s = f.fma(p.mul(z, r), f.horner(z, f.of(SINE)), r)
    c = f.fma(z, f.fma(z, f.horner(z, f.of(COSINE)), f.number(-0.5)), f.number(1))
    odd = p.ne(p.and_(rights, f.integer(1)), f.integer(0))
    return p.select(odd, c, s), p.select(odd, s, c), rights


def _turned(f: Floats, x: int, rights: int, bit: int) -> int:
    """Return x, negated if bit `bit` of the number of right angles is set."""
    p, top = f.p, 8 * f.type.bytes - 1
    return f.signed(x, p.shl(p.and_(rights, f.integer(1 << bit)), f.integer(top - bit)))


def _borrowed(p: Program, x: int) -> tuple[int, ...] | None:
    """Return sine and cosine of an operand of a step as two more operands, or None if x is not an operand of a step."""
    if not p.nested or x < 0 or p.op[x] != Op.input:
        return None
    if x not in p.borrowed:
        t, same = Type(p.type[x]), p.inputs[p.a[x]][2]
        first = len(p.inputs)
        p.inputs += [(1, t, same)] * 2
        p.borrowed[x] = p.input(first, 0, t), p.input(first + 1, 0, t)
    return p.borrowed[x]


def sin(p: Program, x: int) -> int:
    borrowed = _borrowed(p, x)
    if borrowed is not None:
        return borrowed[0]
    s, _, rights = _parts(p, x)
    return _turned(Floats(p, x), s, rights, 1)


def cos(p: Program, x: int) -> int:
    borrowed = _borrowed(p, x)
    if borrowed is not None:
        return borrowed[1]
    f = Floats(p, x)
    _, c, rights = _parts(p, x)
    return _turned(f, c, p.add(rights, f.integer(1)), 1)


def tan(p: Program, x: int) -> int:
    f = Floats(p, x)
    r, rights, tail = _reduce(p, x, True)
    z = p.mul(r, r)
    # sine and cosine, each with its rounding error
    s = f.sum(r, f.fma(p.mul(z, r), f.horner(z, f.of(SINE)), tail))
    bend = f.fma(z, f.horner(z, f.of(COSINE)), f.number(-0.5))
    c = f.sum(f.number(1), f.fma(z, bend, p.neg(p.mul(r, tail))))
    odd = p.ne(p.and_(rights, f.integer(1)), f.integer(0))
    above = tuple(p.select(odd, v, u) for u, v in zip(s, c, strict=True))
    below = tuple(p.select(odd, u, v) for u, v in zip(s, c, strict=True))
    return _turned(f, f.ratio(above, below), rights, 0)
