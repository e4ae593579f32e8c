"""Slots that are where gaps are least: the same motion as with a slot at every place."""

import functools

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd
from jaxdyn.contact.limbs import Group, groups_of, nearest, rows_of
from jaxdyn.contact.places import names_of
from jaxdyn.engine import kernels
from jaxdyn.engine.facts import counts

DT = 2e-3
FEW, ALL = jd.contact.ADMM(1e-12, max_steps=2000, slots=3), jd.contact.PGS(2000, slots=100)


@functools.cache
def program(law, steps, **options):
    zero = lambda s, t: jnp.zeros_like(s.v)  # noqa: E731
    run = lambda m, q, v: jd.simulate(m, jd.State(q, v), zero, DT, steps=steps, contacts=law, **options)  # noqa: E731
    return jax.jit(run)


def at_places(traj) -> np.ndarray:
    """Impulses at all places (steps, places, 3)."""
    found = traj.contacts
    whole = np.zeros((len(found.gaps), len(found.pairs), 3))
    np.put_along_axis(whole, np.asarray(found.which)[..., None], np.asarray(found.impulses), 1)
    return whole


@pytest.fixture(scope="module")
def robot():
    return scenes.armoured()


@pytest.mark.parametrize("torsion", [0.0, 0.01])
def test_few_slots_make_the_same_motion(torsion):
    """A robot that falls on its feet and spins touches at no more places than it has slots."""
    model, q = scenes.armoured(torsion=torsion)
    v = np.zeros(model.nv)
    v[:6] = 0.3, 0.1, -0.2, 0.2, -0.1, 1.0  # no longer than its legs touch
    few, every = (program(law, 60)(model, q, v) for law in (FEW, ALL))
    assert few.contacts.gaps.shape[1] == 9 and every.contacts.gaps.shape[1] == 22
    assert at_places(every)[:, :, 0].max() > 1e-3
    np.testing.assert_allclose(few.q, every.q, rtol=0, atol=1e-9)
    np.testing.assert_allclose(at_places(few), at_places(every), rtol=0, atol=1e-8)


def test_slots_are_where_gaps_are_least(robot):
    """In every group, in order, and each lane for itself."""
    model, q = robot
    tilted = np.stack([np.concatenate([scenes.pose(z=0.5, tilt=a, spin=a), q[7:]]) for a in (0.0, 0.7, -1.3, 3.0)])
    step = jax.vmap(lambda q: jd.step(model, jd.State(q, jnp.zeros(model.nv)), jnp.zeros(model.nv), DT, contacts=FEW))
    assert np.isfinite(step(tilted).q).all()
    found = jax.vmap(lambda q: program(FEW, 1)(model, q, jnp.zeros(model.nv)).contacts)(tilted)
    every = jax.vmap(lambda q: program(ALL, 1)(model, q, jnp.zeros(model.nv)).contacts)(tilted)
    gaps, which = np.asarray(every.gaps[:, 0]), np.asarray(found.which[:, 0])
    np.testing.assert_allclose(np.take_along_axis(gaps, which, 1), found.gaps[:, 0], rtol=0, atol=1e-12)
    assert len({tuple(w) for w in which}) == 4
    for n, group in enumerate(groups_of(model, FEW)):
        least = np.sort(gaps[:, group.places], 1)[:, :3]
        np.testing.assert_allclose(found.gaps[:, 0, 3 * n : 3 * n + 3], least, rtol=0, atol=1e-12)


def test_many_places_get_a_few_slots_by_themselves():
    """A robot whose places would make more rows than are solved together; others have a slot at every place."""
    law = jd.contact.PGS()
    model, q = scenes.armoured(legs=4, plates=9, damping=5.0)
    assert len(names_of(model)) == 72 and rows_of(model, law) == 3 * 20
    assert rows_of(scenes.armoured()[0], law) == 3 * 22
    for group in groups_of(model, law):
        assert len({model.topology.limbs[b] for b in group.bodies}) == 1
    found = program(law, 600)(model, q, np.zeros(model.nv))
    push = at_places(found)[-1, :, 0] / DT
    feet = [k for k, (a, _) in enumerate(found.contacts.pairs) if a.startswith("foot")]
    mass = float(model.bodies.mass.sum())
    np.testing.assert_allclose(push[feet].sum(), mass * 9.81, rtol=1e-3)
    np.testing.assert_allclose(push.sum(), push[feet].sum(), rtol=1e-6)
    assert (found.result == jd.Result.successful).all()


def test_all_places_of_a_robot_are_one_group_if_limbs_have_too_many_slots():
    """... with the motion of a slot at every place, if it touches at no more places than it has slots."""
    model, q = scenes.armoured(friction=0.2, legs=6)  # with more, several motions fulfil the law
    law = jd.contact.Newton(1e-11)
    (group,) = groups_of(model, law)
    assert len(group.places) == 58 and group.slots == 16 and rows_of(model, law) == 48
    v = np.zeros(model.nv)
    v[:6] = 0.3, 0.1, -0.2, 0.2, -0.1, 1.0
    few, every = (program(x, 60)(model, q, v) for x in (law, jd.contact.Newton(1e-11, slots=100)))
    touching = at_places(every)[:, :, 0] > 1e-9
    assert touching.sum(1).max() > 4
    assert (every.result == jd.Result.successful).all() and (few.result == jd.Result.successful).all()
    np.testing.assert_allclose(few.q, every.q, rtol=0, atol=1e-8)


def test_a_body_with_many_shapes_keeps_more_slots():
    """... where they make few rows: sixteen for one body, not four."""
    spec = jd.ModelSpec("table")
    spec.add_body("top", "world", jd.joints.Free(), inertia=scenes.round_body(1.0, 0.1))
    for k in range(39):
        spec.add_shape("top", jd.shapes.Sphere(0.02), placement=scenes.at(x=0.05 * (k % 13), y=0.05 * (k // 13)))
    (group,) = groups_of(spec.add_ground().build(), jd.contact.Auto())
    assert len(group.places) == 39 and group.slots == 16


@pytest.mark.parametrize("slots", [1, 3, 8])
def test_the_least_gaps_in_order(slots):
    """Of equal gaps those of the first places; infinite ones come last, and all places are different."""
    rng = np.random.default_rng(5)
    gaps = rng.integers(0, 5, (11, 40)).astype(float)
    gaps[rng.random(gaps.shape) < 0.3] = np.inf
    places = tuple(range(20, 31))
    group = Group((0,), places, ((1,) * 11,), slots, False)
    found = jax.jit(nearest, static_argnums=0)(group, jnp.asarray(gaps))
    np.testing.assert_array_equal(found, 20 + np.argsort(gaps, 0, kind="stable")[:slots])


def crossed() -> tuple[jd.Model, np.ndarray]:
    """A body with seven legs of two links, all of whose balls may touch each other; two of them do as legs swing."""
    spec = jd.ModelSpec("crossed", gravity=(0, 0, 0))
    spec.self_collisions = True
    spec.add_body("trunk", "world", jd.joints.Free(), inertia=jd.Inertia.box(2.0, (0.4, 0.4, 0.1)))
    hinge = jd.joints.Revolute(axis=(0, 1, 0))
    for k in range(7):
        way = 2 * k * np.pi / 7
        turned = jd.Transform(
            np.array([[np.cos(way), -np.sin(way), 0], [np.sin(way), np.cos(way), 0], [0, 0, 1]]), np.zeros(3)
        )
        for link, host, at in (("thigh", "trunk", turned), ("shin", f"thigh{k}", scenes.at(x=0.3))):
            body = f"{link}{k}"
            spec.add_body(body, host, hinge, placement=at, inertia=scenes.round_body(0.5, 0.1))
            for j in (1, 2):
                spec.add_shape(body, jd.shapes.Sphere(0.06), name=f"{body}_{j}", placement=scenes.at(x=0.15 * j))
    model = spec.build()
    v = np.zeros(model.nv)
    v[6::2] = np.linspace(1.0, 2.5, 7)  # legs fold below the trunk, where their ends meet
    return model, v


def test_places_within_a_robot_are_one_group_if_they_are_many():
    """... with the motion of a slot for each two limbs, if one touches."""
    model, v = crossed()
    law = jd.contact.Newton()
    (group,) = groups_of(model, law)
    assert len(group.places) > 200 and group.slots == 8 and rows_of(model, law) == 24
    assert set(group.bodies) >= set(range(1, 15))
    few, every = (program(x, 120)(model, model.neutral(), v) for x in (law, jd.contact.Newton(slots=1)))
    touching = at_places(every)[:, :, 0] > 1e-9
    assert touching.any() and touching.sum(1).max() <= 8
    np.testing.assert_allclose(few.v, every.v, rtol=0, atol=1e-7)


def test_places_within_a_robot_share_no_more_slots_than_they_have():
    """Of many robots with few places of their own: they keep the slots of their limbs."""
    spec = jd.ModelSpec("many")
    spec.self_collisions = True
    for n in range(6):
        spec.add_body(f"trunk{n}", "world", jd.joints.Free(), inertia=scenes.round_body(1.0, 0.1))
        for leg in "lr":
            spec.add_body(f"leg{n}{leg}", f"trunk{n}", jd.joints.Revolute(), inertia=scenes.round_body(1.0, 0.1))
            for k in (1, 2):
                spec.add_shape(f"leg{n}{leg}", jd.shapes.Box((0.1, 0.1, 0.1)), name=f"{n}{leg}{k}")
    legs = [(n, k, j) for n in range(6) for k in (1, 2) for j in (1, 2)]
    own = [(f"{n}l{k}", f"{n}r{j}") for n, k, j in legs]
    model = (
        spec.add_ground().build().with_pairs(own + [(f"{n}{s}{k}", "ground") for n, k, _ in legs[::2] for s in "lr"])
    )
    law = jd.contact.Newton()
    assert rows_of(model, law) == 3 * 6 * (4 + 2 * 4) > 200
    with pytest.raises(ValueError, match=r"216 rows.*fewer slots a limb: `jd.contact.Newton\(slots=2\)`"):
        jd.step(model, jd.State(model.neutral(), np.zeros(model.nv)), np.zeros(model.nv), DT, contacts=law)


def test_limbs_share_slots_with_each_other():
    """Places between two robots: those of two limbs are one group."""
    spec = jd.ModelSpec("two", gravity=(0, 0, -9.81))
    for side, x in (("left", -0.2), ("right", 0.2)):
        spec.add_body(side, "world", jd.joints.Free(), inertia=scenes.round_body(1.0, 0.1))
        for k in range(3):
            spec.add_shape(side, jd.shapes.Sphere(0.1), placement=scenes.at(x=-x, z=0.3 * k))
    model = spec.build()
    (group,) = groups_of(model, jd.contact.PGS(slots=2))
    assert group.bodies == (0, 1) and len(group.places) == 9
    q = np.concatenate([scenes.pose(x=-0.301), scenes.pose(x=0.301)])
    v = np.zeros(12)
    v[0], v[6] = 1.0, -1.0
    few, every = (program(jd.contact.PGS(200, slots=n), 5)(model, q, v) for n in (3, 9))
    assert at_places(every)[:, :, 0].max() > 0.01
    np.testing.assert_allclose(few.v, every.v, rtol=0, atol=1e-9)


def test_forces_of_the_step_before_stay_at_their_places():
    """Warm starts change nothing but time, though slots change places."""
    model, q = scenes.armoured(torsion=0.01)
    v = np.zeros(model.nv)
    v[:6] = 0.0, 0.0, -0.2, 0.3, -0.2, 0.5
    warm, cold = (program(FEW, 70, warm_start=w)(model, q, v) for w in (True, False))
    assert (np.diff(np.asarray(warm.contacts.which), axis=0) != 0).any()
    np.testing.assert_allclose(warm.q, cold.q, rtol=0, atol=1e-8)


@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives(reverse):
    """In state, size and friction, where the choice of places does not change and the feet slide."""
    model, q = scenes.armoured(friction=0.2)
    q = np.array(q)
    q[2] = 0.355  # its two feet touch
    v = np.zeros(model.nv)
    v[:3] = 0.5, 0.2, -0.3

    def end(x):
        made = model.replace({"collision.friction": model.collision.friction * (1 + x[0])})
        made = made.replace({"collision.size": model.collision.size * (1 + x[1])})
        state = jd.State(jd.integrate(model, jnp.asarray(q), x[2 : 2 + model.nv]), v + x[2 + model.nv :])
        after = jd.step(made, state, jnp.zeros(model.nv), DT, contacts=FEW)
        return jnp.concatenate([after.q, after.v])

    x = np.zeros(2 + 2 * model.nv)
    rng = np.random.default_rng(0)
    along, across = rng.normal(size=x.shape), rng.normal(size=model.nq + model.nv)
    h, run = 1e-6, jax.jit(end)
    near, far = ((run(x + k * h * along) - run(x - k * h * along)) / (2 * k * h) for k in (1, 2))
    exact = (4 * near - far) / 3
    if reverse:
        grad = jax.jit(jax.grad(lambda x: across @ end(x)))(x)
        np.testing.assert_allclose(grad @ along, across @ exact, rtol=1e-6, atol=1e-6)
    else:
        np.testing.assert_allclose(jax.jit(lambda x: jax.jvp(end, (x,), (along,))[1])(x), exact, rtol=1e-6, atol=1e-6)


def test_both_compilers(robot):
    """The same motion by XLA."""
    model, q = robot
    kernel, xla = (program(FEW, 20)(model.with_compiler(c), q, np.zeros(model.nv)) for c in ("kernel", "xla"))
    np.testing.assert_allclose(kernel.q, xla.q, rtol=0, atol=1e-10)


def test_wrong_numbers():
    for wrong in (0, -1, 2.5, True, "4"):
        with pytest.raises((TypeError, ValueError), match="`slots`"):
            jd.contact.PGS(slots=wrong)


def test_code_does_not_grow_with_vertices(monkeypatch):
    """A mesh more, whose number of vertices no other has, is a few steps more of the same code."""
    monkeypatch.setenv("JAXDYN_EFFORT", "2")

    def size(meshes):
        spec, rng = jd.ModelSpec("studded"), np.random.default_rng(0)
        spec.add_body("base", "world", jd.joints.Free(), inertia=jd.Inertia(1.0, np.zeros(3), 0.1 * np.eye(3)))
        for k in range(meshes):
            points = rng.normal(size=(20 + 4 * k, 3))
            stone = jd.shapes.Mesh(0.1 * points / np.linalg.norm(points, axis=1, keepdims=True))
            spec.add_shape("base", stone, placement=jd.Transform(np.eye(3), rng.normal(size=3)))
        model = spec.add_ground().build()
        rest = jnp.zeros(model.nv)
        step = lambda q: jd.step(model, jd.State(q, rest), rest, DT, contacts=jd.contact.PGS(slots=4))  # noqa: E731
        with kernels.watching() as seen:
            jax.jit(jax.vmap(step)).lower(model.neutral()[None])
        (found,) = seen
        return counts(*found).compiled

    assert size(12) - size(8) < 4 * 400
