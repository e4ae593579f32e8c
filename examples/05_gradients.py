"""05 Gradients both ways and a Hessian.

Differentiates constrained accelerations and a rollout in forward and in reverse mode, compares the result with finite
differences along the closed loop, and computes a Hessian.
"""

import jax
import jax.numpy as jnp
import numpy as np

import jaxdyn as jd


def main(steps=10, dt=5e-3):
    model = jd.load("four_bar")
    crank = model.v_slice("crank").start
    q = jd.assemble(model, model.neutral())
    along = jnp.linalg.svd(jd.constraint_jacobian(model, q))[2][-1]
    v, tau = along * 3.0, jnp.zeros(model.nv).at[crank].set(0.5)

    # derivatives of accelerations with respect to velocity, torque and masses, in both modes
    def acceleration(v, tau, mass):
        return jd.forward_dynamics(model.replace({"bodies.mass": mass}), jd.State(q, v), tau).acceleration

    arguments = (v, tau, model.bodies.mass)
    forward = jax.jit(jax.jacfwd(acceleration, (0, 1, 2)))(*arguments)
    reverse = jax.jit(jax.jacrev(acceleration, (0, 1, 2)))(*arguments)
    modes = max(float(jnp.abs(a - b).max() / jnp.abs(a).max()) for a, b in zip(forward, reverse, strict=True))
    print(f"forward and reverse mode differ by {modes:.1e}, relative")

    # derivative of a rollout with respect to masses: gradient and finite differences
    def crank_angle(mass):
        robot = model.replace({"bodies.mass": mass})
        return jd.simulate(robot, jd.State(q, v), jnp.tile(tau, (steps, 1)), dt).q[-1, crank]

    value = jax.jit(crank_angle)
    slope = jax.jit(jax.grad(crank_angle))(model.bodies.mass)
    h = 1e-4 * float(model.bodies.mass.min())
    moved = [[float(value(model.bodies.mass + s * h * e)) for s in (-1, 1)] for e in jnp.eye(model.nb)]
    differences = np.array([(b - a) / (2 * h) for a, b in moved])
    error = float(np.abs(slope - differences).max() / np.abs(differences).max())
    print(f"gradient by the masses {slope}, differences off by {error:.1e}")

    # the Hessian of an acceleration; the Hessian of a rollout works too, but takes minutes to compile
    def crank_acceleration(mass):
        return acceleration(v, tau, mass)[crank]

    curvature = jax.jit(jax.hessian(crank_acceleration))(model.bodies.mass)
    asymmetry = float(jnp.abs(curvature - curvature.T).max() / jnp.abs(curvature).max())
    print(f"Hessian by the masses, symmetric to {asymmetry:.1e}:\n{curvature}")
    return {"modes": modes, "error": error, "asymmetry": asymmetry, "hessian": curvature, "gradient": slope}


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
