"""03 Identify link masses and a spring of a closed-loop mechanism.

Recovers the masses of three links and the stiffness of a spring from a recorded trajectory, using the gradient of
short predictions that start at recorded states.
"""

import jax
import jax.numpy as jnp
import optax

import jaxdyn as jd

#: stiffness of the spring at the rocker, N m/rad
STIFFNESS = 4.0


def drive(t):
    """Return the crank's torque in the experiment, N m."""
    return 2.0 * jnp.sin(9.0 * t) + 1.2 * jnp.sin(23.0 * t + 1.0)


def main(steps=600, window=15, iterations=300, dt=2e-3, verbose=True):
    model = jd.load("four_bar")
    rocker, crank = model.v_slice("rocker").start, model.v_slice("crank").start
    q = jd.assemble(model, model.neutral())

    def robot(log_scale):
        """Build the model from logarithms of masses and stiffness relative to a guess, which keeps them positive."""
        mass, stiffness = model.bodies.mass * jnp.exp(log_scale[:3]), STIFFNESS * jnp.exp(log_scale[3])
        # links keep their shape, so inertia is proportional to mass
        rotational = model.bodies.rotational * jnp.exp(log_scale[:3])[:, None, None]
        spring = jnp.zeros(model.nv).at[rocker].set(stiffness)
        return model.replace({"bodies.mass": mass, "bodies.rotational": rotational, "joints.stiffness": spring})

    torques = jnp.zeros((steps, model.nv)).at[:, crank].set(drive(jnp.arange(steps) * dt))
    truth = jnp.log(jnp.array([1.5, 0.6, 1.8, 2.0]))
    record = jax.jit(lambda s: jd.simulate(robot(s), jd.State(q, jnp.zeros(model.nv)), torques, dt))(truth)

    # short windows give a smooth loss, and all of them run in one batch
    starts = jnp.arange(0, steps - window + 1, window)
    scale = record.v.std(0)

    def loss(log_scale):
        guess = robot(log_scale)

        def error(k):
            tau = jax.lax.dynamic_slice(torques, (k, 0), (window, model.nv))
            end = jd.simulate(guess, record[k], tau, dt)[-1]
            return jnp.sum(((end.v - record.v[k + window]) / scale) ** 2)

        return jax.vmap(error)(starts).mean()

    optimiser = optax.adam(optax.cosine_decay_schedule(0.05, iterations))

    @jax.jit
    def improve(guess, memory):
        value, slope = jax.value_and_grad(loss)(guess)
        change, memory = optimiser.update(slope, memory)
        return optax.apply_updates(guess, change), memory, value

    guess = jnp.zeros(4)
    memory, history = optimiser.init(guess), []
    for k in range(iterations):
        guess, memory, value = improve(guess, memory)
        history.append(float(value))
        if verbose and k % 50 == 0:
            print(f"iteration {k}: loss {value:.2e}")
    found, right = jnp.exp(guess), jnp.exp(truth)
    for what, a, b in zip((*model.body_names, "spring"), found, right, strict=True):
        print(f"  {what}: {a:.4f} times the guess, truth {b:.4f}")
    return {"found": found, "truth": right, "history": history}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
