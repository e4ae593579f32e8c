"""Contact without a matrix: what `ADMM` finds, and its derivatives, are those with one."""

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd
from jaxdyn.contact import ADMM, PGS, Auto
from jaxdyn.contact.limbs import rows_of
from jaxdyn.contact.solution import contact_step

DT = 2e-3
SCENES = {"pyramid": scenes.pyramid(3), "strider": scenes.strider()[:2], "quadruped": scenes.quadruped()}


def velocity(model, seed=1, size=0.05):
    return size * np.random.default_rng(seed).normal(size=model.nv)


@jax.jit(static_argnums=0)
def found(law, model, q, v):
    return contact_step(model, model.constraints, q, v, jnp.zeros_like(v), None, jnp.asarray(DT, v.dtype), law)


@pytest.mark.parametrize("name", SCENES)
def test_steps_are_those_with_a_matrix(name):
    """Piles, a robot with joints that rub and stop, and one with closed loops."""
    model, q = SCENES[name]
    v = velocity(model)
    if name == "pyramid":  # boxes that turn as well may jam in more than one way
        v = v * np.tile([0, 0, 0, 1, 0, 0], model.nb)
    formed, free = (
        found(ADMM(tol=1e-11, max_steps=4000, matrix_free=mf), model, jnp.asarray(q), v) for mf in (False, True)
    )
    assert max(float(x.contacts.residual) for x in (formed, free)) < 1e-8
    assert float(abs(formed.contacts.impulses).max()) > 1e-3
    np.testing.assert_allclose(
        free.acceleration, formed.acceleration, rtol=0, atol=1e-6 * float(abs(formed.acceleration).max())
    )
    if name != "pyramid":  # whose boxes stand on more corners than they need
        impulses = [x.contacts.impulses for x in (free, formed)]
        np.testing.assert_allclose(*impulses, rtol=0, atol=1e-9 * float(abs(impulses[1]).max()))
    assert int(free.result._value) == 0


def test_what_parts_without_friction_keeps_nothing_from_converging():
    """Two balls fall on the ground, and one flies off it."""
    model, q = scenes.balls(3)
    v = np.zeros(18)
    v[14] = 1.0
    made = found(ADMM(matrix_free=True), model, jnp.asarray(q), v)
    pushed = dict(zip(made.contacts.pairs, np.asarray(made.contacts.impulses[:, 0]), strict=True))
    weights = [pushed[f"ball{k}", "ground"] / (scenes.G * DT) for k in range(3)]
    np.testing.assert_allclose(weights, [1, 1, 0], rtol=0, atol=1e-6)
    assert int(made.result._value) == 0


def test_in_single_precision():
    model, q = SCENES["quadruped"]
    double = found(ADMM(), model, jnp.asarray(q), velocity(model))
    cast = lambda x: x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x  # noqa: E731
    law = ADMM(2e-4, max_steps=400, matrix_free=True)
    single = found(law, *jax.tree.map(cast, (model, jnp.asarray(q), jnp.asarray(velocity(model)))))
    np.testing.assert_allclose(DT * single.acceleration, DT * double.acceleration, atol=3e-4)


@pytest.mark.parametrize("speed", [0.0, 0.5])
def test_derivatives_are_those_with_a_matrix(speed):
    """Of masses and velocities, both modes, where feet stand and where they slide."""
    model, q = scenes.quadruped()
    v = velocity(model, size=0.02)
    v[3] += speed
    d = velocity(model, 2, 1.0)
    given = model.bodies.mass, jnp.asarray(v)
    moved = 0.1 * model.bodies.mass, jnp.asarray(d)

    def both(matrix_free):
        law = ADMM(tol=1e-11, max_steps=4000, matrix_free=matrix_free)

        def after(mass, v):
            state = jd.State(jnp.asarray(q), v)
            return jd.step(model.replace({"bodies.mass": mass}), state, jnp.zeros(model.nv), DT, contacts=law).v

        def run(given, moved):
            y, back = jax.vjp(after, *given)
            return jax.jvp(after, given, moved)[1], back(d[::-1])

        return jax.jit(run)(given, moved)

    formed, free = both(False), both(True)
    for x, y in zip(jax.tree.leaves(free), jax.tree.leaves(formed), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=1e-6 * max(float(abs(y).max()), 1e-3))
    pushed = sum(float((x * y).sum()) for x, y in zip(free[1], moved, strict=True))
    np.testing.assert_allclose(pushed, float(d[::-1] @ free[0]), rtol=1e-6)


def test_many_rows_need_no_matrix():
    """15 boxes, 300 rows: refused before by all laws; they stand, and the ground bears their weight."""
    model, q = scenes.pyramid(5)
    assert rows_of(model, Auto()) == 300
    out = found(Auto(), model, jnp.asarray(q), np.zeros(model.nv))
    up = out.contacts.impulses[:, 0]
    ground = np.array(["ground" in pair for pair in out.contacts.pairs])
    np.testing.assert_allclose(up[ground].sum(), 15 * scenes.G * DT, rtol=1e-6)
    np.testing.assert_allclose(DT * out.acceleration, 0, atol=1e-6)
    with pytest.raises(ValueError, match=r"at most 200 are solved together by `PGS`.*`jd.contact.ADMM\(\)`"):
        jd.step(model, jd.State(q, np.zeros(model.nv)), np.zeros(model.nv), DT, contacts=PGS())


def test_explanations_take_a_matrix():
    model, q = scenes.pyramid(5)
    state, still = jd.State(q, np.zeros(model.nv)), np.zeros(model.nv)
    with pytest.raises(ValueError, match=r"`explain`: .* 300 rows, and at most 200 are solved together: .*with_pairs"):
        jd.contact.explain(model, state, still, dt=DT, contacts=Auto())


def test_what_is_refused():
    with pytest.raises(TypeError, match="`ADMM`: `matrix_free` is str .yes., neither"):
        ADMM(matrix_free="yes")  # type: ignore
