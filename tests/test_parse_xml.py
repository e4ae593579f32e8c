"""XML that other engines read although it is not quite XML, and lines in messages about it."""

import pinocchio as pin
import pytest
from parse_help import arm

import jaxdyn as jd
from jaxdyn.loaders.load import load

BODY = '<worldbody><body name="b"><joint name="j"/><geom size=".1" pos="1 0 0"/></body></worldbody>'
MJCF = {
    "dashes in a comment": f"<mujoco><!-- a -- b -->{BODY}</mujoco>",
    "a ruler of dashes": f"<mujoco><!------ bodies ------>{BODY}</mujoco>",
    "a Latin-1 comment": f"<mujoco><!-- 90\xb0 -->{BODY}</mujoco>".encode("latin-1"),
    "an ampersand": f'<mujoco model="a & b">{BODY}</mujoco>',
    "space before the declaration": f'\n  <?xml version="1.0" encoding="utf-8"?><mujoco>{BODY}</mujoco>',
    "a prefix without a namespace": f'<mujoco xsi:noNamespaceSchemaLocation="x">{BODY}</mujoco>',
    "a text": f'<mujoco>{BODY}<custom><text name="a" data="nan"/></custom></mujoco>',
}


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize("case", MJCF)
def test_mjcf_that_mujoco_reads(case, tmp_path):
    mujoco = pytest.importorskip("mujoco")
    file = write(tmp_path / "robot.xml", MJCF[case])
    assert mujoco.MjModel.from_xml_path(str(file)).nv == load(file).nv == 1


def test_the_name_keeps_its_ampersand():
    pytest.importorskip("mujoco")
    assert load(MJCF["an ampersand"]).name == "a & b"


@pytest.mark.parametrize("comment", ["<!-- 90\xb0 -->", "<!-- a -- b -->", "<!------ links ------>"])
def test_urdf_that_pinocchio_reads(comment, tmp_path):
    file = write(tmp_path / "robot.urdf", arm().replace("<link", f"{comment}<link", 1).encode("latin-1"))
    assert pin.buildModelFromUrdf(str(file)).nv == load(file).nv == 2


@pytest.mark.parametrize("prefix", ["gz", "drake"])
def test_prefixes_without_a_namespace_are_those_with_one(prefix, tmp_path):
    own = f'<{prefix}:policies {prefix}:kind="a"><{prefix}::x/></{prefix}:policies>'
    text = arm().replace("<link", f"{own}<link", 1)
    file = write(tmp_path / "robot.urdf", text)
    assert pin.buildModelFromUrdf(str(file)).nv == 2
    for told in (text, text.replace("<robot", f'<robot xmlns:{prefix}="x.y"', 1).replace("::x", ":x")):
        with pytest.warns(jd.ModelWarning, match="that are not read: <policies> in <robot name='robot'>, line 1.$"):
            assert load(told).nv == 2


def test_versions_of_xml_that_do_not_exist(tmp_path):
    file = write(tmp_path / "robot.urdf", '<?xml version="0.0" ?>\n' + arm())
    assert pin.buildModelFromUrdf(str(file)).nv == load(file).nv == 2


@pytest.mark.parametrize("comment", ["<!-- a\n -- \n b -->", "\n\n<!-- 90\xb0 -->"])
def test_lines_are_those_of_the_file(comment, tmp_path):
    text = arm().replace("<link", f"{comment}<link", 1).replace('xyz="0 0 0.3"', 'xyz="0 0"', 1)
    line = text[: text.index('xyz="0 0"')].count("\n") + 1
    file = write(tmp_path / "robot.urdf", text.encode("latin-1"))
    with pytest.raises(ValueError, match=rf"robot\.urdf, line {line}, <origin>"):
        load(file)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<mujoco><!-- a -- b --><worldbody></mujoco>", "line 1: the XML cannot be read"),
        ("<mujoco><!-- a -- b", "line 1: the XML cannot be read"),
        ('<robot name="r"><!-- -- --><xacro:leg/></robot>', "line 1, .*<xacro:leg> is a macro"),
        ('<!DOCTYPE robot [<!ENTITY l "ha">]><!-- a -- b --><robot name="&l;"/>', "declares the entity 'l'"),
    ],
)
def test_what_is_broken_stays_an_error(text, words):
    with pytest.raises(ValueError, match=words):
        load(text)
