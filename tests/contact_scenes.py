"""Small scenes of contact: builders that return a model and a configuration to start from."""

import math

import contact_oracle
import numpy as np

import jaxdyn as jd
from jaxdyn.robots.strider import strider as strider_spec

G = 9.81
X, Y = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)


def at(x=0.0, y=0.0, z=0.0, tilt=0.0) -> jd.Transform:
    """A place, turned by `tilt` about y."""
    c, s = math.cos(tilt), math.sin(tilt)
    return jd.Transform(np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]]), (x, y, z))


def pose(x=0.0, y=0.0, z=0.0, tilt=0.0, spin=0.0) -> list[float]:
    """The configuration of a free joint, turned by `tilt` about y and then by `spin` about the world's z."""
    a, b = (math.cos(tilt / 2), math.sin(tilt / 2)), (math.cos(spin / 2), math.sin(spin / 2))
    return [x, y, z, b[0] * a[0], -b[1] * a[1], b[0] * a[1], b[1] * a[0]]


def heap(boxes: int) -> jd.Model:
    """Boxes of 0.2 m and 1 kg, of which all pairs collide, and the ground; in the neutral pose all are in one place."""
    spec = jd.ModelSpec("heap")
    for k in range(boxes):
        spec.add_body(f"box{k}", "world", jd.joints.Free(), inertia=cuboid(1.0, (0.2, 0.2, 0.2)))
        spec.add_shape(f"box{k}", jd.shapes.Box((0.2, 0.2, 0.2)))
    return spec.add_ground().build()


def cuboid(mass, size) -> jd.Inertia:
    x, y, z = np.square(size)
    return jd.Inertia(mass, (0, 0, 0), mass / 12 * np.diag([y + z, x + z, x + y]))


def round_body(mass, radius) -> jd.Inertia:
    return jd.Inertia(mass, (0, 0, 0), 0.4 * mass * radius**2 * np.eye(3))


def rod(mass, length, radius=0.02) -> jd.Inertia:
    """A rod that hangs along −z from the body's origin."""
    across = mass * (length**2 / 12 + radius**2 / 4)
    return jd.Inertia(mass, (0, 0, -length / 2), np.diag([across, across, mass * radius**2 / 2]))


def balls(n=1, radius=0.1, mass=1.0, ground=True, gravity=G, **surface) -> tuple[jd.Model, np.ndarray]:
    """`n` balls in a row along x, a gap of half a radius between them, that touch the ground if there is one."""
    spec = jd.ModelSpec("balls", gravity=(0, 0, -gravity))
    for k in range(n):
        spec.add_body(f"ball{k}", "world", jd.joints.Free(), inertia=round_body(mass, radius))
        spec.add_shape(f"ball{k}", jd.shapes.Sphere(radius), **surface)
    if ground:
        spec.add_ground(friction=0.0)
    return spec.build(), np.concatenate([pose(x=2.5 * radius * k, z=radius) for k in range(n)])


def box(size=(0.3, 0.2, 0.1), mass=2.0, slope=0.0, friction=0.5, **surface) -> tuple[jd.Model, np.ndarray]:
    """A box that lies on a ground which falls towards x by the angle `slope`."""
    spec = jd.ModelSpec("box", gravity=(0, 0, -G))
    spec.add_body("box", "world", jd.joints.Free(), inertia=cuboid(mass, size))
    spec.add_shape("box", jd.shapes.Box(size), friction=friction, **surface)
    spec.add_shape("world", jd.shapes.Plane(), name="ground", placement=at(tilt=slope), friction=friction)
    h = size[2] / 2
    return spec.build(), np.array(pose(x=h * math.sin(slope), z=h * math.cos(slope), tilt=slope))


def rod_in_a_plate(end, tilt=0.1) -> tuple[jd.Model, np.ndarray]:
    """A rod of 1 kg, almost upright, in a plate of 0.05 m around z = 0. The lower end of its axis is at z = `end`."""
    spec = jd.ModelSpec("rod", gravity=(0, 0, -G))
    spec.add_body("rod", "world", jd.joints.Free(), inertia=jd.Inertia.capsule(1.0, 0.02, 0.4))
    spec.add_shape("rod", jd.shapes.Capsule(0.02, 0.4))
    spec.add_shape("world", jd.shapes.Box((1, 1, 0.05)), name="plate")
    return spec.build(), np.array(pose(z=0.2 * math.cos(tilt) + end, tilt=tilt))


def stack(n=3, size=(0.2, 0.2, 0.2), masses=None, friction=0.8) -> tuple[jd.Model, np.ndarray]:
    """`n` boxes on top of each other; neighbours collide, and the lowest collides with the ground."""
    spec = jd.ModelSpec("stack", gravity=(0, 0, -G))
    for k in range(n):
        spec.add_body(f"box{k}", "world", jd.joints.Free(), inertia=cuboid((masses or [1.0] * n)[k], size))
        spec.add_shape(f"box{k}", jd.shapes.Box(size), friction=friction)
    spec.add_ground(friction=friction)
    pairs = [("box0", "ground"), *((f"box{k}", f"box{k + 1}") for k in range(n - 1))]
    q = np.concatenate([pose(z=(k + 0.5) * size[2]) for k in range(n)])
    return spec.build().with_pairs(pairs), q


def pyramid(base=4, size=(0.2, 0.2, 0.2), apart=0.02, friction=0.8) -> tuple[jd.Model, np.ndarray]:
    """Boxes in one plane, `base` of them on the ground and every other on two, that collide with their neighbours above
    and below alone."""
    spec = jd.ModelSpec("pyramid", gravity=(0, 0, -G))
    step, places, q = size[0] + apart, [], []
    for k in range(base):
        for j in range(base - k):
            name = f"box{k}_{j}"
            spec.add_body(name, "world", jd.joints.Free(), inertia=cuboid(1.0, size))
            spec.add_shape(name, jd.shapes.Box(size), friction=friction)
            places.append((k, j))
            q.append(pose(x=step * (j + k / 2), z=size[2] * (k + 0.5)))
    spec.add_ground(friction=friction)
    model = spec.build()
    pairs = [(f"box0_{j}", "ground") for j in range(base)]
    pairs += [(f"box{k}_{j}", f"box{k - 1}_{i}") for k, j in places if k for i in (j, j + 1)]
    return model.with_pairs(pairs), np.concatenate(q)


def cards(lean=0.35, friction=0.7) -> tuple[jd.Model, np.ndarray]:
    """A house of five cards: two pairs that lean against each other, and one that lies across both."""
    thick, high, wide = 0.01, 0.3, 0.2
    c, s = math.cos(lean), math.sin(lean)
    spec = jd.ModelSpec("cards", gravity=(0, 0, -G))
    places, half = [], high / 2
    # the upper inner corner of a card is on the plane in the middle of its pair, its lower edge on the ground
    x, z = half * s + thick / 2 * c, half * c + thick / 2 * s
    apart = 0.16
    for middle in (-apart, apart):
        places += [pose(x=middle - x, z=z, tilt=lean), pose(x=middle + x, z=z, tilt=-lean)]
    top = 2 * half * c + thick * s
    places.append(pose(z=top + thick / 2))
    for k in range(5):
        size = (thick, wide, high) if k < 4 else (2 * apart + 0.1, wide, thick)
        spec.add_body(f"card{k}", "world", jd.joints.Free(), inertia=cuboid(0.1, size))
        spec.add_shape(f"card{k}", jd.shapes.Box(size), friction=friction)
    spec.add_ground(friction=friction)
    pairs = [(f"card{k}", "ground") for k in range(4)] + [("card0", "card1"), ("card2", "card3")]
    pairs += [(f"card{k}", "card4") for k in range(4)]
    return spec.build().with_pairs(pairs), np.concatenate(places)


def pendulum(restitution=0.0, friction=0.5, links=1) -> tuple[jd.Model, np.ndarray]:
    """A chain of rods that hangs from a hinge, with a ball at its end that may hit a wall at x = 0.3."""
    spec = jd.ModelSpec("pendulum", gravity=(0, 0, -G))
    for k in range(links):
        place = at(z=-0.5) if k else at()
        spec.add_body(
            f"rod{k}",
            f"rod{k - 1}" if k else "world",
            jd.joints.Revolute(axis=Y),
            placement=place,
            inertia=rod(1.0, 0.5),
        )
    spec.add_shape(
        f"rod{links - 1}", jd.shapes.Sphere(0.05), placement=at(z=-0.5), restitution=restitution, friction=friction
    )
    spec.add_shape("world", jd.shapes.Plane(), name="wall", placement=at(x=0.3, tilt=-math.pi / 2), friction=friction)
    return spec.build(), np.full(links, 0.1)


def two_links(friction=0.6, ground=True, **surface) -> tuple[jd.Model, np.ndarray]:
    """Two capsules that a hinge joins."""
    spec = jd.ModelSpec("two_links", gravity=(0, 0, -G))
    for k, joint in enumerate((jd.joints.Free(), jd.joints.Revolute(axis=Y))):
        place = at(z=-0.4) if k else at()
        spec.add_body(
            f"link{k}", f"link{k - 1}" if k else "world", joint, placement=place, inertia=rod(1.0 + k, 0.4, 0.05)
        )
        spec.add_shape(f"link{k}", jd.shapes.Capsule(0.05, 0.3), placement=at(z=-0.2), friction=friction, **surface)
    if ground:
        spec.add_ground(friction=friction)
    return spec.build(), np.array([*pose(z=0.9), 0.5])


#: of a quadruped: thigh and shin in m, and the angles of hips and knees
LEG, BENT = 0.2, (0.6, -1.2)


def quadruped(friction=0.8, **surface) -> tuple[jd.Model, np.ndarray]:
    """A body of capsules and spheres with four legs of two joints each, that stands on its four feet."""
    spec = jd.ModelSpec("quadruped", gravity=(0, 0, -G))
    spec.add_body("trunk", "world", jd.joints.Free(), inertia=cuboid(6.0, (0.4, 0.2, 0.1)))
    for k, (x, y) in enumerate([(0.2, 0.12), (0.2, -0.12), (-0.2, 0.12), (-0.2, -0.12)]):
        hinge = jd.joints.Revolute(axis=Y, armature=0.01, damping=0.05)
        spec.add_body(f"thigh{k}", "trunk", hinge, placement=at(x, y), inertia=rod(0.8, LEG))
        spec.add_body(f"shin{k}", f"thigh{k}", hinge, placement=at(z=-LEG), inertia=rod(0.2, LEG))
        spec.add_shape(
            f"shin{k}", jd.shapes.Sphere(0.02), name=f"foot{k}", placement=at(z=-LEG), friction=friction, **surface
        )
    for k in range(4):
        spec.add_frame(f"toe{k}", f"shin{k}", at(z=-LEG))
    spec.add_shape("trunk", jd.shapes.Capsule(0.08, 0.3), placement=at(tilt=math.pi / 2))
    spec.add_ground(friction=friction)
    pairs = [(f"foot{k}", "ground") for k in range(4)]
    hip, knee = BENT
    z = 0.02 + LEG * (math.cos(hip) + math.cos(hip + knee))
    return spec.build().with_pairs(pairs), np.array([*pose(z=z), *BENT * 4])


def booted(friction=0.7, level=True, hands=False, torsion=0.0) -> tuple[jd.Model, np.ndarray]:
    """A biped with boxes for feet, at four corners and a ball of each it may touch the ground, which is a plane or, if
    not `level`, a field of heights. With `hands`, it has arms with limits and dry friction, and the boxes at their ends
    may touch each other."""
    spec = jd.ModelSpec("booted", gravity=(0, 0, -G))
    spec.add_body("trunk", "world", jd.joints.Free(), inertia=cuboid(6.0, (0.2, 0.3, 0.4)))
    pairs = [("left_hand", "right_hand")] if hands else []
    for side, y in (("left", 0.12), ("right", -0.12)):
        hinge, arm = jd.joints.Revolute(axis=Y, damping=0.05), jd.joints.Revolute(axis=X, limits=(-1, 1), friction=0.1)
        spec.add_body(f"{side}_hip", "trunk", jd.joints.Revolute(axis=X), placement=at(0, y), inertia=rod(0.5, 0.1))
        spec.add_body(f"{side}_leg", f"{side}_hip", hinge, inertia=rod(0.8, LEG))
        spec.add_body(f"{side}_foot", f"{side}_leg", hinge, placement=at(z=-LEG), inertia=rod(0.4, 0.1))
        sole, tip = at(x=0.03, z=-0.08), at(x=0.11, z=-0.08)
        foot = {"friction": friction, "torsion": torsion}
        spec.add_shape(f"{side}_foot", jd.shapes.Box((0.16, 0.08, 0.04)), name=f"{side}_sole", placement=sole, **foot)
        spec.add_shape(f"{side}_foot", jd.shapes.Sphere(0.02), name=f"{side}_toe", placement=tip, **foot)
        pairs += [(f"{side}_{what}", "ground") for what in ("sole", "toe")]
        if hands:
            spec.add_body(f"{side}_arm", "trunk", arm, placement=at(0.3, y), inertia=rod(0.5, 0.1))
            spec.add_body(f"{side}_wrist", f"{side}_arm", arm, placement=at(z=-0.1), inertia=rod(0.3, 0.1))
            palm = jd.shapes.Box((0.1, 0.23, 0.1))
            spec.add_shape(f"{side}_wrist", palm, name=f"{side}_hand", placement=at(z=-0.1), friction=0.5)
    field = jd.shapes.HeightField(np.zeros((3, 3)), (4.0, 4.0))
    spec.add_shape("world", jd.shapes.Plane() if level else field, name="ground", friction=friction)
    model = spec.build().with_pairs(pairs)
    q = model.neutral().at[2].set(LEG + 0.1)
    return model, np.asarray(q)


def looped(friction=0.7, **surface) -> tuple[jd.Model, np.ndarray]:
    """A body on a leg that is a closed loop: two thighs, and two shins that a ball joint ties at the foot. The loop is
    planar, so that one of its rows is redundant."""
    spec = jd.ModelSpec("looped", gravity=(0, 0, -G))
    spec.add_body("trunk", "world", jd.joints.Free(), inertia=cuboid(3.0, (0.3, 0.2, 0.1)))
    for side, s in (("a", 1), ("b", -1)):
        hinge = jd.joints.Revolute(axis=Y, damping=0.02)
        spec.add_body(f"thigh_{side}", "trunk", hinge, placement=at(0.1 * s), inertia=rod(0.5, 0.2))
        spec.add_body(f"shin_{side}", f"thigh_{side}", hinge, placement=at(z=-0.2), inertia=rod(0.3, 0.25))
    spec.add_constraint(jd.constraints.Point("shin_a", "shin_b", placement_a=at(z=-0.25), placement_b=at(z=-0.25)))
    spec.add_shape("shin_a", jd.shapes.Sphere(0.03), name="foot", placement=at(z=-0.25), friction=friction, **surface)
    spec.add_ground(friction=friction)
    # thighs apart by `hip`, shins back together: 0.1 + 0.2 sin(hip) = 0.25 sin(down)
    hip = 0.3
    down = math.asin((0.1 + 0.2 * math.sin(hip)) / 0.25)
    z = 0.03 + 0.2 * math.cos(hip) + 0.25 * math.cos(down)
    return spec.build(), np.array([*pose(z=z), -hip, hip + down, hip, -hip - down])


def strider() -> tuple[jd.Model, np.ndarray]:
    """The shipped biped, a millimetre deep on its feet: loops, redundant rows, and springs."""
    spec = strider_spec()
    for side in ("left", "right"):
        foot = at(0.06, 0, -0.02, tilt=math.pi / 2)
        spec.add_shape(f"{side}_foot", jd.shapes.Capsule(0.02, 0.12), placement=foot, friction=0.6)
    spec.add_ground(friction=0.4)
    model = spec.build()
    q = np.array(jd.assemble(model, model.neutral()))
    q[2] -= min(c.gap for c in contact_oracle.contacts(model, q)) + 1e-3
    return model, q


HIPS = tuple((x, y) for x in (0.2, -0.2, 0.0) for y in (0.12, -0.12))


def armoured(friction=0.8, torsion=0.0, legs=2, plates=1, damping=0.5) -> tuple[jd.Model, np.ndarray]:
    """A robot with legs of two boxes and a ball for a foot, as files have them: 9 places a leg where it may touch the
    ground, and 4 for each of the `plates` of its trunk."""
    spec = jd.ModelSpec("armoured", gravity=(0, 0, -G))
    spec.add_body("trunk", "world", jd.joints.Free(), inertia=cuboid(6.0, (0.4, 0.2, 0.1)))
    for k in range(plates):
        spec.add_shape("trunk", jd.shapes.Box((0.4 / (k + 1), 0.2, 0.1)), friction=friction)
    for k, (x, y) in enumerate(HIPS[:legs]):
        hinge = jd.joints.Revolute(axis=Y, armature=0.01, damping=damping, stiffness=40.0, rest=BENT[0])
        knee = jd.joints.Revolute(axis=Y, armature=0.01, damping=damping, stiffness=40.0, rest=BENT[1])
        spec.add_body(f"thigh{k}", "trunk", hinge, placement=at(x, y), inertia=rod(0.8, LEG))
        spec.add_body(f"shin{k}", f"thigh{k}", knee, placement=at(z=-LEG), inertia=rod(0.2, LEG))
        for link in ("thigh", "shin"):
            spec.add_shape(f"{link}{k}", jd.shapes.Box((0.03, 0.03, LEG)), placement=at(z=-LEG / 2), friction=friction)
        ball = jd.shapes.Sphere(0.025)
        spec.add_shape(f"shin{k}", ball, name=f"foot{k}", placement=at(z=-LEG), friction=friction, torsion=torsion)
    spec.add_ground(friction=friction)
    model = spec.build()
    q = model.neutral()
    for k in range(legs):
        q = q.at[model.q_slice(f"thigh{k}")].set(BENT[0]).at[model.q_slice(f"shin{k}")].set(BENT[1])
    return model, np.asarray(q.at[2].set(0.37))
