"""Steps with contact that are projected: loops are closed and what touches does not overlap, at no cost of energy."""

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_contact_derivatives import ARGUMENTS, CASES, DT, LAW, LEAVES, NUMBERS, arguments
from test_contact_oracle import lying, states

import jaxdyn as jd
from jaxdyn.simulate.step import projected

G = scenes.G


def motion(made, v=None, *, steps, dt=1e-3, dtype="float64", law=jd.contact.Auto(), project=True, stiff=None):  # noqa: B008 - static
    """A trajectory; `stiff` are the stiffness and damping that hold joints where they start."""
    model, q = made
    if stiff is not None:
        held = lambda x: np.concatenate([np.zeros(6), np.full(model.nv - 6, x)])  # noqa: E731
        rest = np.concatenate([np.asarray(model.joints.rest)[:7], q[7:]])
        gains = {"joints.stiffness": held(stiff[0]), "joints.damping": held(stiff[1])}
        model = model.replace(gains | {"joints.rest": rest})
    v = np.zeros(model.nv) if v is None else v
    model, q, v = jax.tree.map(lambda x: jnp.asarray(x, dtype), (model, q, v))
    run = lambda m, q, v: jd.simulate(  # noqa: E731
        m, jd.State(q, v), jnp.zeros((steps, m.nv), q.dtype), dt, contacts=law, project=project
    )
    return model, jax.jit(run)(model, q, v)


def opening(model, found):
    """How far loops are open, in m and m/s, at every time."""

    def one(q, v):
        rates = jd.constraint_jacobian(model, q) @ v
        return jnp.abs(jd.constraint_residual(model, q)).max(), jnp.abs(rates).max()

    return [np.asarray(x) for x in jax.jit(jax.vmap(one))(found.q[1:], found.v[1:])]


def stool(friction=0.6):
    """A trunk on three legs that are closed loops: two thighs each, whose shins a ball joint ties at the foot."""
    spec = jd.ModelSpec("stool", gravity=(0, 0, -G))
    spec.add_body("trunk", "world", jd.joints.Free(), inertia=scenes.cuboid(3.0, (0.3, 0.3, 0.1)))
    for k, (x, y) in enumerate([(0.2, 0.0), (-0.1, 0.17), (-0.1, -0.17)]):
        for side, s in (("a", 1), ("b", -1)):
            hinge = jd.joints.Revolute(axis=scenes.Y)
            place = scenes.at(x + 0.1 * s, y)
            spec.add_body(f"thigh{k}{side}", "trunk", hinge, placement=place, inertia=scenes.rod(0.5, 0.2))
            low = scenes.at(z=-0.2)
            spec.add_body(f"shin{k}{side}", f"thigh{k}{side}", hinge, placement=low, inertia=scenes.rod(0.3, 0.25))
        end = scenes.at(z=-0.25)
        spec.add_constraint(jd.constraints.Point(f"shin{k}a", f"shin{k}b", placement_a=end, placement_b=end))
        spec.add_shape(f"shin{k}a", jd.shapes.Sphere(0.03), name=f"foot{k}", placement=end, friction=friction)
    spec.add_ground(friction=friction)
    _, leg = scenes.looped()
    return spec.build(), np.concatenate([leg[:7], *[leg[7:]] * 3])


@pytest.mark.parametrize(("dtype", "closed"), [("float64", 1e-9), ("float32", 2e-6)])
def test_loops_are_closed_and_nothing_overlaps_while_a_leg_collapses(dtype, closed):
    """A leg lands and folds at 40 rad/s: without projection its loop opens by more than a millimetre."""
    made = scenes.looped(friction=0.3)
    start = made[0], made[1] + 0.01 * np.eye(made[0].nq)[2]
    v = np.concatenate([[0.5, 0.2, -0.3], np.zeros(7)])
    model, found = motion(start, v, steps=400, dtype=dtype)
    _, loose = motion(start, v, steps=400, dtype=dtype, project=False)
    assert opening(model, loose)[0].max() > 1e-3 and loose.contacts.gaps.min() < -1e-4
    gap, speed = opening(model, found)
    assert gap.max() <= closed and speed.max() <= 5 * closed
    assert found.contacts.gaps[1:].min() >= -closed / 10
    assert (found.contacts.impulses[:, 0, 0] > 0).sum() > 200 and np.abs(found.v).max() > 20
    assert (found.result == jd.Result.successful).all()


@pytest.mark.parametrize(("dtype", "closed"), [("float64", 1e-9), ("float32", 2e-6)])
def test_a_biped_falls_with_its_loops_closed(dtype, closed):
    """Four seconds of the shipped one, whose joints are springs: rods without inertia about their axes, redundant
    rows, and a millimetre that its feet are deep at the start."""
    model, found = motion(scenes.strider(), steps=4000, dtype=dtype, stiff=(1000.0, 20.0))
    assert found.contacts.gaps[0].min() < -9e-4
    gap, speed = opening(model, found)
    assert gap.max() <= closed and speed.max() <= 10 * closed
    assert found.contacts.gaps[1:].min() >= -closed / 4
    assert (found.result == jd.Result.successful).all()


def test_what_pushes_stays_where_it_touches():
    """A quadruped is lowered on its feet by springs: without projection a foot that turns comes off by micrometres."""
    made = scenes.quadruped()
    pushed = lambda found: np.asarray(found.contacts.gaps[1:])[np.asarray(found.contacts.impulses[:-1, :, 0]) > 0]  # noqa: E731
    _, found = motion(made, steps=1000, dt=2e-3, stiff=(30.0, 1.0))
    _, loose = motion(made, steps=1000, dt=2e-3, stiff=(30.0, 1.0), project=False)
    assert (np.asarray(found.contacts.impulses[..., 0]) > 0).mean() > 0.95
    assert np.abs(pushed(found)).max() <= 1e-12 and np.abs(pushed(loose)).max() > 1e-7


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_box_on_a_slope_creeps_not(dtype):
    angle = np.arctan(0.5) - 1e-3
    _, found = motion(scenes.box(slope=angle), steps=2000, dt=2e-3, dtype=dtype)
    way = np.linalg.norm(np.asarray(found.q[-1] - found.q[500], float)[:3])
    assert way <= (1e-12 if dtype == "float64" else 1e-6), way
    assert np.asarray(found.contacts.impulses[500:, :, 0]).min() > 0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_stool_stands_on_loops(dtype):
    """The ground carries the weight, loops that carry it stay closed, and feet stand still. In single precision they
    slip by at most 2.5e-6 m/s: stabilisation of loops that are open by less than a digit of q is a velocity that moves
    the trunk, whose coordinates are small, but no leg. With other springs or dampers it is as much."""

    def creeps(project):
        model, found = motion(stool(), steps=4000, dt=2e-3, dtype=dtype, stiff=(80.0, 4.0), project=project)
        feet = lambda q: jnp.stack([jd.frame_pose(model, q, f"shin{k}a").translation for k in range(3)])  # noqa: E731
        places = jax.vmap(feet)(found.q[jnp.array([2000, 3000, 4000])])
        return model, found, np.ptp(np.asarray(places, float), axis=0).max()

    for project in (False, True):
        model, found, way = creeps(project)
        assert way <= (1e-9 if dtype == "float64" else 2.5e-6 * 4.0), project
    assert opening(model, found)[0].max() <= (1e-12 if dtype == "float64" else 2e-6)
    weight = float(model.bodies.mass.sum()) * G
    push = np.asarray(found.contacts.impulses[3000:, :, 0], float).sum(1) / 2e-3
    # corrections of the last digit of q, 3e-8 m, are 1e-3 of gravity's in a step
    np.testing.assert_allclose(push, weight, rtol=1e-6 if dtype == "float64" else 2e-3)
    np.testing.assert_allclose(push.mean(), weight, rtol=1e-4)


def test_overlaps_go_in_one_step_without_speed():
    model, q = scenes.box()
    _, found = motion((model, q - 0.05 * np.eye(7)[2]), steps=3, dt=2e-3)
    assert np.abs(found.contacts.gaps[1:]).max() <= 1e-12 and np.abs(found.v).max() <= 1e-12


def test_what_bounces_may_leave_and_soft_surfaces_keep_their_overlap():
    made = scenes.balls(restitution=0.8)
    high = made[0], made[1] + 0.3 * np.eye(7)[2]
    ends = [motion(high, steps=600, project=p)[1] for p in (True, False)]
    np.testing.assert_allclose(ends[0].q, ends[1].q, rtol=0, atol=1e-9)
    assert np.asarray(ends[0].v[:, 2]).max() > 1.5
    soft = scenes.balls(stiffness=1e4, damping=50.0)
    ends = [motion(soft, steps=600, project=p)[1] for p in (True, False)]
    np.testing.assert_allclose(ends[0].q, ends[1].q, rtol=0, atol=1e-12)
    assert ends[0].contacts.gaps[-1, 0] == pytest.approx(-G / 1e4, rel=1e-6)


def test_limits_of_joints_are_not_passed():
    """A leg whose foot hangs in the air swings into a limit of its knee."""
    spec = jd.ModelSpec("leg", gravity=(0, 0, -G))
    hinge = jd.joints.Revolute(axis=scenes.Y)
    spec.add_body("thigh", "world", hinge, inertia=scenes.rod(1.0, 0.4))
    knee = jd.joints.Revolute(axis=scenes.Y, limits=(-0.5, 0.5))
    spec.add_body("shin", "thigh", knee, placement=scenes.at(z=-0.4), inertia=scenes.rod(0.5, 0.4))
    model = spec.build()
    _, found = motion((model, np.array([2.0, 0.3])), steps=2000, law=jd.contact.Auto(recovery=0.0))
    q, push = np.asarray(found.q[1:, 1]), np.asarray(found.contacts.joints[:, 0])
    assert np.abs(q).max() <= 0.5 + 1e-12 and (push > 0).sum() > 20
    assert np.abs(np.abs(q[:-1]) - 0.5)[(push[:-1] > 0) & (push[1:] > 0)].max() <= 1e-12


def test_without_contact_it_is_the_projection_of_loops():
    """A four-bar above the ground moves as without the law, and so does a leg in the air but for its step."""
    spec = jd.ModelSpec("four_bar", gravity=(0, 0, -G))
    hinge = jd.joints.Revolute(axis=scenes.Y)
    spec.add_body("crank", "world", hinge, placement=scenes.at(z=2.0), inertia=scenes.rod(1.0, 0.3))
    spec.add_body("coupler", "crank", hinge, placement=scenes.at(z=-0.3), inertia=scenes.rod(1.0, 0.5))
    spec.add_body("rocker", "world", hinge, placement=scenes.at(0.4, z=2.0), inertia=scenes.rod(1.0, 0.4))
    ends = {"placement_a": scenes.at(z=-0.5), "placement_b": scenes.at(z=-0.4)}
    spec.add_constraint(jd.constraints.Point("coupler", "rocker", **ends))
    spec.add_shape("coupler", jd.shapes.Sphere(0.02)).add_ground()
    model = spec.build()
    q = np.asarray(jd.assemble(model, np.array([0.3, -1.5, 0.2])))
    v = np.asarray(jd.impulse(model, jd.State(q, np.array([4.0, 0.0, 0.0]))).velocity)
    ends = [motion((model, q), v, steps=300, law=law)[1] for law in (jd.contact.Auto(), None)]
    np.testing.assert_allclose(ends[0].q, ends[1].q, rtol=0, atol=1e-10)
    np.testing.assert_allclose(ends[0].v, ends[1].v, rtol=0, atol=1e-9)
    assert np.abs(ends[0].v).max() > 2
    model, q = scenes.looped()
    high = q + np.eye(model.nq)[2]
    rng = np.random.default_rng(3)
    state, tau = jd.State(high, np.asarray(rng.normal(size=model.nv))), rng.normal(size=model.nv)
    state = jd.State(high, jd.impulse(model, state).velocity)
    loose, end = (jd.step(model, state, tau, 4e-3, contacts=jd.contact.Auto(), project=p) for p in (False, True))
    alone = projected(model, loose, model.constraints, jd.solvers.LCABA())
    np.testing.assert_allclose(end.q, alone.q, rtol=0, atol=1e-13)
    np.testing.assert_allclose(end.v, alone.v, rtol=0, atol=1e-11)
    assert np.abs(end.q - loose.q).max() > 1e-6


@pytest.mark.parametrize("name", ["two_links", "looped"])
def test_the_velocity_loses_energy(name):
    """Of random states on and in the ground: at the place where the step ends. Without loops it is that of the step."""
    made = lying(scenes.two_links()) if name == "two_links" else scenes.looped()
    model = made[0]
    q, v, tau = states(model, made[1], 40, seed=5)

    def one(q, v, tau):
        law = jd.contact.Auto(recovery=0.0)
        loose, end = (jd.step(model, jd.State(q, v), tau, 4e-3, contacts=law, project=p) for p in (False, True))
        return tuple(jd.kinetic_energy(model, jd.State(end.q, v)) for v in (loose.v, end.v))

    before, after = (np.asarray(x) for x in jax.jit(jax.vmap(one))(q, v, tau))
    assert (after <= before * (1 + 1e-7)).all()
    assert (after < before * (1 - 1e-6)).mean() > 0.2 if model.constraints else (after == before).all()


@pytest.mark.parametrize("place", np.linspace(0, 1, 5))
def test_an_impact_keeps_its_friction_and_its_impulses(place):
    """A ball that cannot turn lands at any fraction of a step, and so does a slider at its limit: the impulses of all
    steps are the change of momentum, and friction acts on the whole of it."""
    spec = jd.ModelSpec("landing", gravity=(0, 0, 0))
    spec.add_body("ball", "world", jd.joints.Translation(), inertia=scenes.round_body(1.3, 0.1))
    spec.add_shape("ball", jd.shapes.Sphere(0.1), friction=0.3)
    slider = jd.joints.Prismatic(axis=scenes.X, limits=(-1.0, 1.0))
    spec.add_body("slider", "world", slider, inertia=scenes.round_body(2.0, 0.1))
    model = spec.add_ground(friction=0.3).build()
    h, dt = 2 * 2e-3 * (3 + place), 2e-3
    start = jd.State(np.array([0, 0, 0.1 + h, 1 - h]), np.array([3.0, 0, -2.0, 2.0]))
    for project in (False, True):
        ends = jd.simulate(model, start, jnp.zeros((8, 4)), dt, contacts=jd.contact.Auto(), project=project)
        np.testing.assert_allclose(ends.v[-1], [3 - 0.3 * 2, 0, 0, 0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(ends.contacts.impulses.sum((0, 1)), [1.3 * 2, -1.3 * 0.6, 0], rtol=0, atol=1e-9)
        np.testing.assert_allclose(ends.contacts.joints.sum(), 4.0, rtol=0, atol=1e-9)
        assert np.asarray(ends.q)[:, 2].min() > 0.1 - 1e-9 and np.asarray(ends.q)[:, 3].max() < 1 + 1e-9


@pytest.mark.parametrize("project", [False, True])
def test_the_force_at_a_foot_that_turns(project):
    """A rod slides on its lower end and falls: the force is that of the equations of motion on paper, where it depends
    on the rate at which the rod turns."""
    mass, half, dt = 1.3, 0.25, 1e-4
    rod = scenes.rod(mass, 2 * half)
    spec = jd.ModelSpec("rod", gravity=(0, 0, -G))
    spec.add_body("rod", "world", jd.joints.Planar(axis=scenes.Y), inertia=rod)
    spec.add_shape("rod", jd.shapes.Sphere(0.02), placement=scenes.at(z=-2 * half), friction=0.0)
    model = spec.add_ground(friction=0.0).build()
    q = np.array([0.0, -0.02 - 2 * half * np.cos(0.3), 0.3])  # along x, downwards, and the angle
    v = np.array([0.0, 2 * half * np.sin(0.3) * 4.0, 4.0])
    ends = jd.simulate(model, jd.State(q, v), jnp.zeros((400, 3)), dt, contacts=jd.contact.Auto(), project=project)
    angle, rate = np.asarray(ends.q)[1:-1, 2], np.asarray(ends.v)[1:-1, 2]
    inertia = float(rod.rotational[1, 1]) + 0 * angle
    wanted = mass * (G - half * rate**2 * np.cos(angle)) / (1 + mass * (half * np.sin(angle)) ** 2 / inertia)
    assert rate[-1] > 4.05
    found = np.asarray(ends.contacts.impulses)[1:, 0, 0] / dt
    np.testing.assert_allclose(found[2:], wanted[2:], rtol=2e-3)  # the first steps still learn how the foot turns


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev], ids=["forward", "backward"])
@pytest.mark.parametrize("name", ["looped sticks", "looped slides", "looped bounces", "quadruped turns up", "balls"])
def test_derivatives(name, mode):
    """With respect to state, forces, dt and numbers of the model, against central differences."""
    model, start, given = arguments(name)

    def after(dv, v, tau, dt, *numbers):
        made = model.replace(dict(zip(LEAVES, numbers, strict=True)))
        q = jd.integrate(made, start, dv, 1.0)
        end = jd.step(made, jd.State(q, v), tau, dt, contacts=LAW, project=True)
        return jnp.concatenate([end.v, jd.difference(made, start, end.q)])

    places = tuple(k - 2 for k in NUMBERS)
    found = jax.jit(mode(after, places))(*given)
    sizes, flat, h = [x.size for x in given], np.concatenate([np.ravel(x) for x in given]), 1e-6

    def along(x):
        parts = np.split(np.arange(len(flat)), np.cumsum(sizes)[:-1])
        return after(*(x[k].reshape(g.shape) for k, g in zip(parts, given, strict=True)))

    moved = np.concatenate([flat + s * h * np.eye(len(flat)) for s in (1, -1)])
    up, down = np.split(np.asarray(jax.jit(jax.vmap(along))(moved)), 2)
    wanted = ((up - down) / (2 * h)).T
    found = np.concatenate([np.asarray(x).reshape(len(wanted), -1) for x in found], 1)
    rigid = np.concatenate(
        [np.full(g.size, n == "collision.restitution") for n, g in zip(ARGUMENTS, given, strict=True)]
    )
    smooth = ~rigid | (flat > 0)  # what does not bounce begins to at zero
    assert np.abs(found - wanted)[:, smooth].max() <= 1e-6 * max(1, np.abs(wanted[:, smooth]).max())


def test_lanes_and_precision():
    """A batch gives what single states do, in single precision nearly what in double."""
    case = CASES["looped slides"]()
    model, q = case.made
    one = lambda m, q, v: jd.simulate(  # noqa: E731
        m, jd.State(q, v), jnp.zeros((2, m.nv), q.dtype), DT, contacts=jd.contact.PGS(), project=True
    )
    rng = np.random.default_rng(0)
    v = case.v + 0.1 * rng.normal(size=(5, model.nv))
    whole = jax.jit(jax.vmap(one, (None, None, 0)))(model, q, v)
    alone = [jax.jit(one)(model, q, x) for x in v]
    np.testing.assert_array_equal(whole.q, np.stack([x.q for x in alone]))
    np.testing.assert_array_equal(whole.v, np.stack([x.v for x in alone]))
    low = jax.tree.map(lambda x: jnp.asarray(x, "float32"), (model, q, v))
    single = jax.jit(jax.vmap(one, (None, None, 0)))(*low)
    assert single.q.dtype == jnp.float32
    np.testing.assert_allclose(single.v, whole.v, rtol=0, atol=2e-4 * np.abs(whole.v).max())
