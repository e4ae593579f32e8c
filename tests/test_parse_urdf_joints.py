"""URDF: springs, damping, friction and limits of joints; numbers that cannot act are told."""

import numpy as np
import pytest
from parse_help import arm, joint, link, urdf

import jaxdyn as jd
from jaxdyn.loaders.load import load

# a file that is in order loads without a word; tests that expect words catch them
pytestmark = pytest.mark.filterwarnings("error::jaxdyn.ModelWarning")

STIFF, SLACK = "<springStiffness>7</springStiffness>", "<springReference>0.3</springReference>"


def blocks(*contents, of="j1"):
    """A `<gazebo>` for each text, all about one joint."""
    return "".join(f'<gazebo reference="{of}">{x}</gazebo>' for x in contents)


@pytest.mark.parametrize("parts", [(STIFF, SLACK), (SLACK, STIFF), (STIFF, "<mu1>1</mu1>", SLACK)])
def test_a_spring_may_stand_in_several_blocks(parts):
    joints = load(arm(blocks(*parts))).joints
    np.testing.assert_array_equal((joints.stiffness, joints.rest), ([7, 0], [0.3, 0]))


def test_a_second_spring_is_refused():
    for parts in ((STIFF, STIFF), (STIFF + STIFF,)):
        with pytest.raises(ValueError, match="line.*<springStiffness>.*'j1' has one already, in line"):
            load(arm(blocks(*parts)))


@pytest.mark.parametrize("kind", ["planar", "floating", "fixed"])
def test_springs_that_no_joint_can_have_are_told(kind):
    text = arm(link("l3"), joint("j3", "l2", "l3", kind), blocks(STIFF, SLACK, of="j3"))
    with pytest.warns(jd.ModelWarning, match="springs of <gazebo>.*left out: 'j3' has no single velocity"):
        model = load(text)
    assert not model.joints.stiffness.any()
    load(text.replace(">7<", ">0<"))


def test_springs_of_no_joint_are_told():
    text = arm(blocks(STIFF, of="j9"), f"<gazebo>{STIFF}</gazebo>", blocks(STIFF, of="l1"))
    with pytest.warns(jd.ModelWarning, match="left out: there is no joint 'j9', .* ''.* 'l1'"):
        model = load(text)
    assert not model.joints.stiffness.any()
    load(text.replace(">7<", ">0<"))


def test_damping_and_friction_of_a_floating_joint_act_on_all_its_velocities():
    """As MuJoCo has it for its free joints, also when it reads a URDF."""
    fly = joint("fly", "base", "a", "floating", inner='<dynamics damping="0.5" friction="0.2"/>')
    joints = load(urdf('<link name="base"/>', link("a"), fly)).joints
    np.testing.assert_array_equal((joints.damping, joints.friction), ([0.5] * 6, [0.2] * 6))


@pytest.mark.parametrize("kind", ["continuous", "planar", "floating"])
def test_numbers_of_dynamics_that_are_not_read_are_told(kind):
    dynamics = '<dynamics damping="2" K="7000" D="{0}" mu_viscous="{0}" mu_coulomb="16"/>'
    text = urdf('<link name="base"/>', link("a"), joint("j1", "base", "a", kind, inner=dynamics))
    with pytest.warns(jd.ModelWarning, match=r"<dynamics>.*not read: 'j1' \(K, mu_coulomb\)"):
        model = load(text.format(0))
    assert (np.array(model.joints.damping) == 2).all() and not model.joints.friction.any()
    load(text.format(0).replace("7000", "0.0").replace("16", "0"))
    with pytest.raises(ValueError, match="<dynamics> of <joint name='j1'>.*`D`.*'stiff'"):
        load(text.format("stiff"))


@pytest.mark.parametrize("kind", ["planar", "floating"])
def test_limits_of_joints_that_have_no_single_coordinate_are_told(kind):
    """URDF gives ends to revolute and prismatic joints; an effort would be a force and a torque at once."""
    limit = '<limit lower="-0.1" upper="0.1" effort="2" velocity="1"/>'
    text = urdf('<link name="base"/>', link("a"), joint("j1", "base", "a", kind, inner=limit))
    with pytest.warns(jd.ModelWarning, match=r"<limit>.*not kept: 'j1' \(lower, upper, effort\)"):
        joints = load(text).joints
    assert all(np.isinf(x).all() for x in (joints.lower, joints.upper, joints.effort))
    load(text.replace(limit, '<limit velocity="1"/>'))
    with pytest.raises(ValueError, match="<limit> of <joint name='j1'>.*'far'"):
        load(text.replace('upper="0.1"', 'upper="far"'))


def test_an_effort_of_zero_is_none():
    """Files give it where nobody knows the motor: forces of actuators are not bounded by it."""
    text = urdf('<link name="base"/>', link("a"), joint("j1", "base", "a")).replace("30", "{}")
    with pytest.warns(jd.ModelWarning, match="`effort` of zero, taken as unlimited: 'j1'"):
        model = load(text.format(0))
    state = jd.State(model.neutral(), np.zeros(1))
    assert jd.actuator_forces(model, state, [3.0]) == 3
    assert jd.actuator_forces(load(text.format(2)), state, [3.0]) == 2


def test_an_effort_of_minus_one_is_none():
    text = urdf('<link name="base"/>', link("a"), joint("j1", "base", "a")).replace("30", "-1")
    with pytest.warns(jd.ModelWarning, match="`effort` of -1, taken as unlimited: 'j1'"):
        model = load(text)
    assert np.isinf(model.joints.effort).all()


@pytest.mark.parametrize("kind", ["spherical", "ball"])
def test_ball_joints_of_bullet_and_drake(kind):
    text = urdf('<link name="base"/>', link("a"), joint("j1", "base", "a", kind, inner='<dynamics damping="2"/>'))
    model = load(text)
    assert model.topology.kinds[0].name == "Spherical" and model.nv == 3
    np.testing.assert_array_equal(model.joints.damping, 2)


def test_a_world_that_is_no_link():
    """Drake's files tie their robots to a world that they do not list."""
    text = urdf(link("a"), joint("j1", "world", "a"))
    model, known = load(text), load(text.replace("<link", '<link name="world"/><link', 1))
    assert model.body_names == known.body_names == ("a",)
    q = np.array([0.3])
    np.testing.assert_array_equal(jd.mass_matrix(model, q), jd.mass_matrix(known, q))


def test_rotors_of_drake_are_armature():
    motor = """<transmission name="t{0}"><joint name="j{0}"/><actuator name="m{0}">
      <mechanicalReduction>1</mechanicalReduction><drake:gear_ratio value="100"/>
      <drake:rotor_inertia value="{1}"/></actuator></transmission>"""
    base, parts = '<link name="base"/>', (link("a"), link("b"), joint("j1", "base", "a"), joint("j2", "a", "b"))
    model = load(urdf(base, *parts, motor.format(1, 2e-5), motor.format(2, 1e-5)))
    np.testing.assert_allclose(model.joints.armature, [0.2, 0.1])
    np.testing.assert_array_equal(model.actuation, np.eye(2))
    with pytest.raises(ValueError, match="<rotor_inertia> of <actuator name='m1'>: `value` is negative: -1"):
        load(urdf(base, *parts, motor.format(1, -1)))
    told = pytest.warns(jd.ModelWarning, match="rotors that turn with no joint of one velocity, left out: 'm3'")
    with told, pytest.warns(jd.ModelWarning, match="what drives nothing: there is no joint 'j3'"):
        load(urdf(base, *parts, motor.format(3, 1e-5)))
