"""`strider`: a biped whose legs have closed loops, springs and redundant constraint rows."""

import numpy as np

from ..model.joints import Free, Revolute, Spherical
from ..model.pairs import Point
from ..model.spec import ModelSpec
from ..spatial.inertia import Inertia
from ..spatial.transform import Transform

X, Y = (1, 0, 0), (0, 1, 0)


def _at(x: float, y: float = 0.0, z: float = 0.0) -> Transform:
    return Transform(np.eye(3), np.array([x, y, z], float))


def _rod(mass: float, end: tuple[float, float, float], radius: float) -> Inertia:
    """Return the inertia of a uniform cylinder from the body's origin to `end`."""
    tip = np.asarray(end, float)
    length = np.linalg.norm(tip)
    u = tip / length
    across, along = mass * (length**2 / 12 + radius**2 / 4), mass * radius**2 / 2
    return Inertia(mass, tip / 2, across * np.eye(3) + (along - across) * np.outer(u, u))


def _along_z(x: np.ndarray) -> np.ndarray:
    """Return a rotation that takes the z axis to the direction of `x`."""
    z = x / np.linalg.norm(x)
    y = np.cross(z, (1.0, 0.0, 0.0))
    y /= np.linalg.norm(y)
    return np.stack([np.cross(y, z), y, z], 1)


def strider() -> ModelSpec:
    """Return a biped of 13 kg with two closed loops in each leg: nb = 19, nv = 28, eight motors.

    A parallelogram of thigh, shin, tarsus and a thin push rod makes the tarsus follow the knee; the rod ends in a
    lever that a leaf spring ties to the tarsus. A crank and a connecting rod move the foot; that linkage is planar but
    closed by a ball, so that one of its rows is redundant. Lengths in metres, x forward, z up.
    """
    spec = ModelSpec("strider")
    spec.add_body("pelvis", "world", Free(name="root"), inertia=Inertia(5.0, (0, 0, 0.08), np.diag([0.06, 0.04, 0.05])))
    for side, s in (("left", 1.0), ("right", -1.0)):

        def add(name, parent, joint, place, inertia, side=side):
            parent = parent if parent == "pelvis" else f"{side}_{parent}"
            spec.add_body(f"{side}_{name}", parent, joint, placement=place, inertia=inertia)

        hip, knee, ankle = (0.0, 0.03 * s, -0.05), (0.14, 0.0, -0.28), (-0.22, 0.0, -0.24)
        add("hip", "pelvis", Revolute(axis=X, damping=0.5), _at(0, 0.09 * s, 0), _rod(0.8, hip, 0.04))
        add("thigh", "hip", Revolute(axis=Y, damping=0.5), _at(*hip), _rod(1.4, knee, 0.04))
        add("shin", "thigh", Revolute(axis=Y, damping=0.5), _at(*knee), _rod(0.7, ankle, 0.025))
        add("tarsus", "shin", Revolute(axis=Y, damping=0.05), _at(*ankle), _rod(0.5, (0.16, 0, -0.30), 0.02))
        # a parallelogram of thigh, shin, tarsus with its lever, and the rod: the tarsus stays parallel to the thigh
        lever = (-0.06, 0.0, -0.02)
        spring = Revolute(axis=Y, stiffness=400.0, damping=0.4)
        add("lever", "tarsus", spring, _at(-0.02, 0, -0.01), _rod(0.08, lever, 0.012))
        start = np.array(knee) + np.array([-0.08, -0.03 * s, -0.03])
        end = np.array(knee) + np.array(ankle) + np.array([-0.08, 0.0, -0.03])
        # along an axis of its body, which keeps the inertia of a thin rod accurate in single precision
        rod = (0.0, 0.0, float(np.linalg.norm(end - start)))
        place = Transform(_along_z(end - start), start)
        add("rod", "thigh", Spherical(damping=0.01), place, _rod(0.1, rod, 0.006))
        spec.add_constraint(
            Point(
                f"{side}_rod", f"{side}_lever", placement_a=_at(*rod), placement_b=_at(*lever), name=f"{side}_rod_end"
            )
        )
        # the foot's linkage: crank - connecting rod - foot, all turning about y
        crank = (-0.05, 0.0, 0.0)
        add("crank", "tarsus", Revolute(axis=Y, damping=0.3), _at(0.04, 0.015 * s, -0.06), _rod(0.1, crank, 0.015))
        conrod = (0.115, 0.0, -0.22)
        add("conrod", "crank", Revolute(axis=Y, damping=0.002), _at(*crank), _rod(0.07, conrod, 0.007))
        add("foot", "tarsus", Revolute(axis=Y, damping=0.1), _at(0.16, 0, -0.30), _rod(0.25, (0.12, 0, -0.03), 0.02))
        heel = np.array([0.04, 0.015 * s, -0.06]) + np.array(crank) + np.array(conrod) - np.array([0.16, 0, -0.30])
        ball = Point(
            f"{side}_conrod", f"{side}_foot", placement_a=_at(*conrod), placement_b=_at(*heel), name=f"{side}_ankle"
        )
        spec.add_constraint(ball)
        for motor, gear in (("hip", 1.0), ("thigh", 1.0), ("shin", 1.0), ("crank", 1.0)):
            spec.add_actuator(f"{side}_{motor}", gear=gear)
    return spec
