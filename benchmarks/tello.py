"""Legs like Tello's, whose motors drive hips, knees and ankles in pairs, by differentials. Masses, lengths and the
differentials' conditions φ are those of the models of constraint_embedding (ROAM-Lab-ND/generalized_rbda, MIT)."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from geared_robots import Geared, X, Y, Z, at

import jaxdyn as jd
from jaxdyn.constraints import Transmission

RATIO = 6.0
#: moments of inertia of a rotor about its axis and across it, kg m²
SPIN, ACROSS = 5.1512e-5, 2.5984e-5
#: joints of a leg without rotors, and motors
LINKS = ("clamp", "gimbal", "thigh", "shin", "foot")
MOTORS = ("clamp_rotor", "hip_rotor_1", "hip_rotor_2", "knee_rotor_1", "knee_rotor_2")


def hip(q):
    """Return φ of two rotors and the angles of gimbal and thigh."""
    gimbal, thigh = q[2], q[3]
    found = []
    for y, side in ((q[0] / RATIO, 1.0), (q[1] / RATIO, -1.0)):
        of_gimbal = -0.0098 * jnp.cos(gimbal) - side * 0.01995 * jnp.sin(gimbal)
        of_both = -0.0228 * jnp.cos(gimbal) * jnp.sin(thigh) + side * 0.0112 * jnp.sin(gimbal) * jnp.sin(thigh)
        of_motor = 0.0228 * jnp.sin(y) - 0.0128 * jnp.cos(y) * jnp.cos(thigh)
        of_all = -side * 0.0112 * jnp.sin(y) * jnp.sin(gimbal) - 0.0128 * jnp.cos(gimbal) * jnp.sin(y) * jnp.sin(thigh)
        found.append(of_gimbal + of_both + of_motor + of_all + 0.01888125)
    return jnp.stack(found)


def knee(q):
    """Return φ of two rotors and the angles of shin and foot: the mean of both rotors turns the shin."""
    one, two, shin, foot = q[0] / RATIO, q[1] / RATIO, q[2], q[3]
    apart, pi = (one - two) / 2, np.pi
    bars = 0.00336 * jnp.cos(apart + 1979 * pi / 4500) - 0.0208 * jnp.cos(apart + 493 * pi / 1500)
    rods = -0.0028 * jnp.sin(apart + foot + 231 * pi / 500) - 0.02184 * np.cos(pi / 9)
    ankle = 0.0182 * jnp.sin(foot + 2 * pi / 15) - 0.00294 * jnp.sin(foot + pi / 45)
    return jnp.stack([bars + rods + ankle + 163349 / 6250000, shin - (one + two) / 2])


def _inertia(mass, center, diagonal, xz=0.0) -> jd.Inertia:
    rotational = np.diag(diagonal)
    rotational[0, 2] = rotational[2, 0] = xz
    return jd.Inertia(mass, center, rotational)


def _motor(robot: Geared, name: str, parent: str, axis, placement) -> None:
    """Add a rotor without its coupling to the joints."""
    if robot.rotors == "geared":
        along = np.outer(axis, axis)
        robot.link(
            name, parent, axis, placement, jd.Inertia(0.07, np.zeros(3), ACROSS * np.eye(3) + (SPIN - ACROSS) * along)
        )
        robot.spec.add_actuator(name, name)


def _leg(robot: Geared, tag: str, side: float, armature) -> None:
    joint = lambda name: f"{tag}_{name}"  # noqa: E731
    more = dict(zip(LINKS, armature, strict=True))

    def link(name, parent, axis, placement, *inertia):
        return robot.link(joint(name), parent, axis, placement, _inertia(*inertia), more[name])

    _motor(robot, joint("clamp_rotor"), "world", -Z, at(0, side * 0.126, -0.026))
    clamp = link(
        "clamp", "world", Z, at(0, side * 0.126, -0.087), 1.3289, (-0.001, 0, -0.0069), (3.2e-3, 3.3e-3, 2.7e-3), 1e-4
    )
    for k, out in ((1, 1.0), (2, -1.0)):
        _motor(robot, joint(f"hip_rotor_{k}"), clamp, out * Y, at(0, out * 0.04, 0))
    gimbal = link("gimbal", clamp, X, at(0, 0, -0.1425), 0.4433, (-0.0027, 0, 0.0258), (1.8e-3, 1.7e-3, 1.5e-3))
    thigh = link("thigh", gimbal, Y, at(), 1.5424, (0.003, -1e-4, -0.0323), (0.0103, 9.7e-3, 2.7e-3), -5e-4)
    for k, out in ((1, -1.0), (2, 1.0)):
        _motor(robot, joint(f"knee_rotor_{k}"), thigh, out * Y, at(0, -out * 0.02655, 0))
    shin = link("shin", thigh, Y, at(0, 0, -0.2268), 0.3072, (0.0047, -3e-4, -0.1043), (5.4e-3, 5.4e-3, 1e-4), -2e-4)
    link("foot", shin, Y, at(0, 0, -0.26), 0.1025, (0.0042, 0, -0.0251), (9.4e-5, 1.773e-4, 9.01e-5), -3.8e-6)
    if robot.rotors == "geared":
        gear = jd.constraints.Coupling(
            (joint("clamp_rotor"), clamp), (-1 / RATIO, 1.0), name=joint("gear"), stabilization=None
        )
        robot.spec.add_constraint(gear)
        for name, fn, ends in (("hip", hip, (gimbal, thigh)), ("knee", knee, (shin, joint("foot")))):
            joints = (joint(f"{name}_rotor_1"), joint(f"{name}_rotor_2"), *ends)
            robot.spec.add_constraint(Transmission(joints, fn, 2, name=joint(name), stabilization=None))
    else:
        for name in LINKS:
            robot.spec.add_actuator(joint(name), joint(name))


def legs(rotors: str = "geared", sides: tuple[str, ...] = ("left", "right")) -> jd.Model:
    """Return legs fixed to the world. `rotors` as in `Geared`; armature is the inertia of the rotors reflected at the
    joints in the neutral configuration."""
    robot = Geared("tello", rotors)
    armature = reflected() if rotors == "armature" else np.zeros(len(LINKS))
    for tag in sides:
        _leg(robot, tag, 1.0 if tag == "left" else -1.0, armature)
    return robot.build()


def ratios(model: jd.Model, q) -> jax.Array:
    """Return the derivatives (5, 5) of the velocities of the left leg's joints with respect to those of its motors."""
    at = np.array([model.topology.v_starts[model.topology.joint(f"left_{name}")] for name in LINKS])
    return jax.vmap(lambda w: jd.expand(model, jd.State(q, w)).v[at], out_axes=1)(jnp.eye(model.nv))


@functools.cache
def reflected() -> np.ndarray:
    """Return the inertias of the rotors reflected at the joints of a leg, each with the other joints at rest."""
    model = jd.embed(legs(sides=("left",)))
    turns = np.linalg.inv(np.asarray(ratios(model, model.neutral())))
    return SPIN * (turns**2).sum(0)
