"""10 A biped with closed loops is dropped and stands.

Cassie, or the biped that jaxdyn ships if Cassie is not installed (`pip install example-robot-data`), falls on its feet;
PD control of its motors keeps it upright. Contact forces are computed for the robot with its loops closed.
"""

import dataclasses
import importlib.metadata
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jaxdyn as jd

#: stiffness, N m/rad, and damping, N m s/rad, of all motors
STIFFNESS, DAMPING = 1000.0, 100.0


@dataclasses.dataclass(frozen=True)
class Biped:
    """The differences between the two robots; names omit the side.

    `stance`: angles of the motors, and `springs`: angles of the springs under the robot's weight, at which both feet
    are level below the centre of mass; `outward`: the joint that turns a leg outwards; `heel` and `toe`: positions of
    the balls of a foot; `guess`: approximate angles of the other joints.
    """

    source: str | Path
    separator: str
    outward: str
    stance: dict[str, float]
    springs: dict[str, float]
    heel: tuple[float, float, float]
    toe: tuple[float, float, float]
    radius: float
    guess: dict[str, float] = dataclasses.field(default_factory=dict)

    def both(self, values):
        """Return the values of both sides by name; the hips are turned outwards, so that the feet stand apart."""
        mirrored = lambda side, name, x: -x if side == "right" and name == self.outward else x  # noqa: E731
        names = [(side, name) for side in ("left", "right") for name in values]
        return {f"{side}{self.separator}{name}": mirrored(side, name, values[name]) for side, name in names}


STRIDER = Biped(
    "strider",
    "_",
    "hip",
    {"hip": 0.2, "thigh": 0.1479, "shin": 0.0, "crank": -0.1244},
    {"lever": 0.0175},
    (-0.06, 0, -0.03),
    (0.12, 0, -0.03),
    0.02,
)


def cassie():
    """Return Cassie from the package example-robot-data, or None."""
    try:
        files = importlib.metadata.distribution("example-robot-data").files or ()
    except importlib.metadata.PackageNotFoundError:
        return None
    path = next((Path(str(f.locate())) for f in files if f.as_posix().endswith("cassie_v2.sdf")), None)
    stance = {"roll-op": 0.2, "yaw-op": 0.0, "pitch-op": 0.4656, "knee-op": -0.4, "tarsus-crank-joint": -1.601}
    guess = {"shin-tarsus-joint": 0.55, "crank-rod-joint": 1.5, "foot-op": -1.6}
    springs = {"knee-shin-joint": -0.0384, "tarsus-spring-joint": -0.0274}
    return path and Biped(path, "-", "roll-op", stance, springs, (-0.059, 0.103, 0), (0.079, -0.013, 0), 0.0168, guess)


def built(kind, friction=0.8):
    """Return the robot on the ground with two balls under each foot, its configuration in the stance, and a mask of its
    motors, 1 or 0 for each velocity."""
    spec = jd.load_spec(kind.source, collision="none")
    for foot in kind.both({"foot": None}):
        for end in ("heel", "toe"):
            ball, place = jd.shapes.Sphere(kind.radius), jd.Transform(np.eye(3), np.array(getattr(kind, end)))
            spec.add_shape(foot, ball, name=f"{foot} {end}", placement=place, friction=friction)
    spec.add_ground(friction=friction)
    robot = spec.build()
    stance, motors = kind.both(kind.stance), np.zeros(robot.nv)
    for joint in stance:
        motors[robot.v_slice(joint)] = 1.0
    held = stance | kind.both(kind.springs)
    guess = robot.neutral()
    for joint, angle in (held | kind.both(kind.guess)).items():
        guess = guess.at[robot.q_slice(joint)].set(angle)
    fixed: tuple = (jd.constraints.Weld(robot.body_names[0]),)  # the base is upright
    fixed += tuple(jd.constraints.Coupling((joint,), (1.0,), angle) for joint, angle in held.items())
    q = jd.assemble(robot, guess, constraints=robot.constraints + fixed)
    # joint dampers are integrated implicitly and may be arbitrarily strong
    return robot.replace({"joints.damping": robot.joints.damping + DAMPING * motors}), q, jnp.asarray(motors)


def main(kind=None, drop=0.02, seconds=3.0, dt=1e-3, verbose=True):
    kind = kind or cassie() or STRIDER
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jd.ModelWarning)  # Cassie's file contains entries that jaxdyn does not use
        robot, stance, motors = built(kind)

    # stiff motors hold the angles of the stance; their damping is that of the joints
    def policy(state, t):
        return STIFFNESS * motors * jd.difference(robot, state.q, stance)

    def motion(q, steps):
        start = jd.State(q, jnp.zeros(robot.nv))
        run = lambda s: jd.simulate(robot, s, policy, dt, steps=steps, contacts=jd.contact.PGS())  # noqa: E731
        return jax.jit(run)(start)

    height = robot.q_slice(robot.joint_names[0]).start + 2
    low = jd.contact.detect(robot, stance).gaps
    steps = round(seconds / dt)
    traj = motion(stance.at[height].add(drop - low.min()), steps)

    force = traj.contacts.impulses[:, :, 0].sum(1) / dt
    lands = int((force > 0).argmax())
    weight = float(-robot.gravity[2] * robot.bodies.mass.sum())
    end = traj[-1]
    got = {
        "robot": robot.name,
        "trajectory": traj,
        "lands": lands * dt,
        "peak": float(force.max()) / weight,
        "load": float(force[-1]) / weight,
        "upright": float(1 - 2 * (end.q[height + 2] ** 2 + end.q[height + 3] ** 2)),
        "speed": float(jnp.abs(end.v[:6]).max()),
        "opening": float(jnp.abs(jax.vmap(lambda q: jd.constraint_residual(robot, q))(traj.q)).max()),
        "overlap": float(-traj.contacts.gaps.min()),
        "failed": int((traj.result != jd.Result.successful).sum()),
    }
    if verbose:
        print(f"{robot.name}: {robot.nv} velocities, {len(robot.constraints)} loops, {len(low)} slots of contact")
        print(f"  lands after {got['lands']:.3f} s with {got['peak']:.1f} times its weight")
        print(f"  after {seconds:g} s its feet carry {got['load']:.4f} of its weight,")
        print(f"  and its base moves at {got['speed']:.1e} m/s or rad/s")
        print(f"  loops open by {got['opening']:.1e} m at most, feet are {1e3 * got['overlap']:.4f} mm in the ground")
        print(f"  {got['failed']} of {steps} steps without a full solution")
    return got


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
