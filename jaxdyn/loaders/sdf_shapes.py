"""Reader of the shapes of SDF: the `<collision>` of links, with friction, restitution and mask from its `<surface>`.

Two shapes collide if their masks share a bit. A `<collision>` without contact forces is left out.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np

from ..model.shapes import Box, Capsule, Cylinder, Ellipsoid, Plane, Shape, Sphere
from ..model.spec import ModelSpec
from .gazebo import note_friction
from .pose import Pose, rotation_to
from .sdf_frames import Scope, base_of, pose_of
from .sdf_parts import Body
from .shapes import Shapes, Wanted, geometry_of, is_mesh, unknown_shape
from .xml import Element, Notes, brief, fail, needed, numbers, only, text_number, truth, within

#: the mask of a `<collision>` that has none
EVERY = 0xFFFF


def add_shapes(
    spec: ModelSpec,
    notes: Notes,
    links: dict[str, Body],
    frames: dict[str, Pose],
    wanted: Wanted,
) -> None:
    """Add the `<collision>` of all links. `frames` are the frames of their bodies in the world."""
    if wanted == "none":
        return
    told = [c.get("name", "").strip() for link in links.values() for c in link.element.findall("collision")]
    shapes = Shapes(spec, notes, wanted, told)
    for name, link in links.items():
        folder = link.scope.document.folder
        own = frames[name].inverse() @ link.pose
        for c in link.element.findall("collision"):
            shapes.add(
                c,
                c.get("name"),
                name,
                lambda c=c, link=link, own=own: own @ _place(c, link) @ _tilt(c),
                lambda c=c, folder=folder: shape_of(c, shapes, folder),
                lambda c=c: surface_of(c, notes),
                mesh=is_mesh(c),
            )


def _mask(collision: Element) -> int:
    """Return the bit mask of a `<collision>`, zero if it makes no contact forces."""
    contact = within(collision, "surface/contact")
    if contact is None:
        return EVERY
    still, mask = only(contact, "collide_without_contact"), only(contact, "collide_bitmask")
    if still is not None and truth(still, still.text, still.tag):
        return 0
    if mask is None:
        return EVERY
    told = (mask.text or "").strip()
    value = int(told, 0) if re.fullmatch("0[xX][0-9a-fA-F]{1,8}|0|[1-9][0-9]{0,9}", told) else -1
    return value if 0 <= value < 2**32 else fail(mask, f"it holds {brief(told)}, not a bit mask of 32 bits.")


def _place(collision: Element, link: Body) -> Pose:
    """Return the pose of a `<collision>` in its link."""
    pose = only(collision, "pose")
    told = base_of(pose)
    if not told:
        return pose_of(pose)
    scope: Scope = link.scope
    return link.pose.inverse() @ scope.place(pose, told) @ pose_of(pose)


def _tilt(collision: Element) -> Pose:
    """Return the pose of a shape in its `<collision>`: the rotation to the `<normal>` of a plane, otherwise the
    identity."""
    normal = only(geometry_of(collision), "normal")
    return Pose() if normal is None else Pose(rotation_to(numbers(normal, normal.text, 3, "normal")))


def shape_of(collision: Element, shapes: Shapes, folder: Path | None) -> Shape:
    """Return the shape of a `<collision>` of a file in a folder. Errors name its line."""
    e = geometry_of(collision)
    three = lambda tag: np.ones(3) if only(e, tag) is None else numbers(only(e, tag), only(e, tag).text, 3, tag)  # noqa: E731
    if e.tag == "box":
        return Box(three("size"))
    if e.tag == "sphere":
        return Sphere(text_number(e, "radius", 1.0))
    if e.tag in ("cylinder", "capsule"):
        built = Cylinder if e.tag == "cylinder" else Capsule
        return built(text_number(e, "radius", 1.0), text_number(e, "length", 1.0))
    if e.tag == "ellipsoid":
        return Ellipsoid(three("radii"))
    if e.tag == "plane":
        return Plane()
    if e.tag == "mesh":
        if only(e, "submesh") is not None:
            fail(e, "one <submesh> of a mesh is not read.")
        return shapes.mesh((needed(e, "uri").text or "").strip(), three("scale"), folder)
    unknown_shape(e)


def surface_of(collision: Element, notes: Notes) -> dict[str, Any] | None:
    """Return the masks, friction, torsion and restitution in a `<surface>`, None if nothing collides with it. Note
    friction that is not modelled."""
    mask = _mask(collision)
    if not mask:
        return None
    out: dict[str, Any] = {"collides": mask, "collides_with": mask}
    # Gazebo's coefficient, or else Drake's
    mu = within(collision, "surface/friction/ode/mu")
    mu = within(collision, "proximity_properties/mu_dynamic") if mu is None else mu
    if mu is not None:
        out["friction"] = float(numbers(mu, mu.text, 1, "mu")[0])
    ode = within(collision, "surface/friction/ode")
    if ode is not None:
        told = {tag: text_number(ode, tag, 0.0) for tag in ("mu2", "slip1", "slip2") if only(ode, tag) is not None}
        note_friction(notes, ode, collision.get("name", ""), out.get("friction", 1.0), told)
    bounce = within(collision, "surface/bounce/restitution_coefficient")
    if bounce is not None:
        out["restitution"] = float(numbers(bounce, bounce.text, 1, bounce.tag)[0])
    twist = within(collision, "surface/friction/torsional")
    if twist is not None and only(twist, "patch_radius") is not None:
        # a contact patch of radius a under a load N resists a torque of 3 pi / 16 a mu N
        radius, mu = (text_number(twist, tag, x) for tag, x in (("patch_radius", 0.0), ("coefficient", 1.0)))
        out["torsion"] = 3 * np.pi / 16 * radius * mu
    return out
