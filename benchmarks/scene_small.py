"""Small scenes, for tests, and planar swimmers of any length."""

import numpy as np
from scene_parts import (
    ContactScene,
    Poses,
    between,
    contacts,
    grounded,
    joint_rows,
    landed,
    moved,
    posture,
    upright,
)
from systems import iiwa

import jaxdyn as jd

LINK = 0.2


def rod(mass: float, length: float, axis: int = 2, radius: float = 0.03) -> jd.Inertia:
    """Return the inertia of a bar from the origin along an axis; a negative length reverses its direction."""
    along, sway = mass * radius**2 / 2, mass * (length**2 / 12 + radius**2 / 4)
    moments = np.full(3, sway)
    moments[axis] = along
    return jd.Inertia(mass, length / 2 * np.eye(3)[axis], np.diag(moments))


def shift(x=0.0, y=0.0, z=0.0) -> jd.Transform:
    return jd.Transform(np.eye(3), np.array([x, y, z], float))


def swimmer(links: int, seed: int = 0) -> ContactScene:
    """Return a planar chain of `links`, the first on a planar joint, with two points of each link on the ground: six
    rows per link for n + 2 freedoms. The links cannot move along z, so the rows along z are zero."""
    rng, spec, parent = np.random.default_rng(seed), jd.ModelSpec(f"swimmer_{links}"), "world"
    for k in range(links):
        joint = jd.joints.Revolute(axis=(0, 0, 1)) if k else jd.joints.Planar(axis=(0, 0, 1))
        place = shift(LINK) if k else shift()
        spec.add_body(f"link{k}", parent, joint, placement=place, inertia=rod(rng.uniform(0.5, 1.5), LINK, 0))
        parent = f"link{k}"
    model = spec.build()
    q = moved(model, model.neutral(), seed, 0.3)
    poses = Poses(model, q)
    touches = grounded(poses, [(f"link{k}", (x * LINK, 0, 0)) for k in range(links) for x in (0.25, 0.75)])
    return ContactScene(f"swimmer_{links}", model, q, contacts(poses, touches))


def crawler(friction: bool = False, seed: int = 0) -> ContactScene:
    """Return a quadruped with two joints per leg (nv = 14) on its feet, with a knee against a part below the trunk."""
    spec = jd.ModelSpec("crawler")
    trunk = jd.Inertia(5.0, (0, 0, 0.02), np.diag([0.05, 0.15, 0.18]))
    spec.add_body("trunk", "world", jd.joints.Free(name="root"), inertia=trunk)
    feet = []
    for side, s in (("left", 1), ("right", -1)):
        for end, x in (("front", 0.25), ("rear", -0.25)):
            leg = f"{end}_{side}"
            hip = jd.joints.Revolute(axis=(1, 0, 0), name=f"{leg}_hip")
            knee = jd.joints.Revolute(axis=(0, 1, 0), name=f"{leg}_knee", armature=0.01)
            place = jd.Transform.from_quaternion((np.cos(0.3), 0, -np.sin(0.3), 0), (x, 0.12 * s, 0))
            spec.add_body(f"{leg}_thigh", "trunk", hip, placement=place, inertia=rod(0.8, -0.25))
            spec.add_body(f"{leg}_shin", f"{leg}_thigh", knee, placement=shift(z=-0.25), inertia=rod(0.4, -0.25))
            feet.append((f"{leg}_shin", (0.0, 0.0, -0.25)))
    model = spec.build()
    knees = {joint: 1.0 for joint in model.joint_names if joint.endswith("knee")}
    q = landed(model, moved(model, posture(model, knees), seed, 0.1), "root", feet, 0.02)
    poses = Poses(model, q)
    own = [(("rear_left_shin", (0.0, 0.0, -0.02)), ("trunk", (-0.15, 0.08, -0.2)))]
    made = contacts(poses, grounded(poses, feet) + between(poses, own))
    name = "crawler" + ("_friction" if friction else "")
    return ContactScene(name, model, q, made, joint_rows(model) if friction else ())


def strider(friction: bool = False, seed: int = 0) -> ContactScene:
    """Return the shipped biped on toes and heels; its loops, whose rows are redundant, are enforced."""
    model = jd.load("strider")
    feet = [(f"{side}_foot", (x, 0.0, -0.03)) for side in ("left", "right") for x in (0.0, 0.12)]
    q = landed(model, moved(model, model.neutral(), seed, 0.02), "root", feet, 0.01)
    poses = Poses(model, q)
    rows = joint_rows(model) if friction else ()
    name = "strider" + ("_friction" if friction else "")
    return ContactScene(name, model, q, contacts(poses, grounded(poses, feet)), rows)


def four_bar(seed: int = 0) -> ContactScene:
    """Return the shipped linkage, whose coupler touches the world: three rows for one freedom."""
    model = jd.load("four_bar")
    q = moved(model, model.neutral(), seed, 0.02)
    poses = Poses(model, q)
    touch = "coupler", "world", upright(poses.point("coupler", (0.25, 0.0, 0.05)))
    return ContactScene("four_bar", model, q, contacts(poses, [touch]))


def tentacle(seed: int = 0) -> ContactScene:
    """Return a free body with a curled chain of three links on ball joints with friction; contacts of the body, of the
    tip, and of the tip with the first link."""
    spec = jd.ModelSpec("tentacle")
    root = jd.Inertia(2.0, (0, 0, 0), np.diag([0.02, 0.02, 0.02]))
    spec.add_body("body", "world", jd.joints.Free(name="root"), inertia=root)
    parent, place = "body", shift(0.1)
    for k in range(3):
        spec.add_body(f"link{k}", parent, jd.joints.Spherical(), placement=place, inertia=rod(0.6, LINK, 0))
        parent, place = f"link{k}", shift(LINK)
    model = spec.build()
    curled = {f"link{k}": (np.cos(1.0), 0, 0, np.sin(1.0)) for k in (1, 2)}
    ground = [("body", (0.0, y, -0.1)) for y in (-0.1, 0.1)] + [("link2", (LINK, 0.0, 0.0))]
    q = landed(model, moved(model, posture(model, curled), seed, 0.1), "root", ground, 0.01)
    poses = Poses(model, q)
    own = [(("link0", (0.02, 0.0, 0.0)), ("link2", (LINK, 0.0, 0.0)))]
    made = contacts(poses, grounded(poses, ground) + between(poses, own))
    return ContactScene("tentacle", model, q, made, joint_rows(model))


def arm(seed: int = 0) -> ContactScene:
    """Return a fixed arm of seven joints whose tip and elbow touch the ground, with friction in its joints."""
    model, q = iiwa(None)
    q = moved(model, q, seed, 0.2)
    poses = Poses(model, q)
    made = contacts(poses, [(body, "world", upright(poses.point(body, (0, 0, 0.1)))) for body in ("link6", "link3")])
    return ContactScene("arm", model, q, made, joint_rows(model))
