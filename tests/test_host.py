"""Compiling, linking and registering: right on every kind of processor, from several threads, after a fork, at exit."""

import ctypes
import os
import platform
import random
import struct
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from jaxdyn.engine import cache, host, native, objects

REASON = host.unavailable()
X86 = platform.machine().lower() in ("x86_64", "amd64")
MAPS = Path("/proc/self/maps")
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXDYN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("JAXDYN_CPU", raising=False)
    monkeypatch.delenv("JAXDYN_VECTOR_BYTES", raising=False)


def straight(count: int, name: str, lanes: int = 4, seed: int = 0) -> str:
    """LLVM text of a function of two arrays: `count` sums, products and multiply-adds of vectors, and constants."""
    draw, v = random.Random(seed), f"<{lanes} x float>"
    made = [f"declare {v} @llvm.fma.v{lanes}f32({v}, {v}, {v})", f"define void @{name}(ptr %in, ptr %out) nounwind {{"]
    for k in range(20):
        made += [f"%p{k} = getelementptr {v}, ptr %in, i64 {k}", f"%v{k} = load {v}, ptr %p{k}, align 4"]

    def value(k):
        if draw.random() < 0.05:
            (bits,) = struct.unpack("<Q", struct.pack("<d", draw.randrange(1, 1000) / 1024))
            return f"<{', '.join([f'float 0x{bits:016X}'] * lanes)}>"
        return f"%v{max(0, k - 1 - draw.randrange(60))}"

    for k in range(20, 20 + count):
        a, b, c = value(k), value(k), value(k)
        made.append(
            f"%v{k} = "
            + draw.choice((f"fadd {v} {a}, {b}", f"call {v} @llvm.fma.v{lanes}f32({v} {a}, {v} {b}, {v} {c})"))
        )
    return "\n".join([*made, f"store {v} %v{19 + count}, ptr %out, align 4", "ret void", "}"])


def constant(number: int, name: str = "answer") -> str:
    return f"define i32 @{name}() nounwind {{\n  ret i32 {number}\n}}\n"


def call(address: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int32)(address)()


def child(code: str, timeout: float = 120, **environment) -> str:
    """What a new process prints; it must end well."""
    start = "import sys\nsys.path.insert(0, 'tests')\nimport ctypes, os, threading, time\n"
    start += "from jaxdyn.engine import host, native\nfrom test_host import call, constant, straight\n"
    done = subprocess.run(
        [sys.executable, "-c", start + textwrap.dedent(code)],
        cwd=Path(__file__).resolve().parents[1],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# whether it works here at all


def test_importing_does_not_import_llvmlite():
    code = "import sys\nfrom jaxdyn.engine import cache, host\nprint('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["False"], done.stderr


def test_reasons_in_plain_words(tmp_path):
    """A fake of llvmlite for every way in which it can be missing, broken or too new."""
    good = "import llvmlite\ndef initialize_native_target(): pass\n"
    good += "initialize_native_asmprinter = initialize_native_target\n"
    fakes = {
        "missing module": ("", "import llvmlite.part_that_is_gone", "No module named 'llvmlite.part_that_is_gone'"),
        "missing library": ("", "raise OSError('Could not find/load shared object file')", "shared object"),
        "too new": ("", good, "AttributeError"),
        "initialisation": ("", "def initialize_native_target(): raise RuntimeError('is deprecated')", "is deprecated"),
        "syntax": ("this is no Python", "", "could not be imported"),
        "import fails": ("raise OSError('libLLVM.so: file too short')", "", "file too short"),
    }
    for name, (init, binding, _) in fakes.items():
        package = tmp_path / name.replace(" ", "_") / "llvmlite"
        (package / "binding").mkdir(parents=True)
        (package / "__init__.py").write_text(init or "__version__ = '0.99'\n")
        (package / "binding" / "__init__.py").write_text(binding)
    out = child(
        f"""
        folder, fakes = {str(tmp_path)!r}, {list(fakes)!r}
        clean = list(sys.path)
        def reason():
            host._reason.clear(); native._state.clear()
            for name in [n for n in sys.modules if n.split('.')[0] == 'llvmlite']:
                del sys.modules[name]
            found = host.unavailable()
            assert host.unavailable() == found  # remembered
            return found
        for fake in fakes:
            sys.path[:] = [os.path.join(folder, fake.replace(' ', '_')), *clean]
            print(reason())
        sys.path[:] = clean
        sys.modules['llvmlite'] = None
        host._reason.clear()
        print(host.unavailable())
        native.compile_ir = lambda *a: (_ for _ in ()).throw(AssertionError('not reached'))
        """
    ).splitlines()
    for (_, _, expected), said in zip(fakes.values(), out, strict=False):
        assert said.startswith("llvmlite") and expected in said
    assert out[2].startswith("llvmlite 0.99 could not be initialised: ")
    assert out[-1] == "llvmlite is not installed"


def test_wrong_code_is_a_reason(monkeypatch):
    monkeypatch.setattr(host, "_reason", [])
    wrong = native.load(native.compile_ir([constant(41)], *host_parts()), "answer")
    monkeypatch.setattr(native, "load", lambda *a: wrong)
    assert host.unavailable().endswith("compiles wrong code")


def host_parts(opt: int = 2) -> tuple:
    target = host.target()
    return target.triple, target.cpu, target.features, opt


# targets


@pytest.mark.skipif(not X86, reason="the levels are those of x86-64")
def test_targets(monkeypatch):
    here = host.target()
    assert here.vector_bytes == {"x86-64-v4": 64, "x86-64-v3": 32}.get(here.cpu, 16)
    monkeypatch.setenv("JAXDYN_CPU", "x86-64")
    assert (host.target().cpu, host.target().features, host.target().vector_bytes) == ("x86-64", "", 16)
    monkeypatch.setenv("JAXDYN_CPU", "native")
    assert host.target().vector_bytes == here.vector_bytes and host.target().features
    for cpu, size in (("sandybridge", 16), ("haswell", 32), ("skylake-avx512", 64)):
        monkeypatch.setenv("JAXDYN_CPU", cpu)
        assert (host.target().cpu, host.target().vector_bytes) == (cpu, size)
    monkeypatch.setenv("JAXDYN_CPU", "haswel")
    with pytest.raises(ValueError, match="JAXDYN_CPU=haswel is no processor that LLVM knows; use x86-64"):
        host.target()
    monkeypatch.setattr(host, "_host", lambda: ("x86-64-v2", ""))
    with pytest.raises(ValueError, match="lacks; unset it or use x86-64-v2"):
        host._check_cpu("x86-64-v3")


def test_vector_bytes_from_the_environment(monkeypatch):
    for size in (4, 8, 16, 32, 64):
        monkeypatch.setenv("JAXDYN_VECTOR_BYTES", str(size))
        assert host.target().vector_bytes == size
    for wrong in ("2", "12", "128", "many"):
        monkeypatch.setenv("JAXDYN_VECTOR_BYTES", wrong)
        with pytest.raises(ValueError, match=f"JAXDYN_VECTOR_BYTES={wrong}"):
            host.target()


FMA = """
declare <4 x float> @llvm.fma.v4f32(<4 x float>, <4 x float>, <4 x float>)
declare <2 x double> @llvm.fma.v2f64(<2 x double>, <2 x double>, <2 x double>)
define void @f(ptr %x, ptr %y) nounwind {
  %a = load <4 x float>, ptr %x, align 4
  %m = fneg <4 x float> %a
  %b = fmul <4 x float> %a, %a
  %c = fneg <4 x float> %b
  %d = call <4 x float> @llvm.fma.v4f32(<4 x float> %a, <4 x float> %a, <4 x float> %c)
  store <4 x float> %d, ptr %x, align 4
  %e = load <2 x double>, ptr %y, align 8
  %g = fmul <2 x double> %e, %e
  %h = fneg <2 x double> %g
  %i = call <2 x double> @llvm.fma.v2f64(<2 x double> %e, <2 x double> %e, <2 x double> %h)
  store <2 x double> %i, ptr %y, align 8
  ret void
}
"""


def fused() -> list[float]:
    """x² - round(x²) of four floats and two doubles: zero unless multiply-adds round once."""
    address = host.load(host.compile_ir([FMA], host.target()), "f")
    x = (ctypes.c_float * 4)(*(1 + 2.0**-k for k in (12, 13, 14, 20)))
    y = (ctypes.c_double * 2)(1 + 2.0**-27, 1 + 2.0**-30)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)(ctypes.addressof(x), ctypes.addressof(y))
    return [*x, *y]


EXACT = [2.0**-24, 2.0**-26, 2.0**-28, 2.0**-40, 2.0**-54, 2.0**-60]


def test_multiply_adds_round_once():
    assert fused() == EXACT


@pytest.mark.skipif(not X86, reason="a processor without FMA is an x86-64")
def test_a_processor_without_fma():
    """Multiply-adds become calls of the C library, which are found and right; whole programs run."""
    out = child(
        """
        from test_host import EXACT, fused
        assert host.target().vector_bytes == 16
        assert fused() == EXACT
        made = host.made(b'a', lambda: [straight(300, 'k')], 'k')
        x = (ctypes.c_float * 80)(*([0.01] * 80)); y = (ctypes.c_float * 4)()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(made.address)(ctypes.addressof(x), ctypes.addressof(y))
        print(*bytes(y))
        """,
        JAXDYN_CPU="x86-64",
    )
    address = host.made(b"a", lambda: [straight(300, "k")], "k").address
    x, y = (ctypes.c_float * 80)(*([0.01] * 80)), (ctypes.c_float * 4)()
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)(ctypes.addressof(x), ctypes.addressof(y))
    assert out.split() == [str(b) for b in bytes(y)]  # the same bits


# compiling and linking


def parts(count: int, number: int, lanes: int = 4, size: int = 50) -> list[str]:
    """Modules that call each other: `main` returns `number` plus one for each part."""
    made = []
    for k in range(count):
        made.append(
            straight(size, f"k{k}", lanes, seed=k)
            + f"\n@table{k} = internal constant [2 x ptr] [ptr @k{k}, ptr @one{k}]\n"
            + f"define i32 @one{k}() nounwind {{\n  %f = load ptr, ptr getelementptr (ptr, ptr @table{k}, i64 1)\n"
            + f"  %same = icmp eq ptr %f, @one{k}\n  %one = zext i1 %same to i32\n  ret i32 %one\n}}\n"
        )
    body = [f"declare i32 @one{k}()" for k in range(count)] + ["define i32 @main() nounwind {", "  %s0 = add i32 0, 0"]
    for k in range(count):
        body += [f"  %c{k} = call i32 @one{k}()", f"  %s{k + 1} = add i32 %s{k}, %c{k}"]
    return [*made, "\n".join([*body, f"  %s = add i32 %s{count}, {number}", "  ret i32 %s", "}"])]


def test_modules_are_joined_and_find_each_other():
    texts = parts(5, 100)
    compiled = host.compile_ir(texts, host.target())
    assert call(host.load(compiled, "main")) == 105
    apart = [host.compile_ir([t], host.target())[0] for t in texts]
    assert call(host.load(apart, "main")) == 105
    assert objects.joined([b"not an object", b"neither"]) == [b"not an object", b"neither"]
    assert objects.undefined(b"not an object") is None


@pytest.mark.skipif(sys.platform != "linux", reason="objects are joined where they are ELF")
def test_a_joined_object_is_one_and_can_be_joined_again():
    texts = parts(5, 100)
    one = host.compile_ir(texts, host.target())
    assert len(one) == 1 and objects.undefined(one[0]) == []
    rest = host.compile_ir([texts[1].replace("one1", "two").replace("k1", "k9")], host.target())
    assert call(host.load([*one, *rest], "main")) == 105
    with pytest.raises(ValueError, match="two object files define"):
        objects.joined([*one, *one])


def test_code_does_not_depend_on_threads(monkeypatch):
    texts = parts(5, 7, size=300)
    many = host.compile_ir(texts, host.target())
    monkeypatch.setattr(native, "cores", lambda: 1)
    assert host.compile_ir(texts, host.target()) == many
    monkeypatch.setattr(native, "_emit_unlocked", lambda _, machine, module: machine.emit_object(module))
    assert host.compile_ir(texts, host.target()) == many


def test_text_that_llvm_refuses():
    with pytest.raises(RuntimeError, match="LLVM IR parsing error"):
        host.compile_ir([constant(1), "define i32 @f() { ret i64 %x }"], host.target())
    with pytest.raises(RuntimeError, match="does not dominate"):
        host.compile_ir(
            ["define i32 @f(i32 %x) {\n%a = add i32 %b, %x\n%b = add i32 %x, 1\nret i32 %a\n}"], host.target()
        )


def test_functions_that_are_missing_are_an_error_and_no_crash():
    text = "declare i32 @jaxdyn_none()\ndefine i32 @f() {\n%x = call i32 @jaxdyn_none()\nret i32 %x\n}"
    compiled = host.compile_ir([text], host.target())
    with pytest.raises(RuntimeError, match="jaxdyn_none|materialize"):
        host.load(compiled, "f")
    with pytest.raises(RuntimeError):
        host.load(host.compile_ir([constant(1)], host.target()), "g")
    for damaged in (b"", b"garbage", compiled[0][:200]):
        with pytest.raises(RuntimeError):
            host.load([damaged], "f")


def test_a_function_made_known_to_llvm_is_found():
    import llvmlite.binding as llvm

    llvm.add_symbol("jaxdyn_test_known", host.load(host.compile_ir([constant(5)], host.target()), "answer"))
    text = "declare i32 @jaxdyn_test_known()\ndefine i32 @f() {\n%x = call i32 @jaxdyn_test_known()\nret i32 %x\n}"
    assert call(host.load(host.compile_ir([text], host.target()), "f")) == 5


@pytest.mark.skipif(not MAPS.exists(), reason="maps are counted on Linux")
def test_memory_maps_of_a_program():
    """At most four, however many parts it has."""
    compiled = [host.compile_ir(parts(k, k), host.target()) for k in (1, 2, 8)]
    host.load(compiled[0], "main")
    taken = []
    for _ in range(10):
        for data in compiled:
            before = MAPS.read_bytes().count(b"\n")
            host.load(data, "main")
            taken.append(MAPS.read_bytes().count(b"\n") - before)
    assert max(taken) <= 4 and sum(taken) <= 3 * len(taken)


# programs


def test_a_program_is_made_once(monkeypatch):
    count = []

    def modules():
        count.append(1)
        return [constant(3)]

    one = host.made(b"once", modules, "answer")
    assert call(one.address) == 3 and one.size > 0 and one.seconds > 0
    assert host.made(b"once", modules, "answer") is one and len(count) == 1
    assert host.made(b"other", modules, "answer").name != one.name and len(count) == 2
    names = {host.name_of(b"a", "f", host.target()), host.name_of(b"a", "g", host.target())}
    names |= {host.name_of(b"b", "f", host.target()), host.name_of(b"a", "f", host.target(), opt=1)}
    monkeypatch.setenv("JAXDYN_VECTOR_BYTES", "8")
    names.add(host.name_of(b"a", "f", host.target()))
    assert len(names) == 5


def test_a_program_that_fails_can_be_tried_again():
    with pytest.raises(RuntimeError):
        host.made(b"again", lambda: ["nonsense"], "answer")
    assert call(host.made(b"again", lambda: [constant(9)], "answer").address) == 9


def test_threads_make_equal_programs_once_and_others_side_by_side():
    count, found, errors = [], {}, []
    ready = threading.Barrier(8)

    def modules(k):
        count.append(k)
        time.sleep(0.05)
        return [constant(k), straight(200, "more", seed=k)]

    def work(k):
        try:
            ready.wait(10)
            for j in (k % 4, 4 + k):
                found[k, j] = call(host.made(b"thread%d" % j, lambda j=j: modules(j), "answer").address)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors
    assert all(value == j for (_, j), value in found.items()) and len(found) == 16
    assert sorted(count) == list(range(12))


def test_damaged_entries_are_compiled_again(tmp_path):
    count = []

    def fresh() -> bool:
        """Whether a process that knows nothing of the program compiles it."""
        host._made.clear()
        count.clear()
        program = host.made(b"damaged", lambda: count.append(1) or [constant(8)], "answer")
        assert call(program.address) == 8 and bool(count) == (program.seconds > 0)
        return bool(count)

    assert [fresh(), fresh()] == [True, False]
    (path,) = (tmp_path / "cache").iterdir()
    path.write_bytes(path.read_bytes()[:-1])
    assert [fresh(), fresh()] == [True, False]
    assert cache.put(path.name.split(".")[0], [b"whole, but no object code"])
    assert [fresh(), fresh()] == [True, False]


def test_a_large_program_is_loaded_from_disk_within_a_third_of_a_second():
    code = """
        start = time.perf_counter()
        lanes = host.target().vector_bytes // 4
        m = host.made(b'large', lambda: [straight(6000, f'k{k}', lanes, k) for k in range(3)], 'k1')
        x = (ctypes.c_float * 400)(*([0.01] * 400)); y = (ctypes.c_float * 16)()
        ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(m.address)(ctypes.addressof(x), ctypes.addressof(y))
        print(time.perf_counter() - start, m.seconds)
        """
    _, compiled = map(float, child(code).split())
    assert compiled > 0
    warm = [[float(x) for x in child(code).split()] for _ in range(2)]
    assert all(seconds == 0 for _, seconds in warm)
    assert min(total for total, _ in warm) < 0.3


# forks, exits, XLA


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.filterwarnings("ignore")
def test_a_child_goes_on_compiling():
    """Forked while two threads compile, one of them the program that the child asks for too."""
    out = child(
        """
        slow = lambda: time.sleep(0.2) or [straight(3000, f'k{k}', seed=k) for k in range(2)] + [constant(1)]
        done = []
        def work(key):
            done.append(call(host.made(key, slow, 'answer').address))
        threads = [threading.Thread(target=work, args=(key,)) for key in (b'one', b'two')]
        for t in threads: t.start()
        for k in range(3):
            time.sleep(0.1)
            pid = os.fork()
            if pid == 0:
                threading.Timer(60, os._exit, (3,)).start()
                assert call(host.made(b'one', slow, 'answer').address) == 1
                assert call(host.made(b'own%d' % k, lambda: [constant(k), straight(50, 'k')], 'answer').address) == k
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        for t in threads: t.join()
        print(done)
        """
    )
    assert out.split() == ["0", "0", "0", "[1,", "1]"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_waits_for_threads_that_are_inside_llvm():
    """Ours and those of other packages: a lock that such a thread holds would never be released in the child."""
    out = child(
        """
        import llvmlite.binding as llvm
        def hold(*args):
            with llvm.ffi.lib._lock:
                time.sleep(0.5)
            return b''
        def ours():
            with native._gate:
                time.sleep(0.4)
                hold()
        host.target()
        for inside in (ours, hold):
            thread = threading.Thread(target=inside)
            thread.start()
            time.sleep(0.1)
            pid = os.fork()
            if pid == 0:
                threading.Timer(10, os._exit, (3,)).start()
                assert call(host.made(b'a', lambda: [constant(1), straight(9, 'k')], 'answer').address) == 1
                os._exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
            thread.join()
        """
    )
    assert out.split() == ["0", "0"]


LOOP = """
@go = internal global i32 1
define i32 @forever() nounwind {
entry:
  br label %loop
loop:
  %go = load volatile i32, ptr @go
  %more = icmp ne i32 %go, 0
  br i1 %more, label %loop, label %end
end:
  ret i32 0
}
"""


@pytest.mark.parametrize(
    "end", ["pass", "sys.exit(0)", "host._made.clear(); native._state.clear(); import gc; gc.collect()"]
)
def test_exit_while_a_kernel_runs(end):
    child(
        f"""
        address = host.made(b'loop', lambda: [{LOOP!r}], 'forever').address
        for _ in range(3):
            threading.Thread(target=call, args=(address,), daemon=True).start()
        time.sleep(0.2)
        {end}
        """
    )


#: answers XLA's question for the version, else copies 4 floats of the first operand, doubled (offsets as in c_api.h)
HANDLER = """
define ptr @handler(ptr %f) nounwind {
  %pe = getelementptr i8, ptr %f, i64 8
  %e = load ptr, ptr %pe
  %asked = icmp ne ptr %e, null
  br i1 %asked, label %meta, label %run
meta:
  %pm = getelementptr i8, ptr %e, i64 24
  %m = load ptr, ptr %pm
  %ma = getelementptr i8, ptr %m, i64 24
  store i32 0, ptr %ma
  %mi = getelementptr i8, ptr %m, i64 28
  store i32 3, ptr %mi
  ret ptr null
run:
  %pi = getelementptr i8, ptr %f, i64 72
  %i = load ptr, ptr %pi
  %i0 = load ptr, ptr %i
  %pd = getelementptr i8, ptr %i0, i64 24
  %d = load ptr, ptr %pd
  %po = getelementptr i8, ptr %f, i64 112
  %o = load ptr, ptr %po
  %o0 = load ptr, ptr %o
  %pq = getelementptr i8, ptr %o0, i64 24
  %q = load ptr, ptr %pq
  %x = load <4 x float>, ptr %d, align 4
  %y = fadd <4 x float> %x, %x
  store <4 x float> %y, ptr %q, align 4
  ret ptr null
}
"""


def test_xla_calls_a_program():
    import jax
    import numpy as np

    names = {host.program("doubling", b"doubled", lambda: [HANDLER], "handler").name for _ in range(3)}
    (name,) = names
    assert name.startswith("jaxdyn_") and "doubling" not in name  # names are of the content alone
    call = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((4,), np.float32))
    x = np.arange(4, dtype=np.float32)
    assert (np.asarray(jax.jit(call)(x)) == 2 * x).all()
