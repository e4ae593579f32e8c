"""The benchmark of steps with contact: the same robot and contacts in MuJoCo, residuals that are those of the law."""

import importlib.metadata
import json

import contact
import contact_laws
import contact_mujoco
import contact_report
import contact_robots
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxdyn as jd
from jaxdyn.engine.lanes import laned


def installed(package: str) -> bool:
    try:
        return bool(importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return False


needs_robots = pytest.mark.skipif(not installed("example-robot-data"), reason="no robots here")


@pytest.fixture(scope="module")
def go1():
    return contact_robots.go1()


@pytest.mark.slow
@needs_robots
def test_robots_stand_on_the_lowest_foot(go1):
    assert abs(float(contact_robots.gaps(go1.model, go1.q).min())) < 1e-9
    near, air = contact_robots.batch(go1, 5), contact_robots.batch(go1, 5, height=1.0)
    for some, low, high in ((near, -2.1e-4, 2.1e-4), (air, 1 - 1e-6, 1 + 1e-6)):
        lowest = np.array([float(contact_robots.gaps(go1.model, q).min()) for q in some.q])
        assert (lowest > low).all() and (lowest < high).all()


@pytest.mark.slow
@needs_robots
def test_mujoco_has_the_same_robot_and_all_feet(go1):
    mujoco = pytest.importorskip("mujoco")
    model = contact_mujoco.mujoco_model(go1, contact_mujoco.SETTINGS["elliptic"])
    assert model.nv == go1.model.nv and model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    np.testing.assert_allclose(model.body_mass.sum(), go1.model.bodies.mass.sum())
    data = mujoco.MjData(model)
    data.qpos[:] = go1.q
    mujoco.mj_forward(model, data)
    dist = sorted(c.dist for c in data.contact)
    np.testing.assert_allclose(dist, np.sort(contact_robots.gaps(go1.model, go1.q)), atol=1e-6)


def test_a_measured_law_tells_what_is_left():
    """One sweep leaves more of the law than twenty, and what is left is what the step tells, relative to a speed."""
    spec = jd.ModelSpec("brick")
    spec.add_body("brick", "world", jd.joints.Free(), inertia=jd.Inertia(1.0, (0, 0, 0), 0.01 * np.eye(3)))
    spec.add_shape("brick", jd.shapes.Box((0.2, 0.3, 0.4)), friction=0.9)
    spec.add_ground(friction=0.9)
    brick = spec.build()
    state = jd.State(brick.neutral().at[2].set(0.2), jnp.array([1.0, 0.3, -1.0, 0.5, -0.7, 2.0]))

    def left(law):
        traj = jd.simulate(brick, state, jnp.zeros((1, 6)), 1e-3, contacts=law)
        return float(traj.contacts.impulses[0, 0, 0]) / 1e-3, float(traj.contacts.residual[0])

    few, many = (left(contact.Measured(jd.contact.PGS(n)))[0] for n in (1, 100))
    assert few > 1e-3 and many < 1e-6
    residual = left(jd.contact.PGS(1))[1]
    assert 0.02 * few < residual < 10 * few  # m/s, of speeds of about 1 m/s


@pytest.mark.slow
@needs_robots
def test_mjx_steps_as_mujoco_does(go1):
    """With one iteration of Newton's method and all feet in contact."""
    mujoco = pytest.importorskip("mujoco")
    pytest.importorskip("mujoco.mjx")
    setting, near = contact_mujoco.MJX["Newton, 1 and 5"], contact_robots.batch(go1, 4)
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):  # MJX's code is not strict
        _, run = contact_mujoco.mjx_step(go1, near, setting)
    model = contact_mujoco.mujoco_model(go1, setting)
    states = contact_mujoco.states_of(go1, model, near)
    data = mujoco.MjData(model)
    for k, velocity in enumerate(np.asarray(run()[1])):
        mujoco.mj_resetData(model, data)
        data.qpos[:], data.qvel[:], data.qfrc_applied[:] = (x[k] for x in states)
        mujoco.mj_step(model, data)
        assert np.abs(data.qvel - states.v[k]).max() > 0.1
        np.testing.assert_allclose(velocity, data.qvel, atol=1e-3)


@pytest.mark.slow
@needs_robots
def test_the_benchmark_writes_its_page(tmp_path, monkeypatch):
    arguments = ["go1", "--batch", "4", "--rounds", "1", "--out", str(tmp_path)]
    monkeypatch.setitem(contact.PARTS, "mjx", lambda case: {"mjx": {"why": "it is a test"}})
    contact.main(arguments)
    found = json.loads((tmp_path / "contact.json").read_text())["go1"]
    assert found["float32"]["PGS"]["microseconds"] > found["float32"]["ABA"]["microseconds"] > 0
    assert found["residual"]["float64"]["PGS"]["above"] == 0
    page = (tmp_path / "contact.md").read_text()
    assert "## Go1" in page and "PGS, in the air" in page and "MJX: not measured: it is a test" in page
    told = {"version": "1.2", "ours": 0.5, "settings": {"CG": {"microseconds": 10.0, "compile_seconds": 3.0}}}
    monkeypatch.setitem(contact.PARTS, "mjx", lambda case: {"mjx": told})
    contact.main([*arguments, "--parts", "mjx"])
    again = json.loads((tmp_path / "contact.json").read_text())["go1"]
    assert again.pop("mjx") == told and found.pop("mjx") and again == found
    assert "| CG | 10.00 | 20.0 | 3 |" in (tmp_path / "contact.md").read_text()
    with pytest.raises(SystemExit, match="--batch is 8, but the other parts of go1 were measured with 4"):
        contact.main(["go1", "--batch", "8", "--parts", "mjx", "--out", str(tmp_path)])


def test_a_page_of_one_part_alone():
    """Other parts are left out; what cannot be measured says why."""
    row = {"nv": 1, "slots": 2, "batch": 3, "mjx": {"why": "mujoco-mjx is not installed"}}
    page = contact_report.page({"go1": row}, lambda *_: "Measured here.")
    assert "MJX: not measured: mujoco-mjx is not installed." in page
    assert "How well laws are met" not in page and "Beside MuJoCo" not in page


def test_problems_of_laws_are_those_of_steps():
    """The forces that solve a problem are those that a step finds."""
    case, law = contact_laws.piled(2)(4), jd.contact.PGS(50)
    counts, *problems = contact_laws.posed(case)
    forces, _ = jax.jit(jax.vmap(laned(contact_laws._solved, law, counts)))(*problems)

    def impulses(q, v, tau):
        traj = jd.simulate(case.model, jd.State(q, v), tau[None], contact_robots.DT, contacts=law)
        return traj.contacts.impulses[0].ravel()

    assert counts.rows == 24 and np.abs(forces).max() > 1
    step = jax.jit(jax.vmap(impulses))(*case.states)
    np.testing.assert_allclose(forces * contact_robots.DT, step, atol=1e-9)


def test_laws_write_their_page(tmp_path, monkeypatch):
    monkeypatch.setitem(contact_laws.CASES, "2 boxes", contact_laws.piled(1))
    arguments = ["2 boxes", "--batch", "4", "--rounds", "1", "--out", str(tmp_path)]
    contact_laws.main(arguments)
    found = json.loads((tmp_path / "contact_laws.json").read_text())["2 boxes"]
    assert found["rows"] == 12 and list(found["float32"]) == list(contact_laws.LAWS)
    for law in ("ADMM()", "Newton()"):
        assert found["float64"][law]["quantiles"][2] < 1e-6
    row = next(x for x in (tmp_path / "contact_laws.md").read_text().splitlines() if x.startswith("| 2 boxes"))
    assert row.count("/") == len(contact_laws.LAWS)
