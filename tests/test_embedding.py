"""Embedded models against their cut ones, in dense algebra that shares no code with jaxdyn, and against themselves."""

import dataclasses
import functools

import embedding_robots as er
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from compiled import close, mapped, succeeded
from embedding_robots import ROBOTS, cut, embedded, forces, states, wrenches

import jaxdyn as jd

ALL = tuple(ROBOTS)
S = jd.solvers


def alone(name) -> jd.Model:
    """The embedded robot without what stays cut."""
    return dataclasses.replace(embedded(name), constraints=())


@functools.cache
def whole(name) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q, velocities and forces of all joints of the tree."""
    model, state = alone(name), states(name)
    v = mapped(lambda m, q, v: jd.expand(m, jd.State(q, v)).v)(model, state.q, state.v)
    tau = np.zeros(v.shape)
    tau[:, list(model.topology.independent)] = forces(name)
    return np.asarray(state.q), np.asarray(v), tau


@functools.cache
def projected(name) -> np.ndarray:
    """Accelerations of the tree by dense projection, Nᵀ M N x = Nᵀ (τ − h − M p): the columns of N span what J leaves
    free, p is the least acceleration with J p + γ = 0."""
    model, rows = cut(name), embedded(name).embedded
    found = []
    for q, v, tau, external in zip(*whole(name), wrenches(name), strict=True):
        force = tau - oracle.bias_forces(model, q, v) + oracle.passive_forces(model, q, v)
        force = force + oracle.external_forces(model, q, external)
        M, J = oracle.mass_matrix(model, q), oracle.constraint_jacobian(model, q, rows)
        _, s, right = np.linalg.svd(J)
        N = right[(s > 1e-8 * s[0]).sum() :].T
        p = -np.linalg.pinv(J, rcond=1e-8) @ oracle.constraint_bias(model, q, v, rows)
        found.append(N @ np.linalg.solve(N.T @ M @ N, N.T @ (force - M @ p)) + p)
    return np.array(found)


@functools.cache
def program(solver):
    return mapped(lambda m, q, v, tau, x: jd.forward_dynamics(m, jd.State(q, v), tau, external=x, solver=solver))


@functools.cache
def accelerations(name) -> np.ndarray:
    """By the articulated-body algorithm on clusters."""
    state = states(name)
    found = program(S.ABA())(alone(name), state.q, state.v, jnp.asarray(forces(name)), jnp.asarray(wrenches(name)))
    assert succeeded(found.result).all() and found.multipliers.shape[-1] == 0
    return np.asarray(found.acceleration)


def agree(got, wanted, tolerance):
    """Lane by lane, relative to the largest number."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    error = np.abs(got - wanted).max(-1) / np.abs(wanted).max(-1)
    assert error.max() <= tolerance, error.max()


@pytest.mark.parametrize("name", ALL)
def test_clusters(name):
    model, about = embedded(name), ROBOTS[name]
    assert (model.nv, len(model.topology.clusters)) == (about.nv, about.clusters)
    assert model.nq == cut(name).nq
    assert all(c.constant for c in model.topology.clusters) == about.gears
    residual = mapped(lambda m, q: jd.constraint_residual(m, q, m.embedded))
    assert np.abs(residual(model, states(name).q)).max() < 1e-13
    assert np.abs(residual(model, model.neutral()[None])).max() < 1e-13


@pytest.mark.parametrize("name", ALL)
def test_clusters_are_dense_projection(name):
    wanted = projected(name)[:, list(embedded(name).topology.independent)]
    scale = np.abs(projected(name)).max(-1, keepdims=True)  # dependent joints accelerate, too
    tolerance = 1e-12 if ROBOTS[name].gears else 1e-11
    close(accelerations(name) / scale, wanted / scale, tolerance, 1.0)


@pytest.mark.parametrize("name", ALL)
def test_multipliers_are_dense_projection(name):
    """In dense algebra: what clusters are compared with does not depend on how constraints are held."""
    model = cut(name)
    at_rest = tuple(
        dataclasses.replace(c, stabilization=jd.constraints.Baumgarte(0.0, 0.0)) for c in embedded(name).embedded
    )
    found = [
        oracle.forward_dynamics(model, q, v, tau, at_rest, x).acceleration
        for q, v, tau, x in zip(*whole(name), wrenches(name), strict=True)
    ]
    agree(found, projected(name), 1e-9)


FORMULATIONS = (
    *((name, S.LCABA()) for name in ("geared_floating", "four_bars", "four_bar_floating", "spatial_bars", "given")),
    *((name, S.ProxLTL()) for name in ("geared_links", "six_bar", "ball_platform", "bennett", "grounded")),
    ("bennett", S.Dense()),
)


@pytest.mark.parametrize(("name", "solver"), FORMULATIONS, ids=lambda x: x if isinstance(x, str) else type(x).__name__)
def test_cut_models_move_alike(name, solver):
    q, v, tau = whole(name)
    model = dataclasses.replace(cut(name), constraints=embedded(name).embedded)
    found = program(solver)(model, q, v, tau, wrenches(name))
    assert succeeded(found.result).all()
    agree(found.acceleration, projected(name), 1e-9)


@functools.cache
def balances():
    """What inverse dynamics makes of forward dynamics, and energies."""

    def f(model, tree, q, v, tau, external):
        state = jd.State(q, v)
        a = jd.forward_dynamics(model, state, tau, external=external, solver=S.ABA()).acceleration
        all_of = jd.expand(model, state)
        zero = jd.State(q, jnp.zeros_like(v))
        slope = jd.tangent(lambda x: jd.potential_energy(model, x), model, q)

        def energy(h):
            q1 = jd.integrate(model, q, v, h)
            return jd.kinetic_energy(model, jd.State(q1, v + h * a)) + jd.potential_energy(model, q1)

        power = jax.jvp(energy, (0.0,), (1.0,))[1]
        body = model.body_names[-1]
        pushed = jd.inverse_dynamics(model, zero, 0 * v) - jd.inverse_dynamics(model, zero, 0 * v, external=external)
        return {
            "tau": (jd.inverse_dynamics(model, state, a, external=external), tau),
            "kinetic": (jd.kinetic_energy(model, state), v @ jd.mass_matrix(model, q) @ v / 2),
            "of the tree": (jd.kinetic_energy(model, state), jd.kinetic_energy(tree, all_of)),
            "potential": (slope, jd.gravity_forces(model, q) - jd.passive_forces(model, zero)),
            "power": (power, v @ (tau + pushed) - all_of.v @ (model.joints.damping * all_of.v)),
            "momentum": (jd.centroidal_momentum(model, state), jd.centroidal_momentum(tree, all_of)),
            "jacobian": (jd.jacobian(model, q, body) @ v, jd.frame_velocity(tree, all_of, body)),
            "velocity": (jd.frame_velocity(model, state, body), jd.frame_velocity(tree, all_of, body)),
            "bias": (
                jd.bias_forces(model, state),
                jd.inverse_dynamics(model, state, 0 * v) + jd.passive_forces(model, state),
            ),
        }

    return mapped(f, 2)


@pytest.mark.parametrize("name", ("geared_links", "spatial_bars"))
def test_balances(name):
    state, tree = states(name), dataclasses.replace(cut(name), constraints=())
    found = balances()(alone(name), tree, state.q, state.v, forces(name), wrenches(name))
    for what, (got, wanted) in found.items():
        scale = 1.0 if what == "tau" else max(1.0, np.abs(wanted).max())
        assert np.abs(got - wanted).max() / scale < 1e-10, what


@pytest.mark.parametrize("name", ("geared_links", "four_bars", "ball_platform"))
def test_forces_at_all_joints(name):
    """They count as Gᵀ τ."""
    model, state = alone(name), states(name)
    tau = np.random.default_rng(5).normal(size=(len(state.q), model.topology.nv)) * 0.1

    def f(model, q, v, tau):
        spread = lambda w: jd.expand(model, jd.State(q, w)).v  # noqa: E731
        G = jax.vmap(spread, out_axes=1)(jnp.eye(model.nv))
        of = lambda x: jd.forward_dynamics(model, jd.State(q, v), x, solver=S.ABA()).acceleration  # noqa: E731
        return of(tau), of(G.T @ tau)

    got, wanted = mapped(f)(model, state.q, state.v, tau)
    agree(got, wanted, 1e-12)


def test_actuators_on_dependent_joints():
    """A robot whose motor is on a joint that shall depend."""
    model = jd.embed(cut("geared_links"), independent=["base", "slide"])
    other = embedded("geared_links")
    assert model.actuation.shape == (4, 2)
    assert other.actuation.shape == (2, 2)
    command = jnp.array([0.4, -0.7])
    q = model.neutral()
    zeros = jnp.zeros(2)
    tau = model.actuation @ command
    one = jd.expand(model, jd.State(q, jd.forward_dynamics(model, jd.State(q, zeros), tau).acceleration)).v
    tau = other.actuation @ command
    two = jd.expand(other, jd.State(q, jd.forward_dynamics(other, jd.State(q, zeros), tau).acceleration)).v
    close(one, two, 1e-12)
    trajectory = jd.simulate(
        model,
        jd.State(q, zeros),
        lambda s, t: model.actuation @ command,
        1e-3,
        steps=3,
        integrator=jd.integrators.RK4(),
    )
    wanted = jd.simulate(
        other,
        jd.State(q, zeros),
        lambda s, t: other.actuation @ command,
        1e-3,
        steps=3,
        integrator=jd.integrators.RK4(),
    )
    assert trajectory.tau.shape == (3, 2)
    close(trajectory.q, wanted.q, 1e-12)


@pytest.mark.parametrize("name", ("four_bars", "geared_links"))
def test_xla_does_the_same(name):
    state = states(name)
    model = alone(name).with_compiler("xla")
    found = program(S.ABA())(model, state.q, state.v, forces(name), wrenches(name))
    agree(found.acceleration, accelerations(name), 1e-12)


def test_models_are_mapped():
    """Robots with other masses, lengths and ratios, in one program."""
    model, state = alone("four_bar_floating"), states("four_bar_floating")
    n = 3
    scale = 1 + 0.05 * np.random.default_rng(0).normal(size=(n, model.nb))
    masses = jnp.asarray(scale * np.asarray(model.bodies.mass))
    ratios = jnp.stack([jnp.array([5.0 + k, -1.0]) for k in range(n)])
    traces = []

    def f(model, mass, ratio, q, v, tau):
        traces.append(None)
        model = model.replace({"bodies.mass": mass, "embedded.1.coefficients": ratio})
        for _ in range(2):  # the ratio moves the crank by more than a time step does
            q = model.topology.closes(model, q, False)
        return jd.forward_dynamics(model, jd.State(q, v), tau, solver=S.ABA()).acceleration, q

    g = mapped(f)
    tau = forces("four_bar_floating")[:n]
    got, q = g(model, masses, ratios, state.q[:n], state.v[:n], tau)
    g(model, 1.1 * masses, ratios, state.q[:n], state.v[:n], tau)
    assert len(traces) == 1
    for k in range(n):
        coupling = model.embedded[1]
        assert coupling.name == "gear"
        other = dataclasses.replace(
            model.replace({"bodies.mass": masses[k]}),
            embedded=(model.embedded[0], dataclasses.replace(coupling, coefficients=ratios[k]), *model.embedded[2:]),
        )
        assert np.abs(jd.constraint_residual(other, q[k], other.embedded)).max() < 1e-12
        wanted = jd.forward_dynamics(other, jd.State(q[k], state.v[k]), tau[k], solver=S.ABA()).acceleration
        close(got[k], wanted, 1e-12)


def test_robots_are_what_they_are_said_to_be():
    """The catalogue has what is to be tested: several outputs, parts of ball joints, redundant rows."""
    topologies = [embedded(name).topology for name in ALL]
    outputs = [{t.parents[b] for b in c.bodies} - set(c.bodies) for t in topologies for c in t.clusters]
    assert max(map(len, outputs)) == 2
    assert any(-1 in x for x in outputs)
    balls = embedded("spatial_bars").topology
    assert len({balls.velocity_bodies[v] for v in balls.clusters[0].velocities}) == 3
    assert {balls.velocity_bodies[v] for v in balls.clusters[0].independent} & {
        balls.velocity_bodies[v] for v in balls.clusters[0].dependent
    }
    assert er.embedded("bennett").embedded[0].layout(cut("bennett").topology).rows == 5


@pytest.mark.parametrize("name", ("six_bar", "bennett"))
def test_single_precision(name):
    """Beside double precision at the same rounded numbers, relative to what the joints would do if loops were open:
    where forces nearly balance, rounding the inputs alone moves small accelerations by 1e-4 of themselves."""
    state = states(name)
    given = (state.q, state.v, forces(name), wrenches(name))
    cast = lambda tree, dtype: jax.tree.map(lambda x: jnp.asarray(x, dtype), tree)  # noqa: E731
    model, given = cast((alone(name), given), jnp.float32)
    tree = cast(dataclasses.replace(cut(name), constraints=()), jnp.float32)
    got = program(S.ABA())(model, *given)
    assert got.acceleration.dtype == jnp.float32 and succeeded(got.result).all()
    model, tree, given = cast((model, tree, given), jnp.float64)
    wanted = program(S.ABA())(model, *given).acceleration
    v = mapped(lambda m, q, v: jd.expand(m, jd.State(q, v)).v)(model, *given[:2])
    tau = jnp.zeros_like(v).at[:, jnp.asarray(model.topology.independent)].set(given[2])
    free = program(S.ABA())(tree, given[0], v, tau, given[3]).acceleration
    error = np.abs(np.asarray(got.acceleration, float) - wanted).max(-1) / np.maximum(1.0, np.abs(free).max(-1))
    assert error.max() < 1e-6
