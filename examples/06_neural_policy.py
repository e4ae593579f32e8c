"""06 A small neural policy, trained through the simulator.

Trains a network that turns the crank of a closed-loop linkage to a given angle and holds it there against gravity,
from any start, using the gradient of a batch of rollouts.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

import jaxdyn as jd

#: crank angle to hold, rad, and the torque limit, N m
GOAL, LIMIT = 0.5, 3.0


def main(batch=32, steps=60, iterations=120, dt=5e-3, width=16, seed=0, verbose=True):
    model = jd.load("four_bar")
    crank = model.v_slice("crank").start
    closed = jd.assemble(model, model.neutral())
    knet, kstart, ktest = jax.random.split(jax.random.key(seed), 3)

    @jax.jit
    def start(key):
        """Return the linkage at rest with the crank turned by up to a radian."""
        hold = (jd.constraints.Coupling(("crank",), (1.0,), jax.random.uniform(key, (), minval=-1.0, maxval=1.0)),)
        q = jd.assemble(model, closed, constraints=model.constraints + hold)
        return jd.State(q, jnp.zeros(model.nv))

    starts = jax.jit(jax.vmap(start))

    def rollout(network, state):
        def policy(state, t):
            angle, speed = state.q[crank], state.v[crank]
            seen = jnp.stack([jnp.cos(angle - GOAL), jnp.sin(angle - GOAL), 0.1 * speed])
            return jnp.zeros(model.nv).at[crank].set(LIMIT * jnp.tanh(network(seen)))

        return jd.simulate(model, state, policy, dt, steps=steps)

    def loss(network, states):
        traj = jax.vmap(lambda s: rollout(network, s))(states)
        angle, speed = traj.q[:, :, crank], traj.v[:, :, crank]
        return jnp.mean(1 - jnp.cos(angle - GOAL)) + 1e-3 * jnp.mean(speed**2)

    optimiser = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-2))

    @eqx.filter_jit
    def improve(network, memory, states):
        value, slope = eqx.filter_value_and_grad(loss)(network, states)
        change, memory = optimiser.update(slope, memory)
        return eqx.apply_updates(network, change), memory, value

    network = eqx.nn.MLP(3, "scalar", width, 2, activation=jnp.tanh, key=knet)
    memory, history = optimiser.init(eqx.filter(network, eqx.is_inexact_array)), []
    for k in range(iterations):
        states = starts(jax.random.split(jax.random.fold_in(kstart, k), batch))
        network, memory, value = improve(network, memory, states)
        history.append(float(value))
        if verbose and k % 25 == 0:
            print(f"iteration {k}: loss {value:.4f}")

    fresh = starts(jax.random.split(ktest, batch))
    ends = eqx.filter_jit(lambda n, s: jax.vmap(lambda s: rollout(n, s)[-1])(s))(network, fresh)
    off = jnp.abs(ends.q[:, crank] - GOAL)
    print(
        f"from {batch} new starts, {steps * dt:g} s later: {off.mean():.3f} rad from the goal, at worst {off.max():.3f}"
    )
    return {"history": history, "off": off}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
