"""02 A thousand rollouts with randomised models.

Simulates a thousand four-bar linkages at once, each with its own link masses, friction and initial speed: the
model is an argument like any other, so `jax.vmap` maps over it.
"""

import time

import jax
import jax.numpy as jnp

import jaxdyn as jd


def main(count=1000, steps=500, dt=1e-3, seed=0):
    model = jd.load("four_bar")
    q = jd.assemble(model, model.neutral())
    # a velocity that the closed loop allows: the null-space direction of the constraint Jacobian
    along = jnp.linalg.svd(jd.constraint_jacobian(model, q))[2][-1]
    along = along / along[model.v_slice("crank")]

    def rollout(key):
        kmass, kdamping, kspeed = jax.random.split(key, 3)
        mass = model.bodies.mass * jax.random.uniform(kmass, (model.nb,), minval=0.5, maxval=2.0)
        damping = model.joints.damping * jax.random.uniform(kdamping, (), minval=0.0, maxval=3.0)
        robot = model.replace({"bodies.mass": mass, "joints.damping": damping})
        start = jd.State(q, along * jax.random.uniform(kspeed, (), minval=2.0, maxval=6.0))
        traj = jd.simulate(robot, start, jnp.zeros((steps, model.nv)), dt, project=True)
        opening = jnp.abs(jax.vmap(lambda q: jd.constraint_residual(model, q))(traj.q)).max()
        return traj.q[-1], opening, mass

    many = jax.jit(jax.vmap(rollout)).lower(jax.random.split(jax.random.key(seed), count)).compile()
    begin = time.perf_counter()
    ends, openings, masses = jax.block_until_ready(many(jax.random.split(jax.random.key(seed), count)))
    spent = time.perf_counter() - begin
    crank = ends[:, model.q_slice("crank")][:, 0]
    print(f"{count} robots, {steps} steps each: {spent:.2f} s, {1e6 * spent / (count * steps):.2f} µs a step")
    print(f"crank angles after {steps * dt:g} s: {crank.mean():.2f} ± {crank.std():.2f} rad")
    print(f"worst loop opening {openings.max():.1e} m")
    return {"q": ends, "opening": float(openings.max()), "masses": masses, "crank": crank}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
