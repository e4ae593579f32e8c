"""Robots with every capability at once, on few bodies: what each solver is asked for in one program."""

import jax.numpy as jnp
import oracle
from catalogue_base import Pose, at, bar, lump, robot

import jaxdyn as jd

Y = (0, 1, 0)


def _bodies(spec, wheel):
    """A floating trunk with an arm on a ball, a hand, a leg and a wheel."""
    spec.add_body("trunk", "world", jd.joints.Free(), inertia=lump(3.0, (0.02, 0.03, 0.01)))
    spec.add_body(
        "arm", "trunk", jd.joints.Spherical(damping=0.1), placement=at(0.2, 0.1), inertia=bar(1.0, (0.3, 0, 0.2))
    )
    hinge = jd.joints.Revolute(axis=(1, 1, 0), armature=0.05)
    spec.add_body("hand", "arm", hinge, placement=at(0.3, 0, 0.2), inertia=bar(0.5, (0.1, 0.3, 0)))
    spec.add_body("leg", "trunk", jd.joints.Revolute(axis=Y), placement=at(0.1, -0.2), inertia=bar(0.8, (0.2, 0, -0.3)))
    spec.add_body(
        "wheel", wheel, jd.joints.Revolute(axis=(1, 0, 1)), placement=at(-0.1, 0.3), inertia=lump(0.9, (0.05, 0, 0))
    )
    return Pose(spec, hand=0.3, leg=-0.2, wheel=0.4)


def _spread(one, two, three):
    """A mix of the offsets and axes of three poses, which is zero somewhere near neutral."""
    u, v = two.translation - one.translation, three.translation - one.translation
    return jnp.stack([u @ v + 0.2 * one.rotation[:, 0] @ two.rotation[:, 1] + 0.1 * three.rotation[:, 2] @ u])


def _tilt(pose):
    """A mix of one body's offset and axes."""
    along = pose.rotation[:, 0]
    return jnp.stack([0.3 * along[0] + 0.2 * along[1] + along[2] + 0.5 * pose.translation[1]])


def _everything(spec):
    """Rows of all kinds: the ground, a loop, a parent and its child on a ball, three joints, three bodies, all."""
    pose = _bodies(spec, "trunk")
    pose.strut("hand", (0.1, 0.3, 0), "leg", (0.2, 0, -0.3), name="loop")
    pose.strut("arm", (0.2, 0.1, 0), "trunk", (0, 0.3, 0.2), name="wire")
    pose.tie(jd.constraints.PointOnPlane, "trunk", point=(0, 0, 0.2), normal=(0.2, 0, 1), name="ceiling")
    spec.add_constraint(jd.constraints.Coupling(("hand", "leg", "wheel"), (1.0, 2.0, -0.5), -0.3, name="gear"))
    spec.add_constraint(jd.constraints.General(("arm", "hand", "wheel"), _spread, 1, name="spread"))
    center = oracle.center_of_mass(pose.robot, pose.q)
    spec.add_constraint(jd.constraints.CenterOfMass(center, name="balance"))
    return pose


@robot(loops=True, floating=True, spread=0.15)
def everything_once(spec):
    """Independent rows."""
    return _everything(spec)


@robot(loops=True, floating=True, redundant=True, spread=0.15)
def everything(spec):
    """One row more, that of the loop seen from its other end."""
    return _everything(spec).strut("leg", (0.2, 0, -0.3), "hand", (0.1, 0.3, 0), name="again")


def _held(spec):
    """Rows to the ground alone: of the base and of every limb."""
    pose = _bodies(spec, "world")
    pose.tie(jd.constraints.PointOnPlane, "trunk", point=(0, 0, 0.2), normal=(0.2, 0, 1), name="ceiling")
    pose.tie(jd.constraints.Point, "hand", point=(0.1, 0.3, 0), name="grip")
    pose.tie(jd.constraints.PointOnPlane, "leg", point=(0.2, 0, -0.3), normal=(0, 0.2, 1), name="floor")
    spec.add_constraint(jd.constraints.Coupling("wheel", (2.0,), 0.8, name="brake"))
    spec.add_constraint(jd.constraints.General("arm", _tilt, 1, name="tilt"))
    return pose


@robot(floating=True, spread=0.15)
def held_once(spec):
    """Independent rows."""
    return _held(spec)


@robot(floating=True, redundant=True, spread=0.15)
def held(spec):
    """One row more on the hand, a mix of the point's."""
    return _held(spec).tie(jd.constraints.PointOnPlane, "hand", point=(0.1, 0.3, 0), normal=(1, 2, 0.5), name="again")
