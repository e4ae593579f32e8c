"""Laws of contact by themselves, impacts, limits and dry friction of joints, and twists."""

import functools

import contact_scenes as scenes
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd
from jaxdyn.contact import newton
from jaxdyn.contact.cones import Cones, Counts, Limited, left_over
from jaxdyn.contact.joints import joint_rows
from jaxdyn.contact.newton_step import newton_step
from jaxdyn.contact.parts import largest, parts_of
from jaxdyn.contact.tiled import tiled
from jaxdyn.engine.lanes import laned
from jaxdyn.kinematics.rows import plan_of

PGS, ADMM, Auto, Newton = jd.contact.PGS, jd.contact.ADMM, jd.contact.Auto, jd.contact.Newton
LANES = 128


def _solved(law, counts, G, g, friction):
    none = jnp.zeros((0, 1), G.dtype)
    cones = Cones(counts, friction, none, Limited(none, none, none))
    f = law.solve(G, g, cones, jnp.zeros((len(g), 1), g.dtype))
    return f, left_over(cones, G, g, f)


def problems(contacts: int, rank: int, seed: int, joints: int = 0, lanes: int = LANES):
    """Random problems, jamming and redundant contacts among them: G, g and friction."""
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(lanes, 3 * contacts + joints, rank))
    J[:, 3:6] = J[:, :3]  # the same point twice
    G = J @ np.swapaxes(J, 1, 2)
    g = (J @ rng.normal(size=(lanes, rank, 1)))[..., 0]  # what bodies can do
    return G, g, np.full((lanes, contacts), 0.8)


@functools.cache
def program(law, contacts):
    return jax.jit(jax.vmap(laned(_solved, law, Counts(contacts))))


@pytest.mark.parametrize("law", (ADMM(max_steps=400), Newton()), ids=("ADMM", "Newton"))
@pytest.mark.parametrize(("contacts", "rank"), [(3, 12), (4, 10)])
def test_laws_are_exact_where_contacts_jam(law, contacts, rank):
    """They keep their tolerance where Gauss-Seidel alone does not."""
    G, g, friction = problems(contacts, rank, 1)
    f, left = program(law, contacts)(G, g, friction)
    swept = program(PGS(20), contacts)(G, g, friction)[1]
    assert np.isfinite(f).all()
    assert np.quantile(left, 0.95) < 1e-6
    assert np.quantile(left, 0.95) < np.quantile(swept, 0.95)


def test_newton_ends_where_rounding_keeps_it_near_its_tolerance(monkeypatch):
    """Single lanes whose residuals come to rest between the tolerance and its tenfold would take all 24 steps."""
    taken = []

    def counted(problem):
        step = newton_step(problem)
        return lambda *given: (jax.debug.callback(lambda: taken.append(1)), step(*given))[1]

    monkeypatch.setattr(newton, "newton_step", counted)
    given = [jnp.asarray(np.moveaxis(x, 0, -1), jnp.float32) for x in problems(6, 6, 2, lanes=32)]
    steps = {}
    for tol in (2e-7, 1e-12):
        taken.clear()
        left = jax.jit(functools.partial(_solved, Newton(tol=tol), Counts(6)))(*given)[1]
        jax.effects_barrier()
        steps[tol] = len(taken)
        assert left.max() < 2e-6
    assert steps[2e-7] < 16 and steps[1e-12] == 24, steps


def test_a_contact_that_slides_takes_few_sweeps():
    """Its direction and its normal force are solved nearly by Newton's method. Steps along the gradient left 5e-5 and
    1e-3."""
    rng = np.random.default_rng(5)
    J = rng.normal(size=(LANES, 3, 6))
    g = np.concatenate([-rng.uniform(1, 2, (LANES, 1)), 3 * rng.normal(size=(LANES, 2))], 1)
    f, left = map(np.asarray, program(PGS(8), 1)(J @ np.swapaxes(J, 1, 2), g, np.full((LANES, 1), 0.3)))
    slides = np.hypot(f[:, 1], f[:, 2]) > 0.3 * f[:, 0] * (1 - 1e-9)
    assert (slides & (f[:, 0] > 0)).sum() > 100
    assert np.quantile(left, 0.9) < 1e-12 and np.quantile(left, 0.99) < 1e-6


def test_the_points_of_a_foot_take_few_sweeps():
    """They move one body, and push against each other from sweep to sweep, unless forces go ahead. With steps along the
    gradient, 5e-3 was left in 1 % of states."""
    rng, J = np.random.default_rng(6), []
    corners = np.array([[x, y, -0.1] for x in (-0.1, 0.1) for y in (-0.05, 0.05)])
    for _ in range(LANES):
        points = corners + 0.03 * rng.normal(size=(4, 3))
        turning = -np.cross(np.eye(3)[None], points[:, None]).swapaxes(1, 2)
        rows = np.concatenate([np.broadcast_to(np.eye(3), (4, 3, 3)), turning], 2)[:, [2, 0, 1]].reshape(12, 6)
        J.append(rows / np.sqrt([1, 1, 1, 0.01, 0.01, 0.01]))
    g = (J @ rng.normal(size=(LANES, 6, 1)))[..., 0]
    left = np.asarray(program(PGS(20), 4)(J @ np.swapaxes(J, 1, 2), g, np.full((LANES, 4), 0.8))[1])
    assert np.quantile(left, 0.99) < 1e-3


@pytest.mark.parametrize("law", (ADMM(), Newton()), ids=("ADMM", "Newton"))
def test_laws_agree_where_forces_are_unique(law):
    rng = np.random.default_rng(0)
    A = rng.normal(size=(LANES, 6, 6))
    G = np.eye(6) * 4 + 0.05 * (A + np.swapaxes(A, 1, 2))
    g, friction = rng.normal(size=(LANES, 6)), np.full((LANES, 2), 0.5)
    swept, exact = (program(other, 2)(G, g, friction)[0] for other in (PGS(400), law))
    assert np.abs(swept - exact).max() < 1e-8


def test_newton_takes_twists_and_joints():
    """Rows of all kinds, which need three tiles: bounds of twists follow the normal forces."""
    counts, rng = Counts(3, (0, 2), 5), np.random.default_rng(3)
    m = counts.rows
    A = rng.normal(size=(LANES, m, m))
    G, g = A @ np.swapaxes(A, 1, 2) / m + 0.1 * np.eye(m), rng.normal(size=(LANES, m))

    def solved(law, G, g):
        wide = lambda x, n: jnp.full((n, 1), x)  # noqa: E731
        limits = [jnp.array(x)[:, None] for x in ((-1e6, -0.2, -0.2, -1e6, 0.1), (1e6, 1e6, 0.1, 0.0, 0.3))]
        limited = Limited(jnp.array([0.3, 0.0, 0.3, 0.3, 0.0])[:, None], *limits)
        cones = Cones(counts, wide(0.6, 3), wide(0.3, 2), limited)
        f = law.solve(G, g, cones, jnp.zeros((m, 1)))
        return f, left_over(cones, G, g, f)

    laws = Newton(), PGS(2000), ADMM(tol=1e-10, max_steps=2000)
    (exact, left), (swept, _), (alternated, _) = (jax.jit(jax.vmap(laned(solved, law)))(G, g) for law in laws)
    assert left.max() < 1e-8
    turning = np.abs(exact[:, 9:11]) - 0.3 * exact[:, [0, 6]]
    assert turning.max() < 1e-8 and turning.min() < -1e-3 and (np.abs(turning) < 1e-8).any()
    np.testing.assert_allclose(exact, swept, atol=1e-7)
    np.testing.assert_allclose(exact, alternated, atol=1e-6)


@pytest.mark.parametrize(("contacts", "joints", "rank"), [(4, 12, 18), (2, 6, 8)])
def test_newton_leaves_few_jams(contacts, joints, rank):
    """Of 512 random problems with limits and dry friction of joints, many of which jam; with a constant share of the
    residual it left 13 and 7."""

    def solved(G, g, friction):
        wide, none = lambda x: jnp.full((joints, 1), x), jnp.zeros((0, 1))  # noqa: E731
        cones = Cones(Counts(contacts, (), joints), friction, none, Limited(wide(0.1), wide(-0.3), wide(0.3)))
        return left_over(cones, G, g, Newton().solve(G, g, cones, jnp.zeros((len(g), 1))))

    left = jax.jit(jax.vmap(laned(solved)))(*problems(contacts, rank, 2, joints, 512))
    assert (left > 1e-3).sum() <= 4


@pytest.mark.parametrize("counts", [Counts(3, (0, 2), 5), Counts(2, (1,)), Counts(4), Counts(joints=8)], ids=str)
def test_steps_of_newton_solve_the_linearised_law(counts):
    """Beside dense algebra, with D by differentiation; twists do not see changes of normal forces within a step."""
    m, rng = counts.rows, np.random.default_rng(4)
    A, wide = rng.normal(size=(m, m)), lambda x, n: jnp.full((n, LANES), x)
    limited = Limited(*(jnp.asarray(x * rng.random((counts.joints, LANES))) for x in (0.5, -1.0, 1.0)))
    cones = Cones(counts, wide(0.6, counts.contacts), wide(0.3, len(counts.twists)), limited)
    G = np.broadcast_to((A @ A.T / m + 0.1 * np.eye(m))[..., None], (m, m, LANES))
    problem = tiled(jnp.asarray(G), wide(0.0, m), cones)
    n, ridge = len(problem.h), rng.random(LANES) / 50
    x, s = rng.normal(size=(2, n, LANES))
    found = np.asarray(jax.jit(newton_step(problem))(*map(jnp.asarray, (x, s, ridge))))
    one = jnp.ones((n, LANES))
    D = np.array(jax.vmap(lambda e: jax.jvp(lambda z: problem.cones.project(z, one), (x - s,), (e,))[1], out_axes=1)(
        jnp.broadcast_to(jnp.eye(n)[..., None], (n, n, LANES))
    ))  # fmt: skip
    D[problem.counts.ends[0] :] *= np.eye(n)[problem.counts.ends[0] :, :, None]
    left = np.asarray(problem.cones.project(jnp.asarray(x - s), one)) - x
    H = np.array([problem.product(jnp.broadcast_to(e[:, None], x.shape)) for e in np.eye(n)])
    for k in range(LANES):
        K = np.eye(n) - D[..., k] + D[..., k] @ (H[..., k] + ridge[k] * np.eye(n))
        np.testing.assert_allclose(found[:, k], np.linalg.solve(K, left[:, k]), rtol=0, atol=1e-13 * np.linalg.cond(K))
    held = np.einsum("kkl->kl", D)[problem.counts.ends[0] :]
    assert not held.size or 0 < held.mean() < 1  # rows of both kinds


@pytest.mark.parametrize("rub", [False, True])
def test_contacts_are_solved_before_joints_that_reach_no_limit(rub):
    """Forces are those of the law without joints in the lanes where these need none."""
    counts, rng = Counts(5, (), 20, rub), np.random.default_rng(6)
    m = counts.rows
    A = rng.normal(size=(LANES, m, m))
    G, g = A @ np.swapaxes(A, 1, 2) / m + 0.3 * np.eye(m), rng.normal(size=(LANES, m))
    low = np.where(np.arange(LANES) % 2, -1e6, -0.2)[:, None] * np.ones(20)
    none = jnp.zeros((0, 1))

    def solved(law, G, g, low):
        cones = Cones(counts, jnp.full((5, 1), 0.6), none, Limited(jnp.zeros((20, 1)), low, jnp.full((20, 1), 1e6)))
        f = law.solve(G, g, cones, jnp.zeros((m, 1)))
        return f, left_over(cones, G, g, f)

    def without(law, G, g):
        return law.solve(
            G[:15, :15], g[:15], Cones(Counts(5), jnp.full((5, 1), 0.6), none, Limited(*[none] * 3)), g[:15]
        )

    found, left = jax.jit(jax.vmap(laned(solved, Newton())))(G, g, low)
    alone = jax.jit(jax.vmap(laned(without, Newton())))(G, g)
    assert np.asarray(left).max() < 1e-8
    free = np.asarray(found)[1::2]
    assert (free[:, 15:] == 0).all() and (np.asarray(found)[::2, 15:] > 0).any()
    np.testing.assert_allclose(free[:, :15], np.asarray(alone)[1::2], atol=1e-8)


def test_limits_and_dry_friction_act_along_one_row():
    """Between its limits a joint has friction against its motion; at a limit it has this and a push from the limit."""
    n, rng = 6, np.random.default_rng(5)
    A = rng.normal(size=(LANES, n, n))
    G, g = A @ np.swapaxes(A, 1, 2) / n + 0.1 * np.eye(n), 2 * rng.normal(size=(LANES, n))
    bound = rng.choice((0.0, 0.2, 1.0), (LANES, n))
    low, high = -rng.choice((-0.3, 0.0, 0.4, 1e6), (LANES, n)), rng.choice((0.3, 0.5, 1e6), (LANES, n))

    def solved(law, G, g, *limited):
        none = jnp.zeros((0, 1), G.dtype)
        return law.solve(G, g, Cones(Counts(joints=n), none, none, Limited(*limited)), jnp.zeros((n, 1)))

    for law in (Newton(), PGS(1000), ADMM(tol=1e-11, max_steps=4000)):
        f = np.asarray(jax.jit(jax.vmap(laned(solved, law)))(G, g, bound, low, high))
        s = (G @ f[..., None])[..., 0] + g
        tol = 1e-7
        assert ((low - tol <= s) & (s <= high + tol)).all()
        at_low, at_high = s < low + tol, s > high - tol
        rests, free = np.abs(s) < tol, ~at_low & ~at_high
        friction = np.where(rests, np.clip(f, -bound, bound), -bound * np.sign(s))
        push = f - friction
        assert np.abs(push[free]).max() < 1e-6
        assert push[at_low & ~at_high].min() > -1e-6 and push[at_high & ~at_low].max() < 1e-6
        assert (at_low & at_high).any()  # held at one place
        assert min(at_low.sum(), at_high.sum(), (free & rests).sum(), (free & ~rests & (bound > 0)).sum()) > 20


def theirs(pin, G, g, friction):
    """The impulses of Pinocchio's ADMM, whose rows are tangents first."""
    order = np.concatenate([[3 * k + 1, 3 * k + 2, 3 * k] for k in range(len(friction))])
    model = pin.Model()
    joint = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "free")
    models, datas = pin.StdVec_ConstraintModel(), pin.StdVec_ConstraintData()
    for mu in friction:
        point = pin.PointContactConstraintModel(model, joint, pin.SE3.Identity())
        point.setFriction(float(mu))
        models.append(pin.ConstraintModel(point))
        datas.append(models[len(models) - 1].createData())
    settings, result = pin.ADMMSolverSettings(), pin.ADMMSolverResult()
    settings.max_iterations = 4000
    for kind in ("absolute_feasibility", "relative_feasibility", "absolute_complementarity"):
        setattr(settings, f"{kind}_tol", 1e-11)
    solver = pin.ADMMConstraintSolver(len(g))
    found = solver.solve(pin.DelassusOperatorDense(G[np.ix_(order, order)]), g[order], models, datas, settings, result)
    out = np.empty(len(g))
    out[order] = result.retrieveConstraintImpulses()
    return out, found


@pytest.mark.parametrize("law", (ADMM(tol=1e-12, max_steps=2000), Newton(tol=1e-12)), ids=("ADMM", "Newton"))
def test_impulses_are_pinocchios(law):
    """On 200 random problems whose impulses are unique."""
    pin = pytest.importorskip("pinocchio")
    if not hasattr(pin, "ADMMConstraintSolver"):
        pytest.skip("this Pinocchio has another solver of contact")
    rng = np.random.default_rng(5)
    A = rng.normal(size=(200, 12, 12))
    G, g, friction = (
        A @ np.swapaxes(A, 1, 2) / 12 + 0.3 * np.eye(12),
        rng.normal(size=(200, 12)),
        np.full((200, 4), 0.7),
    )
    ours, _ = program(law, 4)(G, g, friction)
    for k in range(200):
        impulses, converged = theirs(pin, G[k], g[k], friction[k])
        assert converged
        np.testing.assert_allclose(ours[k], impulses, atol=1e-9)


def with_wheel(speed, single=False):
    """A long box that lands on the ground while a wheel with dry friction, on a tree of its own, turns far away."""
    spec = jd.ModelSpec("wheel")
    spec.add_body("box", "world", jd.joints.Free(), inertia=scenes.cuboid(1.0, (0.1, 0.1, 0.4)))
    spec.add_shape("box", jd.shapes.Box((0.1, 0.1, 0.4)), friction=1.0)
    spec.add_ground()
    light = jd.Inertia(1e-3, (0, 0, 0), 1e-6 * np.eye(3))
    spec.add_body("wheel", "world", jd.joints.Revolute(friction=1e-3), placement=scenes.at(5, 0, 5), inertia=light)
    model = spec.build()
    q, v = model.neutral().at[2].set(0.2), jnp.array([0.5, 0, -0.3, 0, 2.0, 0, speed])
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (model, q, v)) if single else (model, q, v)


def test_what_counts_as_left_does_not_depend_on_an_unrelated_joint():
    """Radians per second of a wheel that no force couples to the box are no measure of its contacts."""

    @functools.partial(jax.jit, static_argnums=1)
    def stepped(scene, law):
        model, q, v = scene
        told = jd.simulate(model, jd.State(q, v), jnp.zeros((1, model.nv), q.dtype), 2e-3, contacts=law)
        return told.result == jd.Result.contact_not_converged, told.contacts.residual

    for speed in (0.0, 1e2, 1e4):
        lost, left = stepped(with_wheel(speed), PGS(2))
        assert lost[0] and left[0] > 1e-2
        assert stepped(with_wheel(speed, single=True), Newton())[1][0] < 5e-6


def test_what_counts_as_left_does_not_depend_on_units():
    """Of forces that are not quite those of the law, with the angles of joints in another unit."""
    counts, rng = Counts(1, (0,), 3), np.random.default_rng(2)
    A = rng.normal(size=(7, 7))
    G, g = A @ A.T / 7 + 0.1 * np.eye(7), np.array([-2.0, *rng.normal(size=6)])
    bound, low, high = np.array([0.1, 0.3, 0.0]), np.array([-1e6, -1e6, 0.1]), np.array([1e6, 1e6, 0.3])

    @jax.jit
    def left(unit):
        units, wide = jnp.concatenate([jnp.ones(3), jnp.full(4, unit)]), lambda x: jnp.asarray(x)[:, None]
        H, h = (jnp.asarray(G) * units[:, None] * units[None])[..., None], wide(g * units)
        limited = Limited(wide(bound / unit), wide(low * unit), wide(high * unit))
        cones = Cones(counts, jnp.full((1, 1), 0.6), jnp.full((1, 1), 0.3 / unit), limited)
        f, problem = PGS(2).solve(H, h, cones, jnp.zeros((7, 1))), tiled(H, h, cones)
        return left_over(cones, H, h, f)[0], problem.left_over(problem.start(f))[0]

    found = np.asarray([left(unit) for unit in (1.0, 1e-3, 1e3)])
    assert found[0, 0] > 1e-4
    np.testing.assert_allclose(found, found[0, 0], rtol=1e-6)


def test_parts_are_what_can_act_on_each_other():
    model, *_ = with_wheel(0.0)
    rows = lambda m, *more: plan_of(m.topology, (*more, *joint_rows(m, PGS()), jd.constraints.Lock("box", 6)))  # noqa: E731
    assert parts_of(model.topology, rows(model), 0) == (0, *[1] * 6)
    assert parts_of(model.topology, rows(model, jd.constraints.Point("box", "wheel")), 3) == ()
    assert parts_of(model.topology, rows(model), 1) == ()
    np.testing.assert_array_equal(largest(jnp.array([[1.0], [3.0], [-2.0]]), (4, 2, 4))[:, 0], [1, 3, 1])


def test_auto_picks_by_rows():
    assert Auto().pick(12, 8) == Auto().pick(96, 8) == Newton()
    assert Auto().pick(97, 8) == Auto().pick(200, 4) == PGS(100)
    assert Auto().pick(201, 8) == ADMM() and Auto().pick(201, 4) == ADMM(2e-4)


def test_auto_settles_piles():
    """A box on a box, pushed at random, has more contacts than it needs: no lane is left in single precision."""
    model, q = scenes.stack(2)
    single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (model, jnp.asarray(q)))
    v = jnp.asarray(0.03 * np.random.default_rng(0).normal(size=(512, 12)), jnp.float32)

    def lost(v):
        model, q = single
        rest = jnp.zeros((1, 12), jnp.float32)
        told = jd.simulate(model, jd.State(q, v), rest, 2e-3, contacts=Auto()).result
        return (told == jd.Result.contact_not_converged)[0]

    assert not jax.jit(jax.vmap(lost))(v).any()


def balls(restitution=0.5):
    spec = jd.ModelSpec("balls")
    for name, mass in (("a", 1.0), ("b", 3.0)):
        spec.add_body(name, "world", jd.joints.Free(), inertia=scenes.round_body(mass, 0.1))
        spec.add_shape(name, jd.shapes.Sphere(0.1), restitution=restitution, friction=0.3)
    return spec.build()


def test_impacts_keep_momentum_and_restitution():
    model = balls()
    q = jnp.asarray([0, 0, 0, 1, 0, 0, 0, 0.2, 0, 0, 1, 0, 0, 0.0])
    v = jnp.zeros(12).at[:2].set([2.0, 0.5])
    found = jax.jit(lambda v: jd.impulse(model, jd.State(q, v), contacts=PGS(50)))(v)
    after = np.asarray(found.velocity)
    np.testing.assert_allclose(after[:3] + 3 * after[6:9], [2, 0.5, 0], atol=1e-12)
    np.testing.assert_allclose(after[6] - after[0], 0.5 * 2, atol=1e-12)  # e times the approach
    assert found.contacts.impulses.shape == (1, 3)
    apart = jd.impulse(model, jd.State(q.at[7].set(0.21), v), contacts=PGS(50))
    np.testing.assert_array_equal(apart.velocity, v)
    push = lambda v: jd.impulse(model, jd.State(q, v), contacts=PGS(50)).velocity[6]  # noqa: E731
    slope = jax.grad(push)(v)
    np.testing.assert_allclose(slope[0], (push(v.at[0].add(1e-6)) - push(v.at[0].add(-1e-6))) / 2e-6, atol=1e-7)


def test_impulse_refuses_what_does_not_go_with_contacts():
    model, state = balls(), jd.State(jnp.asarray([0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0.0]), jnp.zeros(12))
    with pytest.raises(ValueError, match="`impulse`: with `contacts`, leave `restitution` out"):
        jd.impulse(model, state, contacts=PGS(), restitution=0.5)
    with pytest.raises(ValueError, match=r"`impulse`: `solver` is LCABA\(mu=5\.0.*Leave `solver` out"):
        jd.impulse(model, state, contacts=PGS(), solver=jd.solvers.LCABA(mu=5.0))
    with pytest.raises(ValueError, match="`impulse`: `near` = -1 is not a distance"):
        jd.impulse(model, state, contacts=PGS(), near=-1)
    for wrong in (True, 10**400):
        with pytest.raises((TypeError, ValueError), match="`impulse`: `near`"):
            jd.impulse(model, state, contacts=PGS(), near=wrong)
    with pytest.raises(ValueError, match="`impulse`: with `contacts`, leave `warm_start` out"):
        jd.impulse(model, state, contacts=PGS(), warm_start=np.zeros(0))
    with pytest.raises(TypeError, match="`impulse`: .*contacts"):
        jd.impulse(model, state, contacts="pgs")


def arm(friction=0.3):
    spec = jd.ModelSpec("arm")
    y = {"axis": (0, 1, 0), "limits": (-1.0, 0.5)}
    inertia = jd.Inertia(1.0, (0.3, 0, 0), np.eye(3) * 0.01)
    spec.add_body("upper", "world", jd.joints.Revolute(**y, friction=friction), inertia=inertia)
    place = jd.Transform(np.eye(3), np.array([0.6, 0, 0]))
    spec.add_body("lower", "upper", jd.joints.Revolute(**y), placement=place, inertia=inertia)
    return spec.build()


def test_joints_rest_at_their_limits():
    """The arm falls onto both limits and stays: stops and friction carry the weight."""
    model = arm()
    run = jax.jit(lambda q: jd.simulate(model, jd.State(q, jnp.zeros(2)), jnp.zeros((600, 2)), 2e-3, contacts=PGS(400)))
    end = run(jnp.zeros(2))
    np.testing.assert_allclose(end.q[-1], 0.5, atol=1e-9)
    assert float(end.q.max()) < 0.5 + 1e-9
    rub, *stops = np.asarray(end.contacts.joints[-1]) / 2e-3
    weight = np.asarray(jd.gravity_forces(model, end.q[-1]))
    # stops push towards smaller angles, friction helps as far as it can
    np.testing.assert_allclose(stops[1], -weight[1], rtol=1e-6)
    np.testing.assert_allclose(stops[0] - rub, -weight[0], rtol=1e-6)


def test_a_narrow_range_is_not_left():
    """Both limits hold: the one that is nearer may not be the one that the joint reaches."""
    law, inertia = Auto(), jd.Inertia(1.0, (0, 0, -0.5), 0.1 * np.eye(3))
    for lower, upper, q, v, tau in [
        (0.3, 0.3, 0.3, 50.0, 0.0),
        (0.3, 0.3, 0.3, -50.0, 9.0),
        (-0.01, 0.01, -0.009, 20.0, 0.0),
    ]:
        spec = jd.ModelSpec("pendulum")
        spec.add_body("rod", "world", jd.joints.Revolute(axis=(0, 1, 0), limits=(lower, upper)), inertia=inertia)
        model, start = spec.build(), jd.State(np.array([q]), np.array([v]))
        for project in (False, True):
            found = jd.simulate(model, start, jnp.full((20, 1), tau), 2e-3, contacts=law, project=project)
            assert lower - 1e-12 < found.q[1:].min() and found.q[1:].max() < upper + 1e-12
            assert (found.result == jd.Result.successful).all()
        if lower == upper:
            assert abs(jd.impulse(model, start, contacts=law).velocity[0]) < 1e-12


def test_free_motion_far_from_limits_is_successful():
    """Nothing calls for a force there, so that none is missing."""
    spec = jd.ModelSpec("pendulum")
    hinge = jd.joints.Revolute(axis=(0, 1, 0), limits=(-1, 0.5))
    model = spec.add_body("rod", "world", hinge, inertia=jd.Inertia(1.0, (0, 0, -0.5), 0.1 * np.eye(3))).build()
    for law in (Auto(), PGS(), ADMM()):
        found = jd.simulate(model, jd.State(np.zeros(1), np.full(1, 3.0)), np.zeros((100, 1)), 2e-3, contacts=law)
        assert (found.result == jd.Result.successful).all()


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_bodies_that_fall_together_part_not(dtype):
    """Rounding between them is no contact that has not converged."""
    spec = jd.ModelSpec("boxes")
    for k in range(2):
        inertia = jd.Inertia(1.0 + 50 * k, (0, 0, 0), (1.0 + 50 * k) / 150 * np.eye(3))
        spec.add_body(f"box {k}", "world", jd.joints.Free(), inertia=inertia)
        spec.add_shape(f"box {k}", jd.shapes.Box((0.2, 0.2, 0.2)), friction=0.0)
    model = jax.tree.map(lambda x: x.astype(dtype), spec.build())
    q = np.array([0, 0, 0.1, 1, 0, 0, 0, 0, 0, 0.3, 1, 0, 0, 0], dtype)
    v = np.zeros(12, dtype)
    v[[0, 6]], v[[2, 8]] = 7.3, 1.7
    found = jd.simulate(model, jd.State(q, v), np.zeros((100, 12), dtype), 2e-3, contacts=Auto())
    assert (found.result == jd.Result.successful).all()


@pytest.mark.parametrize("law", (Auto(), PGS(), ADMM()), ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_a_lever_in_the_air_feels_nothing(law, dtype):
    """The block of G of a body with one freedom has rank one, in any direction."""
    rng = np.random.default_rng(0)

    def lever(axis):
        spec = jd.ModelSpec("lever")
        inertia = jd.Inertia(1.0, (0.1, 0.05, -0.1), 0.01 * np.eye(3))
        hinge = jd.joints.Revolute(axis=axis)
        spec.add_body("lever", "world", hinge, placement=jd.Transform(np.eye(3), (0, 0, 1.0)), inertia=inertia)
        spec.add_shape("lever", jd.shapes.Sphere(0.05), placement=jd.Transform(np.eye(3), (0.2, 0.1, -0.3)))
        return jax.tree.map(lambda x: x.astype(dtype), spec.add_ground().build())

    axes = rng.normal(size=(64, 3))
    models = jax.tree.map(lambda *xs: jnp.stack(xs), *map(lever, axes))
    q, v = rng.uniform(-2, 2, (64, 1)).astype(dtype), rng.normal(size=(64, 1)).astype(dtype)
    step = lambda m, q, v: jd.simulate(m, jd.State(q, v), np.zeros((1, 1), dtype), 2e-3, contacts=law)  # noqa: E731
    found = jax.jit(jax.vmap(step))(models, q, v)
    np.testing.assert_array_equal(found.contacts.impulses, 0)
    assert (found.result == jd.Result.successful).all()


def test_dry_friction_holds_and_yields():
    """A joint moves only under more than its friction, and then with the rest of the force."""
    spec = jd.ModelSpec("slider")
    spec.add_body("s", "world", jd.joints.Prismatic(axis=(1, 0, 0), friction=2.0), inertia=jd.Inertia(1.0))
    model = spec.build()
    step = jax.jit(lambda v, f: jd.step(model, jd.State(jnp.zeros(1), v), f, 1e-3, contacts=PGS()).v)
    zero = jnp.zeros(1)
    np.testing.assert_allclose(step(zero, zero + 1.9), 0, atol=1e-15)
    np.testing.assert_allclose(step(zero, zero + 3.0), 1e-3, rtol=1e-12)
    np.testing.assert_allclose(step(zero + 1.0, zero), 1 - 2e-3, rtol=1e-12)
    np.testing.assert_allclose(step(zero + 1e-3, zero), 0, atol=1e-15)
    slope = jax.grad(lambda b: jd.step(model.replace({"joints.friction": b}), jd.State(zero, zero + 1.0), zero, 1e-3,
                                       contacts=PGS()).v[0])(jnp.asarray([2.0]))  # fmt: skip
    np.testing.assert_allclose(slope, -1e-3, rtol=1e-9)


def rod(**options):
    """A rod on a hinge, hanging from a free body."""
    spec = jd.ModelSpec("rod", gravity=(0, 0, 0))
    spec.add_body("base", "world", jd.joints.Free(), inertia=scenes.round_body(1, 0.1))
    spec.add_body("rod", "base", jd.joints.Revolute(axis=(0, 1, 0), **options), inertia=jd.Inertia(1.0, (0, 0, -0.5)))
    return spec.build()


def swung(model):
    """The last angle of the hinge, after 0.1 s at 2 rad/s."""
    start = jd.State(model.neutral(), jnp.zeros(7).at[6].set(2.0))
    return jd.simulate(model, start, jnp.zeros((50, 7)), 2e-3, contacts=PGS(50)).q[-1, 7]


def test_friction_and_limits_that_are_replaced_act():
    """Also where a joint had none when it was built: numbers, batches of them, and traced ones; rows never vanish."""
    bare, both = rod(), rod(friction=0.1, limits=(-np.inf, 0.05))
    friction, upper, endless = both.joints.friction, both.joints.upper, bare.joints.upper
    free, held = swung(rod(limits=(-9.0, 9.0))), swung(rod(friction=0.1))
    assert held < free - 1e-3
    changed = bare.replace({"joints.friction": friction, "joints.upper": upper})
    assert changed.collision.scene == both.collision.scene
    back = changed.replace({"joints.friction": np.zeros(7), "joints.upper": endless})
    assert back.collision.scene == changed.collision.scene
    np.testing.assert_allclose(swung(back), free, rtol=1e-12)
    batch = bare.replace({"joints.friction": np.stack([np.zeros(7), friction])})
    axes = jax.tree.map(lambda x, one: 0 if x.ndim > one.ndim else None, batch, rod(friction=0.1))
    np.testing.assert_allclose(jax.vmap(swung, in_axes=(axes,))(batch), [free, held], rtol=1e-12)
    traced = jax.jit(lambda x, y: swung(bare.replace({"joints.friction": x, "joints.upper": y})))
    np.testing.assert_allclose(traced(friction, endless), held, rtol=1e-12)
    np.testing.assert_allclose(traced(0 * friction, upper), 0.05, atol=1e-9)


def test_slopes_of_friction_that_is_replaced():
    """Those of a model that had friction when it was built."""
    bare, both = rod(), rod(friction=0.1)
    given = [
        jax.grad(lambda x, m=m: swung(m.replace({"joints.friction": x})))(both.joints.friction) for m in (bare, both)
    ]
    assert given[0][6] < -1e-3
    np.testing.assert_allclose(given[0], given[1], rtol=1e-9)


def test_which_joints_get_rows():
    """Free joints have no rows of traced numbers, and those of plain ones; what stays as it is adds none."""
    bare, x = rod(), jnp.ones(7)
    scene = lambda change, x: jax.eval_shape(change, x).collision.scene  # noqa: E731
    traced = scene(lambda x: bare.replace({"joints.friction": x, "joints.lower": -x}), x)
    assert (traced.rubbing, traced.limited) == ((1,), (1,))
    assert bare.replace({"joints.friction": x}).collision.scene.rubbing == (0, 1)
    assert scene(lambda _: bare.replace({"joints.friction": np.ones(7)}), x).rubbing == (0, 1)
    assert scene(lambda m: m.replace({"joints.friction": m.joints.friction}), bare) == bare.collision.scene


def test_torsion_that_is_replaced_acts():
    def ball(**options):
        spec = jd.ModelSpec("top")
        spec.add_body("ball", "world", jd.joints.Free(), inertia=scenes.round_body(1, 0.1))
        spec.add_shape("ball", jd.shapes.Sphere(0.1), **options)
        return spec.add_ground().build()

    def spun(model):
        state = jd.State(jnp.asarray([0, 0, 0.1, 1, 0, 0, 0]), jnp.zeros(6).at[5].set(10.0))
        return jd.step(model, state, jnp.zeros(6), 2e-3, contacts=PGS(50)).v[5]

    bare, numbers = ball(), jnp.asarray([1e-3, 0.0])
    replaced = lambda x: spun(bare.replace({"collision.torsion": x}))  # noqa: E731
    expected = spun(ball(torsion=1e-3))
    assert expected < 10 - 1e-3
    np.testing.assert_allclose([replaced(numbers), jax.jit(replaced)(numbers)], expected, rtol=1e-12)
    np.testing.assert_allclose(jax.jacrev(replaced)(numbers)[0], (expected - 10) / 1e-3, rtol=1e-6)


def test_a_pair_has_its_own_torsion():
    """It replaces that of the shapes, zero too, and can be replaced; other pairs keep that of their shapes."""

    def built(pair, shape):
        spec = jd.ModelSpec("top")
        for name in ("a", "b"):
            spec.add_body(name, "world", jd.joints.Free(), inertia=scenes.round_body(1, 0.1))
            spec.add_shape(name, jd.shapes.Sphere(0.1), torsion=shape)
        return spec.add_ground().exclude("a", "b").add_pair("a", "ground", torsion=pair).build()

    def spun(model):
        q, v = (
            model.neutral().at[jnp.array([2, 9])].set(0.1).at[7].set(1.0),
            jnp.zeros(12).at[jnp.array([5, 11])].set(10),
        )
        v = jd.step(model, jd.State(q, v), jnp.zeros(12), 2e-3, contacts=PGS(50)).v
        return v[5], v[11]

    resisted = spun(built(None, 1e-3))[1]
    assert resisted < 10 - 1e-3
    np.testing.assert_allclose(spun(built(1e-3, 0.0)), (resisted, 10), rtol=1e-12)
    np.testing.assert_allclose(spun(built(0.0, 1e-3)), (10, resisted), rtol=1e-12)
    np.testing.assert_allclose(built(0.02, 1e-3).collision.of_pairs().torsion, (0.02, 1e-3), rtol=1e-6)
    none = built(0.0, 1e-3)
    np.testing.assert_allclose(spun(none.replace({"collision.pair_torsion": [1e-3]})), resisted, rtol=1e-12)
    traced = jax.jit(lambda x: spun(none.replace({"collision.pair_torsion": x})))
    np.testing.assert_allclose(traced(jnp.asarray([1e-3])), resisted, rtol=1e-12)
    kept = none.with_pairs([("a", "ground")]).collision
    assert kept.of_pairs().torsion.tolist() == [0.0] and not kept.scene.twists(kept.pairs[0])
    with pytest.raises(ValueError, match="`ModelSpec.add_pair`: `torsion` is negative"):
        built(-1.0, 0.0)


def test_twists_are_resisted():
    """A ball that spins on the ground: friction at a point does not stop it, a surface of radius r takes r m g."""

    def spun(torsion):
        spec = jd.ModelSpec("top")
        spec.add_body("ball", "world", jd.joints.Free(), inertia=scenes.round_body(1, 0.1))
        spec.add_shape("ball", jd.shapes.Sphere(0.1), torsion=torsion)
        spec.add_ground()
        model = spec.build()
        q = jnp.asarray([0, 0, 0.1, 1, 0, 0, 0])
        v = jnp.zeros(6).at[5].set(10.0)
        return model, jax.jit(lambda v: jd.simulate(model, jd.State(q, v), jnp.zeros((50, 6)), 2e-3,
                                                    contacts=PGS(50)).v[-1])(v)  # fmt: skip

    assert abs(float(spun(0.0)[1][5]) - 10) < 1e-9
    model, v = spun(1e-3)
    inertia = float(model.bodies.rotational[0, 2, 2])
    np.testing.assert_allclose(v[5], 10 - 0.1 * 1e-3 * 9.81 / inertia, rtol=1e-6)


def test_too_many_rows_are_refused():
    """Before anything is traced, with advice."""
    spec = jd.ModelSpec("heap")
    for k in range(17):
        spec.add_body(f"b{k}", "world", jd.joints.Free(), inertia=scenes.round_body(1, 0.1))
        spec.add_shape(f"b{k}", jd.shapes.Box((0.1, 0.1, 0.1)))
        if k:
            spec.exclude(f"b{k - 1}", f"b{k}")
    model = spec.add_ground().build()
    state = jd.State(model.neutral(), np.zeros(model.nv))
    with pytest.raises(ValueError, match=r"`step`: `contacts` would have \d+ rows, and at most 200.*with_pairs"):
        jd.step(model, state, np.zeros(model.nv), 1e-3, contacts=PGS())


#: overlaps by rounding, and by a millimetre, which the result tells
DEPTHS = {0.0: jd.Result.successful, 1e-3: jd.Result.contact_not_converged}


@pytest.mark.parametrize("joint", ("Planar", "Prismatic", "Revolute"))
@pytest.mark.parametrize("law", (PGS(), jd.contact.Newton(), jd.contact.ADMM()), ids=lambda x: type(x).__name__)
def test_contacts_that_cannot_move_along_their_normals_jam_nothing(law, joint):
    """A body that slides, or turns, along a tilted ground, which it touches: it moves as if there were no ground."""
    tilt, axis = scenes.at(tilt=0.3), (0, 0, 1) if joint == "Revolute" else (1, 0, 0)
    made = jd.joints.Planar() if joint == "Planar" else getattr(jd.joints, joint)(axis=axis)
    spec = jd.ModelSpec("slide", gravity=(0.0, 0.0, -9.81))
    place = jd.Transform(tilt.rotation, tilt.rotation @ np.array([0.1, 0.3, 0.1]))
    spec.add_body("slide", "world", made, placement=place, inertia=scenes.round_body(1.0, 0.3))
    for k, (x, y) in enumerate(((0.2, 0.1), (0.2, -0.1), (0.0, 0.0))):
        spec.add_shape("slide", jd.shapes.Sphere(0.1), name=f"wheel{k}", placement=scenes.at(x, y))
    spec.add_shape("world", jd.shapes.Plane(), placement=tilt)
    model = spec.build()
    for depth, result in DEPTHS.items():
        deep = model.replace({"collision.size": model.collision.size.at[:3, 0].add(depth)})

        def end(force, contacts, deep=deep):
            tau = jnp.zeros((20, model.nv)).at[:, 0].set(force)
            start = jd.State(model.neutral(), jnp.zeros(model.nv))
            found = jd.simulate(deep, start, tau, 1e-3, contacts=contacts)
            return found.v[-1, 0], found

        slope, found = jax.jit(jax.grad(end, has_aux=True), static_argnums=1)(1.0, law)
        free, alone = jax.jit(jax.grad(end, has_aux=True), static_argnums=1)(1.0, None)
        np.testing.assert_allclose(found.v, alone.v, atol=1e-12)
        np.testing.assert_allclose(slope, free, rtol=1e-9)
        assert (found.contacts.impulses == 0).all() and (found.result == result).all()


def on_a_slide(joint, height, friction=0.6):
    """Return a ball on a joint with its centre at this height above the ground."""
    spec = jd.ModelSpec("ball", gravity=(0.0, 0.0, -9.81))
    spec.add_body("ball", "world", joint, placement=scenes.at(0.1, 0.3, height), inertia=scenes.round_body(1.0, 0.1))
    spec.add_shape("ball", jd.shapes.Sphere(0.1), friction=friction)
    spec.add_shape("world", jd.shapes.Plane(), friction=friction)
    return spec.build()


@pytest.mark.parametrize("smoothing", [0.0, 0.01])
@pytest.mark.parametrize(
    ("joint", "height", "friction"),
    [(jd.joints.Free(), 1.0, 0.6), (jd.joints.Free(), 0.1, 0.0), (jd.joints.Planar(), 0.1, 0.6)],
    ids=["in the air", "frictionless", "cannot move along the normal"],
)
def test_derivatives_at_rest_are_those_without_friction(joint, height, friction, smoothing):
    """Where nothing presses or rubs, forces along the ground move a body at rest as if there were none."""
    model, law = on_a_slide(joint, height, friction), jd.contact.PGS(smoothing=smoothing)

    def end(force, contacts):
        tau = jnp.zeros((3, model.nv)).at[:, 0].set(force)
        return jd.simulate(model, jd.State(model.neutral(), jnp.zeros(model.nv)), tau, 1e-3, contacts=contacts).v[-1, 0]

    for f in (jax.grad(end), jax.jacfwd(end)):
        # smoothing by 0.01 m/s is felt a little a metre above the ground
        np.testing.assert_allclose(f(0.0, law), f(0.0, None), rtol=1e-4 if smoothing else 1e-9)


def test_light_feet_of_heavy_bodies_move():
    """In single precision, on a slide: 50 kg over a foot of one gram that turns."""
    spec = jd.ModelSpec("leg", gravity=(0.0, 0.0, -9.81))
    slide, hinge = jd.joints.Prismatic(axis=(0, 0, 1)), jd.joints.Revolute(axis=(0, 1, 0))
    spec.add_body("leg", "world", slide, placement=scenes.at(z=1.02), inertia=scenes.round_body(50.0, 0.3))
    inertia = jd.Inertia(1e-3, (0, 0, 0), 1e-8 * np.eye(3))
    spec.add_body("foot", "leg", hinge, placement=scenes.at(z=-1), inertia=inertia)
    spec.add_shape("foot", jd.shapes.Sphere(0.02))
    spec.add_shape("world", jd.shapes.Plane())
    model = jax.tree.map(lambda x: x.astype(jnp.float32) if x.dtype == jnp.float64 else x, spec.build())
    start = jd.State(model.neutral(), jnp.zeros(2, jnp.float32))
    found = jd.simulate(model, start, jnp.zeros((100, 2), jnp.float32), 1e-3, contacts=jd.contact.PGS())
    assert (found.result == jd.Result.successful).all() and abs(found.q[-1, 0]) < 1e-5
