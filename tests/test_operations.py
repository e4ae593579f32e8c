"""Operation counts: of the counter itself, and how they grow with the robot for the solvers of each complexity."""

import functools

import jax
import jax.numpy as jnp
import measure
import numpy as np
import operations as counter
import osim_operations
import osim_parts
import pytest
import systems
import topologies
from lane_operations import lane_operations

import jaxdyn as jd
from jaxdyn.constrained.auto import features_of
from jaxdyn.engine import kernels
from jaxdyn.engine.facts import counts
from jaxdyn.engine.lanes import laned
from jaxdyn.engine.steps import Ref, Row, Step, Table
from jaxdyn.engine.sweeps import swept
from jaxdyn.kinematics.rows import plan_of
from jaxdyn.systems.cost import GAIN, nanoseconds

ROBOTS = {
    "chain": topologies.chain,
    "tree": topologies.tree,
    "ladder": topologies.ladder,
    "cycle": topologies.cycle,
    "loop_chain": topologies.loop_chain,
    "nested": topologies.nested_loops,
    "branching": topologies.branching_loops,
    "held": topologies.held_loops,
    "object": topologies.handled_object,
    "random": lambda loops, seed=0: topologies.random_loops(12, loops, seed),
}


def counted(model: jd.Model, solver: jd.solvers.Solver) -> int:
    q, v, tau = (x[0] for x in measure.states(model, model.neutral(), 1))
    f = lambda q, v, tau: jd.forward_dynamics(model, jd.State(q, v), tau, solver=solver).acceleration  # noqa: E731
    return counter.operations(f, q, v, tau)


@functools.cache
def cost(robot: str, size: int, solver: jd.solvers.Solver) -> int:
    """Operations of one damped solve."""
    return counted(ROBOTS[robot](size), solver)


def test_what_an_operation_is():
    x, A = jnp.ones(5), jnp.eye(4)
    count = counter.operations
    assert count(lambda x: x * x + 1, x) == 10
    assert count(lambda x: jnp.reshape(x, (5, 1)), x) == 0
    assert count(lambda A: A @ A, A) == 2 * 4**3
    assert count(lambda A: jax.lax.linalg.cholesky_p.bind(A), A) == 4**3 // 3 + 4**2
    solved = lambda L, B: jax.lax.linalg.triangular_solve(L, B, left_side=True, lower=True)  # noqa: E731
    assert count(solved, A, jnp.ones((4, 3))) == 3 * 4**2
    assert count(lambda x: jax.lax.scan(lambda c, _: (c * 2.0, None), x, length=7)[0], x) == 35
    doubled = lambda x: jax.lax.while_loop(lambda c: c[0] < 9, lambda c: c * 2.0, x)  # noqa: E731
    assert count(doubled, x, trips=3) == 3 * 5
    assert count(lambda x: jnp.sum(jnp.where(x > 0, x, 0.0)), x) == 10
    assert count(lambda x, y: x.at[jnp.array([1, 2])].add(y), x, x[:2]) == 6  # two of them for each index
    assert count(lambda x: jax.lax.cond(x[0] > 0, lambda: x * x * x, lambda: x * x), x) == 5
    unread = laned(lambda x: (x + 1.0, x * x * x))
    assert count(lambda x: (unread(x)[0], jnp.sin(x))[0], x) == 5


def _both(x, y):
    product = x * y
    return product, product + y


def test_what_a_sweep_costs():
    """Rows whose results somebody reads, of these the results that are read, and an addition for every further write
    to a cell."""
    cell = lambda k: Ref("x", k)  # noqa: E731
    rows = [Row(Step(_both), (cell(k), cell(k + 1)), (Ref("product", k), Ref("sum", 0))) for k in range(3)]
    rows.append(Row(Step(_both), (Ref("product", 0), Ref("sum", 0)), (Ref("last", 0), Ref("end", 0))))
    table = Table(rows, {"product": 3, "sum": 1, "last": 1, "end": 1})
    f = lambda x, *names: [found[n] for found in (swept(table, {"x": x}),) for n in names]  # noqa: E731
    x = jnp.ones((4, 5, 1))
    count = lambda *names: counter.operations(lambda x: f(x, *names), x)  # noqa: E731
    assert count("product") == 3 * 5
    assert count("sum") == 3 * 2 * 5 + 2 * 5
    assert count("product", "sum") == count("sum")
    assert count("last") == count("sum") + 5
    first = Table([Row(Step(jnp.sin), (Ref("sum", 0),), Ref("sine", 0))], {"sine": 1})
    read = Table([Row(Step(jnp.sin), (Ref("product", 1),), Ref("sine", 0))], {"sine": 1})
    assert counter.operations(lambda x: swept(first, swept(table, {"x": x}))["sine"], x) == count("sum") + 5
    assert counter.operations(lambda x: swept(read, swept(table, {"x": x}))["sine"], x) == 2 * 5


@pytest.mark.parametrize("name", ROBOTS)
def test_synthetic_robots_are_closed_and_come_from_their_seed(name):
    model, again, other = (ROBOTS[name](20 if name == "tree" else 3, seed=s) for s in (0, 0, 1))
    q = model.neutral()
    np.testing.assert_allclose(jd.constraint_residual(model, q, model.constraints), 0, atol=1e-12)
    leaves = jax.tree.leaves(model)
    assert all((x == y).all() for x, y in zip(leaves, jax.tree.leaves(again), strict=True))
    assert any((x != y).any() for x, y in zip(leaves, jax.tree.leaves(other), strict=True))


@pytest.mark.parametrize(
    ("robot", "sizes", "solver"),
    [
        ("chain", (12, 48), jd.solvers.PV(max_steps=1)),
        ("chain", (12, 48), jd.solvers.PVEarly(max_steps=1)),
        ("chain", (12, 48), jd.solvers.PVSoft(max_steps=1)),
        ("chain", (12, 48), jd.solvers.ConstrainedABA(max_steps=1)),
        ("tree", (20, 80), jd.solvers.PV(max_steps=1)),
        ("tree", (20, 80), jd.solvers.PVEarly(max_steps=1)),
        ("tree", (20, 80), jd.solvers.PVSoft(max_steps=1)),
        ("tree", (20, 80), jd.solvers.ConstrainedABA(max_steps=1)),
        ("ladder", (2, 6), jd.solvers.PVEarly(max_steps=1)),
        ("ladder", (2, 6), jd.solvers.PVSoft(max_steps=1)),
        ("cycle", (10, 40), jd.solvers.LCABA(max_steps=1)),
        ("cycle", (10, 40), jd.solvers.ProxBBO(max_steps=1)),
        ("loop_chain", (2, 8), jd.solvers.LCABA(max_steps=1)),
        ("loop_chain", (2, 8), jd.solvers.ProxBBO(max_steps=1)),
        ("branching", (2, 8), jd.solvers.LCABA(max_steps=1)),
    ],
    ids=lambda x: type(x).__name__ if isinstance(x, jd.solvers.Solver) else None,
)
def test_linear_growth(robot, sizes, solver):
    """Exponents of operations in the number of bodies."""
    few, many = (cost(robot, n, solver) for n in sizes)
    assert np.log(many / few) / np.log(sizes[1] / sizes[0]) < 1.15


def test_growth_of_the_joint_space():
    """LTL on a chain is worse than linear; where rungs add up, PV is too, and PVEarly is cheaper than both."""
    exponent = lambda robot, a, b, s: np.log(cost(robot, b, s) / cost(robot, a, s)) / np.log(b / a)  # noqa: E731
    assert exponent("chain", 12, 48, jd.solvers.LTL(max_steps=1)) > 1.3
    assert exponent("ladder", 2, 6, jd.solvers.PV(max_steps=1)) > 1.2
    costs = [
        cost("ladder", 6, s)
        for s in (jd.solvers.PVEarly(max_steps=1), jd.solvers.PV(max_steps=1), jd.solvers.LTL(max_steps=1))
    ]
    assert costs == sorted(costs)


def test_which_of_two_is_cheaper_depends_on_the_loops():
    """The paper's favourable topology for LCABA, and its worst case (lcaba_proxbbo, Figs. 8 and 9)."""
    lcaba, bbo = jd.solvers.LCABA(max_steps=1), jd.solvers.ProxBBO(max_steps=1)
    assert cost("branching", 8, lcaba) < 0.8 * cost("branching", 8, bbo)
    assert cost("nested", 4, lcaba) > cost("nested", 4, bbo)


MIXED = [topologies.cycle(8), topologies.nested_loops(4), topologies.handled_object(2), topologies.held_loops(2)]
MIXED += [topologies.random_loops(20, 6, 1), topologies.random_loops(20, 8, 1, near=True)]


def test_a_mixture_takes_fewer_operations_than_both():
    """And by the times that are told from the plan, `Unified` is never dearer by more than what a change must gain;
    `test_benchmarks.py` holds it to measured ones."""
    held = topologies.held_loops(2)
    mine, *others = (counted(held, s(max_steps=1)) for s in (jd.solvers.Unified, jd.solvers.LCABA, jd.solvers.ProxBBO))
    assert mine < 0.95 * min(others)
    for model in MIXED:
        told = features_of(model.topology, plan_of(model.topology, model.constraints))
        unified, *others = (nanoseconds(told[s]) for s in ("Unified", "LCABA", "ProxBBO"))
        assert unified <= min(others) / GAIN


def test_what_an_operation_of_a_kernel_is():
    """Of a state: a multiply-add is two, a sine one, equal operations and numbers of all lanes are not counted."""
    q, model = jnp.arange(1.0, 4.0), topologies.chain(1)
    count = lambda f: lane_operations(laned(f), q)  # noqa: E731
    assert count(lambda q: q * q + q[::-1]) == 6
    assert count(lambda q: (jnp.sin(q), q + jnp.cos(q))) == 9
    assert count(lambda q: (q[0] - q[1], q[0] - q[1] + 1.0)) == 2
    assert count(lambda q: (0.0 * q, q[::-1])) == 0
    masses = lambda q: laned(lambda model, q: q[0] * (model.bodies.mass[0] * 2.0))(model, q)  # noqa: E731
    assert lane_operations(masses, q) == 1


@pytest.mark.parametrize("method", osim_parts.METHODS)
@pytest.mark.parametrize("name", ["iiwa_point", "go1_2"])
def test_parts_add_up(name, method):
    """To the kernels that the method calls and what it does outside of them; no part is negative."""
    model, q = systems.system(name)
    parts = osim_parts.parts(method, model, q)
    outside = osim_parts._by_formula(method, osim_parts.given_at(model, q))
    assert set(parts) <= set(osim_parts.PARTS) and min(parts.values()) >= 0
    assert sum(parts.values()) == osim_parts.matrix(method, model, q) + sum(outside.values())


@functools.cache
def parts_of(name: str) -> dict[str, int]:
    model, q = systems.system(name)
    return {m: sum(osim_parts.parts(m, model, q).values()) for m in osim_parts.METHODS}


def test_which_method_of_the_delassus_matrix_is_cheapest():
    """popov_vereshchagin, Fig. 2: LTL on an arm; PV-OSIM-fast where several limbs are held; EFPA is behind PV-OSIM on
    real robots, and KJR behind EFPA."""
    arm, dog = parts_of("iiwa_weld"), parts_of("go1_4")
    assert min(arm, key=arm.__getitem__) == "LTL"
    assert min(dog, key=dog.__getitem__) == "PVFast"
    assert dog["PV"] < dog["EFPA"] < dog["KJR"]


def test_long_stems_with_many_branches_are_those_of_extended_propagators():
    """And every link more of a stem takes as much as the last one."""
    few, many = (osim_operations.of_stem(n, 1, False) for n in (2, 10))
    assert few["crossover"] is None and 2 <= many["crossover"] <= 7
    for method in ("PV", "EFPA"):
        model = topologies.long_stem(6, 2, 1, False)
        told = osim_operations.stem_operations(few[method], 6)
        assert told == osim_parts.matrix(method, model, model.neutral())


def test_only_rows_of_coupled_limbs_make_blocks_of_pv_fast():
    model, q = systems.system("go1_4")
    made = jd.osim.PVFast().prepare(osim_parts.given_at(model, q))
    assert [L.shape for L in made.L] == [(3, 3)] * 4 and made.K.shape == (12, 6)


@pytest.mark.parametrize("rows", [36, 75])
def test_code_does_not_grow_with_the_rows_that_ride_on_a_body(rows):
    """Points on two bodies, against dense algebra; a few pieces of code serve all of them."""
    spec, rng = jd.ModelSpec("arm"), np.random.default_rng(0)
    inertia = jd.Inertia(1.0, (0.1, 0.02, 0.03), 0.1 * np.eye(3))
    spec.add_body("base", "world", jd.joints.Free(), inertia=inertia)
    elbow = jd.Transform(np.eye(3), (0.3, 0.1, 0.2))
    spec.add_body("arm", "base", jd.joints.Revolute(axis=(0, 1, 0)), placement=elbow, inertia=inertia)
    model = spec.build()
    q = model.random_state(jax.random.key(0)).q
    places = [jd.Transform(np.eye(3), rng.normal(size=3)) for _ in range(rows // 3)]
    names = [("base", "arm")[k % 2] for k in range(len(places))]
    held = [jd.constraints.Point(b, placement_a=p, stabilization=None) for b, p in zip(names, places, strict=True)]
    operator = jax.jit(lambda q: jd.delassus(model, q, held, method=jd.osim.PV()).dense())
    with kernels.watching() as seen:
        operator.lower(q)
    assert [counts(*x).compiled < 1500 for x in seen] == [True]
    J = np.asarray(jd.constraint_jacobian(model, q, held))
    exact = J @ np.linalg.solve(np.asarray(jd.mass_matrix(model, q)), J.T)
    np.testing.assert_allclose(operator(q), exact, atol=1e-12 * np.abs(exact).max())
