"""One small mechanism for each kind of constraint that the linkages do not use."""

import jax.numpy as jnp
from catalogue_base import Pose, at, bar, lump, robot

import jaxdyn as jd

X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)


@robot(redundant=True)
def slider_crank(spec):
    """The piston slides on the ground: a plane mechanism, with rows too many."""
    spec.add_body("crank", "world", jd.joints.Revolute(axis=Y), inertia=bar(0.5, (0.1, 0, 0.2)))
    spec.add_body(
        "rod", "crank", jd.joints.Revolute(axis=Y), placement=at(0.1, 0, 0.2), inertia=bar(0.8, (0.5, 0, -0.2))
    )
    spec.add_body("piston", "rod", jd.joints.Revolute(axis=Y), placement=at(0.5, 0, -0.2), inertia=lump(1.0))
    return Pose(spec).tie(jd.constraints.Slider, "piston", axis=X, name="bore")


@robot(loops=True)
def collar(spec):
    """A collar that slides along and turns about a swinging mast, well turned against it."""
    spec.add_body("mast", "world", jd.joints.Universal(), inertia=bar(2.0, (0, 0, 1.0)))
    spec.add_body("arm", "world", jd.joints.Spherical(), placement=at(0.6), inertia=bar(1.0, (-0.2, 0, 0.4)))
    spec.add_body("collar", "arm", jd.joints.Spherical(), placement=at(-0.2, 0, 0.4), inertia=bar(0.5, (-0.4, 0, 0.2)))
    return Pose(spec).tie(
        jd.constraints.Cylinder, "collar", "mast", (-0.4, 0, 0.2), swing=(Z, 2.0), axis=Z, name="sleeve"
    )


@robot(loops=True, floating=True)
def hinged_platform(spec):
    """A body held by a hinge that is no joint of the tree, swung far round."""
    spec.add_body("post", "world", jd.joints.Revolute(axis=Z), inertia=lump(2.0, (0.1, 0, 0.3)))
    spec.add_body(
        "door", "world", jd.joints.Free(), placement=at(0.3, 0.1, 0, Y, 0.4), inertia=lump(1.0, (0.2, 0, 0.1))
    )
    spec.add_body("knocker", "door", jd.joints.Spherical(), placement=at(0.4), inertia=bar(0.3, (0, 0.1, -0.2)))
    axis = (0.6, 0.0, 0.8)
    return Pose(spec).tie(
        jd.constraints.Hinge, "door", "post", (0, 0.1, 0.2), swing=(axis, -2.8), axis=axis, name="hinge"
    )


@robot(loops=True, floating=True)
def sled(spec):
    """Three feet on a plane that is carried by a turntable, a fourth plane standing in the world."""
    spec.add_body("table", "world", jd.joints.Universal(), placement=at(z=-0.3), inertia=lump(4.0, (0.1, 0, 0)))
    spec.add_body(
        "sled", "world", jd.joints.Free(), placement=at(0.1, 0.2, 0.1, X, 0.3), inertia=lump(1.0, (0, 0.05, 0.05))
    )
    spec.add_body("mast", "sled", jd.joints.Spherical(), placement=at(z=0.1), inertia=bar(0.4, (0, 0.1, 0.3)))
    pose = Pose(spec)
    for name, foot in (("front", (0.2, 0, -0.1)), ("left", (-0.1, 0.2, -0.1)), ("right", (-0.1, -0.2, -0.1))):
        pose.tie(jd.constraints.PointOnPlane, "sled", "table", foot, normal=Z, name=name)
    return pose.tie(jd.constraints.PointOnPlane, "mast", "world", (0, 0.1, 0.3), normal=(1, 0.5, 0.2), name="wall")


def _kite(one, two, three):
    """The squared area of the triangle of three origins, and a mix of their axes and offsets."""
    u, v = two.translation - one.translation, three.apply(jnp.array([0.1, 0.0, 0.2])) - one.translation
    area = jnp.cross(u, v)
    axes = one.rotation[:, 0] @ two.rotation[:, 1] - three.rotation[:, 2] @ u
    return jnp.stack([area @ area - 0.08, axes + 0.4])


@robot(loops=True, floating=True)
def general_of_three(spec):
    """A function of three poses, one of them a frame."""
    spec.add_body("one", "world", jd.joints.Spherical(), inertia=bar(1.0, (0.3, 0, 0.1)))
    spec.add_body(
        "two", "one", jd.joints.Universal(), placement=at(0.5, 0, 0.1, Y, 0.4), inertia=lump(0.7, (0, 0.1, 0))
    )
    spec.add_body("three", "world", jd.joints.Free(), placement=at(0.1, 0.6, 0.2), inertia=lump(1.2))
    spec.add_frame("corner", "two", at(0.1, 0.2, 0, X, 0.6))
    spec.add_constraint(jd.constraints.General(("one", "corner", "three"), _kite, 2, name="kite"))


def _twice(pose):
    """A bowl, and the same again by a factor that depends on where."""
    x, y, z = pose.translation
    height = z - 0.2 * x * x - 0.1 * y * y
    return jnp.stack([height, (1 + x - 0.5 * y) * height])


@robot(redundant=True, floating=True)
def bowl(spec):
    """Redundant rows whose range moves with the robot."""
    spec.add_body("puck", "world", jd.joints.Free(), inertia=lump(1.0, (0.05, 0, 0.1)))
    spec.add_constraint(jd.constraints.General("puck", _twice, 2, name="bowl"))


@robot(loops=True, floating=True)
def balanced(spec):
    """A floating robot whose centre of mass is held."""
    spec.add_body("base", "world", jd.joints.Free(), inertia=lump(2.0, (0, 0.05, 0)))
    spec.add_body("arm", "base", jd.joints.Spherical(), placement=at(0.2), inertia=bar(1.0, (0.3, 0, 0.2)))
    spec.add_body(
        "hand", "arm", jd.joints.Revolute(axis=(1, 1, 0)), placement=at(0.3, 0, 0.2), inertia=bar(0.5, (0, 0.2, 0))
    )
    spec.add_constraint(jd.constraints.CenterOfMass((0.1, 0.0, 0.05), name="balance"))


@robot(loops=True)
def fixed_links(spec):
    """Fixed links and frames as attachments: a flange on a moving body, a bracket on the ground."""
    spec.add_body("bracket", "world", jd.joints.Fixed(), placement=at(0.1, 0.2, 0.3, X, 0.5), inertia=lump(1.0))
    spec.add_body("upper", "bracket", jd.joints.Universal(), placement=at(0.1), inertia=bar(1.0, (0.3, 0, 0.1)))
    spec.add_body("lower", "upper", jd.joints.Spherical(), placement=at(0.3, 0, 0.1), inertia=bar(0.7, (0.2, 0.1, 0)))
    spec.add_body(
        "flange", "lower", jd.joints.Fixed(), placement=at(0.2, 0.1, 0, (1, 1, 0), 0.9), inertia=lump(0.3, (0, 0.05, 0))
    )
    spec.add_frame("tool", "flange", at(0.05, 0, 0.1, Z, 1.2))
    spec.add_body("probe", "flange", jd.joints.Prismatic(axis=(1, 0, 1)), placement=at(0.1), inertia=lump(0.2))
    pose = Pose(spec).tie(jd.constraints.Point, "tool", "bracket", (0.02, 0, 0), name="rest")
    return pose.strut("probe", (0, 0.1, 0), "upper", (0.1, 0.2, 0.2), name="wire")


def _biped(spec):
    """A floating trunk on a leg with a ball at the hip and one of two hinges."""
    spec.add_body("trunk", "world", jd.joints.Free(name="float"), inertia=lump(5.0, (0.01, 0, 0.02)))
    for side, y, hip in (("left", 0.1, jd.joints.Spherical()), ("right", -0.1, jd.joints.Revolute(axis=(0, 1, 0.2)))):
        spec.add_body(f"{side}_thigh", "trunk", hip, placement=at(0.1, y, 0), inertia=bar(0.8, (0, 0, -0.3)))
        place = at(z=-0.3, axis=Y, angle=0.5)
        spec.add_body(
            f"{side}_shin",
            f"{side}_thigh",
            jd.joints.Revolute(axis=Y),
            placement=place,
            inertia=bar(0.4, (0.1, 0, -0.3)),
        )
    return Pose(spec)


@robot(floating=True)
def standing(spec):
    """Feet on points of the ground, and the base itself on a plane."""
    pose = _biped(spec)
    for side in ("left", "right"):
        pose.tie(jd.constraints.Point, f"{side}_shin", point=(0.1, 0, -0.3), name=f"{side}_foot")
    return pose.tie(jd.constraints.PointOnPlane, "trunk", point=(0, 0, 0.2), normal=(0.2, 0, 1), name="ceiling")


@robot(floating=True, redundant=True)
def overheld(spec):
    """More rows on one foot than a body has freedoms, and three on the base."""
    pose = _biped(spec).tie(jd.constraints.Weld, "left_shin", point=(0.1, 0, -0.3), name="sole")
    pose.tie(jd.constraints.Point, "left_shin", point=(0.2, 0, -0.3), name="toe")
    return pose.tie(jd.constraints.Point, "trunk", point=(0, 0, 0.2), name="ceiling")
