"""Trees, in which every joint kind stands at least once, with gears, or pinned in a singular pose."""

import numpy as np
from catalogue_base import Pose, at, bar, lump, robot

import jaxdyn as jd

Y = (0, 1, 0)


@robot(spread=1.5)
def pendulum(spec):
    spec.add_body("rod", "world", jd.joints.Revolute(axis=Y, damping=0.1), inertia=bar(1.0, (0, 0, -0.5)))


@robot(spread=1.0)
def cart_double_pendulum(spec):
    spec.add_body(
        "cart", "world", jd.joints.Prismatic(axis=(1, 0, 0), damping=0.2, stiffness=3.0, rest=0.1), inertia=lump(2.0)
    )
    spec.add_body("upper", "cart", jd.joints.Revolute(axis=Y), placement=at(z=0.1), inertia=bar(1.0, (0, 0, -0.6)))
    spec.add_body("lower", "upper", jd.joints.Revolute(axis=Y), placement=at(z=-0.6), inertia=bar(0.7, (0, 0, -0.5)))


@robot(floating=True, spread=0.8)
def joints_floating(spec):
    """Free, Spherical, Universal, Helical, Revolute: in two branches, with springs, dampers and armature."""
    spec.add_body("base", "world", jd.joints.Free(damping=0.1), inertia=lump(3.0, (0.02, -0.03, 0.05)))
    ball = jd.joints.Spherical(armature=0.02, damping=(0.1, 0.2, 0.3), stiffness=2.0, rest=(0.8, 0.6, 0.0, 0.0))
    spec.add_body("ball", "base", ball, placement=at(0.2, 0.1, 0, (1, 1, 0), 0.5), inertia=bar(1.0, (0.1, 0.3, 0)))
    screw = jd.joints.Helical(axis=(1, 2, 3), pitch=0.15, armature=0.03, damping=0.2, stiffness=4.0, rest=-0.3)
    spec.add_body("screw", "ball", screw, placement=at(0.1, 0.3, 0, (0, 1, 1), 1.1), inertia=lump(0.6, (0, 0.1, 0)))
    cross = jd.joints.Universal(axis=(1, 0.2, 0), axis2=(0.1, 1, 0.3), armature=(0.01, 0.02), stiffness=(1.0, 2.0))
    spec.add_body("cross", "base", cross, placement=at(-0.2, 0, 0.1, (1, 0, 2), 0.8), inertia=bar(0.9, (0, -0.2, 0.3)))
    hinge = jd.joints.Revolute(axis=(0.3, -0.5, 0.8), armature=0.05, damping=0.1, rest=0.2, stiffness=1.5)
    spec.add_body("hinge", "cross", hinge, placement=at(0, -0.2, 0.3, (2, 1, 0), 1.9), inertia=bar(0.5, (0.3, 0, 0)))


@robot(spread=0.8)
def joints_grounded(spec):
    """Planar (its axis pointing down), Cylindrical, Translation, Prismatic, Planar, in two branches."""
    plane = jd.joints.Planar(axis=(0.3, -0.4, -0.8), armature=(0.1, 0.2, 0.05), damping=(1.0, 0.5, 0.1), stiffness=2.0)
    spec.add_body("plane", "world", plane, placement=at(0.1, 0, 0.3, (1, 2, 0), 0.6), inertia=lump(2.0, (0.1, 0, 0)))
    tube = jd.joints.Cylindrical(
        axis=(1, 1, 0), armature=(0.2, 0.01), damping=0.2, stiffness=(5.0, 1.0), rest=(0.1, -0.4)
    )
    spec.add_body("tube", "plane", tube, placement=at(0, 0.3, 0, (0, 1, 2), 1.2), inertia=bar(1.0, (0.2, 0.2, 0)))
    gantry = jd.joints.Translation(armature=0.1, stiffness=(3.0, 4.0, 5.0), rest=(0.1, 0.0, -0.1))
    spec.add_body("gantry", "tube", gantry, placement=at(0.2, 0.2, 0, (1, 0, 0), 0.4), inertia=lump(0.8, (0, 0, 0.1)))
    spec.add_body(
        "piston", "plane", jd.joints.Prismatic(axis=(0, 2, 1)), placement=at(-0.3, axis=Y, angle=2.0), inertia=lump(0.7)
    )
    spec.add_body(
        "table", "piston", jd.joints.Planar(axis=(0, 1, 1)), placement=at(z=0.2), inertia=lump(0.5, (0, 0.2, 0))
    )


@robot(floating=True, spread=0.5)
def quadruped(spec):
    """A floating trunk with two legs of two links, and a frame at each foot."""
    spec.add_body("trunk", "world", jd.joints.Free(name="float"), inertia=lump(5.0, (0.01, 0, 0.02), (0.5, 0.25, 0.15)))
    for side, y in (("left", 0.12), ("right", -0.12)):
        hip = jd.joints.Revolute(axis=Y, armature=0.02, damping=0.1, limits=(-1.5, 1.5))
        spec.add_body(f"{side}_thigh", "trunk", hip, placement=at(0.1, y, -0.05), inertia=bar(0.8, (0, 0, -0.3)))
        knee = jd.joints.Revolute(axis=Y, armature=0.01, damping=0.1, limits=(-2.5, 2.5))
        spec.add_body(f"{side}_shin", f"{side}_thigh", knee, placement=at(z=-0.3), inertia=bar(0.3, (0, 0, -0.3)))
        spec.add_frame(f"{side}_foot", f"{side}_shin", at(z=-0.3))
        spec.add_actuator(f"{side}_thigh")
        spec.add_actuator(f"{side}_shin", gear=2.0)


@robot(loops=True)
def geared_arm(spec):
    """A rotor, with armature besides, that turns six times as fast as the joint it drives."""
    spec.add_body("upper", "world", jd.joints.Revolute(axis=(0, 1, 0.2)), inertia=bar(1.5, (0.4, 0, 0)))
    spec.add_body(
        "rotor", "upper", jd.joints.Revolute(axis=(0, 1, 1), armature=2e-3), inertia=lump(0.1, size=(0.05, 0.04, 0.03))
    )
    spec.add_body(
        "lower", "upper", jd.joints.Revolute(axis=(0, 1, 1)), placement=at(0.4), inertia=bar(0.8, (0.3, 0, 0))
    )
    spec.add_constraint(_coupling(("rotor", "lower"), (1.0, -6.0), 0.3))
    return Pose(spec, rotor=0.3)


@robot(loops=True)
def differential(spec):
    """The drive turns as the mean of two wheels; one wheel moves a rack, the other a nut on a screw."""
    spec.add_body("chassis", "world", jd.joints.Prismatic(axis=(1, 0, 0.1)), inertia=lump(3.0))
    spec.add_body(
        "drive", "chassis", jd.joints.Revolute(axis=(1, 0, 0)), placement=at(0.1), inertia=lump(0.5, (0, 0.03, 0))
    )
    for side, y in (("left", 0.3), ("right", -0.3)):
        spec.add_body(
            side, "chassis", jd.joints.Revolute(axis=Y), placement=at(0, y), inertia=lump(1.0, (0.05, 0, 0.02))
        )
    spec.add_body("rack", "left", jd.joints.Prismatic(axis=(0, 1, 1)), placement=at(0.1), inertia=lump(0.4))
    spec.add_body(
        "nut", "world", jd.joints.Helical(axis=(0, 0, 1), pitch=0.05), placement=at(y=-0.6), inertia=lump(0.6)
    )
    spec.add_constraint(_coupling(("drive", "left", "right"), (2.0, -1.0, -1.0), 0.0))
    spec.add_constraint(_coupling(("rack", "left"), (1.0, -0.2), 0.1))
    spec.add_constraint(_coupling(("right", "nut"), (1.0, 1.5), 0.0))
    return Pose(spec, rack=0.1)


def _coupling(joints, coefficients, offset):
    return jd.constraints.Coupling(joints, coefficients, offset, name="_".join(joints))


@robot(redundant=True, singular=True, state=lambda rng: _stretched_state(rng))
def stretched_arm(spec):
    """An arm pinned to the ground at full stretch: along the arm nothing can be felt, and the row is lost."""
    base = at(0.2, -0.1, 1.5, (1, 2, -1), 0.8)
    spec.add_body("upper", "world", jd.joints.Spherical(), placement=base, inertia=bar(1.2, (0, 0, -0.5)))
    spec.add_body("lower", "upper", jd.joints.Revolute(axis=Y), placement=at(z=-0.5), inertia=bar(0.9, (0, 0, -0.4)))
    return Pose(spec).tie(jd.constraints.Point, "lower", point=(0, 0, -0.4), name="pin")


def _stretched_state(rng):
    """The arm spins about its own line, the only motion that can go on from here."""
    half = rng.uniform(-np.pi, np.pi) / 2
    return np.array([np.cos(half), 0, 0, np.sin(half), 0]), np.array([0, 0, rng.normal(), 0])
