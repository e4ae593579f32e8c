"""Robots that stand: Go1 on four balls, Talos on eight points, Cassie with its loops on four balls.

Only the feet have shapes, so that all engines have the same contacts. Robots come from `example-robot-data`.
"""

import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from systems import described

import jaxdyn as jd

#: scale of the random torques (N m) and velocities (m/s, rad/s), and the time step in seconds
PUSH, SPEED, DT = 3.0, 0.3, 2e-3
#: downward velocity of the robots, m/s
DOWN = 0.4
GO1, TALOS = ("FR", "FL", "RR", "RL"), (("left", "right"), (-0.1, 0.1), (-0.06, 0.06))


class Standing(NamedTuple):
    """A robot in a pose with its lowest foot on the ground, and the coefficient of friction."""

    model: jd.Model
    q: jax.Array
    friction: float


class Batch(NamedTuple):
    """States around a pose, near the ground or above it, and torques, all of shape (n, ...)."""

    q: jax.Array
    v: jax.Array
    tau: jax.Array


def standing(path: str, feet: tuple, friction: float, pose: dict, **options) -> Standing:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jd.ModelWarning)
        spec = jd.load_spec(described(path), collision="none", **options)
        for k, (frame, place, radius) in enumerate(feet):
            where = jd.Transform(np.eye(3), np.array(place))
            spec.add_shape(frame, jd.shapes.Sphere(radius), name=f"foot {k}", placement=where, friction=friction)
        spec.add_ground(friction=friction)
        model = spec.build()
    q = np.array(model.neutral())
    for joint, angle in pose.items():
        q[model.q_slice(joint)] = angle
    if model.constraints:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jd.ModelWarning)
            q = np.array(jd.assemble(model, q))
    return Standing(model, lifted(model, jnp.asarray(q), 0.0), friction)


def gaps(model: jd.Model, q) -> jax.Array:
    """Return the gaps of all contact slots, computed by a step."""
    law = jd.contact.PGS(1, limits=False, dry_friction=False)
    rest = jd.State(q, jnp.zeros(model.nv, q.dtype))
    return jd.simulate(model, rest, jnp.zeros((1, model.nv), q.dtype), 1e-3, contacts=law).contacts.gaps[0]


def lifted(model: jd.Model, q, height) -> jax.Array:
    """Return `q` with the base moved up or down so that the lowest foot is at `height` above the ground."""
    base = model.q_slice(model.joint_names[0]).start + 2
    return q.at[base].add(height - gaps(model, q).min())


def go1() -> Standing:
    feet = tuple((f"{leg}_foot", (0.0, 0.0, 0.0), 0.02) for leg in GO1)
    pose = {f"{leg}_{joint}_joint": x for leg in GO1 for joint, x in (("thigh", 0.9), ("calf", -1.8))}
    return standing("go1_description/urdf/go1.urdf", feet, 0.6, pose, floating=True)


def talos() -> Standing:
    sides, along, across = TALOS
    feet = tuple((f"{side}_sole_link", (x, y, 0.0), 1e-6) for side in sides for x in along for y in across)
    pose = {f"leg_{side}_{k}_joint": x for side in sides for k, x in ((3, -0.4), (4, 0.8), (5, -0.4))}
    return standing("talos_data/robots/talos_reduced.urdf", feet, 0.7, pose, floating=True)


def cassie() -> Standing:
    ends = ((-0.059, 0.103, 0.0), (0.079, -0.013, 0.0))
    level = {"pitch-op": 0.5, "knee-op": -0.4, "shin-tarsus-joint": 0.4, "tarsus-crank-joint": -1.6}
    level |= {"crank-rod-joint": 1.6, "foot-op": -1.6}
    pose = {f"{side}-{joint}": x for side in ("left", "right") for joint, x in level.items()}
    feet = tuple((f"{side}-foot", end, 0.0168) for side in ("left", "right") for end in ends)
    return standing("cassie_description/robots/cassie_v2.sdf", feet, 0.8, pose)


ROBOTS = {"go1": go1, "talos": talos, "cassie": cassie}


def batch(robot: Standing, n: int, height: float | None = None, seed: int = 0) -> Batch:
    """Return random states around the pose, with the lowest foot within 0.2 mm of the ground or at `height`."""
    model, rng = robot.model, np.random.default_rng(seed)
    v, d = SPEED * rng.normal(size=(n, model.nv)), 0.02 * rng.normal(size=(n, model.nv))
    low = jnp.asarray(rng.uniform(-2e-4, 2e-4, n) if height is None else np.full(n, height))
    tau = PUSH * rng.normal(size=(n, model.nv))
    tau[:, :6] = 0

    def state(d, v, low):
        q = jd.integrate(model, robot.q, d, 1.0)
        if model.constraints:
            q = jd.assemble(model, q)
            v = jd.impulse(model, jd.State(q, v)).velocity
        return lifted(model, q, low), v.at[2].add(-DOWN)  # the whole robot moves, so that loops stay closed

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jd.ModelWarning)
        q, v = jax.jit(jax.vmap(state))(jnp.asarray(d), jnp.asarray(v), low)
    return Batch(q, v, jnp.asarray(tau))
