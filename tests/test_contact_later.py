"""Contact rows of trees, which ride only where they may be needed: the rule changes no motion but in its last bits."""

import functools

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import operations
import pytest

import jaxdyn as jd
from jaxdyn.contact import effect, problem
from jaxdyn.engine.lanes import laned

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
GAPS, SPEEDS, FORCES = (np.array(x) for x in zip(*LANES.values(), strict=True))


@functools.cache
def scene():
    model, q = scenes.balls()
    q = np.tile(q, (len(LANES), 1))
    q[:, 2] += GAPS
    v, tau = np.zeros((len(LANES), 6)), np.zeros((len(LANES), 6))
    v[:, 2], tau[:, 2] = SPEEDS, FORCES
    return model, q, v, tau


def one(model, q, v, tau):
    found = jd.simulate(model, jd.State(q, v), tau[None], DT, contacts=LAW)
    return {
        "v": found.v[-1],
        "impulse": found.contacts.impulses[0],
        "residual": found.contacts.residual[0],
        "well": (found.result == jd.Result.successful)[0],
    }


mapped = jax.jit(jax.vmap(one, (None, 0, 0, 0)))


@pytest.mark.parametrize("compiler", ["auto", "xla"])
def test_what_touches_unexpectedly_does_not_pass(compiler):
    """A force of 400 g closes a gap within a step that a body at rest would take a tenth of a second to close."""
    model, q, v, tau = scene()
    found = mapped(model.with_compiler(compiler), q, v, tau)
    free, least = SPEEDS + DT * (FORCES - scenes.G), -GAPS / DT
    hits = dict(zip(LANES, free < least, strict=True))
    assert hits == {"touches": True, "expected": True, "unexpected": True, "pushed": False, "far": False}
    np.testing.assert_allclose(found["v"][:, 2], np.maximum(free, least), rtol=0, atol=1e-12)
    np.testing.assert_allclose(found["impulse"][:, 0, 0], np.maximum(least - free, 0), rtol=0, atol=1e-12)
    assert found["well"].all() and found["residual"].max() <= 1e-12


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_lane_does_not_know_which_others_touch(dtype):
    made = jax.tree.map(lambda x: jnp.asarray(x, dtype), scene())
    whole = mapped(*made)
    for k, name in enumerate(LANES):
        alone = mapped(made[0], *(x[k : k + 1] for x in made[1:]))
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


def test_in_the_air_a_step_and_its_derivatives_are_those_without_contact():
    model, q, v, tau = quadruped(0.5)
    v = np.concatenate([v[:3], np.zeros(3), v[6:]])  # steps with contact integrate in other axes, as do the first three
    free = functools.partial(step, law=None)
    for f in (lambda g: g, lambda g: jax.jacfwd(g, 3), lambda g: jax.jacrev(g, 3)):
        got, wanted = (jax.jit(f(lambda *x, g=g: g(*x)[3:]))(model, q, v, tau) for g in (step, free))
        for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * np.abs(y).max())


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


@pytest.mark.parametrize("dt_alone", [True, False])
@pytest.mark.parametrize("compiler", ["auto", "xla"])
def test_a_batch_of_steps_of_different_lengths(compiler, dt_alone):
    """Springs and dampers make joints stiff over dt, with which the number of lanes may begin."""
    model, q, v, tau = quadruped(0.0)
    model, lengths = model.with_compiler(compiler), np.array([1e-3, 2e-3, 3e-3])
    f = lambda dt, x: jd.step(model, jd.State(q, x), tau, dt, contacts=LAW).v  # noqa: E731
    if dt_alone:
        found = jax.jit(jax.vmap(f, (0, None)))(lengths, v)
    else:
        found = jax.jit(jax.vmap(f))(lengths, np.tile(v, (3, 1)))
    one = jax.jit(f)
    np.testing.assert_allclose(found, np.stack([one(dt, v) for dt in lengths]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("force", [-4000.0, 0.0])
def test_a_limit_that_is_hit_unexpectedly_holds(force):
    spec = jd.ModelSpec("slide", gravity=(0, 0, 0))
    slide = jd.joints.Prismatic(axis=(1, 0, 0), limits=(0.0, 1.0))
    spec.add_body("slide", "world", slide, inertia=scenes.round_body(1.0, 0.1))
    spec.add_shape("slide", jd.shapes.Sphere(0.1))
    spec.add_shape("world", jd.shapes.Plane(), name="wall", placement=scenes.at(z=-9.0))
    model = spec.build()
    found = jd.step(model, jd.State(np.array([5e-3]), np.zeros(1)), np.array([force]), DT, contacts=LAW)
    np.testing.assert_allclose(found.v, max(DT * force, -5e-3 / DT), rtol=0, atol=1e-12)


def test_impacts():
    """Balls near the ground bounce, the others do not."""
    model, q, v, tau = scene()
    model = model.replace({"collision.restitution": np.full_like(model.collision.restitution, 0.5)})
    hit = lambda q, v: jd.impulse(model, jd.State(q, v), contacts=LAW).velocity  # noqa: E731
    found = jax.jit(jax.vmap(hit))(q, v)[:, 2]
    np.testing.assert_allclose(found, np.where(q[:, 2] - 0.1 < 1e-5, -0.5 * v[:, 2], v[:, 2]), rtol=0, atol=1e-12)


class Apart(jd.contact.PGS):
    """A law without a matrix."""

    def without_matrix(self, rows):
        return True


@pytest.mark.parametrize("kind", [jd.contact.PGS, Apart])
def test_rows_ride_later_as_they_ride_along(monkeypatch, kind):
    """The same G and right sides: rows of several limbs, of boxes that touch each other, and of joints."""
    (model, q), law, factor_of = scenes.booted(hands=True), kind(), problem.factor_of
    tau = np.random.default_rng(0).normal(size=model.nv)

    def made(later: bool, model, q, tau):
        monkeypatch.setattr(problem, "factor_of", lambda *x, **k: factor_of(*x, **k | {"later": later}))
        step = problem.begun(law, model, (), q, jnp.zeros_like(tau), tau, None, jnp.full(1, DT))
        found, force = problem.eliminated(step, law), problem.still(step.problem, tau)
        assert found.factor.tables.later is later
        if later:
            kept, b = found.ridden_after(found.factor.up(tau, force))
        else:
            none = jnp.zeros((found.own.problem.plan.rows, 1))
            kept, b = found.kept(), found.own.rates(found.factor.up(tau, force, none)["b"])
        f = jnp.asarray(np.random.default_rng(1).normal(size=b.shape))
        return effect.diagonal(kept.G), effect.product(kept.G, f), b

    one, other = (jax.jit(laned(made, later))(model, jnp.asarray(q), jnp.asarray(tau)) for later in (True, False))
    for x, y in zip(one, other, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-12 * np.abs(y).max())
