"""Motion of embedded models: loops stay closed, on their branch, and independent coordinates are integrated exactly."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiled import mapped
from embedding_robots import cut, embedded, states, towards

import jaxdyn as jd

I = jd.integrators  # noqa: E741


def alone(name) -> jd.Model:
    return dataclasses.replace(embedded(name), constraints=())


def gap(model, q):
    return jnp.abs(jd.constraint_residual(model, q, model.embedded)).max()


@pytest.mark.parametrize("name", ("geared_floating", "four_bars", "spatial_bars", "ball_platform", "given"))
def test_difference_is_the_inverse_of_integrate(name):
    """Also of balls of which a part depends on other joints."""

    tree = dataclasses.replace(cut(name), constraints=embedded(name).embedded)

    def f(model, tree, q, v):
        after = jd.integrate(model, q, v, 0.02)
        state = jd.State(after, v)
        spread = jd.expand(model, state)
        again = jd.reduce(model, spread)
        rates = jd.constraint_jacobian(tree, after) @ spread.v
        still = jd.integrate(model, q, 0 * v, 1.0)
        return (
            jd.difference(model, q, after) - 0.02 * v,
            gap(model, after),
            again.v - v,
            again.q - after,
            rates,
            still - q,
        )

    state = states(name)
    found = mapped(f, 2)(alone(name), tree, state.q, state.v)
    for what, x in zip(("difference", "gap", "v", "q", "rates", "still"), found, strict=True):
        assert np.abs(x).max() < 1e-12, what


@pytest.mark.parametrize("name", ("geared_links", "four_bars", "bennett", "six_bar"))
def test_long_motion(name):
    """A thousand steps of 10 ms, there and back again: linkages turn all around and stay on their branch."""
    model = alone(name)
    q = model.neutral()
    speed = jnp.asarray(np.random.default_rng(0).normal(size=model.nv)) * 0.5

    def walk(q, k):
        v = speed * jnp.sign(499.5 - k) * (1 + 0.3 * jnp.sin(k * 0.01 * jnp.pi))
        return jd.integrate(model, q, v, 1e-2), gap(model, q)

    ks = jnp.concatenate([jnp.arange(500.0), 999 - jnp.arange(500.0)[::-1]])
    last, gaps = jax.jit(lambda q: jax.lax.scan(walk, q, ks))(q)
    assert gaps.max() < 1e-12
    # the speeds of the way back are those of the way there, backwards
    speeds = np.sign(499.5 - np.asarray(ks)) * (1 + 0.3 * np.sin(np.asarray(ks) * 0.01 * np.pi))
    rest = jnp.asarray(-speeds.sum()) * speed * 1e-2
    steps = 200
    home = jax.jit(
        lambda q: jax.lax.scan(lambda q, _: (jd.integrate(model, q, rest / steps), None), q, length=steps)[0]
    )
    assert np.abs(home(last) - q).max() < 1e-10


@pytest.mark.parametrize(
    ("integrator", "dt", "steps"),
    (
        (I.SemiImplicitEuler(), 1e-2, 1000),
        (I.RK4(), 1e-2, 1000),
        (I.Gauss(), 1e-2, 200),
        (I.ImplicitMidpoint(), 1e-2, 200),
    ),
    ids=lambda x: type(x).__name__,
)
@pytest.mark.parametrize("name", ("four_bars",))
def test_simulations_keep_loops_closed(name, integrator, dt, steps):
    model = alone(name)
    # slower than a third of a radian a step
    model = model.replace({"gravity": 0.3 * model.gravity})
    state = states(name)
    run = lambda m, q, v: jd.simulate(m, jd.State(q, v), jnp.zeros((steps, m.nv)), dt, integrator=integrator)  # noqa: E731
    found = mapped(run)(model, state.q[:4], state.v[:4])
    assert found.multipliers.shape[-1] == 0
    gaps = mapped(jax.vmap(gap, (None, 0)))(model, found.q)
    assert gaps.max() < 1e-12


def test_energy_and_order():
    """Nothing is lost without dampers, and RK4 is of fourth order on the closed configurations."""
    model = alone("bennett")
    q, v = model.neutral(), jnp.ones(1)

    def energy(q, v):
        return jd.kinetic_energy(model, jd.State(q, v)) + jd.potential_energy(model, q)

    def error(n):
        found = jax.jit(lambda: jd.simulate(model, jd.State(q, v), jnp.zeros((n, 1)), 1.0 / n, integrator=I.RK4()))()
        return abs(float(energy(found.q[-1], found.v[-1]) - energy(q, v)))

    coarse, fine = error(20), error(40)
    assert fine < 1e-5
    assert coarse / fine > 12


@pytest.mark.parametrize("name", ("four_bars", "given", "geared_floating"))
def test_random_states_are_closed(name):
    model = alone(name)
    found = jax.jit(jax.vmap(model.random_state))(jax.random.split(jax.random.PRNGKey(1), 24))
    assert found.v.shape == (24, model.nv)
    assert mapped(gap)(model, found.q).max() < 1e-11


def test_random_states_keep_the_limits_of_independent_joints():
    spec = jd.load_spec("four_bar")
    low, high = -0.4, 0.5
    cut = spec.build()
    at = np.arange(cut.nv) == 0
    limits = {"joints.lower": np.where(at, low, -np.inf), "joints.upper": np.where(at, high, np.inf)}
    linkage = jd.embed(cut.replace(limits), independent=["crank"])
    q = np.asarray(jax.jit(jax.vmap(lambda key: linkage.random_state(key).q))(jax.random.split(jax.random.key(0), 50)))
    assert (q[:, 0] >= low).all() and (q[:, 0] <= high).all() and np.ptp(q[:, 0]) > 0.7
    assert np.abs(jax.vmap(lambda q: jd.constraint_residual(cut, q))(q)).max() < 1e-12


def test_choice_leaves_cranks_independent():
    """Without actuators: joints declared first, where they are as good; a rod's spin, but not by rounding."""
    free = lambda m: {m.topology.joint_names[m.topology.velocity_bodies[v]] for v in m.topology.independent}  # noqa: E731
    assert free(embedded("six_bar")) == {"first_crank"}
    assert {"crank", "rod"} <= free(embedded("spatial_bars"))
    assert "b0" in free(embedded("given"))
    assert {"hip", "knee", "ankle", "pitch", "roll"} <= free(embedded("geared_floating"))
    tree = cut("spatial_bars")
    (ball,) = tree.constraints
    shift = jnp.array([1e-14, -2e-15, 0.0])
    moved = dataclasses.replace(
        ball,
        placement_a=jd.Transform(ball.placement_a.rotation, ball.placement_a.translation + shift),
    )
    model = jd.embed(dataclasses.replace(tree, constraints=(moved,)))
    assert model.topology.clusters == embedded("spatial_bars").topology.clusters


def test_units_do_not_decide():
    """A linkage drawn in other units has the same independent joints."""
    of = {}
    for unit in (1.0, 1e-3):
        spec = jd.ModelSpec("rssr")
        spec.add_body(
            "crank", "world", jd.joints.Revolute(axis=(1, 0.2, 0)), inertia=jd.Inertia(1, (0, 0, 0), np.eye(3))
        )
        place = towards(0, 0.1 * unit, 0.2 * unit, (0.5, 0.3, 0.2))
        spec.add_body(
            "rod", "crank", jd.joints.Universal(), placement=place, inertia=jd.Inertia(1, (0, 0, 0), np.eye(3))
        )
        slide = jd.joints.Prismatic(axis=(0, 1, 0.3))
        spec.add_body("slide", "world", slide, inertia=jd.Inertia(1, (0, 0, 0), np.eye(3)))
        end = np.array([0, 0.1, 0.2]) * unit + np.asarray(place.rotation) @ (0, 0, 0.6 * unit)
        ends = {"placement_a": jd.Transform(np.eye(3), (0, 0, 0.6 * unit)), "placement_b": jd.Transform(np.eye(3), end)}
        spec.add_constraint(jd.constraints.Point("rod", "slide", **ends))
        of[unit] = jd.embed(spec.build()).topology.clusters
    assert of[1.0] == of[1e-3]


def test_the_implicit_midpoint_is_of_second_order_with_dampers_on_dependent_joints():
    """Errors against `RK4` fall to a quarter with half the time step."""
    model = jd.load("four_bar")
    model = jd.embed(model.replace({"joints.damping": jnp.array([0.0, 0.0, 0.5])}))
    start = jd.State(model.neutral(), jnp.array([6.0]))

    def end(steps, integrator):
        run = jax.jit(lambda: jd.simulate(model, start, jnp.zeros((steps, 1)), 0.2 / steps, integrator=integrator))
        return run().v[-1, 0]

    exact = end(400, I.RK4())
    errors = [abs(end(n, I.ImplicitMidpoint()) - exact) for n in (50, 100)]
    assert 3.5 < errors[0] / errors[1] < 4.5
