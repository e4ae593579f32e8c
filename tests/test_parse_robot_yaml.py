"""A robot.yaml beside a URDF."""

import os

import numpy as np
import oracle
import pytest
from parse_help import closed, joint, link, quiet, urdf

import jaxdyn as jd
from jaxdyn.loaders.load import load

NO_TURN = ('rpy="0.1 0.2 0.3"', "")


@pytest.fixture
def folder(tmp_path):
    """A four-bar linkage of which the last bar is in two halves, with frames at their ends."""
    parts = [link(n) for n in ("base", "bar1", "bar2", "bar3", "end2", "end3")]
    parts += [
        joint("motor", "base", "bar1", xyz="0 0 0", axis="0 0 1"),
        joint("free2", "bar1", "bar2", xyz="0.5 0 0", axis="0 0 1"),
        joint("free3", "base", "bar3", xyz="1 0 0", axis="0 0 1"),
        joint("end2_frame", "bar2", "end2", "fixed", xyz="0.7 0 0"),
        joint("end3_frame", "bar3", "end3", "fixed", xyz="0.5 0 0"),
    ]
    (tmp_path / "robot.urdf").write_text(urdf(*parts, name="linkage").replace(*NO_TURN))
    return tmp_path


def write(folder, text):
    (folder / "robot.yaml").write_text(text)
    return folder / "robot.yaml"


CLOSED = "closed_loop: [['end2', 'end3']]\ntype: ['{}']\nname_mot: ['motor']\n"


@pytest.mark.parametrize(
    ("kind", "constraint"), [("3d", jd.constraints.Point), ("6d", jd.constraints.Weld), ("3D", jd.constraints.Point)]
)
def test_a_pair_of_frames(folder, kind, constraint):
    model = load(write(folder, CLOSED.format(kind)))
    (c,) = model.constraints
    assert type(c) is constraint and c.name == "end2/end3" and (c.body_a, c.body_b) == ("end2", "end3")
    assert model.actuator_names == ("motor",)
    if kind == "3d":
        q, error = closed(model, [0.8, -0.5, 1.2])
        assert error < 1e-11
        ends = [
            np.array(oracle.attached(oracle.read(model), oracle.body_frames(oracle.read(model), q), n).p)
            for n in ("end2", "end3")
        ]
        np.testing.assert_allclose(*ends, atol=1e-11)


def test_sources(folder):
    file = write(folder, CLOSED.format("6d"))
    for source in (file, str(file), folder, str(folder)):
        model = load(source)
        assert model.name == "linkage" and len(model.constraints) == 1
    # the URDF by its own path is loaded alone
    assert load(folder / "robot.urdf").constraints == ()
    assert load(folder, floating=True, name="other").joint_names[0] == "root_joint"


def test_another_urdf(folder):
    (folder / "robot.urdf").rename(folder / "arm.urdf")
    assert load(write(folder, CLOSED.format("6d"))).nv == 3
    (folder / "second.urdf").write_text("<robot/>")
    assert load(write(folder, CLOSED.format("6d") + "urdf: arm.urdf\n")).nv == 3


def test_types_default_to_6d_and_motors_to_all(folder):
    model = load(write(folder, "closed_loop: [['end2', 'end3']]\n"))
    assert type(model.constraints[0]) is jd.constraints.Weld
    assert model.actuator_names == ("motor", "free2", "free3")


def test_joints_are_named_by_what_they_move(folder):
    (c,) = load(write(folder, "closed_loop: [['free2', 'end3_frame']]\nname_mot: [motor]\n")).constraints
    assert (c.body_a, c.body_b) == ("bar2", "end3") and c.name == "free2/end3_frame"


def test_joint_types(folder):
    text = CLOSED.format("3d") + "joint_name: [free2, free3]\njoint_type: [SPHERICAL, UJOINT_ZX]\n"
    model = load(write(folder, text))
    assert [repr(k) for k in model.topology.kinds] == ["RevoluteKind", "SphericalKind", "UniversalKind"]
    assert model.joint_names == ("motor", "free2", "free3")
    np.testing.assert_allclose(model.joints.axis[2], [0, 0, 1])
    np.testing.assert_allclose(model.joints.axis2[2], [1, 0, 0])
    q, error = closed(model, [0.8, 1, 0, 0, 0, 1.2, 0.1])
    assert error < 1e-10


@pytest.mark.parametrize("kind", ["SPHERICAL", "UJOINT_XY"])
def test_a_spring_that_a_type_has_no_place_for_is_told(folder, kind):
    file = folder / "robot.urdf"
    spring = '<gazebo reference="free2"><springStiffness>5</springStiffness></gazebo></robot>'
    file.write_text(file.read_text().replace("</robot>", spring))
    text = CLOSED.format("3d") + "joint_name: [free2]\njoint_type: [{}]\n"
    with pytest.warns(jd.ModelWarning, match=f"robot.urdf, line.*'free2' has a spring.*robot.yaml makes it '{kind}'"):
        model = load(write(folder, text.format(kind)))
    assert not model.joints.stiffness.any()
    assert quiet(write(folder, text.format("FIXED"))).nv == 2


def test_fixed_joints(folder):
    model = load(write(folder, CLOSED.format("6d") + "joint_name: [free2]\njoint_type: [FIXED]\n"))
    assert model.joint_names == ("motor", "free3") and "bar2" in model.frame_names


def test_a_urdf_plus_keeps_its_loops(folder):
    file = folder / "robot.urdf"
    gear = (
        '<coupling name="gear"><predecessor link="bar1"/><successor link="bar3"/><ratio value="2"/></coupling></robot>'
    )
    file.write_text(file.read_text().replace("</robot>", gear))
    assert [c.name for c in load(write(folder, CLOSED.format("6d"))).constraints] == ["gear", "end2/end3"]


BAD = {
    "an unknown frame": ("closed_loop: [['end2', 'end9']]", "end9"),
    "a pair of three": ("closed_loop: [['end2', 'end3', 'bar1']]", "closed_loop.*pairs"),
    "no list": ("closed_loop: end2", "closed_loop.*pairs"),
    "a wrong type": ("closed_loop: [['end2', 'end3']]\ntype: ['5d']", "5d"),
    "too few types": ("closed_loop: [['end2', 'end3']]\ntype: ['6d', '6d']", "1 pairs.*2 `type`"),
    "an unknown motor": ("name_mot: ['motor9']", "motor9"),
    "a fixed motor": ("name_mot: ['end2_frame']", "end2_frame"),
    "a motor twice": ("name_mot: ['motor', 'motor']", "'motor' twice"),
    "a motor on a ball": ("name_mot: ['motor']\njoint_name: ['motor']\njoint_type: ['SPHERICAL']", "'motor' has more"),
    "an unknown joint": ("joint_name: ['free9']\njoint_type: ['SPHERICAL']", "free9"),
    "an unknown joint type": ("joint_name: ['free2']\njoint_type: ['BALL']", "'free2'.*BALL"),
    "a degenerate universal": ("joint_name: ['free2']\njoint_type: ['UJOINT_XX']", "UJOINT_XX"),
    "names without types": ("joint_name: ['free2']", "1 `joint_name` for 0"),
    "an unknown key": ("closed_loops: []", "closed_loops"),
    "a key twice": ("type: []\ntype: []", "line 2.*'type' occurs twice"),
    "a key that is nearly right": ("closed_lop: []", "Did you mean closed_loop"),
    "a key of a list": ("? [a, b]\n: c", "line 1.*a key is no plain word"),
    "a number as a key": ("1: 2", "robot.yaml: there is no key '1'"),
    "a date": ("urdf: 2001-99-99", "no file.*2001-99-99"),
    "a number as a name": ("name_mot: [1]", "robot.yaml: `name_mot`.*'1'"),
    "a null as a name": ("name_mot: [null]", "robot.yaml: `name_mot`.*'null'"),
    "a mapping as a name": ("name_mot: [{a: b}]", "robot.yaml: `name_mot` is not a list of names"),
    "a tag": ("name_mot: !!set {a, b}", "line 1.*tag.*set"),
    "a tagged number": ("urdf: !!int zz", "line 1.*tag.*int"),
    "a long number": ("urdf: " + "1" * 5000, "1111"),
    "a null byte": ('urdf: "a\\0b"', "null"),
    "a folder": ("urdf: .", "is a folder, not a file"),
    "a device": ("urdf: /dev/zero", "'/dev/zero' is a device"),
    "deep nesting": ("urdf: " + "[" * 5000, "nests too deeply"),
    "two documents": ("type: []\n---\ntype: []", "line .*cannot be read"),
    "two equal pairs": ("closed_loop: [[end2, end3], [end2, end3]]", "closed_loop.*'end2', 'end3'.*twice"),
    "a pair of one frame": ("closed_loop: [[end2, end2]]", "robot.yaml: .*end2"),
    "no mapping": ("- 1\n- 2", "mapping"),
    "broken YAML": ("closed_loop: [['a'", "line .*cannot be read"),
    "an alias": ("type: &a ['6d']\nname_mot: *a", "line 2.*aliases"),
    "a Python object": ("type: !!python/object/apply:os.system ['true']", "python/object"),
    "a loop within one body": ("closed_loop: [['end2', 'bar2']]", "end2/bar2.*bar2"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named(folder, case):
    text, words = BAD[case]
    with pytest.raises((ValueError, FileNotFoundError), match=f"(?s)`load`.*{words}") as told:
        quiet(write(folder, text + "\n"))
    assert len(str(told.value)) < 700


def test_a_missing_urdf(tmp_path):
    with pytest.raises(ValueError, match=r"robot\.urdf"):
        load(write(tmp_path, "type: []\n"))
    with pytest.raises(FileNotFoundError, match="gone"):
        load(write(tmp_path, "urdf: gone.urdf\n"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="'empty' holds no robot.yaml"):
        load(tmp_path / "empty")


def test_numbers_and_nothing_are_names_as_they_stand(folder):
    file = folder / "robot.urdf"
    file.write_text(file.read_text().replace('name="motor"', 'name="1.0"').replace('name="free2"', 'name="no"'))
    model = load(write(folder, "closed_loop: [['end2', 'end3']]\nname_mot: [1.0, no]\ntype: ~\n"))
    assert model.actuator_names == ("1.0", "no")


def test_bytes_that_are_no_text(folder):
    file = write(folder, "")
    file.write_bytes(b"closed_loop: [['\xff', 'end3']]\n")
    with pytest.raises(ValueError, match=r"robot\.yaml: the YAML cannot be read"):
        load(file)
    odd = folder / os.fsdecode(b"\xff.yaml")
    odd.write_text("closed_lop: []")
    with pytest.raises(ValueError, match="closed_lop"):
        load(odd)
    named = folder / os.fsdecode(b"\xff.urdf")
    named.write_text("<robot/>")
    with pytest.raises(ValueError, match="there is no <link>"):
        load(named)


def test_what_is_no_file(folder):
    for name in ("pipe.yaml", "pipe.urdf"):
        os.mkfifo(folder / name)
        with pytest.raises(ValueError, match=f"`load`.*{name}' is a pipe, not a file"):
            load(folder / name)
    with pytest.raises(ValueError, match="'/dev/zero' is a device"):
        load("/dev/zero")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load("a\0b")
