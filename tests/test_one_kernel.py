"""A function of a state is one kernel: nothing but moves of data is left to XLA, where small operations take long."""

import contact_scenes
import jax
import jax.numpy as jnp
import pytest

import jaxdyn as jd
from jaxdyn.engine import kernels

MODEL = jd.load("four_bar", floating=True)
CLOSED = jd.embed(MODEL)

#: functions of (model, q, v, a)
FUNCTIONS = {
    "bias_forces": lambda m, q, v, a: jd.bias_forces(m, jd.State(q, v)),
    "center_of_mass": lambda m, q, v, a: jd.center_of_mass(m, q),
    "centroidal_momentum": lambda m, q, v, a: jd.centroidal_momentum(m, jd.State(q, v)),
    "constraint_bias": lambda m, q, v, a: jd.constraint_bias(m, jd.State(q, v)),
    "constraint_jacobian": lambda m, q, v, a: jd.constraint_jacobian(m, q),
    "constraint_residual": lambda m, q, v, a: jd.constraint_residual(m, q),
    "forward_dynamics": lambda m, q, v, a: jd.forward_dynamics(m, jd.State(q, v), a),
    "forward_kinematics": lambda m, q, v, a: jd.forward_kinematics(m, q),
    "frame_acceleration": lambda m, q, v, a: jd.frame_acceleration(m, jd.State(q, v), a, "rocker"),
    "frame_pose": lambda m, q, v, a: jd.frame_pose(m, q, "rocker"),
    "frame_velocity": lambda m, q, v, a: jd.frame_velocity(m, jd.State(q, v), "rocker"),
    "gravity_forces": lambda m, q, v, a: jd.gravity_forces(m, q),
    "integrate": lambda m, q, v, a: jd.integrate(m, q, v, 0.1),
    "inverse_dynamics": lambda m, q, v, a: jd.inverse_dynamics(m, jd.State(q, v), a),
    "jacobian": lambda m, q, v, a: jd.jacobian(m, q, "rocker"),
    "jacobian, world": lambda m, q, v, a: jd.jacobian(m, q, "rocker", reference="world_aligned"),
    "kinetic_energy": lambda m, q, v, a: jd.kinetic_energy(m, jd.State(q, v)),
    "mass_matrix": lambda m, q, v, a: jd.mass_matrix(m, q),
    "passive_forces": lambda m, q, v, a: jd.passive_forces(m, jd.State(q, v)),
    "potential_energy": lambda m, q, v, a: jd.potential_energy(m, q),
    "step": lambda m, q, v, a: jd.step(m, jd.State(q, v), a, 1e-3),
}
#: operations of XLA that compute with numbers of all lanes
ARITHMETIC = {"add", "sub", "mul", "div", "dot_general", "neg", "select_n", "scan", "while", "cumsum", "integer_pow"}


@pytest.mark.parametrize("model", [MODEL, CLOSED], ids=["cut", "embedded"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_one_kernel(name, model):
    q, v = jnp.stack([model.neutral()] * 2), jnp.zeros((2, model.nv))
    equations = jax.make_jaxpr(jax.vmap(lambda q, v, a: FUNCTIONS[name](model, q, v, a)))(q, v, v).jaxpr.eqns
    none = name.startswith("constraint") and not model.constraints
    assert sum(e.primitive.name == "jaxdyn" for e in equations) == (0 if none else 1)
    # of what all lanes share, such as gains of constraints, a few numbers are computed once for all
    every = [e for e in equations if any(v.aval.shape[:1] == (2,) for v in e.outvars)]
    assert not {e.primitive.name for e in every} & ARITHMETIC


@pytest.mark.parametrize("contacts", [None, jd.contact.PGS()])
def test_lanes_share_the_time_step_unless_it_is_mapped(contacts):
    """What depends on it alone is computed once a call."""
    model, q = contact_scenes.box()
    q, v, dt = jnp.tile(q, (3, 1)), jnp.zeros((3, model.nv)), jnp.full(3, 1e-3)
    step = lambda q, v, dt: jd.step(model, jd.State(q, v), v, dt, contacts=contacts)  # noqa: E731
    count = []
    for axes, h in (((0, 0, None), 1e-3), ((0, 0, 0), dt)):
        with kernels.watching() as found:
            jax.jit(jax.vmap(step, axes)).lower(q, v, h)
        ((_, _, _, shared),) = found
        count.append(sum(shared))
    assert count[0] == count[1] + 1
