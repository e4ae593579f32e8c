"""Kernels for NVIDIA's GPUs, without one: `ptxas` reads the PTX, a fake driver runs the same text on this processor."""

import ctypes
import functools
import re
import shutil
import site
import subprocess
import sys
from pathlib import Path

import emulator
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue import CATALOGUE
from compiled import states, wrenches
from fake_cuda import Call, Extension, Library, Metadata

import jaxdyn as jd
from jaxdyn.engine import cache, cuda, host, kernels, ptx, runtime
from jaxdyn.engine.core import lanes_p
from jaxdyn.engine.entries import entry
from jaxdyn.engine.inline import straight
from jaxdyn.engine.live import trim
from jaxdyn.engine.numerics import FUNCTIONS
from jaxdyn.engine.ops import TYPES, Loop, Op, Type, Unsupported
from jaxdyn.engine.order import schedule
from jaxdyn.engine.program import Program

pytestmark = [
    pytest.mark.skipif(bool(host.unavailable()), reason=str(host.unavailable())),
    # what goes wrong in a function that compiled code calls fails the test too
    pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning"),
]

FLOATS = (np.float32, np.float64)


# ---- programs: cores of robots, with what the CPU's kernels make of them; and small ones by hand ----


def captured(f, *args) -> list:
    """The cores that a function binds: (core, used, operands, outputs)."""
    found, usual = [], lanes_p.impl

    def impl(*args, core, used):
        with jax.disable_jit(False):
            found.append((core, used, args, usual(*args, core=core, used=used)))
        return found[-1][-1]

    lanes_p.impl = impl
    try:
        with jax.disable_jit():
            f(*args)
    finally:
        lanes_p.impl = usual
    return found


@functools.cache
def robot(name, solver, dtype, gradient=False) -> list:
    """(program, operands, outputs) of the solver's cores, for 70 states."""
    cast = lambda x: jnp.asarray(x, dtype) if jnp.issubdtype(jnp.result_type(x), jnp.floating) else x  # noqa: E731
    model = jax.tree.map(cast, CATALOGUE[name].build()).with_compiler("kernel")

    def dynamics(q, v, tau, x):
        return jd.forward_dynamics(model, jd.State(q, v), tau, external=x, solver=solver).acceleration

    def pull(*args):
        return jax.vjp(dynamics, *args)[1](jnp.ones(model.nv, dtype))

    operands = [cast(np.resize(x, (70, *x.shape[1:]))) for x in (*states(name), wrenches(name))]
    operands[1] = operands[1] * jnp.linspace(0, 2, 70, dtype=dtype)[:, None]
    made = []
    for core, used, args, outs in captured(jax.vmap(pull if gradient else dynamics), *operands):
        shared = tuple(k is not None and a.shape[-1] == 1 for k, a in zip(core.known, args, strict=True))
        program = kernels.program_of(core, used, tuple((a.shape[:-1], a.dtype) for a in args), shared)
        kept, produced = trim(program, used)
        program = straight(program)
        lanes = max(a.shape[-1] for a in args)
        wide = [np.broadcast_to(a, (*a.shape[:-1], 1 if s else lanes)) for a, s in zip(args, shared, strict=True)]
        flat = lambda x: np.ascontiguousarray(np.asarray(x).reshape(-1, x.shape[-1]))  # noqa: E731
        made.append((program, [flat(wide[k]) for k in kept], [flat(outs[k]) for k in produced]))
    return made


def functions(dtype) -> tuple:
    """Elementary functions of ordinary, huge and special numbers."""
    t, p = TYPES[np.dtype(dtype)], Program()
    p.inputs = [(2, t, False)]
    x, y = p.input(0, 0, t), p.input(0, 1, t)
    p.outputs = [[FUNCTIONS[name](p, x) for name in ("sin", "cos", "exp", "log")], [FUNCTIONS["pow"](p, x, y)]]
    p.output_types = [t, t]
    rng = np.random.default_rng(0)
    a = np.concatenate([rng.normal(size=100) * 10 ** rng.uniform(-3, 8, 100), [0, -0.0, np.inf, -np.inf, np.nan, 1e30]])
    inputs = [np.stack([a, rng.permutation(a)]).astype(dtype)]
    return p, inputs, emulator.run(p, inputs, schedule(p))


def control() -> tuple:
    """Loops within loops and branches, uniform values that only they read: Collatz's steps, and a choice of three."""
    p = Program()
    i, f = Type.int32, Type.float64
    p.inputs = [(1, i, False), (2, f, True), (1, f, False), (1, Type.bool_, False)]
    n, a, b, x, flag = p.input(0, 0, i), p.input(1, 0, f), p.input(1, 1, f), p.input(2, 0, f), p.input(3, 0, Type.bool_)
    one, two, three = (p.constant(k, i) for k in (1, 2, 3))
    scale = p.sqrt(p.add(p.mul(a, a), b))
    outer = p.loop([n, p.constant(0, i), x])
    at, count, sum_ = outer.carries
    inner = p.loop([at, count])
    (m, c) = inner.carries
    halved = p.close(inner, p.eq(p.and_(m, one), p.constant(0, i)), [p.div(m, two), p.add(c, one)])
    more = p.and_(p.lt(one, halved[0]), flag)
    made = p.branches([more])
    p.enter(made)
    p.leave(made, [p.add(p.mul(halved[0], three), one), p.fma(sum_, scale, p.div(b, a))])
    p.enter(made)
    p.leave(made, [one, p.sub(sum_, p.div(b, a))])
    new = p.join(made)
    done = p.close(outer, p.lt(one, at), [new[0], p.add(halved[1], one), new[1]])
    which = p.branches([p.lt(done[2], a), p.lt(done[2], b)])
    for outcome in (p.floor(x), p.mul(x, p.input(1, 1, f)), p.max_(x, scale)):
        p.enter(which)
        p.leave(which, [outcome])
    p.outputs = [[done[0], done[1]], [done[2], *p.join(which)], [p.not_(flag), p.ne(x, x)]]
    p.output_types = [i, f, Type.bool_]
    rng = np.random.default_rng(1)
    inputs = [
        rng.integers(-5, 400, (1, 150)),
        np.array([[0.3], [0.8]]),
        rng.normal(size=(1, 150)),
        rng.random((1, 150)) > 0.1,
    ]
    inputs[2][0, :3] = np.nan, np.inf, -0.0
    inputs = [np.asarray(v, t.dtype) for v, (_, t, _) in zip(inputs, p.inputs, strict=True)]
    return p, inputs, emulator.run(p, inputs, schedule(p))


def conversions() -> tuple:
    """Every type into every other, integers' arithmetic, roots, and what is next to special numbers."""
    p = Program()
    p.inputs = [(1, t, False) for t in Type]
    values = [p.input(k, 0, t) for k, t in enumerate(Type)]
    for x, old in zip(values, Type, strict=True):
        for t in Type:
            if t not in (old, Type.bool_):
                p.outputs.append([p.emit(Op.convert, t, x)])
                p.output_types.append(t)
    for x, t in zip(values[1:], list(Type)[1:], strict=True):
        some = [p.max_(x, p.neg(x)), p.min_(x, p.constant(7, t)), p.div(x, p.sub(x, p.constant(3, t)))]
        if t.floating:
            some += [p.sqrt(x), p.abs_(x), p.rint(x), p.floor(x), p.fma(x, x, p.constant(-2, t))]
        else:
            some += [p.shl(x, p.constant(3, t)), p.shr(x, p.constant(2, t)), p.not_(x)]
        p.outputs.append(some)
        p.output_types.append(t)
    rng = np.random.default_rng(2)
    special = np.array(
        [0, -0.0, np.inf, -np.inf, np.nan, 3, 1e-40, -1e-310, 2.5, -3.5, 3e9, -3e9, 1e19, 1e30, 5e-324, 7]
    )
    inputs = []
    for t in Type:
        if t.floating:
            x = np.concatenate([special, rng.normal(size=64) * 10.0 ** rng.integers(-5, 12, 64)])
        else:
            info = np.iinfo(t.dtype if t else np.uint8)
            x = np.concatenate([[0, 1, 3, 7, info.min, info.max], rng.integers(info.min // 2, info.max // 2, 74)])
            x = x % 2 if t == Type.bool_ else x
        with np.errstate(all="ignore"):
            inputs.append(np.array([v for v in x.tolist()]).astype(t.dtype)[None])
    return p, inputs, emulator.run(p, inputs, schedule(p))


def lookups() -> tuple:
    """Computed rows of a table that all lanes share, in a loop too, and of one of their own; a row that all share."""
    p = Program()
    i, f = Type.int32, Type.float32
    p.inputs = [(7, f, True), (5, Type.float64, False), (2, i, False), (1, i, True)]
    n, m, same = p.input(2, 0, i), p.input(2, 1, i), p.input(3, 0, i)
    loop = p.loop([n, p.constant(0, f)])
    at, total = loop.carries
    one = p.constant(1, i)
    done = p.close(loop, p.lt(p.constant(0, i), at), [p.sub(at, one), p.add(total, entry(p, 0, at))])
    p.outputs = [[done[1], entry(p, 0, m), entry(p, 0, same)], [entry(p, 1, n), entry(p, 1, same)]]
    p.output_types = [f, Type.float64]
    rng = np.random.default_rng(3)
    inputs = [
        rng.normal(size=(7, 1)).astype("f"),
        rng.normal(size=(5, 90)),
        rng.integers(-9, 12, (2, 90)),
        np.array([[3]]),
    ]
    inputs = [np.asarray(x, t.dtype) for x, (_, t, _) in zip(inputs, p.inputs, strict=True)]
    return p, inputs, emulator.run(p, inputs, schedule(p))


MADE = {
    "control": lambda: [control()],
    "lookups": lambda: [lookups()],
    "conversions": lambda: [conversions()],
    **{f"functions, {d.__name__}": lambda d=d: [functions(d)] for d in FLOATS},
    **{f"ABA, {d.__name__}": lambda d=d: robot("quadruped", jd.solvers.ABA(), d) for d in FLOATS},
    **{f"LCABA, {d.__name__}": lambda d=d: robot("four_bar_point", jd.solvers.LCABA(), d) for d in FLOATS},
    "gradient of ABA, float32": lambda: robot("cart_double_pendulum", jd.solvers.ABA(), np.float32, True),
    "gradient of LCABA, float64": lambda: robot("four_bar_point", jd.solvers.LCABA(), np.float64, True),
}


@functools.cache
def programs(name) -> list:
    return MADE[name]()


@functools.cache
def texts(name) -> list[str]:
    """PTX of the programs."""
    return [ptx.assembled(ptx.text(schedule(p))) for p, _, _ in programs(name)]


# ---- PTX ----


def ptxas() -> str:
    found = [shutil.which("ptxas")]
    for folder in map(Path, [*site.getsitepackages(), *sys.path]):
        found += map(str, folder.glob("nvidia/*/bin/ptxas"))
    found = [path for path in found if path]
    if not found:
        pytest.skip("no ptxas: pip install nvidia-cuda-nvcc")
    return found[-1]


def used(text: str, path: Path) -> str:
    """What the driver's assembler says of a kernel's resources. It must accept the kernel, without a warning."""
    path.write_text(text)
    command = [ptxas(), "-v", "-arch=sm_90", "-o", str(path.with_suffix(".cubin")), str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and not re.search("warning|error", done.stderr), done.stderr
    return done.stderr


@pytest.mark.parametrize("name", MADE)
def test_the_driver_s_assembler_accepts_all_programs(name, tmp_path):
    for k, text in enumerate(texts(name)):
        used(text, tmp_path / f"{k}.ptx")


def test_new_drivers_use_the_memory_of_a_block_for_registers(tmp_path):
    """More of it than uniform values take, and less local memory."""
    program, t = Program(), Type.float32
    program.inputs, program.output_types = [(400, t, False)], [t]
    squares = [program.mul(x, x) for x in (program.input(0, k, t) for k in range(400))]
    total = functools.reduce(program.add, squares)  # all squares are alive here
    program.outputs = [[program.div(x, total) for x in squares]]
    text, numbers = ptx.assembled(ptx.text(schedule(program))), []
    for found in (text, ptx.spilled(text)):
        told = used(found, tmp_path / "kernel.ptx")
        numbers.append([sum(map(int, re.findall(rf"(\d+) bytes {what}", told))) for what in ("stack frame", "smem")])
    (stack, shared), (less, more) = numbers
    assert less < stack and more > shared, numbers


def test_where_they_do(library, monkeypatch):
    """Straight programs in single precision that are not long, with the GPUs for which it was measured."""

    def spills(name) -> bool:
        monkeypatch.setattr(cuda, "_made", {})
        monkeypatch.setattr(cuda, "driver", functools.cache(lambda: cuda.Driver(library)))
        cuda.made(programs(name)[0][0])
        return b"enable_smem_spilling" in library.texts[-1]

    for library.version, library.capabilities, expected in (
        (12090, ((9, 0),), False),
        (13000, ((9, 0),), True),
        (13000, ((9, 0), (7, 0)), False),
    ):
        assert spills("ABA, float32") == expected
    library.capabilities = ((9, 0),)
    assert not spills("control") and not spills("ABA, float64")
    monkeypatch.setattr(ptx, "SPILLED", 1000)
    assert not spills("ABA, float32")


@pytest.mark.parametrize("name", MADE)
def test_every_operation_rounds_as_on_a_cpu(name):
    for text in texts(name):
        assert text.count(".entry") == 1 and ".target sm_70" in text and ".version 7.0" in text
        found = re.findall(r"^\s+(?:@\S+ )?([a-z]\w*\.[\w.]+)", text, re.MULTILINE)
        assert found and not [x for x in found if re.search(r"approx|ftz|full|\.sat\.f", x)]
        arithmetic = [x for x in found if re.match(r"(add|sub|mul|fma|mad|div|sqrt|rcp)\..*f(32|64)$", x)]
        # without .rn the assembler would be free to fuse products and sums
        assert not [x for x in arithmetic if ".rn." not in x]
        assert not re.search(r"\b(call|brx|sin|cos|ex2|lg2|tanh)\b", " ".join(found))


def test_threads_meet_again_behind_loops():
    """Once for each loop, those that entered it together, as threads that diverge there stay alone otherwise."""
    (program, _, _), (text,) = programs("control")[0], texts("control")
    loops = sum(isinstance(st, Loop) for body in schedule(program).body.values() for st in body)
    assert loops == 2 == len(re.findall(r"activemask\.b32", text)) == len(re.findall(r"bar\.warp\.sync", text))
    mask = r"activemask\.b32\s+(%r\d+);"
    assert set(re.findall(mask, text)) == set(re.findall(r"bar\.warp\.sync\s+(%r\d+);", text))


def test_operands_that_a_kernel_cannot_have():
    p = Program()
    p.inputs = [(1, Type.float32, False)] * 511
    p.outputs, p.output_types = [[p.input(0, 0, Type.float32)]], [Type.float32]
    with pytest.raises(Unsupported, match="512 operands"):
        ptx.text(schedule(p))


@pytest.fixture
def library(monkeypatch, tmp_path):
    """The fake instead of the driver, an empty cache, and nothing made yet."""
    fake, assembled = Library(), ptx.assembled

    def noted(source):
        fake.sources.append(source)
        return assembled(source)

    monkeypatch.setattr(ptx, "assembled", noted)
    monkeypatch.setattr(cuda, "_made", {})
    monkeypatch.setattr(cuda, "driver", functools.cache(lambda: cuda.Driver(fake)))
    monkeypatch.setenv("JAXDYN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(host, "_registered", dict(host._registered))
    return fake


def outputs_of(p: Program, lanes: int) -> list[np.ndarray]:
    return [np.full((len(rows), lanes), 3, t.dtype) for rows, t in zip(p.outputs, p.output_types, strict=True)]


def same_bits(found, expected):
    assert found.dtype == expected.dtype and found.shape == expected.shape
    nan = np.isnan(found) & np.isnan(expected) if found.dtype.kind == "f" else np.zeros(found.shape, bool)
    bits = lambda x: x.view(f"u{x.dtype.itemsize}")  # noqa: E731
    np.testing.assert_array_equal(np.where(nan, 0, bits(found)), np.where(nan, 0, bits(expected)))


@pytest.mark.parametrize("name", MADE)
def test_bits_are_the_cpu_s(name, library):
    for program, inputs, expected in programs(name):
        made = cuda.made(program)
        assert made.size and made.seconds and (made.name, "CUDA") in host._registered
        wide = max(x.shape[-1] for x in expected)
        for lanes in (1, ptx.THREADS, wide):
            part = [x[:, :lanes].copy() if x.shape[-1] > 1 else x for x in inputs]
            outs = outputs_of(program, lanes)
            assert Call(part, outs).run(made.address) is None
            assert library.launches[-1] == (len(library.kernels), -(-lanes // ptx.THREADS), ptx.THREADS, 0x57)
            for a, b in zip(outs, expected, strict=True):
                same_bits(a, b[:, :lanes])


@pytest.mark.parametrize("limits", [{"SHARED": 24}, {"WINDOW": 0}])
def test_uniform_values_that_do_not_fit(limits, library, monkeypatch):
    program, inputs, expected = control()
    for name, value in limits.items():
        monkeypatch.setattr(ptx, name, value)
    outs = outputs_of(program, 150)
    assert Call(inputs, outs).run(cuda.made(program).address) is None
    for a, b in zip(outs, expected, strict=True):
        same_bits(a, b)


def simple() -> tuple[Program, list, list]:
    p = Program()
    t = Type.float32
    p.inputs = [(2, t, False), (3, t, True)]
    p.outputs, p.output_types = [[], [p.mul(p.input(0, 1, t), p.input(1, 2, t))]], [t, t]
    return p, [np.ones((2, 5), np.float32), np.full(3, 2, np.float32)], outputs_of(p, 5)


def test_handler(library):
    program, inputs, outputs = simple()
    made = cuda.made(program)
    call = Call(inputs, outputs)
    assert call.run(made.address) is None and (outputs[1] == 2).all()
    # the shapes may be any others of the same size
    other = [inputs[0].reshape(2, 5, 1), np.tile(inputs[1], (4, 1))]  # and a copy of what is shared for each device
    assert Call(other, [outputs[0], outputs[1][0]]).run(made.address) is None
    assert len(library.launches) == 2
    # XLA asks what the handler is
    metadata = Metadata()
    extension = Extension(type(Extension().f0)(0, 1, None), ctypes.addressof(metadata))
    call.frame.f1 = ctypes.addressof(extension)
    assert call.run(made.address) is None
    assert (metadata.f2, (metadata.f1.f2, metadata.f1.f3)) == (1, runtime.version())
    # nothing to do
    assert Call([inputs[0][:, :0], inputs[1]], outputs_of(program, 0)).run(made.address) is None
    # others than it was compiled for
    for ins, outs in (
        (inputs[:1], outputs),
        (inputs, outputs[:1]),
        ([inputs[0][:1], inputs[1]], outputs),
        ([inputs[0], inputs[1][:2]], outputs),
        (inputs, outputs_of(program, 4)),
    ):
        assert Call(ins, outs).run(made.address) == (3, "jaxdyn: an operand has not the shape compiled for here")
    huge = np.broadcast_to(np.float32(0), (1, 1 << 31))
    assert Call(inputs, [outputs[0], huge]).run(made.address)[0] == 3
    assert Call(inputs, outputs, stream=None).run(made.address) == "no stream"
    assert len(library.launches) == 2
    library.status = 700
    expected = (13, "jaxdyn: the kernel could not be launched: error 700 of CUDA's driver")
    assert Call(inputs, outputs).run(made.address) == expected


# ---- the driver ----


def test_a_program_is_made_once_and_kept_on_disk(library, monkeypatch):
    program, inputs, outputs = simple()
    first = cuda.made(program)
    assert cuda.made(simple()[0]) is first and len(library.kernels) == 1
    assert cache.get(first.name)[0].startswith(b"//")
    monkeypatch.setattr(cuda, "_made", {})
    monkeypatch.setattr(cuda, "schedule", None)  # not needed with PTX from disk
    again = cuda.made(program)
    assert again.name == first.name and len(library.kernels) == 2
    assert Call(inputs, outputs).run(again.address) is None and library.launches[-1][0] == 2


def test_a_kernel_is_prepared_for_devices_in_use(library):
    library.capabilities, library.active = ((8, 0), (7, 0), (9, 0)), (0, 2)
    cuda.made(simple()[0])
    assert [c for c in library.calls if "GetFunction" in c] == [
        "cuKernelGetFunction in 100",
        "cuKernelGetFunction in 102",
    ]
    assert library.calls.count("cuDevicePrimaryCtxRelease_v2") == 2 and library.context == 77


def test_what_the_driver_refuses(library):
    library.status = 209
    with pytest.raises(RuntimeError, match=r"`cuKernelGetFunction` .* CUDA_ERROR_OF_SOME_KIND \(209\)"):
        cuda.made(simple()[0])
    assert library.context == 77
    library.status = 0
    assert cuda.made(simple()[0]).address  # and later it does not
    with pytest.raises(RuntimeError, match=r"for CUDA 11\.8; 12\.0 is"):
        cuda.Driver(Library(version=11080))
    with pytest.raises(RuntimeError, match=r"capability 6\.1; 7\.0 is"):
        cuda.Driver(Library(capabilities=((9, 0), (6, 1))))


def test_auto_chooses_kernels_where_the_driver_works(library, monkeypatch):
    monkeypatch.delenv("JAXDYN_COMPILER", raising=False)
    for found, expected in ((None, "kernel"), ("there is no driver", "xla")):
        monkeypatch.setattr(cuda, "unavailable", lambda found=found: found)
        assert kernels.choice("auto", "cuda") == expected
    with pytest.raises(RuntimeError, match="there is no driver"):
        kernels.choice("kernel", "cuda")


@pytest.mark.parametrize("compiler", ["auto", "kernel"])
def test_a_program_that_the_driver_refuses_is_left_to_xla(compiler, library, monkeypatch, caplog):
    """With a warning, or the driver's error if kernels were asked for."""
    monkeypatch.delenv("JAXDYN_COMPILER", raising=False)
    monkeypatch.setattr(cuda, "unavailable", lambda: None)
    model = CATALOGUE["pendulum"].build().with_compiler(compiler)
    x = jnp.zeros(model.nv)
    with kernels.watching() as found:
        jax.jit(lambda q: jd.forward_dynamics(model, jd.State(q, x), x).acceleration).lower(x)
    core, used, avals, _ = found[0]
    operands = tuple(((*shape, 1), dtype) for shape, dtype in avals)
    library.status = 2
    if compiler == "kernel":
        with pytest.raises(cuda.DriverError, match="cuKernelGetFunction"):
            kernels.kernel_of(core, used, operands, "cuda")
    else:
        assert kernels.kernel_of(core, used, operands, "cuda") is None
        assert "is left to XLA: `cuKernelGetFunction`" in caplog.text
    library.status = 0
    assert kernels.kernel_of(core, used, operands, "cuda") is not None


def test_unavailable(library, monkeypatch):
    cuda._unavailable.cache_clear()
    assert cuda.unavailable() is None
    for error in (OSError("libcuda.so.1: cannot open shared object file"), RuntimeError("too old")):
        cuda._unavailable.cache_clear()

        def driver(error=error):
            raise error

        monkeypatch.setattr(cuda, "driver", driver)
        assert cuda.unavailable() == str(error)
    cuda._unavailable.cache_clear()


def test_importing_touches_neither_llvm_nor_cuda():
    code = "import ctypes, sys\nctypes.CDLL = None\nfrom jaxdyn.engine import cuda\nprint('llvmlite' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
