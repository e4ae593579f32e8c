"""07 A geared leg: what rotors do to its torques, and motion with everything embedded.

The motors of a leg sit in its links, one behind a gear and one behind a belt that runs over both joints. `embed` makes
them part of the joints: the robot has two velocities, and the model includes the inertia and the gyroscopic moments of
the rotors.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxdyn as jd

#: gear ratio (rotor speed over joint speed), and the moment of inertia of a rotor, kg m²
RATIO, SPIN = 6.0, 8e-5


def leg(rotors=True, armature=0.0):
    """Return a thigh and a shin that hang from the world, with rotors, without, or with armature instead."""
    spec = jd.ModelSpec("leg")
    link = jd.Inertia(0.6, (0, 0, -0.1), np.diag([3e-3, 3e-3, 3e-4]))
    below = jd.Transform(np.eye(3), (0, 0, -0.2))
    for name, parent, place in (("pelvis", "world", None), ("thigh", "pelvis", None), ("shin", "thigh", below)):
        axis = (0, 0, 1) if name == "pelvis" else (0, 1, 0)
        joint = jd.joints.Revolute(axis=axis, armature=0.0 if name == "pelvis" else armature)
        spec.add_body(name, parent, joint, placement=place, inertia=link)
    if rotors:
        spec.add_rotor("gear", "pelvis", {"thigh": RATIO}, inertia=SPIN, axis=(0, 1, 0))
        spec.add_rotor("belt", "pelvis", {"thigh": RATIO, "shin": RATIO}, inertia=SPIN, axis=(0, 1, 0))
    return spec.build()


def main(steps=500, dt=2e-3, verbose=True):
    cut = leg()
    robot = jd.embed(cut)
    if verbose:
        print(f"{cut.nv} velocities with rotors of their own, {robot.nv} with rotors embedded")

    # torques for a given motion: exact, without rotors, and with their inertia as armature
    others = {"neglected": leg(rotors=False), "armature": leg(rotors=False, armature=RATIO**2 * SPIN)}
    angles = lambda t: jnp.array([0.3, 0.6, -0.9]) * jnp.sin(jnp.array([4.0, 9.0, 9.0]) * t)  # noqa: E731
    rates = jax.jacfwd(angles)

    def torques(t):
        v, a = rates(t), jax.jacfwd(rates)(t)
        q = jd.integrate(robot, robot.neutral(), angles(t))
        exact = jd.inverse_dynamics(robot, jd.State(q, v), a)
        return exact, {k: jd.inverse_dynamics(m, jd.State(q[:3], v), a) for k, m in others.items()}

    exact, rest = jax.jit(jax.vmap(torques))(jnp.arange(steps) * dt)
    size = jnp.sqrt(jnp.mean(exact**2))
    errors = {k: float(jnp.sqrt(jnp.mean((x - exact) ** 2)) / size) for k, x in rest.items()}
    for what, error in errors.items():
        print(f"  torques with rotors {what}: {100 * error:.1f} % off")

    # a swing, during which the rotors stay coupled to their joints
    start = jd.State(robot.neutral(), jnp.array([2.0, 3.0, -4.0]))
    swing = jax.jit(lambda s: jd.simulate(robot, s, jnp.zeros((steps, robot.nv)), dt))(start)
    slip = jnp.abs(jax.vmap(lambda q: jd.constraint_residual(cut, q))(swing.q)).max()
    print(f"  after {steps * dt:g} s rotors are off by {slip:.1e} rad")
    return {"errors": errors, "slip": float(slip)}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
