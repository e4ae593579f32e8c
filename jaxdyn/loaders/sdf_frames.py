"""Resolution of the frames of an SDF model, in which each link, joint, frame and nested model is placed relative to
another."""

from dataclasses import dataclass, field
from functools import cached_property
from typing import cast

import numpy as np

from ..tree.topology import unknown
from .pose import Pose, from_quaternion, from_rpy
from .xml import Document, Element, arrows, attribute, brief, fail, numbers, only, truth


def pose_of(element: Element | None) -> Pose:
    """Return the pose in a `<pose>` element, the identity if there is none or it is empty."""
    if element is None or not (element.text or "").strip():
        return Pose()
    form = element.get("rotation_format", "euler_rpy")
    if form == "quat_xyzw":
        x = numbers(element, element.text, 7, "pose")
        if np.linalg.norm(x[3:]) < 1e-6:
            fail(element, "the quaternion is zero.")
        return Pose(from_quaternion((x[6], *x[3:6])), x[:3])
    if form != "euler_rpy":
        fail(element, f"`rotation_format` is {brief(form)}, neither euler_rpy nor quat_xyzw.")
    x = numbers(element, element.text, 6, "pose")
    scale = np.pi / 180 if truth(element, element.get("degrees"), "degrees") else 1.0
    return Pose(from_rpy(scale * x[3:]), x[:3])


def base_of(pose: Element | None) -> str | None:
    """Return the name of the frame that a `<pose>` is relative to, None if it does not say."""
    return None if pose is None else pose.get("relative_to") or pose.get("frame")


@dataclass
class Frame:
    """A named frame: its `pose` relative to the frame `base`, and the frame `attached` to which it is attached (None
    for a link)."""

    element: Element
    pose: Pose
    base: str
    attached: str | None = None
    #: the pose in the world, and the flat name of the link to which it is attached, once they are known
    placed: Pose | None = None
    hung: str = ""


@dataclass
class Scope:
    """The frames of one `<model>` of a `document`, or of its world, by name. Its names have `prefix` in front in the
    flat robot. `offset` is its pose in the frame `base` of the scope `outer`, in the world if there is none; `include`
    is the element by which another file includes it."""

    element: Element
    document: Document
    version: tuple[int, ...]
    prefix: str = ""
    outer: "Scope | None" = None
    offset: Pose = field(default_factory=Pose)
    base: str = "__model__"
    include: Element | None = None
    frames: dict[str, Frame] = field(default_factory=dict)
    inner: dict[str, "Scope"] = field(default_factory=dict)
    #: models whose names are those of this one
    merged: list["Scope"] = field(default_factory=list)
    #: the name of the first link
    first: str = ""

    @cached_property
    def pose(self) -> Pose:
        """The pose of the model in the world."""
        return self.offset if self.outer is None else self.outer.place(self.element, self.base) @ self.offset

    @property
    def is_world(self) -> bool:
        return self.element.tag in ("world", "sdf")

    def add(self, element: Element, base: str, attached: str | None = None, name: str | None = None) -> str:
        """Add a frame for an element with a `<pose>`, and return its name, by default the element's."""
        name = name or attribute(element, "name")
        if "::" in name or name in ("world", "__model__"):
            fail(element, f"the name {brief(name)} is reserved.")
        if self.holds(name):
            fail(element, f"the name {name!r} is taken in this model.")
        pose = only(element, "pose")
        told = base_of(pose)
        self.frames[name] = Frame(element, pose_of(pose), told or base, attached)
        if element.tag == "link":
            self.first = self.first or name
        return name

    def holds(self, name: str) -> bool:
        """Return True if a frame or a model of this scope has a name."""
        return name in self.frames or name in self.inner

    def find(self, element: Element, name: str) -> tuple["Scope", str]:
        """Return the scope and the plain name for a name that is used here and may have the form ``inner::name``."""
        if self.is_world and name == "world":
            return self, "__model__"
        scope, parts = self, name.split("::")
        if self.merged and not self.holds(parts[0]):
            scope = next((m for m in self.merged if m.holds(parts[0])), self)
        for part in parts[:-1]:
            if part not in scope.inner:
                fail(element, unknown("model", part, scope.inner))
            scope = scope.inner[part]
        if parts[-1] in scope.inner:
            scope, parts = scope.inner[parts[-1]], ["__model__"]
        if parts[-1] not in scope.frames and parts[-1] != "__model__":
            fail(element, unknown("link or frame", name, (*self.frames, *self.inner)))
        return scope, parts[-1]

    def place(self, element: Element, name: str) -> Pose:
        """Return the pose of a frame in the world. Raise `ValueError` for unknown names, and for circular
        references."""
        scope, plain = self.find(element, name)
        trail: dict[tuple[str, str], Frame] = {}  # from the frame to the first one whose pose is known
        while plain != "__model__" and scope.frames[plain].placed is None:
            here, frame = (scope.prefix, plain), scope.frames[plain]
            if here in trail:
                names = [n for _, n in trail]
                ring = arrows([repr(n) for n in (*names[names.index(plain) :], plain)])
                fail(frame.element, f"the poses rest on each other in a ring: {ring}.")
            trail[here] = frame
            scope, plain = scope.find(frame.element, frame.base)
        pose = scope.pose if plain == "__model__" else cast(Pose, scope.frames[plain].placed)
        for frame in reversed(trail.values()):
            pose = frame.placed = pose @ frame.pose
        return pose

    def link(self, element: Element, name: str) -> str:
        """Return the flat name of the link to which the name of a link, frame, joint or model refers. A joint's frame
        is attached to its child, a model's to its canonical link."""
        scope, plain = self.find(element, name)
        trail: dict[tuple[str, str], Frame | None] = {}
        while True:
            here, frame = (scope.prefix, plain), scope.frames.get(plain)
            if here in trail:
                fail(element, f"the frame {brief(name)} is attached to itself.")
            if frame is not None and (frame.hung or frame.element.tag == "link"):
                link = frame.hung or scope.prefix + plain
                break
            trail[here] = frame
            if frame is None and scope.is_world:
                link = "world"
                break
            if frame is None:  # a model stands for its first link, or for that of the first model in it
                plain = scope.element.get("canonical_link") or scope.first or next(iter(scope.inner), "")
                if not plain:
                    fail(scope.element, "the model has no link.")
                scope, plain = scope.find(scope.element, plain)
                continue
            scope, plain = scope.find(frame.element, frame.attached or "__model__")
        for passed in trail.values():
            if passed is not None:
                passed.hung = link
        return link
