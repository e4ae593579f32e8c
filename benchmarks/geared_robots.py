"""Robots with gears and linkages built by code: chains of sub-mechanisms (constraint_embedding, Figs. 9 and 11), and a
quadruped and a humanoid with geared rotors. Their loops are cut, closed at `model.neutral()`, and not stabilised."""

from collections.abc import Callable

import numpy as np

import jaxdyn as jd
from jaxdyn.constraints import Coupling, Hinge
from jaxdyn.joints import Free, Revolute

X, Y, Z = np.eye(3)
#: lengths of ground, crank, coupler and rocker of a four-bar linkage, and position of the second rocker of a six-bar
GROUND, CRANK, ROD, ROCKER, SECOND = 0.4, 0.2, 0.42, 0.25, 0.8


def at(x=0.0, y=0.0, z=0.0, turned: bool = False) -> jd.Transform:
    """Return a placement, rotated by a right angle about x if `turned`."""
    return jd.Transform(np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]]) if turned else np.eye(3), (x, y, z))


def bar(mass: float, length: float, along=X) -> jd.Inertia:
    """Return the inertia of a round bar from the origin."""
    sway, spin = mass * length**2 / 12, mass * 0.03**2 / 4
    return jd.Inertia(mass, along * length / 2, np.diag(np.where(along > 0, spin, sway)))


def rotor(axis, inertia: float = 1e-4, mass: float = 0.05) -> jd.Inertia:
    """Return the inertia of a rotor, symmetric about `axis`."""
    return jd.Inertia(mass, np.zeros(3), np.diag(np.where(axis > 0, 1.0, 0.6) * inertia))


class Geared:
    """A spec to which links are added together with the rotors that drive them. `rotors` is "geared", "armature" (their
    reflected inertia at the links' joints, without bodies), or "none"."""

    def __init__(self, name: str, rotors: str = "geared"):
        self.spec, self.rotors = jd.ModelSpec(name), rotors

    def link(self, name: str, parent: str, axis, placement, inertia: jd.Inertia, armature: float = 0.0) -> str:
        joint = Revolute(axis=axis, name=name, armature=armature)
        self.spec.add_body(name, parent, joint, placement=placement, inertia=inertia)
        return name

    def driven(self, name, parent, axis, placement, inertia, ratio=8.0, motor=1e-4, beside=(0.02, 0.03, 0.04)) -> str:
        """Add a link, and its rotor on the parent, with a parallel axis offset by `beside`."""
        self.link(name, parent, axis, placement, inertia, ratio**2 * motor * (self.rotors == "armature"))
        moved = placement @ at(*beside)
        self.geared(name + "_rotor", parent, axis, moved, rotor(axis, motor), {name: ratio})
        self.spec.add_actuator(name, name)
        return name

    def geared(self, name: str, parent: str, axis, placement, inertia, ratios: dict[str, float]) -> None:
        """Add a rotor coupled to joints by these ratios."""
        if self.rotors == "geared":
            self.link(name, parent, axis, placement, inertia)
            self.spec.add_constraint(
                Coupling((*ratios, name), (*ratios.values(), -1.0), name=name + "_gear", stabilization=None)
            )

    def hinge(self, a: str, b: str, near: float, far: float) -> None:
        """Connect the end of rod `a` to the end of bar `b` by a hinge."""
        self.spec.add_constraint(
            Hinge(a, b, placement_a=at(near), placement_b=at(far), axis=Z, name=f"{a}_end", stabilization=None)
        )

    def build(self) -> jd.Model:
        return self.spec.build()


def _rotor(robot: Geared, tag: str, parent: str, place) -> tuple[str, float]:
    return robot.driven(f"link{tag}", parent, Z, place, bar(1.0, 0.3)), 0.3


def _belt(robot: Geared, tag: str, parent: str, place) -> tuple[str, float]:
    """Add two links with both motors on the parent: the belt of the second runs about the first joint."""
    first = robot.driven(f"first{tag}", parent, Z, place, bar(1.0, 0.3))
    armature = 64e-4 * (robot.rotors == "armature")
    second = robot.link(f"second{tag}", first, Z, at(0.3), bar(0.8, 0.25), armature)
    robot.geared(f"belt{tag}", parent, Z, place @ at(0.02, -0.03, 0.04), rotor(Z), {first: 8.0, second: 8.0})
    robot.spec.add_actuator(second, second)
    return second, 0.25


def _linkage(robot: Geared, tag: str, parent: str, place) -> tuple[str, str]:
    """Add a four-bar linkage with crank and rocker on the parent."""
    crank = robot.link(f"crank{tag}", parent, Z, place, bar(0.4, CRANK))
    rod = robot.link(f"rod{tag}", crank, Z, at(CRANK), bar(0.3, ROD))
    rocker = robot.link(f"rocker{tag}", parent, Z, place @ at(GROUND), bar(0.5, ROCKER))
    robot.hinge(rod, rocker, ROD, ROCKER)
    robot.spec.add_actuator(crank, crank)
    return crank, rocker


def _four_bar(robot: Geared, tag: str, parent: str, place) -> tuple[str, float]:
    return _linkage(robot, tag, parent, place)[1], ROCKER


def _six_bar(robot: Geared, tag: str, parent: str, place) -> tuple[str, float]:
    """Add a four-bar linkage and a second rod from its rocker to a second rocker."""
    rocker = _linkage(robot, tag, parent, place)[1]
    rod = robot.link(f"far_rod{tag}", rocker, Z, at(ROCKER), bar(0.3, ROD))
    end = robot.link(f"end{tag}", parent, Z, place @ at(SECOND), bar(0.5, ROCKER))
    robot.hinge(rod, end, ROD, ROCKER)
    return end, ROCKER


UNITS: dict[str, Callable] = {"rotor": _rotor, "belt": _belt, "four_bar": _four_bar, "six_bar": _six_bar}


def units(kind: str, depth: int, branches: int = 1, base: bool = False, rotors: str = "geared") -> jd.Model:
    """Return branches of `depth` sub-mechanisms each, from the world or a floating base; every second sub-mechanism is
    turned by a right angle."""
    robot = Geared(f"{kind}_{depth}_{branches}", rotors)
    if base:
        robot.spec.add_body("base", "world", Free(), inertia=jd.Inertia(5.0, np.zeros(3), np.eye(3) * 0.2))
    for b in range(branches):
        parent, place = "base" if base else "world", at()
        for k in range(depth):
            parent, length = UNITS[kind](robot, f"_{b}_{k}", parent, place)
            place = at(length, turned=k % 2 == 0)
    return robot.build()


def two_chains(depth: int, k: int, rod: bool = False) -> jd.Model:
    """Return two planar branches of `depth` links whose k-th links are tied: by a gear between the sums of their joint
    angles, or by a rod (constraint_embedding, Fig. 11). The loop has 2 k bodies, 2 k + 1 with the rod."""
    robot = Geared(f"{'rod' if rod else 'gear'}_{depth}_{k}")
    tips = ["world", "world"]
    for j in range(1, depth + 1):
        for side in (0, 1):
            place = at(1.0 if j > 1 else 0.0, 0.0 if j > 1 or not rod else float(side))
            tips[side] = robot.link(f"link_{side}_{j}", tips[side], Z, place, bar(0.25, 1.0))
            if j > 1 or side == 0:
                robot.spec.add_actuator(tips[side], tips[side])
        if j == k and rod:
            # points across to the other branch, at a right angle
            across = jd.Transform(np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]]), (1.0, 0, 0))
            end = robot.link("rod", tips[0], Z, across, bar(0.25, 1.0))
            robot.hinge(end, tips[1], 1.0, 1.0)
    if not rod:
        names = [f"link_{side}_{j}" for side in (0, 1) for j in range(1, k + 1)]
        robot.spec.add_constraint(Coupling(names, [1.0] * k + [-1.0] * k, name="gear", stabilization=None))
    return robot.build()


def quadruped(rotors: str = "geared") -> jd.Model:
    """Return a robot like the Mini Cheetah, with three geared motors per leg."""
    robot = Geared("quadruped", rotors)
    robot.spec.add_body(
        "base", "world", Free(), inertia=jd.Inertia(3.3, np.zeros(3), np.diag([0.0113, 0.0362, 0.0427]))
    )
    for leg, front, side in (("fr", 1, -1), ("fl", 1, 1), ("hr", -1, -1), ("hl", -1, 1)):
        out = lambda y, side=side: side * y  # noqa: E731
        abad = robot.driven(
            f"{leg}_abad",
            "base",
            X,
            at(0.19 * front, out(0.049)),
            jd.Inertia(0.54, (0, out(0.036), 0), np.diag([3.8e-4, 5.6e-4, 4.4e-4])),
            6.0,
            6.3e-5,
            (-0.065 * front, 0, 0),
        )
        hip = robot.driven(
            f"{leg}_hip",
            abad,
            Y,
            at(0, out(0.062)),
            jd.Inertia(0.63, (0, out(0.016), -0.02), np.diag([2.0e-3, 2.1e-3, 4.1e-4])),
            6.0,
            6.3e-5,
            (0, out(-0.022), 0),
        )
        knee = jd.Inertia(0.064, (0, 0, -0.061), np.diag([2.5e-4, 2.5e-4, 6e-6]))
        robot.driven(f"{leg}_knee", hip, Y, at(0, 0, -0.209), knee, 9.33, 6.3e-5, (0, 0, 0.209))
    return robot.build()


def _link(mass: float, length: float, aside: float = 0.0) -> jd.Inertia:
    """Return the inertia of a link that hangs down."""
    sway, spin = mass * length**2 / 9, mass * 0.05**2 / 2
    return jd.Inertia(mass, (0.01, aside, -length / 2), np.diag([sway, sway + spin / 4, spin]))


def leg(robot: Geared, tag: str, parent: str, place, side: float) -> None:
    """Add a leg with five motors, as in the MIT humanoid: the motors of knee and ankle sit on the thigh, and the
    ankle's belt runs about the knee."""
    yaw = robot.driven(f"{tag}_hip_z", parent, Z, place, _link(0.85, 0.12), 6.0, 1.7e-4, (0, 0, 0.02))
    roll = robot.driven(f"{tag}_hip_x", yaw, X, at(-0.064, 0, -0.075), _link(1.2, 0.1, side * 0.013), 6.0, 1.7e-4)
    thigh = robot.driven(f"{tag}_hip_y", roll, Y, at(0.071), _link(2.6, 0.27, side * 0.027), 6.0, 5.5e-4)
    knee = robot.driven(
        f"{tag}_knee", thigh, Y, at(0, 0, -0.267), _link(0.35, 0.28), 12.0, 5.5e-4, (0.013, side * 0.05, 0.25)
    )
    ankle, motor = f"{tag}_ankle", 1.7e-4
    foot = jd.Inertia(0.28, (0.023, 0, -0.013), np.diag([1e-4, 8e-4, 7.7e-4]))
    armature = 144 * motor * (robot.rotors == "armature")
    robot.link(ankle, knee, Y, at(0, 0, -0.2785), foot, armature)
    belt = at(0.016, side * 0.045, -0.13)
    robot.geared(f"{ankle}_rotor", thigh, Y, belt, rotor(Y, motor), {knee: 12.0, ankle: 12.0})
    robot.spec.add_actuator(ankle, ankle)


def one_leg(rotors: str = "geared") -> jd.Model:
    """Return a leg of `humanoid` fixed to the world."""
    robot = Geared("leg", rotors)
    leg(robot, "right", "world", at(), -1.0)
    return robot.build()


def humanoid(rotors: str = "geared") -> jd.Model:
    """Return a robot like the MIT humanoid, with five geared motors per leg and four per arm."""
    robot = Geared("humanoid", rotors)
    trunk = jd.Inertia(8.5, (0.01, 0, 0.1), np.diag([0.17, 0.11, 0.09]))
    robot.spec.add_body("base", "world", Free(), inertia=trunk)
    for tag, side in (("right", -1.0), ("left", 1.0)):
        leg(robot, tag, "base", at(-0.006, side * 0.082, -0.057), side)
        parent, place = "base", at(0.013, side * 0.176, 0.247)
        for name, axis, length, ratio in (
            ("shoulder_y", Y, 0.1, 6.0),
            ("shoulder_x", X, 0.1, 6.0),
            ("shoulder_z", Z, 0.145, 6.0),
            ("elbow", Y, 0.2, 9.0),
        ):
            parent = robot.driven(f"{tag}_{name}", parent, axis, place, _link(0.8, length), ratio, 1.7e-4)
            place = at(0, 0, -length)
    return robot.build()
