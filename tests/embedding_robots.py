"""Small robots with gears and loops to be embedded, and closed states of them."""

import dataclasses
import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from catalogue_base import Pose, at, bar, lump, towards

import jaxdyn as jd

#: steps of a walk to a state, each short enough that loops close to rounding
STEPS = 40
X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
Revolute, Prismatic = jd.joints.Revolute, jd.joints.Prismatic


@dataclasses.dataclass(frozen=True)
class Robot:
    """A robot, and what embedding all of its constraints, or those in `loops`, must make of it: `nv` independent
    velocities in `clusters` clusters. `gears`: all ratios are constant. `spread`: how far states start from home."""

    name: str
    fill: Callable[[jd.ModelSpec], object]
    nv: int
    clusters: int
    gears: bool = False
    loops: str | tuple[str, ...] = "all"
    independent: tuple[str, ...] | None = None
    spread: float = 0.6

    def __repr__(self) -> str:
        return self.name


ROBOTS: dict[str, Robot] = {}


def robot(nv, clusters, **about):
    def enter(fill):
        ROBOTS[fill.__name__] = Robot(fill.__name__, fill, nv, clusters, **about)
        return fill

    return enter


@functools.cache
def cut(name: str) -> jd.Model:
    """The robot with its loops cut, without stabilisation."""
    spec = jd.ModelSpec(name, gravity=(0.3, -0.2, -9.7))
    ROBOTS[name].fill(spec)
    model = spec.build()
    gains = jax.tree.map(jnp.zeros_like, tuple(c.stabilization for c in model.constraints))
    still = [dataclasses.replace(c, stabilization=g) for c, g in zip(model.constraints, gains, strict=True)]
    return dataclasses.replace(model, constraints=tuple(still))


@functools.cache
def embedded(name: str) -> jd.Model:
    about = ROBOTS[name]
    return jd.embed(cut(name), about.loops, independent=about.independent)


@functools.cache
def states(name: str, n: int = 100, seed: int = 0) -> jd.State:
    """Closed states (n, ...): walked to from `neutral`, so that they lie on its branch."""
    model = embedded(name)
    rng = np.random.default_rng(seed)
    q = jnp.tile(model.neutral(), (n, 1))
    way = jnp.asarray(rng.uniform(-1, 1, size=(n, model.nv)) * ROBOTS[name].spread)

    def walk(model, q, way):
        return jax.lax.scan(lambda q, _: (jd.integrate(model, q, way, 1 / STEPS), None), q, length=STEPS)[0]

    q = jax.jit(jax.vmap(walk, (None, 0, 0)))(model, q, way)
    return jd.State(q, jnp.asarray(rng.normal(size=(n, model.nv))))


def forces(name: str, n: int = 100, seed: int = 1) -> np.ndarray:
    """Forces (n, nv), small where the robot is light."""
    model = embedded(name)
    size = np.minimum(3.0, 10 * np.diag(np.asarray(jd.mass_matrix(model, model.neutral()))))
    return size * np.random.default_rng(seed).normal(size=(n, model.nv))


def wrenches(name: str, n: int = 100, seed: int = 2) -> np.ndarray:
    """External wrenches (n, nb, 6), small on light bodies."""
    mass = np.minimum(1.0, np.asarray(embedded(name).bodies.mass))
    return 0.3 * mass[:, None] * np.random.default_rng(seed).normal(size=(n, len(mass), 6))


def gear(spec, joints, coefficients, name):
    spec.add_constraint(jd.constraints.Coupling(joints, coefficients, name=name))


def rotor(tilt=0.4) -> jd.Inertia:
    """A light rotor whose principal axes are not those of its joint, and whose centre is off the axis."""
    return lump(0.3, (0.01, 0.02, -0.015), size=(0.06, 0.05, 0.09))


@robot(nv=2, clusters=2, gears=True)
def geared_links(spec):
    """A link with a rotor, and a slide driven by a screw; springs, dampers and armature on every joint."""
    spec.add_body(
        "base", "world", Revolute(axis=(1, 0, 2), damping=0.1, armature=0.02), inertia=bar(1.5, (0.1, 0, 0.4))
    )
    every = {"armature": 2e-3, "damping": 0.03, "stiffness": 0.7}
    wheel = Revolute(axis=(0, 1, 1), rest=0.3, **every)
    spec.add_body("rotor", "world", wheel, placement=at(0.1, 0.1, 0, X, 0.3), inertia=rotor())
    gear(spec, ("base", "rotor"), (7.5, -1.0), "gear")
    slide = Prismatic(axis=(0.2, 0, 1), rest=-0.1, **every)
    spec.add_body("slide", "base", slide, placement=at(0.1, 0, 0.3, Y, 0.7), inertia=bar(0.7, (0.2, 0.3, 0.2)))
    spec.add_body("screw", "base", Revolute(axis=(0.2, 0, 1), **every), placement=at(0.1, 0.1, 0.3), inertia=rotor())
    gear(spec, ("slide", "screw"), (40.0, 1.0), "screw")
    spec.add_actuator("rotor", gear=2.0)
    spec.add_actuator("slide")


@robot(nv=6 + 3 + 2 + 1, clusters=4, gears=True)
def geared_floating(spec):
    """On a floating base: nested belts over two and three links, a differential, and two limbs coupled with each
    other, so that a cluster hangs on two bodies."""
    spec.add_body("torso", "world", jd.joints.Free(), inertia=lump(5.0, (0, 0.02, 0.05)))
    parent, place = "torso", at(0.1, 0, -0.1)
    for k, link in enumerate(("hip", "knee", "ankle")):
        inertia = bar(1.5 / (k + 1), (0.1, 0, -0.3))
        spec.add_body(link, parent, Revolute(axis=Y, damping=0.05), placement=place, inertia=inertia)
        parent, place = link, at(0.1, 0, -0.3)
        wheel = Revolute(axis=Y, armature=1e-4, damping=1e-3)
        spec.add_body(
            f"motor{k}", "torso" if k == 0 else "hip", wheel, placement=at(0.05, 0.04 * k, 0), inertia=rotor()
        )
    gear(spec, ("hip", "motor0"), (6.0, -1.0), "hip gear")
    gear(spec, ("knee", "motor1"), (8.0, 1.0), "knee belt")
    gear(spec, ("knee", "ankle", "motor2"), (8.0, 9.0, -1.0), "ankle belt")
    spec.add_body("pitch", "torso", Revolute(axis=Y), placement=at(-0.1, 0, 0.2), inertia=bar(0.4, (0, 0, 0.1)))
    spec.add_body("roll", "pitch", Revolute(axis=X), placement=at(0, 0, 0.1), inertia=bar(0.6, (0, 0.05, 0.25)))
    for k, side in enumerate((0.1, -0.1)):
        spec.add_body(f"spin{k}", "torso", Revolute(axis=Z), placement=at(-0.2, side, 0.1), inertia=rotor())
    gear(spec, ("pitch", "roll", "spin0"), (5.0, 5.0, -1.0), "sum")
    gear(spec, ("pitch", "roll", "spin1"), (5.0, -5.0, -1.0), "difference")
    spec.add_body("left", "roll", Revolute(axis=(1, 1, 0)), placement=at(0, 0.1, 0.2), inertia=bar(0.5, (0, 0.3, 0)))
    spec.add_body(
        "right", "ankle", Revolute(axis=(1, 0, 1)), placement=at(0.1, 0, -0.2), inertia=bar(0.5, (0, -0.3, 0))
    )
    gear(spec, ("left", "right"), (1.0, 0.7), "limbs")


def bars(spec, name, parent, placement, *, closed=jd.constraints.Hinge, crank=0.12, out=0.5):
    """A planar four-bar linkage that lets its crank turn all around; returns the bodies of crank, coupler, rocker.
    It is drawn closed at neutral: the coupler's end is the rocker's."""
    base, tip = 0.4, np.array([0.45, 0, 0.3])
    a, b, c = (f"{name}_{x}" for x in ("crank", "coupler", "rocker"))
    spec.add_body(a, parent, Revolute(axis=Y, damping=0.02), placement=placement, inertia=bar(0.5, (0, 0, crank)))
    reach = tip - (0, 0, crank)
    spec.add_body(b, a, Revolute(axis=Y, stiffness=0.5, rest=0.2), placement=at(z=crank), inertia=bar(0.9, reach))
    lever = tip - (base, 0, 0)
    joint = Revolute(axis=Y, armature=0.01)
    spec.add_body(c, parent, joint, placement=placement @ at(base), inertia=bar(out, lever))
    options = {"axis": Y} if closed is jd.constraints.Hinge else {}
    ends = {"placement_a": at(*reach), "placement_b": at(*lever, Y, 0.8)}
    spec.add_constraint(closed(b, c, name=name, **ends, **options))
    return a, b, c


@robot(nv=3, clusters=2)
def four_bars(spec):
    """A four-bar on a moving base; its coupler carries another one. Hinges in a plane: 5 rows of rank 2."""
    spec.add_body("base", "world", Revolute(axis=(1, 0, 1)), inertia=bar(2.0, (0.2, 0.1, 0.3)))
    _, coupler, _ = bars(spec, "first", "base", at(0.1, 0, 0.2, X, 0.3))
    bars(spec, "second", coupler, at(0.2, 0, 0.1, Z, 0.5), crank=0.1)
    spec.add_actuator("first_crank")
    spec.add_actuator("second_crank", gear=3.0)


@robot(nv=8, clusters=2)
def four_bar_floating(spec):
    """A four-bar under a floating base whose crank is geared to a rotor: loop and gear are one cluster; a gear of its
    own beyond the rocker."""
    spec.add_body("torso", "world", jd.joints.Free(), inertia=lump(4.0, (0, 0.02, 0.05)))
    crank, _, rocker = bars(spec, "loop", "torso", at(-0.2, 0, -0.1, X, 0.5), closed=jd.constraints.Point)
    spec.add_body("rotor", "torso", Revolute(axis=Y, armature=1e-3), placement=at(-0.2, 0.1, -0.1), inertia=rotor())
    gear(spec, (crank, "rotor"), (5.0, -1.0), "gear")
    spec.add_body("foot", rocker, Revolute(axis=X), placement=at(0.05, 0, 0.3), inertia=bar(0.4, (0, 0.2, 0.1)))
    spec.add_body("motor", rocker, Revolute(axis=X), placement=at(0.02, 0, 0.1), inertia=rotor())
    gear(spec, ("foot", "motor"), (9.0, -1.0), "foot")
    spec.add_actuator("rotor")


@robot(nv=1, clusters=1, spread=0.5)
def six_bar(spec):
    """Watt's six-bar: a four-bar, and a dyad between its coupler and its rocker: two loops that share links."""
    _, coupler, rocker = bars(spec, "first", "world", at(0, 0, 0.2))
    spec.add_body("arm", coupler, Revolute(axis=Y), placement=at(0.35, 0, 0.4), inertia=bar(0.4, (0.3, 0, 0.15)))
    spec.add_body("leg", rocker, Revolute(axis=Y), placement=at(0.25, 0, 0.2), inertia=bar(0.4, (0.1, 0, 0.3)))
    # the leg's end meets the arm's: in the plane both are drawn at neutral
    end = np.array([0.35, 0, 0.62]) + (0.3, 0, 0.15) - (0.65, 0, 0.4)
    ends = {"placement_a": at(0.3, 0, 0.15), "placement_b": at(*end)}
    spec.add_constraint(jd.constraints.Hinge("arm", "leg", axis=Y, name="second", **ends))


@robot(nv=4, clusters=1, spread=0.4)
def spatial_bars(spec):
    """RSSR on a moving base: the rod's ball leaves its spin free, so that part of its velocity is independent. A
    universal joint in place of the ball drives a second rocker."""
    spec.add_body("base", "world", jd.joints.Prismatic(axis=X), inertia=lump(2.0))
    spec.add_body("crank", "base", Revolute(axis=(1, 0.2, 0)), placement=at(0, 0, 0.1), inertia=bar(0.5, (0, 0.1, 0.2)))
    rod = towards(0, 0.1, 0.2, (0.5, 0.3, 0.2))
    spec.add_body("rod", "crank", jd.joints.Spherical(damping=0.01), placement=rod, inertia=bar(0.4, (0, 0, 0.6), 0.03))
    spec.add_body(
        "rocker", "base", Revolute(axis=(0, 1, 0.3)), placement=at(0.4, 0.4, 0), inertia=bar(0.6, (0, 0, 0.4))
    )
    spec.add_body("wrist", "rocker", Revolute(axis=Y), placement=at(0, 0, 0.4), inertia=bar(0.2, (0.1, 0, 0.1)))
    Pose(spec).tie(jd.constraints.Point, "rod", "rocker", (0, 0, 0.6), name="ball")


@robot(nv=3, clusters=1, spread=0.06, independent=("crank0", "crank1", "crank2"))
def ball_platform(spec):
    """A platform on a ball joint that three cranks turn by struts: the ball depends on them."""
    spec.add_body(
        "platform", "world", jd.joints.Spherical(damping=0.1), placement=at(0, 0, 0.6), inertia=lump(1.5, (0, 0, 0.1))
    )
    for k in range(3):
        turn = at(0, 0, 0, Z, 2.1 * k)
        spec.add_body(
            f"crank{k}", "world", Revolute(axis=Y), placement=turn @ at(0.3), inertia=bar(0.4, (0.2, 0, 0.05))
        )
    pose = Pose(spec)
    for k in range(3):
        end = at(0, 0, 0, Z, 2.1 * k) @ at(0.3, 0.3, 0.2)
        pose.strut(f"crank{k}", (0.2, 0, 0.05), "platform", np.asarray(end.translation), name=f"strut{k}")


@robot(nv=1, clusters=1, spread=0.5)
def bennett(spec):
    """Bennett's linkage, four hinges that are neither parallel nor meet: 5 rows of rank 2, in space, on the ground."""
    a, alpha, b = 0.4, 0.7, 0.3
    beta = float(np.arcsin(b / a * np.sin(alpha)))
    theta = 1.1
    other = 2 * np.arctan2(np.sin((alpha + beta) / 2), np.sin((beta - alpha) / 2) * np.tan(theta / 2))
    turns = (theta, other, -theta)
    parent, place = "world", jd.Transform.identity()
    for k, (length, twist) in enumerate(((a, alpha), (b, beta), (a, alpha))):
        spec.add_body(
            f"link{k}",
            parent,
            Revolute(axis=Z),
            placement=place @ at(0, 0, 0, Z, turns[k]),
            inertia=bar(0.5, (length, 0, 0)),
        )
        parent, place = f"link{k}", at(length, 0, 0, X, twist)
    ground = at(0, 0, 0, X, -beta) @ at(-b)
    spec.add_constraint(
        jd.constraints.Hinge("link2", "world", placement_a=place, placement_b=ground, axis=Z, name="last")
    )


@robot(nv=2, clusters=1, spread=0.15)
def grounded(spec):
    """An arm of five joints that holds a point of the ground."""
    parent, place = "world", at(0, 0, 0.1)
    for k, axis in enumerate(((0, 0.2, 1), Y, (1, 1, 0), (0, 1, 0.3), X)):
        joint = Revolute(axis=axis, damping=0.02)
        spec.add_body(f"l{k}", parent, joint, placement=place, inertia=bar(1.0 - 0.1 * k, (0.25, 0.05, 0.2)))
        parent, place = f"l{k}", at(0.25, 0.05, 0.2, (k - 1, 2, 0.5), 0.8)
    return Pose(spec).tie(jd.constraints.Point, "l4", point=(0.1, 0.15, 0.35), name="hold")


def explicit(q):
    """Two joints as functions of the first."""
    return q[1:] - jnp.stack([0.8 * q[0] + 0.2 * jnp.sin(q[0]), jnp.cos(q[0]) - 1.0])


def implicit(q):
    """The fourth side of a four-bar, as the distance of two points."""
    crank = 0.12 * jnp.stack([jnp.sin(q[0]), jnp.cos(q[0])])
    rocker = jnp.stack([0.4, 0.0]) + 0.35 * jnp.stack([jnp.sin(q[1]), jnp.cos(q[1])])
    return jnp.sum((crank - rocker) ** 2)[None] - (0.4**2 + 0.23**2)


@robot(nv=3, clusters=2, spread=0.8)
def given(spec):
    """Transmissions: one that solves for joints, one implicit in them, which a gear shares a joint with."""
    for k, axis in enumerate(((0, 0.2, 1), Y, (1, 1, 0))):
        place = at(0.1, 0.2, 0.1 * k)
        spec.add_body(
            f"a{k}",
            f"a{k - 1}" if k else "world",
            Revolute(axis=axis, damping=0.02),
            placement=place,
            inertia=bar(0.6, (0.1, 0.2, 0.2)),
        )
    spec.add_body("free", "a2", Revolute(axis=X), placement=at(0.1, 0.2, 0.2), inertia=bar(0.6, (0.1, 0.2, 0.2)))
    for k in range(2):
        spec.add_body(
            f"b{k}",
            "a1",
            Revolute(axis=X, armature=1e-2),
            placement=at(0.2 * k, 0, 0.2),
            inertia=bar(0.5, (0.1, 0, 0.2)),
        )
    spec.add_body("rotor", "b0", Revolute(axis=X), placement=at(0, 0, 0.1), inertia=rotor())
    spec.add_constraint(jd.constraints.Transmission(("a0", "a1", "a2"), explicit, 2, name="explicit"))
    spec.add_constraint(jd.constraints.Transmission(("b0", "b1"), implicit, 1, name="implicit"))
    gear(spec, ("b1", "rotor"), (6.0, 1.0), "gear")


@robot(nv=4, clusters=2, loops=("first", "gear"), spread=0.4)
def partly(spec):
    """A four-bar and a gear that are embedded, and a loop across them, and one within them, that stay cut."""
    _, coupler, rocker = bars(spec, "first", "world", at(0, 0, 0.2))
    spec.add_body(
        "arm", "world", Revolute(axis=(0, 1, 0.1)), placement=at(0.7, 0.1, 0), inertia=bar(0.8, (0.1, 0, 0.4))
    )
    spec.add_body("rotor", "world", Revolute(axis=Y), placement=at(0.7, 0.2, 0), inertia=rotor())
    gear(spec, ("arm", "rotor"), (6.0, -1.0), "gear")
    spec.add_body("tool", "arm", jd.joints.Universal(), placement=at(0.1, 0, 0.4), inertia=bar(0.3, (0.1, 0.1, 0.2)))
    pose = Pose(spec)
    pose.strut("tool", (0.1, 0.1, 0.2), coupler, (0.3, 0, 0.1), name="strut")
    pose.strut("rotor", (0.05, 0, 0.02), rocker, (0.0, 0.05, 0.2), name="across")
