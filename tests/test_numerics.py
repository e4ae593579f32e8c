"""Elementary functions of the lane compiler: errors, special values, cost, compiled bits beside the emulator's."""

import functools

import emulator
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdyn.engine import host, kernels
from jaxdyn.engine.numerics import FUNCTIONS
from jaxdyn.engine.ops import TYPES, Type
from jaxdyn.engine.order import schedule
from jaxdyn.engine.program import Program

DTYPES = (np.float32, np.float64)
#: NumPy's functions of one number, and most operations in both types, without those for huge angles
ONE = {
    "sin": (np.sin, 25, 31),
    "cos": (np.cos, 26, 32),
    "tan": (np.tan, 54, 60),
    "atan": (np.arctan, 23, 35),
    "asin": (np.arcsin, 30, 37),
    "acos": (np.arccos, 28, 35),
    "sinh": (np.sinh, 38, 43),
    "cosh": (np.cosh, 37, 42),
    "tanh": (np.tanh, 64, 69),
    "asinh": (np.arcsinh, 58, 63),
    "acosh": (np.arccosh, 63, 68),
    "atanh": (np.arctanh, 56, 61),
    "exp": (np.exp, 29, 34),
    "exp2": (np.exp2, 30, 35),
    "expm1": (np.expm1, 29, 34),
    "logistic": (lambda x: 1 / (1 + np.exp(-x)), 40, 45),
    "log": (np.log, 32, 37),
    "log1p": (np.log1p, 38, 43),
    "cbrt": (np.cbrt, 56, 64),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2, 2),
}
TWO = {"atan2": (np.arctan2, 34, 46), "pow": (np.power, 101, 137), "rem": (np.fmod, 20, 20)}
EXACT = {
    "sign": lambda x: np.where(x == 0, x, np.sign(x)),
    "ceil": np.ceil,
    "round": lambda x: np.copysign(np.floor(np.abs(x)) + (np.abs(x) - np.floor(np.abs(x)) >= 0.5), x),
    "square": np.square,
    "is_finite": np.isfinite,
}
#: functions that do not keep the sign of zero
UNSIGNED = {"sin", "tan", "expm1", "log1p"}
SPECIAL = [0, 1, 0.5, 2, 3, 2.5, 1e-40, 1e-310, 5e-324, 1e-45, 1e30, 1e300, 3.4e38, 1.79e308, np.inf]


def wide(dtype):
    """The type of reference values."""
    if dtype == np.float32:
        return np.float64
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("NumPy has no wider type than float64 here")
    return np.longdouble


def made(names, dtype, operands: int) -> Program:
    """The functions of that many numbers, an output each."""
    t = TYPES[np.dtype(dtype)]
    p = Program()
    p.inputs = [(1, t, False)] * operands
    p.outputs = [[FUNCTIONS[name](p, *(p.input(k, 0, t) for k in range(operands)))] for name in names]
    p.output_types = [Type(p.type_of(v)) for (v,) in p.outputs]
    return p


def compiled(p: Program, inputs: list[np.ndarray]) -> list[np.ndarray]:
    outs = [jax.ShapeDtypeStruct((inputs[0].shape[-1], 1), t.dtype) for t in p.output_types]
    found = jax.jit(jax.ffi.ffi_call(kernels.made(p, host.target()).name, outs))(
        *(jnp.asarray(x)[:, None] for x in inputs)
    )
    return [np.asarray(x)[:, 0] for x in found]


def evaluated(names, dtype, *inputs) -> dict[str, np.ndarray]:
    """Values of the functions by name: compiled where that is possible."""
    p = made(names, dtype, len(inputs))
    if host.unavailable():
        found = [x[0] for x in emulator.run(p, [x[None, ::10] for x in inputs])]
    else:
        found = compiled(p, list(inputs))
    return dict(zip(names, found, strict=True))


def specials(dtype):
    with np.errstate(over="ignore", under="ignore"):
        x = np.array(SPECIAL).astype(dtype)
    return np.concatenate([x, -x, [dtype(np.nan)]])


@functools.cache
def numbers(dtype):
    """Numbers of all binades, more of them between 1/100 and 100, near multiples of a right angle, near 1."""
    rng = np.random.default_rng(1)
    info = np.finfo(dtype)
    low, high = info.minexp - info.nmant, info.maxexp
    every = 200 if dtype == np.float32 else 30
    exponents = np.repeat(np.arange(low, high), every)
    x = np.ldexp(rng.uniform(1, 2, exponents.size).astype(np.longdouble), exponents).astype(dtype)
    some = np.exp2(rng.uniform(-7, 7, 40_000)).astype(dtype)
    right = np.longdouble(np.pi / 2) + np.longdouble(6.123233995736766e-17)
    turns = np.concatenate([np.arange(1, 2000), rng.integers(2000, 64_000, 6000), 2 ** np.arange(17, 30)])
    hard = (turns * right).astype(dtype)
    ones = (1 + np.concatenate([-1, 1] * np.exp2(rng.uniform(-50, 0, (2000, 1))))).astype(dtype)
    x = np.concatenate([x, some, hard, np.nextafter(hard, dtype(0)), np.nextafter(hard, dtype(1e9)), ones])
    return np.concatenate([x * rng.choice([-1, 1], x.size).astype(dtype), specials(dtype)])


@functools.cache
def pairs(dtype):
    """Numbers of all sizes, powers that are numbers, multiples, and all pairs of special values."""
    rng = np.random.default_rng(2)
    info = np.finfo(dtype)
    size = lambda n: np.exp2(rng.uniform(info.minexp - info.nmant, info.maxexp, n)) * rng.choice([-1, 1], n)  # noqa: E731
    with np.errstate(all="ignore"):
        base = np.exp2(rng.uniform(-4, 4, 20_000)).astype(dtype).astype(float)
        close = (1 + rng.uniform(-0.5, 1, 20_000) * 10 ** rng.uniform(-6, 0, 20_000)).astype(dtype).astype(float)
        power = rng.uniform(1.08 * info.minexp, info.maxexp, 40_000) / np.log2(np.concatenate([base, close]))
        x = np.concatenate([size(10_000), rng.normal(size=10_000), base, close, rng.normal(size=2000)])
        y = np.concatenate([size(10_000), rng.normal(size=10_000), power, rng.integers(-30, 30, 2000)])
        a, b = (v.ravel() for v in np.meshgrid(specials(dtype), specials(dtype)))
        return np.concatenate([x.astype(dtype), a]), np.concatenate([y.astype(dtype), b])


@functools.cache
def values(dtype, operands: int):
    inputs = (numbers(dtype),) if operands == 1 else pairs(dtype)
    return evaluated(tuple({**ONE, **EXACT} if operands == 1 else TWO), dtype, *inputs)


def errors(found, expected):
    """Errors in units in the last place; infinite where only one of both is NaN or infinite."""
    dtype = found.dtype.type
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(expected), expected.dtype.type(info.smallest_normal))
        unit = np.ldexp(expected.dtype.type(1), np.frexp(size)[1] - info.nmant - 1)
        error = np.abs(found.astype(expected.dtype) - expected) / unit
        same = (found == expected.astype(dtype)) | (np.isnan(found) & np.isnan(expected))
    return np.where(
        same, np.minimum(np.where(np.isnan(error), 0, error), 0.5), np.where(np.isnan(error), np.inf, error)
    )


def check(name, found, f, inputs):
    dtype = inputs[0].dtype.type
    step = 10 if found.size < inputs[0].size else 1
    inputs = [x[::step] for x in inputs]
    with np.errstate(all="ignore"):
        expected = f(*(x.astype(wide(dtype)) for x in inputs))
    e = errors(found, expected)
    worst = np.argmax(e)
    print(f"{name}: {e[worst]:.3f}")
    assert e[worst] <= 2, f"{e[worst]} at {[x[worst] for x in inputs]}: {found[worst]}, not {expected[worst]}"
    if name not in UNSIGNED:
        zero = (found == 0) & (expected == 0)
        np.testing.assert_array_equal(np.signbit(found[zero]), np.signbit(expected[zero]))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_number(name, dtype):
    check(name, values(dtype, 1)[name], ONE[name][0], [numbers(dtype)])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_numbers(name, dtype):
    check(name, values(dtype, 2)[name], TWO[name][0], pairs(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EXACT)
def test_exact_functions(name, dtype):
    x = numbers(dtype)
    found = values(dtype, 1)[name]
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, EXACT[name](x[:: 10 if found.size < x.size else 1]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_neighbours(dtype):
    x, y = (v[-1200:] for v in pairs(dtype))
    (found,) = emulator.run(made(["nextafter"], dtype, 2), [x[None], y[None]])
    np.testing.assert_array_equal(found[0], np.nextafter(x, y))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("operands", [1, 2])
def test_compiled_bits_are_the_emulators(dtype, operands):
    if host.unavailable():
        pytest.skip(host.unavailable())
    wide(np.float64)
    inputs = [np.concatenate([x[:-3000:20], x[-3000:]]) for x in ([numbers(dtype)] if operands == 1 else pairs(dtype))]
    p = made(tuple({**ONE, **EXACT} if operands == 1 else TWO), dtype, operands)
    found = compiled(p, inputs)
    expected = emulator.run(p, [x[None] for x in inputs], schedule(p))
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b[0])  # NaN equal NaN, whatever their bits


def cost(p: Program) -> int:
    """Operations outside of loops and branches, fused."""
    return sum(isinstance(x, int) for x in schedule(p).body[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_cost(name, dtype):
    budget = (ONE | TWO)[name][1 + (dtype == np.float64)]
    assert cost(made([name], dtype, 1 if name in ONE else 2)) <= budget


@pytest.mark.parametrize(("dtype", "budget"), [(np.float32, 32), (np.float64, 38)])
def test_sine_and_cosine_share(dtype, budget):
    p = made(["sin", "cos"], dtype, 1)
    assert cost(p) <= budget
    assert len(p.owners) == 1, "angles are reduced once"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*ONE, "pow", "atan2"])
def test_functions_of_constants_are_constants(name, dtype):
    wide(np.float64)
    t = TYPES[np.dtype(dtype)]
    p = Program()
    for x in (0.3, 1.5, 1e30, -2.0, np.inf, np.nan):
        numbers_ = [dtype(x)] * (2 if name in TWO else 1)
        with np.errstate(all="ignore"):
            found = FUNCTIONS[name](p, *(p.constant(v, t) for v in numbers_))
        assert found < 0 and not p.op
        (expected,) = emulator.run(made([name], dtype, len(numbers_)), [np.array([[v]]) for v in numbers_])
        np.testing.assert_array_equal(p.value(found), expected[0, 0])


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers(dtype):
    rng = np.random.default_rng(3)
    x, y = rng.integers(-50, 50, (2, 1, 300)).astype(dtype)
    (found,) = emulator.run(made(["rem"], dtype, 2), [x, y])
    np.testing.assert_array_equal(found, np.where(y == 0, x, np.fmod(x, np.where(y == 0, 1, y))))
    (found,) = emulator.run(made(["sign"], dtype, 1), [x])
    np.testing.assert_array_equal(found, np.sign(x))


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers(dtype):
    t = TYPES[np.dtype(dtype)]
    x = np.random.default_rng(4).normal(size=(1, 100)).astype(dtype)
    for y in (-7, -1, 0, 1, 2, 3, 11):
        p = Program()
        p.inputs = [(1, t, False)]
        p.outputs, p.output_types = [[FUNCTIONS["integer_pow"](p, p.input(0, 0, t), y)]], [t]
        np.testing.assert_allclose(emulator.run(p, [x])[0], x**y, rtol=10 * np.finfo(dtype).eps)
    p = Program()
    p.inputs, p.output_types = [(1, t, False), (1, Type.int32, False)], [t]
    p.outputs = [[FUNCTIONS["pow"](p, p.input(0, 0, t), p.input(1, 0, Type.int32))]]
    y = np.random.default_rng(5).integers(-6, 6, x.shape).astype(np.int32)
    np.testing.assert_allclose(emulator.run(p, [x, y])[0], x ** y.astype(dtype), rtol=2 * np.finfo(dtype).eps)
