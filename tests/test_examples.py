"""Every example runs and reaches what it says. Sizes are the examples' own where that is quick, smaller elsewhere."""

import importlib.util
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FILES = sorted(EXAMPLES.glob("*.py"))


@pytest.fixture(autouse=True)
def plain_promotion():
    """Examples are what users write: jax as it comes, in double precision."""
    settings = {"jax_enable_x64": True, "jax_numpy_dtype_promotion": "standard", "jax_numpy_rank_promotion": "allow"}
    before = {name: getattr(jax.config, name) for name in settings}
    for name, value in settings.items():
        jax.config.update(name, value)
    yield
    for name, value in before.items():
        jax.config.update(name, value)


def example(number: int):
    (path,) = EXAMPLES.glob(f"{number:02}_*.py")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_examples_are_numbered():
    assert [int(p.name[:2]) for p in FILES] == list(range(1, len(FILES) + 1))


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_each_has_a_title_and_a_sentence(path):
    doc = example(int(path.name[:2])).__doc__
    title, rest = doc.split("\n\n", 1)
    assert re.fullmatch(rf"{path.name[:2]} \S.*\.", title)
    assert rest.strip().endswith(".")


def test_load_and_simulate(capsys):
    got = example(1).main(seconds=0.5)
    assert got["opening"] < 1e-9
    assert got["drift"] < 1e-6
    assert np.abs(got["trajectory"].q[-1] - got["trajectory"].q[0]).max() > 0.05, "it does not move"
    assert "energy drift" in capsys.readouterr().out


def test_randomised_models():
    got = example(2).main(count=1000, steps=200)
    assert got["q"].shape == (1000, 3)
    assert bool(jnp.isfinite(got["q"]).all())
    assert got["opening"] < 1e-8
    assert float(got["crank"].std()) > 0.05, "all robots did the same"
    assert len(np.unique(np.asarray(got["masses"])[:, 0])) > 990


def test_identify():
    got = example(3).main(verbose=False)
    np.testing.assert_allclose(got["found"], got["truth"], rtol=0.01)
    assert got["history"][-1] < 1e-4 * got["history"][0]


def test_swing_up():
    got = example(4).main(verbose=False)
    assert got["off"] < 0.1
    assert got["speed"] < 0.5
    assert got["history"][-1] < 0.05 * got["history"][0]


def test_gradients():
    got = example(5).main()
    assert got["modes"] < 1e-10
    assert got["error"] < 1e-6
    assert got["asymmetry"] < 1e-8
    assert float(jnp.abs(got["hessian"]).max()) > 1e-6


def test_geared_leg():
    got = example(7).main(verbose=False)
    assert got["errors"]["neglected"] > 0.02 and got["errors"]["armature"] > 0.02
    assert got["slip"] < 1e-12


def test_neural_policy():
    got = example(6).main(iterations=60, verbose=False)
    assert np.isfinite(got["history"]).all()
    assert np.mean(got["history"][-10:]) < 0.35 * np.mean(got["history"][:3])
    assert float(got["off"].mean()) < 0.15


def test_walk():
    got = example(8).main(seconds=3.0, verbose=False)
    assert got["lying"] < 0.06 and 0.29 < got["height"] < 0.32, "it does not stand up"
    assert 0.7 < got["speed"] / got["wanted"] < 1.1
    assert got["upright"] > 0.98 and got["sideways"] < 0.15
    assert abs(got["load"] - 1) < 0.05 and got["belly"] == 0
    assert got["failed"] == 0


def test_boxes():
    got = example(9).main(count=3, seconds=1.0, verbose=False)
    slope, tower = got["slope"], got["tower"]
    assert abs(slope["slides"] / slope["paper"] - 1) < 1e-6
    assert slope["creeps"] < 1e-9
    assert slope["tilt"] > 1.0, "it does not tip"
    assert tower["sinks"] < 1e-6 and tower["speed"] < 1e-6 and tower["loads"] < 1e-6
    assert slope["failed"] == 0 and tower["failed"] <= 10


@pytest.mark.parametrize(("beyond", "slides"), [(-1e-3, 0.0), (1e-2, 0.109677)])
def test_nothing_creeps_in_single_precision(beyond, slides):
    """A box near its angle of friction stays, or slides as on paper."""
    module = example(9)
    model = module.boxes({"box": (0.2, 0.2, 0.1)}, {"box": 0.5}, float(np.arctan(0.5)) + beyond)
    model, start = jax.tree.map(lambda x: x.astype(np.float32), (model, module.placed(model, [(0, 0, 0.05)])))
    traj = module.moved(model, start, 500, 2e-3)
    assert traj.v.dtype == np.float32
    assert abs(float(traj.v[-1, 0]) - slides) < 1e-4 * slides + 1e-7
    assert float(jnp.abs(traj.v[100:, 1:3]).max()) < 1e-7 and float(traj.contacts.gaps.min()) > -1e-6


@pytest.mark.parametrize("name", ["strider", pytest.param("cassie", marks=pytest.mark.slow)])
def test_drop(name):
    module = example(10)
    kind = module.STRIDER if name == "strider" else module.cassie()
    if kind is None:
        pytest.skip("example-robot-data is not installed")
    got = module.main(kind, seconds=1.5, verbose=False)
    assert got["robot"] == name
    assert 0 < got["lands"] < 0.07 and got["peak"] > 2, "it is not dropped"
    assert got["upright"] > 0.99 and abs(got["load"] - 1) < 0.05, "it does not stand"
    assert got["opening"] < 1e-5 and got["overlap"] < 1e-3
    assert got["failed"] < 30


def test_smoothed_gradients():
    """What the table of docs/contact.md says: two tasks need smoothing, one it does not help, and one it spoils."""
    push, right, left, hold = example(11).main(verbose=False).values()
    for found in (push, right, left):
        assert found["slopes"][0] == 0 and found["slopes"][1] > 1e-5 and abs(found["exact"] - 1) < 1e-9
    assert push["smoothed"] < 0.02 and push["then exact"] < 0.01
    assert right["smoothed"] < 0.1 and right["then exact"] < 0.05
    assert abs(left["smoothed"] - 1) < 1e-6
    assert hold["exact"] < 0.01 and hold["smoothed"] > 0.5
