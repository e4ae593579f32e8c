"""Reader of the shapes of URDF: the `<collision>` of links, and surface properties from Gazebo and Bullet."""

from pathlib import Path
from typing import Any

import numpy as np

from ..model.shapes import Box, Capsule, Cylinder, Ellipsoid, Plane, Shape, Sphere
from ..model.spec import ModelSpec
from .gazebo import note_friction
from .origin import origin
from .pose import Pose, rotation_to
from .shapes import Shapes, Wanted, geometry_of, is_mesh, unknown_shape
from .skeleton import body_of
from .xml import Document, Element, Notes, attribute, number, numbers, only, vector, within

#: jaxdyn's names of Bullet's elements in <contact>
BULLET = {
    "lateral_friction": "friction",
    "spinning_friction": "torsion",
    "restitution": "restitution",
    "stiffness": "stiffness",
    "damping": "damping",
}


def add_shapes(spec: ModelSpec, notes: Notes, document: Document, wanted: Wanted) -> None:
    """Add the `<collision>` of all links."""
    if wanted == "none":
        return
    links = document.root.findall("link")
    told = [c for link in links for c in link.findall("collision")]
    shapes = Shapes(spec, notes, wanted, (c.get("name", "").strip() for c in told))
    blocks: dict[str, list[Element]] = {}
    for block in document.root.findall("gazebo"):
        blocks.setdefault((block.get("reference") or "").strip(), []).append(block)
    surfaces: dict[str, dict[str, Any]] = {}

    def surface(link: Element, name: str) -> dict[str, Any]:
        if name not in surfaces:
            surfaces[name] = surface_of(link, blocks.get(name, []), notes)
        return surfaces[name]

    for link in links:
        name = attribute(link, "name")
        body = body_of(spec, name)
        for c in link.findall("collision"):
            shapes.add(
                c,
                c.get("name"),
                body,
                lambda c=c: origin(only(c, "origin")) @ _tilt(c),
                lambda c=c: shape_of(c, shapes, document.folder),
                lambda c=c, link=link, name=name: surface(link, name) | _friction_of(c),
                mesh=is_mesh(c),
            )


def _tilt(collision: Element) -> Pose:
    """Return the pose of a shape in the frame of its `<origin>`: the rotation to the `normal` of a plane, otherwise the
    identity."""
    e = geometry_of(collision, ("verbose",))
    return Pose(rotation_to(vector(e, "normal", (0, 0, 1)))) if e.tag == "plane" else Pose()


def _friction_of(collision: Element) -> dict[str, Any]:
    """Return the friction that a `<collision>` states for Drake."""
    mu = within(collision, "proximity_properties/mu_dynamic")
    return {} if mu is None else {"friction": number(mu, "value")}


def shape_of(collision: Element, shapes: Shapes, folder: Path | None) -> Shape:
    """Return the shape of a `<collision>` of a file in a folder. Errors name its line."""
    e = geometry_of(collision, ("verbose",))
    if e.tag == "box":
        return Box(numbers(e, attribute(e, "size"), 3, "size"))
    if e.tag == "sphere":
        return Sphere(number(e, "radius"))
    if e.tag in ("cylinder", "capsule"):
        return (Cylinder if e.tag == "cylinder" else Capsule)(number(e, "radius"), number(e, "length"))
    if e.tag == "ellipsoid":
        return Ellipsoid(numbers(e, attribute(e, "radii"), 3, "radii"))
    if e.tag == "plane":
        return Plane()
    if e.tag == "mesh":
        told = (e.get("scale") or "1 1 1").split()
        scale = numbers(e, " ".join(told * 3 if len(told) == 1 else told), 3, "scale")
        return shapes.mesh(attribute(e, "filename"), np.array(scale), folder)
    unknown_shape(e)


def surface_of(link: Element, blocks: list[Element], notes: Notes) -> dict[str, Any]:
    """Return the surface properties of a link from its `<contact>`. Without friction there, use `<mu1>` in
    `<gazebo>`. Note friction that is not modelled."""
    out: dict[str, Any] = {}
    for block in blocks:
        told = {tag: e for tag in ("mu1", "mu2", "slip1", "slip2") if (e := only(block, tag)) is not None}
        values = {tag: float(numbers(e, e.get("value", e.text), 1, tag)[0]) for tag, e in told.items()}
        if "mu1" in values:
            out["friction"] = values.pop("mu1")
        note_friction(notes, block, attribute(link, "name"), out.get("friction", 1.0), values)
    contact = only(link, "contact")
    rolling = None if contact is None else only(contact, "rolling_friction")
    if rolling is not None and number(rolling, "value"):
        notes.add(rolling, "rolling friction of links, which is not modelled: {}.", repr(link.get("name")))
    for tag, name in BULLET.items() if contact is not None else ():
        e = only(contact, tag)
        if e is not None:
            out[name] = number(e, "value")
    if "stiffness" in out:
        out.setdefault("damping", 0.0)
    else:
        out.pop("damping", None)
    return out
