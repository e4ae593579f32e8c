"""Real robots: every URDF of example-robot-data that Pinocchio loads has the same dynamics here."""

import os
from contextlib import contextmanager

import numpy as np
import oracle
import pytest
from parse_help import ROBOTS, quiet

from jaxdyn import interop

pin = pytest.importorskip("pinocchio")

URDFS = sorted(p.relative_to(ROBOTS).as_posix() for p in ROBOTS.rglob("*.urdf"))


@contextmanager
def silence():
    """Pinocchio's parser prints from C++ what it refuses."""
    saved, nowhere = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    try:
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        yield
    finally:
        for stream, old in zip((1, 2), saved, strict=True):
            os.dup2(old, stream)
            os.close(old)
        os.close(nowhere)


def pinocchios(file, floating):
    with silence():
        try:
            root = (pin.JointModelFreeFlyer(),) if floating else ()
            return pin.buildModelFromUrdf(str(ROBOTS / file), *root)
        except ValueError:
            return None


def test_the_package_is_there():
    assert len(URDFS) > 60


@pytest.mark.parametrize("floating", [False, True], ids=["fixed", "floating"])
@pytest.mark.parametrize("file", URDFS)
def test_mass_matrix_and_bias_forces_are_pinocchios(file, floating):
    other = pinocchios(file, floating)
    if other is None:
        with pytest.raises(ValueError, match=file.rsplit("/", 1)[-1]):
            quiet(ROBOTS / file, floating=floating or None)
        return
    if other.nv == 0:  # nothing moves: a drone without a base that floats
        floating, other = True, pinocchios(file, True)
    model = quiet(ROBOTS / file, floating=floating or None)
    assert model.nv == other.nv and {*model.joint_names} == {*other.names} - {"universe"}
    order, data = interop.pinocchio_velocity_order(model, other), other.createData()
    rng = np.random.default_rng(7)
    for _ in range(2):
        q = pin.integrate(other, pin.neutral(other), rng.uniform(-1, 1, other.nv))
        v = rng.standard_normal(other.nv)
        M, h = pin.crba(other, data, q), pin.nle(other, data, q, v)
        M = (np.triu(M) + np.triu(M, 1).T)[np.ix_(order, order)]
        state = interop.from_pinocchio(model, other, q, v)
        ours = np.array(state.q), np.array(state.v)
        np.testing.assert_allclose(oracle.mass_matrix(model, ours[0]), M, rtol=0, atol=1e-10 * np.abs(M).max())
        np.testing.assert_allclose(oracle.bias_forces(model, *ours), h[order], rtol=0, atol=1e-10 * np.abs(h).max())


def test_every_frame_of_pinocchio_has_its_place():
    """Links on fixed joints are frames, and stand where Pinocchio puts them."""
    file = "talos_data/robots/talos_reduced.urdf"
    model, other = quiet(ROBOTS / file), pinocchios(file, False)
    data = other.createData()
    q = pin.randomConfiguration(other, -np.ones(other.nq), np.ones(other.nq))
    pin.framesForwardKinematics(other, data, q)
    state = interop.from_pinocchio(model, other, q)
    robot = oracle.read(model)
    frames = oracle.body_frames(robot, np.array(state.q))
    links = [f for f in other.frames if f.type == pin.FrameType.BODY and f.name != "universe"]
    assert len(links) == model.nb + len(model.frame_names)
    for f in links:
        pose = data.oMf[other.getFrameId(f.name)]
        ours = oracle.attached(robot, frames, f.name)
        np.testing.assert_allclose(ours.p, pose.translation, atol=1e-12)
        np.testing.assert_allclose(ours.R, pose.rotation, atol=1e-12)


def test_mimics_of_real_robots_are_couplings():
    for file, count in (("panda_description/urdf/panda.urdf", 1), ("romeo_description/urdf/romeo.urdf", 22)):
        model = quiet(ROBOTS / file)
        followers = {c.joints[0] for c in model.constraints}
        assert len(model.constraints) == len(followers) == count
        assert not followers & {*model.actuator_names}
