"""Bodies of the oracle: a model's numbers, frames and their Jacobians, unconstrained dynamics, energies.

Every body is treated on its own, by the world-frame Jacobians A of its angular velocity and C of its centre of
mass's velocity; its Newton-Euler equations are projected with them:

    M = sum_i m C^T C + A^T I A + armature         h = sum_i C^T m (dC/dt v - g) + A^T (I dA/dt v + w x I w)

Time derivatives at zero joint acceleration are taken by the complex step along the motion, exact to rounding.
"""

from typing import NamedTuple

import numpy as np
import oracle_joints as joints

STEP = 1e-40  # of the complex step: no cancellation, hence as small as one likes


class Robot(NamedTuple):
    """A model's numbers: lists over bodies, and vectors over velocities (`rest`: over configurations)."""

    names: tuple
    parents: tuple
    kinds: tuple
    joint_names: tuple
    q: list
    v: list
    nv: int
    mass: np.ndarray
    center: np.ndarray
    rotational: np.ndarray
    rotation: np.ndarray
    translation: np.ndarray
    axis: np.ndarray
    axis2: np.ndarray
    pitch: np.ndarray
    armature: np.ndarray
    damping: np.ndarray
    stiffness: np.ndarray
    rest: np.ndarray
    gravity: np.ndarray
    frames: dict
    constraints: tuple


def read(model) -> Robot:
    """The numbers of a jaxdyn `Model` (a `Robot` passes through)."""
    if isinstance(model, Robot):
        return model

    def array(x):
        return np.asarray(x, np.float64)

    t, b, j = model.topology, model.bodies, model.joints
    q_ends, v_ends = np.cumsum([[k.nq, k.nv] for k in t.kinds], axis=0).T
    placements = array(model.frames.rotation), array(model.frames.translation)
    return Robot(
        names=t.body_names,
        parents=t.parents,
        kinds=tuple(type(k).__name__ for k in t.kinds),
        joint_names=t.joint_names,
        q=[slice(e - k.nq, e) for e, k in zip(q_ends, t.kinds, strict=True)],
        v=[slice(e - k.nv, e) for e, k in zip(v_ends, t.kinds, strict=True)],
        nv=int(v_ends[-1]),
        mass=array(b.mass),
        center=array(b.center_of_mass),
        rotational=array(b.rotational),
        rotation=array(b.placement.rotation),
        translation=array(b.placement.translation),
        axis=array(j.axis),
        axis2=array(j.axis2),
        pitch=array(j.pitch),
        armature=array(j.armature),
        damping=array(j.damping),
        stiffness=array(j.stiffness),
        rest=array(j.rest),
        gravity=array(model.gravity),
        frames={n: (b, r, p) for n, b, r, p in zip(t.frame_names, t.frame_bodies, *placements, strict=True)},
        constraints=model.constraints,
    )


class Frame(NamedTuple):
    """A frame that moves with a body: pose (R, p) in the world and the Jacobians (3, nv) of its angular velocity
    (`A`) and of the velocity of the body's point at the world's origin (`U`), all in world axes."""

    R: np.ndarray
    p: np.ndarray
    A: np.ndarray
    U: np.ndarray

    def velocity(self, point):
        """Jacobian of the velocity of the body's point that is at `point` (world)."""
        return self.U - joints.skew(point) @ self.A


def world(robot) -> Frame:
    return Frame(np.eye(3), np.zeros(3), np.zeros((3, robot.nv)), np.zeros((3, robot.nv)))


def body_frames(robot, q) -> list[Frame]:
    """The body frames."""
    out: list[Frame] = []
    for i, parent in enumerate(robot.parents):
        base = world(robot) if parent < 0 else out[parent]
        R, p = base.R @ robot.rotation[i], base.p + base.R @ robot.translation[i]
        c = joints.walk(robot.kinds[i], robot.axis[i], robot.axis2[i], robot.pitch[i], q[robot.q[i]], R, p)
        A, U = base.A.astype(c.R.dtype), base.U.astype(c.R.dtype)
        A[:, robot.v[i]], U[:, robot.v[i]] = np.transpose(c.A), np.transpose(c.U)
        out.append(Frame(c.R, c.p, A, U))
    return out


def attached(robot, frames, name, placement=None) -> Frame:
    """A frame fixed in a body, in a named frame or in the world, moved by `placement` (a `Transform`); `frames` are
    those of the bodies."""
    body, R, p = robot.frames.get(name) or (-1 if name == "world" else robot.names.index(name), np.eye(3), np.zeros(3))
    if placement is not None:
        R, p = R @ np.asarray(placement.rotation), p + R @ np.asarray(placement.translation)
    base = world(robot) if body < 0 else frames[body]
    return Frame(base.R @ R, base.p + base.R @ p, base.A, base.U)


def rates(robot, q, v):
    """dq/dt (nq,)."""
    return np.concatenate([joints.rate(k, q[a], v[b]) for k, a, b in zip(robot.kinds, robot.q, robot.v, strict=True)])


def along(robot, q, v, f):
    """Time derivative of f(q), an analytic function, while the joints move with the constant velocity v."""
    return np.imag(f(q + 1j * STEP * rates(robot, q, v))) / STEP


def poses(model, q):
    """Rotations (nb, 3, 3) and positions (nb, 3) of the bodies."""
    frames = body_frames(read(model), q)
    return np.array([f.R for f in frames]), np.array([f.p for f in frames])


def frame_jacobian(model, q, name, reference="local"):
    """Jacobian (6, nv) of a frame's velocity at its origin, in its own or in the world's axes."""
    robot = read(model)
    f = attached(robot, body_frames(robot, q), name)
    J = np.array([f.velocity(f.p), f.A])
    return (f.R.T @ J if reference == "local" else J).reshape(6, -1)


def motion_maps(robot, q, frames=None):
    """Per body, the Jacobians (nb, 3, nv) of the angular velocity and of the centre of mass's velocity, and the
    centres of mass (nb, 3)."""
    frames = body_frames(robot, q) if frames is None else frames
    centers = [f.p + f.R @ c for f, c in zip(frames, robot.center, strict=True)]
    return (
        np.array([f.A for f in frames]),
        np.array([f.velocity(c) for f, c in zip(frames, centers, strict=True)]),
        np.array(centers),
    )


def world_inertias(robot, q):
    """Rotational inertias (nb, 3, 3) in the world's axes."""
    R = poses(robot, q)[0]
    return R @ robot.rotational @ np.swapaxes(R, 1, 2)


def mass_matrix(model, q):
    """M (nv, nv), armature included."""
    robot = read(model)
    A, C, _ = motion_maps(robot, q)
    M = np.einsum("b,bki,bkj->ij", robot.mass, C, C) + np.einsum("bki,bkl,blj->ij", A, world_inertias(robot, q), A)
    return M + np.diag(robot.armature)


def bias_forces(model, q, v):
    """h (nv,): Coriolis and gravity."""
    robot = read(model)
    A, C, _ = motion_maps(robot, q)
    inertia, w = world_inertias(robot, q), A @ v
    alpha, acceleration = along(robot, q, v, lambda x: np.array(motion_maps(robot, x)[:2]) @ v)
    force = robot.mass[:, None] * (acceleration - robot.gravity)
    torque = np.einsum("bkl,bl->bk", inertia, alpha) + np.cross(w, np.einsum("bkl,bl->bk", inertia, w))
    return np.einsum("bki,bk->i", C, force) + np.einsum("bki,bk->i", A, torque)


def gravity_forces(model, q):
    robot = read(model)
    return bias_forces(robot, q, np.zeros(robot.nv))


def passive_forces(model, q, v):
    """Springs and dampers of the joints (nv,)."""
    robot = read(model)
    return -robot.stiffness * difference(robot, robot.rest, q) - robot.damping * v


def external_forces(model, q, external):
    """Generalised forces (nv,) of body-frame wrenches (nb, 6)."""
    total = 0.0
    for f, wrench in zip(body_frames(read(model), q), np.asarray(external), strict=True):
        total = total + f.velocity(f.p).T @ (f.R @ wrench[:3]) + f.A.T @ (f.R @ wrench[3:])
    return total


def inverse_dynamics(model, q, v, acceleration, external=None):
    """tau (nv,); forces of constraints are not included."""
    tau = mass_matrix(model, q) @ acceleration + bias_forces(model, q, v) - passive_forces(model, q, v)
    return tau if external is None else tau - external_forces(model, q, external)


def kinetic_energy(model, q, v):
    return 0.5 * v @ mass_matrix(model, q) @ v


def gravity_energy(model, q):
    robot = read(model)
    return -robot.mass @ motion_maps(robot, q)[2] @ robot.gravity


def spring_energy(model, q):
    robot = read(model)
    return 0.5 * robot.stiffness @ difference(robot, robot.rest, q) ** 2


def center_of_mass(model, q):
    robot = read(model)
    return robot.mass @ motion_maps(robot, q)[2] / robot.mass.sum()


def centroidal_momentum(model, q, v):
    """Linear and angular momentum (6,) about the centre of mass, in world axes."""
    robot = read(model)
    A, C, centers = motion_maps(robot, q)
    linear = robot.mass[:, None] * (C @ v)
    spin = np.einsum("bkl,bl->bk", world_inertias(robot, q), A @ v)
    return np.concatenate([linear.sum(0), (spin + np.cross(centers - center_of_mass(robot, q), linear)).sum(0)])


def integrate(model, q, v, dt):
    """The configuration after the velocity v was held for dt."""
    robot = read(model)
    parts = [joints.integrate(k, q[a], dt * v[b]) for k, a, b in zip(robot.kinds, robot.q, robot.v, strict=True)]
    return np.concatenate(parts)


def difference(model, q0, q1):
    """The velocity (nv,) that leads from q0 to q1 in a unit of time."""
    robot = read(model)
    return np.concatenate([joints.difference(k, q0[a], q1[a]) for k, a in zip(robot.kinds, robot.q, strict=True)])
