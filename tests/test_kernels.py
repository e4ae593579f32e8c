"""Kernels as users meet them: the same bits everywhere, sharded batches, the choice of a compiler, what goes wrong."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue import CATALOGUE, sample
from compiled import mapped, states

import jaxdyn as jd
from jaxdyn.engine import host, kernels
from jaxdyn.engine.lanes import laned

ROOT = Path(__file__).resolve().parents[1]
needs_kernels = pytest.mark.skipif(host.unavailable() is not None, reason="llvmlite does not work here")


def accelerate(model, q, v, tau):
    return jd.forward_dynamics(model, jd.State(q, v), tau, solver=jd.solvers.LCABA()).acceleration


def run(code: str, timeout=300, **environment) -> str:
    """What a process of its own prints."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "JAXDYN_"))}
    env |= {"JAX_PLATFORMS": "cpu", "PYTHONPATH": os.pathsep.join([str(ROOT / "tests"), str(ROOT)])} | environment
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


# ---- bits


BITS = """
import hashlib, json, jax, jax.numpy as jnp, numpy as np
import jaxdyn as jd
from catalogue import CATALOGUE, sample
found = {}
for x64 in (False, True):
    jax.config.update("jax_enable_x64", x64)
    for name in ("quadruped", "four_bar_point", "joints_floating"):
        model = CATALOGUE[name].build().with_compiler("kernel")
        q, v, tau = (jnp.asarray(x, model.gravity.dtype) for x in sample(CATALOGUE[name].build(), 3, 21))
        def f(q, v, tau):
            g = lambda v: jd.forward_dynamics(model, jd.State(q, v), tau, solver=jd.solvers.LCABA()).acceleration
            a, back = jax.vjp(g, v)
            return a, back(jnp.ones_like(a))
        for x in jax.jit(jax.vmap(f))(q, v, tau):
            found[f"{name} {x64} {len(found)}"] = hashlib.sha256(np.asarray(x).tobytes()).hexdigest()
print(json.dumps(found))
"""


@pytest.mark.first
@needs_kernels
def test_bits_do_not_depend_on_the_width_of_vectors_the_processor_or_effort():
    """Vectors of 1, 4, 8 and 16 floats, a processor without AVX, and LLVM in a hurry, as in all other tests."""
    settings = [{"JAXDYN_VECTOR_BYTES": b} for b in ("4", "16", "32", "64")] + [{"JAXDYN_EFFORT": "0"}]
    if os.uname().machine == "x86_64":
        settings.append({"JAXDYN_CPU": "x86-64"})
    found = [json.loads(run(BITS, **s)) for s in settings]
    assert len(found[0]) == 12
    for other, setting in zip(found[1:], settings[1:], strict=True):
        assert other == found[0], setting


@needs_kernels
@pytest.mark.parametrize("name", ["four_bar_point", "quadruped"])
def test_bits_do_not_depend_on_place_neighbours_or_batch(name):
    model = CATALOGUE[name].build()
    q, v, tau = states(name, 40)
    f = mapped(accelerate)
    whole = np.asarray(f(model, q, v, tau))
    back = np.arange(40)[::-1]
    np.testing.assert_array_equal(np.asarray(f(model, q[back], v[back], tau[back]))[back], whole)
    for n in (1, 2, 7, 17):
        np.testing.assert_array_equal(np.asarray(f(model, q[:n], v[:n], tau[:n])), whole[:n])
    one = np.asarray(jax.jit(accelerate)(model, *(jnp.asarray(x[5]) for x in (q, v, tau))))
    np.testing.assert_array_equal(one, whole[5])
    spoilt = tau.copy()
    spoilt[3] = np.nan
    kept = np.delete(np.arange(40), 3)
    found = np.asarray(f(model, q, v, spoilt))
    np.testing.assert_array_equal(found[kept], whole[kept])
    assert np.isnan(found[3]).any()


@needs_kernels
def test_kernels_belong_to_the_processor_that_is_asked_for(monkeypatch):
    with kernels.watching() as found:
        jax.jit(laned(lambda x: 2 * x + 1)).lower(jnp.ones(3))
    core, used, avals, _ = found[0]
    names = set()
    for size in ("16", "64", "16"):
        monkeypatch.setenv("JAXDYN_VECTOR_BYTES", size)
        names.add(kernels.kernel_of(core, used, tuple(((*shape, 8), dtype) for shape, dtype in avals)).name)
    assert len(names) == 2


def test_effort_is_a_level_of_llvm(monkeypatch):
    monkeypatch.delenv("JAXDYN_EFFORT")
    assert kernels.effort() == 2
    monkeypatch.setenv("JAXDYN_EFFORT", "")  # as a shell has it
    assert kernels.effort() == 2
    monkeypatch.setenv("JAXDYN_EFFORT", "much")
    with pytest.raises(ValueError, match="JAXDYN_EFFORT=much is none of 0, 1, 2, 3; unset it for 2"):
        kernels.effort()


def _mixed(x, y, mask):
    return jnp.where(mask, x, -x) * y.sum(0).astype(x.dtype), (y * 2)[::-1], (mask, x > 0)


@needs_kernels
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 31, 200])
def test_one_state_takes_vectors_of_one_lane(rows):
    """Numbers of every type are copied as they are; batches of any other size share a program."""
    rng = np.random.default_rng(rows)
    x, y = rng.normal(size=(9, rows)).astype(np.float32), rng.integers(-9, 9, (9, rows + 1)).astype(np.int32)
    args, f = (x, y, x > 0.3), laned(_mixed)
    whole = jax.jit(jax.vmap(f))(*args)
    one = jax.jit(f)(*[a[4] for a in args])
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[4]), one, whole)
    mapped = jax.jit(lambda *args: jax.lax.map(lambda a: f(*a), args))(*args)
    jax.tree.map(np.testing.assert_array_equal, mapped, whole)

    def names(f, *args):
        return set(re.findall(r"jaxdyn_[0-9a-f]{40}", jax.jit(f).lower(*args).as_text()))

    single, two, nine = (
        names(f, *[a[0] for a in args]),
        *(names(jax.vmap(f), *[a[:n] for a in args]) for n in (2, 9)),
    )
    assert len(single) == len(two) == 1 and two == nine and single != two


@needs_kernels
def test_nested_maps_in_any_order_give_the_same_bits():
    model = CATALOGUE["quadruped"].build()
    q, v, tau = states("quadruped", 12)
    f = lambda *x: accelerate(model, *x)  # noqa: E731
    whole = np.asarray(jax.jit(jax.vmap(f))(q, v, tau)).reshape(3, 4, -1)
    grid = [jnp.asarray(x).reshape(3, 4, -1) for x in (q, v, tau)]
    nested = jax.jit(jax.vmap(jax.vmap(f)))(*grid)
    np.testing.assert_array_equal(nested, whole)
    turned = jax.jit(jax.vmap(jax.vmap(f), in_axes=1, out_axes=1))(*grid)
    np.testing.assert_array_equal(turned, whole)


# ---- both paths


@needs_kernels
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_compilers_agree(dtype):
    """Accelerations and gradients, with all that a robot can have."""
    model = jax.tree.map(lambda x: x.astype(dtype), CATALOGUE["four_bar_point"].build())
    q, v, tau = (jnp.asarray(x, dtype) for x in states("four_bar_point", 20))

    def f(model, q, v, tau):
        a, back = jax.vjp(accelerate, model, q, v, tau)
        return a, back(jnp.ones_like(a))[1:]

    kernel, xla = (jax.jit(jax.vmap(f, (None, 0, 0, 0)))(model.with_compiler(c), q, v, tau) for c in ("kernel", "xla"))
    tolerance = 1e-9 if dtype == np.float64 else 2e-3
    for a, b in zip(jax.tree.leaves(kernel), jax.tree.leaves(xla), strict=True):
        assert np.abs(a - b).max() <= tolerance * max(1, np.abs(b).max())


@needs_kernels
def test_a_closed_over_model_gives_the_numbers_of_an_operand():
    """Its zeros and ones are part of the program: rounding may differ, by the terms that are left out."""
    for name in ("joints_floating", "four_bar_point"):
        model = CATALOGUE[name].build()
        q, v, tau = states(name, 8)
        operand = mapped(accelerate)(model, q, v, tau)
        closed = jax.jit(jax.vmap(lambda *x, m=model: accelerate(m, *x)))(q, v, tau)
        assert np.abs(closed - operand).max() <= 1e-9 * max(1, np.abs(operand).max())


@needs_kernels
def test_parameters_that_lose_a_zero_get_another_program():
    model = CATALOGUE["quadruped"].build()
    q, v, tau = (jnp.asarray(x[0]) for x in states("quadruped", 4))
    f = lambda m: jax.jit(lambda *x: accelerate(m, *x))(q, v, tau)  # noqa: E731
    tilted = model.replace({"gravity": jnp.array([0.3, 0.0, -9.81])})
    xla = f(tilted.with_compiler("xla"))
    assert np.abs(f(tilted) - xla).max() <= 1e-9 * np.abs(xla).max()
    assert np.abs(f(tilted) - f(model)).max() > 1e-3


@needs_kernels
def test_zeros_are_not_computed():
    """If all that is read is always zero, there is no call, and XLA does not compile the rest either."""

    def fn(x):
        step = lambda c: (jnp.sin(c[0]), c[1] + 1)  # noqa: E731
        return jnp.zeros_like(x), jax.lax.while_loop(lambda c: c[1] < 5, step, (x, jnp.asarray(0)))[0]

    x = jnp.linspace(0, 1, 6).reshape(2, 3)
    lower = lambda *read: jax.jit(lambda x: [jax.vmap(laned(fn))(x)[k] for k in read]).lower(x)  # noqa: E731
    both, none = lower(0, 1), lower(0)
    assert "jaxdyn_" in both.as_text()
    assert "jaxdyn_" not in none.as_text() and "while" not in none.as_text() and "sine" not in none.as_text()
    wanted = x
    for _ in range(5):
        wanted = jnp.sin(wanted)
    for found in (both.compile()(x), none.compile()(x)):
        assert found[0].shape == x.shape and not found[0].any()
    np.testing.assert_allclose(both.compile()(x)[1], wanted, rtol=1e-15)


@needs_kernels
def test_names_are_no_part_of_a_kernel():
    def robot(prefix):
        spec = jd.ModelSpec(prefix)
        inertia = jd.Inertia(1.0, (0.1, 0, 0), 0.01 * np.eye(3))
        spec.add_body(f"{prefix}_arm", "world", jd.joints.Revolute(axis=(0, 1, 0)), inertia=inertia)
        return spec.build()

    x = jnp.zeros(1)
    before = None
    for prefix in ("first", "second"):
        model = robot(prefix)
        jax.jit(lambda q, v, t, m=model: accelerate(m, q, v, t))(x, x, x)
        count = len(host._made)
        assert before is None or count == before
        before = count


# ---- sharding


SHARDED = """
import re, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from catalogue import CATALOGUE, sample
import jaxdyn as jd
model = CATALOGUE["four_bar_point"].build().with_compiler("kernel")
state = [np.asarray(x, np.float32) for x in sample(CATALOGUE["four_bar_point"].build(), 3, 64)]
f = jax.vmap(lambda q, v, t: jd.forward_dynamics(model, jd.State(q, v), t).acceleration)
g = lambda q, v, t: jax.grad(lambda v: (f(q, v, t) ** 2).sum())(v)
mesh = Mesh(np.array(jax.devices()), ("b",))
grid = Mesh(np.array(jax.devices()).reshape(4, 2), ("a", "b"))
put = lambda x, m=mesh, s=P("b"): jax.device_put(x, NamedSharding(m, s))
ways = {
    "jit": (f, [put(x) for x in state], f),
    "one operand whole": (f, [state[0], *map(put, state[1:])], f),
    "two axes": (f, [put(x, grid, P(("a", "b"))) for x in state], f),
    "one of two axes": (f, [put(x, grid, P("a")) for x in state], f),
    "shard_map": (jax.shard_map(f, mesh=mesh, in_specs=P("b"), out_specs=P("b")), [put(x) for x in state], f),
    "gradient": (g, [put(x) for x in state], g),
    "scan": (lambda q, v, t: jax.lax.scan(lambda c, _: (f(q, c, t), None), v, None, length=3)[0],
             [put(x) for x in state], None),
}
assert len(jax.devices()) == 8
for name, (h, xs, plain) in ways.items():
    compiled = jax.jit(h).lower(*xs).compile()
    text = compiled.as_text()
    assert not re.search("all-gather|all-reduce|all-to-all|collective-permute", text), name
    assert "custom-call" in text, name
    out = compiled(*xs)
    assert not out.sharding.is_fully_replicated, name
    expected = jax.jit(plain or h)(*state)
    assert np.array_equal(np.asarray(out), np.asarray(expected)), name
print("sharded")
"""


@needs_kernels
def test_a_sharded_batch_stays_on_its_devices():
    assert run(SHARDED, XLA_FLAGS="--xla_force_host_platform_device_count=8").strip() == "sharded"


DEVICES = """
import functools, jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from catalogue import CATALOGUE, sample
import jaxdyn as jd
mesh = jax.make_mesh((2,), ("b",), axis_types=(AxisType.Auto,))
model = CATALOGUE["four_bar_point"].build()
q, v, tau = (np.asarray(x, np.float32) for x in sample(model, 3, 8))
small = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), model)

def losses(m):
    of = lambda one: lambda k, q, v, t: (jax.vmap(functools.partial(one, k))(q, v, t) ** 2).mean()
    heavier = lambda k: m.replace({"bodies.mass": k * m.bodies.mass})
    step = lambda k, q, v, t, **options: jd.step(m, jd.State(q, v), k * t, 1e-3, **options).v
    return {
        "inverse dynamics": of(lambda k, q, v, t: jd.inverse_dynamics(m, jd.State(q, v), k * t)),
        "masses": of(lambda k, q, v, t: jd.forward_dynamics(heavier(k), jd.State(q, v), t).acceleration),
        "simulate": of(lambda k, q, v, t: jd.simulate(m, jd.State(q, v), lambda s, _: k * t, 1e-3, steps=3).q[-1]),
        "Gauss": of(functools.partial(step, integrator=jd.integrators.Gauss(2))),
        "RK4": of(functools.partial(step, integrator=jd.integrators.RK4())),
        "projected": of(functools.partial(step, project=True)),
    }

k = jnp.ones(())
parallel = functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P("b"), P("b"), P("b")), out_specs=P())
crashes = jax.__version_info__ >= (0, 11)  # JAX, on residuals that are empty arrays
for name, loss in losses(small).items():
    if crashes and name not in ("inverse dynamics", "masses"):
        continue
    inside = parallel(lambda *args: jax.grad(loss)(*args) / 2)  # the sum over both devices is implied
    found = [jax.jit(inside)(k, q, v, tau)]  # in a mesh first: what is traced there must serve elsewhere
    if not crashes:
        outside = jax.grad(parallel(lambda *args: jax.lax.pmean(loss(*args), "b")))
        found.append(jax.jit(outside)(k, q, v, tau))
    want = jax.jit(jax.grad(loss))(k, q, v, tau)
    assert np.allclose(found, want, rtol=2e-4), (name, found, want)
    try:
        jax.jit(parallel(loss))(k, q, v, tau)
    except ValueError:
        pass
    else:
        raise AssertionError(f"{name}: devices differ, and nobody noticed")

explicit = jax.make_mesh((2,), ("b",), axis_types=(AxisType.Explicit,))
for compiler in ("auto", "xla"):
    m = small.with_compiler(compiler)
    f = jax.jit(jax.vmap(lambda q, v, t: jd.forward_dynamics(m, jd.State(q, v), t).acceleration))
    parts = [jax.device_put(x, NamedSharding(explicit, P("b"))) for x in (q, v, tau)]
    got = f(*parts)
    assert jax.typeof(got).sharding.spec == P("b", None)
    with jax.set_mesh(explicit):
        assert np.array_equal(got, f(*parts))
    assert np.allclose(got, f(q, v, tau), rtol=1e-3, atol=1e-3)
    if compiler == "auto":
        assert np.array_equal(got, f(q, v, tau))
print("the same")
"""


@needs_kernels
def test_gradients_are_summed_over_devices():
    """In `shard_map`, values that differ between devices are known as such."""
    assert run(DEVICES, XLA_FLAGS="--xla_force_host_platform_device_count=2").strip() == "the same"


def test_calls_without_jit():
    model = CATALOGUE["four_bar_point"].build()
    q, v, tau = (x[0] for x in sample(model, 3, 1))
    of = lambda t: jd.forward_dynamics(model, jd.State(q, v), t).acceleration  # noqa: E731
    wanted = of(tau), jax.grad(lambda t: of(t).sum())(tau)
    with jax.disable_jit():
        found = of(tau), jax.grad(lambda t: of(t).sum())(tau)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


# ---- choice


def test_choice_of_a_compiler(monkeypatch):
    model = CATALOGUE["pendulum"].build()
    assert model.compiler == "auto"
    assert model.with_compiler("xla").compiler == "xla"
    with pytest.raises(ValueError, match=r"with_compiler.*'gcc'.*auto, kernel, xla"):
        model.with_compiler("gcc")
    assert jd.load("four_bar", compiler="xla").compiler == "xla"
    monkeypatch.setenv("JAXDYN_COMPILER", "fortran")
    with pytest.raises(ValueError, match="JAXDYN_COMPILER=fortran is none of auto, kernel, xla; unset it for auto"):
        kernels.choice("auto")
    monkeypatch.setenv("JAXDYN_COMPILER", "xla")
    assert kernels.choice("auto") == "xla"
    monkeypatch.setenv("JAXDYN_COMPILER", "")
    assert kernels.choice("auto") in ("kernel", "xla")


def test_programs_in_both_precisions_are_lowered_in_one_process():
    for wide in (False, True):
        with jax.enable_x64(wide):
            model = jd.load("four_bar", compiler="xla")
            found = jax.jit(jd.mass_matrix)(model, model.neutral())
            assert found.dtype == (jnp.float64 if wide else jnp.float32)


def lowered(model) -> str:
    x = jnp.zeros(model.nv)
    return jax.jit(lambda q: accelerate(model, q, x, x)).lower(model.neutral()).as_text()


@needs_kernels
def test_the_choice_decides_what_is_lowered(monkeypatch):
    monkeypatch.delenv("JAXDYN_COMPILER", raising=False)
    model = CATALOGUE["pendulum"].build()
    assert "jaxdyn_" in lowered(model)
    assert "@jaxdyn_" not in lowered(model.with_compiler("xla"))


@needs_kernels
def test_export_works_with_xla_and_is_refused_otherwise():
    model = CATALOGUE["pendulum"].build()
    x = jnp.zeros(model.nv)
    f = lambda m: jax.jit(lambda q: accelerate(m, q, x, x))  # noqa: E731
    with pytest.raises(ValueError, match=r'jax.export.*with_compiler\("xla"\)'):
        jax.export.export(f(model.with_compiler("kernel")))(model.neutral())
    exported = jax.export.export(f(model.with_compiler("xla")))(model.neutral())
    np.testing.assert_allclose(exported.call(model.neutral()), f(model)(model.neutral()), atol=1e-12)
    many = jax.ShapeDtypeStruct((*jax.export.symbolic_shape("b"), model.nq), jnp.float32)
    with pytest.raises(ValueError, match="`jax.export`: the batch has a symbolic size, b; export one program"):
        jax.export.export(jax.jit(jax.vmap(f(model.with_compiler("xla")))))(many)


# ---- what goes wrong


@needs_kernels
def test_why_there_is_no_kernel_is_kept(monkeypatch):
    asked, scalarise = [], kernels.scalarise
    monkeypatch.setitem(kernels.LIMITS, "cpu", 5)
    monkeypatch.setattr(kernels, "scalarise", lambda *args: asked.append(args) or scalarise(*args))
    kernels._kernel.cache_clear()
    try:
        model = CATALOGUE["pendulum"].build()
        assert "@jaxdyn_" not in lowered(model)
        first = len(asked)
        assert first and "@jaxdyn_" not in lowered(model) and len(asked) == first
    finally:
        kernels._kernel.cache_clear()


@pytest.mark.parametrize(
    "stub", ["raise ImportError('gone')", "raise OSError('libLLVM is broken')", "__version__ = '99'"]
)
def test_without_a_working_llvmlite_xla_does_the_work(tmp_path, stub):
    (tmp_path / "llvmlite.py").write_text(stub)
    code = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import jaxdyn as jd, jax.numpy as jnp
model = jd.load({"four_bar"!r})
x = jnp.zeros(model.nv)
print(jd.forward_dynamics(model, jd.State(model.neutral(), x), x).acceleration.shape)
try:
    model.with_compiler("kernel")
except RuntimeError as error:
    print(error)
"""
    shape, error = run(code, JAX_DISABLE_MOST_OPTIMIZATIONS="1").strip().splitlines()
    assert shape == "(3,)" and "llvmlite" in error and "xla" in error


@needs_kernels
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="counts memory maps where Linux lists them")
def test_a_program_takes_few_memory_maps():
    count = lambda: Path("/proc/self/maps").read_bytes().count(b"\n")  # noqa: E731
    model = CATALOGUE["four_bar_point"].build()
    x = jnp.zeros(model.nv)
    program = lambda n: jax.jit(lambda q: accelerate(model, q, x, x) * n)  # noqa: E731
    program(1.0)(x).block_until_ready()
    before, kept = count(), len(host._made)
    for k in range(5):
        m = model.replace({"joints.damping": jnp.where(jnp.arange(model.nv) == k % 3, 0.0, 0.1 * (k > 2))})
        jax.jit(lambda q, m=m: accelerate(m, q, x, x))(x).block_until_ready()
    made = len(host._made) - kept
    assert made >= 3
    assert count() - before <= 8 * made, "four for the kernel, four for the program of XLA that calls it"


# ---- memory


@needs_kernels
@pytest.mark.parametrize("nested", [False, True])
def test_matrices_are_written_once(nested):
    """Under `vmap`, what a kernel returns is the result: no copy, no transpose."""
    model = CATALOGUE["quadruped"].build()
    f = jax.vmap(lambda q: jd.mass_matrix(model, q))
    q = jnp.broadcast_to(model.neutral(), (2, 24, model.nq) if nested else (48, model.nq))
    entry = jax.jit(jax.vmap(f) if nested else f).lower(q).compile().as_text().split("ENTRY")[1]
    assert "jaxdyn_" in entry
    for word in ("fusion(", "copy(", "transpose("):
        assert word not in entry
