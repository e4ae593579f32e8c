"""Numbers that no robot has are refused with their place: endless, beyond float32, negative."""

import numpy as np
import pytest
from parse_help import arm, joint, link, quiet, urdf
from test_parse_bad_input import body, pin, refused, sdf

import jaxdyn as jd


def one(inner="", mass=1.0, extra="", axis="0 1 0"):
    return urdf(link("base"), link("a", mass=mass), joint("j", "base", "a", axis=axis, inner=inner), extra)


SPRING = '<gazebo reference="j"><springStiffness>-5</springStiffness></gazebo>'
HOSTILE = {
    "an axis whose length overflows": (one(axis="0 1e200 0"), "<axis> of <joint name='j'>.*'1e200'.*float32"),
    "a quaternion": (
        one().replace('rpy="0.1 0.2 0.3"', 'quat_xyzw="1e200 0 0 0"'),
        "<origin> of <joint name='j'>.*'1e200'.*float32",
    ),
    "a mass": (one(mass="1e39"), "<mass> of <link name='a'>.*'1e39'.*float32"),
    "a distance": (one().replace("0 0 0.3", "0 0 1e39"), "<origin> of <joint name='j'>.*'1e39'"),
    "digits of other scripts": (one(mass="١٢"), "<mass> of <link name='a'>.*not a finite number"),
    "negative damping": (one('<dynamics damping="-5"/>'), "line.*<joint name='j'>.*damping.*negative"),
    "a negative spring": (one(extra=SPRING), "line.*<joint name='j'>.*stiffness.*negative"),
    "a merged inertia": (
        urdf(
            link("base"),
            link("a", mass=1e20),
            link("b", mass=1e20, com=(1e12, 0, 0)),
            joint("j", "base", "a"),
            joint("k", "a", "b", "fixed"),
        ),
        "text: .*inertia of body 'a'.*float32",
    ),
    "a place of a frame": (
        urdf(
            *map(link, ("base", "a")),
            '<link name="b"/><link name="c"/>',
            joint("j", "base", "a"),
            joint("k", "a", "b", "fixed", xyz="3e38 3e38 3e38"),
            joint("l", "b", "c", "fixed", xyz="3e38 3e38 3e38"),
        ),
        "text: .*frame 'c'.*float32",
    ),
    "an endless lower limit": (
        one().replace('lower="-1"', 'lower="inf"').replace('upper="2"', 'upper="inf"'),
        "<joint name='j'>.*limits",
    ),
    "an axis of SDF": (sdf(body(), pin(inner="<axis><xyz>0 1e200 0</xyz></axis>")), "<xyz>.*'1e200'.*float32"),
    "damping of SDF": (
        sdf(body(), pin(inner="<axis><dynamics><damping>-3</damping></dynamics></axis>")),
        "<joint name='j'>.*damping.*negative",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_they_are_refused(case):
    refused(*HOSTILE[case])


MJCF = """<mujoco><worldbody><body name="b"><joint name="j" {}/><geom size=".1"/></body>
<body name="c"><joint name="k"/><geom size=".1"/></body></worldbody>{}</mujoco>"""
MUJOCOS = {
    "an anchor": (
        "",
        '<equality><connect name="e" body1="b" body2="c" anchor="nan 0 0"/></equality>',
        "<connect name='e'>.*'nan 0 0'",
    ),
    "a polynomial": (
        "",
        '<equality><joint name="e" joint1="j" joint2="k" polycoef="nan 1 0 0 0"/></equality>',
        "<joint name='e'>.*'nan 1 0 0 0'",
    ),
    "a gear": ("", '<actuator><motor name="m" joint="j" gear="nan"/></actuator>', "<motor name='m'>.*'nan'"),
    "an endless place": ('pos="0 0 inf"', "", "<joint name='j'>.*`pos` holds '0 0 inf'"),
    "an endless angle": ('ref="1e400"', "", "<joint name='j'>.*`ref` holds '1e400'"),
    "damping": ('damping="-1"', "", "damping.*negative"),
    "armature": ('armature="1e39"', "", "armature.*float32"),
}


@pytest.mark.parametrize("case", MUJOCOS)
def test_they_are_refused_in_mjcf(case):
    pytest.importorskip("mujoco")
    attributes, extra, words = MUJOCOS[case]
    refused(MJCF.format(attributes, extra), words)


def test_limits_may_be_endless():
    model = quiet(arm().replace('lower="-1" upper="2" effort="30"', 'lower="-inf" upper="1e308" effort="inf"'))
    assert model.joints.lower[0] == -np.inf and model.joints.upper[0] == 1e308 and model.joints.effort[0] == np.inf
    limit = "<limit><lower>-inf</lower><upper>1.79769e+308</upper><effort>inf</effort></limit>"
    model = quiet(sdf(body(), pin(inner=f"<axis><xyz>0 0 1</xyz>{limit}</axis>")))
    assert model.joints.lower[0] == -np.inf and model.joints.upper[0] == np.inf


def test_python_refuses_them_too():
    spec = jd.ModelSpec("robot")
    spec.add_body("a", "world", jd.joints.Revolute(axis=(0, 1e30, 0)), inertia=jd.Inertia(1.0, (0, 0, 1)))
    np.testing.assert_allclose(spec.bodies["a"].joint.axis, [0, 1, 0])
    for options in ({"damping": -1.0}, {"stiffness": -1.0}, {"armature": 1e39}, {"limits": (np.inf, np.inf)}):
        with pytest.raises(ValueError, match=next(iter(options))):
            spec.add_body("b", "a", jd.joints.Revolute(**options))
    with pytest.raises(ValueError, match="gravity.*float32"):
        jd.ModelSpec("robot", gravity=(0, 0, 1e39))
    with pytest.raises(ValueError, match="mass.*float32"):
        spec.add_body("b", "a", jd.joints.Revolute(), inertia=jd.Inertia(1e39))
