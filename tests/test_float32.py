"""Single precision: a model whose leaves are cast, on the robots with loops; nothing promotes, nothing is lost."""

import embedding
import embedding_cases
import embedding_robots
import geared_robots
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from catalogue import CATALOGUE
from compiled import close, solve, states, succeeded
from solvers import SOLVERS

import jaxdyn as jd

#: linkages in a plane (redundant rows), thin rods on balls, a free joint inside
ROBOTS = ("four_bar_hinge", "thin_rods", "free_in_the_middle")
CASES = [("LCABA", r) for r in ROBOTS] + [("Dense", "thin_rods")]


def single(tree):
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), tree)


@pytest.mark.parametrize(("name", "robot"), CASES)
def test_accelerations(name, robot):
    """Relative to max(1, |unconstrained acceleration|), against the oracle at the same rounded numbers: near a
    singular pose the rounding of q alone moves the accelerations by more than the solver does."""
    row, model = SOLVERS[name], single(CATALOGUE[robot].build())
    given = single(states(robot))
    got = solve(row.solver, model, *given)
    model = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), model)
    given = [np.asarray(x, float) for x in given]
    assert got.acceleration.dtype == got.multipliers.dtype == jnp.float32
    assert succeeded(got.result).all()
    for k, (q, v, tau) in enumerate(zip(*given, strict=True)):
        wanted = oracle.forward_dynamics(model, q, v, tau)
        free = oracle.forward_dynamics(model, q, v, tau, constraints=()).acceleration
        close(got.acceleration[k], wanted.acceleration, row.single, max(1.0, np.abs(free).max()))


@pytest.mark.parametrize(("solver", "most", "tolerance"), [("ProxBBO", 2, 5e-7), ("ProxLTL", 3, 2e-6)])
def test_loops_whose_rows_ride_take_few_solves(solver, most, tolerance):
    """No inertia contains a penalty, so that the weight is large; what is left is rounding."""
    model = single(embedding_robots.cut("four_bar_floating"))
    closed = embedding_robots.states("four_bar_floating", 16)
    expanded = jax.vmap(lambda x: jd.expand(embedding_robots.embedded("four_bar_floating"), x))(closed)
    given = single([expanded.q, expanded.v])
    tau = single(np.random.default_rng(0).normal(size=given[1].shape))
    got = solve(getattr(jd.solvers, solver)(), model, *given, tau)
    assert succeeded(got.result).all() and np.asarray(got.stats.iterations).max() <= most
    model = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), model)
    for k, (q, v, t) in enumerate(zip(*(np.asarray(x, float) for x in (*given, tau)), strict=True)):
        wanted = oracle.forward_dynamics(model, q, v, t, tolerance=1e-5).acceleration
        close(got.acceleration[k], wanted, tolerance, np.abs(wanted).max())


@pytest.mark.parametrize("solver", ["LCABA", "ProxBBO", "ProxLTL"])
def test_what_is_held_twice_is_held_by_equal_forces(solver):
    """Light links make rounding larger than the compliance of a step, and still all rows have the same."""
    spec, parent = jd.ModelSpec("arm"), "world"
    for k, mass in enumerate((3.0, 1.0, 0.02)):
        inertia = jd.Inertia(mass, (0.1, 0, 0), 0.01 * mass * np.eye(3))
        at = jd.Transform(np.eye(3), (0.2 * (k > 0), 0, 0))
        spec.add_body(f"link {k}", parent, jd.joints.Spherical(), placement=at, inertia=inertia)
        parent = f"link {k}"
    for k in range(2):
        spec.add_constraint(jd.constraints.Weld(parent, name=f"held {k}", stabilization=None))
    model = single(spec.build())
    state = jd.State(model.neutral(), jnp.zeros(model.nv, jnp.float32))
    tau = single(np.random.default_rng(0).normal(size=(8, model.nv)))
    solved = jax.vmap(lambda t: jd.forward_dynamics(model, state, t, solver=getattr(jd.solvers, solver)()))
    found = np.asarray(jax.jit(lambda t: solved(t).multipliers)(tau))
    close(found[:, :6], found[:, 6:], 1e-3, np.abs(found).max())


def test_everything_stays_single():
    """Kinematics, energies, manifold, assembly, a step: outputs of the model's own precision."""
    model = single(CATALOGUE["four_bar_hinge"].build())
    q, v, tau = (jnp.asarray(x[0], jnp.float32) for x in states("four_bar_hinge"))
    state = jd.State(q, v)
    outputs = [
        jd.forward_kinematics(model, q),
        jd.mass_matrix(model, q),
        jd.bias_forces(model, state),
        jd.potential_energy(model, q),
        jd.constraint_jacobian(model, q),
        jd.integrate(model, q, v, 0.1),
        jd.assemble(model, q),
        jd.step(model, state, tau, 1e-3),
        jd.impulse(model, state),
        jd.impulse(model, state, tau, restitution=0.3),
        jd.impulse(model, state, constraints=()),
    ]
    numbers = [x.dtype for x in jax.tree.leaves(outputs) if jnp.issubdtype(x.dtype, jnp.floating)]
    assert set(numbers) == {jnp.dtype(jnp.float32)}
    assert model.neutral().dtype == jnp.float32


def test_inertias_stay_single():
    body = single(jd.Inertia.box(1.0, (0.1, 0.2, 0.3)))
    theta = jd.log_cholesky_from_inertia(body)
    for x in jax.tree.leaves((body + body, theta, jd.inertia_from_log_cholesky(theta))):
        assert x.dtype == jnp.float32


def test_gradients_stay_single():
    model = single(CATALOGUE["geared_arm"].build())
    q, v, tau = (jnp.asarray(x[0], jnp.float32) for x in states("geared_arm"))
    score = lambda tau: jnp.sum(jd.forward_dynamics(model, jd.State(q, v), tau).acceleration)  # noqa: E731
    got = jax.jit(jax.grad(score))(tau)
    assert got.dtype == jnp.float32 and np.isfinite(got).all()


@pytest.mark.parametrize("solver", [jd.solvers.ProxLTL(), jd.solvers.ProxBBO()], ids=lambda s: type(s).__name__)
def test_rows_of_gears_leave_those_of_feet_their_digits(solver):
    """A gear's row moves a light rotor fast: its pivot, and so its rounding, is thousands of times that of a foot."""
    robot = embedding.standing("quadruped", None)
    rows = (*embedding_cases.at_rest(robot.cut.constraints), *robot.held)
    q, w, tau = embedding_cases.states(robot, 8, "float32")
    exact = embedding_cases.reference(robot, q, w, tau)
    args = embedding_cases.arguments(robot, "LCABA", q, w, tau)
    model, rows, args = single((robot.cut, rows, args))
    a, steps = jax.jit(jax.vmap(embedding_cases.solution(model, rows, solver)))(*args)
    off = np.abs(np.asarray(a)[:, robot.independent] - exact).max(1)
    assert (off < 1e-6 * np.abs(exact).max(1)).all()
    assert steps.max() <= 3


def test_rows_that_hardly_move_are_solved_to_rounding():
    """Six-bars near dead centres: forces on some of their rows move 1e-4 of what they move elsewhere, and plain steps
    reduce what is left of them by a sixth."""
    robot = embedding_cases.Robot(geared_robots.units("six_bar", 5))
    rows = embedding_cases.at_rest(robot.cut.constraints)
    q, w, tau = embedding_cases.states(robot, 256, "float32")
    exact = embedding_cases.reference(robot, q, w, tau)
    args = embedding_cases.arguments(robot, "LCABA", q, w, tau)
    model, rows, args = single((robot.cut, rows, args))
    a, steps = jax.jit(jax.vmap(embedding_cases.solution(model, rows, jd.solvers.LCABA())))(*args)
    off = np.abs(np.asarray(a)[:, robot.independent] - exact).max(1) / np.abs(exact).max(1)
    assert off.max() < 3e-4 and np.median(off) < 1e-6
    assert steps.max() <= 14


@pytest.mark.parametrize("robot", ["held", "five_bar_floating", "same_pair", "overheld"])
@pytest.mark.parametrize("name", ["ProxBBO", "ProxLTL", "Unified"])
def test_multipliers_are_those_of_double_precision(name, robot):
    """The least-norm ones, with rows that depend on each other and links that are light beside others."""
    model, given = CATALOGUE[robot].build(), states(robot)
    wanted = np.array([oracle.forward_dynamics(model, *s).multipliers for s in zip(*given, strict=True)])
    found = solve(SOLVERS[name].solver, single(model), *single(given)).multipliers
    assert found.dtype == jnp.float32
    found = np.asarray(found, float)
    assert (np.abs(found - wanted).max(1) < 1e-3 * np.abs(wanted).max(1)).all()


def test_impulses_of_light_rods():
    """A biped with loops, whose rods have a hundredth of the mass of its legs."""
    model = jd.load("strider")
    state = jd.State(jd.assemble(model, model.neutral()), np.random.default_rng(0).normal(size=model.nv))
    wanted = jd.impulse(model, state).impulses
    found = jd.impulse(*single((model, state)))
    assert np.abs(np.asarray(found.impulses, float) - wanted).max() < 1e-4 * np.abs(wanted).max()
    assert found.result == jd.Result.successful


@pytest.mark.parametrize("solver", (jd.solvers.ProxBBO(), jd.solvers.ProxLTL(), jd.solvers.LCABA()), ids=repr)
def test_multipliers_of_dependent_rows_have_the_least_norm(solver):
    """An arm on a floating base, welded to it in a general direction: six rows of rank one."""
    rng = np.random.default_rng(0)

    def turn():
        R = np.linalg.qr(rng.normal(size=(3, 3)))[0]
        return R * np.sign(np.linalg.det(R))

    spec = jd.ModelSpec("arm")
    spec.add_body("base", "world", jd.joints.Free(), inertia=jd.Inertia(5.0, (0, 0, 0.1), np.eye(3)))
    inertia = jd.Inertia(2.0, (0.1, 0.2, -0.1), np.diag([0.3, 0.4, 0.5]))
    place = jd.Transform(turn(), (0.3, -0.2, 0.4))
    spec.add_body("arm", "base", jd.joints.Revolute(axis=(1, 2, 3)), placement=place, inertia=inertia)
    spec.add_constraint(jd.constraints.Weld("arm", "base", placement_a=jd.Transform(turn(), (0.1, 0.2, 0.3))))
    model = spec.build()
    rows = tuple(jd.anchored(model, model.neutral(), c) for c in model.constraints)
    state, tau = jd.State(model.neutral(), np.zeros(model.nv)), rng.normal(size=model.nv)
    wanted = jd.forward_dynamics(model, state, tau, constraints=rows, solver=jd.solvers.Dense()).multipliers
    model, state, tau, rows = jax.tree.map(lambda x: np.asarray(x, np.float32), (model, state, tau, rows))
    found = jd.forward_dynamics(model, state, tau, constraints=rows, solver=solver).multipliers
    wanted = np.asarray(wanted, np.float32)
    assert np.abs(found - wanted).max() < 1e-4 * np.abs(wanted).max()
