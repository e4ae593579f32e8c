"""Constraints of the oracle: Jacobian, bias, residual and wanted acceleration of their rows.

`jacobian`, `bias` and `residual` follow the definitions word by word: rows are the velocity of frame a minus
that of frame b in frame a's axes, linear first; the bias is the rows' time derivative at zero joint
acceleration, by the complex step along the motion; the rate of a residual is J v wherever it closes.
"""

from functools import cache
from typing import NamedTuple

import jax
import numpy as np
import oracle_bodies as bodies
import oracle_joints as joints

from jaxdyn import Transform


class Scene(NamedTuple):
    """A robot in a configuration, complex for derivatives."""

    robot: bodies.Robot
    q: np.ndarray
    frames: list

    def attached(self, name, placement=None) -> bodies.Frame:
        return bodies.attached(self.robot, self.frames, name, placement)

    def ends(self, c):
        return self.attached(c.body_a, c.placement_a), self.attached(c.body_b, c.placement_b)

    def coordinate(self, joint):
        """(index in q, index in v) of a joint with one velocity."""
        k = self.robot.joint_names.index(joint)
        return self.robot.q[k].start, self.robot.v[k].start


def scene(model, q) -> Scene:
    robot = bodies.read(model)
    return Scene(robot, q, bodies.body_frames(robot, q))


def _kept(c):
    """The directions in frame a (rows) of the linear and angular velocities that a weld-like constraint stops."""
    kind, all3 = type(c).__name__, np.eye(3)
    side = np.array(joints.across(np.asarray(c.axis)))
    return {"Weld": (all3, all3), "Hinge": (all3, side), "Slider": (side, all3), "Cylinder": (side, side)}[kind]


def _rows(c, at: Scene):
    """J of one constraint; analytic in q, but for `General`."""
    kind, nv = type(c).__name__, at.robot.nv
    if kind == "Coupling":
        out = np.zeros((1, nv))
        for joint, k in zip(c.joints, np.asarray(c.coefficients), strict=True):
            out[:, at.coordinate(joint)[1]] += k
        return out
    if kind == "Transmission":
        out, slope = np.zeros((c.rows, nv)), jax.jacfwd(c.fn)(_coordinates(c, at))
        out[:, [at.coordinate(j)[1] for j in c.joints]] = slope
        return out
    if kind == "Lock":
        return np.eye(nv)[at.robot.v[at.robot.joint_names.index(c.joint)]]
    if kind == "CenterOfMass":
        return np.tensordot(at.robot.mass, bodies.motion_maps(*at)[1], 1) / at.robot.mass.sum()
    if kind == "General":
        x, slope = _motion(c, at)
        return _general(c.fn)[1](x).reshape(c.rows, -1) @ slope.reshape(-1, nv)
    a, b = at.ends(c)
    if kind == "Point":
        return a.R.T @ (a.velocity(a.p) - b.velocity(b.p))
    carried = a.velocity(a.p) - b.velocity(a.p)  # relative velocity of a's origin, seen from b
    if kind == "PointOnPlane":
        return (b.R @ np.asarray(c.axis))[None] @ carried
    if kind == "Distance":
        gap = a.p - b.p
        return (gap / np.sqrt(gap @ gap))[None] @ (a.velocity(a.p) - b.velocity(b.p))
    linear, angular = _kept(c)
    return np.concatenate([linear @ a.R.T @ carried, angular @ a.R.T @ (a.A - b.A)])


def _residual(c, at: Scene):
    kind = type(c).__name__
    if kind == "Coupling":
        return np.array([np.asarray(c.coefficients) @ [at.q[at.coordinate(j)[0]] for j in c.joints] - float(c.offset)])
    if kind == "Transmission":
        return np.asarray(c.fn(_coordinates(c, at)))
    if kind == "Lock":
        k = at.robot.joint_names.index(c.joint)
        here = at.q[at.robot.q[k]]
        held = here if c.position is None else np.asarray(c.position)
        return joints.difference(at.robot.kinds[k], held, here)
    if kind == "CenterOfMass":
        return at.robot.mass @ bodies.motion_maps(*at)[2] / at.robot.mass.sum() - np.asarray(c.position)
    if kind == "General":
        return np.asarray(_general(c.fn)[0](_motion(c, at)[0]))
    a, b = at.ends(c)
    gap = a.p - b.p
    if kind == "PointOnPlane":
        return np.array([b.R @ np.asarray(c.axis) @ gap])
    if kind == "Distance":
        return np.array([np.linalg.norm(gap) - float(c.length)])
    gap = a.R.T @ gap
    if kind == "Point":
        return gap
    linear, angular = _kept(c)
    axis = np.asarray(c.axis)
    turned = joints.rotation_vector(b.R.T @ a.R)
    if kind in ("Hinge", "Cylinder"):  # only the axes must agree, whatever the angle about them
        seen = a.R.T @ b.R @ axis  # b's axis in a's axes
        turned, along = np.cross(seen, axis), seen @ axis
        turned = turned * np.arctan2(np.linalg.norm(turned), along) / max(np.linalg.norm(turned), 1e-300)
        if kind == "Cylinder":
            gap = gap - seen * (seen @ gap)
    if kind == "Slider":
        gap = b.R.T @ a.R @ gap
    return np.concatenate([linear @ gap, angular @ turned])


@cache
def _general(fn):
    """Of a user's function of poses, each given as a (3, 4) matrix [R p]: value, derivative, and the second
    derivative along a direction twice."""

    def value(x):
        return fn(*[Transform(m[:, :3], m[:, 3]) for m in x])

    def second(x, d):
        return jax.jvp(lambda y: jax.jvp(value, (y,), (d,))[1], (x,), (d,))[1]

    return jax.jit(value), jax.jit(jax.jacrev(value)), jax.jit(second)


def _coordinates(c, at: Scene):
    """The coordinates that a `Transmission` sees."""
    return np.array([at.q[at.coordinate(j)[0]] for j in c.joints])


def _motion(c, at: Scene):
    """Poses (k, 3, 4) that a `General` sees and their derivative (k, 3, 4, nv) along v."""
    frames = [at.attached(name) for name in c.bodies]
    poses = np.array([np.column_stack([f.R, f.p]) for f in frames])
    turning = [np.cross(f.A[:, None], f.R[..., None], axis=0) for f in frames]
    slopes = [np.concatenate([t, f.velocity(f.p)[:, None]], 1) for t, f in zip(turning, frames, strict=True)]
    return poses, np.array(slopes)


def _bias(c, robot, q, v):
    if type(c).__name__ == "Transmission":
        at = scene(robot, q)
        x, rates = _coordinates(c, at), np.array([v[at.coordinate(j)[1]] for j in c.joints])
        along = lambda y: jax.jvp(c.fn, (y,), (rates,))[1]  # noqa: E731
        return np.asarray(jax.jvp(along, (x,), (rates,))[1])
    if type(c).__name__ != "General":
        return bodies.along(robot, q, v, lambda y: _rows(c, scene(robot, y)) @ v)
    x, slope = _motion(c, scene(robot, q))
    _, first, second = _general(c.fn)
    curve = bodies.along(robot, q, v, lambda y: _motion(c, scene(robot, y))[1] @ v)
    return np.asarray(second(x, slope @ v)) + np.tensordot(np.asarray(first(x)), curve, 3)


def _all(robot, constraints):
    return robot.constraints if constraints is None else constraints


def constraint_jacobian(model, q, constraints=None):
    """J (m, nv), the rows of all constraints in order."""
    at = scene(model, q)
    return np.concatenate([np.zeros((0, at.robot.nv))] + [_rows(c, at) for c in _all(at.robot, constraints)])


def constraint_bias(model, q, v, constraints=None):
    """gamma (m,), without targets and stabilisation."""
    robot = bodies.read(model)
    return np.concatenate([np.zeros(0)] + [_bias(c, robot, q, v) for c in _all(robot, constraints)])


def constraint_residual(model, q, constraints=None):
    """Position errors (m,)."""
    at = scene(model, q)
    return np.concatenate([np.zeros(0)] + [_residual(c, at) for c in _all(at.robot, constraints)])


def constraint_target(model, q, v, constraints=None):
    """a* (m,): the wanted value of J qdd + gamma."""
    at = scene(model, q)
    out = [np.zeros(0)]
    for c in _all(at.robot, constraints):
        k, d = float(c.stabilization.stiffness), float(c.stabilization.damping)
        out.append(np.asarray(c.target) - k * _residual(c, at) - d * (_rows(c, at) @ v))
    return np.concatenate(out)
