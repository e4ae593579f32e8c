"""Primitives of JAX in scalar programs: kernels beside XLA."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from scalar_help import TINY, WHOLE, agree, check, kernel, needs_kernels, pairs, special, table

from jaxdyn.engine.ops import Unsupported

pytestmark = needs_kernels

FLOATING = (np.float32, np.float64)
EXACT_ONE = {
    "neg": (lax.neg, np.negative),
    "abs": (lax.abs, np.abs),
    "sqrt": (lax.sqrt, np.sqrt),
    "floor": (lax.floor, np.floor),
    "ceil": (lax.ceil, np.ceil),
    "sign": (lax.sign, np.sign),
    "square": (lax.square, np.square),
    "rint": (lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), np.rint),
    "round": (lax.round, lambda x: np.where(np.isfinite(x), np.copysign(np.floor(np.abs(x) + 0.5), x), x)),
    "is_finite": (lax.is_finite, np.isfinite),
    "reduce_precision": (
        lambda x: lax.reduce_precision(x, *((8, 23) if x.dtype == np.float32 else (11, 52))),
        np.array,
    ),
}
EXACT_TWO = {
    "add": (lax.add, np.add),
    "sub": (lax.sub, np.subtract),
    "mul": (lax.mul, np.multiply),
    "div": (lax.div, np.divide),
    "max": (lax.max, np.maximum),
    "min": (lax.min, np.minimum),
    "rem": (lax.rem, np.fmod),
    "nextafter": (lax.nextafter, np.nextafter),
    "lt": (lax.lt, np.less),
    "le": (lax.le, np.less_equal),
    "gt": (lax.gt, np.greater),
    "ge": (lax.ge, np.greater_equal),
    "eq": (lax.eq, np.equal),
    "ne": (lax.ne, np.not_equal),
}
ROUNDED_ONE = (
    "sin cos tan atan asin acos sinh cosh tanh asinh acosh atanh exp exp2 expm1 logistic log log1p cbrt rsqrt".split()
)
INTEGER_ONE = {"neg": lax.neg, "not": lax.bitwise_not, "square": lax.square, "sign": lax.sign} | {
    f"to the {k}": lambda x, k=k: lax.integer_pow(x, k) for k in (0, 1, 2, 5)
}
INTEGER_TWO = {
    "add": lax.add,
    "sub": lax.sub,
    "mul": lax.mul,
    "div": lax.div,
    "rem": lax.rem,
    "max": lax.max,
    "min": lax.min,
    "and": lax.bitwise_and,
    "or": lax.bitwise_or,
    "xor": lax.bitwise_xor,
    "lt": lax.lt,
    "le": lax.le,
    "gt": lax.gt,
    "ge": lax.ge,
    "eq": lax.eq,
    "ne": lax.ne,
    "shift_left": lax.shift_left,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "shift_right_logical": lax.shift_right_logical,
    "div of neg": lambda x, y: lax.div(lax.neg(x), y),
    "div by neg": lambda x, y: lax.div(x, lax.neg(y)),
    "rem of neg": lambda x, y: lax.rem(lax.neg(x), y),
    "zero by": lambda x, y: lax.div(jnp.zeros_like(x), y),
    "sub neg": lambda x, y: lax.sub(lax.neg(x), lax.neg(y)),
    "mul neg": lambda x, y: lax.mul(lax.neg(x), y),
    "abs of neg": lambda x, y: lax.max(lax.neg(x), x) + y,
}
LOGIC = {k: INTEGER_TWO[k] for k in "and or xor lt le gt ge eq ne max min".split()} | {
    "not and": lambda x, y: ~x & y,
    "select": lambda x, y: jnp.where(x, y, ~y),
    "three": lambda x, y: lax.select_n(x, y, x ^ y),
}


def given(functions: dict, arity: int):
    return table(tuple(functions.items()), arity)


def numbers(shape, dtype=np.float64, seed=0, lanes=5) -> np.ndarray:
    """Random numbers, a batch first."""
    x = np.random.default_rng(seed).normal(size=(lanes, *shape)) * 3
    return x > 0 if np.dtype(dtype) == bool else x.astype(np.int64 if dtype in WHOLE else dtype).astype(dtype)


# element by element


@pytest.mark.parametrize("dtype", FLOATING)
def test_exact_functions_of_floats(dtype):
    """Numbers that are not normal too, which XLA does not keep: beside NumPy."""
    x, y = pairs(np.concatenate([special(dtype), np.array(TINY[dtype], dtype)]))
    one = kernel(given({k: f for k, (f, _) in EXACT_ONE.items()}, 1), x)
    two = kernel(given({k: f for k, (f, _) in EXACT_TWO.items()}, 2), x, y)
    with np.errstate(all="ignore"):
        for name, (_, f) in EXACT_ONE.items():
            agree(one[name], f(x), what=name)
        for name, (_, f) in EXACT_TWO.items():
            agree(two[name], f(x, y), what=name)


@pytest.mark.parametrize("dtype", FLOATING)
def test_rounded_functions_of_floats(dtype):
    rtol = 1e-13 if dtype == np.float64 else 2e-6
    x = np.concatenate([special(dtype), np.random.default_rng(1).normal(size=40).astype(dtype)])
    check(given({k: getattr(lax, k) for k in ROUNDED_ONE}, 1), x[np.abs(x) != 1e6], rtol=rtol)
    powers = {f"to the {k}": lambda x, k=k: lax.integer_pow(x, k) for k in (-3, -2, -1, 0, 1, 2, 3, 7, 8)}
    check(given(powers, 1), x, rtol=rtol)
    x, y = pairs(x)
    check(given({"atan2": lax.atan2, "pow": lax.pow}, 2), x, y, rtol=rtol)
    check(given({"pow": lax.pow}, 2), *pairs(special(dtype), np.array([0, 1, -1, 2, -3, 7], np.int32)), rtol=rtol)


@pytest.mark.parametrize("dtype", WHOLE)
def test_functions_of_integers(dtype):
    signed = {"abs": lax.abs} if dtype in (np.int32, np.int64) else {}
    check(given(INTEGER_ONE | signed, 1), special(dtype))
    check(given(INTEGER_TWO, 2), *pairs(special(dtype)))


def test_functions_of_truth():
    check(given(LOGIC, 2), *pairs(np.array([False, True])))
    check(given({"not": lax.bitwise_not}, 1), np.array([False, True]))


def is_float(dtype) -> bool:
    return np.dtype(dtype).kind == "f"


@pytest.mark.parametrize("dtype", (*FLOATING, *WHOLE))
def test_constants_are_folded_as_kernels_compute(dtype):
    functions = {k: f for k, (f, _) in EXACT_TWO.items()} | {"pow": lax.pow} if is_float(dtype) else INTEGER_TWO
    x = special(dtype)
    few = x[[0, 1, 2, 3, 7, -1, -2, -3]]
    of = given(functions, 2)
    wide = lambda x, y: of(*jnp.broadcast_arrays(x, y))  # noqa: E731
    a, b = np.meshgrid(x, few)
    computed = kernel(of, a.ravel(), b.ravel())
    left = kernel(lambda y: wide(jnp.asarray(x)[:, None], y), few)
    right = kernel(lambda x: wide(x, jnp.asarray(few)[:, None]), x)
    # with an output that is no constant: programs of constants stay with XLA
    fixed = lambda z: wide(jnp.asarray(x)[None, :, None], jnp.asarray(few)[:, None, None]) | {"z": z}  # noqa: E731
    both = kernel(fixed, np.zeros(1))
    usual = np.ones(a.shape, bool)
    for name in functions:
        wanted = np.asarray(computed[name]).reshape(a.shape)
        agree(both[name][0], wanted, what=name)
        if is_float(dtype):  # a known zero times anything is zero, and so is its quotient
            usual = ~((name == "mul") & ((a == 0) | (b == 0)) | (name == "div") & (a == 0))
        agree(left[name][usual], wanted[usual], what=name)
        agree(right[name].T[usual], wanted[usual], what=name)


ALL = (*FLOATING, *WHOLE, bool)


@pytest.mark.parametrize("old", ALL)
def test_conversions(old):
    """Floats saturate, NaN is 0, integers go round; as XLA has it, and for constants too."""
    of = given({np.dtype(new).name: lambda x, new=new: lax.convert_element_type(x, new) for new in ALL}, 1)
    x = special(old)
    if np.dtype(old).kind == "f":
        x = np.concatenate(
            [x, np.array([2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64, 2.0**31 - 1], old)]
        )
    check(of, x)
    folded = kernel(lambda z: {k: v[:, None] for k, v in of(jnp.asarray(x)).items()} | {"z": z}, np.zeros(1))
    for name, value in kernel(of, x).items():
        agree(folded[name][0], value, what=name)


def test_bits_of_numbers():
    as_ = lambda t: lambda x: lax.bitcast_convert_type(x, t)  # noqa: E731
    x = np.array([0, 1, -1.5, np.inf, np.nan, 1e-40])
    check(given({"i": as_(np.int64), "u": as_(np.uint64), "f": as_(np.float64)}, 1), x)
    check(given({"i": as_(np.int32), "u": as_(np.uint32)}, 1), x.astype(np.float32))
    check(given({"f": as_(np.float32), "u": as_(np.uint32)}, 1), np.array([1, 0x7F800000, 0x3F800000, -5], np.int32))
    with pytest.raises(Unsupported):
        kernel(lambda x: jnp.moveaxis(lax.bitcast_convert_type(x, np.uint32), -1, 0), x)


def test_choices():
    x, y, z = (numbers((4,), seed=k, lanes=9) for k in range(3))
    x[0, 0], y[1, 1], z[2, 2] = np.nan, np.nan, np.inf
    which = np.arange(36).reshape(9, 4).astype(np.int32) % 3
    check(lambda i, x, y, z: lax.select_n(i, x, y, z), which, x, y, z)
    check(lambda i, x: lax.select_n(i, x), which, x)
    check(lambda i, x, y, z: lax.select_n(i[0, 0], x, y, z), which, x, y, z)
    check(lambda x, y, z: lax.clamp(y, x, z), x, y, z)
    check(lambda x: (lax.clamp(-1.0, x, 1.0), lax.clamp(x[0, 0], x, 2.0), lax.clamp(1.0, x, -1.0)), x)
    check(lambda i: lax.clamp(jnp.int32(1), i, jnp.int32(1)), which)
    check(lambda x, y: lax.select_n(x[0, 0] > y[0, 0], x, y), x, y)


# numbers that only move

MOVES = {
    "reshape": lambda x: x.reshape(2, 6, -1),
    "transpose": lambda x: jnp.transpose(x, (1, 0, 2)),
    "squeeze": lambda x: x[1:2].squeeze(0),
    "expand": lambda x: jnp.expand_dims(x, (0, 2)),
    "broadcast": lambda x: jnp.broadcast_to(x[None, :, :1], (2, 4, 3, x.shape[-1])),
    "rev": lambda x: lax.rev(x, (0, 1)),
    "slice": lambda x: lax.slice(x, (0, 1, 0), (4, 3, x.shape[-1]), (2, 1, 1)),
    "concatenate": lambda x: jnp.concatenate([x, x[:0], x[2:]], 0),
    "stack": lambda x: jnp.stack([x, x[::-1]], 1),
    "tile": lambda x: lax.tile(x, (2, 1, 1)),
    "split": lambda x: lax.split(x, (1, 0, 3), 0),
    "unstack": lambda x: tuple(jnp.unstack(x, axis=1)),
    "pad": lambda x: lax.pad(x, jnp.asarray(7, x.dtype), ((1, 2, 1), (0, 1, 2), (0, 0, 0))),
    "crop": lambda x: lax.pad(x, x[0, 0, 0], ((-1, -2, 0), (-1, 2, 1), (0, 0, 0))),
    "crop_inside": lambda x: lax.pad(x, x[0, 0, 0], ((-2, 0, 1), (2, -3, 2), (0, 0, 0))),
    "crop_all": lambda x: lax.pad(x, x[0, 0, 0], ((-3, -3, 1), (0, 0, 0), (0, 0, 0))),
    "dynamic_slice": lambda x: lax.dynamic_slice(x, (3, -1, 0), (2, 2, x.shape[-1])),
    "dynamic_update": lambda x: lax.dynamic_update_slice(x, x[1:3, :2], (7, 1, 0)),
    "roll": lambda x: jnp.roll(x, 1, 0),
    "iota": lambda x: x + lax.broadcasted_iota(x.dtype, (4, 3, 1), 1) if x.dtype != bool else x,
    "triangle": lambda x: jnp.tril(x[:3, :, 0])[..., None] if x.dtype != bool else x,
    "barrier": lambda x: lax.optimization_barrier((x, x[1:])),
    "stop": lax.stop_gradient,
    "copy": jnp.copy,
    "diagonal": lambda x: x[jnp.arange(3), jnp.arange(3)],
    "take_clip": lambda x: x.at[jnp.array([5, -9, 2])].get(mode="clip"),
    "take_fill": lambda x: x.at[jnp.array([5, -9, 2, -1])].get(mode="fill"),
    "take_value": lambda x: x.at[jnp.array([5, 2])].get(mode="fill", fill_value=3 if x.dtype != bool else False),
    "take_sure": lambda x: x.at[jnp.array([3, 0])].get(mode="promise_in_bounds"),
    "take_wrap": lambda x: jnp.take(x, jnp.array([5, -9, 2]), 0, mode="wrap"),
    "take_mixed": lambda x: x[jnp.array([[0, 3], [1, 1]]), :, ...][:, :, 1:],
    "take_along": lambda x: jnp.take_along_axis(x, jnp.array([[0, 2], [1, 1], [2, 0], [0, 0]])[..., None], 1),
    "take_window": lambda x: _windows(x, "clip"),
    "take_window_fill": lambda x: _windows(x, "fill"),
    "take_uint": lambda x: x.at[jnp.array([5, 2], np.uint32)].get(mode="fill"),
    "take_none": lambda x: x[jnp.zeros((0,), np.int32)],
    "mapped_take": lambda x: jax.vmap(lambda r, k: r[k])(x, jnp.array([2, 0, 1, 1])),
    "mapped_slice": lambda x: jax.vmap(lambda r, k: lax.dynamic_slice(r, (k, 0), (2, r.shape[-1])))(x, jnp.arange(4)),
    "put": lambda x: x.at[jnp.array([3, 0])].set(x[1:3]),
    "put_over": lambda x: x.at[jnp.array([1, 3, 1])].set(x[:3]),
    "put_clip": lambda x: x.at[jnp.array([9, -7])].set(x[1:3], mode="clip"),
    "put_drop": lambda x: x.at[jnp.array([9, 2, -7])].set(x[:3], mode="drop"),
    "put_sure": lambda x: x.at[jnp.array([1])].set(x[:1], mode="promise_in_bounds"),
    "put_uniquely": lambda x: x.at[1, 2].set(x[0, 0], unique_indices=True),
    "mapped_put": lambda x: jax.vmap(lambda r, k: r.at[k].set(r[0]))(x, jnp.array([2, 0, 1, 5])),
    "lower_by": lambda x: x.at[jnp.array([1, 3, 1])].min(x[:3]),
    "raise_by": lambda x: x.at[jnp.array([1, 3, 1, 9])].max(x),
}
SUMS = {
    "add_at": lambda x: x.at[jnp.array([1, 3, 1, 9])].add(x),
    "add_clip": lambda x: x.at[jnp.array([1, 3, 1, 9])].add(x, mode="clip"),
    "subtract_at": lambda x: x.at[jnp.array([1, 3, 1])].subtract(x[:3]),
    "multiply_at": lambda x: x.at[jnp.array([1, 3, 1])].multiply(x[:3]),
    "mapped_add": lambda x: jax.vmap(lambda r, k: r.at[k].add(r[0]))(x, jnp.array([2, 0, 1, 5])),
    "segments": lambda x: jax.ops.segment_sum(x, jnp.array([1, 0, 1, 2]), 3),
    "add_window": lambda x: x.at[1:3, jnp.array([0, 2])].add(x[:2, :2]),
    "sum": lambda x: (x.sum(0), x.sum((0, 1)), x.sum(()), x[:0].sum(0), x[:, :0].sum((0, 1))),
    "prod": lambda x: (x.prod(1), x.prod((0, 1)), x[:0].prod(0)),
    "cumsum": lambda x: (lax.cumsum(x, 0), lax.cumsum(x, 1, reverse=True), lax.cumsum(x[:0], 0)),
    "cumprod": lambda x: (lax.cumprod(x, 1), lax.cumprod(x, 0, reverse=True)),
    "dot": lambda x: jnp.einsum("ijn,kjn->ikn", x, x),
    "dot_batched": lambda x: jnp.einsum("ijn,ijn->in", x, x),
    "dot_transposed": lambda x: jnp.moveaxis(lax.dot_general(x, x[:3, :2], (((1,), (0,)), ((2,), (2,)))), 0, -1),
    "dot_none": lambda x: jnp.einsum("ijn,kjn->ikn", x[:, :0], x[:, :0]),
    "dot_empty": lambda x: jnp.einsum("ijn,kjn->ikn", x[:0], x),
    "convolve": lambda x: sum(x[k : k + 2] * x[1 - k] for k in range(2)),
}
ORDER = {
    "max": lambda x: (x.max(0), x.max((0, 1)), lax.reduce_max(x[:, :0], (1,))),
    "min": lambda x: (x.min(1), x.min((0, 1)), lax.reduce_min(x[:, :0], (1,))),
    "arg": lambda x: (jnp.argmax(x, 0), jnp.argmin(x, 0), lax.argmax(x, 1, np.int32), lax.argmin(x, 1, np.uint32)),
    "any": lambda x: tuple((x[:n] == x[0]).any(axes) for n in (0, 4) for axes in (0, (0, 1))),
    "all": lambda x: tuple((x[:n] == x[0]).all(axes) for n in (0, 4) for axes in (0, (0, 1))),
    "odd": lambda x: lax.reduce_xor(x == x[0], (0,)),
    "empty": lambda x: (x[:0].max(1), x[:0] + 1 if x.dtype != bool else x[:0]),
    "sort": lambda x: (lax.sort(x, dimension=0), lax.sort(x, dimension=1)),
    "sort_by": lambda x: lax.sort((x[:, 0], x[:, 1], x[:, 2]), dimension=0, num_keys=2),
    "argsort": lambda x: (jnp.argsort(x, 0), jnp.argsort(x, 1, descending=True)),
    "median": lambda x: jnp.sort(x[:, 0], axis=0)[2],
}
ORDER_OF_NUMBERS = {
    "cummax": lambda x: (lax.cummax(x, 0), lax.cummax(x, 1, reverse=True)),
    "cummin": lambda x: (lax.cummin(x, 1), lax.cummin(x, 0, reverse=True)),
}
BITS = {
    "and": lambda x: (lax.reduce_and(x, (0,)), lax.reduce_and(x[:0], (0,))),
    "or": lambda x: (lax.reduce_or(x, (0, 1)), lax.reduce_or(x[:0], (0,))),
    "xor": lambda x: (lax.reduce_xor(x, (1,)), lax.reduce_xor(x[:0], (0,))),
}


def _windows(x, mode):
    """Windows of two rows, at places that are partly outside."""
    numbers = lax.GatherDimensionNumbers(offset_dims=(1, 2, 3), collapsed_slice_dims=(), start_index_map=(0, 1))
    at = jnp.array([[0, 1], [3, 0], [-1, 2], [1, 0]])
    return lax.gather(x, at, numbers, (2, 2, x.shape[-1]), mode=mode)


@pytest.mark.parametrize("dtype", (np.float64, np.float32, np.int32, np.uint32, bool))
def test_moves(dtype):
    check(given(MOVES, 1), numbers((4, 3), dtype))


@pytest.mark.parametrize("dtype", (np.float64, np.float32, np.int32, np.int64, np.uint32))
def test_sums(dtype):
    check(given(SUMS, 1), numbers((4, 3), dtype), rtol=1e-13 if dtype == np.float64 else 1e-5)


@pytest.mark.parametrize("dtype", (np.float64, np.float32, np.int32, np.uint32, bool))
def test_orders(dtype):
    x = numbers((4, 3), dtype, lanes=40)
    if np.dtype(dtype).kind == "f":
        rng = np.random.default_rng(3)
        x = np.where(
            rng.random(x.shape) < 0.5, rng.choice(np.array([np.nan, np.inf, -np.inf, 0, 1], dtype), x.shape), x
        )
    check(given(ORDER | (ORDER_OF_NUMBERS if dtype is not bool else {}), 1), x)


def test_reductions_of_bits():
    for dtype in (np.int32, np.uint32, np.int64):
        check(given(BITS, 1), numbers((4, 3), dtype))
    check(given(BITS, 1), numbers((4, 3), bool))
    check(lambda x: jnp.moveaxis(lax.dot_general(x, x, (((1,), (1,)), ((2,), (2,)))), 0, -1), numbers((4, 3), bool))


def test_mixtures():
    """Types side by side in one program."""

    def mixed(f, d, i, u, b):
        wide = f.astype(np.float64) * d + i.astype(np.float64)
        whole = (u.astype(np.int64) * i.astype(np.int64)).sum(0)
        return {
            "wide": wide,
            "narrow": wide.astype(np.float32) + f,
            "whole": whole,
            "chosen": jnp.where(b, wide, f.astype(np.float64)),
            "count": b.sum(0),
            "mean": jnp.where(b, i, 0).astype(np.float32).mean(0),
            "dot": jnp.einsum("in,in->n", f, f, preferred_element_type=np.float64),
            "index": jnp.argmax(b, 0),
        }

    types = (np.float32, np.float64, np.int32, np.uint32, bool)
    check(mixed, *(numbers((3,), t, seed=k, lanes=13) for k, t in enumerate(types)), rtol=1e-6)


def test_what_is_unknown_is_left_to_xla():
    """Types and primitives without a rule."""
    unknown = {
        "half": lambda x: x.astype(np.float16).astype(np.float64),
        "small": lambda x: x + lax.broadcasted_iota(np.int8, x.shape, 0).astype(x.dtype),
        "erf": lax.erf,
        "cholesky": lambda x: jnp.linalg.cholesky(x[:1, :1, 0])[..., None],
        "taken": lambda x: x[jnp.argmax(x[:, 0, 0])],
        "function": lambda x: x.at[jnp.array([1])].apply(lambda y: y * y),
        "precision": lambda x: lax.reduce_precision(x, 5, 10),
    }
    x = numbers((4, 3)) ** 2
    for name, f in unknown.items():
        with pytest.raises(Unsupported):
            kernel(f, x)
            pytest.fail(f"{name} has a kernel")


def test_what_an_elimination_clears_is_known_to_be_zero():
    """What a row loses to itself cancels by structure: nothing is left to compute, and no rounding."""

    def cleared(row, p):
        scaled = jnp.concatenate([p[None], row]) * (1 / p)
        own = jnp.concatenate([p[None], row]) - p * scaled
        column = row - row * scaled[0]
        return own, column, row - row

    rng = np.random.default_rng(0)
    row, p = rng.normal(size=(5, 3)).astype(np.float32), rng.normal(size=5).astype(np.float32)
    for x in kernel(lambda row, p: (*cleared(row, p), row), row, p)[:3]:
        np.testing.assert_array_equal(x, 0)
    # quotients of other numbers, and of whole ones, stay
    check(lambda x, y: (x * (y * (1 / (x + 1))), x * (y / x)), row[:, 0], p, rtol=1e-6)
    check(lambda x, y: x * (y * (1 // x)), np.array([2, 3, 5]), np.array([1, 7, -2]))
