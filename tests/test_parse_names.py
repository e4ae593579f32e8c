"""Names that a format does not have are told with the nearest one that it has, and never dropped in silence."""

import warnings

import numpy as np
import pytest
from parse_help import ROBOTS, arm, joint, link, quiet, urdf
from test_parse_bad_input import body, pin, sdf

import jaxdyn as jd
from jaxdyn.loaders.load import load

MIMIC = urdf(
    *map(link, "abc"),
    joint("j", "a", "b"),
    joint("k", "b", "c", inner='<mimic joint="j" multiplyer="3"/>'),
)
SPRING = "<axis><dynamics><spring_stiffness>9</spring_stiffness></dynamics><limit><upper>1</upper></limit></axis>"

#: case: (the file, words of the warning)
TOLD = {
    "an attribute": (arm().replace("origin xyz", "origin xzy", 1), r"`xzy` of <origin>, line \d+ \(`xyz`\?\)"),
    "an element": (arm().replace("inertial>", "inertail>", 2), r"<inertail> in <link name='base'>.*\(<inertial>\?\)"),
    "capitals": (arm('<Loop name="c" type="fixed"/>'), r"<Loop> in <robot name='robot'>.*\(<loop>\?\)"),
    "a mimic": (MIMIC, r"`multiplyer` of <mimic>.*\(`multiplier`\?\)"),
    "a loop one level too deep": (
        arm().replace('<link name="l1">', '<link name="l1"><loop name="c"/>'),
        r"<loop> in <link name='l1'>.*\(it belongs into <robot>\)",
    ),
    "the other format": (
        arm().replace('<axis xyz="0 1 0"/>', '<axis xyz="0 1 0"><xyz>1 0 0</xyz></axis>', 1),
        "<xyz> in <axis>",
    ),
    "a text": (urdf(link("a"), link("b"), joint("j", "a", "b", inner="<dynamics>3</dynamics>")), "'3' in <dynamics>"),
    "a transmission": (
        arm(
            '<transmission name="t"><joint name="j1"/><actuator><mechanicalReducton>3</mechanicalReducton></actuator>'
            "</transmission>"
        ),
        r"<mechanicalReducton>.*\(<mechanicalReduction>\?\)",
    ),
    "a link of URDF without gravity": (
        urdf(link("a"), link("b", inner="<gravity>0</gravity>"), joint("j", "a", "b")),
        "not modelled: <gravity> in <link name='b'>",
    ),
    "an element of SDF": (sdf(body(), pin()).replace("mass>", "mas>"), r"<mas> in <inertial>.*\(<mass>\?\)"),
    "an attribute of SDF": (
        sdf(body(), pin(inner='<axis><xyz expressedin="a">0 0 1</xyz></axis>')),
        r"`expressedin` of <xyz>.*\(`expressed_in`\?\)",
    ),
    "a kinematic link": (sdf(body(inner="<kinematic>true</kinematic>"), pin()), "not modelled: <kinematic>"),
    "velocity decay": (
        sdf(body(inner="<velocity_decay><linear>5</linear></velocity_decay>"), pin()),
        "not modelled: <velocity_decay> in <link name='a'>",
    ),
    "one link without gravity": (
        sdf(body(inner="<gravity>0</gravity>"), body("b"), pin(), pin("k", "a", "b")),
        "<gravity> is off.*'a'",
    ),
    "the spring of a ball": (sdf(body(), pin(kind="ball", inner=SPRING)), r"ball joints.*'j' \(spring, limits\)"),
    "a second axis": (
        sdf(body(), pin(inner="<axis/><axis2><xyz>1 0 0</xyz></axis2>")),
        "<axis2> means nothing.*'j'",
    ),
}


@pytest.mark.parametrize("case", TOLD)
def test_they_are_told(case):
    text, words = TOLD[case]
    with pytest.warns(jd.ModelWarning, match=f"(?s){words}"):
        load(text)


QUIET = {
    "what says that it does nothing": sdf(
        body(inner="<kinematic>0</kinematic><velocity_decay><linear>0.0</linear></velocity_decay><gravity>1</gravity>"),
        pin(),
    ),
    "what does not act": sdf(
        body(inner="<sensor name='s'><anything/></sensor><self_collide>1</self_collide>"),
        pin(),
        "<plugin name='p' filename='f'><whatever/></plugin>",
    ),
    "Gazebo's": arm('<gazebo reference="j1"><whatever x="1"/></gazebo>'),
    "a foreign attribute": arm().replace("<robot ", '<robot xmlns:x="http://x" x:y="1" '),
}


@pytest.mark.parametrize("case", QUIET)
def test_known_names_are_silent(case):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(QUIET[case])


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("<mass ", "<masss ", "there is no <mass>.*<masss>"),
        ("mass value", "mass valeu", "`value`.*`valeu`"),
        ("axis xyz", "axis xzy", "<axis> of <joint name='j1'>.*`xyz`.*`xzy`"),
    ],
)
def test_errors_name_what_may_be_meant(old, new, words):
    with pytest.raises(ValueError, match=words):
        quiet(arm().replace(old, new, 1))


def test_many_unknown_names_are_one_warning():
    odd = "".join(f"<odd{k} x{k}='1'/>" for k in range(5000))
    with pytest.warns(jd.ModelWarning) as told:
        load(arm().replace("</robot>", odd + "</robot>"))
    (only,) = told
    assert "<odd11>" in str(only.message) and "and 4988 more" in str(only.message)


@pytest.mark.slow
def test_real_robots_have_no_unknown_names():
    for file in (*ROBOTS.rglob("*.urdf"), *ROBOTS.rglob("*.sdf")):
        if file.name == "ur3.urdf":  # holds no link
            continue
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            load(file)
        odd = [str(w.message) for w in told if "does not have" in str(w.message) or "not modelled" in str(w.message)]
        assert not odd, odd


def test_gravity_of_a_link_of_all_links():
    """If all links say so, gravity is off exactly."""
    off = "<gravity>false</gravity>"
    assert not np.any(quiet(sdf(body(inner=off), body("b", off), pin(), pin("k", "a", "b"))).gravity)
    assert np.any(quiet(sdf(body(inner=off), body("b"), pin(), pin("k", "a", "b"))).gravity)


def test_gravity_of_old_versions():
    """It stands in the engine before version 1.6: the default one, or the first."""

    def world(version, *physics):
        inner = "".join(f"<physics {a}><gravity>0 0 {g}</gravity></physics>" for a, g in physics)
        return f'<sdf version="{version}"><world name="w">{inner}<model name="m">{body()}{pin()}</model></world></sdf>'

    assert quiet(world("1.4", ("", -1))).gravity[2] == -1
    assert quiet(world("1.5", ("", -1), ('default="true"', -2))).gravity[2] == -2
    assert quiet(world("1.7", ("", -1))).gravity[2] == -9.8
