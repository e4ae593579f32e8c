"""The robots of the papers' tables, with their constraints.

Arms, legs and hands come from the package `example-robot-data`. Digit comes from a folder of Gepetto's
`example-parallel-robots` (`digit_like_2legs_6D`), given by the environment variable JAXDYN_DIGIT. Iiwa and Atlas are in
neither; they are built here with their topology, and round numbers for lengths and masses.

Each function returns a model and a configuration at which the constraints of hands and feet are satisfied.
"""

import dataclasses
import os
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import distribution
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from topologies import MADE, turn

import jaxdyn as jd
from jaxdyn.loaders.load import load_spec

ROBOTS = "cmeel.prefix/share/example-robot-data/robots"
System = tuple[jd.Model, jax.Array]


class Scene:
    """Several robots in one model; the names of bodies and frames get a prefix."""

    def __init__(self, name: str):
        self.spec, self.posture = jd.ModelSpec(name), {}

    def add(self, source, prefix: str = "", parent: str = "world", at=(0, 0, 0), floating: bool | None = None) -> None:
        """Add a robot from a file or a spec, with its own constraints, at a position on `parent`."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", jd.ModelWarning)
            one = source if isinstance(source, jd.ModelSpec) else load_spec(source, floating=floating)
            name = lambda x: parent if x == "world" else prefix + x  # noqa: E731
            for body in one.bodies.values():
                place = jd.Transform(
                    body.rotation, body.translation + (np.asarray(at) if body.parent == "world" else 0)
                )
                joint = dataclasses.replace(body.joint, name=prefix + str(body.joint.name or body.name))
                inertia = jd.Inertia(body.mass, body.center, body.rotational)
                self.spec.add_body(prefix + body.name, name(body.parent), joint, placement=place, inertia=inertia)
        for frame, (body, rotation, translation) in one.frames.items():
            self.spec.add_frame(prefix + frame, name(body), jd.Transform(rotation, translation))
        for c in one.constraints:
            places = {"placement_a": c.placement_a, "placement_b": c.placement_b}
            made = type(c)(prefix + c.body_a, name(c.body_b), name=prefix + str(c.name), **places)
            self.spec.add_constraint(made)

    def cube(self, mass: float = 0.3, side: float = 0.07) -> None:
        inertia = jd.Inertia(mass, (0, 0, 0), np.eye(3) * mass * side**2 / 6)
        self.spec.add_body("cube", "world", jd.joints.Free(name="cube"), inertia=inertia)

    def build(self, ties: Sequence[tuple], hold: Sequence[str] = ()) -> System:
        """Build the model and its configuration. `ties` are (kind, a, b): constraints without stabilisation, satisfied
        in the posture. The cube is placed at the mean position of the frames `hold`."""
        model = self.spec.build()
        q = np.array(model.neutral())
        for joint, value in self.posture.items():
            q[model.q_slice(joint)] = value
        if hold:
            at = np.mean([jd.frame_pose(model, q, f).translation for f in hold], 0)
            q[model.q_slice("cube")] = (*at, 1, 0, 0, 0)
        pose = lambda f: jd.frame_pose(model, q, f) if f != "world" else jd.Transform.identity()  # noqa: E731
        for k, (kind, a, b) in enumerate(ties):
            self.spec.add_constraint(
                kind(a, b, placement_b=pose(b).inverse() @ pose(a), name=f"tie{k}", stabilization=None)
            )
        return self.spec.build(), jnp.asarray(q)


def described(path: str) -> Path:
    return Path(str(distribution("example-robot-data").locate_file(ROBOTS))) / path


def robot(path: str, ties: Sequence[tuple] = (), floating: bool = True) -> System:
    """Return a robot of `example-robot-data` with ties to the ground."""
    scene = Scene(Path(path).stem)
    scene.add(described(path), floating=floating)
    return scene.build([(kind, frame, "world") for kind, frame in ties])


def ur5(kind: type) -> System:
    return robot("ur_description/urdf/ur5_robot.urdf", [(kind, "tool0")], floating=False)


QUADRUPEDS = {
    "go1": ("go1_description/urdf/go1.urdf", ("FR_foot", "FL_foot", "RR_foot", "RL_foot")),
    "solo": ("solo_description/robots/solo12.urdf", ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")),
    "anymal": ("anymal_b_simple_description/robots/anymal.urdf", ("LF_FOOT", "LH_FOOT", "RF_FOOT", "RH_FOOT")),
}


def quadruped(name: str, n: int) -> System:
    """Return a quadruped with `n` of its feet held at a point."""
    path, feet = QUADRUPEDS[name]
    return robot(path, [(jd.constraints.Point, f) for f in feet[:n]])


TALOS = ("left_sole_link", "right_sole_link", "wrist_left_ft_tool_link", "wrist_right_ft_tool_link")


def talos(n: int, copies: int = 1) -> System:
    """Return Talos with `n` limbs welded to the ground: feet, then hands; each weld is repeated `copies` times."""
    return robot("talos_data/robots/talos_reduced.urdf", copies * [(jd.constraints.Weld, f) for f in TALOS[:n]])


def cassie() -> System:
    """Return Cassie with the loops of its file, in a configuration in which they are not closed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", jd.ModelWarning)
        model = jd.load(described("cassie_description/robots/cassie_v2.sdf"))
    return model, model.neutral()


def made(name: str) -> System:
    """Return a synthetic robot of `topologies.py`."""
    build, args = MADE[name]
    model = build(*args)
    return model, model.neutral()


def shipped(name: str) -> System:
    model = jd.load(name)
    return model, model.neutral()


def icub(n: int) -> System:
    return robot(
        "icub_description/robots/icub_reduced.urdf", [(jd.constraints.Weld, f) for f in ("l_sole", "r_sole")[:n]]
    )


def _limb(spec: jd.ModelSpec, rng, parent: str, tag: str, n: int, length: float, mass: float) -> str:
    for k in range(n):
        sway = mass * length**2 / 12
        inertia = jd.Inertia(mass, (0, 0, length / 2), np.diag([sway, sway, mass * 0.05**2 / 2]))
        placement = jd.Transform.from_quaternion(turn(rng), (0, 0, length if k else 0.1))
        joint = jd.joints.Revolute(axis=np.eye(3)[k % 3])
        parent = spec.add_body(f"{tag}{k}", parent, joint, placement=placement, inertia=inertia) and f"{tag}{k}"
    return parent


def iiwa(kind: type | None) -> System:
    """Return an arm of seven joints, with its tip held by a constraint of this kind, or free for None."""
    scene = Scene("iiwa")
    tip = _limb(scene.spec, np.random.default_rng(7), "world", "link", 7, 0.2, 3.0)
    return scene.build([] if kind is None else [(kind, tip, "world")])


def atlas(n: int) -> System:
    """Return a humanoid of thirty joints (back 3, neck 1, legs 6 each, arms 7 each) with feet, then hands, welded."""
    scene, rng = Scene("atlas"), np.random.default_rng(30)
    scene.spec.add_body(
        "pelvis", "world", jd.joints.Free(), inertia=jd.Inertia(18.0, (0, 0, 0.05), np.diag([0.3, 0.3, 0.3]))
    )
    back = _limb(scene.spec, rng, "pelvis", "back", 3, 0.2, 9.0)
    _limb(scene.spec, rng, back, "neck", 1, 0.2, 2.0)
    tips = [_limb(scene.spec, rng, "pelvis", f"leg{s}_", 6, 0.2, 3.0) for s in "lr"]
    tips += [_limb(scene.spec, rng, back, f"arm{s}_", 7, 0.15, 2.0) for s in "lr"]
    return scene.build([(jd.constraints.Weld, tip, "world") for tip in tips[:n]])


TIPS = tuple(f"link_{k}.0_tip" for k in (3, 7, 11, 15))
#: joints that spread the fingers sideways; they stay at zero
SPREAD = ("joint_0.0", "joint_4.0", "joint_8.0")


def _hands(scene: Scene, sides: Sequence[tuple[str, str, str, tuple]]) -> list[str]:
    for prefix, side, parent, at in sides:
        hand = load_spec(described(f"allegro_hand_description/urdf/allegro_{side}_hand.urdf"), floating=False)
        scene.add(hand, prefix, parent, at)
        for body in hand.bodies.values():
            if str(body.joint.name).startswith("joint_") and body.joint.name not in SPREAD and body.joint.kind.nv:
                scene.posture[prefix + str(body.joint.name)] = 0.6
    scene.cube()
    return [prefix + tip for prefix, *_ in sides for tip in TIPS]


def hand_cube() -> System:
    """Return an Allegro hand that holds a cube with four fingertips, each by a point constraint."""
    scene = Scene("hand_cube")
    tips = _hands(scene, [("", "right", "world", (0, 0, 0))])
    return scene.build([(jd.constraints.Point, t, "cube") for t in tips], tips)


def two_hands_cube() -> System:
    """Return two Allegro hands that hold a cube by eight points, whose rows are redundant."""
    scene = Scene("two_hands_cube")
    tips = _hands(scene, [("r/", "right", "world", (0, 0, 0)), ("l/", "left", "world", (0.18, 0, 0))])
    return scene.build([(jd.constraints.Point, t, "cube") for t in tips], tips)


def humanoid_hands_cube(feet: bool) -> System:
    """Return a humanoid with an Allegro hand on each wrist that hold a cube, with welded feet if `feet` is True."""
    scene = Scene("humanoid_hands_cube" + ("_feet" if feet else ""))
    scene.add(described("simple_humanoid_description/urdf/simple_humanoid.urdf"), floating=True)
    tips = _hands(scene, [("l/", "left", "l_wrist", (0, 0, 0)), ("r/", "right", "r_wrist", (0, 0, 0))])
    ties = [(jd.constraints.Point, t, "cube") for t in tips]
    if feet:
        ties += [(jd.constraints.Weld, f, "world") for f in ("l_ankle", "r_ankle")]
    return scene.build(ties, tips)


def has_digit() -> bool:
    return bool(os.environ.get("JAXDYN_DIGIT"))


def digit(robots: int, cube: bool) -> System:
    """Return Digits: legs with three loops each and feet welded; if `cube`, each torso holds a cube by two points."""
    scene = Scene(f"digit{robots}" + ("_cube" if cube else ""))
    ties: list[tuple] = []
    for k in range(robots):
        scene.add(Path(os.environ["JAXDYN_DIGIT"]), f"d{k}/", at=(float(k), 0, 0), floating=True)
        ties += [(jd.constraints.Weld, f"d{k}/{foot}", "world") for foot in ("foot", "foot_left")]
        for side in "lr" if cube else "":
            place = jd.Transform(np.eye(3), np.array([0.4 - 0.8 * k, 0.2 if side == "l" else -0.2, 0.3]))
            scene.spec.add_frame(f"d{k}/hold_{side}", f"d{k}/torso", place)
            ties.append((jd.constraints.Point, f"d{k}/hold_{side}", "cube"))
    if cube:
        scene.cube(2.0, 0.4)
    return scene.build(ties, [a for kind, a, b in ties if b == "cube"])


#: name: (builder, its arguments)
SYSTEMS: dict[str, tuple[Callable[..., System], tuple]] = {
    "ur5": (ur5, (jd.constraints.Weld,)),
    "ur5_point": (ur5, (jd.constraints.Point,)),
    **{f"{name}_{n}": (quadruped, (name, n)) for name in QUADRUPEDS for n in (1, 2, 3, 4)},
    "four_bar": (shipped, ("four_bar",)),
    "strider": (shipped, ("strider",)),
    "cassie": (cassie, ()),
    "iiwa_point": (iiwa, (jd.constraints.Point,)),
    "iiwa_weld": (iiwa, (jd.constraints.Weld,)),
    **{f"atlas_{n}": (atlas, (n,)) for n in (1, 2, 3, 4)},
    **{f"talos_{n}": (talos, (n,)) for n in (1, 2, 3, 4)},
    "talos_4_twice": (talos, (4, 2)),
    **{f"icub_{n}": (icub, (n,)) for n in (1, 2)},
    "hand_cube": (hand_cube, ()),
    "two_hands_cube": (two_hands_cube, ()),
    "humanoid_hands_cube": (humanoid_hands_cube, (False,)),
    "humanoid_hands_cube_feet": (humanoid_hands_cube, (True,)),
    "digit": (digit, (1, False)),
    "digit_cube": (digit, (1, True)),
    "two_digits_cube": (digit, (2, True)),
    **{name: (made, (name,)) for name in MADE},
}


def system(name: str) -> System:
    builder, args = SYSTEMS[name]
    return builder(*args)
