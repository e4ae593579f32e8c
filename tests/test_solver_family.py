"""What the solvers of the papers share and where they differ: iterates, soft rows, refusals, rows that a body carries,
derivatives, single precision and impulses."""

import curves
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from catalogue import CATALOGUE
from compiled import close, solve, states, succeeded, wrenches
from curves import GAINS, INERTIAS
from solvers import SOLVERS, names

import jaxdyn as jd
from jaxdyn.engine.lanes import laned
from jaxdyn.extend import Proximal, body_factor, elimination, riders_of
from jaxdyn.kinematics.rows import plan_of
from jaxdyn.systems.problem import problem_of
from jaxdyn.systems.weights import uniform
from jaxdyn.tree.early import early
from jaxdyn.tree.fronts import factorise_tree
from jaxdyn.tree.order import Joint, Multipliers

PROXIMAL = names(lambda row: row.iterates)
SOFT = names(lambda row: row.soft)
GROUNDED = names(lambda row: row.constraints and not row.loops)


def soft_gauss(model, q, v, tau, weights, external):
    """Least ½|q̈ − q̈_free|²_M + ½ Σ w (J q̈ + γ − a*)², in dense algebra, and its multipliers."""
    free = oracle.forward_dynamics(model, q, v, tau, constraints=(), external=external).acceleration
    M, J = oracle.mass_matrix(model, q), oracle.constraint_jacobian(model, q)
    wanted = oracle.constraint_target(model, q, v) - oracle.constraint_bias(model, q, v)
    root = np.linalg.cholesky(M)
    system = np.concatenate([root.T, np.sqrt(weights)[:, None] * J])
    right = np.concatenate([root.T @ free, np.sqrt(weights) * wanted])
    a = np.linalg.lstsq(system, right, rcond=None)[0]
    return a, weights * (wanted - J @ a)


def weights_of(model) -> tuple[float, ...]:
    """One weight for every row, from 1 to 1e4."""
    m = sum(c.layout(model.topology).rows for c in model.constraints)
    return tuple(float(w) for w in 10.0 ** np.random.default_rng(1).uniform(0, 4, m))


@pytest.mark.parametrize(("name", "one"), [(n, one) for n in SOFT for one in (True, False)])
def test_soft_rows_minimise_gauss(name, one):
    """One weight for all rows, and one for every row of the widest robot."""
    robot = "slider_crank" if one else SOLVERS[name].widest
    model = CATALOGUE[robot].build()
    q, v, tau = states(robot)
    each = weights_of(model)
    solution = solve(type(SOLVERS[name].solver)(50.0 if one else each), model, q, v, tau, wrenches(robot))
    assert succeeded(solution.result).all()
    for k in range(len(q)):
        given = np.full(len(each), 50.0) if one else np.array(each)
        a, lam = soft_gauss(model, q[k], v[k], tau[k], given, wrenches(robot)[k])
        close(solution.acceleration[k], a, 1e-10)
        close(solution.multipliers[k], lam, 1e-10)


def test_soft_rows_are_no_contradiction():
    """They are violated by intention: the result is a success, and the residual tells by how much."""
    got = solve(jd.solvers.LTLSoft(weights=1.0), CATALOGUE["same_pair"].build(), *states("same_pair"))
    assert succeeded(got.result).all() and (np.asarray(got.stats.residual_constraint) > 1e-3).all()


@pytest.mark.parametrize(
    ("name", "robot"),
    [(n, r) for n in PROXIMAL for r in ("slider_crank", "crossing_loops") if SOLVERS[n].loops or r == "slider_crank"],
)
def test_iterates_agree_step_by_step(name, robot):
    """Without refinement every solver makes the steps of lcaba_proxbbo, Eqs. 7 and 13; the first is the soft Gauss
    principle. The bodies of crossing loops name their rows in different orders."""
    mu = 30.0
    model = CATALOGUE[robot].build()
    q, v, tau = states(robot)
    M = [oracle.mass_matrix(model, x) for x in q]
    J = [oracle.constraint_jacobian(model, x) for x in q]
    lam = [np.zeros(len(j)) for j in J]
    for steps in range(1, 4):
        solver = type(SOLVERS[name].solver)(mu=mu, tol=0.0, max_steps=steps, refine=False)
        got = None if steps == 2 else solve(solver, model, q, v, tau)  # the third starts where it ends
        for k in range(len(q)):
            force = tau[k] - oracle.bias_forces(model, q[k], v[k]) + oracle.passive_forces(model, q[k], v[k])
            wanted = oracle.constraint_target(model, q[k], v[k]) - oracle.constraint_bias(model, q[k], v[k])
            right = force + J[k].T @ (lam[k] + mu * wanted)
            a = np.linalg.solve(M[k] + mu * J[k].T @ J[k], right)
            lam[k] = lam[k] + mu * (wanted - J[k] @ a)
            if got is not None:
                close(got.acceleration[k], a, 1e-9)
                close(got.multipliers[k], lam[k], 1e-9)
            if steps == 1:
                close(a, soft_gauss(model, q[k], v[k], tau[k], np.full(len(J[k]), mu), None)[0], 1e-9)


@pytest.mark.parametrize("name", GROUNDED)
def test_loops_are_refused(name):
    model = CATALOGUE["four_bar_point"].build()
    q, v, tau = (x[0] for x in states("four_bar_point"))
    text = rf"`{name}` cannot close kinematic loops: constraint '\w+' joins bodies '\w+' and '\w+'. Use `jd\.solvers"
    with pytest.raises(ValueError, match=text):
        jd.forward_dynamics(model, jd.State(q, v), tau, solver=SOLVERS[name].solver)
    with pytest.raises(ValueError, match=r"`impulse`.*cannot close kinematic loops"):
        jd.impulse(model, jd.State(q, v), solver=SOLVERS[name].solver)


@pytest.mark.parametrize("name", GROUNDED)
def test_many_bodies_are_refused(name):
    """The text names up to five bodies, and tells how many there are else."""
    for robot, constraints, joined in (
        ("general_of_three", None, r"constraint 'kite' joins bodies 'one', 'two' and 'three'\. Use"),
        ("tip_weld", (jd.constraints.CenterOfMass(),), r"constraint number 0 \(CenterOfMass\) joins .*7 bodies\. Use"),
    ):
        model = CATALOGUE[robot].build()
        q, v, tau = (x[0] for x in states(robot))
        with pytest.raises(ValueError, match=joined):
            jd.forward_dynamics(model, jd.State(q, v), tau, constraints=constraints, solver=SOLVERS[name].solver)


#: the same rows twice, a singular pose, a mix of rows; a row seen from its other end, a loop in a plane
DEPENDENT = {False: ("duplicated", "stretched_arm", "held"), True: ("everything", "four_bar_point")}


@pytest.mark.parametrize(
    ("name", "robot"),
    [(n, r) for n in names(lambda row: row.constraints and not row.redundant) for r in DEPENDENT[SOLVERS[n].loops]],
)
def test_dependent_rows_are_told(name, robot):
    """By solvers that need independent ones; a lane of NaN is told apart from them."""
    model = CATALOGUE[robot].build()
    q, v, tau = (x.copy() for x in states(robot))
    tau[1, 0] = np.nan
    got = solve(SOLVERS[name].solver, model, q, v, tau)
    told = [str(r) for r in np.where(got.result == jd.Result.dependent_rows, "dependent", "other")]
    assert told == ["dependent", "other", "dependent", "dependent"]
    assert np.asarray(got.result == jd.Result.not_finite).tolist() == [False, True, False, False]


def carried(robot):
    """Rows that ride at each body in PVEarly: when it is eliminated, and what it hands to its parent."""
    model = CATALOGUE[robot].build()
    given = [0] * model.nb
    for layout in plan_of(model.topology, model.constraints).layouts:
        given[layout.bodies[0]] += layout.rows
    found = early(model.topology, tuple(given))
    return dict(zip(model.body_names, zip(found.rows, found.above, strict=True), strict=True))


def test_early_elimination_takes_a_row_with_every_freedom():
    """The rows that each body carries shrink by the freedoms of its joint; six are the most that any takes up."""
    at = carried("tip_weld")
    assert [at[f"s{k}"] for k in range(7)] == [(0, 0), (1, 0), (2, 1), (3, 2), (4, 3), (5, 4), (6, 5)]
    at = carried("overheld")
    assert at == {
        "trunk": (5, 0),
        "left_thigh": (5, 2),
        "left_shin": (9, 5),
        "right_thigh": (0, 0),
        "right_shin": (0, 0),
    }


@pytest.mark.parametrize("robot", ["crossing_loops", "balanced", "differential", "general_of_three"])
def test_multipliers_go_at_the_common_ancestor(robot):
    """ProxBBO: each constraint is eliminated once, at the common ancestor of its bodies: before that body goes, and
    after those that its rows come from. Bodies of two trees meet in the world, after everything else."""
    model = CATALOGUE[robot].build()
    topology = model.topology
    plan = plan_of(topology, model.constraints)
    order = jd.solvers.ProxBBO().order(topology, plan)
    gone = [(c, x.node) for x in order if isinstance(x, Multipliers) for c in x.riders]
    bodies = [plan.bodies(c) for c in range(len(plan))]
    assert dict(gone) == {c: meeting(topology.parents, b) for c, b in enumerate(bodies)} and len(gone) == len(bodies)
    if robot == "crossing_loops":
        assert set(dict(gone).values()) == {0, 1, 3}
    when = {x.body: k for k, x in enumerate(order) if isinstance(x, Joint)} | {-1: len(order)}
    for k, x in enumerate(order):
        if isinstance(x, Multipliers):
            assert when[x.node] > k
            assert all(when[b] < k for c in x.riders for b in bodies[c] if b != x.node)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("solver", [jd.solvers.PV(), jd.solvers.LTL()])
def test_a_row_that_nothing_moves_is_told(solver, dtype):
    """At the end of a stretched arm, along the arm, where its coefficients are rounding: alone, and beside another."""
    spec, bar = jd.ModelSpec("arm"), jd.Inertia(1.0, (0.2, 0, 0), np.diag([1e-3, 0.02, 0.02]))
    shift = jd.Transform(np.eye(3), (0.31, 0, 0.17))
    spec.add_body("upper", "world", jd.joints.Revolute(axis=(0, 1, 0)), inertia=bar)
    spec.add_body("lower", "upper", jd.joints.Revolute(axis=(0, 1, 0)), placement=shift, inertia=bar)
    model, q = spec.build(), jnp.array([0.3, 0.0])
    along, across = np.array([0.31, 0, 0.17]), np.array([-0.17, 0, 0.31])
    ends = {"placement_a": shift, "placement_b": jd.frame_pose(model, q, "lower")}  # normals are in the arm's axes
    plane = lambda n: jd.anchored(model, q, jd.constraints.PointOnPlane("lower", normal=n, **ends))  # noqa: E731
    found = []
    for normals in ((along,), (along, across), (across,), (along + across,)):
        given = model, q, jnp.zeros(2), jnp.ones(2), tuple(plane(n) for n in normals)
        robot, x, v, tau, rows = jax.tree.map(lambda x: jnp.asarray(x, dtype), given)
        found.append(jd.forward_dynamics(robot, jd.State(x, v), tau, constraints=rows, solver=solver).result)
    told = [bool(x == jd.Result.dependent_rows) for x in found]
    assert told == [True, True, False, False] and succeeded(found[2]) and succeeded(found[3])


def meeting(parents, bodies) -> int:
    """The last body on all ways from the root (-1) to some bodies."""
    ways = []
    for b in bodies:
        way = [b]
        while way[-1] >= 0:
            way.append(parents[way[-1]])
        ways.append(way)
    return next(b for b in ways[0] if all(b in way for way in ways))


class Mixed(Proximal):
    """Every other constraint rides, and the rest are penalties."""

    def order(self, topology, plan):
        riders = riders_of(topology, plan)
        penalised = frozenset(tuple(sorted(r.bodies)) for r in riders[1::2])
        return elimination(topology, penalised, riders[::2])

    def system(self, problem, weights):
        plan = problem.rows.plan
        order = self.order(problem.model.topology, plan)
        return body_factor(problem, order, weights, frozenset(range(0, len(plan), 2)))


@pytest.mark.parametrize("robot", ["crossing_loops", "everything"])
def test_any_mixture_of_penalties_and_rows(robot):
    model = CATALOGUE[robot].build()
    assert len(model.constraints) > 1
    got = solve(Mixed(), model, *states(robot))
    for k, state in enumerate(zip(*states(robot), strict=True)):
        wanted = oracle.forward_dynamics(model, *state)
        close(got.acceleration[k], wanted.acceleration, 1e-8, max(1.0, np.abs(wanted.acceleration).max()))
        close(got.multipliers[k], wanted.multipliers, 1e-6)


#: small robots by (loops, redundant): what rows of other kinds add to derivatives is the same code for all solvers
DIFFERENTIATED = {
    (True, True): "four_bar_point",
    (True, False): "geared_arm",
    (False, True): "slider_crank",
    (False, False): "tip_plane",
}
MOVING = ("q", "v", "tau", "external", *INERTIAS, *GAINS)


@pytest.mark.parametrize("name", names(lambda row: row.constraints))
def test_derivatives(name):
    """Of accelerations and multipliers in everything: against central differences of dense algebra along the loops, and
    backwards as forwards."""
    row = SOLVERS[name]
    robot, solver = DIFFERENTIATED[row.loops, row.redundant], row.solver
    q, v, tau = (x[0] for x in states(robot))
    path = curves.curve(robot, q, v, tau, wrenches(robot)[0], MOVING, 20, robot == "four_bar_point")
    reference = curves.reference
    if row.soft:
        solver, m = type(solver)(100.0), len(weights_of(CATALOGUE[robot].build()))
        reference = lambda p: soft_gauss(*p[:4], np.full(m, 100.0), p.external)  # noqa: E731

    def f(p):
        state = jd.State(p.q, p.v)
        found = jd.forward_dynamics(p.model, state, p.tau, external=p.external, solver=solver)
        return found.acceleration, found.multipliers

    @jax.jit
    def both(at, direction):
        out, forwards = jax.jvp(f, (at,), (direction,))
        weights = jax.tree.map(lambda x: jnp.cos(jnp.arange(x.size, dtype=x.dtype)), out)
        return forwards, weights, jax.vjp(f, at)[1](weights)[0]

    # gains and weights multiply the rounding of what closes the loops
    step, tolerance = 1e-4, 1e-7 if row.soft else 1e-8
    direction = curves.slope(path, step)
    forwards, cotangents, gradient = both(jax.tree.map(jnp.asarray, path(0.0)), direction)
    for got, wanted in zip(forwards, curves.slope(lambda s: reference(path(s)), step), strict=True):
        close(got, wanted, tolerance)
    total = sum(np.vdot(w, x) for w, x in zip(cotangents, forwards, strict=True))
    parts = [float(np.vdot(g, d)) for g, d in zip(*map(jax.tree.leaves, (gradient, direction)), strict=True)]
    close(sum(parts), total, 1e-10, max(1.0, np.abs(parts).max()))


@pytest.mark.parametrize("name", names(lambda row: row.constraints))
def test_single_precision(name):
    """Against dense algebra at the same rounded numbers; without stabilisation, which multiplies the rounding of a
    residual by thousands, whatever the solver."""
    row = SOLVERS[name]
    solver = type(row.solver)(50.0) if row.soft else row.solver
    cast = lambda x: jnp.asarray(x, jnp.float32)  # noqa: E731
    model = jax.tree.map(cast, CATALOGUE[row.widest].build())
    still = jax.tree.map(jnp.zeros_like, [c.stabilization for c in model.constraints])
    model = eqx.tree_at(lambda m: [c.stabilization for c in m.constraints], model, still)
    given = [cast(x) for x in states(row.widest)]
    got = solve(solver, model, *given)
    assert got.acceleration.dtype == jnp.float32 and succeeded(got.result).all()
    model = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), model)
    for k, (q, v, tau) in enumerate(zip(*[np.asarray(x, float) for x in given], strict=True)):
        free = oracle.forward_dynamics(model, q, v, tau, constraints=()).acceleration
        if row.soft:
            wanted = soft_gauss(model, q, v, tau, np.full(got.multipliers.shape[1], 50.0), None)[0]
        else:
            wanted = oracle.forward_dynamics(model, q, v, tau, tolerance=1e-5).acceleration
        close(got.acceleration[k], wanted, row.single, max(1.0, np.abs(free).max()))


@pytest.mark.parametrize("name", names(lambda row: row.constraints and not row.soft))
def test_impulses(name):
    """The jump of the velocity satisfies the rows and is the least in the metric of M."""
    robot = SOLVERS[name].widest
    model = CATALOGUE[robot].build()
    q, v, p = (x[0] for x in states(robot))
    v = v + np.random.default_rng(6).normal(size=model.nv)
    M, J = oracle.mass_matrix(model, q), oracle.constraint_jacobian(model, q)
    hit = jax.jit(lambda q, v, p: jd.impulse(model, jd.State(q, v), p, restitution=0.3, solver=SOLVERS[name].solver))
    got = hit(q, v, p)
    close(J @ np.asarray(got.velocity), -0.3 * J @ v, 1e-10)
    close(M @ (np.asarray(got.velocity) - v), p + J.T @ np.asarray(got.impulses), 1e-10)
    for x, wanted in zip((got.velocity, got.impulses), oracle.impulse(model, q, v, p, 0.3), strict=True):
        close(x, wanted, 1e-8)


@pytest.mark.parametrize("compiler", ["auto", "xla"])
@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_derivatives_of_impulses_do_not_depend_on_the_start(compiler, mode):
    model = CATALOGUE["four_bar_point"].build().with_compiler(compiler)
    q, v, p = (x[0] for x in states("four_bar_point"))
    solver = jd.solvers.Dense() if compiler == "auto" else jd.solvers.LCABA()

    def jump(p, start):
        return jd.impulse(model, jd.State(q, v), p, warm_start=start, solver=solver).velocity

    start = np.arange(1.0, 1.0 + jd.constraint_jacobian(model, q).shape[0])
    close(jax.jit(mode(jump))(p, start), jax.jit(mode(jump))(p, None), 1e-9)


@pytest.mark.parametrize("name", SOFT)
def test_impulses_are_not_soft(name):
    model = CATALOGUE["tip_plane"].build()
    q, v, _ = (x[0] for x in states("tip_plane"))
    with pytest.raises(ValueError, match=f"`impulse`: `{name}` only pulls at rows"):
        jd.impulse(model, jd.State(q, v), solver=SOLVERS[name].solver)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: jd.solvers.PV(max_steps=0), "`PV`: `max_steps` = 0 is not a positive integer"),
        (lambda: jd.solvers.PVSoft(weights=-1.0), "`PVSoft`: `weights` = -1.0 are not positive"),
        (lambda: jd.solvers.LTLSoft(weights=(1.0, 0.0)), "`LTLSoft`: `weights`"),
        (lambda: jd.solvers.ProxBBO(mu=0.0), "`ProxBBO`: `mu` = 0.0 is not a positive number"),
        (lambda: jd.solvers.ProxLTL(tol=-1.0), "`ProxLTL`: `tol` = -1.0 is not a number from 0 on"),
    ],
)
def test_bad_options(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_as_many_weights_as_rows():
    model, (q, v, tau) = CATALOGUE["standing"].build(), [x[0] for x in states("standing")]
    with pytest.raises(ValueError, match="`LTLSoft` has 2 `weights` for 7 rows"):
        jd.forward_dynamics(model, jd.State(q, v), tau, solver=jd.solvers.LTLSoft((1.0, 2.0)))


def _inertias(model, q, mu):
    """Λ⁻¹ and Λ of ProxLTL's factor."""
    solver = jd.solvers.ProxLTL()
    problem = problem_of(model, model.constraints, q)
    factor = solver.system(problem, uniform(problem, mu))
    return factor.inverse_inertia(), factor.inertia()


@pytest.mark.parametrize("name", ["overheld", "crossing_loops"])
def test_operational_space_inertia_is_a_by_product(name):
    model = CATALOGUE[name].build()
    q = np.asarray(states(name)[0][0])
    inverse, inertia = laned(_inertias)(model, jnp.asarray(q), jnp.asarray(1e3))
    J = np.asarray(jd.constraint_jacobian(model, q, model.constraints))
    wanted = J @ np.linalg.solve(np.asarray(jd.mass_matrix(model, q)), J.T) + 1e-3 * np.eye(len(J))
    np.testing.assert_allclose(inverse, wanted, atol=1e-10 * np.abs(wanted).max())
    np.testing.assert_allclose(wanted @ np.asarray(inertia), np.eye(len(J)), atol=1e-8)


def test_any_matrix_with_the_sparsity_of_a_tree():
    """proximal_ltl, IV-F: blocks of three sizes, coupled along the paths to the root, and a second tree."""
    parents, sizes = (-1, 0, 0, 1, 1, 2, -1, 6), (3, 1, 2, 1, 2, 1, 1, 2)
    above: list[list[int]] = []
    for p in parents:
        above.append([*above[p], p] if p >= 0 else [])
    starts = np.cumsum((0, *sizes))
    n, rng = starts[-1], np.random.default_rng(3)
    A = np.diag(rng.uniform(20, 30, n))
    for b, blocks in enumerate(above):
        for a in blocks:
            A[starts[b] : starts[b + 1], starts[a] : starts[a + 1]] = rng.normal(size=(sizes[b], sizes[a]))
    b = rng.normal(size=(n, 1))
    with jax.numpy_rank_promotion("allow"):
        factor = factorise_tree(jnp.asarray(A)[:, :, None], parents, sizes)
        symmetric = np.tril(A) + np.tril(A, -1).T
        np.testing.assert_allclose(factor.solve(jnp.asarray(b)), np.linalg.solve(symmetric, b), atol=1e-12)
    nonzeros = sum(len(f.front) * len(f.own) for f in factor.tables.order)
    assert nonzeros <= sum(s * sizes[a] for s, blocks in zip(sizes, above, strict=True) for a in blocks), "it fills in"
    with pytest.raises(ValueError, match="parent 1 of block 0 must come before it"):
        factorise_tree(jnp.eye(2)[:, :, None], (1, -1), (1, 1))
