"""MJCF: warnings about what MuJoCo models and jaxdyn does not; nothing of it is dropped silently."""

import warnings

import pytest

import jaxdyn as jd
from jaxdyn.loaders.load import load

mujoco = pytest.importorskip("mujoco")

TEXT = """<mujoco>{option}<worldbody><geom name="floor" type="plane" size="1 1 1"/>
<body name="b" pos="0 0 1"><freejoint/>{free}<geom name="g" size=".1" {geom}/>
<body name="c"><joint name="j" {joint}/><geom size=".1"/></body></body></worldbody>
<tendon><fixed name="t" {tendon}><joint joint="j" coef="1"/></fixed></tendon>
<contact><pair geom1="g" geom2="floor" {pair}/></contact>
<actuator><motor name="m" joint="j" {motor}/></actuator></mujoco>"""
PLACES = ("option", "free", "geom", "joint", "tendon", "pair", "motor")
#: what may be in the file, its place, and the words of its warning
UNMODELLED = {
    "tendon stiffness": ("tendon", 'stiffness="0 1"', "tendons whose forces are not modelled: 't' (stiffness)"),
    "tendon damping": ("tendon", 'damping="0 1"', "tendons whose forces are not modelled: 't' (damping)"),
    "tendon force": (
        "tendon",
        'actuatorfrcrange="-1 1"',
        "tendons whose forces are not modelled: 't' (actuatorfrcrange)",
    ),
    "motor damping": ("motor", 'damping="0 .2 .3"', "actuators whose damping is not linear, taken as linear: 'm'"),
    "motor delay": ("motor", 'delay=".1" nsample="10"', "actuators with a delay, which act at once: 'm'"),
    "margin": ("joint", 'range="-1 1" margin=".1"', "margins of joint limits, which are not kept: 'j'"),
    "belt": ("geom", 'surfacevel="1 0 0"', "`surfacevel` of geoms, which is not modelled: 'g'"),
    "glue": ("geom", 'adhesion="1"', "`adhesion` of geoms, which is not modelled: 'g'"),
    "glue of a pair": ("pair", 'adhesion="1"', "`adhesion` of pairs, which is not modelled: floor and g"),
    "override": ("option", '<option><flag override="enable"/></option>', "which a <flag> enables, are not kept"),
}


def filled(**parts: str) -> str:
    return TEXT.format(**({place: "" for place in PLACES} | parts))


def test_a_plain_file_gives_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(filled(), collision="all")


@pytest.mark.parametrize("case", UNMODELLED)
def test_what_is_not_modelled_is_told(case):
    place, told, words = UNMODELLED[case]
    text = filled(**{place: told})
    try:
        mujoco.MjModel.from_xml_string(text)
    except ValueError:
        pytest.skip("this MuJoCo does not have it")
    with pytest.warns(jd.ModelWarning) as found:
        load(text, collision="all")
    assert any(words in str(w.message) for w in found)


@pytest.mark.parametrize(
    "attribute, words",
    [
        ("armature", "armature of free joints, which acts along the body's axes"),
        ("frictionloss", "friction of free joints, which acts along the body's axes"),
        ("stiffness", "springs on free joints, which are not modelled"),
    ],
)
def test_what_differs_on_free_joints_is_told(attribute, words):
    """MuJoCo's armature and friction are along the world's axes, and its spring pulls."""
    with pytest.warns(jd.ModelWarning, match=f"{words}.*'fly'"):
        load(filled().replace("<freejoint/>", f'<joint name="fly" type="free" {attribute}="3"/>'))


def test_friction_that_a_flag_disables_differs_in_nothing():
    text = filled(option='<option><flag frictionloss="disable"/></option>')
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(text.replace("<freejoint/>", '<joint type="free" frictionloss="3"/>'))
