"""The run-time between XLA and compiled programs: a toy program called by XLA, and with frames made by hand."""

import ctypes
import functools
import gc
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
import numpy as np
import pytest
from runtime_help import (
    BLOCK,
    HANDLER,
    SIZES,
    Memory,
    Xla,
    expected,
    load,
    operands,
    program,
    prologues,
    results,
    same,
    toy,
    words,
)

from jaxdyn.engine import host, native, runtime
from jaxdyn.engine.lanes import laned

HERE = Path(__file__).resolve().parent
REASON = host.unavailable()
X86 = platform.machine().lower() in ("x86_64", "amd64")
unix = pytest.mark.skipif(sys.platform == "win32", reason="mprotect")

pytestmark = [
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
    # what goes wrong in a function that compiled code calls fails the test too
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]


def call(size: int, width: int, *args):
    toy(size, width)
    kinds = [(0, np.float32), (3, np.float32), (1, np.int8), (2, np.float64)]
    out = [jax.ShapeDtypeStruct((args[0].shape[0], n), kind) for n, kind in kinds]
    return jax.ffi.ffi_call(f"toy_{size}_{width}", out)(*args)


# ---- through XLA ----


@pytest.mark.parametrize("size, width", SIZES)
def test_every_number_of_lanes(size, width):
    block = BLOCK * width
    run = jax.jit(functools.partial(call, size, width))
    for lanes in sorted({0, 1, 2, width - 1, width, width + 1, block - 1, block, block + 1, 1000, 70_000}):
        args = operands(lanes, lanes)
        same(run(*args), expected(*args))


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
    s = np.array([[0.5, 0.0]], np.float32)
    return [(a * 1e-38).astype(np.float32), z, s, m, b * 1e-308]


@pytest.mark.parametrize("lanes", [1, 8, 3000])
def test_denormals_are_kept(lanes):
    args = small(lanes)
    want = expected(*args)
    assert 0 < np.abs(want[1]).min() < np.finfo(np.float32).tiny
    same(jax.jit(functools.partial(call, 32, 8))(*args), want)


def test_an_operand_of_another_size_is_refused():
    a, *rest = operands(64)
    for args in ([np.zeros((64, 4), np.float32), *rest], [a, *rest[:-1]]):
        with pytest.raises(Exception, match="jaxdyn: an operand has not the shape"):
            jax.block_until_ready(jax.jit(functools.partial(call, 32, 8))(*args))


# ---- frames made by hand ----


def test_it_answers_the_query_for_its_version():
    metadata = words(48, 24, 0, 2**64 - 1, 2**64 - 1, 0)
    extension = words(32, 1, 0, ctypes.addressof(metadata))
    frame = words(176, ctypes.addressof(extension), *[0] * 20)
    assert HANDLER(toy(32, 8))(ctypes.addressof(frame)) is None
    major, minor = runtime.version()
    assert metadata[3] == major | minor << 32
    assert metadata[4] & 0xFFFFFFFF == 0


# ---- a run-time whose memory is counted, may run out, and is scrambled when it is freed ----


@functools.cache
def counted():
    """The toy program on a run-time of its own, and the memory of that."""
    memory = Memory()
    toy(32, 8)
    text = runtime.source(32, host.target().triple)
    text = text.replace("@jaxdyn_malloc(", "@counted_malloc(").replace("@jaxdyn_free(", "@counted_free(")
    texts = [t.replace("@jaxdyn_run_32(", "@counted_run(") for t in (text, program(32, 8))]
    return load("toy_32_8", *texts), memory


def attempt(xla: Xla, lanes: int = 403, fail=()):
    """Calls the counted program; returns its error, its results and what they should be."""
    address, memory = counted()
    memory.reset(fail)
    args, outs = operands(lanes), results(lanes)
    return xla.run(address, args, outs), outs, expected(*args)


def at_once(task, data):
    task(data)


@unix
def test_a_late_task_only_drops_its_reference():
    late = []
    xla = Xla(lambda *task: late.append(task), threads=4)
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
    flush = load(
        "flushing",
        """
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
""",
    )
    call_it = ctypes.CFUNCTYPE(ctypes.c_void_p, *[ctypes.c_void_p] * 3)(flush)
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
        args[2] = np.array([[0.5, 1e-40]], np.float32)
        assert Xla(task, threads=2).run(address, args, outs) is None
        same(outs, expected(*args))
    assert words_left == [0xFFC0] * 3 and handler


# ---- the text ----


def test_provide_compiles_once():
    def address(name):
        return native.llvm().address_of_symbol(name)

    with ThreadPoolExecutor(8) as pool:
        names = set(pool.map(lambda _: runtime.provide(128), range(16)))
    assert names == {"jaxdyn_run_128"}
    first = address("jaxdyn_run_128")
    assert first and runtime.provide(128) and address("jaxdyn_run_128") == first
    for size in (2, 48):
        with pytest.raises(ValueError):
            runtime.provide(size)


def test_programs_share_copies_for_their_numbers_alone():
    """Copies for numbers of other sizes would take longer to compile than a small program."""

    def copied(text):
        return {int(size) for size in re.findall(r"define internal void @copy_(\d+)_", text)}

    triple = host.target().triple
    assert copied(runtime.source(32, triple)) == set(runtime.NUMBERS)
    assert copied(runtime.source(32, triple, (1, 4))) == {1, 4}
    names = [runtime.name_of(32, n) for n in (runtime.NUMBERS, (4,), (1, 4), (8,))]
    assert len(set(names)) == 4 and names[0] == "jaxdyn_run_32"
    for size, dtypes in (((4,), [np.float32]), ((8,), [np.float64]), ((1, 4, 8), [np.float32, np.float64])):
        x = [np.linspace(0, 1, 9).astype(d) for d in dtypes]

        def doubled(*x):
            out = [2 * a for a in x]
            return [*out, *(a > 0.5 for a in x if len(x) > 1)]

        found = jax.jit(jax.vmap(laned(doubled)))(*x)
        for a, b in zip(found, doubled(*x), strict=True):
            np.testing.assert_array_equal(a, b)
        assert runtime.name_of(host.target().vector_bytes, size) in runtime._provided


def test_it_is_imported_without_llvmlite():
    code = "import sys; sys.modules['llvmlite'] = None\nfrom jaxdyn.engine import runtime; runtime.source(64, 'x86_64')"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("triple", ["aarch64-linux-gnu", "arm64-apple-darwin", "riscv64-linux", "x86_64-windows"])
def test_it_is_valid_for_other_processors(triple):
    text = runtime.source(16, triple)
    assert not re.search(r"@[A-Z_]+@|^;; ", text, re.MULTILINE)
    assert ("fpcr" in text, "mxcsr" in text) == (triple.startswith("a"), triple.startswith("x86"))
    native.llvm().parse_assembly(text).verify()


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
    before = {
        "InternalExtension": "Extension_Base",
        "Error_GetDetails": "Error_GetMessage",
        "InvokeContext_Get": "ExecutionContext_Get",
    }
    for new, old in before.items():  # names from JAX 0.11 on
        header = header.replace(new, old)
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
