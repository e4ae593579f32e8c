"""URDF: what a file says stands in the model, and nothing is dropped without a word."""

from pathlib import Path

import jax
import numpy as np
import oracle
import pytest
from parse_help import arm, joint, link, quiet, urdf

import jaxdyn as jd
from jaxdyn.loaders.load import load, load_spec


@pytest.fixture(autouse=True)
def warnings_are_errors(recwarn):
    """A file that is in order loads without a word; tests that expect words catch them."""
    yield
    assert not [w for w in recwarn if issubclass(w.category, jd.ModelWarning)]


def test_a_chain():
    model = load(arm())
    assert model.name == "robot"
    assert model.body_names == ("l1", "l2")
    assert model.joint_names == ("j1", "j2")
    assert model.frame_names == ("base",)
    assert model.actuator_names == ("j1", "j2")
    np.testing.assert_array_equal(model.actuation, np.eye(2))
    np.testing.assert_allclose(model.joints.axis, [[0, 1, 0]] * 2)
    np.testing.assert_allclose(model.joints.lower, [-1, -1])
    np.testing.assert_allclose(model.joints.upper, [2, 2])
    np.testing.assert_allclose(model.joints.effort, [30, 30])
    np.testing.assert_allclose(model.bodies.mass, [1, 1])
    np.testing.assert_allclose(model.bodies.center_of_mass, [[0.1, 0, 0.2]] * 2)
    np.testing.assert_allclose(model.bodies.placement.translation, [[0, 0, 0.3]] * 2)


def test_roll_pitch_yaw_turn_about_fixed_axes():
    R = np.array(load(arm()).bodies.placement.rotation[0])
    c, s = np.cos, np.sin
    x, y, z = 0.1, 0.2, 0.3
    Rx = np.array([[1, 0, 0], [0, c(x), -s(x)], [0, s(x), c(x)]])
    Ry = np.array([[c(y), 0, s(y)], [0, 1, 0], [-s(y), 0, c(y)]])
    Rz = np.array([[c(z), -s(z), 0], [s(z), c(z), 0], [0, 0, 1]])
    np.testing.assert_allclose(R, Rz @ Ry @ Rx, atol=1e-15)


def test_quaternion_origin():
    text = arm().replace('rpy="0.1 0.2 0.3"', 'quat_xyzw="0 0 0.6 0.8"')
    c, s = 0.8**2 - 0.6**2, 2 * 0.6 * 0.8
    np.testing.assert_allclose(load(text).bodies.placement.rotation[0], [[c, -s, 0], [s, c, 0], [0, 0, 1]], atol=1e-12)


def test_the_inertia_is_turned_into_the_links_axes():
    turned = link("l1").replace('<origin xyz="0.1 0.0 0.2"/>', '<origin xyz="0.1 0 0.2" rpy="1.5707963267948966 0 0"/>')
    model = load(urdf(link("base"), turned, joint("j1", "base", "l1")))
    np.testing.assert_allclose(model.bodies.rotational[0], np.diag([0.01, 0.015, 0.02]), atol=1e-15)


def test_fixed_links_merge_and_stay_as_frames():
    tool = joint("tool_joint", "l2", "tool", "fixed", xyz="0 0 0.5")
    model = load(
        urdf(*map(link, ("base", "l1", "l2", "tool")), joint("j1", "base", "l1"), joint("j2", "l1", "l2"), tool)
    )
    assert model.body_names == ("l1", "l2")
    assert model.frame_names == ("base", "tool")
    np.testing.assert_allclose(model.bodies.mass, [1, 2])
    R, p = (np.array(x) for x in (model.frames.rotation[1], model.frames.translation[1]))
    np.testing.assert_allclose(p, [0, 0, 0.5])
    own = np.array([0.1, 0, 0.2])
    np.testing.assert_allclose(model.bodies.center_of_mass[1], (own + p + R @ own) / 2)


def test_joint_types():
    parts = [link(n) for n in ("base", "a", "b", "c", "d")]
    parts += [
        joint("turn", "base", "a", "continuous"),
        joint("slide", "a", "b", "prismatic", axis="0 0 2"),
        joint("plane", "b", "c", "planar", axis="0 0 1"),
        joint("fly", "c", "d", "floating"),
    ]
    model = load(urdf(*parts))
    assert [repr(k) for k in model.topology.kinds] == ["RevoluteKind", "PrismaticKind", "PlanarKind", "FreeKind"]
    assert np.isinf(model.joints.lower[0]) and model.joints.lower[1] == -1
    np.testing.assert_allclose(model.joints.axis[1], [0, 0, 1])
    assert model.actuator_names == ("turn", "slide")


def test_a_planar_joint_without_an_axis_is_told():
    """Its plane is normal to x in URDF, and to z in Drake's extension of it."""
    text = urdf(link("a"), link("b"), joint("j", "a", "b", "planar", axis="1 0 0"))
    load(text)
    with pytest.warns(jd.ModelWarning, match="planar joints without an <axis>.*normal to x.*'j'") as found:
        model = load(text.replace('<axis xyz="1 0 0"/>', ""))
    np.testing.assert_allclose(model.joints.axis, [[1, 0, 0]])
    found.clear()


def test_the_default_axis_is_x():
    text = arm().replace('<axis xyz="0 1 0"/>', "")
    np.testing.assert_allclose(load(text).joints.axis, [[1, 0, 0]] * 2)


def test_damping_friction_and_unstated_limits():
    dynamics = '<dynamics damping="0.5" friction="0.2"/>'
    text = urdf(link("base"), link("l1"), joint("j1", "base", "l1", inner=dynamics)).replace(
        'lower="-1" upper="2" ', ""
    )
    model = load(text)
    assert model.joints.damping[0] == 0.5 and model.joints.friction[0] == 0.2
    assert np.isinf(model.joints.lower[0]) and np.isinf(model.joints.upper[0])


@pytest.mark.filterwarnings("ignore::jaxdyn.ModelWarning")
def test_springs_of_gazebo(recwarn):
    spring = (
        '<gazebo reference="j1"><springStiffness>7</springStiffness><springReference>0.3</springReference></gazebo>'
    )
    model = load(arm(spring))
    assert model.joints.stiffness[0] == 7 and model.joints.rest[0] == 0.3


def test_order_follows_the_file_as_far_as_parents_come_first():
    names = ("base", "a", "b", "c", "d", "e")
    joints = [
        joint("late", "d", "e"),  # d hangs on a joint that is declared last but is fixed
        joint("second", "a", "b"),
        joint("first", "base", "a"),
        joint("other", "base", "c"),
        joint("weld", "base", "d", "fixed"),
    ]
    model = load(urdf(*map(link, names), *joints))
    assert model.joint_names == ("late", "first", "second", "other")


def test_two_chains_in_turn_keep_the_order_of_the_file():
    joints = [joint("z1", "base", "a"), joint("a1", "base", "b"), joint("z2", "a", "c"), joint("a2", "b", "d")]
    model = load(urdf(*map(link, ("base", "a", "b", "c", "d")), *joints))
    assert model.joint_names == ("z1", "a1", "z2", "a2")


def test_mimic_is_a_coupling():
    mimic = '<mimic joint="j1" multiplier="-2" offset="0.25"/>'
    model = load(urdf(*map(link, ("base", "a", "b")), joint("j1", "base", "a"), joint("j2", "a", "b", inner=mimic)))
    (coupling,) = model.constraints
    assert isinstance(coupling, jd.constraints.Coupling) and coupling.name == "j2_mimic"
    assert model.actuator_names == ("j1",)
    residual = oracle.constraint_residual(model, np.array([0.3, -2 * 0.3 + 0.25]))
    np.testing.assert_allclose(residual, 0, atol=1e-15)
    assert abs(oracle.constraint_residual(model, np.array([0.3, 0.0]))[0]) > 0.1


def test_mimic_without_numbers_follows_one_to_one():
    text = urdf(
        *map(link, ("base", "a", "b")), joint("j1", "base", "a"), joint("j2", "a", "b", inner='<mimic joint="j1"/>')
    )
    np.testing.assert_allclose(oracle.constraint_residual(load(text), np.array([0.4, 0.4])), 0, atol=1e-15)


@pytest.mark.parametrize("unknown", ["j9", "weld"])
def test_mimic_of_what_does_not_move(unknown, recwarn):
    parts = [*map(link, ("base", "a", "b", "c")), joint("j1", "base", "a"), joint("weld", "base", "c", "fixed")]
    follower = joint("j2", "a", "b", inner=f'<mimic joint="{unknown}" offset="0.5"/>')
    with pytest.warns(jd.ModelWarning, match=rf"'j2'.*'{unknown}'|'{unknown}'.*'j2'"):
        model = load(urdf(*parts, follower))
    # a fixed joint's coordinate is zero, so its follower is held; that of a joint that is not there moves freely
    assert len(model.constraints) == (unknown == "weld")
    recwarn.clear()


def test_transmissions():
    stated = """<transmission name="t"><type>transmission_interface/SimpleTransmission</type><joint name="j2"/>
      <actuator name="motor"><mechanicalReduction>50</mechanicalReduction></actuator></transmission>"""
    model = load(arm(stated))
    assert model.actuator_names == ("motor",)
    np.testing.assert_array_equal(model.actuation, [[0], [50]])


def test_transmission_in_the_old_form():
    stated = """<transmission name="t" type="x"><actuator name="m"/><joint name="j1"/>
      <mechanicalReduction>-3</mechanicalReduction></transmission>"""
    model = load(arm(stated))
    np.testing.assert_array_equal(model.actuation, [[-3], [0]])


def test_a_differential_drives_its_joints_each_by_itself(recwarn):
    stated = """<transmission name="wrist"><type>Differential</type><actuator name="m1"/><actuator name="m2"/>
      <joint name="j1"/><joint name="j2"/></transmission>"""
    with pytest.warns(jd.ModelWarning, match="'wrist'"):
        model = load(arm(stated))
    assert model.actuator_names == ("j1", "j2")
    recwarn.clear()


def test_ros2_control():
    stated = """<ros2_control name="c" type="system"><joint name="j2"><command_interface name="effort"/></joint>
      <joint name="j1"/></ros2_control>"""
    assert load(arm(stated)).actuator_names == ("j2",)


def test_a_mimic_of_ros2_control_is_told(recwarn):
    """It is for drivers and simulators; a joint follows by its own `<mimic>`."""
    stated = """<ros2_control name="c" type="system"><joint name="j2"><param name="mimic">j1</param>
      <command_interface name="effort"/></joint></ros2_control>"""
    with pytest.warns(jd.ModelWarning, match="move freely.*'j2' of 'j1'"):
        load(arm(stated))
    recwarn.clear()


def test_transmissions_that_drive_nothing_are_told(recwarn):
    stated = '<transmission name="t{0}"><joint name="{0}"/><actuator name="m{0}"/></transmission>'
    with pytest.warns(jd.ModelWarning, match="j9.*weld|weld.*j9"):
        text = urdf(
            *map(link, ("base", "a", "b")),
            joint("j1", "base", "a"),
            joint("weld", "a", "b", "fixed"),
            *(stated.format(n) for n in ("j1", "weld", "j9")),
        )
        model = load(text)
    assert model.actuator_names == ("mj1",)
    recwarn.clear()


def test_floating_base():
    model = load(arm(), floating=True)
    assert model.joint_names == ("root_joint", "j1", "j2")
    assert model.body_names[0] == "base" and model.nq == 9 and model.nv == 8
    assert model.actuator_names == ("j1", "j2")


def test_the_files_own_floating_joint():
    text = urdf(
        '<link name="ground"/>',
        link("torso"),
        link("leg"),
        joint("fly", "ground", "torso", "floating"),
        joint("hip", "torso", "leg"),
    )
    for floating in (None, True):
        assert load(text, floating=floating).joint_names == ("fly", "hip")
    assert load(text, floating=False).joint_names == ("hip",)


def test_a_root_called_world_is_the_world(recwarn):
    text = urdf('<link name="world"/>', link("a"), joint("j", "world", "a"))
    assert load(text).body_names == ("a",)
    with pytest.warns(jd.ModelWarning, match="world_link"):
        model = load(text, floating=True)
    assert model.body_names == ("world_link", "a")
    recwarn.clear()


def test_massless_links_are_kept(recwarn):
    with pytest.warns(jd.ModelWarning, match="'tip'"):
        model = load(
            urdf(link("base"), link("a"), '<link name="tip"/>', joint("j1", "base", "a"), joint("j2", "a", "tip"))
        )
    assert model.bodies.mass[1] == 0
    recwarn.clear()


@pytest.mark.parametrize(
    ("inertia", "words"),
    [((0.01, 0.01, 0.1), "triangle inequality"), ((0.01, 0.01, 0.01, 0.02), "negative principal moment")],
)
def test_inertias_that_no_body_has_are_told_and_used(inertia, words, recwarn):
    text = urdf(link("base"), link("odd", inertia=inertia[:3]), joint("j1", "base", "odd"))
    if len(inertia) > 3:
        text = text.replace(
            '<mass value="1.0"/>\n      <inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0"',
            '<mass value="1.0"/><inertia ixx="0.01" iyy="0.01" izz="0.01" ixy="0.02"',
        )
    with pytest.warns(jd.ModelWarning, match=rf"'odd'.*{words}"):
        model = load(text)
    expected = np.diag(inertia[:3])
    expected[0, 1] = expected[1, 0] = inertia[3] if len(inertia) > 3 else 0
    np.testing.assert_allclose(model.bodies.rotational[0], expected)
    recwarn.clear()


def test_missing_meshes_are_one_warning(tmp_path, recwarn):
    mesh = '<visual><geometry><mesh filename="{}"/></geometry></visual>'
    (tmp_path / "here.stl").write_text("solid")
    inner = "".join(mesh.format(x) for x in ("here.stl", "gone.stl", "package://nowhere/gone.dae", "gone.stl"))
    file = tmp_path / "robot.urdf"
    file.write_text(urdf(link("base"), link("a", inner=inner), joint("j", "base", "a")))
    with pytest.warns(jd.ModelWarning, match="2 meshes are missing, first 'gone.stl'") as told:
        load(file)
    assert len(told) == 1
    recwarn.clear()


def test_meshes_of_a_package_are_found_above(tmp_path):
    (tmp_path / "arm_description" / "meshes").mkdir(parents=True)
    (tmp_path / "arm_description" / "urdf").mkdir()
    (tmp_path / "arm_description" / "meshes" / "a.stl").write_text("solid")
    inner = '<collision><geometry><mesh filename="package://arm_description/meshes/a.stl"/></geometry></collision>'
    file = tmp_path / "arm_description" / "urdf" / "arm.urdf"
    file.write_text(urdf(link("base"), link("a", inner=inner), joint("j", "base", "a")))
    load(file)


def test_sources(tmp_path):
    file = tmp_path / "arm.urdf"
    file.write_text('<?xml version="1.0" encoding="utf-8"?>\n' + arm())
    for source in (file, str(file), file.read_text()):
        assert load(source).joint_names == ("j1", "j2")
    assert load(file, name="other").name == "other"
    assert load(arm().replace(' name="robot"', "", 1)).name == "text"
    file.write_text(arm().replace(' name="robot"', "", 1))
    assert load(file).name == "arm"


def test_namespaces_and_comments_are_no_obstacle():
    text = arm('<gazebo reference="l1"><sensor:camera xmlns:sensor="http://x"/></gazebo>', "<!-- a comment -->")
    assert (
        load(text.replace("<robot ", '<robot xmlns="http://www.ros.org" xmlns:xacro="http://ros.org/wiki/xacro" ')).nv
        == 2
    )


def test_load_spec_can_be_changed_before_it_is_built():
    spec = load_spec(arm())
    spec.add_constraint(jd.constraints.Point("l2", name="tip"))
    assert [c.name for c in spec.build().constraints] == ["tip"]


def test_single_precision():
    with jax.enable_x64(False):
        model = load(arm())
        assert model.bodies.mass.dtype == np.float32
        assert all(x.dtype == np.float32 for x in jax.tree.leaves(model))


def test_an_absolute_path_and_a_relative_one(tmp_path, monkeypatch):
    (tmp_path / "arm.urdf").write_text(arm())
    monkeypatch.chdir(tmp_path)
    assert load("arm.urdf").nv == load(Path("arm.urdf")).nv == quiet(tmp_path / "arm.urdf").nv == 2


def test_frames_of_drake():
    frame = '<frame name="{}" link="{}" xyz="0.1 0 0.2" rpy="0 0 1.5707963267948966"/>'
    model = load(arm(frame.format("tool", "l2"), frame.format("post", "base")))
    q = np.array([0.3, -0.4])
    host, tool = jd.frame_pose(model, q, "l2"), jd.frame_pose(model, q, "tool")
    np.testing.assert_allclose(tool.translation, host.translation + host.rotation @ np.array([0.1, 0, 0.2]), atol=1e-15)
    np.testing.assert_allclose(tool.rotation[:, 0], host.rotation[:, 1], atol=1e-15)
    np.testing.assert_allclose(jd.frame_pose(model, q, "post").translation, [0.1, 0, 0.2])
    with pytest.raises(ValueError, match="<frame name='tool'>.*there is no link 'l9'"):
        load(arm(frame.format("tool", "l9")))
    with pytest.warns(jd.ModelWarning, match="frames whose name was taken: 'l1' is now 'l1_'"):
        load(arm(frame.format("l1", "l2")))
