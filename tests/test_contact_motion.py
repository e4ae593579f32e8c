"""Motions with contact whose course is known: what sticks, slides, stands, bounces and collides."""

import functools
import math

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest

import jaxdyn as jd

DT = 2e-3


@functools.cache
def program(steps, law, gains=None):
    """(model, q, v, dt) to a trajectory, under a PD policy with such gains about the start."""

    def run(model, q, v, dt):
        def policy(state, t):
            if gains is None:
                return jnp.zeros_like(state.v)
            force = gains[0] * (q[7:] - state.q[7:]) - gains[1] * state.v[6:]
            return jnp.concatenate([jnp.zeros_like(state.v[:6]), force])

        return jd.simulate(model, jd.State(q, v), policy, dt, steps=steps, contacts=law)

    return jax.jit(run)


def motion(made, v=None, *, steps, dtype="float32", dt=DT, law=jd.contact.PGS(), gains=None):  # noqa: B008 - static
    model, q = made
    v = np.zeros(model.nv) if v is None else v
    model, q, v, dt = jax.tree.map(lambda x: jnp.asarray(x, dtype), (model, q, v, dt))
    return program(steps, law, gains)(model, q, v, dt)


def ended(found) -> set:
    """The ways in which steps ended."""
    results = jd.Result.successful, jd.Result.contact_not_converged
    codes = np.asarray(found.result == results[0]), np.asarray(found.result == results[1])
    assert (codes[0] | codes[1]).all()
    return {r for r, code in zip(("successful", "contact_not_converged"), codes, strict=True) if code.any()}


@pytest.mark.parametrize("friction", [0.2, 0.5, 0.8])
def test_a_box_on_a_slope_creeps_not(friction):
    """A thousandth of a radian below the angle of friction; from the first step on if the law may take its time."""
    slope = math.atan(friction) - 1e-3
    for law, first in ((jd.contact.PGS(), 250), (jd.contact.PGS(sweeps=500), 0)):
        found = motion(scenes.box(slope=slope, friction=friction), steps=500, law=law)
        way = np.asarray(found.q[-1, :3] - found.q[first, :3], float)
        assert np.linalg.norm(way) <= 1e-7 * DT * (500 - first)
        along = np.array([math.cos(slope), 0])  # velocities are in the box's axes
        assert np.abs(np.asarray(found.v[250:, :2], float) @ along).max() <= 1e-6


@pytest.mark.parametrize("friction", [0.2, 0.5, 0.8])
def test_a_box_on_a_slope_slides_at_the_right_rate(friction):
    """A thousandth of a radian above the angle of friction."""
    slope = math.atan(friction) + 1e-3
    wanted = scenes.G * (math.sin(slope) - friction * math.cos(slope))
    for law, first in ((jd.contact.PGS(), 250), (jd.contact.PGS(sweeps=500), 0)):
        found = motion(scenes.box(slope=slope, friction=friction), steps=500, law=law)
        rate = float(found.v[-1, 0] - found.v[first, 0]) / (DT * (500 - first))
        assert rate == pytest.approx(wanted, rel=1e-3)


def test_a_box_without_friction_slides_as_if_it_fell():
    found = motion(scenes.box(slope=0.3, friction=0.0), steps=100, dtype="float64")
    np.testing.assert_allclose(found.v[-1, 0], 100 * DT * scenes.G * math.sin(0.3), rtol=1e-12)
    assert not np.abs(found.contacts.impulses[..., 1:]).any()


GAINS = 200.0, 5.0


@functools.cache
def standing():
    return motion(scenes.quadruped(), steps=5000, gains=GAINS)


def test_a_quadruped_stands_for_ten_seconds():
    """Once it has settled, feet slip less than a micrometre a second, and the ground carries the weight."""
    model, _ = scenes.quadruped()
    found = standing()
    assert ended(found) == {"successful"}
    assert found.contacts.gaps.min() >= -1e-5
    slip = np.linalg.norm(sliding(model, found.q[1000::50], found.v[1000::50]), axis=-1)
    assert slip.max() <= 1e-6
    push = np.asarray(found.contacts.impulses[1000:, :, 0], float).sum(1) / DT
    weight = float(model.bodies.mass.sum()) * scenes.G
    np.testing.assert_allclose(push, weight, rtol=1e-4)
    assert np.asarray(found.contacts.impulses[1000:, :, 0]).min() > 0


def sliding(model, q, v):
    """Velocities (T, feet, 2) across the ground of the points of the feet that touch it."""

    def one(q, v):
        twists = [jd.jacobian(model, q, f"toe{k}", reference="world_aligned") @ v for k in range(4)]
        return jnp.stack([t[:3] + jnp.cross(t[3:], jnp.array([0, 0, -0.02])) for t in twists])[:, :2]

    return jax.jit(jax.vmap(one))(*(jnp.asarray(x, float) for x in (q, v)))


def test_a_quadruped_rests_in_double_precision():
    """Where single precision loses increments of angles that are less than their last digit, double precision rests."""
    model, _ = scenes.quadruped()
    found = motion(scenes.quadruped(), steps=5000, gains=GAINS, dtype="float64")
    assert np.abs(np.asarray(found.v[2500:])).max() < 1e-9
    assert found.contacts.gaps.min() >= -1e-12
    assert np.abs(np.asarray(found.q[-1] - found.q[2500])).max() < 1e-10


@pytest.mark.slow
def test_a_stack_of_ten_boxes_stands_for_ten_seconds():
    """Few sweeps find forces that make boxes tremble, which the result tells; yet all stay on top of each other."""
    size = 0.2
    found = motion(scenes.stack(10), steps=5000)
    assert "contact_not_converged" in ended(found)
    q = np.asarray(found.q, float).reshape(-1, 10, 7)
    assert np.abs(q[:, :, :2]).max() < 0.1 * size
    assert np.abs(q[:, :, 2] - q[:1, :, 2]).max() < 0.01 * size


@pytest.mark.slow
def test_a_house_of_cards_stands():
    found = motion(scenes.cards(), steps=1000, dtype="float64")
    q = np.asarray(found.q)
    assert np.abs(q - q[0]).max() < 1e-4
    assert found.contacts.gaps.min() > -1e-5
    weight = 5 * 0.1 * scenes.G
    np.testing.assert_allclose(found.contacts.impulses[-1, :16, 0].sum() / DT, weight, rtol=1e-3)


@pytest.mark.slow
def test_a_house_of_slippery_cards_falls():
    """The same program with less friction: what stands, stands by friction."""
    found = motion(scenes.cards(friction=0.1), steps=1000, dtype="float64")
    assert np.asarray(found.q[-1]).reshape(5, 7)[4, 2] < 0.5 * np.asarray(found.q[0]).reshape(5, 7)[4, 2]


def test_a_ball_bounces_as_high_as_restitution_tells():
    """Four times, from a metre on."""
    model, q = scenes.balls(1, radius=0.05, restitution=0.8)
    found = motion((model, q + np.array([0, 0, 1, 0, 0, 0, 0.0])), steps=2800, dt=1e-3, dtype="float64")
    height = np.asarray(found.q[:, 2]) - 0.05
    tops = [height[k] for k in range(1, 2800) if height[k - 1] <= height[k] > height[k + 1]]
    np.testing.assert_allclose(tops[:4], 0.64 ** np.arange(1, 5), rtol=0.01)


def test_slow_impacts_do_not_bounce():
    model, q = scenes.balls(1, radius=0.05, restitution=0.8)
    v = np.array([0, 0, -0.02, 0, 0, 0.0])
    found = motion((model, q), v, steps=5, dtype="float64")
    assert np.abs(found.v[1:, 2]).max() < 1e-14


@pytest.mark.parametrize("restitution", [0.0, 0.6, 1.0])
def test_momentum_of_balls_that_collide_is_kept(restitution):
    """Linear and angular, with friction and spin; a head-on impact keeps e of the speed."""
    made = scenes.balls(2, ground=False, gravity=0.0, restitution=restitution, friction=0.3)
    v = np.array([1.0, 0.2, 0.1, 0.5, -2.0, 4.0, -0.3, 0.1, 0, 1, 2, 3])
    found = motion(made, v, steps=100, dtype="float64")
    assert np.asarray(found.contacts.impulses[..., 0]).max() > 0.1
    q, v = np.asarray(found.q), np.asarray(found.v)
    p = [momentum(made[0], *x) for x in zip(q[::10], v[::10], strict=True)]
    np.testing.assert_allclose(p, np.broadcast_to(p[0], (11, 6)), rtol=0, atol=1e-14 * 20)
    found = motion(made, np.eye(12)[0], steps=100, dtype="float64")
    np.testing.assert_allclose(found.v[-1, [0, 6]], [(1 - restitution) / 2, (1 + restitution) / 2], atol=1e-14)


def momentum(model, q, v):
    """Linear momentum, and angular about the world's origin (6,)."""
    p = oracle.centroidal_momentum(model, q, v)
    return np.concatenate([p[:3], p[3:] + np.cross(oracle.center_of_mass(model, q), p[:3])])


def test_a_pendulum_stops_at_a_wall():
    """And comes back from it, if it is elastic."""
    for restitution in (0.0, 0.5):
        model, q = scenes.pendulum(restitution=restitution)
        found = motion((model, q), np.array([-3.0]), steps=400, dtype="float64")
        touched = np.flatnonzero(np.asarray(found.contacts.impulses[:, 0, 0]) > 0)[0]
        before, after = np.asarray(found.v[touched : touched + 2, 0])
        assert found.contacts.gaps.min() > -1e-5
        if restitution:
            fall = scenes.G * DT * 2  # gravity within the step
            assert after == pytest.approx(-restitution * before, abs=fall)
        else:
            assert abs(after) < abs(before) and np.abs(found.v[touched + 2, 0]) < 0.2 * abs(before)


@pytest.mark.parametrize("law", [jd.contact.PGS(), jd.contact.Auto(), jd.contact.ADMM()])
def test_a_rod_through_a_plate_comes_out(law):
    """The lower end of its axis is in the upper half of the plate, in the lower half, or beyond."""
    for end in (0.01, -0.001, -0.02, -0.06):
        found = motion(scenes.rod_in_a_plate(end), steps=500, law=law)
        assert ended(found) == {"successful"}
        assert found.contacts.impulses.max() < 3, "shot out by a force of many weights"
        assert abs(found.q[-1, 2] - 0.045) < 1e-4 and abs(found.v[-1]).max() < 1e-2, "it lies on the plate"


def test_loops_stay_closed_while_a_leg_lands():
    """In single precision, through the impact and what slides after it."""
    model, q = scenes.looped(friction=0.3)
    v = np.zeros(model.nv)
    v[:3] = 0.5, 0.2, -0.3
    found = motion((model, q + 0.01 * np.eye(model.nq)[2]), v, steps=250, dt=1e-3, gains=(50.0, 1.0))
    q = jnp.asarray(found.q[1:], float)
    open_by = np.abs(jax.jit(jax.vmap(lambda q: jd.constraint_residual(model, q)))(q)).max()
    assert open_by <= 2e-5, open_by
    push = np.asarray(found.contacts.impulses[:, 0])
    assert (push[:, 0] > 0).sum() > 50 and found.contacts.gaps.min() > -1e-4
    assert ended(found) == {"successful"}


@pytest.mark.parametrize("turn", [(0.0, 2.0, 0.0), (0.29, 0.0, 2.0)])
def test_limits_of_ball_joints_hold_far_from_neutral(turn):
    """They bound the components of the rotation vector, whose rates are not the angular velocity."""
    spec = jd.ModelSpec("ball", gravity=(0, 0, 0))
    joint = jd.joints.Spherical(limits=((-0.3, -3, -3), (0.3, 3, 3)))
    spec.add_body("ball", "world", joint, inertia=jd.Inertia(1.0, (0, 0, 0), 0.1 * np.eye(3)))
    model = spec.build()
    start = jd.integrate(model, model.neutral(), np.array(turn))
    made = motion((model, start), np.array([0.0, 2.0, 1.0]), steps=200, dtype="float64", law=jd.contact.Auto())
    turned = jax.vmap(lambda q: jd.difference(model, model.neutral(), q))(made.q)[:, 0]
    assert 0.299 < np.abs(turned).max() < 0.3 + 1e-5  # of second order in the time step
    energy = np.square(made.v).sum(1)
    assert energy[-1] < 0.9 * energy[0] and np.diff(energy).max() < 1e-9 * energy[0]


def braked(lower: float):
    """A box on the ground with an arm, whose first joint has a brake at zero, and limits from `lower` on."""
    spec = jd.ModelSpec("braked")
    spec.add_body("trunk", "world", jd.joints.Free(), inertia=jd.Inertia.box(4.0, (0.4, 0.2, 0.1)))
    spec.add_shape("trunk", jd.shapes.Box((0.4, 0.2, 0.1)), friction=0.6)
    parent, place = "trunk", (0.1, 0.0, 0.05)
    for name, limits, mass in (("arm", (lower, 1.0), 1.0), ("fore", (-1.0, 1.0), 0.5)):
        joint = jd.joints.Revolute(axis=(0, 1, 0), name=name, limits=limits, friction=0.1)
        inertia = jd.Inertia(mass, (0.1, 0, 0.2 * mass), 1e-2 * np.eye(3))
        spec.add_body(name, parent, joint, placement=jd.Transform(np.eye(3), place), inertia=inertia)
        parent, place = name, (0.0, 0.0, 0.3)
    spec.add_constraint(jd.constraints.Lock("arm", position=[0.0]))
    model = spec.add_ground(friction=0.6).build()
    return model, model.neutral().at[2].set(0.05)


@pytest.mark.parametrize("law", [jd.contact.Auto(), jd.contact.PGS(), jd.contact.ADMM(matrix_free=True)], ids=repr)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_joint_that_is_held_at_its_limit_moves_like_one_held_within(law, dtype):
    """No force moves it, so its limit and its friction bear none."""
    found, wanted = (motion(braked(lower), steps=200, dtype=dtype, law=law) for lower in (0.0, -1.0))
    assert ended(found) == ended(wanted) and "successful" in ended(found)
    assert dtype == "float32" and isinstance(law, jd.contact.ADMM) or ended(found) == {"successful"}
    assert abs(wanted.v[:, -1]).max() > 1, "the other joint falls, and stops at its limit"
    close = {"rtol": 0, "atol": 2e-4 if dtype == "float32" else 1e-9}
    np.testing.assert_allclose(found.q, wanted.q, **close)
    np.testing.assert_allclose(found.contacts.impulses, wanted.contacts.impulses, **close)
    assert abs(found.q[:, 7]).max() < 1e-6


def test_derivatives_of_a_robot_with_a_joint_held_at_its_limit():
    slopes = []
    for lower in (0.0, -1.0):
        model, q = braked(lower)

        def end(tau, model=model, q=q):
            state = jd.State(q, jnp.zeros(model.nv))
            return jd.simulate(model, state, jnp.tile(tau, (10, 1)), DT, contacts=jd.contact.Auto()).v[-1]

        slopes.append(jax.jit(jax.jacrev(end))(jnp.zeros(model.nv).at[-1].set(0.3)))
    np.testing.assert_allclose(*slopes, atol=1e-9)
    assert np.abs(slopes[0][-1]).max() > 0.1


def test_a_joint_held_beyond_its_limit_is_told():
    model, q = braked(0.01)
    found = motion((model, q), steps=5, dtype="float64", law=jd.contact.Auto())
    assert ended(found) == {"contact_not_converged"} and abs(found.v).max() < 1


def test_a_stiffness_of_zero_bears_nothing():
    """Which only a program can bring about, such as an optimiser: free fall, and the law holds."""
    model, q = scenes.balls(stiffness=1e3)
    start = jd.State(jnp.asarray(q).at[2].add(-1e-3), jnp.zeros(model.nv))

    @jax.jit
    def fall(stiffness):
        soft = model.replace({"collision.stiffness": stiffness})
        found = jd.simulate(soft, start, jnp.zeros((3, model.nv)), DT, contacts=jd.contact.Auto())
        return found.v[-1, 2], found

    stiffness = jnp.array([0.0, jnp.inf])
    v, found = fall(stiffness)
    assert ended(found) == {"successful"} and np.abs(found.contacts.residual).max() < 1e-9
    np.testing.assert_allclose(v, -9.81 * 3 * DT, rtol=1e-6)
    assert np.isfinite(jax.jacrev(lambda k: fall(k)[0])(stiffness)).all()
