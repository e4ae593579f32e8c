"""The oracle against Pinocchio, against itself by finite differences, and against numbers worked out by hand; and
the catalogue against what it says of its robots."""

import numpy as np
import oracle
import pinocchio as pin
import pytest
from catalogue import CATALOGUE, sample
from oracle_joints import across, rotation_vector, turn

import jaxdyn as jd

ALL = sorted(CATALOGUE)
CLOSED = [n for n in ALL if CATALOGUE[n].constrained]
STEP = 1e-4


def states(name, n=3, seed=1):
    model = CATALOGUE[name].build()
    return oracle.read(model), list(zip(*sample(model, seed, n), strict=True))


def close(a, b, tolerance):
    """Agreement relative to the larger of 1 and the largest number."""
    scale = max(1.0, np.abs(b).max(initial=0.0))
    assert np.shape(a) == np.shape(b)
    assert np.abs(np.asarray(a) - b).max(initial=0.0) <= tolerance * scale, np.abs(np.asarray(a) - b).max() / scale


def slope(f):
    """Derivative at 0 by central differences of fourth order."""
    return (8 * (f(STEP) - f(-STEP)) - (f(2 * STEP) - f(-2 * STEP))) / (12 * STEP)


def rate(r, q, v, f):
    """Derivative of f(configuration) along the velocity v."""
    return slope(lambda t: f(oracle.integrate(r, q, v, t)))


def pin_joint(r, b):
    axis, here = r.axis[b], pin.SE3.Identity()

    def chain(*parts):
        joint = pin.JointModelComposite()
        for part in parts:
            joint.addJoint(part, here)
        return joint

    spin, slide = pin.JointModelRevoluteUnaligned, pin.JointModelPrismaticUnaligned
    return {
        "FreeKind": pin.JointModelFreeFlyer,
        "SphericalKind": pin.JointModelSpherical,
        "TranslationKind": pin.JointModelTranslation,
        "RevoluteKind": lambda: spin(axis),
        "PrismaticKind": lambda: slide(axis),
        "HelicalKind": lambda: pin.JointModelHelicalUnaligned(axis, float(r.pitch[b])),
        "CylindricalKind": lambda: chain(slide(axis), spin(axis)),
        "UniversalKind": lambda: chain(spin(axis), spin(r.axis2[b])),
        "PlanarKind": lambda: chain(*(slide(e) for e in across(axis)), spin(axis)),
    }[r.kinds[b]]()


class Twin:
    """The same robot in Pinocchio, which wants bodies depth first and quaternions (x, y, z, w)."""

    def __init__(self, r):
        self.r, self.model, self.q_order, self.v_order, self.joint = r, pin.Model(), [], [], {-1: 0}
        self.model.gravity = pin.Motion(r.gravity, np.zeros(3))
        self.add_children(-1)
        for name, (body, R, p) in r.frames.items():
            self.model.addFrame(pin.Frame(name, self.joint[body], pin.SE3(R, p), pin.FrameType.OP_FRAME))
        self.model.armature = r.armature[self.v_order]
        self.data = self.model.createData()

    def add_children(self, parent):
        r = self.r
        for b in (b for b, p in enumerate(r.parents) if p == parent):
            place = pin.SE3(r.rotation[b], r.translation[b])
            k = self.joint[b] = self.model.addJoint(self.joint[parent], pin_joint(r, b), place, r.names[b])
            self.model.appendBodyToJoint(k, pin.Inertia(r.mass[b], r.center[b], r.rotational[b]), pin.SE3.Identity())
            at = list(range(r.q[b].start, r.q[b].stop))
            ball = r.kinds[b] in ("FreeKind", "SphericalKind")
            self.q_order += at[:-4] + at[-3:] + [at[-4]] if ball else at
            self.v_order += range(r.v[b].start, r.v[b].stop)
            self.add_children(b)

    def call(self, f, q, *velocities, rest=()):
        """A Pinocchio function of q and some vectors over velocities."""
        return f(self.model, self.data, q[self.q_order], *(x[self.v_order] for x in velocities), *rest)

    def back(self, x):
        """Rows over velocities in our order."""
        return np.asarray(x)[np.argsort(self.v_order)]


@pytest.mark.parametrize("name", ALL)
def test_unconstrained_dynamics_against_pinocchio(name):
    r, at = states(name)
    twin = Twin(r)
    bare = r._replace(armature=np.zeros(r.nv))
    light = Twin(bare)  # Pinocchio counts the armature of some joints as kinetic energy, of others not
    for q, v, tau in at:
        M = twin.call(pin.crba, q)
        close(oracle.mass_matrix(r, q), twin.back(twin.back(np.triu(M) + np.triu(M, 1).T).T), 1e-13)
        close(oracle.bias_forces(r, q, v), twin.back(twin.call(pin.nle, q, v)), 1e-13)
        close(oracle.gravity_forces(r, q), twin.back(twin.call(pin.computeGeneralizedGravity, q)), 1e-13)
        a = oracle.forward_dynamics(r, q, v, tau, constraints=()).acceleration
        close(a, twin.back(twin.call(pin.aba, q, v, tau + oracle.passive_forces(r, q, v))), 1e-9)
        close(oracle.inverse_dynamics(r, q, v, a), tau, 1e-9)
        close(oracle.kinetic_energy(bare, q, v), light.call(pin.computeKineticEnergy, q, v), 1e-13)
        close(oracle.gravity_energy(r, q), twin.call(pin.computePotentialEnergy, q), 1e-13)
        close(oracle.center_of_mass(r, q), twin.call(pin.centerOfMass, q), 1e-13)
        close(oracle.centroidal_momentum(r, q, v), twin.call(pin.computeCentroidalMomentum, q, v).vector, 1e-13)


@pytest.mark.parametrize("name", ["quadruped", "fixed_links", "general_of_three"])
def test_frames_against_pinocchio(name):
    r, at = states(name)
    twin = Twin(r)
    references = {"local": pin.LOCAL, "world_aligned": pin.LOCAL_WORLD_ALIGNED}
    assert r.frames
    for q, _, _ in at:
        for frame in r.frames:
            for ours, theirs in references.items():
                J = twin.call(pin.computeFrameJacobian, q, rest=(twin.model.getFrameId(frame), theirs))
                close(oracle.frame_jacobian(r, q, frame, ours), twin.back(J.T).T, 1e-13)


WELDS_AND_POINTS = ["tip_point", "tip_weld", "ancestor", "two_robots", "siblings", "same_pair", "four_bar_weld"]


@pytest.mark.parametrize("name", WELDS_AND_POINTS)
def test_constrained_dynamics_against_pinocchio(name):
    r, at = states(name)
    twin = Twin(r)
    kinds = {"Point": pin.ContactType.CONTACT_3D, "Weld": pin.ContactType.CONTACT_6D}
    rows, row_data = pin.StdVec_RigidConstraintModel(), pin.StdVec_RigidConstraintData()
    for c in r.constraints:
        ends: list = []
        for body, place in ((c.body_a, c.placement_a), (c.body_b, c.placement_b)):
            ends.append(twin.joint[-1 if body == "world" else r.names.index(body)])
            ends.append(pin.SE3(np.array(place.rotation), np.array(place.translation)))
        rows.append(pin.RigidConstraintModel(kinds[type(c).__name__], twin.model, *ends, pin.LOCAL))
        row_data.append(rows[-1].createData())
    pin.initConstraintDynamics(twin.model, twin.data, rows, row_data)
    for q, v, tau in at:
        force, prox = tau + oracle.passive_forces(r, q, v), pin.ProximalSettings(1e-14, 1e-14, 1e-7, 100)
        theirs = twin.call(pin.constraintDynamics, q, v, force, rest=(rows, row_data, prox))
        close(oracle.forward_dynamics(r, q, v, tau).acceleration, twin.back(theirs), 1e-7)


@pytest.mark.parametrize("name", ALL)
def test_motion_maps_are_the_rates_of_poses(name):
    r, at = states(name)
    for q, v, _ in at:
        R, _ = oracle.poses(r, q)
        dR, dp = (rate(r, q, v, lambda x, k=k: oracle.poses(r, x)[k]) for k in (0, 1))
        for b, body in enumerate(r.names):
            spin = R[b].T @ dR[b]
            twist = np.concatenate([R[b].T @ dp[b], [spin[2, 1], spin[0, 2], spin[1, 0]]])
            close(oracle.frame_jacobian(r, q, body) @ v, twist, 1e-9)


@pytest.mark.parametrize("name", ALL)
def test_manifold(name):
    r, at = states(name, 4)
    for (q, v, _), (other, _, _) in zip(at, at[::-1], strict=True):
        close(rate(r, q, v, lambda x: x), oracle.rates(r, q, v), 1e-9)
        close(oracle.difference(r, q, oracle.integrate(r, q, v, 0.3)), 0.3 * v, 1e-12)
        there = oracle.integrate(r, q, oracle.difference(r, q, other), 1.0)
        for k, x, y in zip(r.kinds, [there[s] for s in r.q], [other[s] for s in r.q], strict=True):
            sign = 1.0 if k not in ("FreeKind", "SphericalKind") else np.sign(x[-4:] @ y[-4:])
            close(np.concatenate([x[:-4], sign * x[-4:]]), y, 1e-12)


def test_a_free_joint_keeps_its_twist():
    """Integration in body axes is the limit of many short steps along the rates."""
    r = oracle.read(CATALOGUE["joints_floating"].build())
    q, v = sample(CATALOGUE["joints_floating"].build(), 3, 1)[:2]
    q, v, n = q[0], v[0], 400
    x = q
    for _ in range(n):
        k1 = oracle.rates(r, x, v)
        k2 = oracle.rates(r, x + k1 / (2 * n), v)
        k3 = oracle.rates(r, x + k2 / (2 * n), v)
        x = x + (k1 + 2 * k2 + 2 * k3 + oracle.rates(r, x + k3 / n, v)) / (6 * n)
    close(oracle.integrate(r, q, v, 1.0), x, 1e-9)


@pytest.mark.parametrize("angle", [1e-9, 1e-3, 1.0, 3.0, 3.1, np.pi - 1e-7])
def test_rotation_vectors(angle):
    axis = np.array([0.6, -0.64, 0.48])
    close(rotation_vector(turn(axis, angle)), angle * axis, 1e-9)


@pytest.mark.parametrize("normal", [(0, 0, 1), (0, 0, -1), (1, 0, 0), (0.6, 0, -0.8), (0.48, -0.6, 0.64)])
def test_directions_across(normal):
    first, second = across(np.array(normal, float))
    close(np.array([first, second, normal]) @ np.array([first, second, normal]).T, np.eye(3), 1e-15)
    close(np.cross(first, second), np.array(normal, float), 1e-15)


@pytest.mark.parametrize("name", ALL)
def test_energy_changes_by_the_power_of_the_forces(name):
    """Constraints do no work (their multipliers meet J v = 0), nor does anything else but motors and dampers."""
    r, at = states(name)
    for q, v, tau in at:
        a = oracle.forward_dynamics(r, q, v, tau).acceleration

        def energy(t, q=q, v=v, a=a):
            x, u = oracle.integrate(r, q, v, t), v + t * a
            return oracle.kinetic_energy(r, x, u) + oracle.gravity_energy(r, x) + oracle.spring_energy(r, x)

        power = np.abs(v) @ np.abs(tau) + np.abs(v) @ np.abs(oracle.bias_forces(r, q, v))
        assert abs(slope(energy) - v @ tau + v @ (r.damping * v)) < 1e-7 * max(1.0, power)


def test_momentum_changes_by_gravity():
    model = CATALOGUE["quadruped"].build()
    r = oracle.read(model)._replace(armature=np.zeros(model.nv))  # armature stands in for rotors that carry momentum
    for q, v, tau in zip(*sample(model, 2, 3), strict=True):
        tau[:6] = 0
        a = oracle.forward_dynamics(r, q, v, tau).acceleration

        def momentum(t, q=q, v=v, a=a):
            return oracle.centroidal_momentum(r, oracle.integrate(r, q, v, t), v + t * a)

        close(slope(momentum), np.concatenate([r.mass.sum() * r.gravity, np.zeros(3)]), 1e-8)


@pytest.mark.parametrize("name", CLOSED)
def test_rows_are_rates_of_residuals_and_biases_are_rates_of_rows(name):
    r, at = states(name)
    rng = np.random.default_rng(0)
    for q, v, _ in at:
        u = rng.normal(size=r.nv)  # any velocity, though the loops be closed
        J = oracle.constraint_jacobian(r, q)
        close(rate(r, q, u, lambda x: oracle.constraint_residual(r, x)), J @ u, 1e-8)
        for w in (u, v):
            close(oracle.constraint_bias(r, q, w), rate(r, q, w, lambda x: oracle.constraint_jacobian(r, x)) @ w, 1e-8)


@pytest.mark.parametrize("name", CLOSED)
def test_constrained_dynamics_solve_the_equations(name):
    r, at = states(name)
    for q, v, tau in at:
        external = np.random.default_rng(0).normal(size=(len(r.names), 6))
        s = oracle.forward_dynamics(r, q, v, tau, external=external)
        J, M = oracle.constraint_jacobian(r, q), oracle.mass_matrix(r, q)
        balance = oracle.inverse_dynamics(r, q, v, s.acceleration, external) - J.T @ s.multipliers
        assert np.abs(balance - tau).max() < 1e-11 * max(1.0, np.abs(M @ s.acceleration).max())
        wanted = oracle.constraint_target(r, q, v)
        close(J @ s.acceleration + oracle.constraint_bias(r, q, v), wanted, 1e-9)
        # the multipliers of minimum norm, by another road
        free = oracle.forward_dynamics(r, q, v, tau, constraints=(), external=external).acceleration
        W = oracle.delassus(r, q)
        gap = wanted - oracle.constraint_bias(r, q, v) - J @ free
        close(s.multipliers, np.linalg.pinv(W, rcond=1e-9, hermitian=True) @ gap, 1e-6)


@pytest.mark.parametrize("name", CLOSED)
def test_external_wrenches_act_at_body_origins(name):
    r, at = states(name, 1)
    q, v, _ = at[0]
    wrench = np.arange(1.0, 1 + 6 * len(r.names)).reshape(-1, 6)
    power = sum(w @ oracle.frame_jacobian(r, q, b) @ v for w, b in zip(wrench, r.names, strict=True))
    close(oracle.external_forces(r, q, wrench) @ v, power, 1e-12)


def test_numbers_by_hand():
    """A rod on a hinge, and a spinning body in free flight: signs, axes and units."""
    spec = jd.ModelSpec("rod")
    hinge = jd.joints.Revolute(axis=(0, 1, 0), armature=0.5, damping=0.2, stiffness=3.0, rest=0.1)
    spec.add_body("rod", "world", hinge, inertia=jd.Inertia(2.0, (0, 0, -1.5), np.diag([0.3, 0.4, 0.5])))
    r, q, v = oracle.read(spec.build()), np.array([0.3]), np.array([0.7])
    close(oracle.mass_matrix(r, q), [[0.5 + 0.4 + 2.0 * 1.5**2]], 1e-15)
    close(oracle.bias_forces(r, q, v), [2.0 * 9.81 * 1.5 * np.sin(0.3)], 1e-15)
    close(oracle.passive_forces(r, q, v), [-3.0 * 0.2 - 0.2 * 0.7], 1e-15)
    spec = jd.ModelSpec("body").add_body(
        "body", "world", jd.joints.Free(), inertia=jd.Inertia(2.0, (0, 0, 0), np.diag([1.0, 2.0, 3.0]))
    )
    half = np.sqrt(0.5)
    q = np.array([1.0, 2.0, 3.0, half, half, 0, 0])  # a quarter turn about x: body z is world -y
    v = np.array([1.0, 0, 0, 0.1, 0.2, 0.3])
    a = oracle.forward_dynamics(spec.build(), q, v, np.zeros(6)).acceleration
    gyroscopic = [(2 - 3) * 0.2 * 0.3 / 1, (3 - 1) * 0.3 * 0.1 / 2, (1 - 2) * 0.1 * 0.2 / 3]
    close(a, np.array([0, -9.81 - 0.3, 0.2, *gyroscopic]), 1e-13)


def acts_on_many(c, r):
    if isinstance(c, jd.constraints.Coupling):
        moved = [r.joint_names.index(j) for j in c.joints]
        return len(({*moved} | {r.parents[b] for b in moved}) - {-1}) > 1
    if isinstance(c, jd.constraints.General) and len(c.bodies) == 1:
        return False
    sides = [c.body_a, c.body_b] if hasattr(c, "body_a") else ["many", "bodies"]
    return not any(s == "world" or (s in r.frames and r.frames[s][0] < 0) for s in sides)


@pytest.mark.parametrize("name", ALL)
def test_the_catalogue_says_what_is_true(name):
    entry = CATALOGUE[name]
    model = entry.build()
    r, at = states(name, 6)
    assert model.name == name and model.nb <= 8
    assert entry.floating == any(k == "FreeKind" and p < 0 for k, p in zip(r.kinds, r.parents, strict=True))
    assert entry.loops == any(acts_on_many(c, r) for c in r.constraints)
    found = [oracle.forward_dynamics(r, q, v, tau) for q, v, tau in at]
    assert len({d.rank for d in found}) == 1
    assert entry.redundant == (found[0].rank < found[0].multipliers.size)
    for (q, v, _), d in zip(at, found, strict=True):
        assert np.abs(oracle.constraint_residual(r, q)).max(initial=0.0) < 1e-12
        assert np.abs(oracle.constraint_jacobian(r, q) @ v).max(initial=0.0) < 1e-13
        assert d.conflict < 1e-9
        assert np.linalg.cond(oracle.mass_matrix(r, q)) < (1e7 if entry.thin else 2e4)
    if entry.singular:
        bent = oracle.constraint_jacobian(r, oracle.integrate(r, at[0][0], np.full(r.nv, 0.1), 1.0))
        assert np.linalg.matrix_rank(bent, 1e-3) > found[0].rank


def test_samples_follow_their_seed():
    model = CATALOGUE["ancestor"].build()
    assert all((x == y).all() for x, y in zip(sample(model, 5, 2), sample(model, 5, 2), strict=True))
    assert not (sample(model, 5, 1).q == sample(model, 6, 1).q).any()
