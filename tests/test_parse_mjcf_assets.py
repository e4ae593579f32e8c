"""MJCF: meshes that are missing, beside others that are there."""

import pytest

import jaxdyn as jd
from jaxdyn.loaders.load import load

pytest.importorskip("mujoco")

OBJ = "v 0 0 0\nv 1 0 0\nv 0 2 0\nv 0 0 3\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
INERTIAL = '<inertial pos="0 0 0" mass="2" diaginertia=".1 .1 .1"/>'
TEXT = """<mujoco>{}<asset><mesh name="here" file="{}here.obj"/><mesh name="gone" file="{}gone.obj"/></asset><worldbody>
<body name="b">{}<joint/><geom name="g" type="mesh" mesh="here"/><geom name="h" type="mesh" mesh="gone"/></body>
</worldbody></mujoco>"""


def test_a_missing_mesh_that_makes_the_inertia_is_an_error(tmp_path):
    """With `inertiafromgeom` the <inertial> is not used, so that the mesh decides."""
    (tmp_path / "here.obj").write_text(OBJ)
    file = tmp_path / "robot.xml"
    file.write_text(TEXT.format('<compiler inertiafromgeom="true"/>', "", "", INERTIAL))
    with pytest.raises(ValueError, match=r"robot\.xml.*gone\.obj"):
        load(file)


@pytest.mark.parametrize(
    ("compiler", "prefix"),
    [('meshdir="assets"', ""), ('assetdir="assets"', ""), ('meshdir="assets" strippath="true"', "x/")],
)
def test_only_missing_meshes_are_left_out(tmp_path, compiler, prefix):
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "here.obj").write_text(OBJ)
    file = tmp_path / "robot.xml"
    file.write_text(TEXT.format(f"<compiler {compiler}/>", prefix, prefix, INERTIAL))
    with pytest.warns(jd.ModelWarning, match=r"missing files of shapes, which are left out: '[^']*gone\.obj'\.$"):
        found = load(file, collision="all").collision
    assert found.names == ("g",) and found.scene.left_out == ("h",)


def test_meshes_of_attached_models_are_not_missing(tmp_path):
    """An attached model has its own folder of meshes."""
    for folder in ("assets", "sub"):
        (tmp_path / folder).mkdir()
    (tmp_path / "assets" / "here.obj").write_text(OBJ)
    (tmp_path / "sub" / "part.xml").write_text(
        '<mujoco><compiler meshdir="../assets"/><asset><mesh name="m" file="here.obj"/></asset><worldbody>'
        f'<body name="p">{INERTIAL}<joint/><geom name="g" type="mesh" mesh="m"/></body></worldbody></mujoco>'
    )
    file = tmp_path / "robot.xml"
    file.write_text(
        '<mujoco><asset><model name="s" file="sub/part.xml"/><mesh name="n" file="gone.obj"/></asset><worldbody>'
        f'<body name="b">{INERTIAL}<joint/><geom name="h" type="mesh" mesh="n"/>'
        '<attach model="s" body="p" prefix="x_"/></body></worldbody></mujoco>'
    )
    with pytest.warns(jd.ModelWarning, match=r"left out: 'gone\.obj'\.$"):
        found = load(file, collision="all").collision
    assert found.names == ("x_g",) and found.scene.left_out == ("h",)


def test_files_that_attach_each_other_are_an_error(tmp_path):
    (tmp_path / "sub").mkdir()
    for file, other in (("robot.xml", "sub/part.xml"), ("sub/part.xml", "../sub/../robot.xml")):
        text = f'<mujoco><asset><model name="s" file="{other}"/></asset></mujoco>'
        (tmp_path / file).write_text(text.replace("<asset>", f'<worldbody/><include file="{other}"/><asset>'))
    with pytest.raises(ValueError, match=r"robot\.xml: MuJoCo refuses the file"):
        load(tmp_path / "robot.xml")
