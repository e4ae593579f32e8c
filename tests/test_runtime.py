"""The run-time between XLA and compiled programs: a toy program called by XLA, and with frames made by hand."""

import ctypes
import functools
import gc
import mmap
import os
import platform
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import jax.ffi
import jax.numpy as jnp
import llvmlite.binding as llvm
import numpy as np
import pytest

from jaxdyn.engine import runtime

HERE = Path(__file__).resolve().parent
#: bytes of a vector, lanes of a vector
SIZES = [(16, 1), (16, 4), (32, 4), (32, 8), (64, 8), (64, 16), (64, 64)]
BLOCK = 5
X86 = platform.machine().lower() in ("x86_64", "amd64")
unix = pytest.mark.skipif(sys.platform == "win32", reason="mprotect")

#: what goes wrong in a function that compiled code calls fails the test too
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")

HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
engines = []


# ---- a toy program: p = a s0 + 2 s1, q = b / 2 or -b, r = a0 > 0 ----
# p is NaN if a pointer is not aligned or a lane of the vector, also beyond the batch, is NaN

#: F4, F8, I8 and I1 stand for vectors of W lanes
TOY = """
@prologues = global i64 0

declare i1 @llvm.vector.reduce.or.vWi1(I1)

define internal void @prologue(ptr %inputs, ptr %uniform) nounwind {
  %count = atomicrmw add ptr @prologues, i64 1 monotonic
  %s.p = getelementptr ptr, ptr %inputs, i64 2
  %s = load ptr, ptr %s.p
  %both = load <2 x float>, ptr %s, align 4
  %scaled = fmul <2 x float> %both, <float 1.0, float 2.0>
  store <2 x float> %scaled, ptr %uniform
  ret void
}

define internal F4 @splat(float %x) nounwind {
  %first = insertelement F4 poison, float %x, i64 0
  %all = shufflevector F4 %first, F4 poison, <W x i32> zeroinitializer
  ret F4 %all
}

define internal void @one(ptr %stage, ptr %uniform, ptr %arena) nounwind {
  %both = load <2 x float>, ptr %uniform
  %s0 = extractelement <2 x float> %both, i64 0
  %s1 = extractelement <2 x float> %both, i64 1
  %i.stage = ptrtoint ptr %stage to i64
  %i.uniform = ptrtoint ptr %uniform to i64
  %i.arena = ptrtoint ptr %arena to i64
  %i.either = or i64 %i.stage, %i.uniform
  %i.any = or i64 %i.either, %i.arena
  %low = and i64 %i.any, 63
  %askew = icmp ne i64 %low, 0
  %a2.place = getelementptr I8, ptr %stage, i64 24
  %a2.all = load F4, ptr %a2.place, align 1
  %a2.nan = fcmp uno F4 %a2.all, zeroinitializer
  %b0.all = load F8, ptr %stage, align 1
  %b0.nan = fcmp uno F8 %b0.all, zeroinitializer
  %nan = or I1 %a2.nan, %b0.nan
  %some.nan = call i1 @llvm.vector.reduce.or.vWi1(I1 %nan)
  %bad = or i1 %askew, %some.nan
  %s1.good = select i1 %bad, float 0x7ff8000000000000, float %s1
  %u0 = call F4 @splat(float %s0)
  %u1 = call F4 @splat(float %s1.good)
  %m.p = getelementptr I8, ptr %stage, i64 28
  %m.byte = load I8, ptr %m.p, align 1
  %m = trunc I8 %m.byte to I1
FLOATS
DOUBLES
  store volatile F4 %a0, ptr %arena, align 1
  %kept = load volatile F4, ptr %arena, align 1
  %positive = fcmp ogt F4 %kept, zeroinitializer
  %r = zext I1 %positive to I8
  %r.p = getelementptr I8, ptr %stage, i64 41
  store I8 %r, ptr %r.p, align 1
  ret void
}

define internal void @kernel(ptr %stage, ptr %uniform, ptr %arena, i64 %vectors) nounwind {
  br label %loop
loop:
  %v = phi i64 [ 0, %0 ], [ %next, %loop ]
  %place = mul i64 %v, STAGE
  %own = getelementptr i8, ptr %stage, i64 %place
  call void @one(ptr %own, ptr %uniform, ptr %arena)
  %next = add i64 %v, 1
  %more = icmp ult i64 %next, %vectors
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
FLOAT = """
  %aR.p = getelementptr I8, ptr %stage, i64 {at}
  %aR = load F4, ptr %aR.p, align 1
  %asR = fmul F4 %aR, %u0
  %pR = fadd F4 %asR, %u1
  %pR.p = getelementptr I8, ptr %stage, i64 {out}
  store F4 %pR, ptr %pR.p, align 1
"""
DOUBLE = """
  %bR.p = getelementptr I8, ptr %stage, i64 {at}
  %bR = load F8, ptr %bR.p, align 1
  %bsR = fmul F8 %bR, splat (double 0.5)
  %bnR = fneg F8 %bR
  %qR = select I1 %m, F8 %bsR, F8 %bnR
  %qR.p = getelementptr I8, ptr %stage, i64 {out}
  store F8 %qR, ptr %qR.p, align 1
"""


def program(size: int, width: int) -> str:
    """IR of the toy program. Rows begin at multiples of `width` bytes: b 0, a 16, m 28, p 29, r 41, q 42, end 58."""
    floats = "".join(FLOAT.format(at=16 + 4 * k, out=29 + 4 * k).replace("R", str(k)) for k in range(3))
    doubles = "".join(DOUBLE.format(at=8 * k, out=42 + 8 * k).replace("R", str(k)) for k in range(2))
    text = TOY.replace("FLOATS", floats).replace("DOUBLES", doubles)
    for short, kind in (("F4", "float"), ("F8", "double"), ("I8", "i8"), ("I1", "i1")):
        text = text.replace(short, f"<W x {kind}>")
    inputs = [(3, 4, 16 * width), (0, 4, 0), (2, 4, -1), (1, 1, 28 * width), (2, 8, 0)]
    outputs = [(0, 4, 0), (3, 4, 29 * width), (1, 1, 41 * width), (2, 8, 42 * width)]
    stage = -(-58 * width // 64) * 64
    ends = runtime.descriptor("prologue", "kernel", width, BLOCK, inputs, outputs, stage, 8, 4 * width)
    return (
        text.replace("STAGE", str(stage)).replace("<W x", f"<{width} x").replace("vWi1", f"v{width}i1")
        + ends
        + runtime.handler(f"toy_{size}_{width}", size)
    )


def load(*texts: str) -> llvm.ExecutionEngine:
    module, *others = map(llvm.parse_assembly, texts)
    for other in others:
        module.link_in(other)
    engine = llvm.create_mcjit_compiler(module, runtime.host_machine())
    engine.finalize_object()
    engines.append(engine)
    return engine


@functools.cache
def toy(size: int, width: int) -> int:
    """Address of the handler of a toy program, which is registered with XLA under the same name."""
    runtime.provide(size)
    name = f"toy_{size}_{width}"
    address = load(program(size, width)).get_function_address(name)
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    jax.ffi.register_ffi_target(name, capsule(address, None, None), platform="cpu")
    return address


def operands(lanes: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(3, lanes)).astype(np.float32), rng.normal(size=(2, lanes))
    s = rng.uniform(-1, 1, (2, 1)).astype(np.float32)
    return [a, np.zeros((0, lanes), np.float32), s, rng.random((1, lanes)) < 0.5, b]


def expected(a, z, s, m, b) -> list[np.ndarray]:
    return [z, a * s[0] + 2 * s[1], (a[:1] > 0).astype(np.int8), np.where(m, b * 0.5, -b)]


def same(got, want):
    for x, y in zip(got, want, strict=True):
        assert np.array_equal(np.ascontiguousarray(x).view(np.uint8), np.ascontiguousarray(y).view(np.uint8))


def call(size: int, width: int, *args, lanes_first=False):
    toy(size, width)
    lanes = args[0].shape[0 if lanes_first else -1]
    kinds = [(0, np.float32), (3, np.float32), (1, np.int8), (2, np.float64)]
    out = [jax.ShapeDtypeStruct((lanes, n) if lanes_first else (n, lanes), kind) for n, kind in kinds]
    layouts = {"input_layouts": [(1, 0)] * 5, "output_layouts": [(1, 0)] * 4} if lanes_first else {}
    return jax.ffi.ffi_call(f"toy_{size}_{width}", out, **layouts)(*args)


# ---- through XLA ----


@pytest.mark.parametrize("size, width", SIZES)
def test_every_number_of_lanes(size, width):
    block = BLOCK * width
    run = jax.jit(functools.partial(call, size, width))
    for lanes in sorted({0, 1, 2, width - 1, width, width + 1, block - 1, block, block + 1, 1000, 70_000}):
        args = operands(lanes, lanes)
        same(run(*args), expected(*args))


def test_lanes_may_come_first_in_the_shape():
    """Only counts matter: lanes lead in the shape and are last in memory."""
    args = operands(77)
    got = jax.jit(functools.partial(call, 32, 8, lanes_first=True))(*(jnp.asarray(x).T for x in args))
    same([np.asarray(x).T for x in got], expected(*args))


def many_threads(threads=8, calls=20):
    run = jax.jit(functools.partial(call, 32, 8))
    cases = [operands(3000, seed) for seed in range(threads)]

    def work(args):
        for _ in range(calls):
            same(run(*args), expected(*args))

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, cases))


def test_many_threads_at_once():
    many_threads()


def long_scan():
    def step(a, _):
        out = call(32, 8, a, *rest)
        return out[1], out[2].sum(dtype=np.int32)

    a, *rest = operands(300)
    last, positive = jax.jit(lambda a: jax.lax.scan(step, a, None, length=1000))(a)
    want, counts = a, []
    for _ in range(1000):
        _, want, r, _ = expected(want, *rest)
        counts.append(r.sum())
    same([last], [want])
    assert np.array_equal(positive, counts)


def test_in_a_long_scan():
    long_scan()


def child(code: str, first: str = "") -> None:
    """Runs code in another process, which must end well."""
    command = [sys.executable, "-c", f"import os\n{first}\nimport conftest, jax, test_runtime as t\n{code}"]
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_a_pool_of_one():
    flags = "os.environ['XLA_FLAGS'] = '--xla_cpu_multi_thread_eigen=false'\n"
    one = "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n" if hasattr(os, "sched_setaffinity") else ""
    child("t.many_threads(4, 10)\nt.long_scan()", first=flags + one)


def test_the_interpreter_may_end_while_a_program_runs():
    child("out = jax.jit(lambda *x: t.call(32, 8, *x))(*t.operands(2_000_000))")


def small(lanes: int) -> list[np.ndarray]:
    """Operands whose results are denormal."""
    a, z, s, m, b = operands(lanes)
    s = np.array([[0.5], [0.0]], np.float32)
    return [(a * 1e-38).astype(np.float32), z, s, m, b * 1e-308]


@pytest.mark.parametrize("lanes", [1, 8, 3000])
def test_denormals_are_kept(lanes):
    args = small(lanes)
    want = expected(*args)
    assert 0 < np.abs(want[1]).min() < np.finfo(np.float32).tiny
    same(jax.jit(functools.partial(call, 32, 8))(*args), want)


def test_an_operand_of_another_size_is_refused():
    a, *rest = operands(64)
    for args in ([np.zeros((4, 64), np.float32), *rest], [a, *rest[:-1]]):
        with pytest.raises(Exception, match="jaxdyn: an operand has not the shape"):
            jax.block_until_ready(jax.jit(functools.partial(call, 32, 8))(*args))


# ---- frames made by hand: every field that is read takes 8 bytes ----


def words(*values) -> ctypes.Array:
    return (ctypes.c_uint64 * len(values))(*(v or 0 for v in values))


TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))
CONTEXT = 0x1234


class Xla:
    """An XLA whose pool does as it is told: `schedule(task, data)` returns an error's number or None."""

    def __init__(self, schedule=None, threads=None):
        self.errors, self.destroyed, self.asked = [], [], 0
        self.schedule, self.threads = schedule, threads
        self.functions = [FUNCTION(f) for f in (self.create, self.destroy, self.submit, self.number)]
        create, destroy, submit, number = (ctypes.cast(f, ctypes.c_void_p).value for f in self.functions)
        self.api = words(19 * 8, 0, 24, 0, 0, 0, create, 0, destroy, *[0] * 8, submit, number)

    def create(self, args):
        assert args[0] == 28
        self.errors.append((args[3] & 0xFFFFFFFF, ctypes.string_at(args[2]).decode()))
        return 77

    def destroy(self, args):
        assert args[0] == 24
        self.destroyed.append(args[2])

    def number(self, args):
        assert (args[0], args[2]) == (32, CONTEXT)
        if self.threads is None:
            return 5
        ctypes.c_int64.from_address(args[3]).value = self.threads
        return None

    def submit(self, args):
        assert (args[0], args[2]) == (40, CONTEXT)
        self.asked += 1
        return self.schedule(TASK(args[3]), args[4])

    def run(self, address: int, args, outs) -> int | None:
        """Calls a handler; returns its error."""
        keep = []

        def kept(*values) -> int:
            keep.append(words(*values))
            return ctypes.addressof(keep[-1])

        def buffers(arrays):
            places = [kept(48, 0, 0, x.ctypes.data, x.ndim, kept(*x.shape)) for x in arrays]
            return 40, 0, len(arrays), 0, kept(*places)

        api = ctypes.addressof(self.api)
        error = HANDLER(address)(kept(176, 0, api, CONTEXT, 3, *buffers(args), *buffers(outs), *[0] * 7))
        for array in keep:
            ctypes.memset(array, 0xDD, ctypes.sizeof(array))  # whoever comes late must not need it
        return error


def results(lanes: int) -> list[np.ndarray]:
    return [np.full(x.shape, 9, x.dtype) for x in expected(*operands(lanes))]


class Guarded:
    """Arrays between pages that nobody may touch, at the begin or the end of their own pages."""

    def __init__(self, at_end: bool):
        self.at_end, self.held = at_end, []

    def array(self, x: np.ndarray) -> np.ndarray:
        page = mmap.PAGESIZE
        size = max(1, -(-x.nbytes // page)) * page
        whole = mmap.mmap(-1, size + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(whole))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        for place in (start, start + page + size):
            assert protect(ctypes.c_void_p(place), ctypes.c_size_t(page), 0) == 0
        inner = np.frombuffer(whole, np.uint8, size, page)
        inner[:] = 0xA5
        skip = size - x.nbytes if self.at_end else 0
        out = inner[skip : skip + x.nbytes].view(x.dtype).reshape(x.shape)
        out[...] = x
        self.held.append((inner, skip, x.nbytes))
        return out

    def untouched(self) -> bool:
        return all((m[:s] == 0xA5).all() and (m[s + n :] == 0xA5).all() for m, s, n in self.held)


@unix
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


def test_it_answers_the_query_for_its_version():
    metadata = words(48, 24, 0, 2**64 - 1, 2**64 - 1, 0)
    extension = words(32, 1, 0, ctypes.addressof(metadata))
    frame = words(176, ctypes.addressof(extension), *[0] * 20)
    assert HANDLER(toy(32, 8))(ctypes.addressof(frame)) is None
    major, minor = runtime.version()
    assert metadata[3] == major | minor << 32
    assert metadata[4] & 0xFFFFFFFF == 0


# ---- a run-time whose memory is counted, may run out, and is scrambled when it is freed ----


class Memory:
    def __init__(self):
        self.libc = ctypes.CDLL(None)
        self.libc.malloc.restype = ctypes.c_void_p
        self.reset()
        self.take = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(self.malloc)
        self.give = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.free)
        for name, function in (("counted_malloc", self.take), ("counted_free", self.give)):
            llvm.add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)

    def reset(self, fail=()):
        self.live, self.freed, self.asked, self.failing = {}, [], 0, set(fail)

    def malloc(self, size):
        self.asked += 1
        if self.asked - 1 in self.failing:
            return None
        place = self.libc.malloc(ctypes.c_size_t(size))
        ctypes.memset(place, 0xFF, size)  # NaN
        self.live[place] = size
        return place

    def free(self, place):
        size = self.live.pop(place)  # KeyError: freed twice
        ctypes.memset(place, 0xDD, size)
        self.freed.append((place, size))

    def clean(self) -> bool:
        """All was freed, and nothing written since. What was freed is kept until then, so that nobody gets it anew."""
        ok = not self.live and all(ctypes.string_at(p, n) == b"\xdd" * n for p, n in self.freed)
        for place, _ in self.freed:
            self.libc.free(ctypes.c_void_p(place))
        self.freed.clear()
        return ok


@functools.cache
def counted():
    """The toy program on a run-time of its own, and the memory of that."""
    memory = Memory()
    text = runtime.source(32, runtime.host_machine().triple)
    text = text.replace("@malloc(", "@counted_malloc(").replace("@free(", "@counted_free(")
    engine = load(*(t.replace("@jaxdyn_run_32(", "@counted_run(") for t in (text, program(32, 8))))
    return engine.get_function_address("toy_32_8"), memory, engine.get_global_value_address("prologues")


def attempt(xla: Xla, lanes: int = 403, fail=()):
    """Calls the counted program; returns its error, its results and what they should be."""
    address, memory, _ = counted()
    memory.reset(fail)
    args, outs = operands(lanes), results(lanes)
    return xla.run(address, args, outs), outs, expected(*args)


def at_once(task, data):
    task(data)


@unix
def test_a_late_task_only_drops_its_reference():
    late = []
    xla = Xla(lambda *task: late.append(task), threads=4)
    prologues = ctypes.c_int64.from_address(counted()[2])
    before = prologues.value
    error, outs, want = attempt(xla)
    assert error is None and prologues.value == before + 1
    same(outs, want)
    assert len(late) == 3 and len(counted()[1].live) == 1  # the job, waiting for them
    gc.collect()
    threads = [threading.Thread(target=task, args=(data,)) for task, data in late]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted()[1].asked == 2 and counted()[1].clean()


@unix
def test_tasks_may_run_at_once_or_beside():
    error, outs, want = attempt(Xla(at_once, threads=4))
    assert error is None and counted()[1].clean()
    same(outs, want)

    threads = []

    def beside(task, data):
        threads.append(threading.Thread(target=task, args=(data,)))
        threads[-1].start()

    for _ in range(20):
        error, outs, want = attempt(Xla(beside, threads=4))
        while threads:
            threads.pop().join()
        assert error is None and counted()[1].clean()
        same(outs, want)


@unix
@pytest.mark.parametrize("threads, lanes, tasks", [(1, 403, 0), (0, 403, 0), (8, 40, 0), (8, 41, 1), (8, 121, 3)])
def test_no_more_helpers_than_of_use(threads, lanes, tasks):
    xla = Xla(at_once, threads=threads)
    error, outs, want = attempt(xla, lanes)
    assert error is None and xla.asked == tasks and counted()[1].clean()
    same(outs, want)


@unix
def test_a_pool_that_refuses():
    late = []
    for schedule, threads in ((None, None), (lambda *task: 6, 4), (lambda *t: 6 if late else late.append(t), 4)):
        xla = Xla(schedule, threads)
        error, outs, want = attempt(xla)
        assert error is None and xla.destroyed == [5 if threads is None else 6]
        same(outs, want)
        for task, data in late:
            task(data)
        assert counted()[1].clean()


@unix
def test_without_memory():
    for failing in (0, 1):
        xla = Xla(at_once, threads=4)
        error, outs, _ = attempt(xla, fail=[failing])
        assert error == 77 and xla.errors == [(8, "jaxdyn: not enough memory for the kernel")]
        assert all((x == 9).all() for x in outs) and counted()[1].clean()
    error, outs, want = attempt(Xla(at_once, threads=4), fail=[2, 3])  # helpers that cannot help
    assert error is None and counted()[1].asked == 5 and counted()[1].clean()
    same(outs, want)


@pytest.mark.skipif(not X86, reason="reads the control word of x86")
def test_the_control_word_is_the_kernels_own():
    """Threads that flush denormals keep them here, in the prologue too, and find their word as it was."""
    engine = load("""
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define ptr @flushing(ptr %handler, ptr %frame, ptr %word) {
  %saved = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %saved)
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  %error = call ptr %handler(ptr %frame)
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  call void @llvm.x86.sse.ldmxcsr(ptr %saved)
  ret ptr %error
}
""")
    call_it = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * 3)(engine.get_function_address("flushing"))
    words_left = []

    def flushing(function, argument):
        word = ctypes.c_uint32(0xFFC0)  # flush to zero, denormals are zero, round to zero
        error = call_it(ctypes.cast(function, ctypes.c_void_p), argument, ctypes.addressof(word))
        words_left.append(word.value)
        return error

    def task(*task):  # the first one does all the work
        flushing(*task)

    address = ctypes.cast(handler := HANDLER(lambda frame: flushing(toy(32, 8), frame)), ctypes.c_void_p).value
    for lanes in (8, 1000):
        args, outs = small(lanes), results(lanes)
        args[2] = np.array([[0.5], [1e-40]], np.float32)
        assert Xla(task, threads=2).run(address, args, outs) is None
        same(outs, expected(*args))
    assert words_left == [0xFFC0] * 3 and handler


# ---- the text ----


def test_provide_compiles_once():
    with ThreadPoolExecutor(8) as pool:
        names = set(pool.map(lambda _: runtime.provide(128), range(16)))
    assert names == {"jaxdyn_run_128"}
    address = llvm.address_of_symbol("jaxdyn_run_128")
    machine = runtime.host_machine()
    assert runtime.provide(128, machine) and llvm.address_of_symbol("jaxdyn_run_128") == address
    for size in (8, 48):
        with pytest.raises(ValueError):
            runtime.provide(size)


@pytest.mark.parametrize("triple", ["aarch64-linux-gnu", "arm64-apple-darwin", "riscv64-linux", "x86_64-windows"])
def test_it_is_valid_for_other_processors(triple):
    text = runtime.source(16, triple)
    assert not re.search(r"@[A-Z_]+@|^;; ", text, re.MULTILINE)
    assert ("fpcr" in text, "mxcsr" in text) == (triple.startswith("a"), triple.startswith("x86"))
    llvm.parse_assembly(text).verify()


def test_programs_that_cannot_be_copied_are_refused():
    good = {"inputs": [(2, 4, 0)], "outputs": [(2, 4, 64)], "stage_bytes": 128, "uniform_bytes": 0, "arena_bytes": 0}
    assert "ptr null, ptr @k" in runtime.descriptor(None, "k", 8, 4, **good)
    bad = [{"inputs": [(3, 8, 0)]}, {"inputs": [(1, 3, 0)]}, {"outputs": [(1, 4, -1)]}, {"stage_bytes": 100}]
    for change in bad:
        with pytest.raises(ValueError):
            runtime.descriptor(None, "k", 8, 4, **{**good, **change})
    with pytest.raises(ValueError):
        runtime.descriptor(None, "k", 6, 4, **good)


def test_the_structures_are_those_of_the_installed_header():
    header = Path(jax.ffi.include_dir(), "xla/ffi/api/c_api.h").read_text()
    header = re.sub(r"//.*", "", header).replace("_XLA_FFI_API_STRUCT_FIELD(", "fn *(")
    text = runtime.source(32, "x86_64-linux")
    found = dict(re.findall(r"^%(XLA_FFI_\w+) = type \{ (.*?) \}", text, re.MULTILINE))
    assert len(found) == 14

    def kind(field: str) -> str:
        name = field.split()[-2] if "*" not in field else "*"
        inner = {"*": "ptr", "size_t": "i64", "int64_t": "i64", "XLA_FFI_TypeId": "i64"}
        return inner.get(name) or ("%" + name if "%" + name in text and name in found else "i32")

    for name, fields in found.items():
        body = re.search(rf"struct {name} \{{(.*?)\n\}}", header, re.DOTALL)[1]
        want = [kind(f) if "*" in f else kind(f.strip()) for f in body.split(";") if f.strip()]
        got = fields.split(", ")
        assert got == want[: len(got)] and (len(got) == len(want) or name == "XLA_FFI_Api"), name
    functions = re.findall(r"fn \*\((XLA_FFI_\w+)\)", header)
    comment = text[text.index("; struct_size, extensions, version, internal") : text.index("%XLA_FFI_Api =")]
    named = re.findall(r"(\d+) (\w+_\w+)", comment)
    assert named == [(str(k + 4), name.removeprefix("XLA_FFI_")) for k, name in enumerate(functions[: len(named)])]
