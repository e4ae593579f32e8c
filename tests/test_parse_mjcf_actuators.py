"""MJCF of MuJoCo 4, whose actuators have several controls or forces: the actuators after these keep their numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
from parse_help import mujoco_mass_matrix, quiet

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
