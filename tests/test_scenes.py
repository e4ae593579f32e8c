"""The benchmarks' scenes with contacts: their rows, that contacts close, and that a seed makes one scene.

And the reference for their operator J M⁻¹ Jᵀ: by jaxdyn's matrices, by the oracle's own, and by Pinocchio.
"""

import delassus_oracle
import numpy as np
import oracle
import pytest
import scenes
from scene_parts import Poses

import jaxdyn as jd
from jaxdyn.commands import peers
from jaxdyn.interop import to_pinocchio

#: contacts and rows of the small ones, and their freedoms
SIZES = {
    "box": (4, 12, 6),
    "stack_3": (12, 36, 18),
    "on_ice": (8, 8, 12),
    "side_by_side": (12, 36, 12),
    "apart": (8, 24, 12),
    "pyramid_2": (32, 96, 30),
    "swimmer_3": (6, 18, 5),
    "crawler": (5, 15, 14),
    "crawler_friction": (5, 15 + 8, 14),
    "strider": (4, 12, 28),
    "strider_friction": (4, 12 + 22, 28),
    "four_bar": (1, 3, 3),
    "tentacle": (4, 12 + 9, 15),
    "arm": (2, 6 + 7, 7),
}
#: velocities in the paper's Table I
PAPER_NV = {"quadruped": 18, "cassie": 32, "humanoid": 35, "stack": 180, "pyramid_4": 180, "pyramid_with": 285}

REAL = [pytest.param(name, marks=pytest.mark.slow) for name in scenes.PAPER]


def sizes(name: str) -> tuple[int, int, int]:
    if name in SIZES:
        return SIZES[name]
    nv = next(nv for start, nv in PAPER_NV.items() if name.startswith(start))
    return *scenes.PAPER[name][2:], nv


def test_all_small_scenes_are_tested():
    assert set(SIZES) == set(scenes.SMALL)


@pytest.mark.parametrize("name", [*SIZES, *REAL])
def test_rows_are_as_many_and_contacts_close(name):
    scene = scenes.scene(name)
    assert (len(scene.contacts), scene.rows, scene.model.nv) == sizes(name)
    assert np.abs(jd.constraint_residual(scene.model, scene.q, scene.constraints)).max() < 1e-12
    if scene.within:
        # Cassie's planar loops are given with so many digits
        assert np.abs(jd.constraint_residual(scene.model, scene.q, scene.within)).max() < 1e-7
    poses = Poses(scene.model, scene.q)
    for c in scene.contacts:
        a, b = (poses[body] @ place for body, place in ((c.body_a, c.placement_a), (c.body_b, c.placement_b)))
        np.testing.assert_allclose(a.translation, b.translation, atol=1e-12)
        np.testing.assert_allclose(a.rotation, b.rotation, atol=1e-12)
        if c.body_b == "world" and name not in ("arm", "four_bar"):
            assert abs(b.translation[2]) < 0.03


@pytest.mark.parametrize("name", ["stack_3", "pyramid_2", "crawler_friction", "tentacle", "strider"])
def test_a_seed_makes_one_scene(name):
    one, same, other = (scenes.scene(name, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.q, same.q)
    assert np.abs(one.q - other.q).max() > 1e-4
    for a, b in zip(one.constraints, same.constraints, strict=True):
        assert str(a) == str(b)
    np.testing.assert_array_equal(one.model.bodies.mass, same.model.bodies.mass)
    np.testing.assert_array_equal(one.configurations(3, 5), same.configurations(3, 5))


@pytest.mark.parametrize("name", ["crawler_friction", "strider_friction", "tentacle", "arm"])
def test_joint_rows_are_velocities(name):
    """One row each, in order, with nothing else in it; free joints have none."""
    scene = scenes.scene(name)
    model, free = scene.model, 6 if name != "arm" else 0
    J = np.asarray(jd.constraint_jacobian(model, scene.q, scene.joints))
    np.testing.assert_allclose(J, np.eye(model.nv)[free:], atol=1e-12)


@pytest.mark.parametrize("name", ["four_bar", "strider"])
def test_configurations_close_loops(name):
    scene = scenes.scene(name)
    around = scene.configurations(34, 2)
    assert around.shape == (34, scene.model.nq) and np.abs(around[0] - around[1]).max() > 1e-3
    np.testing.assert_array_equal(around[:2], around[32:])
    for q in around[:3]:
        assert np.abs(jd.constraint_residual(scene.model, q, scene.within)).max() < 1e-9


@pytest.mark.parametrize(("family", "n"), [("swimmer", 3), ("swimmer", 7), ("stack", 2)])
def test_families_grow_by_a_link(family, n):
    build = scenes.FAMILIES[family][0]
    small, large = build(n), build(n + 1)
    contacts = {"swimmer": 2, "stack": 4}[family]
    assert small.rows == 3 * contacts * n and large.rows == small.rows + 3 * contacts
    assert large.model.nv - small.model.nv == {"swimmer": 1, "stack": 6}[family]


@pytest.mark.parametrize("name", SIZES)
def test_both_references_agree(name):
    """That of jaxdyn's matrices and that of the oracle's own; and the pseudo-inverse of the whole system."""
    scene = scenes.scene(name, 1)
    found = delassus_oracle.delassus(scene.model, scene.q, scene.constraints, within=scene.within, damping=0.1)
    q = np.asarray(scene.q)
    np.testing.assert_allclose(
        found, oracle.delassus(scene.model, q, scene.constraints, scene.within, 0.1), rtol=1e-8, atol=1e-8
    )
    M, J, K = (
        oracle.mass_matrix(scene.model, q),
        *(oracle.constraint_jacobian(scene.model, q, x) for x in (scene.constraints, scene.within)),
    )
    whole = np.block([[M, K.T], [K, np.zeros((len(K), len(K)))]])
    P = np.linalg.pinv(whole, rcond=1e-12, hermitian=True)[: len(M), : len(M)]
    np.testing.assert_allclose(found, J @ P @ J.T + 0.1 * np.eye(len(J)), rtol=1e-7, atol=1e-7 * np.abs(found).max())


def test_locked_joints_are_as_in_the_reference():
    """Jacobian, bias and residual, held in a place and where they are; ball, hinge and free joints."""
    for name, joint, rows in (("tentacle", "link1", 3), ("tentacle", "root", 6), ("arm", "link2", 1)):
        scene = scenes.scene(name)
        model, q = scene.model, np.asarray(scene.q)
        v, other = np.random.default_rng(0).normal(size=model.nv), np.asarray(scene.configurations(1, 7, 0.2)[0])
        for position in (None, other[model.q_slice(joint)]):
            held = (jd.constraints.Lock(joint, rows, position=position),)
            J = jd.constraint_jacobian(model, q, held)
            np.testing.assert_allclose(J, oracle.constraint_jacobian(model, q, held), atol=1e-12)
            bias = jd.constraint_bias(model, jd.State(q, v), held)
            np.testing.assert_allclose(bias, oracle.constraint_bias(model, q, v, held), atol=1e-10)
            left = jd.constraint_residual(model, q, held)
            np.testing.assert_allclose(left, oracle.constraint_residual(model, q, held), atol=1e-12)
            assert (np.abs(left).max() > 1e-3) == (position is not None)


def test_damping_takes_many_forms():
    blocks = [np.eye(2), 3 * np.ones((1, 1))]
    wanted = np.diag([1.0, 1.0, 3.0])
    for given in (blocks, np.array([1.0, 1.0, 3.0]), wanted):
        np.testing.assert_array_equal(delassus_oracle.matrix(given, 3), wanted)
    np.testing.assert_array_equal(delassus_oracle.matrix(2.0, 2), 2 * np.eye(2))
    with pytest.raises(ValueError, match="blocks of 3 rows"):
        delassus_oracle.matrix(blocks, 4)


@pytest.mark.parametrize("name", ["stack_3", "tentacle"])
def test_pinocchio_has_the_same_operator(name):
    """By its mass matrix and the Jacobians of its frames, in the axes of a contact's first."""
    pin = pytest.importorskip("pinocchio")
    scene = scenes.scene(name)
    robot, ids = peers.pinocchio_model(scene.model)
    q = np.asarray(to_pinocchio(scene.model, robot, jd.State(scene.q, np.zeros(scene.model.nv)))[0])
    data = robot.createData()
    M = pin.crba(robot, data, q)
    M = np.triu(M) + np.triu(M, 1).T
    pin.computeJointJacobians(robot, data, q)

    def end(body, placement):
        """Rotation (3, 3), and the Jacobian (3, nv) of the velocity along the frame's axes."""
        place = pin.SE3(np.asarray(placement.rotation), np.asarray(placement.translation))
        if body == "world":
            return place.rotation, np.zeros((3, robot.nv))
        joint = ids[scene.model.body_names.index(body)]
        J = place.toActionMatrixInverse() @ pin.getJointJacobian(robot, data, joint, pin.ReferenceFrame.LOCAL)
        return data.oMi[joint].rotation @ place.rotation, J[:3]

    ends = [(end(c.body_a, c.placement_a), end(c.body_b, c.placement_b)) for c in scene.contacts]
    J = np.concatenate([Ja - Ra.T @ Rb @ Jb for (Ra, Ja), (Rb, Jb) in ends])
    wanted = delassus_oracle.delassus(scene.model, scene.q, scene.contacts)
    np.testing.assert_allclose(J @ np.linalg.solve(M, J.T), wanted, rtol=1e-9, atol=1e-9)
