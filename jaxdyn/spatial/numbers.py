"""Numbers that users give: converted to floats, or refused by name if they cannot be what they stand for.

A *rule* takes an array and returns what is wrong with it in words, None if nothing is. Rules check concrete values;
traced ones pass.
"""

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
from jaxtyping import Array

#: what users may give for an array: arrays, numbers, and sequences of them, which the name in jaxtyping excludes
ArrayLike = jaxtyping.ArrayLike | Sequence[Any]

#: how far rotations may be from orthonormal, and unit vectors from length 1: single precision, printed digits
CLOSE = 1e-4
#: models are cast to float32: larger numbers would become infinite
LARGEST = float(np.finfo(np.float32).max)
_IDENTITY = np.eye(3)

Rule = Callable[[np.ndarray], str | None]


def as_floats(x: Any) -> Array:
    """Return `x` as a floating-point JAX array: floats keep their precision, other numbers get the default.

    **Raises** `TypeError` for anything but an array of real numbers, and for half precision; `ValueError` for numbers
    that are finite but too large for the precision, or incomplete (masked, rows of unequal lengths).
    """
    _refuse_half(x)
    if isinstance(x, jax.Array):
        default = jnp.result_type(float)
        if not _is_own(x.dtype):
            _refuse_dtype(x)
            return x.astype(default)
        # arrays in double precision may outlive the setting that allowed them
        late = x.dtype == np.float64 and default != np.float64 and not isinstance(x, jax.core.Tracer)
        return _narrowed(np.asarray(x)) if late else x
    if isinstance(x, list | tuple) and any(isinstance(v, jax.Array) for v in _entries(x)):
        for v in _entries(x):
            as_floats(v)
        return jnp.asarray(x, jnp.result_type(float))
    return _narrowed(reals(x))


def _is_own(dtype) -> bool:
    """Return whether numbers of this type keep their precision: shorter and longer ones do not."""
    return jnp.issubdtype(dtype, jnp.floating) and 4 <= dtype.itemsize <= 8


def is_half(dtype) -> bool:
    """Return whether these are floats of two bytes, which are too few for dynamics: float16 or bfloat16."""
    return jnp.issubdtype(dtype, jnp.floating) and dtype.itemsize == 2


def _refuse_half(x: Any) -> None:
    dtype = getattr(x, "dtype", None)
    if isinstance(dtype, np.dtype) and is_half(dtype):
        raise TypeError(f'is {dtype}, which has too few digits; cast it, `x.astype("float32")`')


def _entries(x: list | tuple) -> list:
    return jax.tree.leaves(x, is_leaf=lambda v: v is None)


def _refuse_dtype(x: Any) -> None:
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise TypeError("is complex; give its real part, `x.real`, if that is meant")
    if not (jnp.issubdtype(x.dtype, jnp.number) or x.dtype == bool) or x.dtype.kind == "m":  # NumPy counts durations
        raise TypeError(f"is not an array of numbers: it holds {x.dtype}")


def reals(x: Any) -> np.ndarray:
    """Return `x`, which is not traced, as NumPy floats: in their own precision, others in double. Raise the errors of
    `as_floats` for anything but an array of real numbers."""
    if np.ma.is_masked(x):
        raise ValueError("has masked entries; fill them")
    try:
        found = np.asarray(x)
    except (ValueError, TypeError) as error:
        raise _plain(error)(f"is not an array of numbers: {error}") from None
    if found.dtype == np.float64:  # as nearly always in files
        return found
    if not found.dtype.isnative:  # as in files of other machines; JAX takes none
        found = found.astype(found.dtype.newbyteorder("="))
    if found.dtype != object:
        _refuse_dtype(found)
        return found if _is_own(found.dtype) else found.astype(float)
    for v in found.ravel().tolist():
        if isinstance(v, complex | np.complexfloating):
            raise TypeError("is complex; give its real part, `x.real`, if that is meant")
        if not isinstance(v, numbers.Real | np.number | np.bool_):
            raise TypeError(f"is not an array of numbers: it holds {repr(v)[:60]}")
    try:
        return found.astype(float)
    except OverflowError as error:
        raise ValueError(f"is too large: {error}") from None


def _plain(error: Exception) -> type[Exception]:
    """Return the kind of an error that is told in other words: JAX's own cannot be made from a text."""
    return TypeError if isinstance(error, TypeError) else ValueError


def _narrowed(x: np.ndarray) -> Array:
    """Return NumPy floats as a JAX array. Raise `ValueError` for those that fit only in double precision."""
    if x.dtype == np.float64 and jnp.result_type(float) != np.float64:
        with np.errstate(over="ignore"):
            narrow = x.astype(np.float32)
        if (np.isinf(narrow) & np.isfinite(x)).any():
            raise ValueError(
                f'is too large for single precision: {shown(x)}; call `jax.config.update("jax_enable_x64", True)` first'
            )
        x = narrow
    return jnp.asarray(x, x.dtype)  # without a type JAX compiles a copy for each shape


def shown(x: Any) -> str:
    """Return numbers as short text."""
    if not np.ndim(x):
        return f"{float(x):.6g}"
    return np.array2string(np.asarray(x), threshold=16, precision=6, separator=", ").replace("\n", "")


def numbers_of(x: Any) -> np.ndarray | None:
    """Return values in double precision, None if they are traced."""
    return None if isinstance(x, jax.core.Tracer) else np.asarray(x, float)


def check(call: str, name: str, x: Any, *rules: Rule) -> None:
    """Raise `ValueError` if a rule finds something wrong with concrete values."""
    values = numbers_of(x)
    for rule in rules if values is not None else ():
        problem = rule(values)
        if problem is not None:
            raise ValueError(f"{call}: `{name}` {problem}.")


def named(call: str, name: str, read: Callable, x: Any):
    """Return ``read(x)``; its errors name the call and the argument."""
    try:
        return read(x)
    except (TypeError, ValueError) as error:
        raise _plain(error)(f"{call}: `{name}` {error}.") from None


def floats(call: str, name: str, x: Any, shape: tuple[int, ...] | None = None, *rules: Rule) -> Array:
    """Return `x` as floats of that shape that satisfy the rules. Errors name the `call`."""
    out = named(call, name, as_floats, x)
    if shape is not None and out.shape != shape:
        raise ValueError(f"{call}: `{name}` has shape {out.shape}, not {shape}.")
    check(call, name, out, *rules)
    return out


def constants(call: str, name: str, x: Any, shape: tuple[int, ...] | None, *rules: Rule) -> np.ndarray:
    """Return numbers that are known when a model is built, in double precision: finite, and in the range of float32."""
    if type(x) not in (float, np.ndarray) and any(map(_is_traced, jax.tree.leaves(x))):
        raise TypeError(f"{call}: `{name}` is traced; build models outside of `jit` and use `Model.replace` inside.")
    found = named(call, name, reals, x).astype(float)
    if shape is not None and found.shape != shape:
        raise ValueError(f"{call}: `{name}` has shape {found.shape}, not {shape}.")
    check(call, name, found, in_range, *rules)
    return found


def finite(x: np.ndarray) -> str | None:
    return None if np.isfinite(x).all() else f"is not finite: {shown(x)}"


def in_range(x: np.ndarray) -> str | None:
    """Rule of numbers that a model holds."""
    if (np.abs(x) <= LARGEST).all():
        return None
    return finite(x) or f"is beyond the range of float32: {shown(x)}"


def not_nan(x: np.ndarray) -> str | None:
    return f"is not a number: {shown(x)}" if np.isnan(x).any() else None


def not_negative(x: np.ndarray) -> str | None:
    return f"is negative: {shown(x)}" if (x < 0).any() else None


def positive(x: np.ndarray) -> str | None:
    return None if (x > 0).all() else f"is not positive: {shown(x)}"


def at_most_one(x: np.ndarray) -> str | None:
    return f"is above 1: {shown(x)}" if (x > 1).any() else None


def is_rotation(x: np.ndarray) -> str | None:
    """Rule of rotation matrices (..., 3, 3)."""
    if (x == _IDENTITY).all():
        return None
    if not np.isfinite(x).all():
        return f"is not finite: {shown(x)}"
    with np.errstate(over="ignore", invalid="ignore"):
        off = np.abs(x @ np.swapaxes(x, -1, -2) - np.eye(3)).max(initial=0.0)
        if not off <= CLOSE:
            return f"is not a rotation matrix (its rows are not orthonormal): {shown(x)}"
    return None if (np.linalg.det(x) > 0).all() else f"is not a rotation matrix (it mirrors): {shown(x)}"


def is_unit(x: np.ndarray) -> str | None:
    """Rule of unit vectors (..., n)."""
    if not np.isfinite(x).all():
        return f"is not finite: {shown(x)}"
    with np.errstate(over="ignore"):
        long = np.abs(np.linalg.norm(x, axis=-1) - 1).max(initial=0.0)
    return None if long <= CLOSE else f"is not of unit length: {shown(x)}"


def direction(call: str, name: str, x: Any, n: int = 3) -> Array:
    """Return a vector (n,) divided by its length, however large or small it is. Raise `ValueError` for zero."""
    if isinstance(x, jax.core.Tracer) or (isinstance(x, list | tuple) and any(map(_is_traced, _entries(x)))):
        found = floats(call, name, x, (n,))
        return found / jnp.linalg.norm(found)
    named(call, name, _refuse_half, x)
    wide = named(call, name, reals, x)
    if wide.shape != (n,):
        raise ValueError(f"{call}: `{name}` has shape {wide.shape}, not {(n,)}.")
    kept = wide.dtype if hasattr(x, "dtype") and wide.dtype != np.float64 else jnp.result_type(float)
    return jnp.asarray(normalized(call, name, wide.astype(float)), kept)


def _is_traced(x: Any) -> bool:
    return isinstance(x, jax.core.Tracer)


def normalized(call: str, name: str, x: np.ndarray) -> np.ndarray:
    """Return a NumPy vector divided by its length. Raise `ValueError` if it is zero or not finite."""
    check(call, name, x, finite)
    largest = np.abs(x).max(initial=0.0)
    if largest == 0:
        raise ValueError(f"{call}: `{name}` is zero, so it has no direction.")
    _, power = np.frexp(largest)
    x = np.ldexp(x, -power)  # exact, and its squares neither overflow nor vanish
    return x / np.linalg.norm(x)
