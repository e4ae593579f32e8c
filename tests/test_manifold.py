"""The configuration manifold: integrate and difference as a group's exponential and logarithm, derivatives along it,
and closing loops on it."""

import catalogue
import compiled
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import oracle_bodies
import pytest
import scipy.linalg
from catalogue import CATALOGUE
from compiled import close, states

import jaxdyn as jd

ROBOTS = ("joints_floating", "joints_grounded")


def configurations(robot):
    """(q, q', v, w) of the states, as JAX arrays."""
    s = states(robot)
    return (jnp.asarray(x) for x in (s.q, s.q[::-1].copy(), s.v, s.v[::-1].copy()))


@pytest.mark.parametrize("robot", ROBOTS)
def test_agrees_with_the_reference(robot):
    model = CATALOGUE[robot].build()
    q, other, v, _ = configurations(robot)
    moved = compiled.mapped(lambda m, q, v: jd.integrate(m, q, v, 0.7))(model, q, v)
    gap = compiled.mapped(lambda m, a, b: jd.difference(m, a, b))(model, q, other)
    for k in range(len(q)):
        close(moved[k], oracle.integrate(model, np.asarray(q[k]), np.asarray(v[k]), 0.7), 1e-12)
        close(gap[k], oracle.difference(model, np.asarray(q[k]), np.asarray(other[k])), 1e-12)


@pytest.mark.parametrize("robot", ROBOTS)
def test_group_axioms(robot):
    """Going nowhere, there and back, in two halves; the difference is what integration undoes."""
    model = CATALOGUE[robot].build()
    q, other, v, _ = configurations(robot)

    def axioms(model, q, other, v):
        go = lambda q, v, dt=1.0: jd.integrate(model, q, v, dt)  # noqa: E731
        gap = jd.difference(model, q, other)
        return (
            go(q, jnp.zeros_like(v)) - q,
            go(go(q, v), -v) - q,
            go(go(q, v, 0.5), v, 0.5) - go(q, v),
            jd.difference(model, q, go(q, 0.3 * v)) - 0.3 * v,
            jd.difference(model, q, q),
            jd.difference(model, other, q) + gap,
            jd.difference(model, go(q, gap), other),
        )

    for error in compiled.mapped(axioms)(model, q, other, v):
        close(error, np.zeros(error.shape), 1e-12)


def test_quaternions_stay_of_unit_length_and_either_sign_is_the_same_rotation():
    model = CATALOGUE["joints_floating"].build()
    q, v = (jnp.asarray(x[0]) for x in states("joints_floating")[:2])
    turned = jd.integrate(model, q, 100 * v)
    for joint in ("base", "ball"):
        at = slice(model.q_slice(joint).stop - 4, model.q_slice(joint).stop)
        close(jnp.linalg.norm(turned[at]), 1.0, 1e-12)
        q = q.at[at].multiply(-1.0)
    close(jd.difference(model, jnp.asarray(states("joints_floating").q[0]), q), np.zeros(model.nv), 1e-12)


@pytest.mark.parametrize("angle", [1e-3, 1.01e-2, 0.1, 1.0, 3.0])
def test_small_turns_are_as_exact_in_single_precision(angle):
    """The exponential of SE(3), beside that of SciPy for matrices of 4 x 4."""
    x, y, z = turn = angle * np.array([0.6, 0.0, 0.8])
    way, twist = np.array([0.3, -0.2, 0.9]), np.zeros((4, 4))
    twist[:3] = np.column_stack([[[0, -z, y], [z, 0, -x], [-y, x, 0]], way])
    spec = jd.ModelSpec("body")
    spec.add_body("body", "world", jd.joints.Free(), inertia=jd.Inertia(1.0, (0, 0, 0), np.eye(3)))
    model = spec.build()
    found = jd.integrate(model, *(jnp.asarray(v, jnp.float32) for v in (model.neutral(), np.r_[way, turn])))[:3]
    np.testing.assert_allclose(found, scipy.linalg.expm(twist)[:3, 3], rtol=0, atol=1.5e-7)


@pytest.mark.parametrize("robot", ROBOTS)
def test_tangent(robot):
    """Columns are rates along unit velocities: of the centre of mass, and of q itself."""
    model = CATALOGUE[robot].build()
    q, _, v, _ = configurations(robot)
    got = compiled.mapped(lambda m, q: jd.tangent(lambda x: (jd.center_of_mass(m, x), x), m, q))(model, q)
    for k in range(len(q)):
        x, direction = np.asarray(q[k]), np.asarray(v[k])
        slope = oracle_bodies.along(oracle.read(model), x, direction, lambda y: oracle.center_of_mass(model, y))
        close(got[0][k] @ direction, slope, 1e-11)
        close(got[1][k] @ direction, oracle.rates(oracle.read(model), x, direction), 1e-12)


def test_difference_has_derivatives_at_zero():
    """Where the rotation between the two is the identity, once and twice."""
    model = CATALOGUE["stretched_arm"].build()
    q = jnp.asarray(states("stretched_arm").q[0])
    slope = jax.jit(jax.jacfwd(lambda d: jd.difference(model, q, jd.integrate(model, q, d))))
    close(slope(jnp.zeros(model.nv)), np.eye(model.nv), 1e-12)
    square = lambda d: jnp.sum(jd.difference(model, q, jd.integrate(model, q, d)) ** 2)  # noqa: E731
    close(jax.jit(jax.hessian(square))(jnp.zeros(model.nv)), 2 * np.eye(model.nv), 1e-10)


def test_assemble_closes():
    """From configurations that are off by a lot, also under vmap and jit."""
    robot = "four_bar_hinge"
    entry = CATALOGUE[robot]
    model = entry.build()
    rng = np.random.default_rng(1)
    wild = np.array([oracle.integrate(model, entry.guess, 0.3 * rng.normal(size=model.nv), 1.0) for _ in range(4)])
    assert all(np.abs(oracle.constraint_residual(model, q)).max() > 1e-2 for q in wild)
    for k, q in enumerate(compiled.mapped(jd.assemble)(model, jnp.asarray(wild))):
        assert np.abs(oracle.constraint_residual(model, np.asarray(q))).max() < 1e-11, k
    q = np.asarray(jd.assemble(model, wild[0]))
    assert np.abs(oracle.constraint_residual(model, q)).max() < 1e-11
    close(jd.assemble(model, q), q, 1e-12)


def test_assemble_has_derivatives():
    """With respect to the guess and to lengths of links, along the closed configurations."""
    robot = "geared_arm"
    model = CATALOGUE[robot].build()
    q0 = states(robot).q[0] + 0.05
    rng = np.random.default_rng(4)
    dq, doffset = rng.normal(size=model.nq), 0.7

    def closed(s):
        moved = model.replace({"constraints.0.offset": model.constraints[0].offset + s * doffset})
        return jd.assemble(moved, q0 + s * dq)

    wanted = (closed(1e-4) - closed(-1e-4)) / 2e-4
    got = jax.jvp(closed, (0.0,), (1.0,))[1]
    close(got, wanted, 1e-6)
    close(jax.jacrev(closed)(0.0), got, 1e-10)


def of_length(model, length):
    """The four-bar with a crank of this length."""
    return model.replace({"bodies.placement.translation": model.bodies.placement.translation.at[1, 2].set(length)})


@pytest.mark.parametrize("held", [False, True])
def test_assemble_closes_embedded_loops(held):
    """By their dependent joints, from far, with derivatives by their lengths; with another row and without."""
    model = jd.embed(jd.load("four_bar"))
    guess = model.neutral() + jnp.array([0.5, 0.0, 0.3])
    rows = (jd.constraints.Lock("crank", position=[0.5]),) if held else ()
    ends = jax.jit(lambda length: jd.assemble(of_length(model, length), guess, constraints=rows))
    h = 1e-5
    slope = (ends(0.25 + h) - ends(0.25 - h)) / (2 * h)
    assert jnp.abs(slope).max() > 1
    for derivative in (jax.jacfwd(ends), jax.jacrev(ends)):
        close(derivative(0.25), slope, 1e-8)
    q, cut = ends(0.25), of_length(jd.load("four_bar"), 0.25)
    assert abs(q[0] - 0.5) < 1e-12 and jnp.abs(jd.constraint_residual(cut, q)).max() < 1e-12
    with pytest.raises(ValueError, match=r"`assemble`: cannot close .*'pin' .*, which stays open by"):
        jd.assemble(of_length(model, 5.0), model.neutral(), constraints=rows)


def test_assemble_of_embedded_loops_winds_nothing_up():
    """From guesses of a radian and more the independent joint stays, and others move by less than a turn."""
    model, cut = jd.embed(jd.load("four_bar")), jd.load("four_bar")
    guesses = jnp.asarray(np.random.default_rng(1).uniform(-1.5, 1.5, (60, 3)))
    ends = jax.jit(jax.vmap(lambda q: jd.assemble(model, q)))(guesses)
    assert np.abs(jax.vmap(lambda q: jd.constraint_residual(cut, q))(ends)).max() < 1e-8
    assert np.array_equal(ends[:, 0], guesses[:, 0]) and np.abs(np.asarray(ends - guesses)).max() < 2 * np.pi


def test_assemble_has_second_derivatives():
    """Where rows are redundant and velocities more than rows: singular values of the Jacobian vanish."""
    model = CATALOGUE["five_bar_floating"].build()
    q = jnp.asarray(states("five_bar_floating").q[0])
    J = jd.constraint_jacobian(model, q, model.constraints)
    assert np.linalg.matrix_rank(J, 1e-9) < min(J.shape)
    rng = np.random.default_rng(4)
    w, (d, e) = rng.normal(size=model.nq), rng.normal(size=(2, model.nv))

    def closed(x):
        return jnp.asarray(w) @ jd.assemble(model, jd.integrate(model, q, x[0] * d + x[1] * e))

    none, gradient = jnp.zeros(2), jax.jit(jax.grad(closed))
    for hessian in (jax.jacfwd(gradient), jax.jacrev(gradient)):
        found = jax.jit(hessian)(none)
        for k, way in enumerate(np.eye(2)):
            close(found[:, k], (gradient(1e-5 * way) - gradient(-1e-5 * way)) / 2e-5, 1e-6)


@pytest.mark.parametrize("kind", [jd.constraints.Hinge, jd.constraints.Cylinder])
def test_axes_that_oppose_each_other_are_not_closed(kind):
    """The residual is the angle between the axes, up to π, and `assemble` turns them to the same side."""
    spec = jd.ModelSpec("door")
    spec.add_body("door", "world", jd.joints.Free(), inertia=jd.Inertia(1.0, (0, 0, 0), 0.1 * np.eye(3)))
    model = spec.add_constraint(kind("door", axis=(0, 0, 1))).build()
    residual = jax.jit(lambda q: jd.constraint_residual(model, q))
    slope = jax.jit(jax.jacfwd(residual))
    near = [np.pi - x for x in (1e-3, 1e-4, 9.9995e-5, 1e-5)]
    for angle in (1e-9, 1e-3, 0.5, 2.0, 3.0, np.pi, *near):
        for x, y in ((0.6, 0.8), (1, 0), (-1, 0), (0, 1), (0, -1)):
            q = np.array([0, 0, 0, np.cos(angle / 2), x * np.sin(angle / 2), y * np.sin(angle / 2), 0])
            exact = 1e-12 if angle < 3.1 else 1e-2  # where axes oppose each other the way is any
            np.testing.assert_allclose(np.linalg.norm(residual(q)[-2:]), angle, rtol=exact)
            assert np.isfinite(slope(q)).all()
    for key in range(6):
        q = jd.assemble(model, model.random_state(jax.random.key(key)).q)
        close(jd.frame_pose(model, q, "door").rotation[2], [0, 0, 1], 1e-9)


def test_assemble_refuses_what_cannot_close():
    """Outside of jit: an error that names the constraint; under jit: the nearest configuration."""
    spec = jd.ModelSpec("short")
    spec.add_body("arm", "world", jd.joints.Revolute(axis=(0, 1, 0)), inertia=jd.Inertia(1.0, (0.5, 0, 0), np.eye(3)))
    far = jd.Transform(np.eye(3), [3.0, 0.0, 0.0])
    spec.add_constraint(
        jd.constraints.Point("arm", placement_a=jd.Transform(np.eye(3), [1.0, 0, 0]), placement_b=far, name="peg")
    )
    model = spec.build()
    with pytest.raises(
        ValueError, match=r"`assemble`: cannot close 'peg' \(Point on arm\), which stays open by 2 m or rad"
    ):
        jd.assemble(model, [0.3])
    close(jax.jit(jd.assemble)(model, jnp.array([0.3])), [0.0], 1e-4)


def test_states_are_random_within_limits():
    model = CATALOGUE["quadruped"].build()
    for key in jax.random.split(jax.random.key(0), 5):
        state = model.random_state(key)
        close(jnp.linalg.norm(state.q[3:7]), 1.0, 1e-12)
        angles = jd.difference(model, model.neutral(), state.q)[6:]
        assert (angles >= model.joints.lower[6:]).all() and (angles <= model.joints.upper[6:]).all()


def test_random_states_keep_a_single_limit():
    spec = jd.ModelSpec("stops")
    for name, limits in {"a": (5.0, np.inf), "b": (-np.inf, -4.0), "c": (-np.inf, 1.0), "d": (-2.0, np.inf)}.items():
        inertia = jd.Inertia(1.0, (0.1, 0, 0), np.eye(3))
        spec.add_body(name, "world", jd.joints.Revolute(limits=limits), inertia=inertia)
    model = spec.build()
    q = np.asarray(jax.vmap(model.random_state)(jax.random.split(jax.random.key(0), 200)).q)
    low, high = np.array([5.0, -4 - np.pi, -np.pi, -2]), np.array([5 + np.pi, -4, 1, np.pi])
    assert (q >= low).all() and (q <= high).all()
    assert (np.ptp(q, 0) > 0.9 * (high - low)).all()


def test_the_catalogue_closes_its_loops():
    """What the other tests rest on: `sample` finds closed loops, and velocities along them."""
    for name, entry in catalogue.CATALOGUE.items():
        s = states(name)
        for q, v, _ in zip(*s, strict=True):
            residual = oracle.constraint_residual(entry.build(), q)
            assert np.abs(residual).max(initial=0.0) < 1e-11, name
            assert np.abs(oracle.constraint_jacobian(entry.build(), q) @ v).max(initial=0.0) < 1e-11, name


def test_a_rod_of_no_length_is_not_closed():
    """Origins that coincide are as far from the length as they are; `assemble` starts elsewhere, and `anchored` takes
    the length that is."""
    spec = jd.ModelSpec("rod", gravity=(0, 0, 0))
    for name in "ab":
        spec.add_body(name, "world", jd.joints.Translation(), inertia=jd.Inertia(1.0, (0, 0, 0), 0.1 * np.eye(3)))
    rod = jd.constraints.Distance("a", "b", length=1.0)
    model = spec.add_constraint(rod).build()
    close(jd.constraint_residual(model, np.zeros(6)), [-1.0], 0)
    assert np.isfinite(jax.jacfwd(lambda q: jd.constraint_residual(model, q))(jnp.zeros(6))).all()
    q = np.asarray(jd.assemble(model, np.zeros(6)))
    close(np.linalg.norm(q[:3] - q[3:]), 1.0, 1e-9)
    apart = np.array([0, 0, 0, 0.3, 0, 0.4])
    held = jd.anchored(model, apart, rod)
    close(held.length, 0.5, 1e-12)
    close(jd.constraint_residual(model, apart, (held,)), [0.0], 1e-12)


def test_roll_pitch_yaw_are_turns_about_fixed_axes():
    def turn(k, angle):
        i, j = (k + 1) % 3, (k + 2) % 3
        R = np.eye(3)
        R[[i, j], [i, j]], R[i, j], R[j, i] = np.cos(angle), -np.sin(angle), np.sin(angle)
        return R

    for rpy in np.random.default_rng(0).uniform(-3, 3, (5, 3)):
        found = jd.Transform.from_rpy(rpy, (1.0, 2.0, 3.0))
        expected = turn(2, rpy[2]) @ turn(1, rpy[1]) @ turn(0, rpy[0])
        np.testing.assert_allclose(found.rotation, expected, atol=1e-6)
        np.testing.assert_allclose(found.translation, [1.0, 2.0, 3.0])
    slope = jax.jacfwd(lambda rpy: jd.Transform.from_rpy(rpy).rotation)(jnp.zeros(3))
    np.testing.assert_allclose(slope[2, 1, 0], 1.0)
    with pytest.raises(ValueError, match=r"`Transform.from_rpy`: `rpy` has shape \(2,\)"):
        jd.Transform.from_rpy([0.0, 1.0])
