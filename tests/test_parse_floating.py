"""Which body `floating` frees or fixes in files with more than a robot."""

import numpy as np
import pytest
from parse_help import joint, link, quiet, urdf

import jaxdyn as jd
from jaxdyn.loaders.load import load

EMPTY = '<link name="world"/>'
WHEEL = joint("wheel", "base", "disc", "continuous")
LOAD = joint("load", "base", "box", "floating")


def moving(model) -> dict[str, int]:
    """The velocities of each joint."""
    return {
        n: int(np.diff(model.topology.v_slice(b).indices(model.nv)[:2])[0]) for b, n in enumerate(model.joint_names)
    }


def test_a_load_is_not_the_base_of_a_urdf():
    text = urdf(link("base"), link("disc"), link("box"), WHEEL, LOAD)
    assert moving(load(text)) == {"wheel": 1, "load": 6}
    for floating, base in ((True, {"root_joint": 6}), (False, {})):
        with pytest.warns(jd.ModelWarning, match="<joint name='load'>: .*is about the link 'base'.*stays as it is"):
            assert moving(load(text, floating=floating)) == base | {"wheel": 1, "load": 6}


@pytest.mark.parametrize("floating", [True, False])
def test_a_link_without_mass_never_floats(floating, recwarn):
    """A world with a robot that flies, and a door."""
    fly, door = joint("fly", "world", "base", "floating"), joint("door", "world", "leaf", "revolute")
    text = urdf(EMPTY, link("base"), link("disc"), link("leaf"), fly, door, WHEEL)
    assert moving(load(text, floating=floating)) == ({"fly": 6} if floating else {}) | {"door": 1, "wheel": 1}
    assert not recwarn.list


def test_a_floating_joint_on_nothing_is_the_base_of_a_urdf(recwarn):
    text = urdf(EMPTY, link("base"), link("disc"), joint("fly", "world", "base", "floating"), WHEEL)
    assert moving(load(text, floating=True)) == {"fly": 6, "wheel": 1}
    assert moving(load(text, floating=False)) == {"wheel": 1}
    assert not recwarn.list


@pytest.mark.parametrize("floating", [True, False])
def test_a_floating_joint_on_a_heavy_link_is_told(floating):
    text = urdf(link("base"), link("box"), LOAD)
    with pytest.warns(jd.ModelWarning, match="<joint name='load'>: `floating` is about this joint.*'base'"):
        assert load(text, floating=floating).nv == 6 * floating


BODY = '<body name="{}" pos="{} 0 1">{}<geom size=".1"/>{}</body>'
HINGE = '<joint name="{}"/>'
CUBE = BODY.format("cube", 1, '<freejoint name="c"/>', "")
TABLE = BODY.format("table", 2, "", "")


def robot(own: str = "", name: str = "r") -> str:
    return BODY.format(name, 0, own, BODY.format(f"{name}_arm", 0, HINGE.format(f"{name}_j"), ""))


def mjcf(*bodies: str) -> str:
    return f"<mujoco><worldbody>{''.join(bodies)}</worldbody></mujoco>"


FLY = '<freejoint name="fly"/>'
#: the bodies, and the joints by default, with `floating=True` (None: an error) and with `floating=False`
SCENES = {
    "robot and cube": ([robot(FLY), CUBE], "fly r_j c", "fly r_j c", "r_j c"),
    "fixed robot and cube": ([robot(), CUBE], "r_j c", "root_joint r_j c", "r_j c"),
    "fixed robot and table": ([TABLE, robot()], "r_j", "root_joint r_j", "r_j"),
    "arm on a hinge and cube": ([robot(HINGE.format("h")), CUBE], "h r_j c", None, "h r_j c"),
    "arm on a hinge and table": ([TABLE, robot(HINGE.format("h"))], "h r_j", None, "h r_j"),
    "cube and table": ([TABLE, CUBE], "c", "c", ""),
    "table": ([TABLE], "", "root_joint", ""),
    "two robots": ([robot(FLY), robot(name="s")], "fly r_j s_j", "fly r_j s_j", "r_j s_j"),
}


@pytest.mark.parametrize("case", SCENES)
def test_the_base_of_an_mjcf(case):
    pytest.importorskip("mujoco")
    bodies, default, floats, fixed = SCENES[case]
    for floating, names in ((None, default), (True, floats), (False, fixed)):
        if names is None:
            with pytest.raises(ValueError, match="`floating=True`: no single body without joints"):
                load(mjcf(*bodies), floating=floating)
        else:
            assert " ".join(quiet(mjcf(*bodies), floating=floating).joint_names) == names


@pytest.mark.parametrize(
    ("floating", "bodies", "words"),
    [
        (False, [robot(FLY), CUBE], "not the base, and that `floating=False` leaves free: 'cube'"),
        (
            False,
            [CUBE, CUBE.replace('"cube"', '"other"').replace('"c"', '"d"')],
            "each of them a base: 'cube', 'other'",
        ),
        (True, [robot(FLY), robot(name="s")], "`floating=True` leaves on the world, because another base floats: 's'"),
    ],
)
def test_bodies_that_floating_leaves_as_they_are_are_told(floating, bodies, words):
    pytest.importorskip("mujoco")
    with pytest.warns(jd.ModelWarning, match=words):
        load(mjcf(*bodies), floating=floating)
