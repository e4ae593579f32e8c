"""SDF files that include others, models placed by frames, and worlds whose models are tied to each other."""

import numpy as np
import pytest
from parse_help import quiet

import jaxdyn as jd

MASS = "<inertial><mass>{}</mass><inertia><ixx>0.1</ixx><iyy>0.1</iyy><izz>0.1</izz></inertia></inertial>"
GRIPPER = f"""<sdf version="1.7"><model name="gripper"><pose>0.3 0 0 0 0 0.4</pose>
<frame name="mount"><pose>0.02 0.03 -0.1 0.1 0.2 -0.3</pose></frame>
<link name="palm"><pose>0.01 0 0 0 0 0</pose>{MASS.format(0.5)}</link>
<link name="finger"><pose relative_to="palm">0 0.05 0.1 0 0 0</pose>{MASS.format(0.2)}
<collision name="pad"><geometry><mesh><uri>pad.stl</uri></mesh></geometry></collision></link>
<joint name="close" type="prismatic"><parent>palm</parent><child>finger</child><axis><xyz>0 1 0</xyz></axis></joint>
</model></sdf>"""
ARM = f"""<sdf version="1.7"><model name="arm">
<link name="base">{MASS.format(3)}</link>
<link name="upper"><pose>0 0 0.5 0 0.3 0</pose>{MASS.format(1)}</link>
<frame name="flange" attached_to="upper"><pose>0 0 0.4 0.5 0 0</pose></frame>
<joint name="shoulder" type="revolute"><parent>base</parent><child>upper</child><axis><xyz>0 1 0</xyz></axis></joint>
<joint name="bolt" type="fixed"><parent>world</parent><child>base</child></joint>
<include><uri>model://gripper</uri><name>hand</name><placement_frame>mount</placement_frame>
<pose relative_to="flange">0 0 0.01 0 0 0.7</pose></include>
<joint name="wrist" type="fixed"><parent>flange</parent><child>hand::mount</child></joint>
<include><uri>model://gripper</uri><name>tool</name><pose relative_to="hand">0 0.5 0 0 0 0</pose></include>
<joint name="spin" type="continuous"><parent>hand::palm</parent><child>tool::palm</child>
<axis><xyz expressed_in="flange">0 0 1</xyz></axis></joint>
</model></sdf>"""
CONFIG = '<model><name>gripper</name><sdf version="1.5">old.sdf</sdf><sdf version="1.7">new.sdf</sdf></model>'


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "gripper").mkdir()
    (tmp_path / "gripper" / "model.config").write_text(CONFIG)
    (tmp_path / "gripper" / "new.sdf").write_text(GRIPPER)
    (tmp_path / "arm").mkdir()
    (tmp_path / "arm" / "model.sdf").write_text(ARM)
    return tmp_path


def pose(*xyzrpy):
    """The matrix (4, 4) of a pose."""
    x, y, z, r, p, w = xyzrpy
    cr, sr, cp, sp, cw, sw = (f(a) for a in (r, p, w) for f in (np.cos, np.sin))
    turn = np.array([[cw, -sw, 0], [sw, cw, 0], [0, 0, 1]])
    turn = turn @ [[cp, 0, sp], [0, 1, 0], [-sp, 0, cp]] @ np.array([[1, 0, 0], [0, cr, -sr], [0, sr, cr]])
    return np.block([[turn, np.array([[x], [y], [z]])], [np.zeros(3), 1]])


def placed(model, name):
    at = jd.frame_pose(model, model.neutral(), name)
    return np.block([[np.asarray(at.rotation), np.asarray(at.translation)[:, None]], [np.zeros(3), 1]])


def world(*parts):
    return f'<sdf version="1.10"><world name="lab"><gravity>0 0 -9.81</gravity>{"".join(parts)}</world></sdf>'


def write(folder, text, name="robot.sdf"):
    (folder / name).write_text(text)
    return folder / name


def test_models_are_placed_by_frames(folder):
    """The same poses as Drake's, to rounding."""
    arm = quiet(folder / "arm" / "model.sdf")
    assert arm.body_names == ("upper", "hand::finger", "tool::palm", "tool::finger")
    assert arm.joint_names == ("shoulder", "hand::close", "spin", "tool::close")
    flange = pose(0, 0, 0.5, 0, 0.3, 0) @ pose(0, 0, 0.4, 0.5, 0, 0)
    mount = pose(0.02, 0.03, -0.1, 0.1, 0.2, -0.3)
    hand = flange @ pose(0, 0, 0.01, 0, 0, 0.7) @ np.linalg.inv(mount)
    np.testing.assert_allclose(placed(arm, "hand::palm"), hand @ pose(0.01, 0, 0, 0, 0, 0), atol=1e-14)
    np.testing.assert_allclose(placed(arm, "hand::mount"), hand @ mount, atol=1e-14)
    tool = hand @ pose(0, 0.5, 0, 0, 0, 0)  # the pose of the <include> is in place of the model's own
    np.testing.assert_allclose(placed(arm, "tool::finger"), tool @ pose(0.01, 0.05, 0.1, 0, 0, 0), atol=1e-14)
    moved = jd.frame_pose(arm, arm.neutral().at[2].set(0.3), "tool::palm").rotation
    turn = np.asarray(moved) @ np.asarray(placed(arm, "tool::palm"))[:3, :3].T
    np.testing.assert_allclose(turn @ flange[:3, 2], flange[:3, 2], atol=1e-14)


def test_a_world_of_included_models(folder):
    table = '<frame name="table"><pose>1 2 0.7 0 0 1</pose></frame>'
    left = '<include><uri>model://arm</uri><name>left</name><pose relative_to="table">0.1 0 0 0 0 0</pose></include>'
    loose = "<include><uri>model://gripper</uri><name>loose</name></include>"
    lab = quiet(write(folder, world(table, left, loose)))
    assert lab.nv == 11 and {"left::upper", "left::tool::finger", "loose::palm"} < set(lab.body_names)
    base = pose(1, 2, 0.7, 0, 0, 1) @ pose(0.1, 0, 0, 0, 0, 0)
    np.testing.assert_allclose(placed(lab, "left::base"), base, atol=1e-14)
    np.testing.assert_allclose(placed(lab, "table"), pose(1, 2, 0.7, 0, 0, 1), atol=1e-14)
    alone = quiet(write(folder, world(table, left)))
    assert alone.name == "left" and alone.body_names[0] == "upper"


def test_joints_between_the_models_of_a_world(folder):
    parts = (
        "<include><uri>model://gripper</uri><name>a</name><pose>0 0 1 0 0 0</pose></include>",
        '<include><uri>model://gripper</uri><name>b</name><pose relative_to="a">0 0 1 0.2 0 0</pose></include>',
        '<joint name="foot" type="fixed"><parent>world</parent><child>a::palm</child></joint>',
        '<joint name="tie" type="revolute"><parent>a::palm</parent><child>b::mount</child>'
        "<axis><xyz>0 0 1</xyz></axis></joint>",
    )
    model = quiet(write(folder, world(*parts)))
    assert set(model.joint_names) == {"a::close", "b::close", "tie"} and model.nv == 3
    b = pose(0, 0, 1, 0, 0, 0) @ pose(0, 0, 1, 0.2, 0, 0)
    np.testing.assert_allclose(placed(model, "b::mount"), b @ pose(0.02, 0.03, -0.1, 0.1, 0.2, -0.3), atol=1e-14)


def test_what_is_merged_has_the_names_of_the_model(folder):
    text = f"""<sdf version="1.10"><model name="both"><link name="base">{MASS.format(3)}</link>
    <include merge="true"><uri>model://gripper</uri><pose relative_to="base">0 0 1 0 0 0.2</pose></include>
    <joint name="hold" type="fixed"><parent>world</parent><child>base</child></joint>
    <joint name="j" type="revolute"><parent>base</parent><child>palm</child><axis><xyz>1 0 0</xyz></axis></joint>
    </model></sdf>"""
    model = quiet(write(folder, text))
    assert model.body_names == ("palm", "finger") and model.joint_names == ("j", "close")
    expected = pose(0, 0, 1, 0, 0, 0.2) @ pose(0.01, 0.05, 0.1, 0, 0, 0)
    np.testing.assert_allclose(placed(model, "finger"), expected, atol=1e-14)
    taken = text.replace('<link name="base">', '<link name="palm"/><link name="base">')
    with pytest.raises(ValueError, match="the name 'palm' is taken"):
        quiet(write(folder, taken))


def test_an_include_holds_its_model_still(folder):
    part = "<include><uri>model://gripper</uri><static>{}</static></include>"
    assert quiet(write(folder, world(part.format("true")))).nv == 0
    assert quiet(write(folder, world(part.format("false")))).nv == 7
    (folder / "gripper" / "new.sdf").write_text(GRIPPER.replace("<frame", "<static>1</static><frame", 1))
    with pytest.raises(ValueError, match="new.sdf, line 2, <static>.*`floating=True`, but this holds the model still"):
        quiet(write(folder, world("<include><uri>model://gripper</uri></include>")), floating=True)


def test_suns_and_ground_planes_are_known(folder):
    parts = [f"<include><uri>{uri}</uri></include>" for uri in ("model://sun", "https://x.org/1.0/models/Ground Plane")]
    model = quiet(write(folder, world(*parts, "<include><uri>model://gripper</uri></include>")))
    (ground,) = (s for s in model.collision.shapes if s.kind == "plane")
    assert ground is not None and model.nv == 7 and "gripper::palm" in model.body_names


def test_a_text_may_include_what_needs_no_file():
    robot = GRIPPER.split("?>")[-1].removeprefix('<sdf version="1.7">').removesuffix("</sdf>")
    model = quiet(world("<include><uri>model://ground_plane</uri></include>", robot))
    assert [s.kind for s in model.collision.shapes] == ["plane"] and model.nv == 7


def test_meshes_are_looked_for_beside_the_file_that_names_them(folder):
    trimesh = pytest.importorskip("trimesh")
    trimesh.creation.box((0.1, 0.1, 0.1)).export(folder / "gripper" / "pad.stl")
    model = quiet(write(folder, world("<include><uri>model://gripper</uri></include>")), collision="all")
    assert model.collision.names == ("pad",)


def test_older_files_keep_their_conventions(folder):
    """Before 1.5 an axis is in the model's frame, and before 1.7 a joint may have the name of a link."""
    old = GRIPPER.replace("1.7", "1.4").replace('name="close"', 'name="palm"').replace(' relative_to="palm"', "")
    (folder / "gripper" / "new.sdf").write_text(old.replace("0 0.05 0.1 0 0 0", "0 0.05 0.1 1.2 0 0"))
    model = quiet(write(folder, world("<include><uri>model://gripper</uri><static>0</static></include>")))
    assert model.joint_names == ("root_joint", "palm")
    q = model.neutral()
    slid = placed(model, "finger")[:3, 3] - np.asarray(jd.frame_pose(model, q.at[-1].set(1.0), "finger").translation)
    np.testing.assert_allclose(slid, [0, -1, 0], atol=1e-14)


HERE = "<include><uri>{}</uri></include>"
BAD = {
    "nothing there": (HERE.format("model://gone"), "robot.sdf, line 1, <include>.*there is no 'model://gone'"),
    "the web": (HERE.format("https://x.org/leg"), "<include>.*nothing is downloaded.*model://"),
    "itself": (HERE.format("ring.sdf"), "ring.sdf, line 1, <include>.*the file includes itself"),
    "a URDF": (HERE.format("arm.urdf"), "<include>.*'arm.urdf' is no SDF but <robot>"),
    "two models": (HERE.format("two.sdf"), "two.sdf, line 1, <model name='b'>.*takes one model"),
    "no model": (HERE.format("none.sdf"), "<include>.*there is no <model> in 'none.sdf'"),
    "no name": (HERE.format("model://gripper").replace("</uri>", "</uri><name> </name>"), "the name '' is none"),
    "a frame that is not there": (
        "<include><uri>model://gripper</uri><placement_frame>tip</placement_frame></include>",
        "new.sdf, line 1, <model name='gripper'>.*'tip'",
    ),
    "parameters": (
        "<include><uri>model://gripper</uri><experimental:params/></include>",
        "<include>.*parameters of 'model://gripper' are not read",
    ),
    "one name twice": (2 * HERE.format("model://gripper"), "<include>.*the name 'gripper' is taken"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_included(case, folder):
    text, words = BAD[case]
    (folder / "arm.urdf").write_text('<robot name="r"/>')
    (folder / "two.sdf").write_text('<sdf><world name="w"><model name="a"/><model name="b"/></world></sdf>')
    (folder / "none.sdf").write_text("<sdf/>")
    (folder / "ring.sdf").write_text(f'<sdf><model name="m">{HERE.format("ring.sdf")}</model></sdf>')
    with pytest.raises(ValueError, match=words):
        quiet(write(folder, world(text)))


def test_files_that_grow_without_bound_end(folder):
    """Each file includes the next one twice."""
    for k in range(30):
        twice = "".join(f"<include><uri>{k + 1}.sdf</uri><name>{n}</name></include>" for n in "ab")
        write(folder, f'<sdf><model name="m"><link name="l"/>{twice}</model></sdf>', f"{k}.sdf")
    write(folder, '<sdf><model name="m"><link name="l"/></model></sdf>', "30.sdf")
    with pytest.raises(ValueError, match="there are more than"):
        quiet(folder / "0.sdf")


def test_a_text_has_no_folder():
    with pytest.raises(ValueError, match="<include>.*a text has no folder.*give the path"):
        quiet(world(HERE.format("model://gripper")))
