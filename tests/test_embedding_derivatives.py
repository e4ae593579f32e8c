"""Derivatives of embedded models, in both modes, against differences along closed configurations."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import mapped
from embedding_robots import cut, embedded, forces, states, wrenches

import jaxdyn as jd

#: numbers of a model that are changed: masses, gains of joints, ratios of gears, lengths of links and struts
CHANGED = ("mass", "armature", "damping", "stiffness", "coefficients", "length", "translation")


def alone(name) -> jd.Model:
    return dataclasses.replace(embedded(name), constraints=())


def direction(model, rng, changed=CHANGED):
    """A direction in which many numbers of a model change, each by a part of itself. Linkages in a plane stay in it:
    what the planar robot's bodies hang on does not move, only the ends of its bars do."""

    def of(path, x):
        name = jax.tree_util.keystr(path)
        wanted = any(part in name for part in changed) and not (model.name == "four_bars" and "placement.t" in name)
        return 0.1 * rng.normal(size=x.shape) * np.asarray(x) if wanted else np.zeros(x.shape)

    return jax.tree_util.tree_map_with_path(of, model)


def fourth(f, h):
    """Derivative at 0, by central differences of fourth order."""
    return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)


def relative(got, wanted):
    return np.abs(np.asarray(got) - wanted).max() / np.abs(np.asarray(wanted)).max()


@pytest.mark.parametrize("name", ("geared_links", "four_bars", "spatial_bars"))
def test_derivatives(name):
    """With respect to q along the loops, v, tau, and the model, whose loops close anew; and the second ones."""
    model, state = alone(name), states(name)
    rng = np.random.default_rng(0)
    way = direction(model, rng)
    q, v, tau, x = state.q[0], state.v[0], forces(name)[0], wrenches(name)[0]
    weights, moves = rng.normal(size=model.nv), jnp.asarray(rng.normal(size=(3, model.nv)))

    def accelerations(s, d):
        other = jax.tree.map(lambda a, b: a + s * b, model, way)
        at = other.topology.closes(other, q, False)
        at = jd.integrate(other, at, d[0])
        solver = jd.solvers.ABA()
        return jd.forward_dynamics(other, jd.State(at, v + d[1]), tau + d[2], external=x, solver=solver).acceleration

    zero = (jnp.asarray(0.0), jnp.zeros_like(moves))
    along_model, along_state = (jnp.asarray(1.0), jnp.zeros_like(moves)), (jnp.asarray(0.0), moves)

    @jax.jit
    def value(h, k):
        return accelerations(h, k * moves)

    @jax.jit
    def gradient(h, k):
        return jax.grad(lambda s, d: weights @ accelerations(s, d), (0, 1))(h, k * moves)

    @jax.jit
    def forward():
        f = lambda way: jax.jvp(accelerations, zero, way)[1]  # noqa: E731
        return f(along_model), f(along_state)

    @jax.jit
    def second():
        slope = lambda s, d: jax.grad(lambda s, d: weights @ accelerations(s, d), (0, 1))(s, d)  # noqa: E731
        return jax.jvp(slope, zero, (jnp.asarray(1.0), moves))[1]

    of_model, of_state = forward()
    assert relative(of_model, fourth(lambda h: value(h, 0.0), 2e-4)) < 1e-7
    assert relative(of_state, fourth(lambda h: value(0.0, h), 2e-4)) < 1e-7
    ds, dd = gradient(0.0, 0.0)
    assert abs(ds - weights @ np.asarray(of_model)) < 1e-10 * np.abs(of_model).max()
    assert abs((dd * moves).sum() - weights @ np.asarray(of_state)) < 1e-10 * np.abs(of_state).max()
    found = second()
    for k in range(2):
        assert relative(found[k], fourth(lambda h, k=k: np.asarray(gradient(h, h)[k]), 2e-4)) < 1e-5


def test_neutral_closes_for_other_lengths():
    """The derivative of `neutral` is that along which the loops of a changed robot close."""
    model = alone("four_bars")
    way = direction(model, np.random.default_rng(1), ("translation",))
    other = lambda s: jax.tree.map(lambda a, b: a + s * b, model, way)  # noqa: E731
    home = jax.jit(lambda s: other(s).neutral())
    gap = jax.jit(lambda s: jd.constraint_residual(other(s), other(s).neutral(), other(s).embedded))
    assert np.abs(gap(0.05)).max() < 1e-10
    assert relative(jax.jvp(home, (0.0,), (1.0,))[1], fourth(home, 1e-3)) < 1e-9


@pytest.mark.parametrize("name", ("geared_links", "geared_floating", "four_bar_floating", "spatial_bars", "bennett"))
def test_single_precision(name):
    """No number is of double precision, and one sweep, without refinement, leaves rounding."""
    single = lambda tree: jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), tree)  # noqa: E731
    # few: of many states some have an acceleration near zero, of which next to all digits cancel
    n = 24
    state = states(name, n)
    model, inputs = alone(name), (state.q, state.v, forces(name, n), wrenches(name, n))

    def f(model, q, v, tau, external):
        return jd.forward_dynamics(model, jd.State(q, v), tau, external=external, solver=jd.solvers.ABA()).acceleration

    wanted = np.asarray(mapped(f)(model, *inputs))
    found = mapped(f)(single(model), *single(inputs))
    assert found.dtype == jnp.float32
    error = np.abs(np.asarray(found, float) - wanted).max(1) / np.abs(wanted).max(1)
    assert error.max() < 3e-6
    assert np.median(error) < 1e-6


def test_embedding_in_single_precision():
    """A model of single precision gets the same joints, and stays of single precision."""
    tree = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), cut("given"))
    model = jd.embed(tree)
    assert model.topology.clusters == embedded("given").topology.clusters
    q = model.neutral()
    v = jnp.ones(model.nv, jnp.float32)
    after = jd.integrate(model, q, v, 0.02)
    assert q.dtype == after.dtype == jd.expand(model, jd.State(q, v)).v.dtype == jnp.float32
    assert np.abs(jd.constraint_residual(model, after, model.embedded)).max() < 1e-6
    sol = jd.forward_dynamics(model, jd.State(q, v), 0 * v, solver=jd.solvers.ABA())
    assert sol.acceleration.dtype == jnp.float32


def test_tangent_knows_loops():
    """`tangent` is along closed configurations: bodies move with their Jacobians."""
    model, q = alone("spatial_bars"), states("spatial_bars").q[0]
    place = jax.jit(lambda q: jd.tangent(lambda x: jd.forward_kinematics(model, x).translation[-1], model, q))(q)
    wanted = jd.jacobian(model, q, "wrist", reference="world_aligned")[:3]
    assert np.abs(place - wanted).max() < 1e-12
