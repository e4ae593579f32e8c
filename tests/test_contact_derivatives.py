"""Derivatives of steps with contact against central differences, in both modes, of what sticks, slides and breaks."""

import functools
import math
from typing import NamedTuple

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd

LAW, DT = jd.contact.PGS(sweeps=3000), 4e-3
#: numbers of models that motions depend on
LEAVES = (
    "bodies.mass",
    "bodies.center_of_mass",
    "collision.friction",
    "collision.size",
    "collision.restitution",
    "gravity",
)
ARGUMENTS = ("q", "v", "tau", "dt", *LEAVES)


class Case(NamedTuple):
    """A scene, its velocity and forces, and what its contacts do."""

    made: tuple
    v: np.ndarray
    tau: np.ndarray
    modes: tuple


def pushed(made, modes, v, depth=1e-4, seed=0):
    """A scene whose robot is pushed into the ground by `depth`, with a velocity of which the first numbers are given.
    The ground has less friction than what stands on it: the larger of two equal numbers has no derivative."""
    model, q = made
    rng = np.random.default_rng(seed)
    whole = np.zeros(model.nv)
    whole[: len(v)] = v
    friction = model.collision.friction * np.array([*np.ones(len(model.collision.names) - 1), 0.7])
    model = model.replace({"collision.friction": friction})
    return Case((model, q - depth * np.eye(model.nq)[2]), whole, 0.5 * rng.normal(size=model.nv), modes)


def on_two_feet():
    """A quadruped with a diagonal pair of its feet lifted: of all four, that stick, rows depend on each other."""
    model, q = scenes.quadruped()
    return model, q + np.array([*np.zeros(9), *[0.3, -0.6] * 2, 0, 0])


def colliding():
    model, q = scenes.balls(2, ground=False, restitution=0.5)
    model = model.replace({"collision.friction": np.array([0.1, 0.05])})
    v = np.array([5.0, 1.0, 0.5, 1, -12, 13, -1, 0, 0.3, 1, -12, 9])
    return Case((model, q - 0.04 * np.eye(14)[7]), v, np.random.default_rng(1).normal(size=12), ("slides",))


def swinging():
    model, _ = scenes.pendulum(links=2)
    model = model.replace({"collision.friction": np.array([0.1, 0.4])})
    return Case((model, np.array([-0.25, -0.1])), np.array([-1.5, -0.7]), np.array([0.3, -0.2]), ("slides",))


CASES = {
    "looped sticks": lambda: pushed(scenes.looped(), ("sticks",), [0, 0, -0.3]),
    "looped slides": lambda: pushed(scenes.looped(friction=0.2), ("slides",), [1.0, 0.5, -0.3]),
    "looped breaks": lambda: pushed(scenes.looped(), ("breaks",), [0, 0, 0.6]),
    "looped soft": lambda: pushed(
        scenes.looped(friction=0.2, stiffness=1e4, damping=20.0), ("slides",), [1.0, 0.5, -0.3]
    ),
    "looped bounces": lambda: pushed(scenes.looped(restitution=0.6), ("sticks",), [0, 0, -0.3]),
    "quadruped sticks": lambda: pushed(on_two_feet(), ("sticks", "breaks", "breaks", "sticks"), [0, 0, -0.3]),
    "quadruped slides": lambda: pushed(scenes.quadruped(friction=0.2), ("slides",) * 4, [1.0, 0.5, -0.3]),
    "quadruped turns up": lambda: pushed(
        scenes.quadruped(friction=0.6), ("breaks", "breaks", "slides", "slides"), [0.6, 0.5, 0.1, 0, -2.0, 0]
    ),
    "balls": colliding,
    "pendulum": swinging,
}


def after(model, start, dv, v, tau, dt, *numbers):
    """v and the way (nv,) of a step from `start`, moved by dv."""
    model = model.replace(dict(zip(LEAVES, numbers, strict=True)))
    q = jd.integrate(model, start, dv, 1.0)
    end = jd.step(model, jd.State(q, v), tau, dt, contacts=LAW)
    return jnp.concatenate([end.v, jd.difference(model, start, end.q)])


NUMBERS = tuple(range(2, 2 + len(ARGUMENTS)))
forward = jax.jit(jax.jacfwd(after, NUMBERS))
backward = jax.jit(jax.jacrev(after, NUMBERS))
program = jax.jit(lambda m, q, v, tau: jd.simulate(m, jd.State(q, v), tau[None], DT, contacts=LAW))
mapped = jax.jit(jax.vmap(after, (None, None, *(0 for _ in NUMBERS))))


@functools.cache
def arguments(name):
    case = CASES[name]()
    model, q = case.made
    leaves = {
        "bodies.mass": model.bodies.mass,
        "bodies.center_of_mass": model.bodies.center_of_mass,
        "gravity": model.gravity,
        **{f"collision.{x}": getattr(model.collision, x) for x in ("friction", "size", "restitution")},
    }
    given = np.zeros(model.nv), case.v, case.tau, np.array(DT), *(np.asarray(leaves[x], float) for x in LEAVES)
    return model, q, given


@functools.cache
def differences(name, h=1e-6):
    """Derivatives by central differences, argument by argument."""
    model, q, given = arguments(name)
    sizes = [x.size for x in given]
    flat = np.concatenate([np.ravel(x) for x in given])
    moved = np.concatenate([flat + s * h * np.eye(len(flat)) for s in (1, -1)])
    split = [x.reshape(-1, *a.shape) for x, a in zip(np.split(moved, np.cumsum(sizes)[:-1], 1), given, strict=True)]
    up, down = np.split(np.asarray(mapped(model, q, *split)), 2)
    J = ((up - down) / (2 * h)).T
    return [x.reshape(len(J), *a.shape) for x, a in zip(np.split(J, np.cumsum(sizes)[:-1], 1), given, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_the_contacts_do_what_the_case_says(name):
    case = CASES[name]()
    model, q = case.made
    found = program(model, q, case.v, case.tau)
    f, mu = np.asarray(found.contacts.impulses[0]), np.asarray(model.collision.of_pairs().friction)
    n, t = f[:, 0], np.linalg.norm(f[:, 1:], axis=1)
    assert tuple(np.where(n <= 0, "breaks", np.where(t < 0.98 * mu * n, "sticks", "slides"))) == case.modes
    assert (np.abs(t[n > 0] - 0.99 * (mu * n)[n > 0]) > 1e-6).all() and found.contacts.residual[0] < 1e-12


@pytest.mark.parametrize("mode", [forward, backward], ids=["forward", "backward"])
@pytest.mark.parametrize("name", CASES)
def test_every_argument(name, mode):
    model, q, given = arguments(name)
    found, wanted = mode(model, q, *given), differences(name)
    for what, x, y in zip(ARGUMENTS, found, wanted, strict=True):
        error = np.abs(np.asarray(x) - y).max() / max(1, np.abs(y).max())
        assert error <= 1e-6, (what, error)
    moves = {what for what, y in zip(ARGUMENTS, wanted, strict=True) if np.abs(y).max() > 1e-9}
    assert {"q", "v", "tau", "dt", "bodies.mass"} <= moves
    if "slides" in CASES[name]().modes:
        assert {"collision.friction", "collision.size"} <= moves


def test_through_many_steps():
    """A quadruped that lands and slides, with respect to where it starts and to friction: both modes, to the end."""
    model, q = scenes.quadruped(friction=0.3)

    def end(x):
        made = model.replace(
            {"collision.friction": x[0] * model.collision.friction, "bodies.mass": x[1] * model.bodies.mass}
        )
        v = jnp.zeros(model.nv).at[:3].set(x[2:5])
        zero = jnp.zeros((12, model.nv))
        found = jd.simulate(made, jd.State(q + 0.003 * np.eye(model.nq)[2], v), zero, DT, contacts=LAW)
        return jnp.concatenate([found.v[-1], found.contacts.impulses[-1, :, 0], found.contacts.gaps[-1]])

    x = np.array([1.0, 1.1, 0.4, 0.2, -0.3])
    h = 1e-6
    both = jax.jit(jax.vmap(end))(np.concatenate([x + h * np.eye(5), x - h * np.eye(5)]))
    wanted = np.asarray(both[:5] - both[5:]).T / (2 * h)
    assert np.abs(wanted[14:18]).max() > 1e-3
    for mode in (jax.jacfwd, jax.jacrev):
        error = np.abs(np.asarray(jax.jit(mode(end))(x)) - wanted).max() / np.abs(wanted).max()
        assert error <= 1e-6, error


@pytest.mark.slow
@pytest.mark.parametrize("name", ["looped slides"])
def test_second_order_where_the_active_set_is_regular(name):
    """The Hessian of a speed with respect to velocities and forces, against differences of gradients."""
    model, q, given = arguments(name)
    rest = given[3:]
    weights = np.random.default_rng(2).normal(size=2 * model.nv)

    def speed(x):
        v, tau = jnp.split(x, 2)
        return weights @ after(model, q, given[0], v, tau, *rest)

    x, h = np.concatenate([given[1], given[2]]), 1e-5
    found = np.asarray(jax.jit(jax.hessian(speed))(x))
    slope = jax.jit(jax.vmap(jax.grad(speed)))
    both = np.asarray(slope(np.concatenate([x + h * np.eye(len(x)), x - h * np.eye(len(x))])))
    wanted = (both[: len(x)] - both[len(x) :]) / (2 * h)
    assert np.abs(wanted).max() > 1e-3
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()
    np.testing.assert_allclose(found, found.T, rtol=0, atol=1e-8 * np.abs(wanted).max())


def test_a_lane_that_breaks_has_the_derivatives_of_free_flight():
    case = CASES["looped breaks"]()
    model, q = case.made
    high = q + 0.5 * np.eye(model.nq)[2]
    numbers = arguments("looped breaks")[2]
    near, far = forward(model, q, *numbers), forward(model, high, *numbers)
    for what, x, y in zip(ARGUMENTS, near, far, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-9 * max(1, np.abs(y).max()), err_msg=what)
    assert math.isfinite(float(jnp.concatenate([jnp.ravel(x) for x in far]).sum()))
