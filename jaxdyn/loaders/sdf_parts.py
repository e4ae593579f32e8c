"""`flatten` reads the links, joints and frames of an SDF file as one flat robot in world coordinates."""

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..model.joints import Fixed, Helical, Joint, Prismatic, Revolute, Spherical, Universal
from .pose import Mass, Pose, moments
from .sdf_frames import Scope, base_of, pose_of
from .sdf_scopes import outermost_of
from .xml import Document, Element, Notes, attribute, brief, fail, needed, numbers, only, text_number, truth, warn

TYPES = ("revolute", "continuous", "prismatic", "ball", "fixed", "universal", "revolute2", "screw", "gearbox")
TWO_AXES = ("universal", "revolute2", "gearbox")
#: numbers of this size stand for a missing limit in SDF
ENDLESS = 1e15


class Axis(NamedTuple):
    """An `<axis>`: direction (3,) in the joint frame, limits, effort, damping, friction and spring."""

    direction: np.ndarray
    limits: tuple[float, float] = (-np.inf, np.inf)
    effort: float = np.inf
    damping: float = 0.0
    friction: float = 0.0
    stiffness: float = 0.0
    rest: float = 0.0

    @property
    def length(self) -> float:
        return float(np.linalg.norm(self.direction))


@dataclass
class Body:
    """A link: its pose in the world, and its mass properties in its own frame."""

    element: Element
    pose: Pose
    mass: Mass
    static: bool
    scope: Scope


@dataclass
class Part:
    """A joint: `pose` is its frame in the world."""

    name: str
    element: Element
    kind: str
    parent: str
    child: str
    pose: Pose
    axes: list[Axis]
    pitch: float = 0.0
    #: inertia of the motor that turns with the joint
    armature: float = 0.0
    #: limit of the actuator's force in the file; -1 if there is none
    effort: float = -1.0
    mimic: tuple[Element, str, float, float] | None = None
    ratio: float = 1.0
    reference: str = ""

    @property
    def is_sprung(self) -> bool:
        return any(a.stiffness for a in self.axes)

    @property
    def is_single(self) -> bool:
        return self.kind in ("revolute", "continuous", "prismatic", "screw")

    def joint(self, reverse: bool) -> Joint:
        """Return the joint of the tree. If the tree enters it from its child (`reverse`), its axes are negated and
        their order is reversed."""
        if self.kind == "fixed":
            return Fixed(self.name)
        if self.kind == "ball":
            a = self.axes[0] if self.axes else Axis(np.array([0.0, 0, 1]))
            return Spherical(self.name, damping=a.damping, friction=a.friction)
        sign = -1.0 if reverse else 1.0
        axes = self.axes[::-1] if reverse else self.axes
        columns = {k: [getattr(a, k) for a in axes] for k in ("damping", "friction", "stiffness", "rest", "effort")}
        columns["limits"] = tuple(np.array([a.limits for a in axes]).T)
        columns["axis"] = tuple(sign * axes[0].direction)
        columns["armature"] = self.armature if self.is_single else 0.0
        if self.kind in ("universal", "revolute2"):
            return Universal(self.name, axis2=tuple(sign * axes[1].direction), **columns)
        if self.kind == "screw":
            return Helical(self.name, pitch=self.pitch, **columns)
        return (Prismatic if self.kind == "prismatic" else Revolute)(self.name, **columns)


@dataclass
class Robot:
    """The contents of a file, flat. `plugged` are the joints that plugins name, `documents` the file itself and those
    that it includes."""

    name: str
    gravity: np.ndarray
    links: dict[str, Body] = field(default_factory=dict)
    joints: list[Part] = field(default_factory=list)
    gears: list[Part] = field(default_factory=list)
    frames: dict[str, tuple[Element, str, Pose]] = field(default_factory=dict)
    plugged: set[str] = field(default_factory=set)
    documents: dict[int, Document] = field(default_factory=dict)


def flatten(document: Document, notes: Notes) -> Robot:
    """Return the robot of an `<sdf>` with one `<model>`, or a `<world>` of models."""
    world = only(document.root, "world")
    outermost = outermost_of(document, world)
    names = list(outermost.inner)
    name = names[0] if len(names) == 1 else attribute(outermost.element, "name")
    robot = Robot(name, gravity_of(world, outermost.version, notes))
    fill(robot, notes, outermost, static=False)
    drop_gravity(robot, notes)
    return robot


def gravity_of(world: Element | None, version: tuple[int, ...], notes: Notes) -> np.ndarray:
    """Return the gravity of a world. Before version 1.6 it is in the world's `<physics>`; note where it is not read."""
    if world is None:
        return np.array([0, 0, -9.81])
    found = only(world, "gravity")
    if found is None and version < (1, 6):
        engines = world.findall("physics")
        chosen = next((e for e in engines if truth(e, e.get("default"), "default")), engines[0] if engines else None)
        found = None if chosen is None else only(chosen, "gravity")
    for element in world.iterfind("physics/gravity"):
        if element is not found and version >= (1, 6):
            text = "gravity that is not read, because since version 1.6 it belongs into <world> itself: {}."
            notes.add(element, text, f"<gravity> in <physics>, line {element.sourceline}")
    return np.array([0, 0, -9.8]) if found is None else numbers(found, found.text, 3, "gravity")


def drop_gravity(robot: Robot, notes: Notes) -> None:
    """Set gravity to zero if it is off for all links. Note links for which alone it is off: here gravity acts on all
    bodies."""
    heavy = {name: body for name, body in robot.links.items() if body.mass.mass and not body.static}
    floats = {n: b for n, b in heavy.items() if (e := only(b.element, "gravity")) is not None and not pulls(e)}
    if heavy and len(floats) == len(heavy):
        robot.gravity = np.zeros(3)
        return
    for name, body in floats.items():
        text = "links whose <gravity> is off, and which are pulled like all others: {}."
        notes.add(body.element, text, repr(name))


def pulls(element: Element) -> bool:
    """Return the value of a link's `<gravity>`, True if it is empty."""
    return truth(element, element.text, "gravity", default=True)


def fill(robot: Robot, notes: Notes, scope: Scope, static: bool) -> None:
    """Add the links, joints and frames of a model to `robot`."""
    holders = [e for e in (scope.include, scope.element) if e is not None]
    robot.documents.setdefault(id(scope.document.root), scope.document)
    still = next((e for holder in holders if (e := only(holder, "static")) is not None), None)
    static = static or (still is not None and truth(still, still.text, "static"))
    for name, frame in scope.frames.items():
        element = frame.element
        if element.tag == "link":
            if scope.prefix + name in robot.links:
                fail(element, f"the name {name!r} is taken by a link of the model.")
            robot.links[scope.prefix + name] = Body(
                element, scope.place(element, name), mass_of(element, notes, static), static, scope
            )
        elif element.tag == "frame":
            link = scope.link(element, name)
            if scope.prefix + name in robot.frames:
                fail(element, f"the name {name!r} is taken by a frame of the model.")
            robot.frames[scope.prefix + name] = (element, link, scope.place(element, name))
    for inner in (*scope.inner.values(), *scope.merged):
        fill(robot, notes, inner, static)
    for name, frame in scope.frames.items():
        if frame.element.tag == "joint":
            part = joint_of(scope, frame.element, name)
            note_unread(notes, part)
            (robot.gears if part.kind == "gearbox" else robot.joints).append(part)
    for plugin in (e for holder in holders for e in holder.findall("plugin")):
        for tag in ("joint_name", "jointName", "joint"):
            robot.plugged |= {scope.prefix + (e.text or "").strip() for e in plugin.iter(tag)}


def note_unread(notes: Notes, part: Part) -> None:
    """Note the properties of a joint's axes that its type cannot have."""
    element = part.element
    if part.kind == "ball" and part.axes:
        a = part.axes[0]
        held = {"spring": a.stiffness, "limits": np.isfinite(a.limits).any(), "effort": np.isfinite(a.effort)}
        if any(held.values()):
            told = ", ".join(what for what, value in held.items() if value)
            notes.add(element, "ball joints whose springs and limits are not kept: {}.", f"{part.name!r} ({told})")
    if part.armature and not part.is_single:
        notes.add(element, "rotors of joints without a single velocity, left out: {}.", repr(part.name))
    if element.find("axis2") is not None and part.kind not in TWO_AXES:
        notes.add(element, "joints whose <axis2> means nothing for their type: {}.", repr(part.name))


def mass_of(link: Element, notes: Notes, static: bool) -> Mass:
    """Return the mass properties of a link in its frame; by default one kilogram and a unit inertia, with a note unless
    the link is `static`."""
    inertial = only(link, "inertial")
    if inertial is None:
        if not static:
            text = "links without <inertial>, to which SDF gives 1 kg and an inertia of 1 kg m²: {}."
            notes.add(link, text, repr(link.get("name")))
        return Mass(1.0, np.zeros(3), np.eye(3))
    if truth(inertial, inertial.get("auto"), "auto"):
        fail(inertial, '`auto="true"` computes the inertia from shapes, which is not done here; state the numbers.')
    if only(inertial, "fluid_added_mass") is not None:
        warn(inertial, "<fluid_added_mass> is not modelled.")
    value = text_number(inertial, "mass", 1.0)
    inertia = only(inertial, "inertia")
    six = [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    if inertia is not None:
        tags = ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")
        six = [text_number(inertia, tag, default) for tag, default in zip(tags, six, strict=True)]
    pose = only(inertial, "pose")
    told = base_of(pose)
    if told:
        fail(pose, f"the pose of an <inertial> relative to {brief(told)} is not read; give it in the link's frame.")
    return Mass(value, np.zeros(3), moments(*six)).seen_from(pose_of(pose))


def joint_of(scope: Scope, element: Element, name: str) -> Part:
    """Return a `<joint>` with its frame, of this name, and axes."""
    kind = attribute(element, "type")
    if kind not in TYPES:
        fail(element, f"the type {brief(kind)} is none of {', '.join(TYPES)}.")
    ends = []
    for tag in ("parent", "child"):
        told = (needed(element, tag).text or "").strip()
        if not told:
            fail(element, f"its <{tag}> is empty.")
        ends.append("world" if told == "world" else scope.link(element, told))
    if ends[0] == ends[1]:
        fail(element, f"link {ends[0]!r} is its own parent.")
    if ends[1] == "world":
        fail(element, "the world cannot be a child; exchange <parent> and <child>.")
    pose = scope.place(element, name)
    part = Part(scope.prefix + attribute(element, "name"), element, kind, ends[0], ends[1], pose, [])
    for tag in ("axis", "axis2"):
        axis = only(element, tag)
        if axis is not None and (tag == "axis" or kind in TWO_AXES):
            part.axes.append(axis_of(scope, axis, pose))
            part.effort = max(part.effort, part.axes[-1].effort if np.isfinite(part.axes[-1].effort) else -1.0)
            mimic = only(axis, "mimic")
            if mimic is not None:
                part.mimic = mimic_of(scope, mimic)
    wanted = 0 if kind in ("fixed", "ball") else 2 if kind in TWO_AXES else 1
    if len(part.axes) < wanted:
        fail(element, f"a {kind} joint has {'an <axis>' if wanted == 1 else '<axis> and <axis2>'}.")
    if kind == "screw":
        # <thread_pitch> is in radians per metre with the wrong sign, <screw_thread_pitch> in metres per turn
        metres = only(element, "screw_thread_pitch")
        part.pitch = (
            float(numbers(metres, metres.text, 1, metres.tag)[0]) / (2 * np.pi)
            if metres is not None
            else -1.0 / (text_number(element, "thread_pitch", 1.0) or fail(element, "<thread_pitch> is zero."))
        )
    part.armature = text_number(element, "rotor_inertia", 0.0) * text_number(element, "gear_ratio", 1.0) ** 2
    if kind == "gearbox":
        part.ratio = text_number(element, "gearbox_ratio", 1.0)
        told = (needed(element, "gearbox_reference_body").text or "").strip()
        part.reference = "world" if told == "world" else scope.link(element, told)
    return part


def axis_of(scope: Scope, axis: Element, pose: Pose) -> Axis:
    """Return an `<axis>`. Its direction is in the model's frame before version 1.5, in the joint's from then on."""
    xyz = only(axis, "xyz")
    direction = np.array([0.0, 0, 1]) if xyz is None else numbers(xyz, xyz.text, 3, "xyz")
    if not direction.any():
        fail(axis, "the axis is zero.")
    flag = only(axis, "use_parent_model_frame")
    told = None if xyz is None else xyz.get("expressed_in")
    if told:
        direction = pose.R.T @ scope.place(axis, told).R @ direction
    elif truth(axis, None if flag is None else flag.text, "use_parent_model_frame", default=scope.version < (1, 5)):
        direction = pose.R.T @ scope.pose.R @ direction
    options: dict = {}
    limit, dynamics = only(axis, "limit"), only(axis, "dynamics")
    if limit is not None:
        ends = (text_number(limit, t, x, endless=True) for t, x in (("lower", -np.inf), ("upper", np.inf)))
        options["limits"] = tuple(np.copysign(np.inf, x) if abs(x) >= ENDLESS else x for x in ends)
        effort = text_number(limit, "effort", -1.0, endless=True)
        options["effort"] = np.inf if effort < 0 or effort >= ENDLESS else effort
    if dynamics is not None:
        tags = {
            "damping": "damping",
            "friction": "friction",
            "spring_stiffness": "stiffness",
            "spring_reference": "rest",
        }
        options |= {name: text_number(dynamics, tag, 0.0) for tag, name in tags.items()}
    return Axis(direction, **options)


def mimic_of(scope: Scope, mimic: Element) -> tuple[Element, str, float, float]:
    """Return the joint that a `<mimic>` follows, the ratio and the offset of ``q = ratio * q_other + offset``."""
    ratio = text_number(mimic, "multiplier", 1.0)
    if mimic.get("axis", "axis") != "axis":
        fail(
            mimic,
            f"it follows the axis {brief(mimic.get('axis'))} of the other joint; only joints of one axis can lead.",
        )
    offset = text_number(mimic, "offset", 0.0) - ratio * text_number(mimic, "reference", 0.0)
    return mimic, scope.prefix + attribute(mimic, "joint"), ratio, offset
