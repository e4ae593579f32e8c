"""Contact rows of trees, which ride only where they may be needed: the rule changes no motion but in its last bits."""

import functools

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import operations
import pytest

import jaxdyn as jd

LAW = jd.contact.PGS()
DT = 2e-3
#: the gap of a ball, its vertical velocity, and the force on it, N
LANES = {
    "touches": (0.0, -1.0, 0.0),
    "expected": (1e-3, -1.0, 0.0),
    "unexpected": (5e-3, 0.0, -4000.0),
    "pushed": (5e-3, 0.0, -300.0),
    "far": (1.0, -1.0, 0.0),
}


@functools.cache
def scene():
    model, q = scenes.balls()
    gaps, speeds, forces = (np.array(x) for x in zip(*LANES.values(), strict=True))
    q = np.tile(q, (len(LANES), 1))
    q[:, 2] += gaps
    v, tau = np.zeros((len(LANES), 6)), np.zeros((len(LANES), 6))
    v[:, 2], tau[:, 2] = speeds, forces
    return model, q, v, tau


def one(model, q, v, tau):
    found = jd.simulate(model, jd.State(q, v), tau[None], DT, contacts=LAW)
    return {
        "v": found.v[-1],
        "impulse": found.contacts.impulses[0],
        "residual": found.contacts.residual[0],
        "well": (found.result == jd.Result.successful)[0],
    }


@pytest.mark.parametrize("compiler", ["auto", "xla"])
def test_what_touches_unexpectedly_does_not_pass(compiler):
    """A force of 400 g closes a gap within a step that a body at rest would take a tenth of a second to close."""
    model, q, v, tau = scene()
    found = jax.jit(jax.vmap(one, (None, 0, 0, 0)))(model.with_compiler(compiler), q, v, tau)
    gaps, speeds, forces = (np.array(x) for x in zip(*LANES.values(), strict=True))
    free = speeds + DT * (forces - scenes.G)
    least = -gaps / DT
    hits = dict(zip(LANES, free < least, strict=True))
    assert hits == {"touches": True, "expected": True, "unexpected": True, "pushed": False, "far": False}
    np.testing.assert_allclose(found["v"][:, 2], np.maximum(free, least), atol=1e-12)
    np.testing.assert_allclose(found["impulse"][:, 0, 0], np.maximum(least - free, 0), atol=1e-12)
    assert found["well"].all() and found["residual"].max() <= 1e-12


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_lane_does_not_know_which_others_touch(dtype):
    made = jax.tree.map(lambda x: jnp.asarray(x, dtype), scene())
    whole = jax.jit(jax.vmap(one, (None, 0, 0, 0)))(*made)
    for k, name in enumerate(LANES):
        alone = jax.jit(jax.vmap(one, (None, 0, 0, 0)))(made[0], *(x[k : k + 1] for x in made[1:]))
        for what, x in alone.items():
            np.testing.assert_array_equal(x[0], whole[what][k], err_msg=f"{name}, {what}")


@functools.cache
def quadruped(height):
    model, q = scenes.quadruped()
    q = np.array(q)
    q[2] += height
    rng = np.random.default_rng(3)
    return model, q, 0.3 * rng.normal(size=model.nv), rng.normal(size=model.nv)


def step(model, q, v, tau, law=LAW):
    return jd.step(model, jd.State(q, v), tau, DT, contacts=law).v


def test_in_the_air_a_step_and_its_derivatives_are_free():
    model, q, v, tau = quadruped(0.5)
    v = np.concatenate([v[:3], np.zeros(3), v[6:]])  # steps with contact integrate in other axes, as do the first three
    free = functools.partial(step, law=None)
    for f in (lambda g: g, lambda g: jax.jacfwd(g, 3), lambda g: jax.jacrev(g, 3)):
        got, wanted = (jax.jit(f(lambda *x, g=g: g(*x)[3:]))(model, q, v, tau) for g in (step, free))
        for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(x, y, atol=1e-9 * np.abs(y).max())


def test_reading_more_changes_no_number():
    for height in (0.0, 0.5):
        model, q, v, tau = quadruped(height)
        told = jax.jit(one)(model, q, v, tau)
        np.testing.assert_array_equal(jax.jit(lambda *x: one(*x)["v"])(model, q, v, tau), told["v"])


def test_operations_in_the_air():
    """A step in the air has few operations more than one without contact: of branches, the cheapest counts."""
    model, q, v, tau = quadruped(0.5)
    lanes = [np.tile(x, (3, 1)) for x in (q, v, tau)]

    def count(law):
        mapped = jax.vmap(functools.partial(step, model, law=law))
        few, more = (operations.operations(mapped, *[x[:n] for x in lanes]) for n in (2, 3))
        return more - few

    assert count(LAW) <= 1.35 * count(None)
