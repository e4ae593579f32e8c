"""Laws of actuators: `actuator_forces` against a plain NumPy law, its derivatives, and its use as a policy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from embedding_robots import cut, states

import jaxdyn as jd

LAW = {"gain": 30.0, "stiffness": 30.0, "damping": 2.0, "offset": 0.5}


def arm() -> jd.ModelSpec:
    """Two links with servos, one of them bounded, a tendon over both, and a ball joint with motors."""
    spec, rod = jd.ModelSpec("arm"), jd.Inertia.box(1.0, (0.1, 0.1, 0.5))
    spec.add_body("upper", "world", jd.joints.Revolute(axis=(0, 1, 0), effort=40.0), inertia=rod)
    spec.add_body("lower", "upper", jd.joints.Prismatic(axis=(1, 0, 0)), inertia=rod)
    spec.add_body("hand", "lower", jd.joints.Spherical(), inertia=rod)
    spec.add_actuator("upper", gear=2.0, **LAW)
    spec.add_actuator("lower", **LAW, limits=(-4.0, 9.0), command_limits=(-0.2, 0.3))
    spec.add_actuator({"upper": 0.3, "lower": -2.0}, "tendon", gain=5.0, stiffness=5.0)
    return spec.add_actuator("hand", gear=(1.0, 2.0, 0.5), damping=3.0)


ARM = arm().build()
GEARS = np.array([[2.0, 0, 0.3, 0], [0, 1, -2, 0], [0, 0, 0, 1], [0, 0, 0, 2], [0, 0, 0, 0.5]])


def by_hand(q, v, u):
    q, v = np.asarray(q), np.asarray(v)
    length, rate = GEARS[:2].T @ q[:2], GEARS.T @ v
    u = np.clip(u, (-np.inf, -0.2, -np.inf, -np.inf), (np.inf, 0.3, np.inf, np.inf))
    force = np.array([30, 30, 5, 1]) * u + np.array([0.5, 0.5, 0, 0])
    force = force - np.array([30, 30, 5, 0]) * length - np.array([2.0, 2, 0, 3]) * rate
    force = np.clip(force, (-np.inf, -4, -np.inf, -np.inf), (np.inf, 9, np.inf, np.inf))
    tau = GEARS @ force
    return np.r_[np.clip(tau[:1], -40, 40), tau[1:]]


@pytest.mark.parametrize("scale", [0.05, 1.0, 10.0])
def test_forces_follow_the_law(scale):
    state = ARM.random_state(jax.random.key(1))
    state = jd.State(scale * state.q, scale * state.v)
    u = scale * np.array([0.3, -0.8, 0.7, 0.2])
    np.testing.assert_allclose(jd.actuator_forces(ARM, state, u), by_hand(state.q, state.v, u), rtol=1e-12)


def test_without_laws_commands_are_forces():
    model = jd.load("strider")
    state, u = model.random_state(jax.random.key(1)), np.linspace(-3, 3, model.nu)
    assert np.array_equal(jd.actuator_forces(model, state, u), model.actuation @ u)
    still = jd.load_spec("four_bar")
    still.actuators.clear()
    model = still.build()
    assert np.array_equal(jd.actuator_forces(model, jd.State(model.neutral(), np.zeros(3)), []), np.zeros(3))


@pytest.mark.parametrize("independent", [None, ["base", "slide"]])
def test_embedded_robots_have_the_forces_of_the_cut_one(independent):
    """Also where a servo drives a joint that depends on others: then forces are those of all joints."""
    n = len(cut("geared_links").actuators.gain)
    servos = {f"actuators.{what}": np.full(n, x) for what, x in LAW.items()}
    whole = cut("geared_links").replace(servos)
    model = jd.embed(whole, independent=independent)
    q, u = states("geared_links", 1).q[0], np.linspace(-0.5, 0.7, n)
    state = jd.State(q, jnp.linspace(-1, 1, model.nv))
    ours = jd.actuator_forces(model, state, u)
    theirs = jd.actuator_forces(whole, jd.expand(model, state), u)
    assert ours.shape == ((model.nv,) if independent is None else (whole.nv,))
    rows = np.asarray(model.topology.independent) if independent is None else slice(None)
    np.testing.assert_allclose(ours, theirs[rows], rtol=1e-12, atol=1e-12)


def test_derivatives_are_those_of_the_law():
    state = ARM.random_state(jax.random.key(2))
    q, v, u = 0.1 * state.q, 0.1 * state.v, jnp.array([0.1, -0.1, 0.2, 0.3])
    gains = jnp.array([3.0, 4.0, 5.0, 6.0])

    def f(v, u, gains):
        return jd.actuator_forces(ARM.replace({"actuators.gain": gains}), jd.State(q, v), u)

    by_v, by_u, by_gain = jax.jit(jax.jacrev(f, (0, 1, 2)))(v, u, gains)
    np.testing.assert_allclose(by_v, -GEARS @ np.diag([2.0, 2, 0, 3]) @ GEARS.T, atol=1e-12)
    np.testing.assert_allclose(by_u, GEARS @ np.diag(gains), atol=1e-12)
    np.testing.assert_allclose(by_gain, GEARS @ np.diag(u), atol=1e-12)
    by_q = jax.jacfwd(lambda q: jd.actuator_forces(ARM, jd.State(q, v), u))(q)
    np.testing.assert_allclose(by_q[:, :2], -GEARS @ np.diag([30.0, 30, 5, 0]) @ GEARS[:2].T, atol=1e-12)
    assert not by_q[:, 2:].any()


@pytest.mark.parametrize("compiler", ["kernel", "xla"])
def test_servos_hold_their_targets(compiler):
    """In a batch, in single precision too: the arm comes to rest where servos and gravity balance."""
    spec = jd.ModelSpec("pair")
    for name in ("first", "second"):
        hinge = jd.joints.Revolute(axis=(0, 1, 0), armature=0.1)
        spec.add_body(name, "world", hinge, inertia=jd.Inertia(1.0, (0, 0, -0.5), 0.01 * np.eye(3)))
        spec.add_actuator(name, gain=200.0, stiffness=200.0, damping=20.0)
    model = jax.tree.map(lambda x: x.astype(jnp.float32), spec.build().with_compiler(compiler))

    def hold(command):
        policy = lambda s, t: jd.actuator_forces(model, s, command)  # noqa: E731
        start = jd.State(model.neutral(), jnp.zeros(2, jnp.float32))
        return jd.simulate(model, start, policy, 2e-3, steps=1000)[-1]

    commands = jnp.array([[0.3, -0.4], [0.0, 1.0]], jnp.float32)
    end = jax.jit(jax.vmap(hold))(commands)
    assert np.abs(end.v).max() < 1e-3
    np.testing.assert_allclose(200 * (commands - end.q), 9.81 * 0.5 * np.sin(end.q), atol=2e-2)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"stiffness": -1.0}, "`stiffness` is negative"),
        ({"damping": np.nan}, "`damping` is not finite"),
        ({"gain": [1.0, 2.0]}, r"`gain` has shape \(2,\), not \(\)"),
        ({"limits": 3.0}, r"`limits` is 3.0, not a pair \(lower, upper\)"),
        ({"limits": (1.0, -1.0)}, r"`limits`: the lower limit \[1.\] is above the upper limit \[-1.\]"),
        ({"command_limits": (np.nan, 1.0)}, r"`command_limits\[0\]` is not a number"),
    ],
)
def test_laws_that_no_actuator_has_are_refused(options, said):
    with pytest.raises(ValueError, match=r"`ModelSpec.add_actuator\('m'\)`: .*" + said):
        arm().add_actuator("upper", "m", **options)


def test_lengths_are_those_of_joints_with_one_coordinate():
    with pytest.raises(ValueError, match="actuator 'm': `stiffness` is for .* one velocity; joint 'hand' has 3"):
        arm().add_actuator("hand", "m", gear=(1.0, 0, 0), stiffness=1.0).build()


def test_replaced_laws_are_checked():
    with pytest.raises(ValueError, match="lower limit .* is above"):
        ARM.replace({"actuators.lower": np.full(4, 20.0)})
    with pytest.raises(ValueError, match="`actuators.damping` is negative"):
        ARM.replace({"actuators.damping": -np.ones(4)})
    with pytest.raises(ValueError, match=r"`actuator_forces`: `command` has shape \(3,\), not \(4,\)"):
        jd.actuator_forces(ARM, ARM.random_state(jax.random.key(0)), np.zeros(3))
