"""Functions through kernels beside the same through XLA, lane by lane."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxdyn.engine import host, kernels
from jaxdyn.engine.lanes import laned

needs_kernels = pytest.mark.skipif(
    kernels.default() == "xla" or bool(host.unavailable()), reason="kernels are not made here"
)

#: numbers that functions treat in ways of their own
FLOATS = (0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, 3, -7.25, 1e6, -1e6, 1e30, -1e30, np.inf, -np.inf, np.nan)
TINY = {np.float32: (1e-45, -1e-40, 1e-38, 1.2e-38), np.float64: (5e-324, -1e-310, 2e-308, 2.3e-308)}
WHOLE = (np.int32, np.int64, np.uint32, np.uint64)
INTEGERS = (0, 1, -1, 2, -2, 3, 7, -7, 31, 32, 33, 63, 64, 65, 100, 12345678)


def special(dtype) -> np.ndarray:
    """Numbers of a type: special ones and the ends of its range."""
    if np.dtype(dtype).kind == "f":
        return np.array(FLOATS, dtype)
    if np.dtype(dtype) == bool:
        return np.array([False, True])
    info = np.iinfo(dtype)
    if info.min == 0:
        return np.array([*(k for k in INTEGERS if k >= 0), info.max // 2 + 1, info.max], dtype)
    return np.array([*INTEGERS, info.min + 1, info.min, info.max], dtype)


def pairs(x, y=None) -> tuple[np.ndarray, np.ndarray]:
    """All pairs."""
    a, b = np.meshgrid(x, x if y is None else y)
    return a.ravel(), b.ravel()


def by_kernels(f, *args):
    """`f` of these operands by kernels; raises `Unsupported` with the reason if there is none."""
    args = [jnp.asarray(x) for x in args]
    with kernels.watching() as seen:
        lowered = jax.jit(f).lower(*args)
    for found in seen:
        kernels.program_of(*found)
    assert "@jaxdyn_" in lowered.as_text()
    return lowered.compile()(*args)


def kernel(fn, *args):
    """`fn`, mapped over the first axes, by a kernel."""
    return by_kernels(jax.vmap(laned(fn)), *args)


def lanes(fn, *args):
    """`fn` by XLA, one lane after the other."""

    def one(xs):
        with jax.numpy_rank_promotion("allow"):
            return jax.tree.map(lambda o: o[..., 0], fn(*(x[..., None] for x in xs)))

    return jax.jit(lambda *xs: jax.lax.map(one, xs))(*(jnp.asarray(x) for x in args))


def agree(got, wanted, rtol=0.0, what=""):
    """Equal numbers, NaN where NaN is; floats to `rtol` of the larger of 1 and the number."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype), what
    if got.dtype.kind != "f" or not rtol:
        np.testing.assert_array_equal(got, wanted, what)
    else:
        np.testing.assert_allclose(got, wanted, rtol, rtol, err_msg=what)


def bits(x) -> bytes:
    """What numbers are made of."""
    return b"".join(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(x))


def check(fn, *args, rtol=0.0):
    """Kernel and XLA agree in all outputs."""
    got, wanted = kernel(fn, *args), lanes(fn, *args)
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    failed = []
    for (path, g), w in zip(jax.tree.leaves_with_path(got), jax.tree.leaves(wanted), strict=True):
        name = jax.tree_util.keystr(path)
        try:
            agree(g, w, rtol, name)
        except AssertionError as error:
            failed.append(str(error))
    assert not failed, "\n".join(failed)


@functools.cache
def table(functions: tuple, arity: int):
    """A function to the results of all (name, function) by name."""
    return lambda *xs: {name: f(*xs[:arity]) for name, f in functions}
