"""Files that are broken at random are refused in one line that names the file, or load as they say, with a warning.

`JAXDYN_MUTATIONS` is the number of files a format, `JAXDYN_MUTATIONS_FROM` the first seed (see `mutations.py`).
"""

import os
import random
import time
import warnings

import jax
import mutations
import numpy as np
import oracle
import pytest
from lxml import etree
from parse_help import mujoco_mass_matrix

import jaxdyn as jd
from jaxdyn import interop
from jaxdyn.loaders.load import load

COUNT, FIRST = int(os.environ.get("JAXDYN_MUTATIONS", "60")), int(os.environ.get("JAXDYN_MUTATIONS_FROM", "0"))
SUFFIX = {"urdf": "urdf", "urdf_plus": "urdf", "sdf": "sdf", "mjcf": "xml"}
SEEDS = range(FIRST, FIRST + COUNT)


def attempt(file, what):
    """Load a file: the model (None if it is refused) and its warnings, after the checks that hold for every file."""
    start = time.process_time()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            model = load(file)
        except (ValueError, FileNotFoundError) as error:
            model, text = None, str(error)
            assert text.startswith("`load`: "), f"{what}: {text}"
            assert file.name in text or "robot.urdf" in text, f"{what}: {text}"
            assert len(text) < 900, f"{what}: {text}"
    assert time.process_time() - start < 5, what
    assert all(issubclass(w.category, jd.ModelWarning) for w in told), f"{what}: {[str(w.message) for w in told]}"
    if model is not None:
        # no limit, and rigid surfaces
        endless = ".joints.lower .joints.upper .joints.effort .collision.stiffness .collision.damping".split()
        endless += [f".actuators.{end}{of}" for end in ("lower", "upper") for of in ("", "_command")]
        leaves = [(jax.tree_util.keystr(path), x) for path, x in jax.tree_util.tree_flatten_with_path(model)[0]]
        odd = [p for p, x in leaves if not np.isfinite(x).all() and p not in endless]
        assert not odd, f"{what}: {odd}"
    return model, [str(w.message) for w in told]


def write(folder, form, seed):
    data, what = mutations.mutated(form, seed)
    file = folder / f"broken{seed}.{SUFFIX[form]}"
    file.write_bytes(data)
    return file, f"seed {seed}: {what}"


def same(model, q, v, M, h, what):
    """The mass matrix and the bias forces are those of another engine."""
    ours = oracle.mass_matrix(model, q), oracle.bias_forces(model, q, v)
    for a, b in zip(ours, (M, h), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-6 * max(1e-6, np.abs(b).max()), err_msg=what)


def coarse(file):
    """Whether a file holds numbers so large that other numbers are lost in their rounding."""
    words = " ".join(" ".join(e.attrib.values()) for e in etree.parse(str(file)).iter(etree.Element)).split()
    return any(mutations.is_number(w) and abs(float(w)) > 1e6 for w in words)


def as_in_pinocchio(model, file, what):
    pin = pytest.importorskip("pinocchio")
    try:
        other = pin.buildModelFromUrdf(str(file))
    except ValueError:
        return  # it refuses more
    assert {*model.joint_names} == {*other.names} - {"universe"}, what
    rng, data = np.random.default_rng(0), other.createData()
    q, v = pin.integrate(other, pin.neutral(other), rng.uniform(-1, 1, other.nv)), rng.standard_normal(other.nv)
    M, h = pin.crba(other, data, q), pin.nle(other, data, q, v)
    if coarse(file):
        return
    order = interop.pinocchio_velocity_order(model, other)
    M = (np.triu(M) + np.triu(M, 1).T)[np.ix_(order, order)]
    state = interop.from_pinocchio(model, other, q, v)
    same(model, np.array(state.q), np.array(state.v), M, h[order], what)


def as_in_mujoco(model, file, what):
    mujoco = pytest.importorskip("mujoco")
    mm = mujoco.MjModel.from_xml_path(str(file))
    assert (model.nq, model.nv) == (mm.nq, mm.nv), what
    assert len(model.constraints) == sum(mm.eq_active0), what
    if model.nv == 0:
        return
    data, state = mujoco.MjData(mm), model.random_state(jax.random.key(0))
    q, v = np.array(state.q), np.zeros(model.nv)  # at rest: the velocity of a free joint is in other axes there
    data.qpos[:], _ = (np.array(x) for x in interop.to_mujoco(model, mm, jd.State(q, v)))
    mm.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    mujoco.mj_forward(mm, data)
    M = mujoco_mass_matrix(mm, data)
    T = np.array(jax.jacobian(lambda u: interop.to_mujoco(model, mm, jd.State(q, u))[1])(v))
    same(model, q, v, T.T @ M @ T, T.T @ data.qfrc_bias, what)


def as_it_says(model, file, what):
    """All mass, joints and mimics of an SDF are there."""
    root = etree.parse(str(file)).getroot()
    for e in root.iter(etree.Element):
        e.tag = etree.QName(e).localname
    masses = [link.find("inertial/mass") for link in root.iter("link")]
    total = sum(1.0 if m is None else float(m.text) for m in masses)
    if "root_joint" in model.joint_names:
        np.testing.assert_allclose(np.sum(model.bodies.mass), total, rtol=1e-9, err_msg=what)
    moving = [j.get("name") for j in root.iter("joint") if j.get("type").strip() != "fixed"]
    there = {*model.joint_names, *(c.name for c in model.constraints)}
    assert {name.strip() for name in moving} <= there, what


OTHERS = {"urdf": as_in_pinocchio, "urdf_plus": as_in_pinocchio, "sdf": as_it_says, "mjcf": as_in_mujoco}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("form", OTHERS)
def test_broken_files(form, seed, tmp_path, monkeypatch):
    """What loads without a word is what the file says: another engine reads the same."""
    if form == "mjcf":
        pytest.importorskip("mujoco")
        monkeypatch.chdir(tmp_path)  # where MuJoCo writes its log
    file, what = write(tmp_path, form, seed)
    model, told = attempt(file, what)
    if model is not None and not any("does not have in this place" in t or "means nothing" in t for t in told):
        OTHERS[form](model, file, what)


@pytest.mark.parametrize("seed", SEEDS)
def test_broken_yaml(seed, tmp_path):
    data, what = mutations.mutated_yaml(seed)
    (tmp_path / "robot.urdf").write_text(mutations.URDF)
    (tmp_path / "robot.yaml").write_bytes(data)
    attempt(tmp_path / "robot.yaml", f"seed {seed}: {what}")


@pytest.mark.parametrize("form", ["urdf", "urdf_plus", "sdf"])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_misspelt_name_is_never_passed_over(form, seed, tmp_path):
    """It is an error or a warning, wherever it stands."""
    r = random.Random(f"names {form} {seed}")
    root = etree.fromstring(mutations.XML[form])
    idle = ("visual", "gazebo", "type", "hardwareInterface")
    x = r.choice([e for e in root.iter() if not any(a.tag in idle for a in (e, *e.iterancestors())) and e is not root])
    old = etree.tostring(x)[:80]
    if x.attrib and r.random() < 0.5:
        key = r.choice(list(x.attrib))
        value = x.attrib.pop(key)
        x.set(mutations.misspelt(r, key), value)
    else:
        x.tag = mutations.misspelt(r, x.tag)
    file = tmp_path / f"robot.{SUFFIX[form]}"
    file.write_bytes(etree.tostring(root))
    model, told = attempt(file, old)
    assert model is None or told, f"{old} is now {etree.tostring(x)[:80]}, and nobody says so"


@pytest.mark.parametrize("form", OTHERS)
def test_what_is_not_broken_loads(form, tmp_path):
    if form == "mjcf":
        pytest.importorskip("mujoco")
    file = tmp_path / f"robot.{SUFFIX[form]}"
    file.write_text(mutations.XML[form])
    model, _ = attempt(file, form)
    assert model is not None
    OTHERS[form](model, file, form)
