"""09 Boxes slide, tip and stack.

Of three boxes on a slope with friction, one slides, one stays, and a tall one tips over. Others fall on each other and
form a tower. The results are compared with analytic solutions.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxdyn as jd

GRAVITY = 9.81


def boxes(sizes, friction, slope=0.0, density=500.0):
    """Return free boxes on ground that descends along x by `slope` radians; gravity is tilted instead of the ground."""
    spec = jd.ModelSpec("boxes", gravity=(GRAVITY * np.sin(slope), 0, -GRAVITY * np.cos(slope)))
    for name, size in sizes.items():
        size = np.asarray(size)
        mass, square = density * size.prod(), size**2
        inertia = jd.Inertia(mass, (0, 0, 0), mass / 12 * np.diag(square.sum() - square))
        spec.add_body(name, "world", jd.joints.Free(), inertia=inertia)
        spec.add_shape(name, jd.shapes.Box(size), friction=friction[name])
    spec.add_ground(friction=0.0)  # of two shapes, the larger friction counts
    return spec.build()


def placed(model, places):
    """Return the state at rest with upright boxes centred at `places`."""
    q = np.array(model.neutral())
    for place, joint in zip(places, model.joint_names, strict=True):
        at = model.q_slice(joint).start
        q[at : at + 3] = place
    return jd.State(jnp.asarray(q), jnp.zeros(model.nv))


def moved(model, state, steps, dt):
    """Simulate the motion under gravity and contact only."""
    law = jd.contact.PGS(sweeps=100)
    return jax.jit(lambda s: jd.simulate(model, s, jnp.zeros((steps, model.nv), s.q.dtype), dt, contacts=law))(state)


def middles(model, traj):
    """Return the centres of the boxes (T + 1, boxes, 3)."""
    return jnp.stack([traj.q[:, model.q_slice(j).start :][:, :3] for j in model.joint_names], 1)


def on_a_slope(slope=0.6, seconds=0.5, dt=2e-3):
    sizes = {"slippery": (0.2, 0.2, 0.1), "rough": (0.2, 0.2, 0.1), "tall": (0.1, 0.2, 0.3)}
    model = boxes(sizes, {"slippery": 0.3, "rough": 0.8, "tall": 0.8}, slope)
    model = model.with_pairs([(name, "ground") for name in sizes])  # they stand apart and do not touch
    start = placed(model, [(0, y, size[2] / 2) for y, size in zip((-1, 0, 1), sizes.values(), strict=True)])
    steps = round(seconds / dt)
    traj = moved(model, start, steps, dt)
    slippery, rough, tall = (model.v_slice(j).start for j in model.joint_names)
    turn = traj.q[:, model.q_slice(model.joint_names[2]).start :][:, 3:7]  # quaternion of the tall box
    return {
        "slides": float(traj.v[-1, slippery]) / seconds,
        "paper": GRAVITY * (np.sin(slope) - 0.3 * np.cos(slope)),
        "creeps": float(jnp.abs(traj.v[1:, rough : rough + 6]).max()),
        "tilt": float(2 * jnp.arctan2(jnp.linalg.norm(turn[-1, 1:]), turn[-1, 0])),
        "failed": int((traj.result != jd.Result.successful).sum()),
    }


def tower(count=4, seconds=2.0, dt=2e-3):
    size = 0.2
    sizes = {f"box {k}": (size, size, size) for k in range(count)}
    model = boxes(sizes, dict.fromkeys(sizes, 0.6))
    names = ["ground", *sizes]
    model = model.with_pairs(list(zip(names[1:], names[:-1], strict=True)))  # each on the one below
    fall = [(0.01 * (-1) ** k, 0, size / 2 + k * (size + 0.005) + 0.005) for k in range(count)]
    traj = moved(model, placed(model, fall), round(seconds / dt), dt)
    above = middles(model, traj)[-1, :, 2] - size * (np.arange(count) + 0.5)
    weights = GRAVITY * model.bodies.mass * np.arange(count, 0, -1)  # each contact carries its box and all boxes above
    force = traj.contacts.impulses[-1, :, 0].reshape(count, -1).sum(1) / dt
    return {
        "sinks": float(jnp.abs(above).max()),
        "speed": float(jnp.abs(traj.v[-1]).max()),
        "loads": float(jnp.abs(force / weights - 1).max()),
        "failed": int((traj.result != jd.Result.successful).sum()),
    }


def main(count=4, seconds=2.0, verbose=True):
    slope = on_a_slope()
    tall = tower(count, seconds)
    if verbose:
        print(f"on a slope, the slippery box slides at {slope['slides']:.4f} m/s², {slope['paper']:.4f} on paper")
        print(f"  the rough one stays: it moves at {slope['creeps']:.1e} m/s at most")
        print(f"  the tall one has tipped by {slope['tilt']:.2f} rad")
        print(f"a tower of {count} boxes stands: their heights are off by {tall['sinks']:.1e} m")
        print(f"  it moves at {tall['speed']:.1e} m/s; forces between boxes are off by {tall['loads']:.1e}")
    return {"slope": slope, "tower": tall}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
