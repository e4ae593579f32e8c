"""Rows of constraints against dense algebra: Jacobian, bias and residual of every robot that has any; and against
numbers worked out by hand, which freeze the conventions."""

import dataclasses
import re

import compiled
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from catalogue import CATALOGUE
from compiled import close, states
from solvers import CONSTRAINED

import jaxdyn as jd

TOLERANCE = 1e-9


@pytest.mark.parametrize("robot", CONSTRAINED)
def test_rows(robot):
    """At closed loops, and at any other configuration and velocity."""
    model = CATALOGUE[robot].build()
    q, v, _ = (x.copy() for x in states(robot))
    rng = np.random.default_rng(2)
    for k in (2, 3):
        v[k] = rng.normal(size=model.nv)
        q[k] = oracle.integrate(model, q[k], rng.normal(size=model.nv), 0.2)
    J, gamma, residual = compiled.rows_program(model, jnp.asarray(q), jnp.asarray(v))
    for k in range(len(q)):
        close(J[k], oracle.constraint_jacobian(model, q[k]), TOLERANCE)
        close(gamma[k], oracle.constraint_bias(model, q[k], v[k]), TOLERANCE)
        close(residual[k], oracle.constraint_residual(model, q[k]), TOLERANCE)
    sizes = {c.name: c.layout(model.topology).rows for c in model.constraints}
    slices = jd.constraint_slices(model)
    assert {n: s.stop - s.start for n, s in slices.items()} == sizes
    assert [s.start for s in slices.values()] == [0, *np.cumsum(list(sizes.values()))[:-1]]
    assert list(slices.values())[-1].stop == J.shape[1]


def test_slices_of_nameless_constraints():
    model = CATALOGUE["quadruped"].build()
    some = (
        jd.constraints.Point("left_foot"),
        jd.constraints.Weld("right_foot", name="foot"),
        jd.constraints.Distance("trunk", length=1.0),
    )
    assert jd.constraint_slices(model, some) == {0: slice(0, 3), "foot": slice(3, 9), 2: slice(9, 10)}
    assert jd.constraint_slices(model) == {}


def test_no_rows():
    model = CATALOGUE["pendulum"].build()
    assert jd.constraint_jacobian(model, [0.1]).shape == (0, 1)
    assert jd.constraint_bias(model, jd.State([0.1], [0.2])).shape == (0,)
    assert jd.constraint_residual(model, [0.1]).shape == (0,)


def test_conventions_of_a_weld():
    """a at 90 degrees about z, one metre out, welded to the world's origin: velocity of a minus that of b in a's
    axes, linear first; position and rotation vector of a seen from b, in a's axes."""
    spec = jd.ModelSpec("free")
    spec.add_body("box", "world", jd.joints.Free(), inertia=jd.Inertia(1.0, (0, 0, 0), np.eye(3)))
    model = spec.build()
    half = np.sqrt(0.5)
    q = [1.0, 0, 0, half, 0, 0, half]
    weld = (jd.constraints.Weld("box"),)
    close(jd.constraint_residual(model, q, weld), [0, -1, 0, 0, 0, np.pi / 2], 1e-12)
    close(jd.constraint_jacobian(model, q, weld), np.eye(6), 1e-12)
    moved = (jd.constraints.Weld("box", placement_b=jd.Transform(np.eye(3), [1.0, 2.0, 0.0])),)
    close(jd.constraint_residual(model, q, moved), [-2, 0, 0, 0, 0, np.pi / 2], 1e-12)


def test_conventions_of_a_point():
    """The difference of the two points' velocities in a's axes, and its exact rate: none seen from the turning rod,
    the centripetal acceleration seen from the world."""
    spec = jd.ModelSpec("rod")
    spec.add_body("rod", "world", jd.joints.Revolute(axis=(0, 0, 1)), inertia=jd.Inertia(1.0, (0, 0, 0), np.eye(3)))
    model, tip = spec.build(), jd.Transform(np.eye(3), [2.0, 0.0, 0.0])
    q, v = [np.pi / 2], [3.0]
    own = (jd.constraints.Point("rod", placement_a=tip),)
    close(jd.constraint_jacobian(model, q, own), [[0], [2], [0]], 1e-12)
    close(jd.constraint_bias(model, jd.State(q, v), own), [0, 0, 0], 1e-12)
    close(jd.constraint_residual(model, q, own), [2, 0, 0], 1e-12)
    other = (jd.constraints.Point("world", "rod", placement_b=tip),)
    close(jd.constraint_jacobian(model, q, other), [[2], [0], [0]], 1e-12)
    close(jd.constraint_bias(model, jd.State(q, v), other), [0, 18, 0], 1e-12)
    close(jd.constraint_residual(model, q, other), [0, -2, 0], 1e-12)


def test_targets_and_gains_enter_the_wanted_acceleration():
    """J q̈ + gamma = target - stiffness residual - damping J v; without stabilisation only the target."""
    spec = jd.ModelSpec("cart")
    spec.add_body("cart", "world", jd.joints.Prismatic(axis=(1, 0, 0)), inertia=jd.Inertia(2.0, (0, 0, 0), np.eye(3)))
    model = spec.build()
    state = jd.State([0.5], [2.0])
    plane = lambda **kw: (jd.constraints.PointOnPlane("cart", normal=(1, 0, 0), target=[0.7], **kw),)  # noqa: E731
    solve = lambda c: jd.forward_dynamics(model, state, [0.0], constraints=c)  # noqa: E731
    held = solve(plane(stabilization=jd.constraints.Baumgarte(100.0, 5.0)))
    close(held.acceleration, [0.7 - 100 * 0.5 - 5 * 2], 1e-11)
    close(held.multipliers, 2 * np.asarray(held.acceleration), 1e-9)
    close(solve(plane(stabilization=None)).acceleration, [0.7], 1e-11)
    close(solve(plane()).acceleration, [0.7 - 6400 * 0.5 - 160 * 2], 1e-11)
    close(jd.constraints.Baumgarte(25.0).damping, 10.0, 1e-15)


def test_a_lock_holds_a_position():
    """Its layout reads the size of an array, of which a program knows no numbers."""
    spec = jd.ModelSpec("arm")
    inertia = jd.Inertia(1.0, (0, 0, -0.5), 0.1 * np.eye(3))
    spec.add_body("upper", "world", jd.joints.Revolute(axis=(0, 1, 0)), inertia=inertia)
    spec.add_body("lower", "upper", jd.joints.Universal(), inertia=inertia)
    model = spec.add_constraint(jd.constraints.Lock("lower", 2, position=(0.1, -0.2))).build()
    state = jd.State(np.zeros(3), np.zeros(3))
    wanted = [-(80.0**2) * -x for x in (0.1, -0.2)]  # the stiffness of `Baumgarte()` times what is missing
    for solver in (jd.solvers.Auto(), jd.solvers.LCABA(), jd.solvers.ProxLTL(), jd.solvers.Dense()):
        found = jd.forward_dynamics(model, state, np.zeros(3), solver=solver)
        np.testing.assert_allclose(found.acceleration[1:], wanted, rtol=1e-9)
    end = jd.simulate(model, state, np.zeros((400, 3)), 1e-3)
    np.testing.assert_allclose(end.q[-1, 1:], (0.1, -0.2), atol=1e-6)
    with pytest.raises(ValueError, match=r"`position` of joint 'lower' has shape \(3,\), not \(2,\)"):
        spec.add_constraint(jd.constraints.Lock("lower", 2, position=(0.1, 0, 0))).build()


def test_a_lock_holds_an_orientation():
    spec = jd.ModelSpec("satellite")
    spec.add_body("hull", "world", jd.joints.Free(), inertia=jd.Inertia(1.0, np.zeros(3), 0.1 * np.eye(3)))
    model, state = spec.build(), jd.State((0.1, 0, 0, 1, 0, 0, 0), np.zeros(6))
    locks = [(jd.constraints.Lock("hull", 6, position=(0, 0, 0, *p)),) for p in ((0, 1, 0, 0), (0, 2, 0, 0), [0] * 4)]
    found = jd.forward_dynamics(model, state, np.zeros(6), constraints=locks[0])
    assert found.result == jd.Result.successful
    within = jax.jit(lambda tau: jd.forward_dynamics(model, state, tau, constraints=locks[0]).acceleration)
    np.testing.assert_allclose(within(np.zeros(6)), found.acceleration, rtol=1e-9, atol=1e-9)
    for lock in locks[1:]:
        with pytest.raises(ValueError, match="the quaternion of `position` of joint 'hull' is not of unit length"):
            jd.forward_dynamics(model, state, np.zeros(6), constraints=lock)


def test_a_vector_is_a_placement():
    """It is a translation, wherever a `Transform` is taken."""
    xyz, rod = (0.1, 0.2, -0.3), jd.Inertia(1.0, (0, 0, 0.1), np.diag([0.1, 0.2, 0.2]))
    place = jd.Transform(np.eye(3), xyz)

    def robot(at):
        spec = jd.ModelSpec("arm").add_body("arm", "world", jd.joints.Revolute, placement=at, inertia=rod)
        spec.add_frame("tip", "arm", at).add_shape("arm", jd.shapes.Sphere(0.1), placement=at)
        spec.add_rotor("rotor", "arm", {"arm": 3.0}, inertia=0.1, placement=at)
        spec.add_body("hand", "tip", jd.joints.Free, inertia=rod.transformed(at))
        return spec.add_constraint(jd.constraints.Weld("hand", "arm", placement_a=at, placement_b=at)).build()

    assert eqx.tree_equal(robot(xyz), robot(place), typematch=True)
    assert eqx.tree_equal(robot(np.array(xyz)), robot(jnp.array(xyz)), typematch=True)
    height = jax.jacfwd(lambda z: jd.constraints.Point("arm", placement_a=(0, 0, z)).placement_a.translation)(1.0)
    np.testing.assert_array_equal(height, [0, 0, 1])


def test_constraints_are_replaced():
    """By `dataclasses.replace`, as other modules."""
    plane = jd.constraints.PointOnPlane("foot", normal=(0, 3.0, 4.0))
    gains = jd.constraints.Baumgarte(3.0)
    changed = dataclasses.replace(plane, stabilization=gains)
    np.testing.assert_array_equal(changed.axis, plane.axis)
    assert changed.stabilization is gains
    np.testing.assert_allclose(dataclasses.replace(plane, normal=(1.0, 0, 0)).axis, (1, 0, 0))


@pytest.mark.parametrize("kind", [jd.constraints.Weld, jd.constraints.Point, jd.constraints.Distance])
def test_constraints_without_an_axis_take_none(kind):
    own = {"length": 1.0} if kind is jd.constraints.Distance else {}
    with pytest.raises(TypeError, match=rf"`{kind.__name__}\('a', 'world'\)`: it has no axis; leave `axis` out"):
        kind("a", axis=(1.0, 0.0, 0.0), **own)
    assert dataclasses.replace(kind("a", **own), name="other").name == "other"


def test_anchored_planes_keep_their_direction():
    """The normal is given in frame b; the body that the plane holds has turned."""
    spec = jd.ModelSpec("two")
    for name in ("foot", "table"):
        spec.add_body(name, "world", jd.joints.Free(), inertia=jd.Inertia(1.0, (0, 0, 0), 0.1 * np.eye(3)))
    model = spec.build()
    qs = jax.vmap(lambda key: model.random_state(key).q)(jax.random.split(jax.random.key(0), 3))
    tilted = jd.Transform.from_quaternion((0.8, 0.36, 0.48, 0.0), (0.05, -0.1, 0.02))
    for other in ("world", "table"):
        plane = jd.constraints.PointOnPlane("foot", other, normal=(0, 0.6, 0.8), placement_a=tilted, placement_b=tilted)
        held = jax.vmap(lambda q, plane=plane: jd.anchored(model, q, plane))(qs)
        assert np.abs(jax.vmap(lambda q, c: jd.constraint_residual(model, q, (c,)))(qs, held)).max() < 1e-14
        for rotation in held.placement_b.rotation:
            np.testing.assert_array_equal(rotation, tilted.rotation)
    level = jd.anchored(model, qs[0], jd.constraints.PointOnPlane("foot", stabilization=None))
    J = jd.constraint_jacobian(model, qs[0], (level,))
    close(J, jd.jacobian(model, qs[0], "foot", reference="world_aligned")[2:3], 1e-14)


ARRAYS = {
    "0.stabilization.stiffness": ((3,), r"has shape \(3,\), not \(\); map over"),
    "0.target": ((3, 3), r"has shape \(3, 3\), not \(3,\); map over"),
    "0.placement_a.translation": ((3, 3), r"has shape \(3, 3\), not \(3,\); map over"),
    "0.placement_b.rotation": ((3, 3, 3), r"has shape \(3, 3, 3\), not \(3, 3\); map over"),
    "1.coefficients": ((4, 2), r"has shape \(4, 2\), not \(2,\); map over"),
    "1.offset": ((2,), r"has shape \(2,\), not \(\); map over"),
    "2.length": ((1,), r"has shape \(1,\), not \(\); map over"),
}


@pytest.mark.parametrize("path", ARRAYS)
def test_arrays_of_many_constraints_in_one_are_refused(path):
    """A batch of robots without `vmap`: three gains for the three rows of one constraint would each act on one."""
    shape, words = ARRAYS[path]
    spec = jd.load_spec("four_bar")
    spec.add_constraint(jd.constraints.Coupling(("crank", "rocker"), (1.0, -1.0)))
    spec.add_constraint(jd.constraints.Distance("crank", "rocker", length=0.3))
    one = spec.build()
    many = one.replace({f"constraints.{path}": np.broadcast_to(one.at(f"constraints.{path}"), shape)})
    where = re.escape(f"`model.constraints.{path}`")
    with pytest.raises(ValueError, match=f"`constraint_residual`: {where} {words} models with `jax.vmap`"):
        jd.constraint_residual(many, one.neutral())
    k, rest = path.split(".", 1)
    rows = many.constraints[int(k)]
    with pytest.raises(ValueError, match=rf"`constraints\[0\].{re.escape(rest)}` {words} constraints with"):
        jd.forward_dynamics(one, jd.State(one.neutral(), np.zeros(3)), np.zeros(3), constraints=(rows,))
