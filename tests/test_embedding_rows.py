"""Embedded models with contacts and loops that stay cut: all solvers solve one system."""

import functools

import jax
import numpy as np
import oracle
import pytest
from catalogue_base import at
from compiled import mapped, succeeded
from embedding_robots import ROBOTS, cut, embedded, forces, states, wrenches

import jaxdyn as jd

S = jd.solvers
Point, Weld, PointOnPlane = (getattr(jd.constraints, x) for x in ("Point", "Weld", "PointOnPlane"))
LANES = 20
#: by robot, rows besides those that are embedded
ROWS = {
    # loops: within a cluster, and across clusters
    "partly": (),
    # to the ground: beyond a cluster and within it
    "four_bar_floating": (
        Point("foot", placement_a=at(0.1, 0.05, 0.1), stabilization=None),
        PointOnPlane("loop_coupler", placement_a=at(0.05, 0.05), normal=(0.2, 0.1, 1.0), stabilization=None),
    ),
    # within clusters of gears, of which one hangs on two bodies
    "geared_floating": (
        Point("left", placement_a=at(0.1, 0.05, 0.1), stabilization=None),
        Weld("ankle", stabilization=None),
    ),
}
GROUND = (S.PV(), S.ProxPV(), S.ConstrainedABA())
ANY = (S.LCABA(), S.ProxBBO(), S.LTL())
CASES = [(name, s) for name in ROWS for s in (*ANY, *(GROUND if name != "partly" else ()))]


@functools.cache
def rows(name):
    return embedded(name).constraints + ROWS[name]


@functools.cache
def solutions(name):
    """Accelerations of the independent joints, and multipliers, of the robot with everything cut, embedded rows
    first."""
    model = embedded(name)
    at_all = mapped(lambda m, q, v: jd.expand(m, jd.State(q, v)).v)(model, states(name).q, states(name).v)
    free = list(model.topology.independent)
    given = zip(states(name).q, at_all, forces(name), wrenches(name), strict=True)
    found = []
    for q, v, tau, external in list(given)[:LANES]:
        force = np.zeros(model.topology.nv)
        force[free] = tau
        q, v = np.asarray(q), np.asarray(v)
        found.append(oracle.forward_dynamics(cut(name), q, v, force, model.embedded + rows(name), external))
    return np.array([x.acceleration[free] for x in found]), np.array([x.multipliers for x in found])


def reference(name):
    """Accelerations, and multipliers of the rows that are not embedded."""
    accelerations, multipliers = solutions(name)
    m = sum(c.layout(embedded(name).topology).rows for c in rows(name))
    return accelerations, multipliers[:, -m:]


@functools.cache
def loop_forces(name):
    """Loop forces of states, accelerations, forces, wrenches and multipliers of the other rows: of the model's own ones
    if there are no more."""
    given = {"constraints": rows(name)} if ROWS[name] else {}

    def f(model, q, v, a, tau, external, multipliers):
        return jd.loop_forces(model, jd.State(q, v), a, tau, external=external, multipliers=multipliers, **given)

    return mapped(f)


@pytest.mark.parametrize("name", ROWS)
def test_loop_forces_beside_other_rows(name):
    """They are the multipliers of the robot with everything cut."""
    accelerations, multipliers = solutions(name)
    at_rows = reference(name)[1]
    given = (x[:LANES] for x in (states(name).q, states(name).v, accelerations, forces(name), wrenches(name), at_rows))
    found, wanted = loop_forces(name)(embedded(name), *given), multipliers[:, : -at_rows.shape[1]]
    assert found.shape == wanted.shape
    assert (np.abs(found - wanted).max(1) / np.abs(wanted).max(1)).max() < 1e-9


def test_loop_forces_of_a_braked_linkage():
    """A brake on a joint that depends; the derivatives by its force, which are exact since forces are linear in it."""
    model = jd.embed(jd.load("four_bar"))
    state, tau = jd.State(model.neutral(), np.array([0.3])), np.array([5.0])
    brake = (jd.constraints.Lock("rocker", stabilization=None),)
    held = jd.forward_dynamics(model, state, tau, constraints=brake)

    def force(multipliers, constraints=brake):
        return jd.loop_forces(model, state, held.acceleration, tau, constraints=constraints, multipliers=multipliers)

    every = np.array([*tau, 0.0, held.multipliers[0]])  # the brake as a motor
    np.testing.assert_allclose(force(held.multipliers), jd.loop_forces(model, state, held.acceleration, every))
    slope = force(held.multipliers + 1.0) - force(held.multipliers)
    for derivative in (jax.jacfwd, jax.jacrev):
        np.testing.assert_allclose(derivative(force)(held.multipliers)[:, 0], slope, atol=1e-10)
    for bad, given, message in (
        (None, brake, r"`constraints` come without `multipliers` \(1,\)"),
        (np.zeros(2), brake, r"`multipliers` has shape \(2,\), not \(1,\)"),
        (np.zeros(1), None, r"`multipliers` has shape \(1,\), but 'four_bar' has no .* Give the `constr"),
        (np.zeros(1), (jd.constraints.Lock("leg"),), "constraint 0: .*'leg'"),
    ):
        with pytest.raises(ValueError, match=f"`loop_forces`: {message}"):
            force(bad, given)


@pytest.mark.parametrize(("name", "solver"), CASES, ids=lambda x: x if isinstance(x, str) else type(x).__name__)
def test_solvers_solve_one_system(name, solver):
    model, state = embedded(name), states(name)
    constraints = rows(name)

    def f(model, q, v, tau, external):
        given = {"constraints": constraints, "external": external, "solver": solver}
        return jd.forward_dynamics(model, jd.State(q, v), tau, **given)

    inputs = (state.q, state.v, forces(name), wrenches(name))
    found = mapped(f)(model, *(x[:LANES] for x in inputs))
    assert succeeded(found.result).all()
    for got, wanted in zip((found.acceleration, found.multipliers), reference(name), strict=True):
        assert got.shape == wanted.shape
        assert (np.abs(got - wanted).max(1) / np.abs(wanted).max(1)).max() < 1e-10


@pytest.mark.parametrize("method", ["PV", "PVReduced", "ConstrainedABA"])
@pytest.mark.parametrize("name", ["geared_floating", "four_bar_floating"])
def test_rows_on_every_body(name, method):
    """More than six meet at bodies beyond which joints move with joints elsewhere."""
    model, q = embedded(name), np.asarray(states(name).q[0])
    ends = [at(0.1, 0.05 * k, -0.1, (1, 2, 3), 0.2 * k) for k in range(model.nb)]
    held = [Weld(b, placement_a=p, stabilization=None) for b, p in zip(model.body_names, ends, strict=True)]
    held += [Point(b, placement_a=p, stabilization=None) for b, p in zip(model.body_names, ends[::-1], strict=True)]
    wanted = oracle.delassus(cut(name), q, held, within=model.embedded)
    made = lambda q: jd.delassus(model, q, held, method=getattr(jd.osim, method)()).dense()  # noqa: E731
    assert np.abs(jax.jit(made)(q) - wanted).max() < 1e-10 * np.abs(wanted).max()


@pytest.mark.parametrize("method", [jd.osim.PV(), jd.osim.PVFast()], ids=lambda m: type(m).__name__)
def test_rows_hold_that_have_left_their_bodies_before_a_cluster(method):
    """The operator of a tool on a robot whose cut loops act on bodies of clusters alone, against dense algebra."""
    model, tool = embedded("partly"), (Point("tool"),)
    q = states("partly").q[0]
    M, J, K = (
        np.asarray(x)
        for x in (jd.mass_matrix(model, q), *(jd.constraint_jacobian(model, q, c) for c in (model.constraints, tool)))
    )
    back = np.linalg.solve(M, np.concatenate([J, K]).T)
    L, m = np.concatenate([J, K]) @ back, len(J)
    exact = L[m:, m:] - L[m:, :m] @ np.linalg.solve(L[:m, :m], L[:m, m:])
    found = jd.delassus(model, q, tool, method=method, within=model.constraints).dense()
    np.testing.assert_allclose(found, exact, atol=1e-9 * np.abs(L).max())


def test_steps_with_contact_in_the_air_are_those_without():
    """On the same robot, with a ball far above the ground."""
    spec = jd.ModelSpec("partly")
    ROBOTS["partly"].fill(spec)
    spec.add_shape("tool", jd.shapes.Sphere(0.05))
    spec.add_shape("world", jd.shapes.Plane(), placement=at(0, 0, -10.0))
    model, state = (
        jd.embed(spec.build(), ROBOTS["partly"].loops),
        jd.State(states("partly").q[0], states("partly").v[0]),
    )
    tau = np.asarray(forces("partly")[0])
    step = jax.jit(lambda law: jd.simulate(model, state, tau[None], 1e-3, contacts=law), static_argnums=0)
    free, above = step(None), step(jd.contact.PGS())
    assert (above.result == jd.Result.successful).all()
    np.testing.assert_allclose(above.v, free.v, atol=1e-8)


@pytest.mark.parametrize("name", ["PV", "LTL"])
def test_feet_of_limbs_with_fewer_freedoms_than_joints(name):
    """Independent velocities count, not joints: the base moves what the geared leg alone cannot."""
    spec, part = jd.ModelSpec("leg"), jd.Inertia(1.0, (0.05, 0.1, -0.1), 0.05 * np.eye(3))
    spec.add_body("base", "world", jd.joints.Free(), inertia=part)
    parent = "base"
    for k, axis in enumerate(np.eye(3)):
        spec.add_body(f"l{k}", parent, jd.joints.Revolute(axis=axis), placement=at(0.1, 0.2, -0.3), inertia=part)
        parent = f"l{k}"
    spec.add_constraint(jd.constraints.Coupling(("l0", "l1"), (1.0, -2.0)))
    model, foot = jd.embed(spec.build()), (Point("l2", placement_a=at(0.2, 0.1, -0.3), stabilization=None),)
    state, tau = jd.State(model.neutral(), np.linspace(-1, 1, model.nv)), np.ones(model.nv)
    found = jd.forward_dynamics(model, state, tau, constraints=foot, solver=getattr(S, name)())
    wanted = jd.forward_dynamics(model, state, tau, constraints=foot, solver=S.Dense())
    assert found.result == wanted.result == jd.Result.successful
    np.testing.assert_allclose(found.acceleration, wanted.acceleration, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("method", ["PV", "PVFast"])
def test_floating_bases_within_clusters(method):
    """A loop to the world through a floating base, whose velocities are then those of a cluster."""
    spec, part = jd.ModelSpec("tethered"), jd.Inertia(1.0, (0.05, 0.1, -0.1), 0.05 * np.eye(3))
    spec.add_body("base", "world", jd.joints.Free(), inertia=part)
    spec.add_body("arm", "base", jd.joints.Universal(), placement=at(0.1, 0.2, -0.3), inertia=part)
    spec.add_body("hand", "arm", jd.joints.Revolute(), placement=at(0.3), inertia=part)
    spec.add_constraint(PointOnPlane("base", placement_a=at(0.2), normal=(0.2, 0.1, 1.0), placement_b=at(0.2)))
    model, tip = jd.embed(spec.build()), (Point("hand", placement_a=at(0.1, 0.2, 0.1)), Point("arm"))
    q = jd.integrate(model, model.neutral(), np.linspace(-0.3, 0.2, model.nv), 1.0)
    M, J = jd.mass_matrix(model, q), jd.constraint_jacobian(model, q, tip)
    found = jd.delassus(model, q, tip, method=getattr(jd.osim, method)()).dense()
    np.testing.assert_allclose(found, J @ np.linalg.solve(M, J.T), atol=1e-10)
