"""Contact inverse dynamics: steps with contact are explained by the forces that made them."""

import functools

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import jaxdyn as jd

LAW, DT = jd.contact.ADMM(tol=1e-12, max_steps=2000), 2e-3


def driven(model):
    """The joints of a model that its actuators drive, all but free ones if there are none."""
    rows = np.abs(np.asarray(model.actuation)).sum(1) > 0 if model.actuation.size else np.arange(model.nv) >= 6
    return [n for n in model.joint_names if rows[model.v_slice(n)].any()]


def turning():
    """A ball that lies on rough ground and turns on the spot, with a surface that resists twists."""
    model, q = scenes.balls(friction=0.5, torsion=0.05)
    return model, q


#: scenes, velocities, and whether the forces are the only ones
SCENES = {
    "box slides": (lambda: scenes.box(friction=0.3), [1.0, 0.4], False),
    "leg sticks": (scenes.looped, [], True),
    "leg slides": (lambda: scenes.looped(friction=0.2), [1.0, 0.5, -0.3], True),
    "soft leg slides": (lambda: sunk(scenes.looped(friction=0.2, stiffness=1e4, damping=20.0)), [0.3, 0.2], True),
    "soft leg sticks": (lambda: sunk(scenes.looped(friction=0.9, stiffness=1e4, damping=20.0)), [], True),
    "ball twists": (turning, [0, 0, 0, 0, 0, 3.0], True),
    "quadruped sticks": (scenes.quadruped, [], False),
    "quadruped slides": (lambda: scenes.quadruped(friction=0.2), [1.0, 0.5, -0.3], False),
    "strider lands": (scenes.strider, [0.3, 0.1, -0.1], True),
    "in the air": (scenes.two_links, [0.3, 0.1, -0.1], True),
}


def sunk(made, depth=2e-3):
    return made[0], made[1] - depth * np.eye(made[0].nq)[2]


@functools.cache
def case(name):
    """Model, state, τ, what the step does, and how it is explained."""
    make, v, _ = SCENES[name]
    model, q = make()
    actuated = driven(model)
    mask = np.zeros(model.nv)
    for n in actuated:
        mask[model.v_slice(n)] = 1
    if name.startswith("soft") or name.startswith("leg"):
        actuated = [n for n in actuated if "shin" not in n]  # knees are passive, so that loops carry what one must
        for b in model.body_names:
            if "shin" in b:
                mask[model.v_slice(b)] = 0
    tau = mask * np.random.default_rng(1).normal(size=model.nv)
    state = jd.State(jnp.asarray(q), jnp.zeros(model.nv).at[: len(v)].set(np.asarray(v, float)))
    run = jax.jit(lambda m, s, u: jd.simulate(m, s, u[None], DT, contacts=LAW))
    found = run(model, state, tau)
    explain = jax.jit(lambda m, s, w: jd.contact.explain(m, s, after=w, dt=DT, contacts=LAW, actuated=actuated))
    return model, state, tau, found, explain(model, state, found.v[1]), actuated


@pytest.mark.parametrize("name", SCENES)
def test_steps_are_explained(name):
    model, state, tau, found, told, _ = case(name)
    f, made = np.asarray(told.contacts.impulses), np.asarray(found.contacts.impulses[0])
    force = np.abs(tau).max() + weight(model)
    assert np.abs(told.residual).max() <= 1e-9 * force
    assert told.contacts.residual <= 1e-12 and told.contacts.pairs == found.contacts.pairs
    np.testing.assert_allclose(told.contacts.gaps, found.contacts.gaps[0], rtol=0, atol=1e-15)
    n, t = f[:, 0], np.linalg.norm(f[:, 1:], axis=1)
    mu = np.asarray(model.collision.of_pairs().friction)
    mu = np.repeat(mu, len(n) // len(mu))
    assert n.min() >= 0 and (t <= mu * n * (1 + 1e-9) + 1e-15).all()
    assert np.linalg.norm(f) <= np.linalg.norm(made) * (1 + 1e-6)
    if SCENES[name][2]:
        np.testing.assert_allclose(f, made, rtol=0, atol=1e-9 * np.abs(made).max(initial=1e-3))
        np.testing.assert_allclose(told.tau, tau, rtol=0, atol=1e-9 * force)
        np.testing.assert_allclose(told.contacts.joints, found.contacts.joints[0], rtol=0, atol=1e-9)


def weight(model) -> float:
    """The weight of a model."""
    return float(model.bodies.mass.sum()) * scenes.G


@pytest.mark.parametrize("name", SCENES)
def test_the_forces_found_make_the_step(name):
    model, state, _, found, told, _ = case(name)
    back = jd.step(model, state, told.tau, DT, contacts=LAW)
    np.testing.assert_allclose(back.v, found.v[1], rtol=0, atol=1e-9 * max(1, np.abs(found.v[1]).max()))


def test_scenes_do_what_they_say():
    for name in SCENES:
        model, _, _, _, told, _ = case(name)
        f = np.asarray(told.contacts.impulses)
        n, t = f[:, 0], np.linalg.norm(f[:, 1:], axis=1)
        mu = float(model.collision.of_pairs().friction[0])
        slides = (n > 0) & (t >= 0.999999 * mu * n)
        if "slides" in name:
            assert slides.any(), name
        if "sticks" in name:
            assert (n > 0).any() and not slides.any(), name
    assert np.abs(case("ball twists")[4].contacts.joints).max() > 1e-6
    assert np.abs(case("leg sticks")[4].multipliers).max() > 0.1 < np.abs(case("strider lands")[4].multipliers).max()


def test_what_nothing_explains_is_told():
    """A box that rises faster than contact pushes it, and one that slides without losing speed."""
    model, q = scenes.box(friction=0.3)
    state = jd.State(jnp.asarray(q), jnp.zeros(6))
    up = jd.contact.explain(model, state, np.array([0, 0, 5.0, 0, 0, 0]), dt=DT, contacts=LAW)
    np.testing.assert_allclose(up.residual, [0, 0, 2 * (5 + scenes.G), 0, 0, 0], rtol=0, atol=1e-9)
    assert np.abs(up.contacts.impulses).max() == 0 and np.abs(up.tau).max() == 0
    state = jd.State(jnp.asarray(q), jnp.zeros(6).at[0].set(1.0))
    on = jd.contact.explain(model, state, np.zeros(6), dt=DT, contacts=LAW)
    assert on.residual[0] > 1 and np.asarray(on.contacts.impulses)[:, 0].sum() > 0
    with_motor = jd.contact.explain(model, state, np.zeros(6), dt=DT, contacts=LAW, actuated=model.joint_names)
    assert np.abs(with_motor.residual).max() == 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_loop_in_the_air_is_not_torn(dtype):
    """A motion that nothing explains, of a loop whose joints all have actuators: rounding of its rows is no lever."""
    model, q = scenes.looped()
    model = jax.tree.map(lambda x: x.astype(dtype), model)
    state = jd.State(jnp.asarray(q, dtype).at[2].add(0.1), jnp.zeros(model.nv, dtype))
    told = jd.contact.explain(model, state, jnp.zeros(model.nv, dtype), dt=DT, contacts=LAW)
    assert abs(np.linalg.norm(told.residual[:3]) - weight(model)) <= 1e-3
    assert np.abs(told.multipliers).max() <= (0.1 if dtype == np.float32 else 1e-5)
    assert np.abs(told.tau).max() <= 10


def test_what_slides_is_not_pulled():
    """A ball slides on the ground and keeps its height though more than its weight lifts it."""
    model, q = scenes.balls(friction=0.5)
    state, lift = jd.State(jnp.asarray(q), jnp.zeros(6).at[0].set(1.0)), np.array([[0, 0, 100.0, 0, 0, 0]])
    told = jd.contact.explain(model, state, np.zeros(6), dt=DT, contacts=LAW, external=lift)
    np.testing.assert_allclose(told.residual, [0, 0, scenes.G - 100, 0, 0, 0], rtol=0, atol=1e-9)
    assert np.abs(told.contacts.impulses).max() == 0


def test_friction_of_a_soft_contact_is_within_its_cone():
    """Of a ball that rests on soft ground while more pulls it aside than friction holds."""
    model, q = sunk(scenes.balls(friction=0.5, stiffness=1e4, damping=20.0), 1e-3)
    state, pull = jd.State(jnp.asarray(q), jnp.zeros(6)), np.array([[100.0, 0, 0, 0, 0, 0]])
    told = jd.contact.explain(model, state, np.zeros(6), dt=DT, contacts=LAW, external=pull)
    np.testing.assert_allclose(told.contacts.impulses, [[10 * DT, -5 * DT, 0]], rtol=0, atol=1e-9)


def test_forces_of_a_foot_that_jams():
    """A body that three motors and a tether hold still on one foot, whose force leans towards the body's middle. Alone
    that force would turn the body so that the foot went down: no force at the foot would obey Coulomb's law too."""
    spec = jd.ModelSpec("leaning")
    spec.add_body("trunk", "world", jd.joints.Free(), inertia=scenes.cuboid(1.0, (0.3, 0.3, 0.3)))
    spec.add_body("x", "trunk", jd.joints.Prismatic(axis=scenes.X), inertia=scenes.round_body(0.5, 0.05))
    spec.add_body("z", "x", jd.joints.Prismatic(axis=(0, 0, 1)), inertia=scenes.round_body(0.5, 0.05))
    spec.add_body("wheel", "trunk", jd.joints.Revolute(axis=scenes.Y), inertia=scenes.round_body(0.1, 0.1))
    spec.add_shape("trunk", jd.shapes.Sphere(0.02), placement=scenes.at(0.3, 0, -0.6))
    tether = jd.constraints.Distance("trunk", placement_b=scenes.at(-1.0, 0, 2.0), length=np.hypot(1.0, 1.38))
    spec.add_constraint(tether)
    model = spec.add_ground(friction=1.0).build()
    q, v = np.zeros(model.nq), np.zeros(model.nv)
    q[2:4] = 0.62, 1
    for lean in (-0.9, 0.5):
        push, pull = 20.0 * np.array([lean, 0, 1]), 20.0
        needed = np.concatenate([push, np.cross([0.3, 0, -0.62], push)])  # the foot's lowest point, seen from the trunk
        needed += (oracle.constraint_jacobian(model, q)[0] * pull - oracle.bias_forces(model, q, v))[:6]
        a = np.zeros(model.nv)
        a[6:] = np.linalg.lstsq(oracle.mass_matrix(model, q)[:6, 6:], needed, rcond=None)[0]
        told = jd.contact.explain(model, jd.State(q, v), a, dt=DT, contacts=LAW)
        assert np.abs(told.residual).max() <= 1e-9 * 20
        np.testing.assert_allclose(told.contacts.impulses, [DT * push[[2, 0, 1]]], rtol=0, atol=1e-9)
        np.testing.assert_allclose(told.multipliers, [pull], rtol=1e-9)


def test_forces_of_least_norm():
    """A box at rest: each corner carries a quarter of the weight, as far as rounding lets 1e-8 of G tell so."""
    model, q = scenes.box()
    rest = jd.contact.explain(model, jd.State(jnp.asarray(q), jnp.zeros(6)), np.zeros(6), dt=DT, contacts=LAW)
    wanted = np.zeros((4, 3))
    wanted[:, 0] = 2 * scenes.G * DT / 4
    np.testing.assert_allclose(
        rest.contacts.impulses, wanted, rtol=0, atol=4 * np.finfo(float).eps / 1e-8 * wanted.max()
    )
    assert np.abs(rest.residual).max() <= 1e-12


def test_a_stack_at_rest_in_single_precision():
    """Rounding of gaps does not count as motion."""
    model = scenes.heap(3)
    q = model.neutral()
    for k in range(3):
        q = q.at[7 * k + 2].set(0.1 + 0.2 * k)
    single = jax.tree.map(lambda x: x.astype("float32"), (model, jd.State(q, jnp.zeros(model.nv))))
    told = jd.contact.explain(*single, jnp.zeros(model.nv), dt=DT, contacts=jd.contact.Newton())
    assert np.abs(told.residual).max() < 1e-4 * weight(model)


def grip(mass, **surface):
    """Two fingers on rails, and a box between them."""
    spec = jd.ModelSpec("grip")
    for side, name in ((-1, "left"), (1, "right")):
        slide = jd.joints.Prismatic(axis=(-side, 0, 0))
        spec.add_body(
            name, "world", slide, placement=scenes.at(0.07 * side, 0, 1.0), inertia=scenes.round_body(0.2, 0.02)
        )
        spec.add_shape(name, jd.shapes.Sphere(0.02), **surface)
    spec.add_body("box", "world", jd.joints.Free(), inertia=scenes.cuboid(mass, (0.1, 0.1, 0.1)))
    spec.add_shape("box", jd.shapes.Box((0.1, 0.1, 0.1)), **surface)
    return spec.build()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_fingers_squeeze_as_little_as_friction_allows(dtype):
    """Two fingers hold a box of mass m: each presses with m g / (2 μ). Without force, contacts that cannot open would
    obey Coulomb's law as well."""
    mass = 0.5
    cast = lambda t: jax.tree.map(lambda x: jnp.asarray(x, dtype), t)  # noqa: E731
    model, law = cast(grip(mass)), jd.contact.Newton()
    state = cast(jd.State(model.neutral().at[4].set(1.0), jnp.zeros(8)))

    @jax.jit
    def squeeze(mu, heavier):
        made = model.replace({"bodies.mass": heavier * model.bodies.mass, "collision.friction": jnp.full(3, mu)})
        return jd.contact.explain(made, state, jnp.zeros(8, dtype), dt=DT, contacts=law).tau[:2]

    tol, rough = (1e-6, 1e-5) if dtype == "float64" else (1e-3, 3e-2)  # 1e-8 and 1e-4 of G tell what is least
    for mu in (0.1, 0.5, 2.0):
        wanted = mass * scenes.G / (2 * mu)
        given = cast((mu, 1.0))
        np.testing.assert_allclose(squeeze(*given), [wanted] * 2, rtol=tol)
        for mode in (jax.jacfwd, jax.jacrev):
            by_mu, by_mass = mode(squeeze, (0, 1))(*given)
            np.testing.assert_allclose(by_mu, [-wanted / mu] * 2, rtol=rough)
            np.testing.assert_allclose(by_mass, [wanted] * 2, rtol=rough)


def test_fingers_squeeze_as_little_as_torsion_allows():
    """Two fingers keep a box from turning about their line: each presses with the torque over twice the radius, or
    with what friction needs to carry the box."""
    model, law = grip(0.5, friction=0.5, torsion=0.01), jd.contact.Newton()
    state = jd.State(model.neutral().at[4].set(1.0), jnp.zeros(8))

    @jax.jit
    def squeeze(gravity, torque, radius):
        made = model.replace({"gravity": [0, 0, -gravity], "collision.torsion": jnp.full(3, radius)})
        turned = jnp.zeros((model.nb, 6)).at[-1, 3].set(torque)
        found = jd.contact.explain(made, state, jnp.zeros(8), dt=DT, contacts=law, external=turned)
        return found.tau[:2], jnp.abs(found.residual).max()

    for given in ((0.0, 0.02, 0.01), (scenes.G, 0.2, 0.01), (scenes.G, 0.02, 0.01), (0.0, 0.1, 0.03)):
        gravity, torque, radius = given
        wanted = max(torque / (2 * radius), 0.5 * gravity / (2 * 0.5))
        found, left = squeeze(*given)
        np.testing.assert_allclose(found, [wanted] * 2, rtol=1e-6)
        assert left <= 1e-10
    for mode in (jax.jacfwd, jax.jacrev):
        by_torque, by_radius = mode(lambda *x: squeeze(*x)[0], (1, 2))(0.0, 0.1, 0.03)
        np.testing.assert_allclose(by_torque, [1 / 0.06] * 2, rtol=1e-5)
        np.testing.assert_allclose(by_radius, [-wanted / 0.03] * 2, rtol=1e-5)


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev], ids=["forward", "backward"])
@pytest.mark.parametrize("name", ["leg slides", "quadruped sticks"])
def test_derivatives(name, mode):
    """Of all that is told with respect to the velocity at the end and to masses, where contacts keep doing the same."""
    model, state, _, found, _, actuated = case(name)
    # which forces of several are least is known to 1e-8: the differences are wider
    h, tol = (1e-6, 1e-4) if SCENES[name][2] else (1e-4, 1e-2)

    def told(after, scale):
        made = model.replace({"bodies.mass": scale * model.bodies.mass})
        x = jd.contact.explain(made, state, after=after, dt=DT, contacts=LAW, actuated=actuated, tol=tol)
        return jnp.concatenate([x.tau, x.multipliers, x.contacts.impulses.ravel() / DT, x.residual])

    given = found.v[1], jnp.ones(model.nb)
    J = np.concatenate([np.asarray(x) for x in jax.jit(mode(told, (0, 1)))(*given)], 1)
    flat = np.concatenate([np.asarray(x) for x in given])
    moved = np.concatenate([flat + s * h * np.eye(len(flat)) for s in (1, -1)])
    both = jax.jit(jax.vmap(told))(moved[:, : model.nv], moved[:, model.nv :])
    up, down = np.split(np.asarray(both), 2)
    wanted = ((up - down) / (2 * h)).T
    assert np.abs(J - wanted).max() <= 1e-5 * np.abs(wanted).max()


def test_lanes_and_precision():
    model, state, _, found, told, actuated = case("quadruped slides")
    one = lambda m, q, v, w: jd.contact.explain(  # noqa: E731
        m, jd.State(q, v), after=w, dt=DT, contacts=LAW, actuated=actuated, tol=1e-5
    )
    given = jax.tree.map(lambda x: jnp.stack([x, x]), (state.q, state.v, found.v[1]))
    whole = jax.jit(jax.vmap(one, (None, 0, 0, 0)))(model, *given)
    np.testing.assert_allclose(whole.tau[1], told.tau, rtol=0, atol=1e-9)
    low = jax.tree.map(lambda x: jnp.asarray(x, "float32"), (model, state.q, state.v, found.v[1]))
    single = jax.jit(one)(*low)
    assert single.tau.dtype == jnp.float32
    np.testing.assert_allclose(single.contacts.impulses, told.contacts.impulses, rtol=0, atol=2e-3)


def test_wrong_calls():
    model, q = scenes.box()
    state, a = jd.State(jnp.asarray(q), jnp.zeros(6)), np.zeros(6)
    explain = functools.partial(jd.contact.explain, model, state, dt=DT, contacts=LAW)
    with pytest.raises(ValueError, match=r"`explain`.*either `acceleration` or `after`"):
        explain()
    with pytest.raises(ValueError, match=r"`explain`.*either `acceleration` or `after`"):
        explain(a, after=a)
    with pytest.raises(ValueError, match=r"`explain`.*acceleration.*shape"):
        explain(np.zeros(5))
    with pytest.raises(ValueError, match=r"`explain`.*no joint is called 'knee'"):
        explain(a, actuated=["knee"])
    with pytest.raises(TypeError, match=r"`explain`.*actuated.*names of joints"):
        explain(a, actuated="box")
    for wrong in (3, (n for n in model.joint_names), b"box"):
        with pytest.raises(TypeError, match=r"`explain`.*actuated.*names of joints"):
            explain(a, actuated=wrong)
    for wrong in (-1e-6, np.nan, np.inf):
        with pytest.raises(ValueError, match="`explain`: `tol` is"):
            explain(a, tol=wrong)
    with pytest.raises(TypeError, match=r"`explain`.*contacts.*jd\.contact\.PGS\(\)"):
        jd.contact.explain(model, state, a, dt=DT, contacts="pgs")
    with pytest.raises(ValueError, match=r"`explain`.*dt"):
        jd.contact.explain(model, state, a, dt=-1.0, contacts=LAW)


def test_embedded_models_need_no_names():
    """A joint with a motor: the rotor's velocity is dependent, so it is no velocity of the robot's."""
    spec = jd.ModelSpec("motor")
    spec.add_body("link", "world", jd.joints.Revolute(axis=scenes.Y), inertia=scenes.rod(1.0, 0.3))
    spec.add_shape("link", jd.shapes.Sphere(0.05), placement=scenes.at(z=-0.3))
    spec.add_ground()
    spec.add_rotor("rotor", "world", {"link": 9.0}, inertia=1e-5, axis=scenes.Y)
    model = jd.embed(spec.build())
    state, made = jd.State(model.neutral(), jnp.zeros(1)), {"dt": 1e-3, "contacts": jd.contact.Newton()}
    told = jd.contact.explain(model, state, [2.0], **made)
    np.testing.assert_allclose(told.tau, jd.inverse_dynamics(model, state, [2.0]), atol=1e-9)
    np.testing.assert_array_equal(told.tau, jd.contact.explain(model, state, [2.0], actuated=["link"], **made).tau)
    with pytest.raises(ValueError, match=r"`explain`: `actuated`.*'rotor' depends on that of 'link': name"):
        jd.contact.explain(model, state, [2.0], actuated=["rotor"], **made)
