"""Kernels on a GPU, where there is one: the bits of the CPU, for single programs and for whole functions.

JAX_PLATFORMS=cpu,cuda python -m pytest tests/test_gpu.py
"""

import functools

import contact_scenes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from catalogue import CATALOGUE
from compiled import states
from test_cuda import MADE, programs, same_bits

import jaxdyn as jd
from jaxdyn.engine import calls, cuda


@functools.cache
def gpu():
    try:
        return jax.devices("cuda")[0]
    except RuntimeError:
        return None


pytestmark = pytest.mark.skipif(gpu() is None, reason="no GPU, or JAX_PLATFORMS excludes it")
BATCH = 150


def target(program) -> calls.Kernel:
    count, outputs = len(program.inputs), list(zip(program.outputs, program.output_types, strict=True))
    return calls.Kernel(
        cuda.made(program).name,
        tuple(range(count)),
        tuple(range(len(outputs))),
        tuple(bool(shared) for _, _, shared in program.inputs),
        tuple(((len(rows),), t.dtype) for rows, t in outputs),
    )


@pytest.mark.parametrize("name", MADE)
def test_programs(name):
    for program, inputs, expected in programs(name):
        found = jax.jit(functools.partial(calls.call, target(program), 1))(*jax.device_put(inputs, gpu()))
        for a, b in zip(found, expected, strict=True):
            same_bits(np.asarray(a), b)


def robot(name, dtype="float64"):
    """A model of the catalogue, and `BATCH` different states and torques."""
    model = jax.tree.map(lambda x: jnp.asarray(x, dtype), CATALOGUE[name].build()).with_compiler("kernel")
    q, v, tau = (jnp.asarray(np.resize(x, (BATCH, *x.shape[1:])), dtype) for x in states(name))
    return model, (q, v * jnp.linspace(0, 2, BATCH, dtype=dtype)[:, None], tau)


def scene(made, dtype="float64"):
    """A scene with small random velocities, and no torques."""
    model, q = made
    model = jax.tree.map(lambda x: jnp.asarray(x, dtype), model).with_compiler("kernel")
    v = 0.3 * np.random.default_rng(0).normal(size=(BATCH, model.nv))
    return model, tuple(jnp.asarray(x, dtype) for x in (np.tile(q, (BATCH, 1)), v, 0 * v))


def acceleration(model, q, v, tau):
    return jd.forward_dynamics(model, jd.State(q, v), tau).acceleration


def gradient(model, q, v, tau):
    return jax.grad(lambda *x: acceleration(model, *x).sum(), (0, 1, 2))(q, v, tau)


def tangent(model, q, v, tau):
    return jax.jvp(lambda *x: acceleration(model, *x), (q, v, tau), (v, tau, v))[1]


def simulated(model, q, v, tau, contacts=None):
    found = jd.simulate(model, jd.State(q, v), jnp.broadcast_to(tau, (20, model.nv)), 2e-3, contacts=contacts)
    return found.q, found.v, found.result._value


def stood(model, q, v, tau):
    return simulated(model, q, v, tau, jd.contact.Auto())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    ("f", "made"),
    [
        (acceleration, functools.partial(robot, "quadruped")),
        (acceleration, functools.partial(robot, "four_bar_point")),
        (gradient, functools.partial(robot, "four_bar_point")),
        (tangent, functools.partial(robot, "cart_double_pendulum")),
        (simulated, functools.partial(robot, "four_bar_point")),
        (stood, lambda dtype: scene(contact_scenes.box(), dtype)),
        (stood, lambda dtype: scene(contact_scenes.looped(), dtype)),
    ],
)
def test_functions(f, made, dtype):
    model, operands = made(dtype=dtype)
    run = jax.jit(jax.vmap(functools.partial(f, model)))
    expected = run(*operands)
    with jax.default_device(gpu()):
        found = run(*jax.device_put(operands, gpu()))
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert a.devices() == {gpu()}
        same_bits(np.asarray(a), np.asarray(b))


def test_kernels_are_the_default(monkeypatch):
    monkeypatch.delenv("JAXDYN_COMPILER", raising=False)
    model, operands = robot("quadruped")
    run = jax.jit(jax.vmap(functools.partial(acceleration, model.with_compiler("auto"))))
    with jax.default_device(gpu()):
        assert "jaxdyn_" in run.lower(*jax.device_put(operands, gpu())).as_text()
