"""`Commands` in `step` and `simulate`: servos as springs and dampers of their joints, bounds, derivatives, errors."""

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from embedding_robots import cut, states
from test_actuators import ARM

import jaxdyn as jd

KP, KD, REST = 50.0, 2.0, (0.3, -0.2)
ROD = jd.Inertia.box(1.0, (0.1, 0.1, 0.5))


def arm(servos: bool, shapes=False):
    """Return two links and a hand on a ball joint. The links have servos, or the springs that do the same."""
    spec, parent = jd.ModelSpec("arm"), "world"
    for name, rest in zip(("upper", "lower"), REST, strict=True):
        spring = {} if servos else {"stiffness": KP, "damping": KD, "rest": rest}
        hinge = jd.joints.Revolute(axis=(0, 1, 0), limits=(-2, 2), **spring)
        up = jd.Transform(np.eye(3), (0, 0, 0.5))
        spec.add_body(name, parent, hinge, placement=up, inertia=ROD)
        if servos:
            spec.add_actuator(name, gain=KP, stiffness=KP, damping=KD)
        parent = name
    spec.add_body("hand", "lower", jd.joints.Spherical(), inertia=ROD)
    if shapes:
        spec.add_shape("hand", jd.shapes.Sphere(0.6)).add_ground()
    return spec.build()


SERVOS, SPRINGS = arm(True), arm(False)
START = SERVOS.random_state(jax.random.key(0))


@pytest.mark.parametrize("name", ["SemiImplicitEuler", "Leapfrog", "RK4", "Gauss", "ImplicitMidpoint"])
def test_servos_move_like_springs(name):
    """With every integrator, by array and by policy; `tau` has the forces at the start of each step."""
    integrator, u = getattr(jd.integrators, name)(), jnp.array(REST)
    springs = jd.simulate(SPRINGS, START, jnp.zeros((30, 5)), 5e-3, integrator=integrator)
    by_policy = jd.simulate(SERVOS, START, lambda s, t: jd.Commands(u), 5e-3, steps=30, integrator=integrator)
    by_array = jd.simulate(SERVOS, START, jd.Commands(jnp.tile(u, (30, 1))), 5e-3, integrator=integrator)
    for ours in (by_policy, by_array):
        np.testing.assert_allclose(ours.q, springs.q, atol=1e-12)
        np.testing.assert_allclose(ours.v, springs.v, atol=1e-11)
    np.testing.assert_allclose(by_policy.tau[7], jd.actuator_forces(SERVOS, springs[7], u), atol=1e-10)
    one = jd.step(SERVOS, START, jd.Commands(u), 5e-3, integrator=integrator)
    np.testing.assert_allclose(one.q, springs.q[1], atol=1e-13)


@pytest.mark.parametrize("compiler", ["kernel", "xla"])
def test_servos_move_like_springs_in_contact(compiler):
    """Also in batches in single precision, whose lanes have gains of their own."""
    law, u = jd.contact.PGS(), jnp.array(REST, jnp.float32)
    models = arm(True, shapes=True), arm(False, shapes=True)
    servos, springs, start = jax.tree.map(lambda x: x.astype(jnp.float32), (*models, START))
    servos, springs = servos.with_compiler(compiler), springs.with_compiler(compiler)

    def ours(k):
        model = servos.replace({"actuators.gain": jnp.full(2, k), "actuators.stiffness": jnp.full(2, k)})
        return jd.simulate(model, start, lambda s, t: jd.Commands(u), 5e-3, steps=20, contacts=law).final

    def theirs(k):
        model = springs.replace({"joints.stiffness": springs.joints.stiffness / KP * k})
        return jd.simulate(model, start, jnp.zeros((20, 5)), 5e-3, contacts=law).final

    gains = jnp.array([20.0, 50.0, 300.0], jnp.float32)
    one, other = (jax.jit(jax.vmap(f))(gains) for f in (ours, theirs))
    np.testing.assert_allclose(one.q, other.q, atol=2e-5)
    np.testing.assert_allclose(one.v, other.v, atol=1e-3)


@pytest.mark.parametrize("independent", [None, ["base", "slide"]])
def test_servos_of_embedded_robots_move_like_springs(independent):
    """Also where a servo drives a joint that depends on others."""
    whole = cut("geared_links").replace({"joints.rest": np.zeros(4)})
    n = len(whole.actuators.gain)
    laws = {f"actuators.{what}": np.full(n, x) for what, x in {"gain": 30.0, "stiffness": 30.0, "damping": 2.0}.items()}
    servos = jd.embed(whole.replace(laws), independent=independent)
    gears = np.asarray(whole.actuation)
    assert (np.count_nonzero(gears, axis=0) == 1).all()
    driven = np.abs(gears).sum(1)
    old = whole.joints
    gains = {"joints.stiffness": old.stiffness + 30 * driven**2, "joints.damping": old.damping + 2 * driven**2}
    springs = jd.embed(whole.replace(gains), independent=independent)
    q = states("geared_links", 1).q[0]
    start = jd.State(q, jnp.linspace(-1, 1, servos.nv))
    u = np.linspace(-0.5, 0.7, n)
    # a spring whose rest is where it is slack pulls by the command, as the servo does
    pull = jd.embed(whole, independent=independent)
    motors = {"actuators.gain": np.full(n, 30.0), "actuators.stiffness": np.zeros(n), "actuators.damping": np.zeros(n)}
    pull = pull.replace(motors)
    ours = jd.simulate(servos, start, lambda s, t: jd.Commands(u), 5e-3, steps=20)

    def pulled(s, t):
        return jd.actuator_forces(pull, s, u)

    other = jd.simulate(springs, start, pulled, 5e-3, steps=20)
    np.testing.assert_allclose(ours.q, other.q, atol=1e-11)
    np.testing.assert_allclose(ours.v, other.v, atol=1e-10)


def bounded(limits=None, effort=np.inf, kp=KP, kd=KD):
    spec = jd.ModelSpec("pendulum")
    hinge = jd.joints.Revolute(axis=(0, 1, 0), effort=effort)
    spec.add_body("link", "world", hinge, inertia=jd.Inertia(1.0, (0, 0, -0.5), 0.01 * np.eye(3)))
    return spec.add_actuator("link", gain=kp, stiffness=kp, damping=kd, limits=limits).build()


@pytest.mark.parametrize(("bounds", "force"), [({"limits": (-3, 3)}, 3.0), ({"effort": 2.0}, 2.0)])
def test_servos_at_their_bounds_exert_these(bounds, force):
    model, still = bounded(**bounds), jd.State(jnp.zeros(1), jnp.zeros(1))
    ours = jd.simulate(model, still, lambda s, t: jd.Commands([1.0]), 1e-3, steps=10)
    theirs = jd.simulate(model, still, jnp.full((10, 1), force), 1e-3)
    np.testing.assert_allclose(ours.q, theirs.q, atol=1e-14)
    np.testing.assert_allclose(ours.tau, theirs.tau)


@pytest.mark.parametrize("dt", [1e-3, 2e-2])
def test_no_gain_is_too_high(dt):
    model, still = bounded(kp=1e6, kd=1e4), jd.State(jnp.zeros(1), jnp.zeros(1))
    end = jd.simulate(model, still, lambda s, t: jd.Commands([0.5]), dt, steps=round(0.5 / dt)).final
    np.testing.assert_allclose(end.q, 0.5, atol=1e-4)
    assert np.abs(end.v).max() < 1e-4


@pytest.mark.parametrize("bounds", [{"limits": (-400, 400)}, {"effort": 400.0}])
@pytest.mark.parametrize("dt", [1e-3, 5e-3, 2e-2])
def test_bounded_servos_of_light_joints_come_to_rest(dt, bounds):
    """Constant forces at the bounds, as in MuJoCo, make it swing from one bound to the other for ever, at 5 ms too."""
    hinge = jd.joints.Revolute(axis=(0, 1, 0), armature=1e-3, effort=bounds.get("effort", np.inf))
    spec = jd.ModelSpec("finger")
    spec.add_body("link", "world", hinge, inertia=jd.Inertia(0.05, (0, 0, -0.07), 1e-4 * np.eye(3)))
    spec.add_actuator("link", gain=2000.0, stiffness=2000.0, damping=200.0, limits=bounds.get("limits"))
    still = jd.State(jnp.zeros(1), jnp.zeros(1))
    motion = jd.simulate(spec.build(), still, lambda s, t: jd.Commands([0.5]), dt, steps=round(1 / dt))
    assert motion.tau[0] == 400
    np.testing.assert_allclose(motion.final.q, 0.5, atol=1e-3)
    assert motion.q.max() < 0.501
    wanted = 0.5 * (1 - np.exp(-10 * dt * np.arange(len(motion.q))))  # as if it had no inertia
    np.testing.assert_allclose(motion.q[:, 0], wanted, atol=2 * dt)


def test_tendons_are_stable_and_converge():
    """A tendon over two light joints: at a step with which constant forces explode, and in the limit of small ones."""
    spec = jd.ModelSpec("tendon")
    for name, parent in (("first", "world"), ("second", "first")):
        down = jd.Inertia(0.1, (0, 0, -0.2), 1e-3 * np.eye(3))
        hinge = jd.joints.Revolute(axis=(0, 1, 0), damping=0.01)
        spec.add_body(name, parent, hinge, placement=jd.Transform(np.eye(3), (0, 0, -0.3)), inertia=down)
    model = spec.add_actuator({"first": 1.0, "second": 0.5}, "t", gain=20.0, stiffness=20.0, damping=2.0).build()
    still = jd.State(jnp.zeros(2), jnp.zeros(2))

    def end(dt, policy):
        run = lambda s: jd.simulate(model, s, policy, dt, steps=round(0.4 / dt))  # noqa: E731
        return jax.jit(run)(still).final.q

    constant, held = lambda s, t: jd.actuator_forces(model, s, [0.4]), lambda s, t: jd.Commands([0.4])
    exact = end(2e-5, constant)
    coarse, off, fine = (np.abs(end(dt, held) - exact).max() for dt in (2e-2, 4e-4, 2e-4))
    assert not np.abs(end(2e-2, constant)).max() < 10
    assert coarse < 0.3 and off < 0.1 and fine < 0.6 * off, (coarse, off, fine)


@pytest.mark.parametrize("name", ["SemiImplicitEuler", "Leapfrog", "RK4", "ImplicitMidpoint"])
def test_tendons_do_not_brake_motions_that_keep_their_length(name):
    """Two free wheels with a stiff servo on the difference of their angles turn together for ever."""
    spec = jd.ModelSpec("wheels")
    for wheel in ("a", "b"):
        spec.add_body(wheel, "world", jd.joints.Revolute(axis=(0, 0, 1)), inertia=jd.Inertia(1.0, (0, 0, 0), np.eye(3)))
    model = spec.add_actuator({"a": 1.0, "b": -1.0}, gain=1e3, stiffness=1e3, damping=10.0, limits=(-5, 5)).build()
    start = jd.State(jnp.array([0.3, 0.3]), jnp.ones(2))
    integrator = getattr(jd.integrators, name)()
    end = jd.simulate(model, start, lambda s, t: jd.Commands([0.0]), 1e-2, steps=20, integrator=integrator).final
    np.testing.assert_allclose(end.v, 1, atol=1e-12)


def test_only_coordinates_of_joints_have_springs():
    """Stiffness that `replace` gives to an actuator of a ball joint acts no more than in `actuator_forces`."""
    spec = jd.ModelSpec("ball").add_body("ball", "world", jd.joints.Spherical(), inertia=ROD)
    model = spec.add_actuator("ball", gear=(1.0, 2.0, 0.5)).add_actuator("ball", "one", gear=(0.0, 1.0, 0.0)).build()
    model = model.replace({"actuators.stiffness": np.full(2, 30.0), "gravity": np.zeros(3)})
    start = jd.State(jd.integrate(model, model.neutral(), jnp.array([0.3, 0.2, 0.1])), jnp.zeros(3))
    end = jd.step(model, start, jd.Commands(np.zeros(2)), 1e-2)
    assert not jd.actuator_forces(model, start, np.zeros(2)).any() and not end.v.any()


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_derivatives_near_zero_force(dtype):
    """A ratio of two forces that vanish together must not enter them."""
    model = jax.tree.map(lambda x: x.astype(dtype), bounded(limits=(-30.0, 30.0)))

    def end(q):
        return jd.step(model, jd.State(q[None], jnp.zeros(1, dtype)), jd.Commands(jnp.zeros(1, dtype)), 1e-2).v[0]

    places = jnp.array([0.0, 1e-36, 1e-30, 1e-22, 1e-15, 1e-9, 1e-6], dtype)
    for mode in (jax.jacfwd, jax.jacrev):
        slopes = jax.vmap(mode(end))(places)
        np.testing.assert_allclose(slopes, slopes[-1], rtol=1e-4)
        assert slopes[-1] < -0.5


def test_as_mujoco():
    """A bounded servo beside MuJoCo's implicit integrator: the difference is of first order in dt."""
    xml = """<mujoco><option timestep="1e-4" integrator="implicitfast"/><worldbody>
    <body><joint name="a" axis="0 1 0" damping="0.1"/><geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.03"/>
    <body pos="0 0 -0.5"><joint name="b" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.03"
    contype="0" conaffinity="0"/></body></body></worldbody>
    <actuator><position joint="a" kp="100" kv="3" forcerange="-15 15"/><position joint="b" kp="80" kv="1"/></actuator>
    </mujoco>"""
    model, theirs = jd.load(xml), mujoco.MjModel.from_xml_string(xml)
    data, u = mujoco.MjData(theirs), np.array([1.0, -0.5])
    data.ctrl[:] = u
    mujoco.mj_step(theirs, data, 2000)
    ours = jd.simulate(model, jd.State(jnp.zeros(2), jnp.zeros(2)), lambda s, t: jd.Commands(u), 1e-4, steps=2000)
    assert (np.abs(ours.tau[0]) == [15, 40]).all() and np.abs(data.qpos).max() > 0.3
    np.testing.assert_allclose(ours.final.q, data.qpos, atol=1e-3)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_bits_do_not_depend_on_the_batch(dtype):
    model = jax.tree.map(lambda x: x.astype(dtype), ARM)
    starts = jax.vmap(model.random_state)(jax.random.split(jax.random.key(0), 5))
    commands = jnp.linspace(-1, 1, 5 * model.nu, dtype=dtype).reshape(5, model.nu)

    def moved(start, u):
        motion = jd.simulate(model, start, lambda s, t: jd.Commands(u), 2e-3, steps=5)
        return motion.final, motion.tau

    batch, alone = jax.jit(jax.vmap(moved))(starts, commands), jax.jit(moved)
    for k in range(5):
        start = jax.tree.map(lambda x, k=k: x[k], starts)
        one = alone(start, commands[k])
        assert all(np.array_equal(x[k], y) for x, y in zip(*map(jax.tree.leaves, (batch, one)), strict=True))


def test_known_and_traced_models_move_alike():
    """Gears that are known are folded into kernels; XLA multiplies by others."""
    start, u = ARM.random_state(jax.random.key(3)), jnp.linspace(-1, 1, ARM.nu)

    def moved(model):
        return jd.simulate(model, start, lambda s, t: jd.Commands(u), 2e-3, steps=5).final.v

    many = jax.tree.map(lambda x: jnp.stack([x, x]), ARM)
    known = jax.jit(lambda: moved(ARM))()
    np.testing.assert_allclose(jax.jit(moved)(ARM), known, atol=1e-10)
    np.testing.assert_allclose(jax.jit(jax.vmap(moved))(many)[1], known, atol=1e-10)


def test_derivatives():
    """By command, gains and state, in both modes, against central differences: at its bound, the first servo has
    none."""
    model = SERVOS.replace({"actuators.upper": jnp.array([5.0, np.inf]), "actuators.lower": jnp.array([-5.0, -np.inf])})

    def f(x):
        u, gain, v = x[:2], x[2:4], x[4:]
        robot = model.replace({"actuators.gain": gain, "actuators.stiffness": gain})
        return jd.simulate(robot, jd.State(START.q, v), jd.Commands(jnp.tile(u, (2, 1))), 5e-3).final.v

    x = jnp.concatenate([jnp.array([1.0, -0.2, 50, 60]), 0.1 * START.v])
    forward, reverse = jax.jit(jax.jacfwd(f))(x), jax.jit(jax.jacrev(f))(x)
    np.testing.assert_allclose(forward, reverse, atol=1e-10)
    f, eye = jax.jit(f), 1e-5 * np.eye(len(x))
    differences = np.stack([(f(x + e) - f(x - e)) / 2e-5 for e in eye], 1)
    np.testing.assert_allclose(forward, differences, atol=1e-6)
    assert not forward[:, 0].any() and np.abs(forward[:, 1]).max() > 0.1


def test_errors():
    names = r"\(2,\)\. `Commands` are for the actuators of the model: 'upper', 'lower'\. `load` warns"
    with pytest.raises(ValueError, match=rf"`step`: `tau.values` has shape \(3,\), not {names}"):
        jd.step(SERVOS, START, jd.Commands(np.zeros(3)), 1e-3)
    with pytest.raises(ValueError, match=r"`simulate`: `tau.values` has shape \(2,\), not \(T, 2\)"):
        jd.simulate(SERVOS, START, jd.Commands(np.zeros(2)), 1e-3)
    with pytest.raises(ValueError, match=rf"`simulate`: `tau\(state, t\).values` has shape \(5,\), not {names}"):
        jd.simulate(SERVOS, START, lambda s, t: jd.Commands(np.zeros(5)), 1e-3, steps=2)
    with pytest.raises(TypeError, match=r"`simulate`: `tau.values` .*numbers"):
        jd.simulate(SERVOS, START, jd.Commands("up"), 1e-3)
