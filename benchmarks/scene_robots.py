"""Scenes of real robots, as in Table I of the paper on matrix-free Delassus operators: a quadruped and a humanoid that
stand or have fallen, Cassie with its loops, and humanoids that fall on a pyramid of boxes.

Robots come from `example-robot-data`. The paper captured contacts from a simulator; here they are prescribed: below
links that are near the ground in a posture, and half way between links that are near each other.
"""

import warnings
from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from scene_boxes import SIDE, add_box, placed, pyramid_layout
from scene_parts import (
    ContactScene,
    Poses,
    Touch,
    between,
    contacts,
    grounded,
    joint_rows,
    landed,
    moved,
    posture,
    upright,
)
from systems import Scene, cassie, described

import jaxdyn as jd

Point = tuple[str, tuple[float, float, float]]
SPREAD = 0.02
ZERO = (0.0, 0.0, 0.0)


def floating(path: str) -> jd.Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jd.ModelWarning)
        return jd.load(described(path), floating=True)


def in_contact(
    name: str,
    model: jd.Model,
    joints: dict[str, object],
    ground: Sequence[Point],
    own: Sequence[tuple[Point, Point]],
    clearance: float,
    friction: bool,
    seed: int,
) -> ContactScene:
    """Return a robot near a posture, with contacts of some points with the ground and of others with each other."""
    q = moved(model, posture(model, joints), seed, SPREAD)
    q = landed(model, q, "root_joint", ground, clearance)
    poses = Poses(model, q)
    touches = [*grounded(poses, ground), *between(poses, own)]
    rows = joint_rows(model) if friction else ()
    return ContactScene(name + ("_friction" if friction else ""), model, q, contacts(poses, touches), rows)


LEGS = ("FL", "FR", "RL", "RR")
#: radius of a foot
FOOT = 0.022


def quadruped(friction: bool = False, seed: int = 0) -> ContactScene:
    """Return Go2 on its four feet."""
    bent = {f"{leg}_{joint}_joint": x for leg in LEGS for joint, x in (("thigh", 0.785), ("calf", -1.44))}
    feet = [(f"{leg}_foot", ZERO) for leg in LEGS]
    model = floating("go2_description/urdf/go2.urdf")
    return in_contact("quadruped_standing", model, bent, feet, (), FOOT, friction, seed)


def quadruped_fallen(points: int, friction: bool = False, seed: int = 0) -> ContactScene:
    """Return Go2 on its belly with folded legs: 9 or 10 points, of which two are a calf against its own trunk."""
    folded = {f"{leg}_{joint}_joint": x for leg in LEGS for joint, x in (("thigh", 1.4), ("calf", -2.7))}
    ground: list[Point] = [(f"{leg}_calf", ZERO) for leg in LEGS]  # knees
    ground += [("FL_foot", ZERO), ("base", (0.1, 0, -0.06)), ("base", (-0.1, 0, -0.06)), ("FR_foot", ZERO)]
    own = [((f"{leg}_calf", (0.0, 0.0, -0.1)), ("base", (0.1, y, -0.04))) for leg, y in (("FL", 0.05), ("FR", -0.05))]
    model = floating("go2_description/urdf/go2.urdf")
    return in_contact("quadruped_fallen", model, folded, ground[: points - 2], own, 0.04, friction, seed)


SIDES = (("left", 1), ("right", -1))
#: approximate posture in which Cassie's loops close and its feet are level
SQUAT = {"pitch-op": 0.192, "knee-op": -0.227, "shin-tarsus-joint": 0.693, "tarsus-spring-joint": -0.633}
SQUAT |= {"tarsus-crank-joint": -1.751, "crank-rod-joint": 1.751, "foot-op": -1.751}


def cassie_standing(friction: bool = False, seed: int = 0) -> ContactScene:
    """Return Cassie on both feet with four points each, with its loops enforced."""
    model, _ = cassie()
    # a foot is a capsule in its x-y plane, along this direction
    along, middle = np.array([0.768, -0.640, 0.0]), np.array([0.01, 0.045, 0.0])
    ends = [tuple((middle + s * 0.08 * along + [0, 0, w]).tolist()) for s in (-1, 1) for w in (-0.012, 0.012)]
    soles: list[Point] = [(f"{side}-foot", end) for side, _ in SIDES for end in ends]
    joints: dict[str, object] = {f"{side}-{joint}": x for side, _ in SIDES for joint, x in SQUAT.items()}
    joints |= {f"{side}-pitch-rod-joint": (0.9965, 0.006 * s, 0.0046 * s, -0.0835) for side, s in SIDES}
    return in_contact("cassie", model, joints, soles, (), 0.0168, friction, seed)


SOLE = ((-0.05, 0.025, -0.035), (-0.05, -0.025, -0.035), (0.12, 0.03, -0.035), (0.12, -0.03, -0.035))
SOLES: list[Point] = [(f"{side}_ankle_roll_link", at) for side, _ in SIDES for at in SOLE]


def both(link: str, at=ZERO) -> list[Point]:
    """Return a point of the left and of the right link."""
    return [(f"{side}_{link}", (at[0], s * at[1], at[2])) for side, s in SIDES]


def humanoid_model() -> jd.Model:
    return floating("g1_description/urdf/g1_29dof_rev_1_0.urdf")


def humanoid(friction: bool = False, seed: int = 0) -> ContactScene:
    """Return G1 on both feet with four points each."""
    bent = {"hip_pitch": -0.2, "knee": 0.42, "ankle_pitch": -0.22, "elbow": 0.9}
    joints = {f"{side}_{joint}_joint": x for side, _ in SIDES for joint, x in bent.items()}
    return in_contact("humanoid_standing", humanoid_model(), joints, SOLES, (), 0.0, friction, seed)


#: points on which a humanoid lies
FRONT: list[Point] = [
    *SOLES[2:4],
    *SOLES[6:],
    *both("knee_link"),
    *both("knee_link", (0.0, 0.0, -0.15)),
    *both("hip_yaw_link"),
    ("pelvis", (0.06, 0.05, -0.05)),
    ("pelvis", (0.06, -0.05, -0.05)),
    ("torso_link", (0.08, 0.08, 0.2)),
    ("torso_link", (0.08, -0.08, 0.2)),
    ("torso_link", (0.07, 0.0, 0.05)),
    ("torso_link", (0.06, 0.0, 0.42)),  # the forehead
    *both("elbow_link"),
    *both("wrist_yaw_link", (0.05, 0.0, 0.0)),
    ("left_wrist_roll_link", ZERO),
]


def humanoid_fallen(points: int, friction: bool = False, seed: int = 0) -> ContactScene:
    """Return G1 face down: 23 or 24 points, three of which are between its own links: the knees, and the hands on the
    hips.

    The paper has 25 contacts and 101 rows with friction in joints. With 29 joints this is impossible: 25 contacts have
    75 rows, and the other 26 would leave three joints out. Here 24 contacts and 29 joints have 101 rows.
    """
    lying: dict[str, object] = {}
    for side, s in SIDES:
        lying |= {f"{side}_elbow_joint": 1.4, f"{side}_ankle_pitch_joint": 0.8, f"{side}_hip_roll_joint": -0.12 * s}
    lying["root_joint"] = (0, 0, 0, np.cos(np.pi / 4), 0, np.sin(np.pi / 4), 0)
    own = [((f"{side}_wrist_yaw_link", (0.05, 0.0, 0.0)), (f"{side}_hip_roll_link", ZERO)) for side, _ in SIDES]
    own.append((("left_knee_link", ZERO), ("right_knee_link", ZERO)))
    ground = FRONT[: points - len(own)]
    return in_contact("humanoid_fallen", humanoid_model(), lying, ground, own, 0.03, friction, seed)


def nearest_box(poses: Poses, boxes: Sequence[str], body: str, at) -> tuple[float, Touch]:
    """Return the distance of a point of a link from the nearest box, and their contact on the surface of the box."""
    found = []
    point = poses.point(body, at)
    for name in boxes:
        inside = np.asarray(poses[name].inverse().apply(point))
        surface = np.clip(inside, -SIDE / 2, SIDE / 2)
        found.append((float(np.linalg.norm(inside - surface)), (body, name, poses[name] @ upright(surface))))
    return min(found, key=lambda x: x[0])


#: points at which a humanoid leans against boxes
LEANING: list[Point] = [
    *both("knee_link"),
    *both("elbow_link"),
    *both("wrist_yaw_link", (0.05, 0.0, 0.0)),
    ("pelvis", (0.06, 0.0, -0.05)),
    ("torso_link", (0.08, 0.0, 0.2)),
]
#: angle of a pyramid's side from the vertical
SLOPE = float(np.arctan2((SIDE + 0.02) / 2, SIDE))


def pyramid_with_robots(base: int = 4, robots: int = 3, seed: int = 0) -> ContactScene:
    """Return a collapsing pyramid, in which each pair of boxes touches at one corner (72 contacts), and three G1
    leaning on its sides, with four points of the feet on the ground and eight against boxes: 108 contacts,
    nv = 180 + 3 · 35 = 285."""
    rng, scene = np.random.default_rng(seed), Scene("pyramid_with_robots")
    places, faces = pyramid_layout(base)
    for name in places:
        add_box(scene.spec, name, rng)
    for k in range(robots):
        scene.add(described("g1_description/urdf/g1_29dof_rev_1_0.urdf"), f"r{k}/", floating=True)
    model = scene.spec.build()
    q = placed(model, places)
    for k in range(robots):
        yaw, pitch = k * np.pi / 2, SLOPE
        turn = np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)
        lean = np.cos(pitch / 2), 0, np.sin(pitch / 2), 0
        # quaternion of lean followed by yaw
        wxyz = (turn[0] * lean[0], -turn[3] * lean[2], turn[0] * lean[2], turn[3] * lean[0])
        away = base * SIDE / 2 - 0.02
        q[model.q_slice(f"r{k}/root_joint")] = (-away * np.cos(yaw), -away * np.sin(yaw), 0.7, *wxyz)
    q = moved(model, q, seed, SPREAD / 4)
    for k in range(robots):
        q = landed(model, q, f"r{k}/root_joint", [(f"r{k}/{body}", at) for body, at in SOLES], 0.0)
    poses = Poses(model, jnp.asarray(q))
    touches: list[Touch] = []
    for a, b, low, high in faces:
        corner = rng.integers(2, size=2)
        x, y = (low[0], high[0])[corner[0]], (low[1], high[1])[corner[1]]
        touches.append((a, b, poses[a] @ upright((x, y, -SIDE / 2))))
    for k in range(robots):
        touches += grounded(poses, [(f"r{k}/{body}", at) for body, at in SOLES[2:4] + SOLES[6:]])
        touches += [nearest_box(poses, list(places), f"r{k}/{body}", at)[1] for body, at in LEANING]
    return ContactScene("pyramid_with_robots", model, q, contacts(poses, touches))
