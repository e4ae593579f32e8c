"""08 A quadruped stands up and walks.

A robot with twelve servos lies on its belly, pushes itself up, and trots; its servos make its feet follow a simple
path. Contacts of its four feet and its trunk with the ground support it.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxdyn as jd

#: lengths of thigh and shin and radius of the foot, m; the legs in order, with the signs of their hips in x and y
THIGH, SHIN, FOOT = 0.2, 0.2, 0.02
LEGS = {"front_left": (1, 1), "front_right": (1, -1), "hind_left": (-1, 1), "hind_right": (-1, -1)}
#: of all servos: stiffness, N m/rad; damping, N m s/rad; torque limit, N m
STIFFNESS, DAMPING, STRONGEST = 200.0, 5.0, 40.0


def at(x, y, z):
    return jd.Transform(np.eye(3), (x, y, z))


def rod(mass, length):
    """Return the inertia of a slender rod that hangs from its joint."""
    across = mass * length**2 / 12
    return jd.Inertia(mass, (0, 0, -length / 2), np.diag([across, across, across / 10]))


def quadruped(friction=0.7):
    """Return a trunk of 8 kg with four legs: a hip joint sideways, a hip joint forwards and backwards, and a knee."""
    spec, size = jd.ModelSpec("quadruped"), np.array([0.45, 0.2, 0.1])
    box = 8.0 / 12 * np.diag([size[1] ** 2 + size[2] ** 2, size[0] ** 2 + size[2] ** 2, size[0] ** 2 + size[1] ** 2])
    spec.add_body("trunk", "world", jd.joints.Free(), inertia=jd.Inertia(8.0, (0, 0, 0), box))
    spec.add_shape("trunk", jd.shapes.Box(size), friction=0.5)
    for leg, (x, y) in LEGS.items():
        side = jd.joints.Revolute(axis=(1, 0, 0), armature=0.01)
        hip, knee = (jd.joints.Revolute(axis=(0, 1, 0), armature=0.01) for _ in range(2))
        small = jd.Inertia(0.4, (0, 0, 0), 4e-4 * np.eye(3))
        spec.add_body(f"{leg}_side", "trunk", side, placement=at(0.18 * x, 0.08 * y, 0), inertia=small)
        spec.add_body(f"{leg}_hip", f"{leg}_side", hip, placement=at(0, 0.06 * y, 0), inertia=rod(0.6, THIGH))
        spec.add_body(f"{leg}_knee", f"{leg}_hip", knee, placement=at(0, 0, -THIGH), inertia=rod(0.2, SHIN))
        for part in ("side", "hip", "knee"):
            law = {"gain": STIFFNESS, "stiffness": STIFFNESS, "damping": DAMPING}
            spec.add_actuator(f"{leg}_{part}", **law, limits=(-STRONGEST, STRONGEST))
        foot = jd.shapes.Sphere(FOOT)
        spec.add_shape(f"{leg}_knee", foot, name=f"{leg}_foot", placement=at(0, 0, -SHIN), friction=friction)
    spec.add_ground(friction=0.1)
    return spec.build()


def angles(x, z):
    """Return the angles of hip and knee that put the foot x m in front of the hip and z m below it."""
    reach = jnp.sqrt(x * x + z * z)
    knee = jnp.arccos(jnp.clip((THIGH**2 + SHIN**2 - reach**2) / (2 * THIGH * SHIN), -1, 1)) - jnp.pi
    return -jnp.arctan2(x, z) - knee / 2, knee


def gait(t, stride, period, low=0.09, high=0.29, up=1.0):
    """Return the desired positions of the feet relative to their hips, x and z (4,): rise for `up` seconds and trot."""
    height = low + (high - low) * jnp.clip(t / up, 0, 1)
    phase = (t / period + jnp.array([0, 0.5, 0.5, 0])) % 1  # diagonal legs swing together
    swings = phase < 0.5
    along = jnp.where(
        swings, -0.5 * jnp.cos(2 * jnp.pi * phase), 1.5 - 2 * phase
    )  # forwards in the air, then backwards on the ground
    grows = jnp.clip((t - up - 0.5) / period, 0, 1)
    lift = 0.08 * jnp.sin(2 * jnp.pi * phase) * swings
    return grows * stride * along, height - grows * lift


def main(seconds=4.0, stride=0.1, period=0.4, dt=2e-3, verbose=True):
    robot = quadruped()
    motors = {
        part: np.array([robot.v_slice(f"{leg}_{part}").start for leg in LEGS]) for part in ("side", "hip", "knee")
    }

    def wanted(t):
        """Return the desired angles of all joints, indexed like v."""
        hip, knee = angles(*gait(t, stride, period))
        return jnp.zeros(robot.nv).at[motors["hip"]].set(hip).at[motors["knee"]].set(knee)

    def policy(state, t):
        angle, rate = jax.jvp(wanted, (t,), (jnp.ones_like(t),))
        return jd.Commands((angle + DAMPING / STIFFNESS * rate)[6:])  # so that the dampers do not resist this motion

    lying = robot.neutral().at[7:].set(wanted(0.0)[6:]).at[2].set(0.05 + 1e-3)
    start, steps = jd.State(lying, jnp.zeros(robot.nv)), round(seconds / dt)
    run = jax.jit(lambda s: jd.simulate(robot, s, policy, dt, steps=steps, contacts=jd.contact.PGS()))
    traj = run(start)

    stands, ends = round(1.4 / dt), steps
    feet = np.array([f"{leg}_foot" == a for a, _ in traj.contacts.pairs for leg in LEGS]).reshape(-1, 4).any(1)
    force = traj.contacts.impulses[:, :, 0] / dt
    walked = traj.q[ends, :2] - traj.q[round(2.0 / dt), :2]
    speed = float(walked[0]) / (seconds - 2.0)
    weight = float(-robot.gravity[2] * robot.bodies.mass.sum())
    load = float(force[round(2.0 / dt) :].sum(1).mean())
    upright = 1 - 2 * (traj.q[:, 4] ** 2 + traj.q[:, 5] ** 2)  # component of the trunk's z axis along the world's
    got = {
        "lying": float(traj.q[0, 2]),
        "height": float(traj.q[stands, 2]),
        "speed": speed,
        "wanted": 2 * stride / period,
        "sideways": float(jnp.abs(traj.q[:, 1]).max()),
        "upright": float(upright.min()),
        "load": load / weight,
        "belly": float(force[stands:][:, ~feet].max()),
        "failed": int((traj.result != jd.Result.successful).sum()),
    }
    if verbose:
        print(f"{robot.name}: {robot.nv} velocities, {len(feet)} slots of contact")
        print(f"  stands up from {got['lying']:.2f} to {got['height']:.3f} m")
        print(f"  walks at {speed:.2f} m/s; its feet move at {got['wanted']:.2f} m/s")
        print(f"  the ground carries {100 * got['load']:.1f} % of its weight on average")
        print(f"  upright to {got['upright']:.3f}, {got['failed']} of {steps} steps without a full solution")
    return got


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
