"""`detect`, and warm starts that go from one call of `simulate` to the next."""

import functools

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd

DT = 2e-3


@functools.cache
def program(steps, law):
    zero = lambda s, t: jnp.zeros_like(s.v)  # noqa: E731
    return jax.jit(
        lambda m, q, v, warm: jd.simulate(m, jd.State(q, v), zero, DT, steps=steps, contacts=law, warm_start=warm)
    )


@pytest.mark.parametrize("slots", [None, 2])
def test_impulses_in_the_axes_of_the_world_are_the_change_of_momentum(slots):
    """Of a box that tumbles down a slope, with a slot at each corner and with slots that choose their corners."""
    model, q = scenes.box(slope=0.4)
    v = np.array([0.5, 0.3, 0.0, 3.0, -2.0, 4.0])
    found = program(150, jd.contact.PGS(50, slots=slots))(model, q, v, None)
    at = jax.jit(jax.vmap(lambda q, k: jd.contact.detect(model, q, which=k)))(found.q[:-1], found.contacts.which)
    np.testing.assert_array_equal(at.gaps, found.contacts.gaps)
    assert at.pairs == found.contacts.pairs
    if slots:
        assert (np.diff(np.asarray(found.contacts.which), axis=0) != 0).any()

    # rows keep the axes of the start of their step, so the velocity at its end is seen in these axes too
    R = np.asarray(jax.vmap(lambda q: jd.frame_pose(model, q, model.body_names[0]).rotation)(found.q))
    pushes = np.einsum("tkij,tkj->ti", at.poses.rotation, found.contacts.impulses)
    along = np.einsum("tij,tj->ti", R, found.v[:, :3])
    missing = pushes - model.bodies.mass[0] * (np.diff(along, axis=0) - DT * np.asarray(model.gravity))
    assert np.abs(pushes).max() > 0.1
    assert np.abs(missing).max() < 1e-10


def test_detection_is_what_shapes_say():
    """Of a ball above a plane and beside another ball: gaps, points, normals, and their derivatives."""
    spec = jd.ModelSpec("balls")
    for name in ("a", "b"):
        spec.add_body(name, "world", jd.joints.Translation(), inertia=jd.Inertia(1.0, (0, 0, 0), 0.01 * np.eye(3)))
        spec.add_shape(name, jd.shapes.Sphere(0.1))
    spec.add_ground()
    spec.self_collisions = True
    model, q = spec.build(), np.array([0.0, 0.0, 0.3, 0.5, 0.0, 0.05])
    found = jd.contact.detect(model, q)
    by = {pair: k for k, pair in enumerate(found.pairs)}
    a, b, both = by["a", "ground"], by["b", "ground"], by.get(("a", "b"), by.get(("b", "a")))
    apart = np.hypot(0.5, 0.25)
    np.testing.assert_allclose(found.gaps[np.array([a, b, both])], [0.2, -0.05, apart - 0.2], atol=1e-12)
    np.testing.assert_allclose(found.poses.rotation[a][:, 0], [0, 0, 1], atol=1e-12)
    way = np.array([-0.5, 0, 0.25]) / apart * (1 if ("a", "b") in by else -1)  # to the first shape
    np.testing.assert_allclose(found.poses.rotation[both][:, 0], way, atol=1e-12)
    np.testing.assert_allclose(found.poses.translation[both], [0.25, 0, 0.175], atol=1e-12)
    turned = np.asarray(found.poses.rotation)
    np.testing.assert_allclose(turned @ np.swapaxes(turned, 1, 2), np.broadcast_to(np.eye(3), turned.shape), atol=1e-12)
    assert (np.linalg.det(turned) > 0).all()
    slope = jax.jacrev(lambda q: jd.contact.detect(model, q).gaps)(q)
    np.testing.assert_allclose(slope[a], [0, 0, 1, 0, 0, 0], atol=1e-12)
    few = jd.contact.detect(model, q, which=[both, a])
    np.testing.assert_array_equal(few.gaps, np.asarray(found.gaps)[[both, a]])


def test_nothing_to_detect():
    spec = jd.ModelSpec("bare")
    spec.add_body("ball", "world", jd.joints.Free(), inertia=scenes.round_body(1, 0.1))
    model = spec.build()
    found = jd.contact.detect(model, model.neutral())
    assert found.gaps.shape == (0,) and found.poses.rotation.shape == (0, 3, 3) and found.pairs == ()


@pytest.mark.parametrize(
    ("which", "error", "match"),
    [
        ([0, 99], ValueError, r"`detect`: `which` has places other than 0 to"),
        ([-1], ValueError, r"`detect`: `which` has places other than 0 to"),
        ([0.5], TypeError, r"`detect`: `which` has dtype float64"),
        (["a"], TypeError, r"`detect`: `which` is not an array of numbers"),
        ([[0], [1, 2]], ValueError, r"`detect`: `which` is not an array of numbers"),
        ([10**30], ValueError, r"`detect`: `which` has places other than"),
        ([[0]], ValueError, r"`detect`: `which` has shape \(1, 1\)"),
    ],
)
def test_places_that_are_none(which, error, match):
    model, q = scenes.box()
    with pytest.raises(error, match=match):
        jd.contact.detect(model, q, which=which)


@pytest.mark.parametrize("slots", [None, 2])
def test_a_motion_goes_on_where_it_was(slots):
    """Two halves with the warm start of the first are the whole, to the last bit; cold, they are not."""
    model, q = scenes.armoured(torsion=0.01)
    law = jd.contact.PGS(2, slots=slots)  # so few that the start matters
    v = np.zeros(model.nv)
    v[:6] = 0.0, 0.0, -0.2, 0.3, -0.2, 0.5
    cold = jd.cold_start(model, contacts=law)
    run = program(35, law)
    whole = program(70, law)(model, q, v, cold)
    first = run(model, q, v, cold)
    second = run(model, first.q[-1], first.v[-1], first.warm_start)
    np.testing.assert_array_equal(whole.q[-1], second.q[-1])
    assert jax.tree.structure(second.warm_start) == jax.tree.structure(cold)
    anew = run(model, first.q[-1], first.v[-1], cold)
    assert np.abs(whole.q[-1] - anew.q[-1]).max() > 1e-9


def test_a_scan_of_calls():
    """As an environment makes them: the warm start is part of what is carried, and zeros are a cold one."""
    model, q = scenes.box()
    law = jd.contact.PGS()

    def act(carry, push):
        state, warm = carry
        tau = jnp.zeros((5, model.nv)).at[:, 0].set(push)
        found = jd.simulate(model, state, tau, DT, contacts=law, warm_start=warm)
        fell = found.q[-1, 2] < -1
        warm = jax.tree.map(lambda x: jnp.where(fell, 0, x), found.warm_start)
        return (found[-1], warm), found.result

    start = jd.State(jnp.asarray(q), jnp.zeros(6)), jd.cold_start(model, contacts=law)
    (end, _), result = jax.jit(lambda: jax.lax.scan(act, start, jnp.linspace(-1, 1, 4)))()
    tau = np.zeros((20, 6))
    tau[:, 0] = np.repeat(np.linspace(-1, 1, 4), 5)
    whole = jd.simulate(model, start[0], tau, DT, contacts=law)
    np.testing.assert_allclose(end.q, whole.q[-1], rtol=0, atol=1e-12)
    assert (result == jd.Result.successful).all()


def test_loops_start_from_multipliers():
    """Without contact a warm start holds the multipliers of the constraints."""
    model = jd.load("four_bar")
    state = jd.State(jd.assemble(model, model.neutral()), np.zeros(3))
    found = jd.simulate(model, state, np.zeros((3, 3)), DT, warm_start=True)
    np.testing.assert_array_equal(found.warm_start.forces, found.multipliers[-1])
    again = jd.simulate(model, found[-1], np.zeros((3, 3)), DT, warm_start=found.warm_start)
    whole = jd.simulate(model, state, np.zeros((6, 3)), DT, warm_start=True)
    np.testing.assert_allclose(again.q[-1], whole.q[-1], rtol=0, atol=1e-13)
    assert jd.simulate(model, state, np.zeros((3, 3)), DT).warm_start is None


def test_warm_starts_of_other_calls_are_refused():
    model, q = scenes.box()
    warm = jd.cold_start(model, contacts=jd.contact.PGS())
    call = functools.partial(jd.simulate, model, jd.State(q, np.zeros(6)), np.zeros((2, 6)), DT)
    with pytest.raises(ValueError, match=r"`simulate`: `warm_start` has forces .*\(12,\).*\(0,\).*jd\.cold_start"):
        call(warm_start=warm)
    with pytest.raises(TypeError, match="`simulate`: `warm_start`"):
        call(warm_start=np.zeros(12), contacts=jd.contact.PGS())
    with pytest.raises(TypeError, match="`cold_start`: `contacts`"):
        jd.cold_start(model, contacts=True)


def test_derivatives_at_nodes_of_a_height_field_are_those_beside_them():
    """The surface is a plane, so that there is no kink at any of them. Vertices of the box are there."""
    spec = jd.ModelSpec("box")
    spec.add_body("box", "world", jd.joints.Free(), inertia=jd.Inertia.box(1.0, (1, 1, 0.2)))
    spec.add_shape("box", jd.shapes.Box((1, 1, 0.2)))
    spec.add_shape("world", jd.shapes.HeightField(np.tile(0.3 * np.linspace(-1, 1, 5), (5, 1)), (2, 2)), name="field")
    model = spec.build()
    gap = lambda place: jd.contact.detect(model, model.neutral().at[:3].set(place)).gaps[0]  # noqa: E731
    wanted = np.array([-0.3, 0, 1]) / np.sqrt(1.09)
    for derivative in (jax.jit(jax.jacfwd(gap)), jax.jit(jax.jacrev(gap))):
        for place in ((0.0, 0.1, 1.0), (0.0, 0.0, 1.0), (0.1, 0.0, 1.0)):
            np.testing.assert_allclose(derivative(jnp.array(place)), wanted, atol=1e-12)
