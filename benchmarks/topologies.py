"""Synthetic robots from a seed, for benchmarks and tests: chains, trees, ladders, cycles, chains of loops, random ones.

Each function returns a model whose constraints hold at `model.neutral()`.
"""

import numpy as np

import jaxdyn as jd

LENGTH = 0.4


def turn(rng, most=0.5):
    """A rotation by a random vector of at most that many radians in each coordinate."""
    half = rng.uniform(-most, most, 3) / 2
    angle = np.linalg.norm(half)
    return np.concatenate([[np.cos(angle)], np.sinc(angle / np.pi) * half])


class Robot:
    """A spec that grows, and where its bodies are at neutral."""

    def __init__(self, name: str, seed: int):
        self.spec, self.rng, self.at = (
            jd.ModelSpec(name),
            np.random.default_rng(seed),
            {"world": jd.Transform.identity()},
        )
        #: axis of all joints, None for random ones, and how far each is turned from its parent's at most
        self.axis, self.most = None, 0.5

    def body(self, name: str, parent: str, joint=None, tip: bool = True) -> str:
        """A bar on a revolute joint about a random axis, at the tip of its parent or at its origin."""
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
        """A constraint that holds at neutral, at a point of a."""
        here = jd.Transform(np.eye(3), point)
        there = self.at[b].inverse() @ self.at[a] @ here
        self.spec.add_constraint(kind(a, b, placement_a=here, placement_b=there, name=name))

    def build(self) -> jd.Model:
        return self.spec.build()


def chain(n: int, seed: int = 0) -> jd.Model:
    """`n` revolute joints, the tip welded to the ground (popov_vereshchagin, Fig. 4a)."""
    robot = Robot(f"chain_{n}", seed)
    links = robot.chain("world", n, "link")
    robot.tie(jd.constraints.Weld, links[-1])
    return robot.build()


def tree(n: int, seed: int = 0) -> jd.Model:
    """A floating base with limbs of ten links, `n` in all, each welded to the ground."""
    robot = Robot(f"tree_{n}", seed)
    robot.body("base", "world", jd.joints.Free())
    for k in range(n // 10):
        links = robot.chain("base", 10, f"limb{k}")
        robot.tie(jd.constraints.Weld, links[-1])
    return robot.build()


def ladder(rungs: int, seed: int = 0) -> jd.Model:
    """A fixed stem of three links a rung; every rung has seven and ends welded to the ground
    (popov_vereshchagin, Fig. 4b)."""
    robot, stem = Robot(f"ladder_{rungs}", seed), "world"
    for k in range(rungs):
        stem = robot.chain(stem, 3, f"stem{k}")[-1]
        robot.tie(jd.constraints.Weld, robot.chain(stem, 7, f"rung{k}")[-1])
    return robot.build()


def long_stem(stem: int, branches: int, links: int = 7, turned: bool = True, seed: int = 0) -> jd.Model:
    """A floating stem of `stem` links. From its first and from its last one start `branches` chains of `links` each,
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
    """One loop of `n` links that starts and ends at a floating base (lcaba_proxbbo, Fig. 6)."""
    return loop_chain(1, n, seed, f"cycle_{n}")


def loop_chain(loops: int, links: int = 7, seed: int = 0, name: str | None = None) -> jd.Model:
    """Loops of `links` links from a floating base; the next starts at the middle of the last
    (lcaba_proxbbo, Fig. 7)."""
    robot = Robot(name or f"loop_chain_{loops}x{links}", seed)
    base = robot.body("base", "world", jd.joints.Free())
    for k in range(loops):
        names = robot.chain(base, links, f"loop{k}", tip=False)
        robot.tie(jd.constraints.Weld, names[-1], base)
        base = names[links // 2]
    return robot.build()


def nested_loops(loops: int, seed: int = 0) -> jd.Model:
    """A chain whose k-th link from the end is tied to the k-th from the start: all loops share the middle, the worst
    for eliminations in the order of the tree (lcaba_proxbbo, Fig. 8)."""
    robot = Robot(f"nested_{loops}", seed)
    robot.body("base", "world", jd.joints.Free())
    links = robot.chain("base", 6 * loops, "link")
    for k in range(loops):
        robot.tie(jd.constraints.Point, links[-1 - k], links[k])
    return robot.build()


def branching_loops(branches: int, seed: int = 0) -> jd.Model:
    """A floating base with branches of eight links, tips welded to the first one's: no link that is eliminated has more
    than one neighbour, while the rows of all loops ride on the first branch (lcaba_proxbbo, Fig. 9)."""
    robot = Robot(f"branching_{branches}", seed)
    robot.body("base", "world", jd.joints.Free())
    tips = [robot.chain("base", 8, f"branch{k}")[-1] for k in range(branches)]
    for tip in tips[1:]:
        robot.tie(jd.constraints.Weld, tip, tips[0])
    return robot.build()


def handled_object(hands: int, seed: int = 0) -> jd.Model:
    """A floating base with arms of eight links, each with a loop of its own and its tip on one common body."""
    robot = Robot(f"object_{hands}", seed)
    robot.body("base", "world", jd.joints.Free())
    robot.body("object", "world", jd.joints.Free())
    for k in range(hands):
        links = robot.chain("base", 8, f"arm{k}")
        robot.tie(jd.constraints.Point, links[5], links[1])
        robot.tie(jd.constraints.Point, links[-1], "object")
    return robot.build()


def held_loops(limbs: int, loops: int = 3, seed: int = 0) -> jd.Model:
    """A floating base on limbs of six links welded to the ground, with a chain as in `nested_loops`: rows to the ground
    are cheaper as penalties, those around a common middle cheaper as rows."""
    robot = Robot(f"held_{limbs}_{loops}", seed)
    robot.body("base", "world", jd.joints.Free())
    links = robot.chain("base", 6 * loops, "link")
    for k in range(loops):
        robot.tie(jd.constraints.Point, links[-1 - k], links[k])
    for k in range(limbs):
        robot.tie(jd.constraints.Weld, robot.chain("base", 6, f"limb{k}")[-1])
    return robot.build()


def random_loops(n: int, loops: int, seed: int, near: bool = False) -> jd.Model:
    """A random tree of `n` links from a floating base, with point constraints between random pairs of links; with
    `near`, between links at most six apart in the tree."""
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
    """Random robots of (links, loops, near), by numbered names, with seeds from `seed` on."""
    return {f"{name}_{k}": (random_loops, (n, loops, seed + k, near)) for k, (n, loops, near) in enumerate(sizes)}


#: those that are measured, by name: (builder, its arguments)
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
#: random ones that the weights of `jaxdyn.systems.cost` are fitted to, and ten that they have not seen
MADE |= _random(
    "tangle", 0, *((8, 2, False), (12, 4, False), (16, 4, False), (10, 4, True), (18, 6, True), (24, 8, True))
)
FAR = ((8, 2, False), (10, 3, False), (12, 4, False), (14, 5, False), (16, 3, False), (20, 4, False))
NEAR = ((10, 4, True), (14, 6, True), (18, 6, True), (22, 8, True))
UNSEEN = _random("random", 1000, *FAR, *NEAR)
MADE |= UNSEEN
