"""What contact says to wrong calls, and what it makes of hard scenes."""

import functools

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd

DT = 2e-3
PGS = jd.contact.PGS


@functools.cache
def program(steps, law):
    zero = lambda s, t: jnp.zeros_like(s.v)  # noqa: E731
    return jax.jit(lambda m, q, v, dt: jd.simulate(m, jd.State(q, v), zero, dt, steps=steps, contacts=law))


def motion(made, v=None, *, steps=200, law=PGS(), dt=DT):  # noqa: B008 - static
    model, q = made
    return program(steps, law)(model, q, np.zeros(model.nv) if v is None else v, dt)


@pytest.mark.parametrize("call", [jd.step, jd.simulate])
def test_wrong_calls(call):
    """Before anything is traced, by name."""
    model, q = scenes.box()
    name = f"`{call.__name__}`"
    state = jd.State(q, np.zeros(6))
    tau = np.zeros(6) if call is jd.step else np.zeros((2, 6))
    made = functools.partial(call, model, state, tau, DT)
    for wrong in ("pgs", True, PGS, [PGS()], jd.integrators.RK4()):
        with pytest.raises(TypeError, match=rf"{name}.*contacts.*jd\.contact\.PGS\(\)"):
            made(contacts=wrong)
    for integrator in (
        jd.integrators.RK4(),
        jd.integrators.Gauss(),
        jd.integrators.Leapfrog(),
        jd.integrators.ImplicitMidpoint(),
    ):
        with pytest.raises(ValueError, match=rf"{name}.*{type(integrator).__name__}.*SemiImplicitEuler"):
            made(contacts=PGS(), integrator=integrator)
    for solver in (jd.solvers.PV(), jd.solvers.Dense(), jd.solvers.ProxLTL(), jd.solvers.LCABA(max_steps=1)):
        with pytest.raises(ValueError, match=rf"{name}.*contacts.*solver"):
            made(contacts=PGS(), solver=solver)
    spec = jd.ModelSpec("bare")
    spec.add_body("ball", "world", jd.joints.Free(), inertia=scenes.round_body(1, 0.1))
    for bare in (spec.build(), spec.add_shape("ball", jd.shapes.Sphere(0.1)).build()):
        with pytest.raises(ValueError, match=rf"{name}.*no shapes of 'bare' can collide.*ground=True.*add_shape"):
            call(bare, state, tau, DT, contacts=PGS())


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sweeps", 0),
        ("sweeps", 2.5),
        ("sweeps", True),
        ("recovery", -0.1),
        ("recovery", 1.5),
        ("recovery", np.nan),
        ("recovery_speed", -1.0),
        ("recovery_speed", "fast"),
        ("bounce_speed", -1e-3),
        ("bounce_speed", None),
        ("recovery", None),
        ("smoothing", -0.1),
        ("smoothing", 1e-12),
        ("smoothing", np.inf),
        ("smoothing", "some"),
        ("smoothing", True),
        ("smoothing", None),
        ("recovery_speed", 10**400),
        ("limits", "no"),
        ("limits", [True]),
        ("dry_friction", None),
    ],
)
def test_wrong_laws(name, value):
    with pytest.raises((TypeError, ValueError), match=rf"`?PGS`?.*{name}"):
        PGS(**{name: value})


def test_laws_are_equal_by_what_they_say():
    assert PGS() == PGS(sweeps=20) and hash(PGS()) == hash(PGS(sweeps=20))
    assert PGS() != PGS(sweeps=21) and PGS() != PGS(recovery=0.1)


@pytest.mark.parametrize("depth", [1e-3, 0.02, 0.2])
def test_overlaps_are_taken_away_at_the_speed_that_is_set(depth):
    model, q = scenes.balls(1, radius=0.5, friction=1.0)
    law = PGS(recovery_speed=0.3)
    found = motion((model, q - depth * np.eye(7)[2]), law=law, steps=600)
    speed, z = np.asarray(found.v[:, 2]), np.asarray(found.q[:, 2])
    assert speed.max() <= 0.3 * (1 + 1e-9)
    assert speed[1] == pytest.approx(min(0.2 * depth / DT, 0.3), rel=1e-9)
    assert z.max() <= 0.5 + 0.3**2 / 2 / scenes.G + 1e-3  # what it is pushed out at carries it on
    assert z[-1] == pytest.approx(0.5, abs=2e-4)


def test_boxes_inside_each_other_come_apart_slowly():
    model, q = scenes.stack(2)
    q = q.copy()
    q[9] -= 0.05
    found = motion((model, q), steps=400, law=PGS(sweeps=500))
    assert np.abs(np.asarray(found.v)[:, 6:9]).max() <= 1.0 + 1e-6
    np.testing.assert_allclose(np.asarray(found.q)[-1, [2, 9]], [0.1, 0.3], atol=2e-3)


@pytest.mark.parametrize("masses", [(1e4, 1.0), (1.0, 1e4)])
def test_stacks_of_very_unequal_masses(masses):
    """The light one on the heavy one stands; below it, it bears it, as far as the law is solved, which results tell."""
    found = motion(scenes.stack(2, masses=list(masses)), steps=500)
    q = np.asarray(found.q)
    assert np.isfinite(q).all()
    if masses[0] > masses[1]:
        weight = sum(masses) * scenes.G
        np.testing.assert_allclose(np.asarray(found.contacts.impulses)[-1, :4, 0].sum() / DT, weight, rtol=1e-3)
        np.testing.assert_allclose(q[-1, [2, 9]], [0.1, 0.3], atol=1e-3)
    else:
        bad = np.asarray(found.result == jd.Result.contact_not_converged)
        sunk = 0.1 - q[:, 2].min() > 1e-3 or 0.3 - q[:, 9].min() > 1e-3
        assert bad.any() or not sunk


def test_zero_friction_keeps_what_moves_across():
    found = motion(scenes.box(friction=0.0), np.array([0.7, -0.3, 0, 0, 0, 0.0]))
    np.testing.assert_allclose(np.asarray(found.v)[:, :2], [[0.7, -0.3]] * 201, rtol=0, atol=1e-12)


def test_the_result_tells_of_states_that_are_not_finite():
    model, q = scenes.box()
    for k, made in ((0, (q * np.nan, np.zeros(6))), (1, (q, np.full(6, np.inf)))):
        found = motion((model, made[0]), made[1], steps=2)
        assert (found.result == jd.Result.not_finite).all(), k
    found = motion((model, q * np.array([1, 1, 1, 2, 1, 1, 1])), steps=1)
    assert (found.result == jd.Result.non_unit_quaternion).all()


@pytest.mark.parametrize("name", ["friction", "torsion", "restitution", "stiffness", "damping"])
def test_the_result_tells_of_surfaces_that_are_not_numbers(name):
    """Only within a program, where nobody sees them before: comparisons would take them for zero."""
    model, q = scenes.balls(1)
    state, path = jd.State(q, jnp.zeros(model.nv).at[2].set(-1.0)), f"collision.{name}"

    @jax.jit
    @jax.vmap
    def ended(more):
        changed = model.replace({path: getattr(model.collision, name) + more})
        rest = jnp.zeros((1, model.nv))
        traj = jd.simulate(changed, state, rest, DT, contacts=PGS())
        return (traj.result == jd.Result.not_finite)[0], jd.impulse(changed, state, contacts=PGS()).result

    steps, jumps = ended(jnp.array([0.0, jnp.nan]))
    assert list(steps) == list(jumps == jd.Result.not_finite) == [False, True]


def test_the_result_tells_of_a_law_that_is_not_solved():
    """One sweep is not enough for a tower; for a ball it is."""
    few, many = (motion(scenes.stack(3), steps=5, law=PGS(sweeps=n)) for n in (1, 2000))
    assert np.asarray(few.result == jd.Result.contact_not_converged)[0]
    assert (many.result == jd.Result.successful).all()
    assert few.contacts.residual[0] > 1e3 * many.contacts.residual[0]
    ball = motion(scenes.balls(1), steps=5, law=PGS(sweeps=1))
    assert (ball.result == jd.Result.successful).all()


def test_contacts_are_named_and_shaped():
    model, q = scenes.quadruped()
    found = motion((model, q), steps=3)
    assert found.contacts.pairs == tuple((f"foot{k}", "ground") for k in range(4))
    assert found.contacts.impulses.shape == (3, 4, 3) and found.contacts.gaps.shape == (3, 4)
    assert found.contacts.residual.shape == (found.result == jd.Result.successful).shape == (3,)
    assert motion_without(model, q).contacts is None


def motion_without(model, q):
    return jd.simulate(model, jd.State(q, np.zeros(model.nv)), np.zeros((1, model.nv)), DT)


def test_a_speculative_contact_does_not_act_at_a_distance():
    """A ball that would come to the ground after the step feels nothing; one that would go through it, stops there."""
    model, q = scenes.balls(1)
    for speed, touches in ((0.4, False), (0.6, True), (5.0, True)):
        high = q + 1e-3 * np.eye(7)[2]
        found = motion((model, high), np.array([0, 0, -speed, 0, 0, 0.0]), steps=1)
        assert bool(found.contacts.impulses[0, 0, 0] > 0) == touches
        assert (abs(float(found.q[1, 2] - q[2])) < 1e-15) == touches


SCENE = """<mujoco><asset><mesh name="m" vertex="0 0 0 .3 0 0 0 .2 0 0 0 .4"/></asset><worldbody>
<geom name="floor" type="plane" size="3 3 1"/>
<body name="rock" pos="0 0 .5"><freejoint/><geom name="rock" type="mesh" mesh="m"/></body>{}</worldbody></mujoco>"""
BALL = '<body name="ball" pos="1 0 .5"><freejoint/><geom name="ball" size=".1"/></body>'


def test_meshes_that_were_not_read_are_told_where_others_collide():
    """By default only a `ground` or self-collisions make `load` read meshes."""

    def drop(model):
        state = jd.State(model.neutral(), jnp.zeros(model.nv))
        return jd.step(model, state, jnp.zeros(model.nv), 1e-3, contacts=jd.contact.PGS())

    model = jd.load(SCENE.format(BALL))
    words = """were not read, collide with nothing: 'rock'. Read .*collision="all"."""
    with pytest.warns(jd.ModelWarning, match=words):
        drop(model)
    drop(jd.load(SCENE.format(BALL), collision="primitives"))
    drop(model.with_pairs([("ball", "floor")]))
    assert jd.load(SCENE.format(BALL), collision="all").collision.names == ("floor", "rock", "ball")
    with pytest.raises(ValueError, match="""Its shape 'rock' is a mesh that was not read: .*collision="all"."""):
        drop(jd.load(SCENE.format("")))
