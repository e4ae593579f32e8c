"""04 Swing up a loop mechanism.

Optimises torques that bring a crank-rocker linkage from its lowest to its highest position and to rest there, with a
motor too weak to lift it directly, using gradients through the simulator.
"""

import jax
import jax.numpy as jnp
import optax

import jaxdyn as jd


def closed_at(model, angle, guess):
    """Return the closed configuration with the crank at `angle`."""
    hold = (jd.constraints.Coupling(("crank",), (1.0,), angle),)
    return jd.assemble(model, guess, constraints=model.constraints + hold)


def main(starts=16, knots=20, each=8, iterations=200, dt=8e-3, strength=0.6, seed=0, verbose=True):
    model = jd.load("four_bar")
    crank = model.v_slice("crank").start
    steps = knots * each

    # closed configurations over a turn of the crank, and the torque that would hold each of them
    angles = jnp.linspace(-jnp.pi, jnp.pi, 73)

    def follow(q, angle):
        q = closed_at(model, angle, q.at[crank].set(angle))
        return q, (q, jd.potential_energy(model, q))

    _, (positions, height) = jax.jit(lambda q: jax.lax.scan(follow, q, angles))(model.neutral())
    low, high = int(height.argmin()), int(height.argmax())
    limit = strength * float(jnp.abs(jnp.gradient(height, angles[1] - angles[0])).max())
    goal = angles[high]
    start = jd.State(positions[low], jnp.zeros(model.nv))
    print(f"from {angles[low]:.2f} to {goal:.2f} rad, {height[high] - height[low]:.2f} J up, with {limit:.2f} N m")

    def torques(raw):
        """Return torques within the motor's limit, each held constant over `each` steps."""
        u = limit * jnp.tanh(jnp.repeat(raw, each))
        return jnp.zeros((steps, model.nv)).at[:, crank].set(u)

    def miss(raw):
        end = jd.simulate(model, start, torques(raw), dt)[-1]
        turn = 1 - jnp.cos(end.q[crank] - goal)  # periodic: the goal counts in every turn of the crank
        return turn + 0.05 * end.v[crank] ** 2

    rate = optax.cosine_decay_schedule(0.1, iterations)
    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate))

    @jax.jit
    def improve(raw, memory):
        def one(raw, memory):
            value, slope = jax.value_and_grad(miss)(raw)
            change, memory = optimiser.update(slope, memory)
            return optax.apply_updates(raw, change), memory, value

        return jax.vmap(one)(raw, memory)  # many initial guesses at once, because some end in a poor optimum

    raw = 0.5 * jax.random.normal(jax.random.key(seed), (starts, knots))
    memory, history = jax.vmap(optimiser.init)(raw), []
    for k in range(iterations):
        raw, memory, value = improve(raw, memory)
        history.append(float(value.min()))
        if verbose and k % 25 == 0:
            print(f"iteration {k}: best {value.min():.2e}, mean {value.mean():.2e}")
    best = raw[value.argmin()]
    end = jax.jit(lambda u: jd.simulate(model, start, torques(u), dt))(best)[-1]
    off = jnp.abs(jnp.angle(jnp.exp(1j * (end.q[crank] - goal))))
    print(f"{1e3 * off:.2f} mrad from the top, at {end.v[crank]:.3f} rad/s")
    return {"off": float(off), "speed": float(jnp.abs(end.v[crank])), "history": history, "limit": limit}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
