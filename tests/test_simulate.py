"""Time integration: order of convergence, what is conserved, loops that stay closed, gradients through rollouts."""

import functools

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
    "SemiImplicitEuler": (jd.integrators.SemiImplicitEuler(), 1),
    "ImplicitMidpoint": (jd.integrators.ImplicitMidpoint(), 2),
    "RK4": (jd.integrators.RK4(), 4),
    "Gauss": (jd.integrators.Gauss(), 4),
}


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
    for name, tolerance in (("RK4", 1e-9), ("ImplicitMidpoint", 1e-5)):
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


def test_stiff_springs_and_dampers_are_implicit():
    """A damper that is a thousand times faster than the step, and a spring beside it: the joint comes to rest."""
    spec = jd.ModelSpec("stiff", gravity=(0, 0, 0))
    hinge = jd.joints.Revolute(axis=(0, 1, 0), damping=1e3, stiffness=1e5, rest=0.2)
    spec.add_body("rod", "world", hinge, inertia=bar(1e-3, (0, 0, -0.1)))
    model = spec.build()
    for integrator in (jd.integrators.SemiImplicitEuler(), jd.integrators.ImplicitMidpoint()):
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

    gradient = jax.jit(jax.grad(score))(jnp.zeros(3))
    value, h = jax.jit(score), 1e-4
    for k, e in enumerate(np.eye(3)):
        wanted = (value(h * e) - value(-h * e)) / (2 * h)
        close(gradient[k], wanted, 1e-6)


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
def test_accelerations_go_with_the_multipliers_that_are_read():
    """Velocities leave Cassie's loops, whose redundant rows then contradict each other: the dynamics hold anyway."""
    model, q = cassie()
    v = np.random.default_rng(0).normal(size=(4, model.nv))
    solve = jax.jit(jax.vmap(lambda v: jd.forward_dynamics(model, jd.State(q, v), jnp.zeros(model.nv))))
    assert solve(v).stats.residual_dynamics.max() < 1e-10
