"""States of Pinocchio, MuJoCo and Brax and back."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import oracle
import pytest
from parse_help import arm, joint, link, quiet, urdf

import jaxdyn as jd
from jaxdyn import interop
from jaxdyn.loaders.load import load

pin = pytest.importorskip("pinocchio")
mujoco = pytest.importorskip("mujoco")

#: a branch that Pinocchio sorts before another, a continuous joint and a plane
MIXED = urdf(
    *map(link, ("base", "z", "a", "wheel", "sled")),
    joint("zz", "base", "z"),
    joint("aa", "base", "a", "prismatic"),
    joint("roll", "z", "wheel", "continuous", axis="0.6 0 0.8"),
    joint("skate", "base", "sled", "planar", axis="0 0 1"),
)


@pytest.fixture(params=[False, True], ids=["fixed", "floating"])
def pair(request):
    root = (pin.JointModelFreeFlyer(),) if request.param else ()
    return load(MIXED, floating=request.param or None), pin.buildModelFromXML(MIXED, *root)


def test_pinocchio_and_back(pair):
    model, other = pair
    state = model.random_state(jax.random.key(3))
    q, v = interop.to_pinocchio(model, other, state)
    assert q.shape == (other.nq,) and v.shape == (other.nv,)
    back = interop.from_pinocchio(model, other, q, v)
    np.testing.assert_allclose(back.q, state.q, atol=1e-14)
    np.testing.assert_allclose(back.v, state.v, atol=1e-14)
    assert not interop.from_pinocchio(model, other, q).v.any()


def test_pinocchios_dynamics(pair):
    model, other = pair
    assert tuple(other.names[-4:]) != model.joint_names[-4:]
    data = other.createData()
    state = model.random_state(jax.random.key(5))
    q, v = (np.array(x) for x in interop.to_pinocchio(model, other, state))
    M, h = pin.crba(other, data, q).copy(), pin.nle(other, data, q, v).copy()
    M = np.triu(M) + np.triu(M, 1).T
    T = np.array(jax.jacobian(lambda u: interop.to_pinocchio(model, other, jd.State(state.q, u))[1])(state.v))
    ours = np.array(state.q), np.array(state.v)
    np.testing.assert_allclose(oracle.mass_matrix(model, ours[0]), T.T @ M @ T, atol=1e-12)
    np.testing.assert_allclose(
        oracle.kinetic_energy(model, *ours), pin.computeKineticEnergy(other, data, q, v), rtol=1e-12
    )
    # but for the plane, whose axes turn, T is the permutation
    order = interop.pinocchio_velocity_order(model, other)
    keep = [k for k in range(model.nv) if not model.v_slice("skate").start <= k < model.v_slice("skate").stop]
    np.testing.assert_array_equal(T.T[keep][:, order[keep]], np.eye(len(keep)))
    assert h.shape == (model.nv,)


def test_pinocchios_order_permutes():
    model, other = load(arm(n=3)), pin.buildModelFromXML(arm(n=3))
    np.testing.assert_array_equal(interop.pinocchio_velocity_order(model, other), [0, 1, 2])
    names = list(other.names)
    mixed, mixed_pin = load(MIXED), pin.buildModelFromXML(MIXED)
    order = interop.pinocchio_velocity_order(mixed, mixed_pin)
    assert sorted(order) == list(range(mixed.nv)) and names[0] == "universe"
    assert order[mixed.v_slice("zz")][0] == mixed_pin.joints[mixed_pin.getJointId("zz")].idx_v


def test_wrong_states_are_told(pair):
    """JAX would take what lies beyond the end of a short q from its last number."""
    model, other = pair
    state = model.random_state(jax.random.key(3))
    q, v = interop.to_pinocchio(model, other, state)
    for wrong in (q[:-1], q[None], q[:, None], [], "q"):
        with pytest.raises((TypeError, ValueError), match="^`from_pinocchio`: `q` "):
            interop.from_pinocchio(model, other, wrong)
    with pytest.raises(ValueError, match="^`from_pinocchio`: `v` has shape"):
        interop.from_pinocchio(model, other, q, v[:-1])
    with pytest.raises(ValueError, match="^`to_pinocchio`: `state.q` has shape"):
        interop.to_pinocchio(model, other, jd.State(state.q[:-1], state.v))
    with pytest.raises(TypeError, match="^`to_pinocchio`: `state` is tuple"):
        interop.to_pinocchio(model, other, (state.q, state.v))
    with pytest.raises(TypeError, match="^`to_pinocchio`: `pin_model` is Model, not a `pinocchio.Model`"):
        interop.to_pinocchio(model, model, state)
    with pytest.raises(TypeError, match="^`pinocchio_velocity_order`: `model` is str"):
        interop.pinocchio_velocity_order("robot", other)
    there = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><joint name='hinge'/><geom size='1'/></body></worldbody></mujoco>"
    )
    ours = jd.ModelSpec().add_body("l", "world", jd.joints.Revolute("hinge"), inertia=jd.Inertia.box(1, (1, 1, 1)))
    for wrong in ([], np.zeros(2), np.zeros((1, 1))):
        with pytest.raises(ValueError, match="^`from_mujoco`: `qpos` has shape"):
            interop.from_mujoco(ours.build(), there, wrong)
    ball = jd.joints.Spherical("hinge")
    other_kind = jd.ModelSpec().add_body("l", "world", ball, inertia=jd.Inertia.box(1, (1, 1, 1)))
    with pytest.raises(ValueError, match="^`from_mujoco`: joint 'hinge' has 3 velocities here .* and 1 in MuJoCo"):
        interop.from_mujoco(other_kind.build(), there, [0.0])


@pytest.mark.parametrize("types", [(np.float32, np.float64), (np.float64, np.float32)])
def test_of_two_precisions_the_wider_is_taken(types):
    """Also where they are traced."""
    there = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>"
    )
    ours = jd.ModelSpec().add_body("l", "world", jd.joints.Free(), inertia=jd.Inertia.box(1, (1, 1, 1))).build()
    q, v = (np.asarray(x, t) for x, t in zip(([1, 2, 3, 0.6, 0, 0.8, 0], np.arange(6)), types, strict=True))
    state = jax.jit(lambda q, v: interop.from_mujoco(ours, there, q, v))(q, v)
    back = jax.jit(lambda q, v: interop.to_mujoco(ours, there, jd.State(q, v)))(state.q.astype(types[0]), state.v)
    assert all(x.dtype == np.float64 for x in (*jax.tree.leaves(state), *back))
    np.testing.assert_allclose(back[1], v, atol=1e-6)


def test_conversions_may_be_traced(pair):
    model, other = pair
    states = jax.vmap(model.random_state)(jax.random.split(jax.random.key(0), 4))
    there = jax.jit(jax.vmap(lambda s: interop.to_pinocchio(model, other, s)))(states)
    back = jax.vmap(lambda q, v: interop.from_pinocchio(model, other, q, v))(*there)
    np.testing.assert_allclose(back.q, states.q, atol=1e-14)


def test_a_joint_that_pinocchio_has_not():
    with pytest.raises(ValueError, match="'j3'"):
        interop.pinocchio_velocity_order(load(arm(n=3)), pin.buildModelFromXML(arm(n=2)))
    ball = (
        jd.ModelSpec().add_body("l1", "world", jd.joints.Spherical("j1"), inertia=jd.Inertia(1.0, (0, 0, 1.0))).build()
    )
    with pytest.raises(ValueError, match="'j1' has 3 velocities here.*1 in"):
        interop.pinocchio_velocity_order(ball, pin.buildModelFromXML(arm(n=1)))


XML = """<mujoco><worldbody><body name="base"><freejoint/><geom size=".1" mass="1"/>
<body name="a"><joint name="ja" axis="0 1 0"/><joint name="jb" axis="1 0 0"/><geom size=".1" mass="1"/></body>
<body name="c"><joint name="jc" type="ball"/><geom size=".1" mass="1"/></body></body></worldbody></mujoco>"""


class AfloatKind(type(jd.joints.Free().kind)):
    """A kind whose coordinates nobody knows outside of this file."""


class Afloat(jd.joints.Free):
    kind = AfloatKind()


def test_a_joint_of_your_own_is_not_taken_for_a_free_one():
    spec = jd.ModelSpec("own")
    spec.add_body("base", "world", Afloat(name="base"), inertia=jd.Inertia(1.0, (0, 0, 0), np.eye(3)))
    model, there = spec.build(), pin.Model()
    there.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "base")
    body = '<body><freejoint name="base"/><geom size="1"/></body>'
    other = mujoco.MjModel.from_xml_string(f"<mujoco><worldbody>{body}</worldbody></mujoco>")
    with pytest.raises(ValueError, match=r"`from_pinocchio`: joint 'base' has other coordinates .*\(Afloat\)"):
        interop.from_pinocchio(model, there, np.zeros(7))
    with pytest.raises(ValueError, match=r"`to_mujoco`: joint 'base' has other coordinates .*\(Afloat\)"):
        interop.to_mujoco(model, other, jd.State(model.neutral(), jnp.zeros(6)))


def test_mujoco_and_back():
    model, other = quiet(XML), mujoco.MjModel.from_xml_string(XML)
    state = model.random_state(jax.random.key(1))
    qpos, qvel = interop.to_mujoco(model, other, state)
    np.testing.assert_allclose(qpos, state.q, atol=1e-15)
    back = interop.from_mujoco(model, other, qpos, qvel)
    np.testing.assert_allclose(back.v, state.v, atol=1e-14)
    np.testing.assert_array_equal(interop.mujoco_velocity_order(model, other), np.arange(model.nv))
    # MuJoCo moves the base along the world's axes
    data = mujoco.MjData(other)
    data.qpos[:], data.qvel[:] = np.array(qpos), np.array(qvel)
    mujoco.mj_forward(other, data)
    R = oracle.poses(model, np.array(state.q))[0][0]
    np.testing.assert_allclose(qvel[:3], R @ np.array(state.v[:3]), atol=1e-14)
    np.testing.assert_allclose(qvel[3:], state.v[3:], atol=1e-15)


@pytest.mark.parametrize("length", [0, 0.5, 2])
def test_mujocos_quaternions_may_have_any_length(length):
    model, other = quiet(XML), mujoco.MjModel.from_xml_string(XML)
    data, turns = mujoco.MjData(other), np.array([0.5, -0.5, 0.1, 0.7])
    turns *= length / np.linalg.norm(turns)
    data.qpos[:] = [1, 2, 3, *turns, 0.1, 0.2, *turns]
    data.qvel[:] = np.arange(other.nv)
    mujoco.mj_forward(other, data)
    state = interop.from_mujoco(model, other, data.qpos, data.qvel)
    poses = jd.forward_kinematics(model, state.q)
    at = [model.body_names.index(n) for n in ("base", "a", "c")]
    np.testing.assert_allclose(poses.rotation[np.array(at)], data.xmat[1:].reshape(-1, 3, 3), atol=1e-14)
    unit = data.qpos.copy()
    mujoco.mj_normalizeQuat(other, unit)
    np.testing.assert_allclose(interop.to_mujoco(model, other, state)[0], unit, atol=1e-14)
    np.testing.assert_allclose(interop.to_mujoco(model, other, state)[1], data.qvel, atol=1e-14)


def test_mujoco_models_of_the_same_urdf():
    text = arm(n=3)
    model, other = load(text), mujoco.MjModel.from_xml_string(text)
    state = interop.from_mujoco(model, other, np.array([0.1, 0.2, 0.3]), np.array([1.0, 2, 3]))
    np.testing.assert_allclose(state.q, [0.1, 0.2, 0.3])
    with pytest.raises(ValueError, match="'j3'"):
        interop.from_mujoco(model, mujoco.MjModel.from_xml_string(arm(n=2)), np.zeros(2))


def test_brax_and_back():
    model = quiet(XML)
    # what Brax's System holds of the links, declared in another order
    system = SimpleNamespace(link_names=["base", "a"], link_types="f2")
    small = jd.ModelSpec()
    small.add_body("base", "world", jd.joints.Free("root"), inertia=jd.Inertia(1.0, rotational=jnp.eye(3)))
    small.add_body("a_ja", "base", jd.joints.Revolute("ja"))
    small.add_body("a", "a_ja", jd.joints.Revolute("jb"), inertia=jd.Inertia(1.0, rotational=jnp.eye(3)))
    small = small.build()
    state = small.random_state(jax.random.key(2))
    q, qd = interop.to_brax(small, system, state)
    np.testing.assert_allclose(q, state.q, atol=1e-15)
    R = oracle.poses(small, np.array(state.q))[0][0]
    np.testing.assert_allclose(qd[:3], R @ np.array(state.v[:3]), atol=1e-14)
    back = interop.from_brax(small, system, q, qd)
    np.testing.assert_allclose(back.v, state.v, atol=1e-14)
    with pytest.raises(ValueError, match="joint 'jc'"):
        interop.from_brax(model, system, np.zeros(9))
    with pytest.raises(ValueError, match="'b'"):
        interop.from_brax(model, SimpleNamespace(link_names=["b"], link_types="1"), np.zeros(1))
    with pytest.raises(ValueError, match="'a' has 3 freedoms in Brax"):
        interop.from_brax(small, SimpleNamespace(link_names=["base", "a"], link_types="f3"), np.zeros(9))


NOTHING = '<mujoco><worldbody><geom size=".1"/></worldbody></mujoco>'
STILL = {
    "from_mujoco": lambda: mujoco.MjModel.from_xml_string(NOTHING),
    "from_pinocchio": pin.Model,
    "from_brax": lambda: SimpleNamespace(link_names=[], link_types=""),
}


@pytest.mark.parametrize("call", STILL)
def test_a_model_without_joints_has_an_empty_state(call):
    model, there, convert = jd.ModelSpec("still").build(), STILL[call](), getattr(interop, call)
    for state in (convert(model, there, np.zeros(0)), jax.jit(lambda q: convert(model, there, q, q))(jnp.zeros(0))):
        assert state.q.shape == state.v.shape == (0,) and state.q.dtype == state.v.dtype == np.float64
        back = getattr(interop, call.replace("from", "to"))(model, there, state)
        assert [x.shape for x in back] == [(0,), (0,)]


def test_brax_orders_links_as_it_likes():
    spec = jd.ModelSpec()
    for n in "ab":
        spec.add_body(n, "world", jd.joints.Revolute(f"j{n}"), inertia=jd.Inertia(1.0, (0, 0, 1.0)))
    state = interop.from_brax(
        spec.build(), SimpleNamespace(link_names=["b", "a"], link_types="11"), np.array([1.0, 2.0])
    )
    np.testing.assert_allclose(state.q, [2, 1])
