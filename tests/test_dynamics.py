"""Dynamics of the tree against dense algebra: mass matrix, forces, energies, momenta, motions of frames."""

import compiled
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import oracle_bodies
import pytest
from catalogue import CATALOGUE
from compiled import close, states, wrenches

import jaxdyn as jd

#: every kind of joint, a free one below another, gears beside; springs, dampers, armature
ROBOTS = ("joints_floating", "joints_grounded", "quadruped", "geared_arm", "parent_and_child")
FRAMES = {"quadruped": "left_foot", "joints_floating": "screw", "fixed_links": "tool"}
TOLERANCE = 1e-10


@compiled.mapped
def quantities(model, q, v, a, external):
    state = jd.State(q, v)
    return {
        "mass_matrix": jd.mass_matrix(model, q),
        "bias_forces": jd.bias_forces(model, state),
        "gravity_forces": jd.gravity_forces(model, q),
        "passive_forces": jd.passive_forces(model, state),
        "inverse_dynamics": jd.inverse_dynamics(model, state, a, external=external),
        "kinetic_energy": jd.kinetic_energy(model, state),
        "potential_energy": jd.potential_energy(model, q),
        "center_of_mass": jd.center_of_mass(model, q),
        "centroidal_momentum": jd.centroidal_momentum(model, state),
        "poses": jd.forward_kinematics(model, q),
    }


@pytest.mark.parametrize("robot", ROBOTS)
def test_dynamics(robot):
    model = CATALOGUE[robot].build()
    q, v, a = states(robot)
    got = quantities(model, *map(jnp.asarray, (q, v, a, wrenches(robot))))
    for k, x in enumerate(wrenches(robot)):
        at = jax.tree.map(lambda y, k=k: y[k], got)
        R, p = oracle.poses(model, q[k])
        close(at["poses"].rotation, R, TOLERANCE)
        close(at["poses"].translation, p, TOLERANCE)
        close(at["mass_matrix"], oracle.mass_matrix(model, q[k]), TOLERANCE)
        close(at["bias_forces"], oracle.bias_forces(model, q[k], v[k]), TOLERANCE)
        close(at["gravity_forces"], oracle.gravity_forces(model, q[k]), TOLERANCE)
        close(at["passive_forces"], oracle.passive_forces(model, q[k], v[k]), TOLERANCE)
        close(at["inverse_dynamics"], oracle.inverse_dynamics(model, q[k], v[k], a[k], x), TOLERANCE)
        close(at["kinetic_energy"], oracle.kinetic_energy(model, q[k], v[k]), TOLERANCE)
        potential = oracle.gravity_energy(model, q[k]) + oracle.spring_energy(model, q[k])
        close(at["potential_energy"], potential, TOLERANCE)
        close(at["center_of_mass"], oracle.center_of_mass(model, q[k]), TOLERANCE)
        close(at["centroidal_momentum"], oracle.centroidal_momentum(model, q[k], v[k]), TOLERANCE)


@pytest.mark.parametrize(("robot", "frame"), FRAMES.items())
def test_frames(robot, frame):
    """Poses, velocities, accelerations and Jacobians of bodies and frames."""
    model = CATALOGUE[robot].build()

    def motions(model, q, v, a):
        state = jd.State(q, v)
        return (
            jd.frame_pose(model, q, frame),
            jd.frame_velocity(model, state, frame),
            jd.frame_acceleration(model, state, a, frame),
            jd.jacobian(model, q, frame),
            jd.jacobian(model, q, frame, reference="world_aligned"),
            jd.frame_velocity(model, state, frame, reference="world_aligned"),
            jd.frame_acceleration(model, state, a, frame, reference="world_aligned"),
        )

    q, v, a = states(robot)
    robot = oracle.read(model)
    found = compiled.mapped(motions)(model, *map(jnp.asarray, (q, v, a)))
    pose, velocity, acceleration, local, aligned, velocity_aligned, acceleration_aligned = found
    for k in range(len(q)):
        f = oracle.attached(robot, oracle.body_frames(robot, q[k]), frame)
        close(pose.rotation[k], f.R, TOLERANCE)
        close(pose.translation[k], f.p, TOLERANCE)
        J = oracle.frame_jacobian(robot, q[k], frame, "world_aligned")
        close(aligned[k], J, TOLERANCE)
        close(local[k], oracle.frame_jacobian(robot, q[k], frame), TOLERANCE)
        close(velocity[k], oracle.frame_jacobian(robot, q[k], frame) @ v[k], TOLERANCE)
        close(velocity_aligned[k], J @ v[k], TOLERANCE)

        # classical acceleration: the rate of the world-aligned velocity, seen in the frame
        def rate(x, k=k):
            return oracle.frame_jacobian(robot, x, frame, "world_aligned") @ v[k]

        classical = J @ a[k] + oracle_bodies.along(robot, q[k], v[k], rate)
        close(acceleration[k], np.concatenate([f.R.T @ classical[:3], f.R.T @ classical[3:]]), TOLERANCE)
        close(acceleration_aligned[k], classical, TOLERANCE)


def test_the_world_as_a_frame():
    model = CATALOGUE["pendulum"].build()
    state = jd.State([0.3], [1.0])
    close(jd.frame_pose(model, state.q, "world").rotation, np.eye(3), 0)
    close(jd.frame_velocity(model, state, "world"), np.zeros(6), 0)
    close(jd.frame_acceleration(model, state, [2.0], "world"), np.zeros(6), 0)


def test_numbers_worked_out_by_hand():
    """A point mass on a rod about y: m l² q̈ + m g l sin q = tau, energies and momentum at the bottom."""
    m, l, g = 2.0, 0.5, 9.81
    spec = jd.ModelSpec("pendulum", gravity=(0, 0, -g))
    spec.add_body(
        "rod", "world", jd.joints.Revolute(axis=(0, 1, 0)), inertia=jd.Inertia(m, (0, 0, -l), 1e-12 * np.eye(3))
    )
    model = spec.build()
    angle, speed = 0.4, 1.5
    state = jd.State([angle], [speed])
    close(jd.mass_matrix(model, state.q), [[m * l * l]], 1e-11)
    close(jd.gravity_forces(model, state.q), [m * g * l * np.sin(angle)], 1e-11)
    close(jd.bias_forces(model, state), [m * g * l * np.sin(angle)], 1e-11)
    close(jd.potential_energy(model, state.q), -m * g * l * np.cos(angle), 1e-11)
    close(jd.kinetic_energy(model, state), m * (l * speed) ** 2 / 2, 1e-11)
    close(jd.center_of_mass(model, state.q), [-l * np.sin(angle), 0, -l * np.cos(angle)], 1e-12)
    swing = m * l * speed * np.array([-np.cos(angle), 0, np.sin(angle)])
    close(jd.centroidal_momentum(model, state)[:3], swing, 1e-11)
    got = jd.forward_dynamics(model, state, [0.0]).acceleration
    close(got, [-g / l * np.sin(angle)], 1e-10)
