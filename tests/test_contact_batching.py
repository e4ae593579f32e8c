"""Steps with contact of many lanes: each is as if it were alone, in any precision, however it is called."""

import functools

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_contact_oracle import lying, states

import jaxdyn as jd

LAW = jd.contact.PGS()
DT = 4e-3
SCENES = {"two_links": lambda: lying(scenes.two_links()), "looped": scenes.looped}


@functools.cache
def sample(name, lanes=9):
    model, q = SCENES[name]()
    return model, states(model, q, lanes, seed=4)


def one(model, q, v, tau):
    return jd.simulate(model, jd.State(q, v), jnp.stack([tau, tau]), DT, contacts=LAW)


single, mapped = jax.jit(one), jax.jit(jax.vmap(one, (None, 0, 0, 0)))


def told(found):
    """All arrays of a trajectory, with what its results are."""
    return {
        "q": found.q,
        "v": found.v,
        "multipliers": found.multipliers,
        "impulses": found.contacts.impulses,
        "gaps": found.contacts.gaps,
        "residual": found.contacts.residual,
        "ended": found.result == jd.Result.successful,
    }


def same(a, b):
    for name, x in told(a).items():
        np.testing.assert_array_equal(x, told(b)[name], err_msg=name)


def near(a, b, tolerance):
    for name, x in told(a).items():
        y, z = np.asarray(x, float), np.asarray(told(b)[name], float)
        assert np.abs(y - z).max(initial=0) <= tolerance * max(1, np.abs(z).max(initial=0)), name


@pytest.mark.parametrize("name", SCENES)
def test_a_lane_does_not_know_of_others(name):
    """To the last bit: other lanes, in another order, among more."""
    model, (q, v, tau) = sample(name)
    whole = mapped(model, q, v, tau)
    assert np.asarray(whole.contacts.impulses).any()
    other = np.random.default_rng(0).permutation(9)
    same(jax.tree.map(lambda x: x[other], whole), mapped(model, q[other], v[other], tau[other]))
    crowd = [np.concatenate([x, x[::-1] * 1.0, x[:5]]) for x in (q, v, tau)]
    same(whole, jax.tree.map(lambda x: x[:9], mapped(model, *crowd)))


@pytest.mark.parametrize("name", SCENES)
def test_called_in_any_way(name):
    """Alone, mapped, and without jit."""
    model, (q, v, tau) = sample(name)
    whole = mapped(model, q, v, tau)
    for k in (0, 5):
        lane = jax.tree.map(lambda x, k=k: x[k], whole)
        near(single(model, q[k], v[k], tau[k]), lane, 1e-12)
    state = jd.State(q[0], v[0])
    for t in range(2):
        state = jd.step(model, state, tau[0], DT, contacts=LAW)
        np.testing.assert_allclose(state.q, whole.q[0, t + 1], rtol=0, atol=1e-12)
        np.testing.assert_allclose(state.v, whole.v[0, t + 1], rtol=0, atol=1e-8)  # without warm starts


@pytest.mark.parametrize("name", SCENES)
def test_models_are_mapped(name):
    """Each lane with masses and friction of its own."""
    model, (q, v, tau) = sample(name)
    mass, friction = model.bodies.mass, model.collision.friction

    def made(x):
        return model.replace({"bodies.mass": mass * x, "collision.friction": friction * x})

    sizes = np.linspace(0.5, 2, 9)
    whole = jax.jit(jax.vmap(lambda x, *s: one(made(x), *s)))(sizes, q, v, tau)
    for k in (0, 8):
        near(single(made(sizes[k]), q[k], v[k], tau[k]), jax.tree.map(lambda x, k=k: x[k], whole), 1e-10)


@pytest.mark.parametrize("name", SCENES)
def test_lanes_that_are_not_finite_stay_alone(name):
    model, (q, v, tau) = sample(name)
    whole = mapped(model, q, v, tau)
    bad = [x.copy() for x in (q, v, tau)]
    bad[0][2, 0], bad[1][4, 1], bad[2][7, 2] = np.nan, np.inf, np.nan
    found = mapped(model, *bad)
    good = [k for k in range(9) if k not in (2, 4, 7)]
    same(*(jax.tree.map(lambda x: x[np.array(good)], t) for t in (whole, found)))
    ended = np.asarray(found.result == jd.Result.not_finite)
    assert ended[[2, 4, 7]].all() and not ended[good].any()


@pytest.mark.parametrize("name", SCENES)
def test_single_precision_is_near_double(name):
    model, (q, v, tau) = sample(name)
    whole = mapped(model, q, v, tau)
    short = mapped(*jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (model, q, v, tau)))
    assert short.q.dtype == short.contacts.impulses.dtype == jnp.float32
    np.testing.assert_allclose(short.q, whole.q, rtol=0, atol=1e-5)
    np.testing.assert_allclose(short.v, whole.v, rtol=0, atol=1e-3 * np.abs(whole.v).max())


def test_warm_starts_change_nothing_but_time():
    """Where the law is solved to its end and forces are unique."""
    model, (q, v, tau) = sample("looped")
    law = jd.contact.PGS(sweeps=1000)

    def run(warm):
        force = np.zeros((20, model.nv))
        f = lambda q, v: jd.simulate(model, jd.State(q, v), force, DT, contacts=law, warm_start=warm)  # noqa: E731
        return jax.jit(jax.vmap(f))(q, v)

    warm, cold = run(True), run(False)
    assert np.asarray(warm.contacts.impulses[:, 1:]).any()
    for name in ("q", "v", "impulses"):
        np.testing.assert_allclose(told(warm)[name], told(cold)[name], rtol=0, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("name", SCENES)
def test_in_the_air_nothing_touches(name):
    """Motions above the ground are those without it, to the last bit."""
    model, (q, v, tau) = sample(name)
    q = q + np.eye(model.nq)[2]
    place = np.array(model.collision.placement.translation)
    place[-1, 2] = -1e3
    high, deep = mapped(model, q, v, tau), mapped(model.replace({"collision.placement.translation": place}), q, v, tau)
    assert not np.asarray(high.contacts.impulses).any() and (high.contacts.gaps > 0.5).all()
    np.testing.assert_array_equal(high.q, deep.q)
    np.testing.assert_array_equal(high.v, deep.v)
    assert not np.asarray(high.contacts.residual).any()
    free = jax.jit(jax.vmap(lambda *s: jd.forward_dynamics(model, jd.State(*s[:2]), s[2]).acceleration))(q, v, tau)
    turn = np.cross(v[:, 3:6], v[:, :3])
    wanted = v + DT * (np.asarray(free) + np.pad(turn, ((0, 0), (0, model.nv - 3))))
    if not np.asarray(model.joints.damping).any():  # else it is implicit
        np.testing.assert_allclose(high.v[:, 1, 3:], wanted[:, 3:], rtol=0, atol=1e-11)
        np.testing.assert_allclose(
            np.linalg.norm(high.v[:, 1, :3], axis=1), np.linalg.norm(wanted[:, :3], axis=1), rtol=1e-12
        )
