"""Closed loops: linkages, and constraints in every position relative to the tree."""

from catalogue_base import Pose, at, bar, lump, robot, towards

import jaxdyn as jd

X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)


def _four_bar(spec):
    spec.add_body("crank", "world", jd.joints.Revolute(axis=Y, damping=0.05), inertia=bar(0.5, (0, 0, 0.2)))
    spec.add_body("coupler", "crank", jd.joints.Revolute(axis=Y), placement=at(z=0.2), inertia=bar(1.0, (0.55, 0, 0.1)))
    spec.add_body("rocker", "world", jd.joints.Revolute(axis=Y), placement=at(0.5), inertia=bar(0.8, (0.05, 0, 0.3)))


@robot(loops=True, redundant=True)
def four_bar_hinge(spec):
    """A planar linkage closed by a hinge, the two links well turned to each other."""
    _four_bar(spec)
    return Pose(spec).tie(jd.constraints.Hinge, "coupler", "rocker", (0.55, 0, 0.1), swing=(Y, 2.4), axis=Y, name="pin")


@robot(loops=True, redundant=True)
def four_bar_point(spec):
    _four_bar(spec)
    return Pose(spec).tie(jd.constraints.Point, "coupler", "rocker", (0.55, 0, 0.1), name="pin")


@robot(loops=True, redundant=True)
def four_bar_weld(spec):
    """The same linkage with its coupler cut in two, welded together."""
    _four_bar(spec)
    spec.add_body(
        "half", "rocker", jd.joints.Revolute(axis=Y), placement=at(0.05, 0, 0.3), inertia=bar(0.4, (-0.2, 0, 0))
    )
    return Pose(spec).tie(jd.constraints.Weld, "coupler", "half", (0.3, 0, 0.05), name="seam")


@robot(loops=True, redundant=True, floating=True)
def five_bar_floating(spec):
    spec.add_body("base", "world", jd.joints.Free(), inertia=lump(4.0, (0, 0.02, 0.05)))
    for side, x in (("left", -0.15), ("right", 0.15)):
        spec.add_body(
            f"{side}_hip", "base", jd.joints.Revolute(axis=Y), placement=at(x), inertia=bar(0.6, (2 * x, 0, -0.2))
        )
        knee = jd.joints.Revolute(axis=Y, damping=0.05)
        inertia = bar(0.4, (-3 * x, 0, -0.3))
        spec.add_body(f"{side}_shin", f"{side}_hip", knee, placement=at(2 * x, 0, -0.2), inertia=inertia)
    return Pose(spec).tie(jd.constraints.Hinge, "left_shin", "right_shin", (0.45, 0, -0.3), axis=Y, name="foot")


@robot(loops=True, thin=True, spread=0.15)
def thin_rods(spec):
    """A leg whose thin rods, on ball joints, have next to no inertia about their own lines."""
    thin = 7.3e-3  # radius: a spin inertia of 4e-6 kg m²
    spec.add_body("thigh", "world", jd.joints.Universal(), inertia=bar(5.0, (0.1, 0, -0.4), 0.06))
    spec.add_body(
        "shin", "thigh", jd.joints.Revolute(axis=Y, stiffness=50.0), placement=at(0.1, 0, -0.4), inertia=bar(2.0, Z)
    )
    spec.add_body(
        "tarsus", "shin", jd.joints.Revolute(axis=Y), placement=at(-0.3, 0, -0.3), inertia=bar(0.9, (0.1, 0, -0.4))
    )
    spec.add_body(
        "toe", "tarsus", jd.joints.Revolute(axis=Y, armature=1e-3), placement=at(0.1, 0, -0.4), inertia=bar(0.2, X)
    )
    long, short = towards(0, 0.05, 0.02, (-0.3, 0.06, -0.75)), towards(-0.25, -0.05, -0.2, (0.38, 0.0, -0.46))
    spec.add_body("rod", "thigh", jd.joints.Spherical(), placement=long, inertia=bar(0.15, (0, 0, 0.8), thin))
    spec.add_body("push", "shin", jd.joints.Spherical(), placement=short, inertia=bar(0.15, (0, 0, 0.6), thin))
    pose = Pose(spec)
    pose.tie(jd.constraints.Point, "rod", "tarsus", (0, 0, 0.8), name="rod_end")
    pose.tie(jd.constraints.Point, "push", "toe", (0, 0, 0.6), name="push_end")
    return pose.strut("toe", (0.1, 0, 0), "world", (0.2, 0.3, -1.2), name="strut")


def _snake(spec, n, parent="world"):
    """A chain of `n` bodies whose axes point in every direction."""
    axes = (X, (1, 1, 0), (0, 1, 1), (1, -1, 1), Y, (0, -1, 2), (1, 0, 1))
    for k in range(n):
        placement = at(0.3, 0, 0.1, (k, 1, 2), 0.4) if k else at(axis=(1, 1, 1), angle=0.5)
        joint = jd.joints.Revolute(axis=axes[k], damping=0.02)
        spec.add_body(f"s{k}", parent, joint, placement=placement, inertia=bar(1.0 - 0.1 * k, (0.3, 0, 0.1), 0.06))
        parent = f"s{k}"
    return Pose(spec, **{f"s{k}": 0.4 * (-1) ** k + 0.1 * k for k in range(n)})


@robot()
def tip_point(spec):
    """To the ground, by three rows."""
    return _snake(spec, 5).tie(jd.constraints.Point, "s4", point=(0.3, 0, 0.1), name="tip")


@robot()
def tip_plane(spec):
    """To the ground, by one row."""
    return _snake(spec, 3).tie(jd.constraints.PointOnPlane, "s2", point=(0.3, 0, 0.1), normal=(0.3, 0.2, 1), name="tip")


@robot()
def tip_weld(spec):
    """To the ground, by six rows."""
    return _snake(spec, 7).tie(jd.constraints.Weld, "s6", point=(0.3, 0, 0.1), name="tip")


@robot(redundant=True)
def duplicated(spec):
    """The same rows twice."""
    pose = _snake(spec, 5).tie(jd.constraints.Point, "s4", point=(0.3, 0, 0.1), name="once")
    return pose.tie(jd.constraints.Point, "s4", point=(0.3, 0, 0.1), name="twice")


@robot(loops=True)
def ancestor(spec):
    """Between a body and one far above it."""
    return _snake(spec, 6).tie(jd.constraints.Point, "s5", "s0", (0.3, 0, 0.1), name="loop")


@robot(loops=True)
def crossing_loops(spec):
    """Loops that share links: one within another, and two that overlap."""
    pose = _snake(spec, 7).tie(jd.constraints.Point, "s6", "s1", (0.2, 0.1, 0), name="outer")
    pose.strut("s5", (0.1, 0.2, 0), "s3", (0, 0.1, 0.2), name="inner")
    return pose.strut("s4", (0.2, -0.2, 0.1), "s0", (0, -0.2, 0.1), name="across")


@robot(loops=True)
def siblings(spec):
    """Between two children of one body."""
    spec.add_body("torso", "world", jd.joints.Revolute(axis=(0, 1, 2)), inertia=lump(3.0, (0, 0, 0.2)))
    for side, y in (("left", 0.2), ("right", -0.2)):
        spec.add_body(side, "torso", jd.joints.Spherical(), placement=at(0, y, 0.4), inertia=bar(0.8, (0.4, -y, 0.1)))
    return Pose(spec).tie(jd.constraints.Point, "left", "right", (0.4, -0.2, 0.1), name="hands")


@robot(loops=True)
def parent_and_child(spec):
    """Between bodies that a joint connects already, twice over in a row."""
    spec.add_body("arm", "world", jd.joints.Universal(), inertia=bar(1.5, (0.4, 0, 0.1)))
    spec.add_body(
        "hand", "arm", jd.joints.Spherical(), placement=at(0.4, 0, 0.1, Z, 0.5), inertia=bar(0.7, (0.2, 0.1, 0))
    )
    spec.add_body(
        "tool", "hand", jd.joints.Free(), placement=at(0.2, 0.1, 0, X, 0.7), inertia=lump(0.4, (0.05, 0, 0.02))
    )
    pose = Pose(spec).strut("hand", (0.2, 0.1, 0), "arm", (0, 0.1, 0.2), name="wire")
    return pose.tie(jd.constraints.Slider, "hand", "tool", (0.1, 0.1, 0.05), axis=(1, 0, 2), name="rail")


@robot(loops=True, redundant=True, floating=True)
def same_pair(spec):
    """Two balls between the same two bodies, which make a hinge and one row too many."""
    spec.add_body("one", "world", jd.joints.Free(), inertia=lump(1.0, (0.05, 0, 0)))
    spec.add_body("two", "world", jd.joints.Free(), placement=at(0.5, 0.1, 0.2, X, 0.6), inertia=lump(0.7, (0, 0.1, 0)))
    pose = Pose(spec).tie(jd.constraints.Point, "one", "two", (0.2, 0.2, 0), name="upper")
    return pose.tie(jd.constraints.Point, "one", "two", (0.3, -0.1, 0.1), name="lower")


@robot(loops=True)
def two_robots(spec):
    """Two roots in one model that hold the same thing; the second is declared between the first's bodies."""
    axes = ((0, 1, 1), Y, (1, 1, 0), X)
    for k, axis in enumerate(axes):
        for arm, y in (("a", -0.3), ("b", 0.3)):
            placement = at(0.25, 0, 0.1, axis, 0.3) if k else at(0, y, 0, Z, -y)
            parent = f"{arm}{k - 1}" if k else "world"
            spec.add_body(
                f"{arm}{k}",
                parent,
                jd.joints.Revolute(axis=axis),
                placement=placement,
                inertia=bar(1.0, (0.25, 0, 0.1)),
            )
    return Pose(spec, a1=0.5, b1=-0.3, a2=0.4, b2=0.2).tie(jd.constraints.Weld, "a3", "b3", (0.3, 0.1, 0), name="grip")


@robot(loops=True, spread=0.5)
def free_in_the_middle(spec):
    """A free joint on a moving parent, with a child of its own that is tied to a third body."""
    spec.add_body("carrier", "world", jd.joints.Revolute(axis=(1, 2, 0)), inertia=bar(2.0, (0.3, 0, 0.2)))
    spec.add_body(
        "satellite",
        "carrier",
        jd.joints.Free(armature=0.2),
        placement=at(0.3, 0, 0.2, (1, 1, 1), 0.9),
        inertia=lump(1.0),
    )
    spec.add_body(
        "wheel", "satellite", jd.joints.Revolute(axis=(0, 1, 1)), placement=at(0.1), inertia=lump(0.4, (0, 0.05, 0))
    )
    spec.add_body("tail", "carrier", jd.joints.Spherical(), placement=at(-0.1, 0.2), inertia=bar(0.6, (0, 0.3, 0.1)))
    return Pose(spec).tie(jd.constraints.Point, "wheel", "tail", (0.1, 0, 0.1), name="leash")
