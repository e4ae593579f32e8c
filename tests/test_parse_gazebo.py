"""What Gazebo's elements say about the motion and is not modelled is told, in URDF and SDF."""

import warnings

import numpy as np
import pytest
import test_parse_sdf as sdf
from parse_help import arm

import jaxdyn as jd
from jaxdyn.loaders.load import load

BALL = '<collision name="c"><geometry><sphere radius="0.1"/></geometry></collision>'
SURFACE = (
    '<collision name="c"><geometry><sphere><radius>0.1</radius></sphere></geometry><surface><friction><ode>{}</ode>'
    "</friction></surface></collision>"
)


def urdf(block: str = "", contact: str = "") -> str:
    return arm(block).replace('<link name="l1">', f'<link name="l1">{BALL}{contact}', 1)


def ball(inner: str) -> str:
    return sdf.sdf(sdf.link("a", inner=SURFACE.format(inner)))


TOLD = {
    "gravity": (urdf('<gazebo reference="l1"><turnGravityOff>true</turnGravityOff></gazebo>'), "turns off.*: 'l1'"),
    "gravity as a value": (urdf('<gazebo reference="l1"><turnGravityOff value="true"/></gazebo>'), "turns off.*: 'l1'"),
    "gravity of SDF": (urdf('<gazebo reference="l1"><gravity>0</gravity></gazebo>'), "turns off.*: 'l1'"),
    "static": (urdf("<gazebo><static>true</static></gazebo>"), "makes <static>.*: 'robot'.*`floating=False`"),
    "damping": (urdf('<gazebo reference="l1"><dampingFactor>0.2</dampingFactor></gazebo>'), "damps.*: 'l1'"),
    "decay": (
        urdf(
            '<gazebo reference="l1"><velocity_decay><linear>0</linear><angular>.1</angular></velocity_decay></gazebo>'
        ),
        "damps.*: 'l1'",
    ),
    "mu2": (urdf('<gazebo reference="l1"><mu1>.5</mu1><mu2>.6</mu2></gazebo>'), r"direction.*: 'l1' \(mu2\)"),
    "slip": (urdf('<gazebo reference="l1"><slip1>.5</slip1></gazebo>'), r"direction.*: 'l1' \(slip1\)"),
    "rolling": (urdf(contact='<contact><rolling_friction value=".1"/></contact>'), "rolling friction of links.*'l1'"),
    "mu2 of SDF": (ball("<mu>.5</mu><mu2>.6</mu2>"), r"direction.*: 'c' \(mu2\)"),
    "slip of SDF": (ball("<mu>.5</mu><slip2>.6</slip2>"), r"direction.*: 'c' \(slip2\)"),
}
SILENT = {
    "equal coefficients": urdf('<gazebo reference="l1"><mu1>.5</mu1><mu2>0.5</mu2><slip1>0</slip1></gazebo>'),
    "nothing off": urdf('<gazebo reference="l1"><turnGravityOff>false</turnGravityOff><gravity>1</gravity></gazebo>'),
    "a world's gravity": urdf("<gazebo><gravity>0 0 -9.81</gravity></gazebo>"),
    "not static": urdf("<gazebo><static>false</static></gazebo>"),
    "not damped": urdf(
        '<gazebo reference="l1"><dampingFactor value="0"/><velocity_decay><linear>0</linear></velocity_decay></gazebo>'
    ),
    "no rolling": urdf(contact='<contact><rolling_friction value="0"/></contact>'),
    "equal coefficients of SDF": ball("<mu>.5</mu><mu2>.5</mu2><fdir1>1 0 0</fdir1>"),
}


@pytest.mark.parametrize("case", TOLD)
def test_what_acts_is_told(case):
    text, words = TOLD[case]
    with pytest.warns(jd.ModelWarning, match=words):
        load(text)


@pytest.mark.parametrize("case", SILENT)
def test_what_does_not_act_is_not(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(SILENT[case])


@pytest.mark.parametrize(("version", "height"), [("1.5", -1), ("1.6", -9.8), ("1.9", -9.8)])
def test_gravity_in_physics_is_told_where_it_is_not_read(version, height, recwarn):
    physics = '<physics type="ode"><gravity>0 0 -1</gravity></physics>'
    text = f'<sdf version="{version}"><world name="w">{physics}<model name="m">{sdf.link("a")}</model></world></sdf>'
    np.testing.assert_allclose(load(text).gravity, [0, 0, height], rtol=1e-6)
    told = [str(w.message) for w in recwarn.list]
    assert len(told) == (height != -1) and all("<gravity> in <physics>, line 1" in t for t in told)
