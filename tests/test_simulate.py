"""Time integration: order of convergence, what is conserved, loops that stay closed, gradients through rollouts."""

import functools
import itertools
import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from catalogue import CATALOGUE
from catalogue_base import at, bar, lump
from compiled import close, states, succeeded
from parse_help import ROBOTS, quiet

import jaxdyn as jd

FOUR_BAR = "four_bar_point"


@functools.cache
def satellite():
    """A free body with an arm on a ball joint, and no forces from outside."""
    spec = jd.ModelSpec("satellite", gravity=(0, 0, 0))
    spec.add_body("hull", "world", jd.joints.Free(), inertia=lump(2.0, (0, 0.05, 0)))
    spec.add_body(
        "arm", "hull", jd.joints.Spherical(), placement=at(0.2, 0.1, 0, (1, 1, 0), 0.5), inertia=bar(1.0, (0.3, 0, 0))
    )
    return spec.build()


def start(model, seed=0):
    v = np.random.default_rng(seed).normal(size=model.nv)
    return jd.State(jd.integrate(model, model.neutral(), 0.5 * v), v)


@functools.cache
def rolled(integrator):
    """(model, state, tau, dt, number of steps) to the last state, compiled once for any number."""

    @jax.jit
    def run(model, state, tau, dt, steps):
        return jax.lax.fori_loop(0, steps, lambda _, s: jd.step(model, s, tau, dt, integrator=integrator), state)

    return run


INTEGRATORS = {
    "Leapfrog": (jd.integrators.Leapfrog(), 2),
    "SemiImplicitEuler": (jd.integrators.SemiImplicitEuler(), 1),
    "ImplicitMidpoint": (jd.integrators.ImplicitMidpoint(), 2),
    "RK4": (jd.integrators.RK4(), 4),
    "Gauss": (jd.integrators.Gauss(), 4),
}


@pytest.mark.parametrize("name", INTEGRATORS)
def test_quaternions_stay_of_unit_length(name):
    """Rounding changes them by some 1e-8 a step in single precision, mostly in the same direction."""
    model = jax.tree.map(lambda x: x.astype(jnp.float32), satellite())
    state = jax.tree.map(lambda x: x.astype(jnp.float32), start(satellite()))
    end = rolled(INTEGRATORS[name][0])(model, state, jnp.zeros(model.nv, jnp.float32), jnp.float32(1e-3), 10_000)
    slices = [model.q_slice(joint) for joint in model.joint_names]
    lengths = [jnp.linalg.norm(end.q[s][-4:]) for s in slices if s.stop - s.start in (4, 7)]
    assert lengths and max(abs(x - 1) for x in lengths) < 3e-7


def test_a_tableau_of_your_own():
    """Rows of the triangle and rows of the whole matrix are one method: Heun's, which has the order two."""
    model = satellite()
    state, tau, T = start(model), 0.1 * jnp.ones(model.nv), 0.5
    rows, whole = (jd.integrators.RungeKutta(a, (0.5, 0.5)) for a in (((), (1.0,)), np.array([[0, 0], [1, 0]])))
    ends = [rolled(whole)(model, state, tau, T / n, n).v for n in (64, 128, 1024)]
    errors = [float(jnp.linalg.norm(v - ends[-1])) for v in ends[:2]]
    assert 3.8 < errors[0] / errors[1] < 4.3


@pytest.mark.parametrize("name", INTEGRATORS)
def test_order_of_convergence(name):
    """Free and ball joints under constant forces, against fine steps of fourth order."""
    model = satellite()
    state, tau = start(model), jnp.asarray(np.random.default_rng(1).normal(size=model.nv)) * 0.1
    T = 0.5
    reference = rolled(INTEGRATORS["RK4"][0])(model, state, tau, T / 1024, 1024)
    integrator, order = INTEGRATORS[name]

    def error(steps):
        end = rolled(integrator)(model, state, tau, T / steps, steps)
        away = jnp.concatenate([jd.difference(model, reference.q, end.q), end.v - reference.v])
        return float(jnp.linalg.norm(away))

    coarse = 16 if order == 4 else 128
    errors = np.array([error(coarse * 2**k) for k in range(3)])
    orders = np.log2(errors[:-1] / errors[1:])
    assert np.abs(orders - order).max() < 0.2, (errors, orders)


def test_momentum_is_conserved():
    """Without forces: linear momentum exactly, angular momentum to the integrator's error."""
    model, tau = satellite(), jnp.zeros(9)
    state = start(model)
    before = jd.centroidal_momentum(model, state)
    for name, tolerance in (("RK4", 1e-9), ("ImplicitMidpoint", 1e-5), ("Leapfrog", 1e-5)):
        end = rolled(INTEGRATORS[name][0])(model, state, tau, 1e-3, 1000)
        close(jd.centroidal_momentum(model, end), before, tolerance)
        close(jd.kinetic_energy(model, end), jd.kinetic_energy(model, state), tolerance)
        moved = jd.center_of_mass(model, end.q) - jd.center_of_mass(model, state.q)
        close(moved, before[:3] / jnp.sum(model.bodies.mass), tolerance)


def undamped():
    model = CATALOGUE[FOUR_BAR].build()
    model = model.replace({"joints.damping": jnp.zeros(model.nv)})
    q, v = (jnp.asarray(x[0]) for x in states(FOUR_BAR)[:2])
    return model, jd.State(q, v)


def energy(model, state):
    return jd.potential_energy(model, state.q) + jd.kinetic_energy(model, state)


@pytest.mark.parametrize("name", ["Gauss", "RK4"])
def test_energy_of_a_four_bar_does_not_drift(name, record_property):
    """Ten seconds at a millisecond, undamped and unactuated, relative to the greatest kinetic energy: links that turn
    at up to 18 rad/s."""
    model, state = undamped()

    @jax.jit
    def run(model, state):
        def body(s, _):
            s = jd.step(model, s, jnp.zeros(model.nv), 1e-3, integrator=INTEGRATORS[name][0])
            return s, (energy(model, s), jd.kinetic_energy(model, s), jd.constraint_residual(model, s.q))

        return jax.lax.scan(body, state, length=10_000)[1]

    total, kinetic, opening = run(model, state)
    drift = float(jnp.abs(total - energy(model, state)).max() / jnp.max(kinetic))
    record_property("energy_drift", drift)
    print(f"energy drift {drift:.2e}, opening {float(jnp.abs(opening).max()):.2e} m")
    assert float(jnp.abs(opening).max()) < 1e-5
    assert drift < 1e-6


@functools.cache
def double_pendulum():
    spec = jd.ModelSpec("double_pendulum")
    spec.add_body("upper", "world", jd.joints.Revolute(axis=(0, 1, 0)), inertia=bar(1.0, (0, 0, -0.5)))
    spec.add_body(
        "lower", "upper", jd.joints.Revolute(axis=(0, 1, 0)), placement=at(0, 0, -0.5), inertia=bar(0.6, (0, 0, -0.4))
    )
    return spec.build()


@functools.cache
def shipped(name):
    """A shipped robot without dampers, where it closes, and the velocity of which all others of one freedom are
    multiples, 1 at the fastest joint."""
    model = jd.load(name)
    model = model.replace({"joints.damping": jnp.zeros(model.nv)})
    q = jd.assemble(model, model.neutral())
    along = jnp.linalg.svd(jd.constraint_jacobian(model, q, model.constraints))[2][-1]
    return model, q, along / jnp.abs(along).max()


def moving(name):
    """A robot that nothing damps or drives, and where it starts."""
    if name == "double_pendulum":
        return double_pendulum(), jd.State(jnp.array([1.5, 0.5]), jnp.zeros(2))
    if name == "satellite":
        return satellite(), start(satellite())
    if name == "strider":  # in free fall speeds grow without end
        model, q, _ = shipped(name)
        v = jnp.asarray(np.random.default_rng(0).normal(size=model.nv))
        model = model.replace({"gravity": jnp.zeros(3)})
        return model, jd.State(q, jd.impulse(model, jd.State(q, v)).velocity)
    model, q, along = shipped("four_bar")
    return model, jd.State(q, along * (13.0 if name.endswith("fast") else 0.0))


def followed(model, state, steps, every=100, dt=1e-3, integrator=jd.integrators.Leapfrog(), **options):  # noqa: B008
    """Total energy, kinetic energy and opening of loops, every so many steps, and the last state."""

    def one(s, _):
        return jd.step(model, s, jnp.zeros(model.nv, s.q.dtype), dt, integrator=integrator, **options), None

    def few(s, _):
        s = jax.lax.scan(one, s, length=every)[0]
        opening = jnp.abs(jd.constraint_residual(model, s.q)).max(initial=0.0)
        return s, (energy(model, s), jd.kinetic_energy(model, s), opening)

    end, (total, kinetic, opening) = jax.jit(lambda s: jax.lax.scan(few, s, length=steps // every))(state)
    return np.asarray(total), np.asarray(kinetic), np.asarray(opening), end


@pytest.mark.parametrize(
    ("name", "steps", "bound"),
    [
        ("four_bar", 40_000, 1e-3),
        ("four_bar, fast", 40_000, 4e-3),
        ("double_pendulum", 40_000, 1e-3),
        ("satellite", 40_000, 1e-4),
        ("strider", 3_000, 1e-3),
    ],
)
def test_energy_of_the_leapfrog_stays(name, steps, bound):
    """At a millisecond, relative to the greatest kinetic energy, while motions turn at up to 40 rad/s."""
    model, state = moving(name)
    total, kinetic, opening, _ = followed(model, state, steps)
    error = (total - energy(model, state)) / kinetic.max()
    assert np.abs(error).max() < bound, error
    tenth = len(error) // 10
    assert abs(error[-tenth:].mean() - error[:tenth].mean()) < bound / 4  # what it does is swing, not drift
    assert opening.max(initial=0.0) < 5e-5
    assert kinetic.max() > 0.5


@pytest.mark.parametrize(
    ("name", "bound", "open_by"), [("four_bar", 1e-2, 2e-5), ("four_bar, fast", 2e-2, 3e-4), ("satellite", 1e-4, 0.0)]
)
def test_energy_of_the_leapfrog_stays_in_single_precision(name, bound, open_by):
    model, state = jax.tree.map(lambda x: x.astype(jnp.float32), moving(name))
    total, kinetic, opening, _ = followed(model, state, 20_000)
    assert np.abs(total - energy(model, state)).max() < bound * kinetic.max()
    assert opening.max() <= open_by


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_steps_of_the_leapfrog_do_not_depend_on_the_place(dtype):
    """Nor do they lose digits to small steps: momenta are those of changes of poses, not of poses."""
    model, state = jax.tree.map(lambda x: x.astype(dtype), (satellite(), start(satellite())))
    rest, leap = jnp.zeros((50, model.nv), dtype), jd.integrators.Leapfrog()
    roll = jax.jit(lambda q, v: jd.simulate(model, jd.State(q, v), rest, 1e-3, integrator=leap))
    near, far = roll(state.q, 2 * state.v), roll(state.q.at[0].add(1e4), 2 * state.v)
    assert (near.result == jd.Result.successful).all() and (far.result == jd.Result.successful).all()
    np.testing.assert_array_equal(far.v, near.v)


def test_projection_leaves_energy_and_closes_loops():
    """Projected after every step, over twenty seconds."""
    model, state = moving("four_bar")
    total, kinetic, opening, _ = followed(model, state, 20_000, project=True)
    assert np.abs(total - energy(model, state)).max() < 1e-3 * kinetic.max()
    assert opening.max() < 1e-12


def test_a_lane_of_nan_stays_alone():
    """Others are bitwise what they are without it; loops are closed and quaternions of unit length after every step."""
    model, q, _ = shipped("strider")
    v = jnp.asarray(np.random.default_rng(0).normal(size=(3, model.nv)))
    options = {"project": True, "integrator": jd.integrators.Leapfrog()}
    run = jax.jit(jax.vmap(lambda v: jd.simulate(model, jd.State(q, v), jnp.zeros((50, model.nv)), 1e-3, **options)))
    healthy, sick = run(v), run(v.at[1].set(jnp.nan))
    assert (succeeded(sick.result)[[0, 2], -1]).all() and not succeeded(sick.result)[1].any()
    for k in (0, 2):
        assert np.array_equal(healthy.q[k], sick.q[k]) and np.array_equal(healthy.v[k], sick.v[k])
    for end in healthy.q[:, -1]:
        assert np.abs(jd.constraint_residual(model, end)).max() < 1e-9
        assert abs(np.linalg.norm(end[3:7]) - 1) < 1e-15


@pytest.mark.parametrize("dt", [1e-3, 1e-2])
def test_velocities_that_leave_loops_are_pulled_back(dt):
    """With rows that are redundant where the loops are closed and contradict each other where they are open."""
    model, q, _ = shipped("strider")
    v = 0.5 * np.random.default_rng(1).normal(size=model.nv)
    _, _, opening, end = followed(model, jd.State(q, v), 300, every=10, dt=dt)
    assert opening[-1] < dt**2  # curved rows open by a part of dt² γ between midpoints
    assert np.isfinite(end.v).all() and np.abs(end.v).max() < 50


@pytest.mark.parametrize("solver", ["Dense", "LTL", "ProxLTL", "LCABA", "LTLSoft"])
def test_the_leapfrog_takes_any_solver(solver):
    """With the same result; soft rows give way."""
    model, state = moving("four_bar, fast")
    chosen = getattr(jd.solvers, solver)()
    move = lambda v, solver: jd.step(  # noqa: E731
        model, jd.State(state.q, v), jnp.zeros(3), 1e-3, solver=solver, integrator=jd.integrators.Leapfrog()
    )
    both = jax.jit(jax.value_and_grad(lambda v, solver: jnp.sum(move(v, solver).v ** 2)), static_argnums=1)
    (value, slope), (plain, wanted) = both(state.v, chosen), both(state.v, jd.solvers.Auto())
    close(value, plain, 1e-5 if chosen.soft else 1e-8)
    close(slope, wanted, 1e-3 if chosen.soft else 1e-6)


def solves(f, *args):
    """How many programs of forward dynamics, or of steps, one has."""
    text = str(jax.make_jaxpr(f)(*args))
    return len(re.findall(r"core=(?:ForwardDynamics|LeapCore|EulerStep)\(", text))


@pytest.mark.parametrize("name", ["Leapfrog", "SemiImplicitEuler", "RK4"])
def test_multipliers_take_no_solve_of_their_own(name):
    """Those of the kick, or of the first stage."""
    model, state = undamped()
    options = {"integrator": INTEGRATORS[name][0]}
    one = lambda s: jd.step(model, s, jnp.zeros(model.nv), 1e-3, **options)  # noqa: E731
    told = lambda s: jd.simulate(model, s, jnp.zeros((1, model.nv)), 1e-3, **options)  # noqa: E731
    assert solves(told, state) == solves(one, state) == (2 if name == "RK4" else 1)  # the other one is in a loop
    now = told(state)
    if name == "RK4":
        close(now.multipliers[0], jd.forward_dynamics(model, state, jnp.zeros(model.nv)).multipliers, 1e-9)


def test_projection_keeps_loops_closed():
    """To rounding after every step, velocities along the loops too, whatever the start."""
    model, state = undamped()
    state = jd.State(state.q, jnp.asarray([3.0, -2.0, 1.0]))
    taus = jnp.asarray(np.random.default_rng(0).normal(size=(200, model.nv)))
    traj = jax.jit(lambda m, s, u: jd.simulate(m, s, u, 2e-3, project=True))(model, state, taus)
    assert succeeded(traj.result)[1:].all()
    for k in range(1, 201, 20):
        q, v = np.asarray(traj.q[k]), np.asarray(traj.v[k])
        assert np.abs(oracle.constraint_residual(model, q)).max() < 1e-9
        assert np.abs(oracle.constraint_jacobian(model, q) @ v).max() < 1e-9


def test_simulate_is_repeated_steps_and_a_policy_is_tau():
    """Shapes, the start included; a policy of the state, with the same effect as the forces it gave; a warm start
    that changes nothing."""
    model, state = undamped()
    policy = lambda s, t: jnp.array([1.0, -0.3, 0.2]) * jnp.cos(5 * t) - 0.1 * s.v  # noqa: E731
    run = jax.jit(lambda m, s: jd.simulate(m, s, policy, 2e-3, steps=20, warm_start=True))
    traj = run(model, state)
    assert traj.q.shape == (21, model.nq) and traj.v.shape == (21, model.nv)
    assert traj.tau.shape == (20, model.nv) and traj.multipliers.shape == (20, 3) and succeeded(traj.result).all()
    close(traj.tau[3], policy(traj[3], 6e-3), 1e-12)
    again = jax.jit(lambda m, s, u: jd.simulate(m, s, u, 2e-3))(model, state, traj.tau)
    close(again.q, traj.q, 1e-10)
    close(again.v, traj.v, 1e-10)
    close(again.multipliers, traj.multipliers, 1e-7)
    for k, tau in enumerate(traj.tau):
        after = rolled(jd.integrators.SemiImplicitEuler())(model, traj[k], tau, 2e-3, 1)
        close(after.q, traj.q[k + 1], 1e-10)
        close(after.v, traj.v[k + 1], 1e-9)


@pytest.mark.parametrize("steps", [3, np.int64(3), np.array(3), jnp.asarray(3)])
def test_steps_are_any_whole_number(steps):
    model, state = undamped()
    found = jd.simulate(model, state, lambda s, t: jnp.zeros(model.nv), 2e-3, steps=steps)
    again = jd.simulate(model, state, found.tau, 2e-3, steps=steps)
    assert found.q.shape == again.q.shape == (4, model.nq)


@pytest.mark.parametrize("steps", [True, 3.0, np.bool_(True), np.ones(2, int), 0])
def test_steps_that_are_no_number_of_steps_are_refused(steps):
    model, state = undamped()
    with pytest.raises(ValueError, match="`simulate`: `steps` is .*; with a policy.* a whole number of at least 1"):
        jd.simulate(model, state, lambda s, t: jnp.zeros(model.nv), 2e-3, steps=steps)


def test_stiff_springs_and_dampers_are_implicit():
    """A damper that is a thousand times faster than the step, and a spring beside it: the joint comes to rest."""
    spec = jd.ModelSpec("stiff", gravity=(0, 0, 0))
    hinge = jd.joints.Revolute(axis=(0, 1, 0), damping=1e3, stiffness=1e5, rest=0.2)
    spec.add_body("rod", "world", hinge, inertia=bar(1e-3, (0, 0, -0.1)))
    model = spec.build()
    for name in ("Leapfrog", "SemiImplicitEuler", "ImplicitMidpoint"):
        integrator = INTEGRATORS[name][0]
        end = rolled(integrator)(model, jd.State([0.0], [5.0]), jnp.zeros(1), 1e-2, 400)
        close(end.q, [0.2], 1e-6)


def test_gradient_through_a_rollout():
    """Of the last state with respect to initial velocity, tau and masses, through a loop of gears."""
    robot = "geared_arm"
    model = CATALOGUE[robot].build()
    q, v, tau = (jnp.asarray(x[0]) for x in states(robot))
    taus = 0.1 * tau[None] * jnp.linspace(0.0, 1.0, 20)[:, None]
    along = jnp.asarray(np.random.default_rng(1).normal(size=(3, model.nv)))
    J = oracle.constraint_jacobian(model, np.asarray(q))
    dv = along[0] - jnp.asarray(np.linalg.pinv(J) @ J @ np.asarray(along[0]))

    def score(s):
        now = model.replace({"bodies.mass": model.bodies.mass * (1 + s[0])})
        end = jd.simulate(now, jd.State(q, v + s[1] * dv), taus + s[2] * along[1][None], 5e-3)
        return jnp.sum(jnp.sin(end.q[-1])) + jnp.sum(end.v[-1] ** 2)

    value, h = jax.jit(score), 1e-4
    wanted = [(value(h * e) - value(-h * e)) / (2 * h) for e in np.eye(3)]
    for derivative in (jax.grad, jax.jacfwd):
        close(jax.jit(derivative(score))(jnp.zeros(3)), wanted, 1e-6)


def test_gradients_of_a_fast_motion():
    """Reverse and forward, first and second derivatives, of the end of a four-bar at 13 rad/s, and of its
    multipliers."""
    model, state = moving("four_bar, fast")

    def score(s):
        now = model.replace({"bodies.mass": model.bodies.mass * (1 + s[0])})
        taus = jnp.tile(s[1:4], (20, 1))
        begin = jd.State(state.q, state.v * (1 + s[4]))
        traj = jd.simulate(now, begin, taus, 1e-3, integrator=jd.integrators.Leapfrog())
        return jnp.sum(jnp.sin(traj.q[-1])) + 1e-2 * jnp.sum(traj.v[-1] ** 2) + 1e-2 * jnp.sum(traj.multipliers[-1])

    zero, h = jnp.zeros(5), 1e-4
    slope = jax.jit(jax.grad(score))
    wanted = [(score(h * e) - score(-h * e)) / (2 * h) for e in np.eye(5)]
    close(slope(zero), wanted, 1e-6)
    close(jax.jit(jax.jacfwd(score))(zero), wanted, 1e-6)
    bends = [(slope(h * e) - slope(-h * e)) / (2 * h) for e in np.eye(5)]
    close(jax.jit(jax.hessian(score))(zero), np.stack(bends), 1e-5)


@functools.cache
def cassie():
    model = quiet(ROBOTS / "cassie_description/robots/cassie_v2.sdf")
    q = jd.assemble(model, model.neutral())
    assert model.constraints
    return model, q


@pytest.mark.slow
@pytest.mark.parametrize(("project", "seconds", "opening"), [(False, 10.0, 1e-4), (True, 2.0, 1e-9)])
def test_cassie_keeps_its_loops_closed(project, seconds, opening, record_property):
    """From an assembled pose, at a millisecond, swinging under gravity: the worst opening on the way."""
    model, q = cassie()

    @jax.jit
    def run(model, q):
        def body(s, _):
            s = jd.step(model, s, jnp.zeros(model.nv), 1e-3, project=project)
            return s, jnp.abs(jd.constraint_residual(model, s.q)).max()

        return jax.lax.scan(body, jd.State(q, jnp.zeros(model.nv)), length=round(seconds * 1000))

    end, worst = run(model, q)
    record_property("opening", float(worst.max()))
    print(f"Cassie opens by {float(worst.max()):.2e} m")
    assert np.isfinite(end.q).all() and float(jnp.abs(end.q - q).max()) > 0.01
    assert float(worst.max()) < opening


@pytest.mark.slow
def test_accelerations_go_with_their_multipliers():
    """Velocities leave Cassie's loops, whose redundant rows then contradict each other: the dynamics hold anyway, and
    the accelerations are those of dense algebra."""
    model, q = cassie()
    v = np.random.default_rng(0).normal(size=(4, model.nv))
    found = jax.jit(jax.vmap(lambda v: jd.forward_dynamics(model, jd.State(q, v), jnp.zeros(model.nv))))(v)
    assert found.stats.residual_dynamics.max() < 1e-9 * np.abs(found.multipliers).max()
    dense = np.stack([oracle.forward_dynamics(model, np.asarray(q), x, np.zeros(model.nv)).acceleration for x in v])
    assert np.abs(found.acceleration - dense).max() < 1e-9 * np.abs(dense).max()


def test_iteration_ends():
    """Over the states of a trajectory and over stacked poses; a single pose is none."""
    model = jd.load("four_bar")
    trajectory = jd.simulate(model, jd.State(model.neutral(), np.zeros(3)), np.zeros((4, 3)), 1e-3)
    states = list(itertools.islice(trajectory, 9))  # without an end, it would take all memory
    assert len(states) == len(trajectory) == 5
    np.testing.assert_array_equal([s.q for s in states], trajectory.q)
    poses = jd.forward_kinematics(model, trajectory.q[0])
    assert len(list(itertools.islice(poses, 9))) == model.nb
    with pytest.raises(TypeError, match="single pose"):
        list(itertools.islice(poses[0], 9))


def test_the_final_state_is_that_of_each_lane():
    model = jd.load("four_bar")
    start = jd.State(jnp.zeros((2, 3)), jnp.array([[0.1] * 3, [0.2] * 3]))
    batch = jax.vmap(lambda s: jd.simulate(model, s, np.zeros((4, 3)), 1e-3))(start)
    assert batch.final.q.shape == batch.final.v.shape == (2, 3)
    for k in range(2):
        one = jax.tree.map(lambda x, k=k: x[k], batch)
        assert np.array_equal(one.final.q, batch.final.q[k])
        assert np.array_equal(one.final.q, one[-1].q) and np.array_equal(one.final.v, one[-1].v)


@pytest.mark.parametrize("gains", (None, jd.constraints.Baumgarte(100.0, 5.0)))
def test_rows_with_a_target_follow_it(gains):
    """A crank that is driven against what its loop bears: by all methods of second order as on paper, with the same
    forces, and with the slope of a difference."""
    model, dt, T = jd.load("four_bar"), 1e-3, 200
    start = jd.State(jd.assemble(model, model.neutral()), jnp.zeros(3))

    @functools.partial(jax.jit, static_argnums=1)
    def moved(target, integrator):
        lock = jd.constraints.Lock("crank", position=start.q[:1], target=target[None], stabilization=gains)
        options = {"integrator": integrator, "constraints": (*model.constraints, lock)}
        found = jd.simulate(model, start, jnp.zeros((T, 3)), dt, **options)
        return found.q[-1, 0] - start.q[0], found.multipliers[-1, -1]

    t, leap = T * dt, jd.integrators.Leapfrog()
    angle = 3.0 * t**2 / 2
    if gains is not None:
        s = np.roots([1, 5.0, 100.0])
        a = np.linalg.solve([[1, 1], s], [-3.0 / 100, 0])
        angle = np.real(a @ np.exp(s * t)) + 3.0 / 100
    found, other = moved(jnp.array(3.0), leap), moved(jnp.array(3.0), jd.integrators.Gauss())
    np.testing.assert_allclose(found[0], angle, rtol=1e-4)
    np.testing.assert_allclose(found[1], other[1], rtol=1e-2)
    slope = jax.jit(jax.grad(lambda x: moved(x, leap)[0]))(jnp.array(3.0))
    np.testing.assert_allclose(slope, angle / 3.0, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_leapfrog_has_second_derivatives_at_rest(dtype):
    """A closed loop without gravity and forces: openings are of rounding, and so is what rows may open by."""
    model = jd.load("four_bar").replace({"gravity": np.zeros(3)})
    q = jd.assemble(model, model.neutral())
    along = jd.expand(jd.embed(model), jd.State(q, jnp.ones(1))).v
    model, q, along = jax.tree.map(lambda x: jnp.asarray(x, dtype), (model, q, along))

    def end(x):
        after = jd.step(model, jd.State(q, x[0] * along), x[1:], 1e-2, integrator=jd.integrators.Leapfrog())
        return after.v @ jnp.arange(1, 4, dtype=dtype)

    found = jax.jit(jax.hessian(end))(jnp.zeros(4, dtype))
    if dtype == "float64":
        each, end = 1e-3 * jnp.eye(4), jax.jit(end)
        wanted = [[end(a + b) - end(a - b) - end(b - a) + end(-a - b) for a in each] for b in each]
        np.testing.assert_allclose(found, np.array(wanted) / 4e-6, atol=1e-7)
        assert np.abs(found[0, 1:]).min() > 1e-4
    assert np.isfinite(found).all() and np.abs(found).max() > 1e-3


@pytest.mark.parametrize("gains", [(0.0, 0.0), (0.0, 10.0)])
def test_the_leapfrog_has_derivatives_by_gains_of_zero(gains):
    model = jd.load("four_bar")
    q = jd.assemble(model, model.neutral()) + jnp.array([0.0, 1e-6, 0.0])
    path = "constraints.0.stabilization."

    @jax.jit
    def end(k):
        held = model.replace({f"{path}stiffness": k, f"{path}damping": gains[1]})
        state = jd.State(q, jnp.zeros(3))
        return jd.step(held, state, jnp.zeros(3), 1e-2, integrator=jd.integrators.Leapfrog()).v[0]

    slope = jax.jit(jax.grad(end))(gains[0])
    if gains[1]:
        np.testing.assert_allclose(slope, (end(1e-2) - end(0.0)) / 1e-2, rtol=1e-4)
    else:  # the rate at which openings fade is a root, whose slope at zero is infinite
        assert slope == 0


def test_the_leapfrog_has_derivatives_at_rest():
    """Without gravity, a lock, and no force: nothing opens, and nothing moves."""
    spec = jd.ModelSpec("two", gravity=(0.0, 0.0, 0.0))
    for k, parent in enumerate(("world", "a")):
        inertia = jd.Inertia(1.0, (0.1, 0, 0), 0.1 * np.eye(3))
        spec.add_body("ab"[k], parent, jd.joints.Revolute(axis=(0, 1, 0)), inertia=inertia)
    model = spec.build()
    rest, lock = jd.State(model.neutral(), jnp.zeros(2)), (jd.constraints.Lock("a", position=[0.0]),)

    def end(force):
        tau = jnp.zeros((5, 2)).at[:, 1].set(force)
        leap = jd.integrators.Leapfrog()
        return jd.simulate(model, rest, tau, 1e-3, constraints=lock, integrator=leap).v[-1, 1]

    np.testing.assert_allclose(jax.grad(end)(0.0), (end(1e-3) - end(-1e-3)) / 2e-3, rtol=1e-9)


def test_steps_too_long_for_the_stabilisation_are_told():
    model = jd.load("four_bar")
    start = jd.State(model.neutral(), np.zeros(3))
    told = "`step`: steps of 0.011 s make the openings of constraint 'pin' grow; .* less than 0.0104 s"
    with pytest.warns(jd.ModelWarning, match=told):
        jd.step(model, start, np.zeros(3), 0.011)
    with pytest.warns(jd.ModelWarning, match="`simulate`: steps of 0.011 s"):
        jax.jit(lambda s: jd.simulate(model, s, np.zeros((2, 3)), 0.011))(start)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        jd.step(model, start, np.zeros(3), 0.010)
        jd.step(model, start, np.zeros(3), 0.011, project=True)
        jd.step(model, start, np.zeros(3), 0.011, integrator=jd.integrators.RK4())
        jax.jit(lambda dt: jd.step(model, start, np.zeros(3), dt))(0.011)
