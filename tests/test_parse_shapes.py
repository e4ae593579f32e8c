"""Shapes as URDF, SDF and MJCF tell of them, beside MuJoCo and Coal; broken ones are told and never stop a file."""

import os
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from parse_help import ROBOTS, joint, link, urdf
from test_parse_bad_input import body, sdf

import jaxdyn as jd

TRIANGLES = "v 0 0 0\nv 1 0 0\nv 0 2 0\nv 0 0 3\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"


def quiet_load(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return jd.load(*args, **options)


def robot(*collisions: str, extra: str = "") -> str:
    """A URDF of two links, the second one with these shapes."""
    return urdf(link("a"), link("b", inner="".join(collisions)), joint("j", "a", "b"), extra)


def shape(geometry: str, name: str = "", origin: str = "") -> str:
    told = f' name="{name}"' if name else ""
    return f"<collision{told}>{origin}<geometry>{geometry}</geometry></collision>"


def sizes(model) -> dict:
    found = model.collision
    return {s.name: (s.kind, *np.asarray(found.size[k]).round(6).tolist()) for k, s in enumerate(found.shapes)}


def test_shapes_of_urdf():
    """Every kind, names and where they come from, poses, and the surfaces that Gazebo and Bullet give."""
    at = '<origin xyz="1 2 3" rpy="0 0 1.5707963"/>'
    contact = (
        '<contact><lateral_friction value="0.7"/><spinning_friction value="0.02"/><stiffness value="300"/></contact>'
    )
    model = quiet_load(
        robot(
            shape('<box size="2 4 6"/>', origin=at),
            shape('<sphere radius="0.5"/>', "ball"),
            shape('<cylinder radius="0.1" length="2"/>', "ball"),
            shape('<capsule radius="0.1" length="2"/>'),
            contact,
            extra='<gazebo reference="a"><mu1>0.3</mu1></gazebo>',
        ).replace('<link name="a">', '<link name="a">' + shape('<sphere radius="1"/>', "low"))
    )
    assert sizes(model) == {
        "low": ("sphere", 1, 0, 0),
        "b": ("box", 1, 2, 3),
        "b_ball": ("sphere", 0.5, 0, 0),
        "b_ball_1": ("cylinder", 0.1, 1, 0),
        "b_1": ("capsule", 0.1, 1, 0),
    }
    found = model.collision
    np.testing.assert_allclose(found.placement.translation[1], [1, 2, 3])
    np.testing.assert_allclose(found.placement.rotation[1] @ np.array([1.0, 0, 0]), [0, 1, 0], atol=1e-6)
    np.testing.assert_allclose(found.friction, [0.3, 0.7, 0.7, 0.7, 0.7], rtol=1e-6)
    np.testing.assert_allclose(found.torsion, [0, *[0.02] * 4], rtol=1e-6)
    np.testing.assert_allclose(found.stiffness, [np.inf, *[300] * 4])
    # the root link is fixed to the world: its shapes meet those of the moving one
    assert found.pairs == tuple((k, 0) for k in range(1, 5))


def test_the_masks_of_sdf():
    """Two shapes collide if their masks share a bit; one without a mask has the sixteen lowest."""
    ball = "<geometry><sphere><radius>0.1</radius></sphere></geometry>"

    def file(*contacts):
        one = '<collision name="{}">{}<surface><contact>{}</contact></surface></collision>'.format
        shapes = (one(k, ball, c) for k, c in enumerate(contacts))
        models = (f'<model name="m{k}">{body("b", c)}</model>' for k, c in enumerate(shapes))
        return f'<sdf version="1.9"><world name="w">{"".join(models)}</world></sdf>'

    mask = "<collide_bitmask>{}</collide_bitmask>".format
    ghost = "<collide_without_contact>true</collide_without_contact>"
    model = quiet_load(file(mask("0x01"), mask("2"), mask("0x00"), "", ghost, mask("65536")))
    names = model.collision.names
    assert names == ("0", "1", "3", "5")
    assert {(names[i], names[j]) for i, j in model.collision.pairs} == {("0", "3"), ("1", "3")}
    with pytest.warns(jd.ModelWarning, match="cannot be read.*'0'.*<collide_bitmask>.*not a bit mask"):
        jd.load(file(mask("-1")))


def test_shapes_of_sdf():
    surface = (
        "<surface><friction><ode><mu>0.4</mu></ode><torsional><coefficient>0.5</coefficient>"
        "<patch_radius>0.1</patch_radius></torsional></friction><bounce><restitution_coefficient>0.6"
        "</restitution_coefficient></bounce></surface>"
    )
    shapes = "".join(
        f'<collision name="{n}"><pose>{p}</pose><geometry>{g}</geometry>{s}</collision>'
        for n, p, g, s in (
            ("c", "0 0 1 0 0 0", "<box><size>2 4 6</size></box>", surface),
            ("d", "0 0 0 0 0 0", "<ellipsoid><radii>1 2 3</radii></ellipsoid>", ""),
        )
    )
    floor = '<collision name="c"><geometry><plane><normal>1 0 0</normal></plane></geometry></collision>'
    moved = body("a", shapes).replace('<link name="a">', '<link name="a"><pose>0 0 5 0 0 0</pose>')
    tie = '<joint name="t" type="fixed"><parent>world</parent><child>b</child></joint>'
    model = quiet_load(sdf(moved, body("b", floor), tie))
    assert sizes(model) == {"a_c": ("box", 1, 2, 3), "d": ("ellipsoid", 1, 2, 3), "b_c": ("plane", 0, 0, 0)}
    found = model.collision
    np.testing.assert_allclose(found.friction, [0.4, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(found.restitution, [0.6, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(found.torsion, [3 * np.pi / 16 * 0.1 * 0.5, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(found.placement.translation, [[0, 0, 1], [0, 0, 0], [0, 0, 0]], atol=1e-7)
    np.testing.assert_allclose(found.placement.rotation[2][:, 2], [1, 0, 0], atol=1e-7)
    assert found.pairs == ((0, 2), (1, 2))


def test_friction_that_files_state_for_drake():
    own = "<drake:proximity_properties><drake:mu_static{0}<drake:mu_dynamic{0}</drake:proximity_properties>"
    ball = '<collision name="{}"><geometry>{}</geometry>{}</collision>'
    with warnings.catch_warnings():
        warnings.simplefilter("error", jd.ModelWarning)
        stated = own.replace("{0}", ">0.6</drake:mu_static>", 1).replace("{0}", ">0.4</drake:mu_dynamic>", 1)
        gazebo = "<surface><friction><ode><mu>0.2</mu></ode></friction></surface>"
        sphere = "<sphere><radius>1</radius></sphere>"
        inner = ball.format("c", sphere, stated) + ball.format("d", sphere, stated + gazebo)
        np.testing.assert_allclose(jd.load(sdf(body("a", inner))).collision.friction, [0.4, 0.2], rtol=1e-6)
        inner = ball.format(
            "c", '<sphere radius="1"/>', own.replace("{0}", ' value="0.6"/>', 1).format(' value="0.4"/>')
        )
        np.testing.assert_allclose(jd.load(robot(inner)).collision.friction, [0.4], rtol=1e-6)


@pytest.mark.parametrize("tag", ["surface", "friction", "ode", "mu"])
def test_surfaces_that_are_told_twice(tag):
    """Neither is taken without a word."""
    surface = "<surface><friction><ode><mu>0.4</mu></ode></friction></surface>"
    inner = re.search(f"<{tag}>.*</{tag}>", surface)[0]
    ball = "<geometry><sphere><radius>1</radius></sphere></geometry>"
    text = sdf(body("a", f'<collision name="c">{ball}{surface.replace(inner, 2 * inner)}</collision>'))
    with pytest.warns(jd.ModelWarning, match=f"'c' .*takes one <{tag}>, this is the second"):
        assert jd.load(text).collision.names == ()


def test_the_ground():
    text = robot(shape('<sphere radius="1"/>', "ground"))
    with pytest.raises(ValueError, match="`load`: `ground`: the file has a shape 'ground' already"):
        jd.load(text, ground=True)
    model = quiet_load(text.replace('"ground"', '"ball"'), ground=0.3, floating=True)
    assert model.collision.names == ("ball", "ground") and model.collision.pairs == ((0, 1),)
    assert float(model.collision.friction[1]) == pytest.approx(0.3)
    text = text.replace('"ground"', '"ball"')
    for wrong, words in ((-1.0, "`ground` is negative"), (float("nan"), "`ground` is not finite")):
        with pytest.raises(ValueError, match=words):
            jd.load(text, ground=wrong)
    with pytest.raises(TypeError, match="`load`: `ground` is not an array of numbers"):
        jd.load(text, ground="floor")
    with pytest.raises(TypeError, match="`self_collisions` is 1, neither"):
        jd.load(text, self_collisions=1)
    with pytest.raises(ValueError, match="`collision` is 'meshes', none of 'all', 'primitives', 'none'"):
        jd.load(text, collision="meshes")


BROKEN = {
    "a radius of zero": ('<sphere radius="0"/>', "line 4: `Sphere`: `radius` is not positive"),
    "a size that is no number": ('<box size="1 nan 1"/>', "line 4, <box>.*`size` holds 'nan'"),
    "a size of two": ('<box size="1 1"/>', "`size` takes 3 numbers"),
    "a huge size": ('<box size="1 1e300 1"/>', "beyond the range"),
    "no size": ("<cylinder radius='1'/>", "`length` is missing"),
    "an unknown shape": ("<torus/>", "<torus>.*no shape that is read"),
    "two shapes": ('<sphere radius="1"/><sphere radius="1"/>', "holds 2 shapes"),
    "no shape": ("", "holds 0 shapes"),
    "a missing mesh": ('<mesh filename="no.stl"/>', "the file 'no.stl' is missing"),
    "an unknown format": ('<mesh filename="robot.urdf"/>', "the format 'urdf' is none of stl, obj"),
    "a broken mesh": ('<mesh filename="broken.stl"/>', "'broken.stl': it "),
    "a mesh without a name": ("<mesh/>", "`filename` is missing"),
    "a mesh of nothing": ('<mesh filename="empty.obj"/>', "'empty.obj': it"),
    "a pipe": ('<mesh filename="pipe.stl"/>', "'pipe.stl' is missing"),
    "a folder": ('<mesh filename="package://../../../etc"/>', "is missing"),
    "a null": ('<mesh filename="file:///a%00b.stl"/>', "is missing"),
    "a plane that moves": ('<plane normal="0 0 1"/>', None),
    "a plane without a direction": ('<plane normal="0 0 0"/>', "the normal is zero"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_shapes_are_left_out_and_told(case, tmp_path):
    """Such files loaded before their shapes were read, and load as ever."""
    geometry, words = BROKEN[case]
    path = tmp_path / "robot.urdf"
    path.write_text(robot(shape('<sphere radius="1"/>', "good"), shape(geometry, "bad")))
    (tmp_path / "broken.stl").write_bytes(b"solid what is this\x00\xff" * 30)
    (tmp_path / "empty.obj").write_text("\n")
    os.mkfifo(tmp_path / "pipe.stl")
    with pytest.warns(jd.ModelWarning) as told:
        model = jd.load(path, collision="all")
    texts = [str(w.message) for w in told]
    lost = [t for t in texts if "shapes that cannot be read" in t]
    assert len(lost) == 1 and "'bad' (" in lost[0] and "robot.urdf, line 4" in lost[0]
    assert re.search(words or "stands on the world", lost[0]), lost[0]
    assert model.collision.names == ("good",) and model.collision.scene.left_out == ("bad",)


def test_meshes_are_read_where_they_are_wanted(tmp_path):
    path = tmp_path / "robot.urdf"
    mesh = '<mesh filename="{}" scale="1 1 0.5"/>'
    path.write_text(robot(shape(mesh.format("tetra.obj"), "foot"), shape(mesh.format("gone.stl"), "lost")))
    (tmp_path / "tetra.obj").write_text(TRIANGLES)
    with pytest.warns(jd.ModelWarning, match="a mesh is missing, first 'gone.stl'"):
        model = jd.load(path)
    assert model.collision.shapes == () and model.collision.scene.left_out == ("foot", "lost")
    with pytest.warns(
        jd.ModelWarning, match=r"collide with nothing: 'lost' \(line \d+: the file 'gone.stl' is missing\)"
    ):
        model = jd.load(path, ground=True)
    assert model.collision.names == ("foot", "ground") and model.collision.scene.left_out == ("lost",)
    corners = sorted(map(tuple, np.asarray(model.collision.vertices[0]).round(6).tolist()))
    assert corners == [(0, 0, 0), (0, 0, 1.5), (0, 2, 0), (1, 0, 0)]
    with pytest.warns(jd.ModelWarning, match="missing"):
        assert jd.load(path, collision="none").collision == jd.load(path, collision="none").collision


MJCF = """<mujoco><compiler angle="radian"/><asset><mesh name="m" vertex="0 0 0 1 0 0 0 1 0 0 0 1 .2 .2 .2"/>
<hfield name="h" nrow="2" ncol="3" elevation="0 1 2 3 4 5" size="1 2 0.5 0.1"/></asset><worldbody>
<geom name="floor" type="plane" size="1 1 1" pos="0 0 -1" quat="1 0.1 0 0" friction="0.4"/>
<geom name="hills" type="hfield" hfield="h" pos="9 0 0"/>
<body name="b" pos="0 0 1"><freejoint/><geom name="ball" size="0.1" pos="0.1 0.2 0.3"/>
  <geom type="capsule" fromto="0 0 0 0.3 0.4 0" size="0.05" condim="4" friction="0.5 0.03 0.001"/>
  <geom name="seen" size="1" contype="0" conaffinity="0"/>
  <body name="c" pos="0.3 0 0" quat="1 1 0 0">
    <joint name="x" axis="0 0 1" pos="0.1 0 0" ref="0.3"/><joint axis="0 1 0"/>
    <geom type="ellipsoid" size="0.1 0.2 0.3" priority="2" condim="1"/>
    <geom name="hull" type="mesh" mesh="m" pos="1 0 0"/>
    <body name="d"><geom type="box" size="0.1 0.2 0.3" euler="0.1 0.2 0.3" contype="2" conaffinity="4"/>
      <body name="e" pos="0 0 1"><joint type="ball"/><geom type="cylinder" size="0.1 0.2" pos="0 1 0"/></body>
</body></body></body></worldbody></mujoco>"""


@pytest.mark.parametrize("kind", ["URDF", "MJCF"])
def test_a_shape_keeps_its_name_before_one_that_has_none(kind):
    """The name of a body, which a shape without a name gets, may be that of a later shape."""
    if kind == "URDF":
        ball = '<sphere radius="0.1"/>'
        text = robot(shape(ball), shape(ball, "b"))
    else:
        pytest.importorskip("mujoco")
        text = '<mujoco><worldbody><body name="b"><joint/><geom size=".1"/><geom name="b" size=".2"/></body>'
        text += "</worldbody></mujoco>"
    assert quiet_load(text).collision.names == ("b_1", "b")


def mujoco_poses(m, q):
    """The poses of MuJoCo's geoms in the world."""
    mujoco = pytest.importorskip("mujoco")
    data = mujoco.MjData(m)
    data.qpos[:] = q
    mujoco.mj_kinematics(m, data)
    return data.geom_xpos.copy(), data.geom_xmat.reshape(-1, 3, 3).copy()


def our_poses(model, q):
    """The poses of a model's shapes in the world."""
    found, bodies = model.collision, jd.forward_kinematics(model, q)
    world = jd.Transform.identity()
    poses = [(world if s.body < 0 else bodies[s.body]) @ found.placement[k] for k, s in enumerate(found.shapes)]
    return np.array([p.translation for p in poses]), np.array([p.rotation for p in poses])


def test_shapes_of_mjcf():
    """Sizes, surfaces, and poses at random configurations, as MuJoCo has them."""
    mujoco = pytest.importorskip("mujoco")
    model = quiet_load(MJCF, collision="all")
    assert sizes(model) == {
        "floor": ("plane", 0, 0, 0),
        "hills": ("heights", 1, 2, 0),
        "ball": ("sphere", 0.1, 0, 0),
        "b": ("capsule", 0.05, 0.25, 0),
        "c": ("ellipsoid", 0.1, 0.2, 0.3),
        "hull": ("mesh", 0, 0, 0),
        "d": ("box", 0.1, 0.2, 0.3),
        "e": ("cylinder", 0.1, 0.2, 0),
    }
    found = model.collision
    np.testing.assert_allclose(found.friction, [0.4, 1, 1, 0.5, 1, 1, 1, 1], rtol=1e-6)
    np.testing.assert_allclose(found.torsion, [0.005, 0.005, 0.005, 0.03, *[0.005] * 4], rtol=1e-6)
    assert [s.dimension for s in found.shapes] == [3, 3, 3, 4, 1, 3, 3, 3]
    assert [s.priority for s in found.shapes] == [0, 0, 0, 0, 2, 0, 0, 0]
    m = mujoco.MjModel.from_xml_string(MJCF)
    data, hit = mujoco.MjData(m), np.zeros(1, np.int32)
    mujoco.mj_forward(m, data)
    for row, column in np.ndindex(2, 3):
        x, y = 8.999 + 0.998 * (column - 1), 1.998 * (2 * row - 1)
        depth = mujoco.mj_ray(m, data, np.array([x, y, 5.0]), np.array([0, 0, -1.0]), None, 1, -1, hit)
        assert float(found.grids[0][row, column]) == pytest.approx(5 - depth, abs=1e-3)
    kept = [g for g in range(m.ngeom) if m.geom(g).name != "seen"]
    rng = np.random.default_rng(0)
    for _ in range(3):
        q = rng.standard_normal(m.nq)
        q[3:7] /= np.linalg.norm(q[3:7])
        q[-4:] /= np.linalg.norm(q[-4:])
        for ours, theirs in zip(our_poses(model, q), mujoco_poses(m, q), strict=True):
            np.testing.assert_allclose(ours, theirs[kept], atol=1e-5)
    corners = np.asarray(found.vertices[0])
    first = int(m.mesh_vertadr[0])
    every = m.mesh_vert[first : first + m.mesh_vertnum[0]]
    assert len(corners) == 4 and np.abs(every[:, None] - corners[None]).max(2).min(0).max() < 1e-6
    assert sizes(quiet_load(MJCF)).keys() == sizes(model).keys() - {"hull"}


def crowd(seed: int) -> str:
    """An MJCF of balls that all overlap, in trees of random forms, with random masks, excludes and pairs."""
    rng = np.random.default_rng(seed)
    masks = lambda: f'contype="{rng.integers(4)}" conaffinity="{rng.integers(4)}"'  # noqa: E731
    holder: dict[int, list[int]] = {k: [] for k in range(-1, 12)}
    for k in range(12):
        holder[int(rng.integers(-1, k)) if k else -1].append(k)

    def bodies(k: int) -> str:
        joint = rng.choice(["", '<joint axis="0 1 0"/>', '<joint type="ball"/>'])
        inner = "".join(bodies(c) for c in holder[k])
        return f'<body name="b{k}">{joint}<geom name="g{k}" size="1" {masks()}/>{inner}</body>'

    names = [f"{n}" for n in rng.permutation(12)]
    extra = "".join(f'<exclude body1="b{a}" body2="b{b}"/>' for a, b in (names[:2], names[2:4]))
    extra += f'<pair geom1="g{names[4]}" geom2="g{names[5]}"/>'
    top = "".join(bodies(k) for k in holder[-1])
    return f'<mujoco><worldbody><geom name="w" size="1"/>{top}</worldbody><contact>{extra}</contact></mujoco>'


@pytest.mark.parametrize("seed", range(20))
def test_pairs_are_those_of_mujoco(seed):
    """Of balls that overlap, MuJoCo makes contacts of exactly the pairs that collide."""
    mujoco = pytest.importorskip("mujoco")
    m = mujoco.MjModel.from_xml_string(crowd(seed))
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    ends = {tuple(int(g) for g in c.geom) for c in data.contact}
    # a pair that the file tells of on what does not move against itself is no contact that could do anything
    weld = m.body_weldid[m.geom_bodyid]
    theirs = {frozenset((m.geom(a).name, m.geom(b).name)) for a, b in ends if weld[a] != weld[b]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = jd.load(crowd(seed), self_collisions=True).collision
    names = found.names
    ours = {frozenset((names[i], names[j])) for i, j in found.pairs}
    assert ours == theirs


def world_boxes(model, q):
    """The smallest and largest coordinates of meshes in the world, sorted."""
    found = model.collision
    places, turns = our_poses(model, q)
    out = []
    for s, p, R in zip(found.shapes, places, turns, strict=True):
        if s.kind == "mesh":
            x = np.asarray(found.vertices[s.data]) @ R.T + p
            out.append([*x.min(0), *x.max(0)])
    return np.array(sorted(out))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["finger_edu_description/robots/finger_edu.urdf", "double_pendulum_description/urdf/double_pendulum.urdf"]
)
def test_meshes_are_where_pinocchio_has_them(name):
    pin = pytest.importorskip("pinocchio")
    path = ROBOTS / name
    folder = str(Path(ROBOTS).parent.parent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = jd.load(path, collision="all")
    other = pin.buildModelFromUrdf(str(path))
    shapes = pin.buildGeomFromUrdf(other, str(path), pin.GeometryType.COLLISION, folder)
    data, gdata = other.createData(), shapes.createData()
    pin.updateGeometryPlacements(other, data, shapes, gdata, pin.neutral(other))
    out = []
    for k, g in enumerate(shapes.geometryObjects):
        if hasattr(g.geometry, "vertices"):
            x = np.asarray(g.geometry.vertices())
            x = x @ gdata.oMg[k].rotation.T + gdata.oMg[k].translation
            out.append([*x.min(0), *x.max(0)])
    assert out and len(out) == len(world_boxes(model, model.neutral()))
    # of hulls with many vertices the outermost are kept, so that boxes differ by little
    np.testing.assert_allclose(world_boxes(model, model.neutral()), np.array(sorted(out)), atol=3e-3)


def surfaces(seed: int) -> str:
    """An MJCF of balls on a floor that differ in contact dimension, friction and priority."""
    rng = np.random.default_rng(seed)

    def surface() -> str:
        slide, twist = rng.uniform(0.1, 2, 2).round(3)
        dimension, priority = rng.choice([1, 3, 4]), rng.choice([0, 0, 1])
        return f'condim="{dimension}" priority="{priority}" friction="{slide} {twist} 0"'

    balls = "".join(
        f'<body name="b{k}" pos="0 0 .09"><freejoint/><geom name="g{k}" size=".1" {surface()}/></body>'
        for k in range(6)
    )
    floor = f'<geom name="floor" type="plane" size="9 9 1" {surface()}/>'
    return f"<mujoco><worldbody>{floor}{balls}</worldbody></mujoco>"


@pytest.mark.parametrize("seed", range(6))
def test_surfaces_of_pairs_are_those_of_mujoco(seed):
    """A contact has the larger dimension and the larger friction of its geoms, or those of the larger priority."""
    mujoco = pytest.importorskip("mujoco")
    m = mujoco.MjModel.from_xml_string(surfaces(seed))
    data = mujoco.MjData(m)
    mujoco.mj_forward(m, data)
    theirs = {}
    for c in data.contact:
        torsion = c.friction[2] if c.dim >= 4 else 0
        theirs[frozenset(m.geom(g).name for g in c.geom)] = (c.friction[0] if c.dim >= 3 else 0, torsion)
    model = quiet_load(surfaces(seed))
    found = model.collision
    values = found.of_pairs()
    assert len(theirs) == len(found.pairs) == 21
    for (i, j), friction, torsion in zip(found.pairs, values.friction, values.torsion, strict=True):
        expected = theirs[frozenset((found.names[i], found.names[j]))]
        np.testing.assert_allclose((friction, torsion), expected, rtol=1e-5)
        assert found.scene.twists((i, j)) == (expected[1] > 0)


def test_contact_dimensions_on_a_ground_that_is_added():
    """Dimensions that only one of two shapes has: the ground rubs by itself, and does not make others resist twists."""
    ball = '<body pos="0 0 1"><freejoint/><geom size=".1" condim="{}" friction="2 .5 0"/></body>'
    for dimension, torsion in ((1, 0), (3, 0), (4, 0.5)):
        text = f"<mujoco><worldbody>{ball.format(dimension)}</worldbody></mujoco>"
        model = quiet_load(text, ground=1.0)
        found = model.collision.of_pairs()
        np.testing.assert_allclose((found.friction[0], found.torsion[0]), (2, torsion), rtol=1e-6)
        # the ground's own torsion acts if it gets one
        given = model.replace({"collision.torsion": np.array([0.5, 0.02])}).collision
        assert given.scene.twists(given.pairs[0])
        np.testing.assert_allclose(given.of_pairs().torsion, [torsion or 0.02], rtol=1e-6)


@pytest.mark.parametrize("masks", ['contype="0" conaffinity="0"', 'contype="-2147483648" conaffinity="0"', ""])
def test_all_shapes_of_mjcf_collide_with_the_ground(masks):
    """Those too that collide only by a `<pair>`, or by the highest bit of their masks."""
    bodies = "".join(
        f'<body name="{n}" pos="{x} 0 1"><freejoint/><geom name="{n}" size=".1" {masks}/></body>'
        for x, n in enumerate("ab")
    )
    pair = '<contact><pair geom1="a" geom2="b"/></contact>'
    found = quiet_load(f"<mujoco><worldbody>{bodies}</worldbody>{pair}</mujoco>", ground=True).collision
    assert {(found.names[i], found.names[j]) for i, j in found.pairs} == {("a", "b"), ("a", "ground"), ("b", "ground")}


def test_a_ground_with_masks_collides_by_them():
    spec = jd.ModelSpec("two")
    for name, mask in (("a", 1), ("b", 2)):
        spec.add_body(name, "world", jd.joints.Free(), inertia=jd.Inertia(1.0, (0, 0, 0), np.eye(3)))
        spec.add_shape(name, jd.shapes.Sphere(0.1), collides=mask, collides_with=mask)
    assert spec.add_ground(collides=2, collides_with=2).build().collision.pairs == ((1, 2),)
