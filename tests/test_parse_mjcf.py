"""MJCF: the same dynamics as MuJoCo's, its equalities as constraints, its actuators."""

import builtins
import os
import pickle
import re

import equinox as eqx
import jax
import numpy as np
import oracle
import pytest
from parse_help import closed, mujoco_mass_matrix, quiet

import jaxdyn as jd
from jaxdyn import interop
from jaxdyn.loaders.load import load

mujoco = pytest.importorskip("mujoco")

TREE = """<mujoco model="zoo"><option gravity="0.3 0.2 -9.5"/><worldbody>
<body name="base" pos="0 0 1"><freejoint name="fly"/><geom size=".1 .2 .3" type="box" mass="3"/>
  <body name="leg" pos=".1 .2 .3" euler="10 20 30">
    <joint name="hip" axis="0 1 0" pos="0 0 .1" ref="30" stiffness="2" springref="10" range="-60 90" limited="true"/>
    <joint name="slide" type="slide" axis="1 0 0" armature=".2" damping=".4" frictionloss=".1"/>
    <geom size=".1" mass="1" pos="0 .1 .2"/><site name="toe" pos="0 .1 0" euler="0 30 0"/>
    <body name="shoe" pos="0 0 -.2" euler="0 40 0"><geom size=".05" mass=".3" pos=".1 0 0"/><site name="sole"/></body>
  </body>
  <body name="arm" pos="0 .2 .3"><joint name="ball" type="ball" damping=".1" stiffness="1.5"/>
    <inertial pos=".1 .2 .3" mass="2" fullinertia="1 1.2 1.4 .1 .2 .05"/><site name="hand" pos="0 .1 0"/></body>
</body>
<body name="cart" pos="2 0 1"><joint name="x" type="slide" axis="1 0 0"/><joint name="y" axis="0 1 0" pos=".1 0 .2"/>
  <joint name="z" axis="0 1 1" pos=".3 .2 0"/><geom size=".1" mass="1" pos=".2 .1 0"/>
  <site name="dock" pos=".1 .2 0" euler="20 0 10"/></body>
</worldbody>{}</mujoco>"""


def both(extra=""):
    """The model here and MuJoCo's."""
    text = TREE.format(extra)
    return quiet(text), mujoco.MjModel.from_xml_string(text)


def velocity_map(model, mj_model, q, v):
    """T with qvel = T v."""
    return np.array(jax.jacobian(lambda u: interop.to_mujoco(model, mj_model, jd.State(q, u))[1])(v))


def test_names():
    model, _ = both()
    assert model.name == "zoo"
    assert model.joint_names == ("fly", "hip", "slide", "ball", "x", "y", "z")
    assert model.body_names == ("base", "leg_hip", "leg", "arm", "cart_x", "cart_y", "cart")
    assert model.frame_names == ("shoe", "cart_origin", "toe", "sole", "hand", "dock")
    np.testing.assert_allclose(model.gravity, [0.3, 0.2, -9.5])
    at = model.v_slice("slide")
    assert (model.joints.armature[at], model.joints.damping[at], model.joints.friction[at]) == (0.2, 0.4, 0.1)
    np.testing.assert_allclose(model.joints.upper[model.v_slice("hip")], np.pi / 2)


def test_dynamics_are_mujocos():
    model, mm = both()
    state = model.random_state(jax.random.key(0))
    q, v = np.array(state.q), np.array(state.v)
    data = mujoco.MjData(mm)
    data.qpos[:], data.qvel[:] = (np.array(x) for x in interop.to_mujoco(model, mm, state))
    mujoco.mj_forward(mm, data)
    M = mujoco_mass_matrix(mm, data)
    T = velocity_map(model, mm, state.q, state.v)
    np.testing.assert_allclose(oracle.mass_matrix(model, q), T.T @ M @ T, atol=1e-12)
    np.testing.assert_allclose(oracle.passive_forces(model, q, v), T.T @ data.qfrc_passive, atol=1e-12)
    # qvel = T v, so M d(T v)/dt + bias is the force, in v's axes
    step = 1e-5
    ends = [velocity_map(model, mm, oracle.integrate(model, q, v, s), state.v) for s in (step, -step)]
    rate = (ends[0] - ends[1]) / (2 * step)
    bias = T.T @ (data.qfrc_bias + M @ rate @ v)
    np.testing.assert_allclose(oracle.bias_forces(model, q, v), bias, atol=1e-7)


EQUALITIES = """<tendon><fixed name="cord"><joint joint="hip" coef="1"/><joint joint="slide" coef="2"/></fixed></tendon>
<equality><connect name="pin" body1="leg" body2="arm" anchor=".1 0 0"/><weld name="glue" body1="leg" body2="arm"/>
<connect name="sites" site1="hand" site2="toe"/><weld name="welded" site1="hand" site2="dock"/>
<weld name="posed" body1="cart" body2="arm" anchor=".3 .2 .1" relpose=".1 .2 .3 1 .2 .3 .1"/>
<weld name="loose" body1="cart" body2="arm" anchor=".3 .2 .1" relpose=".1 .2 .3 1 .2 .3 .1" torquescale="0"/>
<weld name="loose sites" site1="hand" site2="dock" torquescale="0"/>
<joint name="gear" joint1="hip" joint2="slide" polycoef=".1 2 0 0 0"/><joint name="lock" joint1="y"/>
<tendon name="taut" tendon1="cord"/><connect name="ground" body1="cart" anchor="0 0 .5"/></equality>"""


def test_equalities():
    with pytest.warns(jd.ModelWarning, match="q = ref is the file's pose.*'hip'"):
        model = load(TREE.format(EQUALITIES))
    mm = mujoco.MjModel.from_xml_string(TREE.format(EQUALITIES))
    kinds = {c.name: type(c) for c in model.constraints}
    points = ("pin", "sites", "ground", "loose", "loose sites")
    welds, gears = ("glue", "welded", "posed"), ("gear", "lock", "taut")
    expected = (
        dict.fromkeys(points, jd.constraints.Point)
        | dict.fromkeys(welds, jd.constraints.Weld)
        | dict.fromkeys(gears, jd.constraints.Coupling)
    )
    assert kinds == expected
    # at MuJoCo's initial pose what it builds from that pose is closed
    q0 = np.array(interop.from_mujoco(model, mm, mm.qpos0).q)
    for c in model.constraints:
        if c.name not in ("sites", "welded", "posed", "gear", "loose", "loose sites"):
            assert np.abs(oracle.constraint_residual(model, q0, (c,))).max() < 1e-12, c.name


@pytest.mark.parametrize(
    "name", ["pin", "glue", "sites", "welded", "posed", "loose", "loose sites", "gear", "lock", "taut", "ground"]
)
def test_equalities_span_mujocos_rows_and_close_where_they_do(name):
    model, mm = both(EQUALITIES)
    (c,) = (c for c in model.constraints if c.name == name)
    k = mujoco.mj_name2id(mm, mujoco.mjtObj.mjOBJ_EQUALITY, name)
    data = mujoco.MjData(mm)

    def rows(state):
        data.qpos[:], data.qvel[:] = (np.array(x) for x in interop.to_mujoco(model, mm, state))
        mujoco.mj_forward(mm, data)
        at = (data.efc_type == 0) & (data.efc_id == k)
        return data.efc_J.reshape(-1, mm.nv)[at], data.efc_pos[at]

    state = model.random_state(jax.random.key(4))
    # the joints between the two bodies that are glued have five freedoms: they meet where MuJoCo starts
    start = interop.from_mujoco(model, mm, mm.qpos0).q if name == "glue" else state.q
    q, error = closed(eqx.tree_at(lambda m: m.constraints, model, (c,)), start)
    assert error < 1e-9
    # away from closure MuJoCo turns the rows of orientation otherwise; where it closes they span the same
    J, gap = rows(jd.State(q, state.v))
    assert np.abs(gap).max() < 1e-8
    ours = oracle.constraint_jacobian(model, q, (c,))
    J = J @ velocity_map(model, mm, jax.numpy.asarray(q), state.v)
    ranks = {np.linalg.matrix_rank(x, tol=1e-6) for x in (ours, J, np.vstack([J, ours]))}
    assert len(ranks) == 1


ACTUATORS = """<tendon><fixed name="cord"><joint joint="hip" coef="1"/><joint joint="slide" coef="2"/></fixed></tendon>
<actuator><motor name="m" joint="hip" gear="3"/><general name="g" joint="slide" gainprm="5"/>
<motor name="thrust" site="top" gear="0 0 1 0 0 .1"/>
<motor name="twist" joint="ball" gear="1 2 3"/><position name="servo" joint="x" kp="10"/>
<motor name="pull" tendon="cord" gear="4"/></actuator>"""


def test_actuators():
    extra = '<site name="top" pos=".1 .2 .3" euler="0 30 0"/>'
    text = TREE.format(ACTUATORS).replace('<body name="leg"', extra + '<body name="leg"')
    model = load(text)
    mm = mujoco.MjModel.from_xml_string(text)
    assert model.actuator_names == ("m", "g", "thrust", "twist", "servo", "pull")
    state = model.random_state(jax.random.key(2))
    data = mujoco.MjData(mm)
    data.qpos[:] = np.array(interop.to_mujoco(model, mm, state)[0])
    data.ctrl[:] = [0.3, -0.2, 0.7, 0.5, 0.9, 0.4]
    mujoco.mj_forward(mm, data)
    T = velocity_map(model, mm, state.q, state.v)
    np.testing.assert_allclose(jd.actuator_forces(model, state, data.ctrl), T.T @ data.qfrc_actuator, atol=1e-12)
    command = data.ctrl.copy()
    command[4] = data.actuator_force[4]
    np.testing.assert_allclose(np.array(model.actuation) @ command, T.T @ data.qfrc_actuator, atol=1e-12)


def test_actuators_that_have_no_single_gear():
    with pytest.warns(jd.ModelWarning, match="left out: 'thrust'"):
        model = load(TREE.format(ACTUATORS.replace('site="top"', 'site="hand"')))
    assert model.actuator_names == ("m", "g", "twist", "servo", "pull")


CURVED = """<tendon><fixed name="cord"><joint joint="hip" coef="1"/><joint joint="slide" coef="2"/></fixed>
<fixed name="other"><joint joint="x" coef="3"/><joint joint="hip" coef=".5"/></fixed></tendon>
<equality><joint name="knee" joint1="y" joint2="hip" polycoef=".1 .5 -.3 .2 .4"/>
<tendon name="cam" tendon1="cord" tendon2="other" polycoef="0 1 .7 0 0"/></equality>"""


def test_curved_equalities():
    """Rows and errors are MuJoCo's in any pose; two loads are one program; a copy is complete."""
    model, mm = both(CURVED)
    assert [type(c) for c in model.constraints] == [jd.constraints.Transmission] * 2
    state, data = model.random_state(jax.random.key(4)), mujoco.MjData(mm)
    data.qpos[:], data.qvel[:] = (np.array(x) for x in interop.to_mujoco(model, mm, state))
    mujoco.mj_forward(mm, data)
    np.testing.assert_allclose(jd.constraint_residual(model, state.q), data.efc_pos[:2], atol=1e-12)
    theirs = data.efc_J.reshape(-1, mm.nv)[:2] @ velocity_map(model, mm, state.q, state.v)
    np.testing.assert_allclose(jd.constraint_jacobian(model, state.q), theirs, atol=1e-12)
    for other in (both(CURVED)[0], pickle.loads(pickle.dumps(model))):
        assert jax.tree.structure(other) == jax.tree.structure(model)


def test_what_is_not_modelled_is_told():
    extra = """<tendon><fixed name="spring" stiffness="3"><joint joint="hip" coef="1"/></fixed></tendon>
      <equality><connect name="off" body1="cart" anchor="0 0 0" active="false"/></equality>"""
    text = (
        TREE.format(extra)
        .replace('gravity="0.3 0.2 -9.5"', 'density="1.2"')
        .replace('name="shoe"', 'name="shoe" gravcomp="1"')
    )
    with pytest.warns(jd.ModelWarning) as told:
        model = load(text)
    text = " ".join(str(w.message) for w in told)
    for words in ("'spring' (stiffness)", "not active and left out: 'off'", "fluid", "gravity compensation.*'shoe'"):
        assert re.search(words.replace("(", r"\(").replace(")", r"\)"), text), words
    assert model.constraints == ()


def test_floating():
    text = """<mujoco><worldbody><body name="{}" pos="0 0 1">{}<geom size=".1" mass="1"/>
      <body name="b"><joint name="j"/><geom size=".1" mass="1"/></body></body></worldbody></mujoco>"""
    free, still = text.format("a", "<freejoint/>"), text.format("a", "")
    assert load(free).joint_names == ("root_joint", "j") == load(free, floating=True).joint_names
    assert load(free, floating=False).joint_names == ("j",)
    assert load(still).joint_names == ("j",)
    assert load(still, floating=True).joint_names == ("root_joint", "j")
    np.testing.assert_allclose(load(still).bodies.placement.translation[0], [0, 0, 1])
    with pytest.raises(ValueError, match="floating=True.*'arm'"):
        load('<mujoco><worldbody><body name="arm"><joint/><geom size=".1"/></body></worldbody></mujoco>', floating=True)


def test_unnamed_bodies_and_joints():
    text = """<mujoco><worldbody><body><joint/><joint axis="0 1 0"/><geom size=".1"/>
      <body><joint/><geom size=".1"/></body></body></worldbody></mujoco>"""
    model = load(text)
    assert model.nv == 3 and len({*model.joint_names, *model.body_names}) == 6


def test_chains_whose_names_would_be_the_same():
    text = """<mujoco><worldbody>
      <body name="arm"><joint name="upper_x"/><joint axis="0 1 0"/><geom size=".1"/></body>
      <body name="arm_upper"><joint name="x"/><joint axis="0 1 0"/><geom size=".1"/></body></worldbody></mujoco>"""
    assert load(text).body_names == ("arm_upper_x", "arm", "arm_upper_x_", "arm_upper")


MESHES = """<mujoco><asset><mesh name="shape" file="gone.stl"/><texture name="t" type="2d" file="gone.png"/>
<material name="m" texture="t"/></asset><worldbody><body name="a"><joint name="j"/>{}
<geom type="mesh" mesh="shape" material="m"/></body>
</worldbody></mujoco>"""


def test_missing_meshes(tmp_path):
    file = tmp_path / "robot.xml"
    file.write_text(MESHES.format('<inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>'))
    with pytest.warns(jd.ModelWarning) as told:
        assert load(file).nv == 1
    assert {"'gone.stl'." in str(w.message) or "textures" in str(w.message) for w in told} == {True}
    file.write_text(MESHES.format(""))
    with pytest.raises(ValueError, match=r"robot\.xml.*gone\.stl"):
        load(file)


def test_a_model_of_mujoco_is_no_file():
    text = TREE.format("")
    spec = mujoco.MjSpec.from_string(text)
    with pytest.raises(TypeError, match=r"`source` is MjModel, not a path.* the file that it was made from"):
        load(spec.compile())
    with pytest.raises(TypeError, match=r"`source` is MjSpec, not a path.*`source.to_xml\(\)`"):
        load(spec)
    ours, theirs = quiet(text), quiet(spec.to_xml())
    assert ours.body_names == theirs.body_names
    np.testing.assert_allclose(ours.bodies.rotational, theirs.bodies.rotational, rtol=1e-4)


def test_files_and_includes(tmp_path):
    (tmp_path / "part.xml").write_text(
        '<mujocoinclude><body name="a"><joint name="j"/><geom size=".1"/></body></mujocoinclude>'
    )
    file = tmp_path / "robot.xml"
    file.write_text('<mujoco><worldbody><include file="part.xml"/></worldbody></mujoco>')
    model = load(file)
    assert model.name == "robot" and model.joint_names == ("j",)


BAD = {
    "an unknown attribute value": ('<body><joint type="ring"/><geom size=".1"/></body>', "ring"),
    "no mass": ('<body name="light"><joint/></body>', "light"),
    "an unknown body": ("</worldbody><equality><weld body1='none'/></equality><worldbody>", "none"),
    "a polynomial without bounds": (
        '<body><joint name="p"/><joint name="q" axis="1 0 0"/><geom size=".1"/></body></worldbody><equality>'
        '<joint name="bent" joint1="p" joint2="q" polycoef="0 1 inf 0 0"/></equality><worldbody>',
        "'bent'.*polycoef",
    ),
    "a name twice": ('<body name="a"><geom size=".1"/></body><body name="a"><geom size=".1"/></body>', "'a'"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_wrong_is_named(case):
    inner, words = BAD[case]
    with pytest.raises(ValueError, match=f"(?s)load.*{words}"):
        quiet(f"<mujoco><worldbody>{inner}</worldbody></mujoco>")


def test_names_in_another_encoding_than_mujocos(tmp_path):
    """MuJoCo ignores the encoding that a file declares."""
    text = '<?xml version="1.0" encoding="{}"?><mujoco><worldbody><body name="Fuß"><joint/><geom size=".1"/></body>'
    file = tmp_path / "robot.xml"
    for encoding in ("UTF-8", "ISO-8859-1"):
        file.write_text(text.format(encoding) + "</worldbody></mujoco>", encoding=encoding)
        if encoding == "UTF-8":
            assert load(file).body_names == ("Fuß",)
    with pytest.raises(ValueError, match="`load`: robot.xml.*UTF-8, which its names are not"):
        load(file)


def test_without_mujoco_the_extra_is_named(monkeypatch):
    def no_mujoco(name, *args, real=builtins.__import__, **kwargs):
        if name == "mujoco":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_mujoco)
    with pytest.raises(ImportError, match=r"pip install 'jaxdyn\[mjcf\]'"):
        load(TREE.format(""))


FLAGS = """<mujoco><option {}><flag {}/></option><worldbody>
<body name="b"><joint name="j" damping="3" stiffness="5" frictionloss="2" range="-1 1" limited="true"/>
<geom size=".1"/></body><body name="c"><joint name="k"/><geom size=".1"/></body></worldbody>
<equality><joint joint1="j" joint2="k"/></equality>
<actuator><motor name="m" joint="j" group="1"/><motor name="n" joint="k"/></actuator></mujoco>"""


def flagged(flag="", option=""):
    return quiet(FLAGS.format(option, f'{flag}="disable"' if flag else ""))


def test_flags_switch_off_what_they_name():
    """As in MuJoCo: <flag constraint> switches off equalities, limits and friction."""
    plain = flagged()
    assert (plain.joints.damping[0], plain.joints.stiffness[0], plain.joints.friction[0]) == (3, 5, 2)
    assert np.isclose(plain.joints.upper[0], np.deg2rad(1)) and len(plain.constraints) == 1 and plain.nu == 2
    assert flagged("spring").joints.stiffness[0] == 0 and flagged("spring").joints.damping[0] == 3
    assert flagged("damper").joints.damping[0] == 0 and flagged("damper").joints.stiffness[0] == 5
    assert flagged("limit").joints.upper[0] == np.inf and flagged("frictionloss").joints.friction[0] == 0
    off = flagged("constraint")
    assert not off.constraints and off.joints.upper[0] == np.inf and off.joints.friction[0] == 0


def test_actuators_that_are_switched_off_are_left_out_and_told():
    with pytest.warns(jd.ModelWarning, match="<flag actuation>.*'m', 'n'"):
        assert load(FLAGS.format("", 'actuation="disable"')).nu == 0
    with pytest.warns(jd.ModelWarning, match="actuatorgroupdisable.*'m'"):
        assert load(FLAGS.format('actuatorgroupdisable="1 4"', "")).actuator_names == ("n",)


def test_chains_nest_deeply():
    """A chain of bodies nests in MJCF, as deep as MuJoCo reads it; other formats and files with entities do not."""
    deep = "".join(f'<body name="b{k}" pos="0 0 1"><joint/><geom size=".1"/>' for k in range(400)) + "</body>" * 400
    text = f"<mujoco><worldbody>{deep}</worldbody></mujoco>"
    assert quiet(text).nv == 400
    for hidden in (f'<!DOCTYPE mujoco [<!ENTITY x "y">]>{text}', text.replace("mujoco", "robot"), deep + "<"):
        with pytest.raises(ValueError, match="cannot be read"):
            load(hidden)


def test_files_that_are_no_files(tmp_path):
    """MuJoCo would wait for a pipe."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "meshes").mkdir()
    os.mkfifo(tmp_path / "meshes" / "leg.obj")
    (tmp_path / "inner.xml").write_text('<mujocoinclude><include file="pipe"/></mujocoinclude>')
    mesh = '<compiler meshdir="meshes"/><asset><mesh name="leg" file="leg.obj"/></asset>'
    for inner, words in (
        ('<include file="pipe"/>', "'.*pipe' is a pipe"),
        ('<include file="inner.xml"/>', r"inner\.xml.*'.*pipe' is a pipe"),
        (mesh, r"<mesh name='leg'>.*leg\.obj' is a pipe"),
    ):
        file = tmp_path / "robot.xml"
        file.write_text(f"<mujoco>{inner}</mujoco>")
        with pytest.raises(ValueError, match=words):
            load(file)


@pytest.mark.parametrize(
    "inner",
    [
        '<worldbody><replicate count="1000"><replicate count="1000"><body><joint/><geom size=".1"/></body></replicate>'
        "</replicate></worldbody>",
        '<asset><hfield name="h" nrow="100000" ncol="100000" size="1 1 1 1"/></asset>',
        '<worldbody><body><flexcomp name="f" type="grid" count="1000 1000 1000"/></body></worldbody>',
    ],
)
def test_files_that_grow_without_bound(inner):
    with pytest.raises(ValueError, match="asks for .* of them"):
        load(f"<mujoco>{inner}</mujoco>")


def test_copies_of_bodies():
    body = '<replicate count="3" offset="1 0 0"><body><joint/><geom size=".1"/></body></replicate>'
    assert quiet(f"<mujoco><worldbody>{body}</worldbody></mujoco>").nv == 3


RANGES = """<mujoco><worldbody>
<body name="a"><joint name="j" axis="0 1 0"/><geom size=".1"/></body>
<body name="b"><joint name="k" axis="0 1 0" actuatorfrcrange="-5 5"/><geom size=".1"/></body></worldbody>
<tendon><fixed name="t"><joint joint="j" coef="1"/><joint joint="k" coef="2"/></fixed></tendon>
<actuator>{}</actuator></mujoco>"""


@pytest.mark.parametrize(
    ("actuators", "efforts"),
    [
        ('<motor joint="j" gear="-3" forcerange="-2 2"/><motor joint="k" forcerange="-9 9"/>', (6, 5)),
        ('<position joint="j" kp="50" forcerange="-2 2"/><motor joint="k" forcerange="-4 4"/>', (2, 4)),
        ('<motor joint="j"/>', (np.inf, 5)),
        ('<motor joint="j" gear="-3" ctrlrange="-2 2"/><motor joint="k" ctrlrange="-1 1" forcerange="-3 3"/>', (6, 1)),
        ('<general joint="j" gear="2" gainprm="-4" ctrlrange="-1 1" forcerange="-3 3"/>', (6, 5)),
        ('<position joint="j" kp="50" ctrlrange="-1 1"/>', (np.inf, 5)),
    ],
)
def test_force_ranges_are_efforts(actuators, efforts):
    text = RANGES.format(actuators)
    model = quiet(text)
    np.testing.assert_allclose(model.joints.effort, efforts)
    mj = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(mj)
    data.ctrl[:] = 1e9
    mujoco.mj_forward(mj, data)
    bounded = np.isfinite(efforts) & (data.qfrc_actuator != 0)
    np.testing.assert_allclose(np.abs(data.qfrc_actuator)[bounded], np.array(efforts)[bounded])


@pytest.mark.parametrize(
    "actuators",
    [
        '<motor joint="j" forcerange="-1 2"/>',
        '<motor joint="j" forcerange="-2 2"/><motor joint="j"/>',
        '<motor tendon="t" forcerange="-2 2"/>',
        '<motor joint="j" forcerange="-2 2"/><motor tendon="t"/>',
        '<motor joint="j" ctrlrange="0 2"/>',
        '<motor tendon="t" ctrlrange="-2 2" gear="-3"/>',
        '<general joint="j" gear="2" gainprm="-4" ctrlrange="-1 3" forcerange="-3 5"/>',
    ],
)
def test_force_ranges_that_are_no_efforts_are_in_the_laws(actuators):
    text = RANGES.format(actuators)
    model, mj = load(text), mujoco.MjModel.from_xml_string(text)
    np.testing.assert_allclose(model.joints.effort, (np.inf, 5))
    state, data = jd.State(model.neutral(), np.zeros(2)), mujoco.MjData(mj)
    for command in (-1e3, -0.1, 0.1, 1e3):
        data.ctrl[:] = command
        mujoco.mj_forward(mj, data)
        forces = jd.actuator_forces(model, state, data.ctrl)
        np.testing.assert_allclose(forces, data.qfrc_actuator, atol=1e-12)


def test_control_ranges_that_a_flag_lifts_bound_nothing():
    text = RANGES.format('<motor joint="j" ctrlrange="-2 2"/>')
    model = quiet(text.replace("<mujoco>", '<mujoco><option><flag clampctrl="disable"/></option>'))
    np.testing.assert_allclose(model.joints.effort, (np.inf, 5))


def test_a_joints_force_range_that_is_not_symmetric_is_told():
    with pytest.warns(jd.ModelWarning, match="`actuatorfrcrange` is not symmetric.*'k'"):
        model = load(RANGES.format("").replace("-5 5", "-7 5"))
    assert model.joints.effort[1] == 7


PAIR = """<mujoco><option timestep=".002" cone="elliptic"/><worldbody><geom name="floor" type="plane" size="1 1 1"/>
<body name="ball" pos="0 0 .1"><freejoint/><geom name="ball" size=".1" condim="4" friction="1 .01 0"/></body>
</worldbody><contact><pair geom1="ball" geom2="floor" friction="{}" condim="{}"/></contact></mujoco>"""


@pytest.mark.parametrize(("dimensions", "torsion"), [(1, 0), (3, 0), (4, 1e-3), (6, 1e-3)])
def test_a_pair_keeps_its_torsion(dimensions, torsion):
    """That of its own contact dimensions, whatever those of the geoms; the ball's spin slows down as in MuJoCo."""
    text = PAIR.format(".7 .7 .001 0 0", dimensions)
    model = quiet(text)
    np.testing.assert_allclose(model.collision.of_pairs().torsion, [torsion], rtol=1e-6)
    np.testing.assert_allclose(model.collision.of_pairs().friction, [0.7 if dimensions > 1 else 0.0], rtol=1e-6)
    start = jd.State(np.array([0, 0, 0.1, 1, 0, 0, 0]), np.array([0, 0, 0, 0, 0, 10.0]))
    run = jax.jit(lambda s: jd.simulate(model, s, np.zeros((50, 6)), 2e-3, contacts=jd.contact.Auto()).v[-1, 5])
    mj = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(mj)
    mujoco.mj_step(mj, data, 300)  # until the ball has sunk in
    data.qvel[5] = 10
    mujoco.mj_step(mj, data, 50)
    np.testing.assert_allclose(run(start), data.qvel[5], rtol=5e-3)
    assert (run(start) < 9.9) == (torsion > 0)


def test_rolling_friction_of_a_pair_is_told():
    with pytest.warns(jd.ModelWarning, match="rolling friction of pairs, .* floor and ball"):
        load(PAIR.format(".7 .7 .001 0 .1", 6))


@pytest.mark.parametrize("geom", ['size="0.1" density="1e308"', 'size="1e200" mass="1"'])
def test_masses_without_end_are_told_without_other_warnings(geom, recwarn):
    text = f'<mujoco><worldbody><body name="b"><freejoint/><geom {geom}/></body></worldbody></mujoco>'
    with pytest.raises(ValueError, match="^`load`: .*inertia"):
        load(text)
    assert not [w for w in recwarn if issubclass(w.category, RuntimeWarning)]
