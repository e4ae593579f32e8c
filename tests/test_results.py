"""What `result` says is true: no wrong acceleration is called right, no right one wrong."""

import dataclasses

import contact_scenes
import equinox as eqx
import hard_problems
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from catalogue import CATALOGUE
from compiled import states
from solvers import SOLVERS

import jaxdyn as jd
from jaxdyn.constrained.result import MEMBERS, result_of

HARD = [(s, d, n) for s in (0, 1, 4) for d in (np.float64, np.float32) for n in ("LCABA", "ProxBBO")]
# loops twice, a gear, masses from 1e-3 to 1e3: rows whose steps shrink slowly behind a large first one
HARD += [(103, np.float32, "ProxBBO"), (103, np.float32, "ProxLTL")]


@pytest.mark.parametrize(("seed", "dtype", "solver"), HARD)
def test_random_robots_with_loops(seed, dtype, solver):
    """Masses and lengths over orders of magnitude, loops twice, gears, poses at right angles."""
    found = hard_problems.errors(hard_problems.problems(seed), getattr(jd.solvers, solver)(), dtype)
    solved, silent, alarm = hard_problems.judged(found, dtype)
    assert not silent.any() and not alarm.any() and solved.mean() > 0.9


def geared(ratio: float, rotor: float) -> jd.Model:
    """An arm of 2 kg whose rotor of little inertia turns `ratio` times as fast."""
    spec = jd.ModelSpec("geared")
    heavy = jd.Inertia(2.0, np.array([0.1, 0, 0]), 0.1 * np.eye(3))
    light = jd.Inertia(0.0, np.zeros(3), rotor * np.eye(3))
    for k, under in enumerate(("world", "link 0", "link 1")):
        at = jd.Transform(np.eye(3), np.array([0.3 * (k > 0), 0, 0]))
        spec.add_body(
            f"link {k}", under, jd.joints.Revolute(axis=(0, 1, 0), name=f"arm {k}"), placement=at, inertia=heavy
        )
        spec.add_body(f"rotor {k}", under, jd.joints.Revolute(axis=(0, 1, 0), name=f"motor {k}"), inertia=light)
        rows = (f"arm {k}", f"motor {k}"), (ratio, -1.0)
        spec.add_constraint(jd.constraints.Coupling(*rows, stabilization=None))
    return spec.build()


def test_results_are_counted_by_name():
    codes = np.full((3, 4), MEMBERS.index("successful"))
    codes[0, :3], codes[1, 0] = MEMBERS.index("contact_not_converged"), MEMBERS.index("diverged")
    batch = jax.vmap(jax.vmap(result_of))(codes)
    counts = jd.result_counts(batch)
    assert list(counts.items()) == [("successful", 8), ("contact_not_converged", 3), ("diverged", 1)]
    assert all(((batch == getattr(jd.Result, name)).sum() == n) for name, n in counts.items())
    assert jd.result_counts(jd.Result.open_loop) == {"open_loop": 1}
    assert tuple(n for n in MEMBERS if hasattr(jd.Result, n)) == MEMBERS and len(jd.Result) == len(MEMBERS)
    with pytest.raises(TypeError, match="`result_counts`: `result` is traced.*outside of `jit`"):
        jax.jit(lambda r: jd.result_counts(r)["successful"])(batch)
    with pytest.raises(TypeError, match="`result_counts`: `result` is ndarray.*`.result` of a solution"):
        jd.result_counts(codes)


@pytest.mark.parametrize("solver", ["LCABA", "ProxBBO", "ProxLTL", "Unified"])
def test_gears_keep_light_rotors(solver):
    """Rows (10, -1) weigh a hundred times a unit row; the rotors' inertia of 1e-5 kg m² survives single precision."""
    model, tau = geared(10.0, 1e-5), np.linspace(-1, 1, 6)
    wanted = jd.forward_dynamics(model, jd.State(model.neutral(), np.zeros(6)), tau, solver=jd.solvers.Dense())
    single = hard_problems.cast(model, np.float32)
    state = jd.State(single.neutral(), np.zeros(6, np.float32))
    found = jd.forward_dynamics(single, state, tau.astype(np.float32), solver=getattr(jd.solvers, solver)())
    assert found.result == jd.Result.successful
    scale = np.abs(wanted.acceleration).max()
    assert np.abs(np.asarray(found.acceleration, float) - np.asarray(wanted.acceleration)).max() < 1e-4 * scale


def small_linkage(heavy: float, small: float) -> jd.Model:
    """A linkage of three links, beside a block that is not joined to it."""
    spec, hinge = jd.ModelSpec("small linkage"), jd.joints.Revolute(axis=(0, 1, 0))
    link = jd.Inertia(small, np.array([0.2, 0, 0.05]), 0.02 * small * np.eye(3))
    at = lambda x, z: jd.Transform(np.eye(3), np.array([x, 0, z]))  # noqa: E731
    spec.add_body("a", "world", hinge, inertia=link)
    spec.add_body("b", "a", hinge, placement=at(0.5, 0.1), inertia=link)
    spec.add_body("c", "b", hinge, placement=at(0.4, -0.2), inertia=link)
    spec.add_body("block", "world", jd.joints.Free(), inertia=jd.Inertia.box(heavy, (1, 1, 1)))
    ends = {"placement_a": at(0.3, 0.0), "placement_b": at(1.2, -0.1)}
    return spec.add_constraint(jd.constraints.Point("c", **ends, stabilization=None)).build()


@pytest.mark.parametrize("small", [1e3, 1.0, 1e-2, 1e-4, 1e-6])
def test_links_lost_beside_penalties_are_told(small):
    """Penalties are as heavy as the block: in single precision light links vanish beside them, also from the factor
    that judges, and the linkage falls as if it were as heavy."""
    model = hard_problems.cast(small_linkage(1e5, small), np.float32)
    q, rest, tau = np.asarray(model.neutral()), np.zeros(9), np.array([small, *np.zeros(8)], np.float32)
    wanted = oracle.forward_dynamics(hard_problems.cast(model, np.float64), q.astype(float), rest, tau.astype(float))
    for name in ("LCABA", "ProxBBO", "Unified", "ProxLTL"):
        state = jd.State(q, rest.astype(np.float32))
        found = jd.forward_dynamics(model, state, tau, solver=getattr(jd.solvers, name)())
        off = np.abs(np.asarray(found.acceleration, float) - wanted.acceleration).max()
        right = bool(off < 1e-3 * np.abs(wanted.acceleration).max())
        assert right == (found.result == jd.Result.successful), (name, off)
        assert right or (small < 1e3 and name in ("LCABA", "Unified")), (name, off)


def test_links_without_inertia_of_their_own():
    """A link that a gear alone gives inertia: the mass matrix is singular, the constrained problem is not."""
    with pytest.warns(jd.ModelWarning, match="mass matrix is singular"):
        model = geared(2.0, 0.0)
    assert isinstance(jd.solvers.Auto().pick(model.topology, model.constraints), jd.solvers.LCABA)
    state, tau = jd.State(model.neutral(), np.zeros(6)), np.linspace(-1, 1, 6)
    found = jd.forward_dynamics(model, state, tau)
    assert found.result == jd.Result.successful
    M, J = np.asarray(jd.mass_matrix(model, state.q)), np.asarray(jd.constraint_jacobian(model, state.q))
    right = tau - np.asarray(jd.inverse_dynamics(model, state, np.zeros(6)))
    saddle = np.block([[M, J.T], [J, np.zeros((3, 3))]])
    wanted = np.linalg.solve(saddle, np.concatenate([right, np.zeros(3)]))[:6]
    np.testing.assert_allclose(found.acceleration, wanted, rtol=1e-9, atol=1e-9)
    other = jd.forward_dynamics(model, state, tau, solver=jd.solvers.ProxBBO())
    assert other.result == jd.Result.not_finite


def test_states_that_no_robot_has():
    model = CATALOGUE["slider_crank"].build()
    q, v, tau = states("slider_crank")
    fast = np.array(v)
    fast[0] = 1e7
    found = jax.vmap(lambda q, v, tau: jd.forward_dynamics(model, jd.State(q, v), tau))(q, fast, tau)
    assert np.asarray(found.result == jd.Result.diverged).tolist() == [True, False, False, False]


def test_few_steps_are_told_by_the_error_they_leave():
    """One step with a low weight is off by far more than 1e-6, however small its residuals look."""
    model = CATALOGUE["slider_crank"].build()
    q, v, tau = (x[0] for x in states("slider_crank"))
    solver = jd.solvers.LCABA(mu=1e2, max_steps=1)
    few = jd.forward_dynamics(model, jd.State(q, v), tau, solver=solver)
    enough = jd.forward_dynamics(model, jd.State(q, v), tau, solver=dataclasses.replace(solver, max_steps=30))
    assert np.abs(few.acceleration - enough.acceleration).max() > 1e-6
    assert few.result == jd.Result.max_steps_reached and enough.result == jd.Result.successful


def test_errors_count_by_what_moves_without_constraints():
    """A joint that nothing moves is to accelerate at 100 m/s²: 0.05 off is more than 1e-3 of what it does alone."""
    spec, solid = jd.ModelSpec("pushed", gravity=(0, 0, 0)), jd.Inertia(1.0, np.zeros(3), np.eye(3))
    spec.add_body("sledge", "world", jd.joints.Prismatic(axis=(1, 0, 0), name="push"), inertia=solid)
    spec.add_constraint(jd.constraints.Coupling(("push",), (1.0,), target=[100.0], stabilization=None))
    model = hard_problems.cast(spec.build(), np.float32)
    state = jd.State(model.neutral(), np.zeros(1, np.float32))
    for mu, right in ((2e3, False), (2e6, True)):
        solver = jd.solvers.LCABA(mu=mu, max_steps=1)
        found = jd.forward_dynamics(model, state, np.zeros(1, np.float32), solver=solver)
        assert (abs(found.acceleration[0] - 100) < 1e-3) == right == (found.result == jd.Result.successful)


def test_every_result_has_a_code():
    assert len(MEMBERS) == len(jd.Result)
    for code, name in enumerate(MEMBERS):
        assert result_of(np.asarray(code)) == getattr(jd.Result, name)


def test_slow_rows_beside_rows_as_good_as_redundant():
    """Four sledges, each with a row of its own: long, short, slow (an eigenvalue of J M⁻¹ Jᵀ about 1e-8), and one that
    is as good as redundant (1e-15) and wants what would take an acceleration of thousands. That row is to be ignored,
    and must not stretch the steps that the slow one needs."""
    spec = jd.ModelSpec("sledges")
    for name in "abcd":
        joint, inertia = jd.joints.Prismatic(name=name, axis=(1, 0, 0)), jd.Inertia(1.0, np.zeros(3), np.eye(3))
        spec.add_body(name, "world", joint, inertia=inertia)
        spec.add_constraint(jd.constraints.Coupling((name,), (1.0,), name=name))
    model, tau = spec.build(), jnp.arange(1.0, 5.0)
    stiffness = float(model.constraints[0].stabilization.stiffness)
    rng, n = np.random.default_rng(0), 100
    lengths = 10 ** rng.uniform([0, -3, -4, -8], [0, -1, -3.4, -7.4], (n, 4))
    wanted = 10 ** rng.uniform([3, -4, -8, -5], [4, -2, -3, -3], (n, 4))

    def solve(length, want):
        rows = tuple(
            eqx.tree_at(lambda c: (c.coefficients, c.offset), c, (length[k : k + 1], want[k] / stiffness))
            for k, c in enumerate(model.constraints)
        )
        state = jd.State(jnp.zeros(4), jnp.zeros(4))
        found = jd.forward_dynamics(model, state, tau, constraints=rows, solver=jd.solvers.LCABA())
        return found.acceleration, found.stats.iterations

    found, steps = jax.jit(jax.vmap(solve))(lengths, wanted)
    right = wanted / lengths
    right[:, 3] = 4.0
    assert (np.abs(found - right).max(1) < 1e-6 * np.abs(right).max(1)).all() and steps.max() <= 25


READ = {
    "nothing more": lambda s: (),
    "multipliers": lambda s: (s.multipliers,),
    "result": lambda s: (s.result._value,),
    "all": lambda s: (s.multipliers, s.result._value, s.stats),
}


#: a linkage with a row too many where loops are taken; all there is for two. `Dense` is left out: it has no kernel, and
#: XLA compiles one function in more ways than one
SMALL = {"everything": "four_bar_point", "everything_once": "ancestor"}
READERS = [
    (SMALL.get(row.widest, row.widest), name) for name, row in SOLVERS.items() if name not in ("ABA", "Auto", "Dense")
]
DTYPES = (np.float64, np.float32)
WIDE = [("everything", "LCABA"), ("everything", "ProxLTL"), ("crossing_loops", "LCABA"), ("crossing_loops", "ProxBBO")]


@pytest.mark.parametrize(
    ("name", "solver", "dtype"), [(*r, dtype) for r in READERS for dtype in DTYPES] + [(*r, np.float64) for r in WIDE]
)
def test_reading_changes_no_number(name, solver, dtype):
    """Accelerations have the same bits whatever else is read, also where velocities leave the loops, so that redundant
    rows contradict each other."""
    solver = SOLVERS[solver].solver
    model = hard_problems.cast(CATALOGUE[name].build(), dtype)
    q, v, tau = states(name)
    v = v + np.linspace(-1, 1, v.size).reshape(v.shape)
    args = [x[:2].astype(dtype) for x in (q, v, tau)]

    def program(read):
        def solve(q, v, tau):
            found = jd.forward_dynamics(model, jd.State(q, v), tau, solver=solver)
            return found.acceleration, READ[read](found)

        return solve

    found = {read: np.asarray(jax.jit(jax.vmap(program(read)))(*args)[0]) for read in READ}
    if name == "crossing_loops":
        alone = jax.jit(program("all"))
        found["alone"] = np.stack([alone(*(x[k] for x in args))[0] for k in range(2)])
    for read, a in found.items():
        np.testing.assert_array_equal(a, found["nothing more"], err_msg=read)


def test_impulses_tell_how_they_ended():
    """Rows that repeat each other, that contradict, that a solver cannot take; numbers that are none."""
    model = jd.load("four_bar")
    state = jd.State(jd.assemble(model, model.neutral()), np.array([1.0, -2.0, 0.5]))
    middle = jd.Transform(np.eye(3), [0.0, 0.0, 0.25])
    pin, again = (jd.constraints.Point("rocker", placement_a=middle, name=n) for n in ("pin", "again"))
    twice = (*model.constraints, pin, again)
    for solver in (jd.solvers.Auto(), jd.solvers.LCABA(), jd.solvers.ProxLTL(), jd.solvers.Dense()):
        assert jd.impulse(model, state, solver=solver).result == jd.Result.successful
        assert jd.impulse(model, state, constraints=twice, solver=solver).result == jd.Result.successful
    bounces = np.repeat([0.0, 0.0, 1.0], 3)  # of one pin but not of the other
    torn = jd.impulse(model, state, constraints=twice, restitution=bounces)
    assert torn.result == jd.Result.inconsistent_constraints
    assert jd.impulse(model, state, constraints=twice, solver=jd.solvers.LTL()).result == jd.Result.dependent_rows
    assert jd.impulse(model, jd.State(state.q, np.full(3, np.nan))).result == jd.Result.not_finite


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_kicks_along_the_constraints_are_successful(dtype):
    """From rest, and from a velocity that keeps the loops closed: what rows leave is rounding alone."""
    model = jd.load("four_bar")
    q = jd.assemble(model, model.neutral())
    J = np.asarray(jd.constraint_jacobian(model, q))
    along = np.linalg.svd(J)[2][-1]
    model, q = jax.tree.map(lambda x: jnp.asarray(x, dtype), (model, q))
    kick = np.array([1.0, 0.0, 0.0], dtype)
    for v in (np.zeros(3, dtype), along.astype(dtype)):
        for solver in (jd.solvers.Auto(), jd.solvers.LCABA(), jd.solvers.ProxLTL(), jd.solvers.Dense()):
            assert jd.impulse(model, jd.State(q, v), kick, solver=solver).result == jd.Result.successful


@pytest.mark.parametrize("solver", ["LCABA", "Dense"])
def test_kicks_that_the_constraints_take_away_again_are_successful(solver):
    """At rest, by random momenta: rows keep a rounding error of what the momentum alone gives them."""
    model, (q, _, tau) = CATALOGUE["four_bar_hinge"].build(), states("four_bar_hinge", 64)
    jump = lambda q, p: jd.impulse(model, jd.State(q, 0 * p), p, solver=getattr(jd.solvers, solver)())  # noqa: E731
    found = jax.jit(jax.vmap(jump))(q, 0.5 * tau)
    for k in range(64):
        v, _ = oracle.impulse(model, q[k], 0 * tau[k], 0.5 * tau[k])
        assert np.abs(found.velocity[k] - v).max() < 1e-10 * np.abs(v).max()
    assert (found.result == jd.Result.successful).all()


@pytest.mark.parametrize(("dtype", "heavy", "small"), [(np.float32, 10.0, 1e-4), (np.float64, 1e5, 1e-6)])
def test_impulses_tell_of_light_links_beside_a_heavy_block(dtype, heavy, small):
    """Beside the momentum of a block that is not joined to them, that of light links is rounding: their velocities
    count, which `LCABA` gets wrong here."""
    model = hard_problems.cast(small_linkage(heavy, small), dtype)
    q, rest, p = np.asarray(model.neutral()), np.zeros(9, dtype), np.array([small, 0, 0, heavy, *np.zeros(5)], dtype)
    wanted, _ = oracle.impulse(
        hard_problems.cast(model, np.float64), q.astype(float), rest.astype(float), p.astype(float)
    )
    for name in ("LCABA", "ProxBBO", "ProxLTL"):
        found = jd.impulse(model, jd.State(q, rest), p, solver=getattr(jd.solvers, name)())
        right = bool(np.abs(np.asarray(found.velocity, float) - wanted).max() < 1e-3 * np.abs(wanted).max())
        assert right == (found.result == jd.Result.successful) == (name != "LCABA"), name


@pytest.mark.parametrize("speed", [1.0, 1e-3, 1e-6])
def test_impulses_with_contact_are_judged_at_any_speed(speed):
    """A jump counts beside the velocities, however slow, and gravity has no part in it: a ring that is light beside its
    arm is wrong in single precision, and three sweeps of a law leave the same share of every speed."""
    spec, turned = jd.ModelSpec("ring and arm"), jd.Transform.from_rpy((0, 0.7, 0), (0, 0, 0))
    hinges = (jd.joints.Revolute(axis=(x, 1, 0)) for x in (0, 1e-3))
    light, heavy = jd.Inertia(1e-8, np.zeros(3), 1e-8 * np.eye(3)), jd.Inertia(3.0, [0.3, 0, 0.1], 0.1 * np.eye(3))
    spec.add_body("ring", "world", next(hinges), inertia=light)
    spec.add_body("arm", "ring", next(hinges), placement=turned, inertia=heavy)
    model = hard_problems.cast(spec.add_shape("arm", jd.shapes.Sphere(0.1)).add_ground().build(), np.float32)
    state = jd.State(np.array([0.3, -1.2], np.float32), np.zeros(2, np.float32))
    kick = np.array([1e-11 * speed, 2e-5 * speed], np.float32)
    for law in (None, jd.contact.Auto()):
        assert jd.impulse(model, state, kick, contacts=law).result != jd.Result.successful

    model, q = contact_scenes.quadruped()
    model = hard_problems.cast(model, np.float32)
    v = np.random.default_rng(2).normal(size=model.nv)
    v[2] = -1.0  # down
    q, v = q.astype(np.float32), (speed * v).astype(np.float32)
    found = jd.impulse(model, jd.State(q, v), contacts=jd.contact.PGS(sweeps=3))
    assert found.contacts.residual > 1e-2 * speed and found.result == jd.Result.contact_not_converged
    assert jd.impulse(model, jd.State(q, v), contacts=jd.contact.Newton()).result == jd.Result.successful


def test_impulses_tell_what_accelerations_tell():
    """Quaternions that are none, and embedded loops that are open."""
    model = jd.load("strider")
    q = jd.assemble(model, model.neutral())
    assert jd.impulse(model, jd.State(q.at[3:7].mul(1.1), jnp.zeros(model.nv))).result == jd.Result.non_unit_quaternion
    embedded = jd.embed(jd.load("four_bar"))
    open_state = jd.State(embedded.neutral().at[1].add(0.3), jnp.ones(1))
    assert jd.impulse(embedded, open_state, [0.1]).result == jd.Result.open_loop
    assert jd.impulse(embedded, jd.State(embedded.neutral(), jnp.ones(1)), [0.1]).result == jd.Result.successful


@pytest.mark.parametrize("wrap", [jax.jit, lambda f: f], ids=["jit", "eager"])
def test_a_switch_of_jax_for_debugging_finds_calls(wrap):
    model = CATALOGUE["four_bar_point"].build()
    state = jd.State(model.neutral(), np.zeros(model.nv))
    call = wrap(lambda tau: jd.forward_dynamics(model, state, tau).acceleration)
    fine, wrong = jnp.ones(model.nv), jnp.full(model.nv, np.inf)
    with jax.debug_nans(True):
        assert np.isfinite(call(fine)).all()
        with pytest.raises(FloatingPointError, match=r"invalid value \(nan\).*ForwardDynamics of jaxdyn"):
            call(wrong)
    with jax.debug_infs(True):
        assert np.isfinite(call(fine)).all()
