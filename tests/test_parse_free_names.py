"""Names that loaders give, in files that use these names themselves."""

import pytest
import test_parse_sdf as sdf
from parse_help import arm, joint, link, quiet, urdf

import jaxdyn as jd
from jaxdyn.loaders.load import load

BODIES = """<mujoco><worldbody><body name="b"><joint name="j1"/><geom size=".1"/><body name="c"><joint name="j2"/>
<geom size=".1" pos="1 0 0"/></body></body></worldbody>{}</mujoco>"""


def test_actuators_without_a_name():
    pytest.importorskip("mujoco")
    text = BODIES.format('<actuator><motor name="actuator1" joint="j1"/><motor joint="j2"/></actuator>')
    assert load(text).actuator_names == ("actuator1", "actuator1_")


def test_equalities_without_a_name():
    pytest.importorskip("mujoco")
    joints = '<joint name="equality1" joint1="j1" joint2="j2"/><joint joint1="j1" joint2="j2"/>'
    text = BODIES.format(f"<equality>{joints}</equality>")
    assert [c.name for c in load(text).constraints] == ["equality1", "equality1_"]


def test_the_joint_of_a_floating_base():
    pytest.importorskip("mujoco")
    arm = '<body name="c"><joint name="root_joint"/><geom size=".1"/></body>'
    text = f'<mujoco><worldbody><body name="b"><geom size=".1"/>{arm}</body></worldbody></mujoco>'
    one = sdf.sdf(sdf.link("a"), sdf.link("b"), sdf.joint("root_joint", "a", "b"))
    for file, options in ((text, {"floating": True}), (one, {})):
        with pytest.warns(jd.ModelWarning, match="joints whose name was taken: 'root_joint' is now 'root_joint_'"):
            assert load(file, **options).joint_names == ("root_joint_", "root_joint")


@pytest.mark.parametrize("other", ['<frame name="b_origin" attached_to="b"/>', sdf.link("b_origin")])
def test_frames_of_links(other):
    parts = sdf.link("a"), sdf.link("b"), sdf.joint("j", "a", "b", pose="1 0 0 0 0 0"), other
    with pytest.warns(jd.ModelWarning, match="frames whose name was taken: 'b_origin' is now 'b_origin_'"):
        model = load(sdf.sdf(*parts))
    assert {"b_origin", "b_origin_"} <= {*model.frame_names, *model.body_names}


def test_constraints_of_mimics():
    mimic = '<mimic joint="j1"/>'
    ends = [f'<{tag} link="{name}"/>' for tag, name in (("predecessor", "l1"), ("successor", "l3"))]
    loop = f'<loop name="j3_mimic" type="spherical">{"".join(ends)}</loop>'
    parts = arm(link("l3"), joint("j3", "base", "l3", inner=mimic), loop)
    with pytest.warns(jd.ModelWarning, match="constraints whose name was taken: 'j3_mimic' is now 'j3_mimic_'"):
        assert [c.name for c in load(parts).constraints] == ["j3_mimic_", "j3_mimic"]
    inner = [None, None, sdf.axis(inner='<mimic joint="ja"/>'), None]
    text = sdf.four_bar(inner=inner).replace('name="jd"', 'name="jc_mimic"')
    names = [c.name for c in quiet(text).constraints]
    assert len(set(names)) == len(names) == 2 and "jc_mimic_" in names


def test_a_urdf_that_uses_none_of_them_gets_the_plain_names(recwarn):
    text = urdf(link("base"), link("a"), link("b"), joint("j1", "base", "a"))
    text = text.replace("</robot>", joint("j2", "a", "b", inner='<mimic joint="j1"/>') + "</robot>")
    assert [c.name for c in load(text).constraints] == ["j2_mimic"] and not recwarn.list
