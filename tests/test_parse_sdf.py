"""SDF: poses, axes, loops and the tree that is chosen, springs, gears, and Cassie."""

import numpy as np
import oracle
import pytest
from parse_help import ROBOTS, closed, quiet

import jaxdyn as jd
from jaxdyn.loaders.load import load

INERTIAL = """<inertial><mass>{}</mass><pose>0.1 0 0.05 0 0 0</pose>
  <inertia><ixx>0.01</ixx><iyy>0.02</iyy><izz>0.015</izz>
  <ixy>0</ixy><ixz>0</ixz><iyz>0</iyz></inertia></inertial>"""


def link(name, pose="0 0 0 0 0 0", mass=1.0, inner=""):
    return f'<link name="{name}"><pose>{pose}</pose>{INERTIAL.format(mass)}{inner}</link>'


def axis(xyz="0 0 1", inner="", tag="axis"):
    return f"<{tag}><xyz>{xyz}</xyz>{inner}</{tag}>"


def joint(name, parent, child, kind="revolute", inner=None, pose=""):
    inner = axis() if inner is None and kind not in ("ball", "fixed") else inner or ""
    pose = f"<pose>{pose}</pose>" if pose else ""
    return f'<joint name="{name}" type="{kind}"><parent>{parent}</parent><child>{child}</child>{pose}{inner}</joint>'


def sdf(*parts, version="1.7", name="robot"):
    return f'<sdf version="{version}"><model name="{name}">' + "\n".join(parts) + "</model></sdf>"


def four_bar(*extra, kinds=("revolute",) * 4, inner=None, tie=True):
    """A square of links a, b, c and the ground, drawn closed; the joints in a ring from the ground to the ground."""
    inner = inner or [None] * 4
    places = ["0 0 0 0 0 0", "0 1 0 0 0 0", "1 1 0 0 0 0", "1 0 0 0 0 0"]
    parts = [link("a", places[0]), link("b", places[1]), link("c", places[2]), link("ground", "2 0 0 0 0 0")]
    parts += [joint("w", "world", "ground", "fixed")] if tie else []
    parts += [
        joint("ja", "ground", "a", kinds[0], inner[0]),
        joint("jb", "a", "b", kinds[1], inner[1]),
        joint("jc", "b", "c", kinds[2], inner[2]),
        # the loop: its child already hangs on b
        joint("jd", "ground", "c", kinds[3], inner[3], pose="0 -1 0 0 0 0"),
    ]
    return sdf(*parts, *extra)


def test_a_pendulum_on_the_world():
    text = sdf(link("rod", "0 0 2 0 0 0"), joint("pin", "world", "rod", pose="0 0 0.5 0.3 0 0", inner=axis("0 1 0")))
    model = load(text)
    assert model.body_names == ("rod",) and model.joint_names == ("pin",) and model.constraints == ()
    np.testing.assert_allclose(model.bodies.placement.translation, [[0, 0, 2.5]])
    # the body's frame is the joint's: the link's own is a frame, and the mass is seen from the joint
    assert model.frame_names == ("rod_origin",)
    c, s = np.cos(0.3), np.sin(0.3)
    R = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
    np.testing.assert_allclose(model.bodies.placement.rotation[0], R, atol=1e-15)
    np.testing.assert_allclose(model.bodies.center_of_mass[0], R.T @ [0.1, 0, 0.05 - 0.5], atol=1e-15)
    np.testing.assert_allclose(model.frames.translation[0], R.T @ [0, 0, -0.5], atol=1e-15)
    np.testing.assert_allclose(model.bodies.rotational[0], R.T @ np.diag([0.01, 0.02, 0.015]) @ R, atol=1e-15)


def test_a_model_floats_unless_tied_or_static():
    parts = link("base", "0 0 1 0 0 0"), link("arm", "0 0 1.5 0 0 0"), joint("j", "base", "arm")
    model = load(sdf(*parts))
    assert model.joint_names == ("root_joint", "j") and model.body_names == ("base", "arm")
    # a free joint's q is the pose in the world
    np.testing.assert_allclose(model.bodies.placement.translation[0], 0)
    fixed = load(sdf(*parts), floating=False)
    assert fixed.joint_names == ("j",)
    np.testing.assert_allclose(fixed.bodies.placement.translation[0], [0, 0, 1.5])
    with pytest.raises(ValueError, match="line 1, <static>.*`floating=True`, but this holds the model still"):
        load(sdf("<static>true</static>", *parts), floating=True)


def test_poses_relative_to_others():
    quarter = f"0 0 0 0 0 {np.pi / 2}"
    parts = [
        f'<frame name="turned"><pose>{quarter}</pose></frame>',
        '<frame name="far" attached_to="a"><pose>0 0 1 0 0 0</pose></frame>',
        link("a").replace("<pose>0 0 0 0 0 0</pose>", '<pose relative_to="turned">1 0 0 0 0 0</pose>', 1),
        link("b").replace("<pose>0 0 0 0 0 0</pose>", '<pose relative_to="far">0 0 1 0 0 0</pose>', 1),
        joint("w", "world", "a"),
        joint("j", "far", "b", inner='<axis><xyz expressed_in="__model__">1 0 0</xyz></axis>'),
    ]
    model = load(sdf(*parts))
    np.testing.assert_allclose(model.bodies.placement.translation, [[0, 1, 0], [0, 0, 2]], atol=1e-15)
    np.testing.assert_allclose(model.joints.axis[1], [0, -1, 0], atol=1e-15)
    assert set(model.frame_names) == {"turned", "far"}


@pytest.mark.parametrize(
    ("version", "flag", "turned"), [("1.4", "", True), ("1.5", "", False), ("1.6", "1", True), ("1.6", "0", False)]
)
def test_the_frame_of_an_axis(version, flag, turned):
    inner = f"<use_parent_model_frame>{flag}</use_parent_model_frame>" if flag else ""
    text = sdf(
        link("rod", f"0 0 0 0 0 {np.pi / 2}"), joint("pin", "world", "rod", inner=axis("1 0 0", inner)), version=version
    )
    np.testing.assert_allclose(load(text).joints.axis[0], [0, -1, 0] if turned else [1, 0, 0], atol=1e-15)


def test_degrees_and_quaternions():
    c = np.cos(np.pi / 4)
    for pose in (
        '<pose degrees="true">0 0 0 0 0 90</pose>',
        f'<pose rotation_format="quat_xyzw">0 0 0 0 0 {c} {c}</pose>',
    ):
        model = load(sdf(link("rod").replace("<pose>0 0 0 0 0 0</pose>", pose, 1), joint("pin", "world", "rod")))
        np.testing.assert_allclose(model.bodies.placement.rotation[0], [[0, -1, 0], [1, 0, 0], [0, 0, 1]], atol=1e-15)


def test_what_a_joint_feels():
    feels = """<limit><lower>-1</lower><upper>2</upper><effort>5</effort></limit><dynamics><damping>0.1</damping>
      <friction>0.2</friction><spring_reference>0.3</spring_reference><spring_stiffness>40</spring_stiffness></dynamics>"""
    parts = [link("a"), link("b"), joint("w", "world", "a", inner=axis("0 0 1", feels))]
    parts += [joint("j", "a", "b", inner=axis("0 0 1", "<limit><lower>-1e16</lower><upper>1e16</upper></limit>"))]
    j = load(sdf(*parts)).joints
    assert (j.lower[0], j.upper[0], j.effort[0]) == (-1, 2, 5)
    assert (j.damping[0], j.friction[0], j.stiffness[0], j.rest[0]) == (0.1, 0.2, 40, 0.3)
    assert np.isinf([j.lower[1], j.upper[1], j.effort[1]]).all()
    # an effort is stated: that joint alone is driven
    assert load(sdf(*parts)).actuator_names == ("w",)


def test_joint_types():
    two = axis("1 0 0") + axis("0 1 0", tag="axis2")
    parts = [link(n) for n in "abcdef"]
    parts += [
        joint("ball", "world", "a", "ball"),
        joint("cardan", "a", "b", "universal", two),
        joint("wheel", "b", "c", "revolute2", two),
        joint("turn", "c", "d", "continuous"),
        joint("slide", "d", "e", "prismatic"),
        joint("bolt", "e", "f", "screw", axis() + "<screw_thread_pitch>0.02</screw_thread_pitch>"),
    ]
    model = load(sdf(*parts))
    kinds = [repr(k).removesuffix("Kind") for k in model.topology.kinds]
    assert kinds == ["Spherical", "Universal", "Universal", "Revolute", "Prismatic", "Helical"]
    np.testing.assert_allclose(model.joints.pitch[-1], 0.02 / (2 * np.pi))
    assert model.actuator_names == ("turn", "slide", "bolt")


def test_a_joint_whose_child_has_a_parent_closes_a_loop():
    model = load(four_bar())
    assert model.joint_names == ("ja", "jb", "jc")
    (hinge,) = model.constraints
    assert (
        type(hinge) is jd.constraints.Hinge and hinge.name == "jd" and (hinge.body_a, hinge.body_b) == ("ground", "c")
    )
    # as drawn the loop is closed
    np.testing.assert_allclose(oracle.constraint_residual(model, np.zeros(3)), 0, atol=1e-15)
    q, error = closed(model, [0.3, 0.0, 0.0])
    assert error < 1e-11 and abs(q[0]) > 0.05
    assert np.linalg.matrix_rank(oracle.constraint_jacobian(model, q), tol=1e-9) == 2


CUT = [
    ("ball", jd.constraints.Point),
    ("revolute", jd.constraints.Hinge),
    ("continuous", jd.constraints.Hinge),
    ("prismatic", jd.constraints.Slider),
    ("fixed", jd.constraints.Weld),
]


@pytest.mark.parametrize(("kind", "constraint"), CUT)
def test_what_stands_for_a_joint_that_is_cut(kind, constraint):
    text = (
        four_bar(kinds=("revolute", "revolute", "revolute", kind))
        if kind != "fixed"
        else four_bar(kinds=("fixed", "fixed", "fixed", "fixed"))
    )
    if kind == "fixed":
        with (
            pytest.warns(jd.ModelWarning, match="fixed to each other already: 'jd'"),
            pytest.warns(jd.ModelWarning, match="no joint moves"),
        ):
            assert load(text).nb == 0
        # a fixed joint is kept and one that moves is cut
        model = load(four_bar(kinds=("revolute", "revolute", "revolute", "fixed")))
        assert model.joint_names == ("ja", "jb") and [c.name for c in model.constraints] == ["jc"]
        return
    (c,) = load(text).constraints
    assert type(c) is constraint and c.name == "jd"
    np.testing.assert_allclose(oracle.constraint_residual(load(text), np.zeros(3)), 0, atol=1e-15)


def test_driven_and_sprung_joints_stay_in_the_tree():
    effort = axis(inner="<limit><effort>10</effort></limit>")
    spring = axis(inner="<dynamics><spring_stiffness>5</spring_stiffness></dynamics>")
    model = load(four_bar(inner=[None, None, effort, spring]))
    # passive joints are cut first, the last of them in the file
    assert model.joint_names == ("ja", "jd", "jc") and [c.name for c in model.constraints] == ["jb"]
    assert model.actuator_names == ("jc",)
    assert float(model.joints.stiffness[1]) == 5


def test_a_spring_that_must_be_cut_is_told():
    spring = axis(inner="<dynamics><spring_stiffness>5</spring_stiffness></dynamics>")
    with pytest.warns(jd.ModelWarning, match="springs.*'jd'"):
        load(four_bar(inner=[spring] * 4))


def test_a_plugin_that_names_a_joint_drives_it():
    model = load(four_bar('<plugin name="p" filename="x"><joint_name>jd</joint_name></plugin>'))
    assert model.joint_names == ("ja", "jb", "jd") and model.actuator_names == ("jd",)


@pytest.mark.parametrize("kind", ["revolute", "prismatic", "ball", "universal", "screw"])
def test_a_joint_entered_from_its_child_moves_the_same_way(kind):
    """The same two links, the joint declared one way and the other: poses agree at the same coordinate."""
    inner = axis("0 0.6 0.8") + (axis("1 0 0", tag="axis2") if kind == "universal" else "")
    inner += "<screw_thread_pitch>0.5</screw_thread_pitch>" if kind == "screw" else ""
    tied = [link("a", "0 0 1 0.1 0.2 0.3"), link("b", "0.5 0 1 -0.3 0 0.4"), joint("w", "world", "a", "fixed")]
    forward = load(sdf(*tied, joint("j", "a", "b", kind, inner, pose="0.1 0 0 0 0.2 0")))
    # declared from b to a, with the frame where it was; a cardan's inverse turns about its axes in the other order
    inner = axis("1 0 0") + axis("0 0.6 0.8", tag="axis2") if kind == "universal" else inner
    backward = load(sdf(*tied, joint("j", "b", "a", kind, inner, pose=_seen_from_a())))
    assert forward.joint_names == backward.joint_names == ("j",)
    rng = np.random.default_rng(3)
    q = rng.uniform(-1, 1, forward.nq)
    # a ball's q is that of the body in what it hangs on; else the motion of b in a is the inverse of a's in b
    q, other = (q / np.linalg.norm(q),) * 2 if kind == "ball" else (q, -q)
    pose = _pose_of(forward, q, "b_origin"), _pose_of(backward, other, "b_origin")
    np.testing.assert_allclose(pose[0][0], pose[1][0], atol=1e-12)
    np.testing.assert_allclose(pose[0][1], pose[1][1], atol=1e-12)


def _matrix(pose):
    x = np.array([float(t) for t in pose.split()])
    (cr, cp, cy), (sr, sp, sy) = np.cos(x[3:]), np.sin(x[3:])
    Rz, Ry, Rx = np.eye(3), np.eye(3), np.eye(3)
    Rz[:2, :2], Ry[::2, ::2], Rx[1:, 1:] = [[cy, -sy], [sy, cy]], [[cp, sp], [-sp, cp]], [[cr, -sr], [sr, cr]]
    out = np.eye(4)
    out[:3, :3], out[:3, 3] = Rz @ Ry @ Rx, x[:3]
    return out


def _seen_from_a():
    a, b, j = (_matrix(p) for p in ("0 0 1 0.1 0.2 0.3", "0.5 0 1 -0.3 0 0.4", "0.1 0 0 0 0.2 0"))
    m = np.linalg.inv(a) @ b @ j
    R = m[:3, :3]
    rpy = np.arctan2(R[2, 1], R[2, 2]), np.arcsin(-R[2, 0]), np.arctan2(R[1, 0], R[0, 0])
    return " ".join(repr(float(x)) for x in (*m[:3, 3], *rpy))


def _pose_of(model, q, name):
    robot = oracle.read(model)
    frame = oracle.attached(robot, oracle.body_frames(robot, np.asarray(q)), name)
    return frame.R, frame.p


def test_rotors_of_drake_are_armature():
    inner = axis() + "<drake:gear_ratio>160</drake:gear_ratio><drake:rotor_inertia>1e-4</drake:rotor_inertia>"
    parts = link("base"), link("a"), joint("j", "base", "a", inner=inner)
    model = load(sdf(*parts), floating=False)
    np.testing.assert_allclose(model.joints.armature, [2.56])
    # a tree that enters the joint from its child has it too
    tied = load(sdf(*parts, joint("foot", "world", "a", "fixed")))
    np.testing.assert_allclose(tied.joints.armature, [2.56])
    ball = joint("j", "base", "a", "ball", inner.replace(axis(), ""))
    with pytest.warns(jd.ModelWarning, match="rotors of joints without a single velocity, left out: 'j'"):
        load(sdf(*parts[:2], ball))
    with pytest.raises(ValueError, match="<joint name='j'>.*armature.*negative"):
        load(sdf(*parts[:2], joint("j", "base", "a", inner=inner.replace("1e-4", "-1e-4"))))


def test_a_gearbox_couples_two_joints():
    gear = axis("0 0 1") + axis("0 0 -1", tag="axis2") + "<gearbox_ratio>0.5</gearbox_ratio>"
    gear += "<gearbox_reference_body>base</gearbox_reference_body>"
    parts = [link("base"), link("rotor"), link("arm"), joint("w", "world", "base", "fixed")]
    parts += [joint("in", "base", "rotor"), joint("out", "base", "arm"), joint("gear", "rotor", "arm", "gearbox", gear)]
    model = load(sdf(*parts))
    assert [c.name for c in model.constraints] == ["gear"] and model.actuator_names == ("in",)
    # theta_2 = -ratio theta_1, where theta_2 is counted about axis2
    np.testing.assert_allclose(oracle.constraint_residual(model, np.array([0.6, 0.3])), 0, atol=1e-15)


def test_mimic():
    mimic = '<mimic joint="j1"><multiplier>2</multiplier><offset>0.1</offset><reference>0.05</reference></mimic>'
    parts = [link("a"), link("b"), joint("j1", "world", "a"), joint("j2", "a", "b", inner=axis(inner=mimic))]
    model = load(sdf(*parts, version="1.11"))
    assert [c.name for c in model.constraints] == ["j2_mimic"] and model.actuator_names == ("j1",)
    np.testing.assert_allclose(
        oracle.constraint_residual(model, np.array([0.3, 2 * (0.3 - 0.05) + 0.1])), 0, atol=1e-15
    )


def test_nested_models():
    parts = link("palm") + link("finger") + joint("f", "palm", "finger")
    inner = f'<model name="hand"><pose>0 0 1 0 0 0</pose>{parts}</model>'
    model = load(sdf(link("arm"), joint("w", "world", "arm"), inner, joint("wrist", "arm", "hand::palm", "fixed")))
    assert model.body_names == ("arm", "hand::finger") and model.joint_names == ("w", "hand::f")
    np.testing.assert_allclose(model.bodies.placement.translation[1], [0, 0, 1])


def test_a_model_without_links_stands_for_the_first_model_in_it():
    inner = f'<model name="hand">{link("palm")}</model>'
    model = load(sdf('<frame name="mark"><pose>0 0 1 0 0 0</pose></frame>', inner))
    assert model.body_names == ("hand::palm",)
    np.testing.assert_allclose(model.frames.translation[model.frame_names.index("mark")], [0, 0, 1])


def test_a_world_with_two_models():
    one = "".join(f'<model name="{n}">{link("rod")}{joint("pin", "world", "rod")}</model>' for n in ("left", "right"))
    model = load(f'<sdf version="1.7"><world name="room"><gravity>0 0 -3.7</gravity>{one}</world></sdf>')
    assert model.name == "room" and model.joint_names == ("left::pin", "right::pin")
    np.testing.assert_allclose(model.gravity, [0, 0, -3.7])


def test_defaults_of_inertials_are_sdfs():
    text = sdf('<link name="rod"/>', joint("pin", "world", "rod"))
    with pytest.warns(jd.ModelWarning, match="'rod'.*1 kg"):
        model = load(text)
    assert model.bodies.mass[0] == 1
    np.testing.assert_allclose(model.bodies.rotational[0], np.eye(3))


def test_the_order_is_the_files():
    parts = [link(n) for n in "abc"] + [joint("j2", "b", "c"), joint("j1", "a", "b"), joint("w", "world", "a")]
    assert load(sdf(*parts)).joint_names == ("w", "j1", "j2")


CASSIE = ROBOTS / "cassie_description" / "robots"


@pytest.mark.parametrize("file", sorted(CASSIE.glob("*.sdf")), ids=lambda p: p.stem)
def test_cassies_load_with_closed_loops(file):
    model = quiet(file)
    residual = oracle.constraint_residual(model, np.array(model.neutral()))
    assert np.abs(residual).max() < 1e-12
    rng = np.random.default_rng(0)
    q = oracle.integrate(model, np.array(model.neutral()), 0.1 * rng.uniform(-1, 1, model.nv), 1.0)
    assert closed(model, q)[1] < 1e-10


def test_cassie():
    """The tree and loops of Agility's model: rods hang on the thighs by their balls, and four points close."""
    with pytest.warns(jd.ModelWarning, match="'right-achilles-spring-joint', 'left-achilles-spring-joint'"):
        model = load(CASSIE / "cassie_v2.sdf")
    assert (model.nb, model.nq, model.nv) == (23, 35, 32)
    assert model.joint_names[:5] == (
        "root_joint",
        "left-roll-op",
        "left-yaw-op",
        "left-pitch-op",
        "left-pitch-rod-joint",
    )
    parents = {n: model.topology.parents[k] for k, n in enumerate(model.body_names)}
    assert model.body_names[parents["left-achilles-rod"]] == "left-hip-pitch"
    assert {c.name: type(c) for c in model.constraints} == {
        f"{side}-{name}-joint": jd.constraints.Point
        for side in ("left", "right")
        for name in ("achilles-spring", "plantar-foot")
    }
    stiffness = np.array(model.joints.stiffness)
    for joint_name, value in (("knee-shin-joint", 1500), ("tarsus-spring-joint", 1250)):
        for side in ("left", "right"):
            assert stiffness[model.v_slice(f"{side}-{joint_name}")] == value
    assert not {a for a in model.actuator_names if "spring" in a or "shin-joint" in a}
    assert abs(float(model.bodies.mass.sum()) - 32.94) < 1e-9


def test_a_hinge_that_does_not_lean_stays_a_hinge():
    """A rod with a ball at one end and a hinge at the other in a truly spatial loop."""
    text = four_bar(
        kinds=("revolute", "revolute", "ball", "revolute"), inner=[axis("1 0 0"), axis("0 1 1"), None, axis("0 1 0")]
    )
    assert [type(c) for c in load(text).constraints] == [jd.constraints.Hinge]
    plane = four_bar(kinds=("revolute", "revolute", "ball", "revolute"))
    assert [type(c) for c in load(plane).constraints] == [jd.constraints.Hinge]


def test_what_is_attached_to_a_joint_moves_with_its_child():
    parts = [link("a"), link("b", "0 0 1 0 0 0"), link("c", "0 0 3 0 0 0"), joint("w", "world", "a", "fixed")]
    parts += [joint("j", "a", "b", pose="0 0 1 0 0 0", inner=axis("1 0 0")), joint("k", "j", "c", inner=axis("1 0 0"))]
    model = load(sdf(*parts, '<frame name="f" attached_to="j"><pose>0 0 0.5 0 0 0</pose></frame>'))
    assert model.topology.parents == (-1, 0)
    at = lambda q: jd.frame_pose(model, np.array(q), "f").translation  # noqa: E731
    np.testing.assert_allclose(at([0.0, 0.0]), [0, 0, 2.5], atol=1e-6)
    np.testing.assert_allclose(at([np.pi / 2, 0.0]), [0, -0.5, 2], atol=1e-6)


def test_a_gearbox_on_the_world():
    gear = axis("0 0 1") + axis("0 0 -1", tag="axis2") + "<gearbox_ratio>0.5</gearbox_ratio>"
    gear += "<gearbox_reference_body>world</gearbox_reference_body>"
    parts = [link("rotor"), link("arm"), joint("in", "world", "rotor"), joint("out", "world", "arm")]
    model = load(sdf(*parts, joint("gear", "rotor", "arm", "gearbox", gear)))
    np.testing.assert_allclose(oracle.constraint_residual(model, np.array([0.6, 0.3])), 0, atol=1e-15)
