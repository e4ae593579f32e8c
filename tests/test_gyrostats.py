"""Rotors on axes of symmetry, which embedded models take for gyrostats, and what solvers and methods do with them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd
from jaxdyn import interop

TURNED = jd.Transform.from_quaternion((0.8, 0.36, 0.48, 0.0), (0.05, -0.1, 0.02))


def leg(symmetric=True, floating=True):
    """A body with two links; a gear, a belt over both links, and two rotors of a differential on crooked axes."""
    spec = jd.ModelSpec("leg")
    free = jd.joints.Free() if floating else jd.joints.Prismatic()
    spec.add_body("base", "world", free, inertia=jd.Inertia(5.0, (0.1, 0, 0), np.diag([0.2, 0.3, 0.25])))
    for name, parent in (("hip", "base"), ("knee", "hip"), ("foot", "knee")):
        joint = jd.joints.Revolute(axis=(0.1, 1, 0.2), armature=0.01, damping=0.1, stiffness=2.0)
        moments = np.array([[0.02, 1e-3, 0], [1e-3, 0.02, 0], [0, 0, 0.01]])
        spec.add_body(name, parent, joint, placement=TURNED, inertia=jd.Inertia(1.0, (0, 0.02, -0.1), moments))
    disc = np.diag([1e-4, 1e-4, 2e-4]) if symmetric else np.diag([1.5e-4, 1e-4, 2e-4])
    rotor = jd.Inertia(0.2, (0, 0, 0.03), disc)
    spec.add_rotor("gear", "base", {"hip": 6.0}, inertia=rotor, placement=TURNED)
    spec.add_rotor("left", "hip", {"knee": 4.0, "foot": 5.0}, inertia=rotor, placement=TURNED)
    spec.add_rotor("right", "hip", {"knee": 4.0, "foot": -5.0}, inertia=3e-4, axis=(1, 0, 1))
    return spec.add_frame("toe", "foot", jd.Transform(np.eye(3), (0, 0, -0.2))).build()


@pytest.fixture(scope="module")
def cut():
    return leg()


@pytest.fixture(scope="module")
def robot(cut):
    return jd.embed(cut)


def state_of(model, key=0):
    state = model.random_state(jax.random.key(key))
    return state, jax.random.normal(jax.random.key(key + 1), (model.nv,))


def relative(a, b):
    return float(jnp.abs(a - b).max() / jnp.abs(b).max())


def test_rotors_are_found(robot):
    rotors = [robot.body_names[b] for c in robot.topology.clusters for b in c.rotors]
    assert sorted(rotors) == ["gear", "left", "right"]
    assert not any(c.rotors for c in jd.embed(leg(floating=True, symmetric=False)).topology.clusters[:1])


def test_gyrostats_are_exact(robot, cut):
    """Against bodies that turn, and against everything cut."""
    turning = robot.without_rotors()
    for key in range(3):
        state, tau = state_of(robot, key)
        found = jd.forward_dynamics(robot, state, tau).acceleration
        assert relative(found, jd.forward_dynamics(turning, state, tau).acceleration) < 1e-13
        every = jnp.zeros(cut.nv).at[jnp.asarray(robot.topology.independent)].set(tau)
        dense = jd.forward_dynamics(cut, jd.expand(robot, state), every, solver=jd.solvers.Dense())
        assert relative(found, dense.acceleration[jnp.asarray(robot.topology.independent)]) < 1e-11
        assert relative(jd.inverse_dynamics(robot, state, found), tau) < 1e-11


def test_derivatives_of_gyrostats_are_those_of_bodies(robot):
    """Also along directions in which an inertia loses its symmetry."""
    state, tau = state_of(robot)

    def loss(model, state, tau):
        return jnp.sum(jnp.cos(jd.forward_dynamics(model, state, tau).acceleration))

    found = jax.grad(loss, (0, 1, 2), allow_int=True)(robot, state, tau)
    wanted = jax.grad(loss, (0, 1, 2), allow_int=True)(robot.without_rotors(), state, tau)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert np.allclose(a, b, rtol=1e-8, atol=1e-9 * np.abs(b).max(initial=1e-300))


def test_rotors_that_lose_their_symmetry_turn_again(robot):
    state, tau = state_of(robot)
    b = robot.body_names.index("gear")
    inertia = robot.bodies.rotational.at[b].set(jnp.diag(jnp.array([9e-4, 5e-4, 6e-4])))
    changed = robot.replace({"bodies.rotational": inertia})
    found = jd.forward_dynamics(changed, state, tau).acceleration
    M, h = jd.mass_matrix(changed, state.q), jd.bias_forces(changed, state)
    wanted = jnp.linalg.solve(M, tau + jd.passive_forces(changed, state) - h)
    assert relative(found, wanted) < 1e-11
    assert any(c.rotors for c in robot.replace({"joints.damping": robot.joints.damping}).topology.clusters)


def test_wrenches_and_constraints_act_on_rotors(robot):
    """What acts on a rotor sees it turn."""
    state, tau = state_of(robot)
    turning = robot.without_rotors()
    external = jax.random.normal(jax.random.key(5), (robot.nb, 6))
    a, b = (jd.forward_dynamics(m, state, tau, external=external).acceleration for m in (robot, turning))
    assert relative(a, b) < 1e-13
    held = (jd.constraints.Point("gear", placement_a=TURNED, stabilization=None),)
    a, b = (
        jd.forward_dynamics(m, state, tau, constraints=held, solver=s)
        for m, s in ((robot, jd.solvers.LCABA()), (turning, jd.solvers.Dense()))
    )
    assert relative(a.acceleration, b.acceleration) < 1e-8


@pytest.mark.parametrize("name", ["LCABA", "ProxBBO", "Unified", "ProxPV", "PV", "ConstrainedABA", "ProxLTL", "LTL"])
def test_solvers_hold_a_foot_of_an_embedded_robot(robot, name):
    state, tau = state_of(robot)
    held = (jd.constraints.Point("toe", stabilization=None),)
    solve = lambda solver: jd.forward_dynamics(robot, state, tau, constraints=held, solver=solver)  # noqa: E731
    found, wanted = solve(getattr(jd.solvers, name)()), solve(jd.solvers.Dense())
    assert found.result == jd.forward_dynamics(robot, state, tau).result
    assert relative(found.acceleration, wanted.acceleration) < 1e-11
    assert relative(found.multipliers, wanted.multipliers) < 1e-10


@pytest.mark.parametrize("name", ["Dense", "LTL", "PV", "PVFast", "PVReduced", "MatrixFree", "ConstrainedABA"])
def test_delassus_operators_of_an_embedded_robot(robot, name):
    state, _ = state_of(robot)
    held = (jd.constraints.Point("toe"),)
    J, M = jd.constraint_jacobian(robot, state.q, held), jd.mass_matrix(robot, state.q)
    wanted = J @ jnp.linalg.solve(M, J.T)
    x = jnp.array([1.0, -2.0, 0.5])
    operator = jd.delassus(robot, state.q, held, method=getattr(jd.osim, name)(), damping=0.1)
    assert relative(operator.mv(x), wanted @ x + 0.1 * x) < 1e-11
    assert relative((wanted + 0.1 * jnp.eye(3)) @ operator.solve(x), x) < 1e-11


def test_what_takes_no_clusters_says_so(robot):
    state, tau = state_of(robot)
    held = (jd.constraints.Point("toe"),)
    with pytest.raises(ValueError, match="`PVEarly` takes no models with embedded loops. Use `jd.solvers.ProxBBO"):
        jd.forward_dynamics(robot, state, tau, constraints=held, solver=jd.solvers.PVEarly())
    for method in (jd.osim.KJR(), jd.osim.EFPA()):
        with pytest.raises(ValueError, match="takes no models with embedded loops. Use `jd.osim.MatrixFree"):
            jd.delassus(robot, state.q, held, method=method)
    with pytest.raises(ValueError, match="`Leapfrog` takes no models with embedded loops"):
        jd.step(robot, state, tau, 1e-3, integrator=jd.integrators.Leapfrog())


def test_loop_forces_are_the_multipliers_of_the_cut_model(robot, cut):
    """With forces at the independent joints, and with others at all joints."""
    state, tau = state_of(robot)
    at = jnp.asarray(robot.topology.independent)
    for every in (jnp.zeros(cut.nv).at[at].set(tau), jax.random.normal(jax.random.key(9), (cut.nv,))):
        given = tau if every[-1] == 0 else every
        a = jd.forward_dynamics(robot, state, given).acceleration
        found = jd.loop_forces(robot, state, a, given)
        wanted = jd.forward_dynamics(cut, jd.expand(robot, state), every, solver=jd.solvers.Dense())
        assert relative(found, wanted.multipliers) < 1e-10
    with pytest.raises(ValueError, match="`loop_forces`: 'leg' has no embedded constraints"):
        jd.loop_forces(cut, jd.expand(robot, state), jnp.zeros(cut.nv), jnp.zeros(cut.nv))


def test_rotors_are_checked():
    spec = jd.ModelSpec("bad")
    spec.add_body("link", "world", jd.joints.Revolute(), inertia=jd.Inertia(1.0, (0, 0, 0.1), np.eye(3)))
    with pytest.raises(ValueError, match=r"`ModelSpec.add_rotor\('r'\)`: `ratios` is empty"):
        spec.add_rotor("r", "link", {}, inertia=1e-3)
    with pytest.raises(ValueError, match="there is no joint 'lnk'. Did you mean 'link'"):
        spec.add_rotor("r", "link", {"lnk": 2.0}, inertia=1e-3)
    with pytest.raises(ValueError, match="inertia"):
        spec.add_rotor("r", "link", {"link": 2.0}, inertia=-1e-3)


def test_open_and_singular_loops_are_told():
    """A parallelogram, stretched and open."""
    spec = jd.ModelSpec("parallelogram")
    body = jd.Inertia(1.0, (0.25, 0, 0), np.eye(3) * 0.02)
    spec.add_body("a", "world", jd.joints.Revolute(), inertia=body)
    spec.add_body("b", "a", jd.joints.Revolute(), placement=jd.Transform(np.eye(3), (0.5, 0, 0)), inertia=body)
    spec.add_body("c", "world", jd.joints.Revolute(), placement=jd.Transform(np.eye(3), (0.5, 0, 0)), inertia=body)
    ends = [jd.Transform(np.eye(3), (0.5, 0, 0))] * 2
    spec.add_constraint(jd.constraints.Point("b", "c", placement_a=ends[0], placement_b=ends[1], name="loop"))
    robot = jd.embed(spec.build())
    result = lambda q: jd.forward_dynamics(robot, jd.State(q, jnp.ones(1)), jnp.ones(1)).result  # noqa: E731
    told = jd.Result
    assert result(robot.neutral()) == told.successful
    assert result(jnp.zeros(3)) == told.singular_loop
    assert result(jnp.array([0.9, -0.8, 0.9])) == told.open_loop


def test_states_go_to_mujoco_and_back(robot, cut):
    """With the velocities of all joints there, and the independent ones here."""
    mujoco = pytest.importorskip("mujoco")
    joints = "".join(f'<body><joint name="{n}"/><geom size="1"/>' for n in cut.joint_names[1:])
    free = f'<body><freejoint name="{cut.joint_names[0]}"/><geom size="1"/>'
    ends = "</body>" * cut.nb
    there = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{free}{joints}{ends}</worldbody></mujoco>")
    state, _ = state_of(robot)
    moved = interop.to_mujoco(robot, there, state)
    for a, b in zip(moved, interop.to_mujoco(cut, there, jd.expand(robot, state)), strict=True):
        assert np.array_equal(a, b)
    back = interop.from_mujoco(robot, there, *moved)
    assert np.allclose(back.q, state.q) and np.allclose(back.v, state.v)


def test_chains_of_belts_keep_single_precision():
    """Light rotors of ratio 8, each belt over two joints: one solve leaves errors of 1e-5 and more."""
    spec, parent = jd.ModelSpec("belts"), "world"
    inertia = jd.Inertia(1.0, (0.1, 0, -0.1), np.eye(3) * 0.01)
    place = jd.Transform(np.eye(3), (0, 0, -0.3))
    spec.add_body("base", "world", jd.joints.Free(), inertia=inertia)
    parent = "base"
    for k in range(10):
        names, carrier = (f"upper{k}", f"lower{k}"), parent
        for name, axis in zip(names, ((0, 1, 0), (1, 0, 0)), strict=True):
            spec.add_body(name, parent, jd.joints.Revolute(axis=axis), placement=place, inertia=inertia)
            parent = name
        spec.add_rotor(f"gear{k}", carrier, {names[0]: 8.0}, inertia=1e-5, axis=(0, 1, 0))
        spec.add_rotor(f"belt{k}", carrier, dict.fromkeys(names, 8.0), inertia=1e-5, axis=(0, 1, 0))
    robot = jd.embed(spec.build())
    narrow = lambda t: jax.tree.map(lambda x: x.astype(jnp.float32), t)  # noqa: E731
    wide = lambda t: jax.tree.map(lambda x: x.astype(jnp.float64), t)  # noqa: E731
    states = jax.vmap(robot.random_state)(jax.random.split(jax.random.key(0), 8))
    given = narrow((robot, states, jax.random.normal(jax.random.key(1), (8, robot.nv))))

    def accelerations(solver, model, states, tau):
        run = lambda s, t: jd.forward_dynamics(model, s, t, solver=solver).acceleration  # noqa: E731
        return jax.vmap(run)(states, tau)

    exact = accelerations(jd.solvers.ABA(), *wide(given)).astype(jnp.float32)
    off = lambda solver: jnp.abs(accelerations(solver, *given) - exact).max(1) / jnp.abs(exact).max(1)  # noqa: E731
    once, chosen = off(jd.solvers.ABA(max_steps=1)), off(jd.solvers.ABA())
    assert chosen.max() < 5e-6 and chosen.mean() < 0.5 * once.mean()


@pytest.mark.parametrize("field", ["center_of_mass", "rotational"])
def test_rotors_made_asymmetric_behind_the_back_of_replace_are_reported(field):
    """As an optimiser that updates all arrays of a model does; without the assumption the motion is right."""
    spec, inertia = jd.ModelSpec("arm"), jd.Inertia(1.0, (0.02, 0.01, -0.1), np.diag([0.01, 0.012, 0.015]))
    spec.add_body("upper", "world", jd.joints.Revolute(axis=(0, 1, 0)), inertia=inertia)
    spec.add_body(
        "fore",
        "upper",
        jd.joints.Revolute(axis=(0, 1, 0)),
        placement=jd.Transform(np.eye(3), (0, 0, -0.3)),
        inertia=inertia,
    )
    rotor = jd.Inertia(0.3, (0, 0, 0), np.diag([1e-4, 2e-4, 1e-4]))
    spec.add_rotor("motor", "upper", {"fore": 9.0}, inertia=rotor, axis=(0, 1, 0))
    model = jd.embed(spec.build())
    state, tau = jd.State(model.neutral(), [1.0, 2.0]), np.array([0.5, 0.2])
    solved = jax.jit(lambda m: jd.forward_dynamics(m, state, tau))
    stepped = jax.jit(lambda m: jd.simulate(m, state, tau[None], 1e-3))
    k, size = model.body_names.index("motor"), {"center_of_mass": 0.05, "rotational": 1e-5}[field]
    where = lambda m: getattr(m.bodies, field)  # noqa: E731
    change = lambda m, share=1.0: eqx.tree_at(where, m, where(m).at[k, ..., 0].add(share * size))  # noqa: E731
    for same in (model, change(model, 1e-9)):
        assert solved(same).result == jd.Result.successful
        assert (stepped(same).result == jd.Result.successful).all()
    assert solved(change(model)).result == jd.Result.asymmetric_rotor
    assert (stepped(change(model)).result == jd.Result.asymmetric_rotor).all()
    assert jax.jit(lambda m: jd.impulse(m, state, tau))(change(model)).result == jd.Result.asymmetric_rotor
    found = solved(change(model.without_rotors()))
    assert found.result == jd.Result.successful
    back = jd.inverse_dynamics(change(model), state, found.acceleration)
    np.testing.assert_allclose(back, tau, rtol=0, atol=1e-10)
