"""atan, atan2, asin and acos: one polynomial for atan up to 45 degrees, one for asin up to 30 degrees."""

from .floats import Floats
from .program import Program

#: (atan x / x - 1) / x², in powers of x², up to 1
TANGENT = (
    (
        -0.333333,
        0.1999853,
        -0.14264016,
        0.10950878,
        -0.08399276,
        0.05788013,
        -0.031094708,
        0.010866783,
        -0.0017822195,
    ),
    (
        -0.33333333333333287,
        0.19999999999990617,
        -0.14285714285044962,
        0.11111111086669956,
        -0.090909085509869,
        0.0769229975437344,
        -0.0666658407162579,
        0.058817182770972136,
        -0.05259443635192852,
        0.047449615446975096,
        -0.04286491075935752,
        0.03821230770542582,
        -0.03278942981233821,
        0.02615734748740447,
        -0.01862058905705815,
        0.011323279097657476,
        -0.005616188949311699,
        0.0021534889533126444,
        -0.0005935559100646386,
        0.00010401554417460421,
        -8.668768845934052e-06,
    ),
)
#: (asin x / x - 1) / x², in powers of x², up to 1/2
SINE = (
    (0.1666666, 0.07500522, 0.044513382, 0.03183883, 0.014317177, 0.037690733),
    (
        0.1666666666666676,
        0.07499999999970863,
        0.04464285717456482,
        0.030381942709646937,
        0.022372214942617704,
        0.01735161272572196,
        0.013980812892745161,
        0.011398969108019885,
        0.010779960773749412,
        0.0037074243267106104,
        0.021705165312684842,
        -0.020996077655007335,
        0.03262689850902834,
    ),
)
#: one right angle and two, each in two parts
RIGHT = ((1.5707964, -4.371139e-08), (1.5707963267948966, 6.123233995736766e-17))
STRAIGHT = ((3.1415927, -8.742278e-08), (3.141592653589793, 1.2246467991473532e-16))


def _less(f: Floats, angle: tuple, x: int) -> int:
    """Return the angle minus x."""
    first, second = (f.number(c) for c in f.of(angle))
    return f.p.add(f.p.sub(first, x), second)


def _up_to_one(f: Floats, t: int) -> int:
    """Return atan of t, for t between 0 and 1."""
    z = f.p.mul(t, t)
    return f.fma(f.p.mul(z, t), f.horner(z, f.of(TANGENT)), t)


def atan(p: Program, x: int) -> int:
    f = Floats(p, x)
    size, one = p.abs_(x), f.number(1)
    steep = p.lt(one, size)
    angle = _up_to_one(f, p.select(steep, p.div(one, size), size))
    return f.signed(p.select(steep, _less(f, RIGHT, angle), angle), f.sign(x))


def atan2(p: Program, y: int, x: int) -> int:
    f = Floats(p, x)
    a, b = p.abs_(y), p.abs_(x)
    steep = p.lt(b, a)
    short, long = p.select(steep, b, a), p.select(steep, a, b)
    # the ratio of equal numbers is 1, even if they are infinite, but 0 to 0 is 0
    ratio = p.select(p.eq(short, long), p.select(p.eq(short, f.number(0)), short, f.number(1)), p.div(short, long))
    angle = _up_to_one(f, ratio)
    angle = p.select(steep, _less(f, RIGHT, angle), angle)
    angle = p.select(f.negative(x), _less(f, STRAIGHT, angle), angle)
    return f.signed(angle, f.sign(y))


def _arc(f: Floats, size: int) -> tuple[int, int, int, int]:
    """Return (whether x > 1/2; an angle; its sine; their difference) for x that is not negative. The angle is asin x
    or, if x > 1/2, half of its complement."""
    p = f.p
    half = f.number(0.5)
    large = p.lt(half, size)
    z = p.select(large, p.mul(p.sub(f.number(1), size), half), p.mul(size, size))
    s = p.select(large, p.sqrt(z), size)
    cube, more = p.mul(z, s), f.horner(z, f.of(SINE))
    return large, f.fma(cube, more, s), s, p.mul(cube, more)


def asin(p: Program, x: int) -> int:
    f = Floats(p, x)
    large, angle, s, more = _arc(f, p.abs_(x))
    first, second = (f.number(c) for c in f.of(RIGHT))
    main, lost = f.sum(first, p.neg(p.add(s, s)))
    steep = p.add(main, p.add(lost, p.sub(second, p.add(more, more))))
    return f.signed(p.select(large, steep, angle), f.sign(x))


def acos(p: Program, x: int) -> int:
    f = Floats(p, x)
    large, angle, *_ = _arc(f, p.abs_(x))
    double = p.add(angle, angle)
    behind = p.select(p.lt(x, f.number(0)), _less(f, STRAIGHT, double), double)
    return p.select(large, behind, _less(f, RIGHT, f.signed(angle, f.sign(x))))
