"""Every solver against dense algebra on the catalogue, and what becomes of rows that conflict, of few steps, of a
warm start and of numbers that are not."""

import dataclasses

import compiled
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from catalogue import CATALOGUE
from compiled import close, solve, solved, states, succeeded, wrenches
from solvers import SOLVERS, cases, names

import jaxdyn as jd


@pytest.mark.parametrize(("name", "robot"), cases(lambda row: () if row.soft else row.robots))
def test_agrees_with_dense_algebra(name, robot):
    """Accelerations, constraint forces and minimum-norm multipliers where the rows do not conflict."""
    row, model = SOLVERS[name], CATALOGUE[robot].build()
    solution = solved(robot, row.solver)
    assert succeeded(solution.result).all()
    for k, (q, v, tau) in enumerate(zip(*states(robot), strict=True)):
        wanted = oracle.forward_dynamics(model, q, v, tau, external=wrenches(robot)[k])
        assert wanted.conflict < 1e-8
        free = oracle.forward_dynamics(model, q, v, tau, constraints=(), external=wrenches(robot)[k])
        scale = max(1.0, np.abs(free.acceleration).max())
        close(solution.acceleration[k], wanted.acceleration, row.acceleration, scale)
        J = oracle.constraint_jacobian(model, q)
        close(J.T @ np.asarray(solution.multipliers[k]), J.T @ wanted.multipliers, row.acceleration, scale)
        close(solution.multipliers[k], wanted.multipliers, row.multipliers)


@pytest.mark.parametrize("name", names(lambda row: row.constraints))
def test_takes_no_constraints_at_all(name):
    """`constraints=()` is the tree, for every solver."""
    model = CATALOGUE["geared_arm"].build()
    q, v, tau = (x[0] for x in states("geared_arm"))
    free = jax.jit(
        lambda q, v, tau: jd.forward_dynamics(model, jd.State(q, v), tau, constraints=(), solver=SOLVERS[name].solver)
    )
    got = free(q, v, tau)
    close(got.acceleration, oracle.forward_dynamics(model, q, v, tau, constraints=()).acceleration, 1e-10)
    assert got.multipliers.shape == (0,) and got.result == jd.Result.successful


def test_constraints_beside_the_models_own():
    """Feet pinned where they stand, besides what the model holds."""
    model = CATALOGUE["quadruped"].build()
    q, v, tau = (jnp.asarray(x[0]) for x in states("quadruped"))
    feet = tuple(
        jd.anchored(model, q, kind(f"{side}_foot", name=side))
        for side, kind in (("left", jd.constraints.Point), ("right", jd.constraints.Weld))
    )
    got = jd.forward_dynamics(model, jd.State(q, v), tau, constraints=model.constraints + feet)
    wanted = oracle.forward_dynamics(model, np.asarray(q), np.asarray(v), np.asarray(tau), constraints=feet)
    close(got.acceleration, wanted.acceleration, 1e-8, np.abs(wanted.acceleration).max())
    close(got.multipliers, wanted.multipliers, 1e-6)
    close(jd.constraint_residual(model, q, feet), np.zeros(9), 1e-14)


def backward_errors(model, q, v, tau, solution, k):
    """Relative residuals of the undamped equations, in dense algebra: of the dynamics, of the rows, and of the
    rows' normal equations."""
    a, lam = np.asarray(solution.acceleration[k]), np.asarray(solution.multipliers[k])
    M, J = oracle.mass_matrix(model, q), oracle.constraint_jacobian(model, q)
    h = oracle.bias_forces(model, q, v) - oracle.passive_forces(model, q, v)
    wanted = oracle.constraint_target(model, q, v) - oracle.constraint_bias(model, q, v)
    size = lambda *x: max(np.linalg.norm(y) for y in x)  # noqa: E731
    r1, r2 = tau - h - M @ a + J.T @ lam, wanted - J @ a
    scale1 = size(tau, h, np.linalg.norm(M, 2) * a, J.T @ lam)
    scale2 = size(wanted, np.linalg.norm(J, 2) * a)
    return size(r1) / scale1, size(r2) / scale2, size(J.T @ r2) / (np.linalg.norm(J, 2) * scale2)


WEIGHTS = [(name, "slider_crank", mu) for name in names(lambda row: row.iterates) for mu in (1e3, 1e11)]
WEIGHTS += [("LCABA", "four_bar_point", mu) for mu in (1e5, 1e9)]


@pytest.mark.parametrize("name", names(lambda row: row.constraints and not row.soft))
def test_backward_error(name):
    row, model = SOLVERS[name], CATALOGUE[SOLVERS[name].widest].build()
    given = states(row.widest)
    solution = solve(row.solver, model, *given)
    for k, (q, v, tau) in enumerate(zip(*given, strict=True)):
        dynamics, rows, _ = backward_errors(model, q, v, tau, solution, k)
        assert dynamics < 1e-9 and rows < 1e-9


@pytest.mark.parametrize(("name", "robot", "mu"), WEIGHTS)
def test_backward_error_at_any_weight(name, robot, mu):
    model = CATALOGUE[robot].build()
    q, v, tau = states(robot)
    solution = solve(type(SOLVERS[name].solver)(mu=mu), model, q, v, tau)
    assert succeeded(solution.result).all()
    for k in range(len(q)):
        dynamics, rows, _ = backward_errors(model, q[k], v[k], tau[k], solution, k)
        assert dynamics < 1e-9 and rows < 1e-9


@pytest.mark.parametrize("name", names(lambda row: row.constraints and row.redundant and not row.soft))
def test_conflicting_rows_end_at_the_least_squares_point(name):
    """A row that others imply wants another acceleration: the result says so, and the rows are violated least."""
    robot = SOLVERS[name].widest
    model = CATALOGUE[robot].build()
    model = eqx.tree_at(lambda m: m.constraints[-1].target, model, jnp.array([0.8]))
    q, v, tau = states(robot)
    solution = solve(SOLVERS[name].solver, model, q, v, tau)
    assert np.asarray(solution.result == jd.Result.inconsistent_constraints).all()
    for k in range(len(q)):
        wanted = oracle.forward_dynamics(model, q[k], v[k], tau[k])
        assert wanted.conflict > 0.1
        dynamics, _, normal = backward_errors(model, q[k], v[k], tau[k], solution, k)
        assert dynamics < 1e-9 and normal < 1e-9
        close(solution.acceleration[k], wanted.acceleration, 1e-8, max(1.0, np.abs(wanted.acceleration).max()))
        close(solution.multipliers[k], wanted.multipliers, 1e-6)


@pytest.mark.parametrize("name", names(lambda row: row.iterates))
def test_too_few_steps_are_told(name):
    robot = "slider_crank"
    model = CATALOGUE[robot].build()
    solver = type(SOLVERS[name].solver)
    few = solve(solver(mu=1e2, max_steps=1), model, *states(robot))
    assert np.asarray(few.result == jd.Result.max_steps_reached).all()
    assert np.asarray(few.stats.iterations == 1).all()
    exactly = solve(solver(tol=0.0, max_steps=7), model, *states(robot))
    assert succeeded(exactly.result).all() and np.asarray(exactly.stats.iterations == 7).all()


@pytest.mark.parametrize("name", names(lambda row: row.iterates))
def test_warm_start(name):
    """From the right multipliers, or impulses, one step with a low weight is exact, which it is not from zero."""
    solver = type(SOLVERS[name].solver)(mu=1e2, max_steps=1)
    robot = "four_bar_point" if SOLVERS[name].loops else "slider_crank"
    model, given = CATALOGUE[robot].build(), states(robot)
    exact = [oracle.forward_dynamics(model, *state) for state in zip(*given, strict=True)]
    jumps = [oracle.impulse(model, q, v + 1.0, p) for q, v, p in zip(*given, strict=True)]

    def found(m, q, v, tau, lam, impulses):
        solution = jd.forward_dynamics(m, jd.State(q, v), tau, solver=solver, warm_start=lam)
        hit = jd.impulse(m, jd.State(q, v + 1.0), tau, solver=solver, warm_start=impulses)
        return solution.acceleration, hit.velocity

    run = compiled.mapped(found)
    lam, impulses = (jnp.asarray(x) for x in ([x.multipliers for x in exact], [x[1] for x in jumps]))
    warm = run(model, *map(jnp.asarray, given), lam, impulses)
    cold = run(model, *map(jnp.asarray, given), 0 * lam, 0 * impulses)
    for k, wanted in enumerate(np.array(x) for x in ([x.acceleration for x in exact], [x[0] for x in jumps])):
        close(warm[k], wanted, 1e-9)
        assert (np.abs(cold[k] - wanted).max(1) > 1e-4 * np.abs(wanted).max(1)).all()


@pytest.mark.parametrize("name", names(lambda row: row.constraints and row.loops and not row.soft))
def test_wrong_warm_starts_do_not_change_the_solution(name):
    """Not even along a row that moves nothing, such as the third one of a pin in a plane."""
    model, solver = jd.load("four_bar"), SOLVERS[name].solver
    state, tau = jd.State(model.neutral(), jnp.zeros(model.nv)), jnp.array([0.5, 0.0, 0.0])
    found = jax.jit(lambda lam: jd.forward_dynamics(model, state, tau, solver=solver, warm_start=lam))
    right, wrong = found(jnp.zeros(3)), found(jnp.full(3, 1e3))
    assert wrong.result == jd.Result.successful
    close(wrong.acceleration, right.acceleration, 1e-10)
    close(wrong.multipliers, right.multipliers, 1e-9)


@pytest.mark.parametrize("name", names(lambda row: row.constraints))
def test_lanes_do_not_touch(name):
    """NaN in q, v or tau of one lane is told by that lane's result alone; the other lanes, now in other places, are the
    same to the last bit."""
    row = SOLVERS[name]
    model, given, order = CATALOGUE[row.widest].build(), states(row.widest), np.array([2, 1, 3, 0])
    clean = solve(row.solver, model, *given)
    for where in range(3):
        moved = [x[order] for x in given]
        moved[where][1, -1] = np.nan
        got = solve(row.solver, model, *moved)
        assert np.asarray(got.result == jd.Result.not_finite).tolist() == [False, True, False, False]
        assert np.isnan(np.asarray(got.acceleration[1])).any()
        for x, y in ((got.acceleration, clean.acceleration), (got.multipliers, clean.multipliers)):
            assert np.array_equal(np.delete(x, 1, 0), np.delete(np.asarray(y)[order], 1, 0))


def test_a_quaternion_that_is_not_of_unit_length_is_told():
    model = CATALOGUE["stretched_arm"].build()
    q, v, tau = (x.copy() for x in states("stretched_arm"))
    q[2, :4] *= 1.01
    result = solve(jd.solvers.LCABA(), model, q, v, tau).result
    assert np.asarray(result == jd.Result.non_unit_quaternion).tolist() == [False, False, True, False]


def test_throw():
    """Under `eqx.filter_jit` the message of the result is raised, with what to do."""
    model = CATALOGUE["pendulum"].build()
    run = eqx.filter_jit(lambda tau: jd.forward_dynamics(model, jd.State([0.1], [0.0]), tau, throw=True).acceleration)
    assert np.isfinite(run(jnp.ones(1))).all()
    with pytest.raises(Exception, match="not finite"):
        jax.block_until_ready(run(jnp.array([jnp.nan])))


def test_the_table_covers_every_solver_and_kind_of_robot():
    exported = {getattr(jd.solvers, n) for n in jd.solvers.__all__}
    kinds = {
        x for x in exported if isinstance(x, type) and issubclass(x, jd.solvers.Solver) and x is not jd.solvers.Solver
    }
    assert kinds == {type(row.solver) for row in SOLVERS.values()}
    assert set(CATALOGUE) >= {r for _, r in cases()}
    assert len({r for _, r in cases()}) >= 25
    assert all(CATALOGUE[row.widest].redundant == row.redundant for row in SOLVERS.values())
    assert all(CATALOGUE[row.widest].loops == row.loops for row in SOLVERS.values())


def test_armature_of_a_free_joint_on_a_moving_body():
    """The joint does not take all of its body's inertia away: one solve of the tree is exact."""
    model = CATALOGUE["free_in_the_middle"].build()
    q, v, tau = (x[0] for x in states("free_in_the_middle"))
    run = jax.jit(
        lambda q, v, tau: jd.forward_dynamics(model, jd.State(q, v), tau, constraints=(), solver=jd.solvers.ABA())
    )
    got = run(q, v, tau).acceleration
    wanted = oracle.forward_dynamics(model, q, v, tau, constraints=()).acceleration
    close(got, wanted, 1e-10, np.abs(wanted).max())


@pytest.mark.parametrize("name", names(lambda row: row.constraints and row.loops and not row.soft))
def test_open_loops_of_points_on_a_moving_base(name):
    """Two points that are apart differ in velocity when the whole loop turns: what is above a loop moves its rows."""
    spec, part = jd.ModelSpec("open"), jd.Inertia(1.0, (0.1, 0.0, -0.1), 0.05 * np.eye(3))
    spec.add_body("base", "world", jd.joints.Free(), inertia=part)
    for side in ("left", "right"):
        spec.add_body(f"{side}_hip", "base", jd.joints.Universal(), inertia=part)
        spec.add_body(side, f"{side}_hip", jd.joints.Revolute(), inertia=part)
    at = [jd.Transform(np.eye(3), x) for x in ((0.3, 0.1, -0.2), (0.2, 0.5, 0.1))]
    spec.add_constraint(jd.constraints.Point("left", "right", placement_a=at[0], placement_b=at[1]))
    model = spec.build()
    q = np.asarray(jd.integrate(model, model.neutral(), np.linspace(-0.5, 0.6, model.nv), 1.0))
    v, tau = np.ones((2, model.nv))
    solver = SOLVERS[name].solver
    found = jax.jit(lambda tau: jd.forward_dynamics(model, jd.State(q, v), tau, solver=solver))(tau)
    wanted = oracle.forward_dynamics(model, q, v, tau)
    assert succeeded(found.result).all()
    close(found.acceleration, wanted.acceleration, 1e-8, max(1.0, np.abs(wanted.acceleration).max()))


@pytest.mark.parametrize("dtype", [jnp.float64, jnp.float32])
def test_where_nothing_pulls_multipliers_are_rounding(dtype):
    """Forces under which a mechanism moves as its loops allow: rounding is no reason for forces of constraints."""
    model = jd.load("four_bar").replace({"gravity": jnp.zeros(3)})
    rows = tuple(dataclasses.replace(c, stabilization=None) for c in model.constraints)
    q = jd.assemble(model, model.neutral())
    along = np.linalg.svd(oracle.constraint_jacobian(model, q))[2][2:]
    taus = np.random.default_rng(0).normal(size=(3000, len(along))) @ along @ jd.mass_matrix(model, q)
    model, rows, q, taus = jax.tree.map(lambda x: jnp.asarray(x, dtype), (model, rows, q, taus))
    state = jd.State(q, jnp.zeros(model.nv, dtype))
    for solver in (jd.solvers.LCABA(), jd.solvers.ProxBBO()):
        solve = jax.jit(jax.vmap(lambda t, s=solver: jd.forward_dynamics(model, state, t, constraints=rows, solver=s)))
        lam = np.asarray(solve(taus).multipliers)
        assert np.abs(lam).max() < 1e3 * jnp.finfo(dtype).eps * np.abs(taus).max()
