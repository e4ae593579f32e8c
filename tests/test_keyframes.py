"""Keyframes: of MJCF files against MuJoCo, of a `ModelSpec`, of embedded robots, and as a start of `simulate`."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
import pytest
from embedding_robots import cut

import jaxdyn as jd
from jaxdyn.commands import cli
from jaxdyn.commands.info import describe
from jaxdyn.interop import from_mujoco
from jaxdyn.model.keyframes import Keyframes

FILE = """<mujoco><compiler angle="radian"/><worldbody><body name="trunk" pos="0 0 1"><freejoint name="base"/>
<geom type="box" size=".1 .2 .3"/><body pos="0 0 .3"><joint name="hip" ref=".4" axis="0 1 0"/>
<joint name="slide" type="slide" axis="1 0 0"/><geom type="capsule" fromto="0 0 0 0 0 .5" size=".03"/>
<body pos="0 0 .5"><joint name="ball" type="ball"/><geom type="sphere" size=".1"/></body></body></body></worldbody>
<actuator><general name="off" joint="hip" group="3"/><position joint="hip" kp="5" name="servo"/>
<motor joint="slide" name="motor"/></actuator><option actuatorgroupdisable="3"/>
<keyframe><key name="home" qpos="1 2 3 1 1 1 1 .7 .1 0 0 2 0" qvel="1 2 3 .1 .2 .3 .4 .5 .6 .7 .8" ctrl="9 3 4"/>
<key qpos="0 0 1 0 0 0 0 0 0 0 0 2 0" qvel="1 0 0 0 0 0 0 0 0 0 0"/></keyframe></mujoco>"""


@pytest.fixture(scope="module")
def loaded():
    with pytest.warns(jd.ModelWarning, match="actuatorgroupdisable"):
        return jd.load(FILE)


def test_keyframes_of_mujoco(loaded):
    theirs = mujoco.MjModel.from_xml_string(FILE)
    assert loaded.keyframes.names == ("home", "key1")
    for k, name in enumerate(loaded.keyframes.names):
        state, command = loaded.keyframe(name)
        wanted = from_mujoco(loaded, theirs, theirs.key_qpos[k], theirs.key_qvel[k])
        np.testing.assert_allclose(state.q, wanted.q, atol=1e-15)
        np.testing.assert_allclose(state.v, wanted.v, atol=1e-15)
        np.testing.assert_array_equal(command, theirs.key_ctrl[k][1:])
    assert "keyframes: home, key1" in describe(loaded)


def test_a_base_that_is_held_has_no_place_in_a_keyframe():
    with pytest.warns(jd.ModelWarning):
        held = jd.load(FILE, floating=False)
    np.testing.assert_allclose(held.keyframe("home").state.q, [0.7, 0.1, 0, 0, 1, 0])


def test_in_programs_and_batches(loaded):
    """Also of one precision with the model."""

    def moved(model):
        home = model.keyframe("home")
        return jd.step(model, home.state, jd.Commands(home.command), 1e-3).q

    single = jax.tree.map(lambda x: x.astype(jnp.float32), loaded)
    assert moved(single).dtype == jnp.float32
    by_mass = lambda m: moved(loaded.replace({"bodies.mass": m}))  # noqa: E731
    batch = jax.vmap(by_mass)(jnp.stack([loaded.bodies.mass] * 2))
    np.testing.assert_allclose(batch[1], jax.jit(moved)(loaded), atol=1e-14)


def test_of_a_spec():
    spec = jd.load_spec("four_bar")
    joint, motor = "crank", next(iter(spec.actuators))
    spec.add_keyframe("start", {joint: 0.3}, v={joint: [2.0]}, command={motor: 5})
    model = spec.build()
    state, command = model.keyframe("start")
    np.testing.assert_array_equal(state.q, model.neutral().at[model.q_slice(joint)].set(0.3))
    np.testing.assert_array_equal(state.v, jnp.zeros(3).at[model.v_slice(joint)].set(2.0))
    assert command == 5
    assert model.replace({"keyframes.q": 2 * model.keyframes.q}).keyframe("start").state.q.max() == 0.6


def test_embedded_robots_have_independent_velocities():
    whole = cut("geared_links")
    n = whole.nv
    rows = jnp.arange(1.0, n + 1)[None]
    frames = Keyframes(whole.neutral()[None], rows, jnp.zeros((1, whole.nu)), ("home",))
    model = jd.embed(dataclasses.replace(whole, keyframes=frames))
    np.testing.assert_array_equal(model.keyframe("home").state.v, rows[0][np.asarray(model.topology.independent)])


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"q": {"knee": 0.1}}, ValueError, "keyframe 'a': `q`: there is no joint 'knee'"),
        ({"q": {"turn": [0.1, 0.2]}}, ValueError, r"`q` of 'turn' has shape \(2,\), not \(1,\)"),
        ({"q": {"turn": np.nan}}, ValueError, "`q of 'turn'` is not finite"),
        ({"q": {"ball": [1, 1, 0, 0]}}, ValueError, "`q of 'ball'` is not of unit length"),
        ({"q": {}, "v": {"ball": 1.0}}, ValueError, r"`v` of 'ball' has shape \(1,\), not \(3,\)"),
        ({"q": {}, "command": {"motor": 1.0}}, ValueError, "`command`: there is no actuator 'motor'. Known: turn"),
        ({"q": [0.1]}, TypeError, "`q` is .*, not a"),
    ],
)
def test_errors(change, error, said):
    spec = jd.ModelSpec("r")
    spec.add_body("a", "world", jd.joints.Revolute("turn"), inertia=jd.Inertia.box(1.0, (1, 1, 1)))
    spec.add_body("b", "a", jd.joints.Spherical("ball"), inertia=jd.Inertia.box(1.0, (1, 1, 1)))
    spec.add_actuator("turn")
    with pytest.raises(error, match=said):
        spec.add_keyframe("a", **change).build()


def test_names():
    spec = jd.ModelSpec("r").add_body("a", "world", jd.joints.Revolute("turn"), inertia=jd.Inertia.box(1.0, (1, 1, 1)))
    spec.add_keyframe("home", {"turn": 0.1})
    with pytest.raises(ValueError, match="already taken by a keyframe"):
        spec.add_keyframe("home", {})
    with pytest.raises(ValueError, match="`Model.keyframe`: there is no keyframe 'hom'. Did you mean 'home'"):
        spec.build().keyframe("hom")
    with pytest.raises(ValueError, match="no keyframe 'home'. There are none"):
        jd.load("four_bar").keyframe("home")


def test_simulate_from_a_keyframe(tmp_path, capsys):
    """The arm falls without commands, and its servo holds it with those of its keyframe."""
    file, out = tmp_path / "arm.xml", tmp_path / "arm.npz"
    file.write_text(
        """<mujoco><worldbody><body><joint name="a" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 .5 0 0" size=".03"/></body></worldbody>
        <actuator><position joint="a" kp="1e5" kv="1e3"/></actuator>
        <keyframe><key name="up" qpos="-.5" ctrl="-.5"/></keyframe></mujoco>"""
    )
    given = ["simulate", str(file), "--speed", "0", "--seconds", "0.2", "--out", str(out)]
    assert cli.main([*given, "--keyframe", "up"]) == 0
    q = np.load(out)["q"][0, :, 0]
    assert q[0] == -0.5 and np.abs(q + 0.5).max() < 1e-3
    assert cli.main(given) == 0 and np.load(out)["q"][0, -1, 0] > 0.1
    capsys.readouterr()
    assert cli.main([*given, "--keyframe", "down"]) == 2
    assert re.search("no keyframe 'down'", capsys.readouterr().err)
