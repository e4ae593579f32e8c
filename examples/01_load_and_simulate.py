"""01 Load and simulate.

Loads a four-bar linkage, closes its loop, lets it swing freely for two seconds, and shows that energy is conserved and
the loop stays closed.
"""

import jax
import jax.numpy as jnp

import jaxdyn as jd


def energy(model, state):
    return jd.kinetic_energy(model, state) + jd.potential_energy(model, state.q)


def main(source="four_bar", seconds=2.0, dt=1e-3):
    model = jd.load(source)
    model = model.replace({"joints.damping": jnp.zeros(model.nv)})
    print(model)
    for joint in model.joint_names:
        print(f"  joint {joint}: q[{model.q_slice(joint)}], v[{model.v_slice(joint)}]")

    @jax.jit
    def roll(q):
        q = jd.assemble(model, q)  # close the loop
        rest = jd.State(q, jnp.zeros(model.nv))
        torques = jnp.zeros((round(seconds / dt), model.nv))
        # the Gauss-Legendre method conserves energy, `project` keeps the loop closed to rounding
        traj = jd.simulate(model, rest, torques, dt, integrator=jd.integrators.Gauss(), project=True)
        opening = jax.vmap(lambda q: jd.constraint_residual(model, q))(traj.q)
        return traj, jnp.abs(opening).max(), jax.vmap(lambda q, v: energy(model, jd.State(q, v)))(traj.q, traj.v)

    traj, opening, energies = roll(model.neutral())
    kinetic = jd.kinetic_energy(model, jd.State(traj.q[-1], traj.v[-1]))
    scale = jnp.abs(energies[0]) + kinetic
    drift = jnp.abs(energies - energies[0]).max() / scale
    print(f"after {seconds:g} s: q = {traj.q[-1]}, v = {traj.v[-1]}")
    print(f"worst loop opening {opening:.1e} m, energy drift {drift:.1e} of {scale:.2g} J")
    return {"opening": float(opening), "drift": float(drift), "trajectory": traj}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
