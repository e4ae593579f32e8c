"""Synthetic robots from a seed, for benchmarks and tests: chains, trees, ladders, cycles, chains of loops, random ones.

Each function returns a model whose constraints are satisfied at `model.neutral()`.
"""

import numpy as np

import jaxdyn as jd

LENGTH = 0.4


def turn(rng, most=0.5):
    """Return the quaternion of a random rotation vector with coordinates of at most `most` radians."""
    half = rng.uniform(-most, most, 3) / 2
    angle = np.linalg.norm(half)
    return np.concatenate([[np.cos(angle)], np.sinc(angle / np.pi) * half])


class Robot:
    """A spec to which bodies are added, with their poses at neutral."""

    def __init__(self, name: str, seed: int):
        self.spec, self.rng, self.at = (
            jd.ModelSpec(name),
            np.random.default_rng(seed),
            {"world": jd.Transform.identity()},
        )
        #: axis of all joints, or None for random ones; largest rotation of a body relative to its parent
        self.axis, self.most = None, 0.5

    def body(self, name: str, parent: str, joint=None, tip: bool = True) -> str:
        """Add a bar at the tip of its parent or at its origin, by default on a revolute joint about a random axis."""
        mass = self.rng.uniform(0.8, 1.5)
        sway = mass * LENGTH**2 / 12
        inertia = jd.Inertia(mass, (0, 0, LENGTH / 2), np.diag([sway, sway, mass * 0.05**2 / 6]))
        offset = (0, 0, LENGTH) if tip and parent != "world" else (0, 0, 0)
        placement = jd.Transform.from_quaternion(turn(self.rng, self.most), offset)
        if joint is None:
            joint = jd.joints.Revolute(axis=self.rng.normal(size=3) if self.axis is None else self.axis)
        self.spec.add_body(name, parent, joint, placement=placement, inertia=inertia)
        self.at[name] = self.at[parent] @ placement
        return name

    def chain(self, parent: str, n: int, tag: str, tip: bool = True) -> list[str]:
        names = []
        for k in range(n):
            parent = self.body(f"{tag}_{k}", parent, tip=tip or k > 0)
            names.append(parent)
        return names

    def tie(self, kind, a: str, b: str = "world", point=(0, 0, LENGTH), name: str | None = None) -> None:
        """Add a constraint at a point of `a` that is satisfied at neutral."""
        here = jd.Transform(np.eye(3), point)
        there = self.at[b].inverse() @ self.at[a] @ here
        self.spec.add_constraint(kind(a, b, placement_a=here, placement_b=there, name=name))

    def build(self) -> jd.Model:
        return self.spec.build()


def chain(n: int, seed: int = 0) -> jd.Model:
    """Return a chain of `n` revolute joints with the tip welded to the ground (popov_vereshchagin, Fig. 4a)."""
    robot = Robot(f"chain_{n}", seed)
    links = robot.chain("world", n, "link")
    robot.tie(jd.constraints.Weld, links[-1])
    return robot.build()


def tree(n: int, seed: int = 0) -> jd.Model:
    """Return a floating base with limbs of ten links, `n` links in all, each limb welded to the ground."""
    robot = Robot(f"tree_{n}", seed)
    robot.body("base", "world", jd.joints.Free())
    for k in range(n // 10):
        links = robot.chain("base", 10, f"limb{k}")
        robot.tie(jd.constraints.Weld, links[-1])
    return robot.build()


def ladder(rungs: int, seed: int = 0) -> jd.Model:
    """Return a fixed stem of three links per rung; every rung has seven links and ends welded to the ground
    (popov_vereshchagin, Fig. 4b)."""
    robot, stem = Robot(f"ladder_{rungs}", seed), "world"
    for k in range(rungs):
        stem = robot.chain(stem, 3, f"stem{k}")[-1]
        robot.tie(jd.constraints.Weld, robot.chain(stem, 7, f"rung{k}")[-1])
    return robot.build()


def long_stem(stem: int, branches: int, links: int = 7, turned: bool = True, seed: int = 0) -> jd.Model:
    """Return a floating stem of `stem` links. From its first and its last link start `branches` chains of `links` each,
    whose tips are welded to the ground (popov_vereshchagin, Fig. 2e). If not `turned`, all joints are parallel."""
    robot = Robot(f"long_stem_{stem}_{branches}x{links}", seed)
    robot.most = 0.5 if turned else 0.0
    robot.axis = (1, 0, 0)
    ends = [robot.body("base", "world", jd.joints.Free())]
    ends += robot.chain(ends[0], stem - 1, "stem")[-1:]
    for k, end in enumerate((ends[0], ends[-1])):
        for branch in range(branches):
            robot.tie(jd.constraints.Weld, robot.chain(end, links, f"end{k}_{branch}")[-1])
    return robot.build()


def cycle(n: int, seed: int = 0) -> jd.Model:
    """Return a loop of `n` links that starts and ends at a floating base (lcaba_proxbbo, Fig. 6)."""
    return loop_chain(1, n, seed, f"cycle_{n}")


def loop_chain(loops: int, links: int = 7, seed: int = 0, name: str | None = None) -> jd.Model:
    """Return loops of `links` links from a floating base; each starts at the middle of the one before
    (lcaba_proxbbo, Fig. 7)."""
    robot = Robot(name or f"loop_chain_{loops}x{links}", seed)
    base = robot.body("base", "world", jd.joints.Free())
    for k in range(loops):
        names = robot.chain(base, links, f"loop{k}", tip=False)
        robot.tie(jd.constraints.Weld, names[-1], base)
        base = names[links // 2]
    return robot.build()


def nested_loops(loops: int, seed: int = 0) -> jd.Model:
    """Return a chain whose k-th link from the end is tied to the k-th from the start: all loops share the middle, the
    worst case for elimination in the order of the tree (lcaba_proxbbo, Fig. 8)."""
    robot = Robot(f"nested_{loops}", seed)
    robot.body("base", "world", jd.joints.Free())
    links = robot.chain("base", 6 * loops, "link")
    for k in range(loops):
        robot.tie(jd.constraints.Point, links[-1 - k], links[k])
    return robot.build()


def branching_loops(branches: int, seed: int = 0) -> jd.Model:
    """Return a floating base with branches of eight links, whose tips are welded to that of the first: no link has more
    than one neighbour when it is eliminated, while the rows of all loops ride on the first branch (lcaba_proxbbo,
    Fig. 9)."""
    robot = Robot(f"branching_{branches}", seed)
    robot.body("base", "world", jd.joints.Free())
    tips = [robot.chain("base", 8, f"branch{k}")[-1] for k in range(branches)]
    for tip in tips[1:]:
        robot.tie(jd.constraints.Weld, tip, tips[0])
    return robot.build()


def handled_object(hands: int, seed: int = 0) -> jd.Model:
    """Return a floating base with arms of eight links, each with its own loop and its tip on a common body."""
    robot = Robot(f"object_{hands}", seed)
    robot.body("base", "world", jd.joints.Free())
    robot.body("object", "world", jd.joints.Free())
    for k in range(hands):
        links = robot.chain("base", 8, f"arm{k}")
        robot.tie(jd.constraints.Point, links[5], links[1])
        robot.tie(jd.constraints.Point, links[-1], "object")
    return robot.build()


def held_loops(limbs: int, loops: int = 3, seed: int = 0) -> jd.Model:
    """Return a floating base on limbs of six links welded to the ground, with a chain as in `nested_loops`: constraints
    to the ground are cheaper as penalties, those around a common middle cheaper as riding rows."""
    robot = Robot(f"held_{limbs}_{loops}", seed)
    robot.body("base", "world", jd.joints.Free())
    links = robot.chain("base", 6 * loops, "link")
    for k in range(loops):
        robot.tie(jd.constraints.Point, links[-1 - k], links[k])
    for k in range(limbs):
        robot.tie(jd.constraints.Weld, robot.chain("base", 6, f"limb{k}")[-1])
    return robot.build()


def random_loops(n: int, loops: int, seed: int, near: bool = False) -> jd.Model:
    """Return a random tree of `n` links from a floating base, with point constraints between random pairs of links;
    with `near`, between links at most six apart in the tree."""
    robot = Robot(f"random_{'near_' if near else ''}{n}_{loops}_{seed}", seed)
    names, up = [robot.body("base", "world", jd.joints.Free())], {"base": "world"}
    for k in range(n):
        recent = names[-3:] if robot.rng.random() < 0.7 else names
        parent = recent[robot.rng.integers(len(recent))]
        names.append(robot.body(f"link{k}", parent))
        up[names[-1]] = parent

    def path(x):
        out = []
        while x != "world":
            out.append(x)
            x = up[x]
        return out

    made = 0
    while made < loops:
        a, b = (names[k] for k in robot.rng.choice(len(names), 2, replace=False))
        apart = len(set(path(a)) ^ set(path(b)))
        if 4 <= apart and (not near or apart <= 6):
            robot.tie(jd.constraints.Point, a, b)
            made += 1
    return robot.build()


def _random(name: str, seed: int, *sizes: tuple[int, int, bool]) -> dict[str, tuple]:
    """Return the builders of random robots of (links, loops, near) by numbered names, with seeds from `seed` on."""
    return {f"{name}_{k}": (random_loops, (n, loops, seed + k, near)) for k, (n, loops, near) in enumerate(sizes)}


#: robots to measure, by name: (builder, its arguments)
MADE = {
    "cycle_3": (cycle, (3,)),
    "cycle_8": (cycle, (8,)),
    "cycle_24": (cycle, (24,)),
    "loop_chain_3": (loop_chain, (3,)),
    "nested_2": (nested_loops, (2,)),
    "nested_4": (nested_loops, (4,)),
    "branching_2": (branching_loops, (2,)),
    "branching_4": (branching_loops, (4,)),
    "object_2": (handled_object, (2,)),
    "object_4": (handled_object, (4,)),
    "ladder_2": (ladder, (2,)),
    "held_4": (held_loops, (4,)),
}
#: random robots to which the weights of `jaxdyn.systems.cost` are fitted, and ten that are not used for the fit
MADE |= _random(
    "tangle", 0, *((8, 2, False), (12, 4, False), (16, 4, False), (10, 4, True), (18, 6, True), (24, 8, True))
)
FAR = ((8, 2, False), (10, 3, False), (12, 4, False), (14, 5, False), (16, 3, False), (20, 4, False))
NEAR = ((10, 4, True), (14, 6, True), (18, 6, True), (22, 8, True))
UNSEEN = _random("random", 1000, *FAR, *NEAR)
MADE |= UNSEEN
