"""What the run-time copies between buffers and stage: every size of number and tile, and nothing beside."""

import ctypes
import itertools
import sys

import numpy as np
import pytest
from runtime_help import BLOCK, SIZES, Guarded, Xla, expected, known, load, operands, results, same, toy

from jaxdyn.engine import host, runtime

REASON = host.unavailable()
pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    pytest.mark.skipif(sys.platform == "win32", reason="mprotect"),
    # what goes wrong in the kernel that is Python fails the test too
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("size, width", SIZES)
def test_nothing_outside_the_buffers_is_touched(size, width, at_end):
    address = toy(size, width)
    for lanes in sorted({1, 2, 3, width - 1, width, width + 1, BLOCK * width - 1, BLOCK * width + 1, 1029} - {0}):
        guarded = Guarded(at_end)
        args = [guarded.array(x) for x in operands(lanes)]
        outs = [guarded.array(x) for x in results(lanes)]
        assert Xla().run(address, args, outs) is None
        same(outs, expected(*args))
        assert guarded.untouched()


@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize("size, width", SIZES)
def test_lanes_are_transposed(size, width, at_end):
    """A program whose kernel is Python: what it finds in the stage, and what becomes of what it leaves there."""
    sizes = list(itertools.product((1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33), runtime.NUMBERS))
    ends = list(itertools.accumulate(rows * number * width for rows, number in sizes))
    places = [(*o, at) for o, at in zip(sizes, [0, *ends], strict=False)]
    stage_bytes = -(-ends[-1] // 64) * 64
    rng = np.random.default_rng(0)

    def kernel(stage, uniform, arena, vectors):
        data = np.ctypeslib.as_array(ctypes.cast(stage, ctypes.POINTER(ctypes.c_uint8)), (vectors, stage_bytes))
        begin = next(begins)
        index = np.minimum(begin + np.arange(vectors * width), lanes - 1).reshape(vectors, width)
        beyond = (begin + np.arange(vectors * width) >= lanes).reshape(vectors, width)
        for (rows, number, at), x in zip(places, args, strict=True):
            place = data[:, at : at + rows * width * number]
            found = place.copy().view(x.dtype).reshape(vectors, rows, width).swapaxes(1, 2)
            right.append(np.array_equal(found, x[index]))
            found[...] = ~found
            found[beyond] = 0x5A  # nobody must see it
            place[...] = found.swapaxes(1, 2).view(np.uint8).reshape(place.shape)

    name = f"layout_{size}_{width}_{at_end}"
    seen = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(kernel)
    known("python_kernel_" + name, seen)
    runtime.provide(size)
    address = load(
        name,
        f"declare void @python_kernel_{name}(ptr, ptr, ptr, i64)\n"
        + runtime.descriptor(None, f"python_kernel_{name}", width, 2, places, places, stage_bytes, 0, 0)
        + runtime.handler(name, size),
    )
    for lanes in sorted({1, 2, width - 1, width, width + 1, 3 * width - 1, 4 * width + width // 2} - {0}):
        begins, right, guarded = itertools.count(0, 2 * width), [], Guarded(at_end)
        args = [
            guarded.array(rng.integers(0, 2 ** (8 * b), (lanes, r), np.dtype(f"u{b}"), endpoint=False))
            for r, b in sizes
        ]
        outs = [guarded.array(np.zeros_like(x)) for x in args]
        assert Xla().run(address, args, outs) is None
        assert len(right) == len(args) * -(-lanes // (2 * width)) and all(right)
        same(outs, [~x for x in args])
        assert guarded.untouched()
