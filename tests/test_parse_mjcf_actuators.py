"""Actuators of MJCF: their laws, and those of MuJoCo 4, which may have several controls or forces."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from parse_help import mujoco_mass_matrix, quiet

import jaxdyn as jd
from jaxdyn.loaders.mjcf_tree import Tree

mujoco = pytest.importorskip("mujoco")

TEXT = """<mujoco><worldbody>
<body><joint name="x" axis="0 1 0"/><geom size=".1"/></body>
<body pos="1 0 0"><joint name="s" type="ball"/><geom size=".1"/></body>
<body pos="2 0 0"><joint name="a" axis="0 1 0"/><geom size=".1"/></body>
<body pos="3 0 0"><joint name="b" axis="0 1 0"/><geom size=".1"/></body></worldbody>
<tendon><fixed name="t"><joint joint="a" coef=".3"/></fixed></tendon><actuator>{}
<motor name="A" joint="a" gear="5" ctrlrange="-1 1"/>
<motor name="B" joint="b" gear="70" ctrlrange="-2 2"/>
<motor name="T" tendon="t" gear="4"/></actuator></mujoco>"""
#: what comes before the motors
FIRST = {
    "nothing": "",
    "two controls": '<pid name="P" joint="x" kp="3" kv="1" input="pos vel" posrange="-9 9" velrange="-8 8"/>',
    "three forces": '<orientation name="P" joint="s" kp="3" kv="1" input="expmap"/>',
}


def both(first: str, **replaced: str):
    """The model here and MuJoCo's."""
    text = TEXT.format(FIRST[first])
    for old, new in replaced.items():
        text = text.replace(f'name="{old}"', f'name="{old}" {new}')
    try:
        return quiet(text), mujoco.MjModel.from_xml_string(text)
    except ValueError:
        if first == "nothing":
            raise
        pytest.skip("this MuJoCo does not have it")


@pytest.mark.parametrize("first", FIRST)
def test_gears_and_ranges_are_those_of_each_motor(first):
    model, mj = both(first)
    data = mujoco.MjData(mj)
    data.ctrl[-3:] = 0.5, 0.7, 0.9
    mujoco.mj_forward(mj, data)
    columns = [model.actuator_names.index(name) for name in "ABT"]
    forces = np.array(model.actuation)[:, columns] @ data.ctrl[-3:]
    np.testing.assert_allclose(forces[-2:], data.qfrc_actuator[-2:], rtol=1e-12)
    # joint "a" has two actuators, so that its range is no effort of the joint
    np.testing.assert_allclose(np.array(model.joints.effort)[-2:], (np.inf, 140))


@pytest.mark.parametrize("first", FIRST)
def test_the_gear_scales_what_a_motor_adds_to_its_joint(first):
    if not hasattr(mujoco.MjModel, "actuator_armature"):
        pytest.skip("this MuJoCo does not have it")
    model, mj = both(first, A='armature=".2" damping=".5"')
    data = mujoco.MjData(mj)
    mujoco.mj_forward(mj, data)
    at = model.v_slice("a")
    assert model.joints.armature[at] == 0.2 * 25 and model.joints.damping[at] == 0.5 * 25
    own = model.bodies.rotational[model.body_names.index("body3"), 1, 1]
    np.testing.assert_allclose(own + model.joints.armature[at], mujoco_mass_matrix(mj, data)[at, at][0], rtol=1e-9)


def test_before_mujoco_4_rows_are_actuators():
    """There an actuator had one control and one force, and no address of them."""
    old = SimpleNamespace(nu=2, actuator_gear=np.array([[3.0] * 6, [5.0] * 6]))
    tree = Tree(old, [], [], [], *(np.zeros(0) for _ in range(3)), {}, set())
    assert tree.gear(1)[0] == 5 and tree.control(1) == 1


ARM = """<mujoco><compiler autolimits="true"/><worldbody>
<body><joint name="a" axis="0 1 0" damping=".1"/><geom size=".1"/>
<body pos="1 0 0"><joint name="b" axis="0 0 1" ref="40"/><geom size=".1"/>
<body pos="1 0 0"><joint name="c" type="slide" axis="1 0 0" ref=".3"/><geom size=".1"/></body></body></body>
<body pos="0 3 0"><joint name="s" type="ball"/><geom size=".1"/></body></worldbody>
<tendon><fixed name="t"><joint joint="a" coef=".3"/><joint joint="c" coef="-2"/></fixed></tendon>
<actuator>{}</actuator></mujoco>"""
SERVOS = {
    "position": '<position joint="b" kp="30"/>',
    "gear and damper": '<position joint="b" kp="30" kv="2" gear="-3"/>',
    "damping ratio": '<position joint="b" kp="30" dampratio="1"/>',
    "ranges": '<position joint="b" kp="30" kv="2" ctrlrange="-.2 .5" forcerange="-4 9"/>',
    "velocity": '<velocity joint="c" kv="7" ctrlrange="-1 1"/>',
    "affine": '<general joint="c" gainprm="-3" biastype="affine" biasprm="2 -5 -.4" gear="2" forcerange="-8 5"/>',
    "tendon": '<position tendon="t" kp="20" kv="1" gear="1.5"/>',
    "ball": '<velocity joint="s" kv="3" gear="1 2 .5"/>',
    "without gain": '<general joint="a" gainprm="0"/><motor joint="b"/>',
    "several": '<position joint="b" kp="30"/><motor joint="b" gear="9"/><velocity joint="a" kv="2"/>',
}


@pytest.mark.parametrize("what", SERVOS)
def test_servos_exert_the_forces_of_mujoco(what):
    text = ARM.format(SERVOS[what])
    model, mj = jd.load(text), mujoco.MjModel.from_xml_string(text)
    data, rng = mujoco.MjData(mj), np.random.default_rng(7)
    for scale in (0.1, 1.0, 10.0):
        state = model.random_state(jax.random.key(int(scale)))
        data.qpos[:], data.qvel[:] = state.q, state.v
        data.ctrl[:] = scale * rng.normal(size=mj.nu)
        mujoco.mj_forward(mj, data)
        ours = jd.actuator_forces(model, state, data.ctrl)
        np.testing.assert_allclose(ours, data.qfrc_actuator, rtol=1e-12, atol=1e-12)
        assert np.abs(ours).max() > 1e-2


@pytest.mark.parametrize(
    "law",
    [
        '<intvelocity name="x" joint="a" kp="3" actrange="-1 1"/>',
        '<damper name="x" joint="a" kv="3" ctrlrange="0 1"/>',
        '<muscle name="x" joint="a" lengthrange="-1 1"/>',
        '<position name="x" joint="a" kp="3" timeconst=".1"/>',
        '<position name="x" joint="s" kp="3" gear="1 0 0"/>',
        '<general name="x" joint="a" biastype="affine" biasprm="0 2 0"/>',
    ],
)
def test_laws_that_are_not_modelled_are_told(law):
    with pytest.warns(jd.ModelWarning, match="a law that is not modelled, whose commands are forces here: 'x'"):
        model = jd.load(ARM.format(law))
    assert model.actuators.gain == 1 and model.actuators.stiffness == 0 and model.actuators.lower_command == -np.inf
