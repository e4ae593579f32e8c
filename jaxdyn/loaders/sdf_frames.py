"""Resolves the frames of an SDF model, in which every link, joint, frame and nested model is placed by another."""

from dataclasses import dataclass, field

import numpy as np

from ..tree.topology import unknown
from .pose import Pose, from_quaternion, from_rpy
from .xml import Element, attribute, brief, fail, numbers, only, truth


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


@dataclass
class Frame:
    """A named frame: its pose relative to the frame `base`, and the frame it is attached to (None for a link)."""

    element: Element
    pose: Pose
    base: str
    attached: str | None = None


@dataclass
class Scope:
    """The frames of one `<model>`, by name. `prefix` comes before its names in the flat robot."""

    element: Element
    pose: Pose
    prefix: str = ""
    frames: dict[str, Frame] = field(default_factory=dict)
    inner: dict[str, "Scope"] = field(default_factory=dict)

    def add(self, element: Element, base: str, attached: str | None = None) -> str:
        """Add a frame for an element with a `<pose>`."""
        name = attribute(element, "name")
        if "::" in name or name in ("world", "__model__"):
            fail(element, f"the name {brief(name)} is reserved.")
        if name in self.frames or name in self.inner:
            fail(element, f"the name {name!r} is taken in this model.")
        pose = only(element, "pose")
        told = None if pose is None else pose.get("relative_to") or pose.get("frame")
        self.frames[name] = Frame(element, pose_of(pose), told or base, attached)
        return name

    def find(self, element: Element, name: str) -> tuple["Scope", str]:
        """Return the scope and the plain name for a name, perhaps ``inner::name``, that is used here."""
        scope, parts = self, name.split("::")
        for part in parts[:-1]:
            if part not in scope.inner:
                fail(element, unknown("model", part, scope.inner))
            scope = scope.inner[part]
        if parts[-1] in scope.inner:
            scope, parts = scope.inner[parts[-1]], ["__model__"]
        if parts[-1] not in scope.frames and parts[-1] != "__model__":
            fail(element, unknown("link or frame", name, (*self.frames, *self.inner)))
        return scope, parts[-1]

    def place(self, element: Element, name: str, trail: tuple = ()) -> Pose:
        """Return the pose of a frame in the world. Raise `ValueError` for unknown names, and for frames in a circle."""
        scope, plain = self.find(element, name)
        if plain == "__model__":
            return scope.pose
        here = (scope.prefix, plain)
        if here in trail:
            ring = " -> ".join(repr(n) for _, n in (*trail[trail.index(here) :], here))
            fail(scope.frames[plain].element, f"the poses rest on each other in a ring: {ring}.")
        frame = scope.frames[plain]
        return scope.place(frame.element, frame.base, (*trail, here)) @ frame.pose

    def link(self, element: Element, name: str, trail: tuple = ()) -> str:
        """Return the flat name of the link to which a link's or frame's name refers."""
        scope, plain = self.find(element, name)
        if (scope.prefix, plain) in trail:
            fail(element, f"the frame {name!r} is attached to itself.")
        trail = (*trail, (scope.prefix, plain))
        if plain == "__model__":
            first = next((n for n, f in scope.frames.items() if f.element.tag == "link"), None)
            plain = scope.element.get("canonical_link") or first or fail(scope.element, "the model has no link.")
            return scope.link(scope.element, plain, trail)
        frame = scope.frames[plain]
        if frame.element.tag == "link":
            return scope.prefix + plain
        if frame.element.tag == "joint":
            fail(element, f"{name!r} is a joint; name a link or frame.")
        return scope.link(frame.element, frame.attached or "__model__", trail)
