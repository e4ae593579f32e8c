"""Contact of embedded robots: steps are those of the robot with its loops and gears cut, by all laws, and derivatives
those of differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd
from jaxdyn.contact import ADMM, PGS, Newton

LAWS = {
    "PGS": PGS(400),
    "Newton": Newton(),
    "ADMM": ADMM(1e-12, 2000),
    "matrix-free": ADMM(1e-12, 2000, matrix_free=True),
}


def hopper() -> jd.ModelSpec:
    """Two legs, whose joints have rotors, so that every gear is eliminated with its joint."""
    spec = jd.ModelSpec("hopper")
    spec.add_body("base", "world", jd.joints.Free(), inertia=jd.Inertia(5.0, (0, 0, 0), 0.02 * np.eye(3)))
    for k, y in enumerate((-0.1, 0.1)):
        leg = jd.Inertia(1.0, (0, 0, -0.2), 0.01 * np.eye(3))
        spec.add_body(f"leg{k}", "base", jd.joints.Revolute(axis=(0, 1, 0)), placement=(0, y, 0), inertia=leg)
        spec.add_rotor(f"rotor{k}", "base", {f"leg{k}": 10.0}, inertia=1e-4, axis=(0, 1, 0))
        spec.add_shape(f"leg{k}", jd.shapes.Sphere(0.05), placement=(0, 0, -0.4), name=f"foot{k}")
    return spec.add_ground()


def linkage() -> jd.ModelSpec:
    """A floating four-bar with a ball at its rocker, so that the loop's joints are solved for one another."""
    spec = jd.load_spec("four_bar", floating=True)
    spec.add_shape("rocker", jd.shapes.Sphere(0.05), name="foot")
    return spec.add_ground()


def at_the_ground(model: jd.Model) -> jd.State:
    """A state that slides down into the ground, by 1e-3 m and a tenth of a metre per second."""
    q = model.neutral()
    low = jd.contact.detect(model, q).gaps.min()
    v = jnp.zeros(model.nv).at[jnp.array([0, 2])].set(jnp.array([0.3, -0.1]))
    return jd.State(q.at[2].add(-low - 1e-3), v)


MODELS = {"hopper": jd.embed(hopper().build()), "linkage": jd.embed(linkage().build())}
CUT = {"hopper": hopper().build(), "linkage": linkage().build()}


def after(model, law, state, tau):
    return jd.step(model, state, tau, 1e-3, contacts=law).v


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", MODELS)
def test_steps_are_those_of_the_cut_robot(name, law):
    model, cut = MODELS[name], CUT[name]
    state = at_the_ground(model)
    tau = jnp.linspace(-1.0, 1.0, model.nv)
    whole = jnp.zeros(cut.nv).at[jnp.asarray(model.topology.independent)].set(tau)
    found = jax.jit(after, static_argnums=1)(model, LAWS[law], state, tau)
    wanted = after(cut, ADMM(1e-12, 2000), jd.expand(model, state), whole)
    assert np.abs(found - state.v).max() > 1e-2, "the ground is hit"
    np.testing.assert_allclose(found, wanted[jnp.asarray(model.topology.independent)], atol=1e-8)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", MODELS)
def test_derivatives_are_those_of_differences(name, law):
    model = MODELS[name]
    state, way = at_the_ground(model), jnp.cos(jnp.arange(model.nv))
    of = jax.jit(lambda tau: after(model, LAWS[law], state, tau) @ way)
    slope, tau, h = jax.grad(of)(jnp.zeros(model.nv)), jnp.zeros(model.nv), 1e-3
    differences = [(of(tau.at[k].set(h)) - of(tau.at[k].set(-h))) / (2 * h) for k in range(model.nv)]
    np.testing.assert_allclose(slope, differences, atol=1e-7)
