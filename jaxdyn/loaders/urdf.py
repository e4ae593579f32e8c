"""The loader of URDF: links, joints, mimic joints, actuators and shapes.

| in the file | in the model |
| --- | --- |
| `<link>` on a moving joint | a body of the link's name, its frame the joint's |
| `<link>` on a fixed joint | merged into its parent body; its name remains as a frame |
| `<frame>` (Drake's) | a frame of its link |
| `<mimic>` | a `Coupling` named ``<joint>_mimic`` |
| `<transmission>` | an actuator (see `jaxdyn.loaders.transmissions`) |
| `<limit>`, `<dynamics>` | the joint's `limits` and `effort` (of one coordinate only), `damping`, `friction` |
| `<gazebo reference>` with `springStiffness` | the joint's `stiffness` and `rest` |
| `<collision>` | a shape of the same name, see `jaxdyn.loaders.urdf_shapes` |

All missing meshes together give one warning.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ..model.joints import Fixed, Free, Joint, Planar, Prismatic, Revolute, Spherical
from ..model.spec import ModelSpec
from ..model.transmission import Coupling
from ..tree.topology import unknown
from .free_names import free_name
from .gazebo import note_gazebo
from .meshes import warn_of_missing
from .names import note_names
from .origin import direction_of, origin
from .pose import Mass, moments
from .shapes import Wanted
from .skeleton import Connection, Link, body_of, collect, grow, ring_in
from .transmissions import add_actuators, add_rotors
from .urdf_plus import add_closures
from .urdf_shapes import add_shapes
from .xml import Document, Element, Notes, arrows, attribute, brief, fail, located, needed, number, numbers, only, warn

#: URDF's types of joints, and "spherical", which PyBullet has in addition ("ball" in Drake)
TYPES = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical", "ball")
#: attributes of <dynamics> that some files have in addition to URDF's damping and friction
UNREAD = ("K", "D", "mu_viscous", "mu_coulomb")
SPRING = ("springStiffness", "springReference")


def mass_of(link: Element) -> Mass:
    """Return the mass properties of a link in its frame, zero if it has no `<inertial>`."""
    inertial = only(link, "inertial")
    if inertial is None:
        return Mass()
    inertia = needed(inertial, "inertia")
    value = number(needed(inertial, "mass"), "value")
    rotational = moments(*(number(inertia, k) for k in ("ixx", "iyy", "izz", "ixy", "ixz", "iyz")))
    return Mass(value, np.zeros(3), rotational).seen_from(origin(only(inertial, "origin")))


def joint_of(element: Element, name: str, notes: Notes) -> Joint:
    """Return the joint of a `<joint>` with its axis, limits, damping and friction."""
    kind = attribute(element, "type")
    if kind not in TYPES:
        fail(element, f"the type {kind!r} is none of {', '.join(TYPES)}.")
    if kind == "fixed":
        return Fixed(name)
    options = _dynamics(element, name, notes) | _limits(element, kind, name, notes)
    if kind in ("floating", "spherical", "ball"):
        return (Free if kind == "floating" else Spherical)(name, **options)
    axis = only(element, "axis")
    if kind == "planar" and axis is None:  # Drake's own element of that type moves in x and y
        notes.add(
            element, "planar joints without an <axis>, whose plane is normal to x, URDF's default: {}.", repr(name)
        )
    options["axis"] = (1.0, 0.0, 0.0) if axis is None else tuple(direction_of(axis))
    return {"revolute": Revolute, "continuous": Revolute, "prismatic": Prismatic, "planar": Planar}[kind](
        name, **options
    )


def _dynamics(element: Element, name: str, notes: Notes) -> dict:
    """Return the damping and friction of a joint, which act on each of its velocities."""
    dynamics = only(element, "dynamics")
    if dynamics is None:
        return {}
    unread = [what for what in UNREAD if number(dynamics, what, 0.0)]
    if unread:
        notes.add(dynamics, "numbers of <dynamics> that are not read: {}.", f"{name!r} ({', '.join(unread)})")
    return {what: number(dynamics, what, 0.0) for what in ("damping", "friction")}


def _limits(element: Element, kind: str, name: str, notes: Notes) -> dict:
    """Return the limits and the effort of a joint. Note those of joints with several coordinates: URDF gives ends to
    revolute and prismatic joints only, and the effort of a planar one would be a force and a torque at once."""
    limit = only(element, "limit")
    if limit is None:
        if kind in ("revolute", "prismatic"):
            notes.add(element, "revolute and prismatic joints without a <limit>, taken as unlimited: {}.", repr(name))
        return {}
    told = {what: number(limit, what, endless=True) for what in ("lower", "upper", "effort") if what in limit.attrib}
    if kind not in ("revolute", "continuous", "prismatic"):
        if told:
            text = "<limit> of joints with several coordinates, which is not kept: {}."
            notes.add(limit, text, f"{name!r} ({', '.join(told)})")
        return {}
    if told.get("effort") in (0, -1):  # SDF has minus one for no limit
        text = f"joints with an `effort` of {'zero' if told['effort'] == 0 else '-1'}, taken as unlimited: {{}}."
        notes.add(limit, text, repr(name))
        del told["effort"]
    options: dict = {"effort": told["effort"]} if "effort" in told else {}
    # URDF's default for both ends is 0, which no file intends: a joint with neither end is unlimited
    if kind != "continuous" and {"lower", "upper"} & {*told}:
        options["limits"] = told.get("lower", 0.0), told.get("upper", 0.0)
    return options


def links_of(robot: Element) -> dict[str, Link]:
    """Return the links of a robot, by name. Drake's files have joints whose parent is a world that they do not list."""
    links = collect(Link(attribute(e, "name"), e, mass_of(e)) for e in robot.findall("link"))
    held = next((e for e in robot.iterfind("joint/parent") if (e.get("link") or "").strip() == "world"), None)
    if held is not None and "world" not in links:
        links["world"] = Link("world", held.getparent(), Mass())
    return links


def joints_of(robot: Element, notes: Notes) -> dict[str, Connection]:
    """Return the joints of a robot, by name."""

    def one(element: Element) -> Connection:
        name = attribute(element, "name")
        ends = [attribute(needed(element, tag), "link") for tag in ("parent", "child")]
        return Connection(
            name, element, ends[0], ends[1], origin(only(element, "origin")), joint_of(element, name, notes)
        )

    return collect(one(e) for e in robot.findall("joint"))


def note_joints(robot: Element, joints: dict[str, Connection], notes: Notes) -> None:
    """Note the loops and mimic joints in Gazebo's extensions, which are left out."""
    for block in robot.findall("gazebo"):
        for inner in block.iter("joint", "mimicJoint"):
            if inner.tag == "joint" and inner.find("parent") is None:
                continue
            told = (inner.get("name") or inner.text or "").strip()
            known = joints.get(told)
            if known is None or (known.element.find("mimic") is None and not isinstance(known.joint, Fixed)):
                text = "the loops and mimics that <gazebo> holds for its own use are not loaded: joints {}."
                notes.add(inner, text, brief(told))


def add_frames(spec: ModelSpec, robot: Element, links: dict[str, Link], notes: Notes) -> None:
    """Add the frames that a file names for Drake."""
    taken = {*links}
    for element in robot.findall("frame"):
        name, link = attribute(element, "name"), attribute(element, "link")
        if link not in links:
            fail(element, unknown("link", link, links))
        called = free_name(notes, element, "frames", name, taken)
        taken.add(called)
        located(element, spec.add_frame, called, body_of(spec, link), origin(element).transform())


def springs_of(robot: Element) -> dict[str, dict[str, Element]]:
    """Return the parts of the springs in Gazebo's extensions, by joint and tag. They may stand in several blocks."""
    found: dict[str, dict[str, Element]] = {}
    for block in robot.findall("gazebo"):
        name = (block.get("reference") or "").strip()
        for element in block.iterchildren(*SPRING):
            parts = found.setdefault(name, {})
            if element.tag in parts:
                fail(element, f"the joint {brief(name)} has one already, in line {parts[element.tag].sourceline}.")
            parts[element.tag] = element
    return found


def add_springs(robot: Element, joints: dict[str, Connection], notes: Notes) -> None:
    """Add the springs of joints from Gazebo's extensions. Note those that no joint can have."""
    for name, parts in springs_of(robot).items():
        given = {tag: float(numbers(e, e.get("value", e.text), 1, tag)[0]) for tag, e in parts.items()}
        stiffness, rest = (given.get(tag, 0.0) for tag in SPRING)
        joint = joints.get(name)
        if joint is not None and joint.joint.kind.nv == 1:
            joint.joint = replace(joint.joint, stiffness=stiffness, rest=rest)
        elif stiffness:
            why = f"there is no joint {brief(name)}" if joint is None else f"{name!r} has no single velocity"
            notes.add(parts[SPRING[0]], "springs of <gazebo> that are left out: {}.", why)


def mimics_of(joints: dict[str, Connection]) -> dict[str, tuple[Element, str]]:
    """Return the joints that mimic another, with `<mimic>` and the other's name. Raise `ValueError` for a cycle."""
    found = {}
    for joint in joints.values():
        element = only(joint.element, "mimic")
        if element is not None:
            found[joint.name] = (element, attribute(element, "joint"))
    ring = ring_in({name: other for name, (_, other) in found.items()})
    if ring:
        fail(found[ring[0]][0], f"the joints mimic each other in a ring: {arrows(ring)}.")
    return found


def add_mimics(spec: ModelSpec, robot: Element, joints: dict[str, Connection], notes: Notes) -> set[str]:
    """Add a `Coupling` for every `<mimic>`. Return the names of the joints that must not have actuators.

    If the other joint does not exist, or if the joint itself is fixed, note it and add no coupling.
    """
    follow = mimics_of(joints)
    taken = {e.get("name") for e in robot.iterchildren("loop", "coupling")}
    for name, (element, other) in follow.items():
        if isinstance(joints[name].joint, Fixed):
            notes.add(element, "<mimic> has no effect on fixed joints: {}.", repr(name))
            continue
        if other not in joints:
            text = "joints with a <mimic> that move freely, for the joint they name is not there: {}."
            notes.add(element, text, f"{name!r} of {brief(other)}")
            continue
        if joints[name].joint.kind.nv != 1:
            fail(element, f"joint {name!r} has no single coordinate to mimic with.")
        ratio, offset = number(element, "multiplier", 1.0), number(element, "offset", 0.0)
        called = free_name(notes, element, "constraints", f"{name}_mimic", taken)
        if isinstance(joints[other].joint, Fixed):
            warn(element, f"joint {other!r} is fixed, so {name!r} is held at {offset:g}.")
            coupling = located(element, Coupling, (name,), (1.0,), offset, name=called)
        elif joints[other].joint.kind.nv != 1:
            fail(element, f"joint {other!r} has no single coordinate to mimic.")
        else:
            coupling = located(element, Coupling, (name, other), (1.0, -ratio), offset, name=called)
        spec.add_constraint(coupling)
    return set(follow)


def load(
    document: Document,
    floating: bool | None = None,
    name: str | None = None,
    retype: Callable[[dict[str, Connection]], None] | None = None,
    drive: bool = True,
    collision: Wanted = "primitives",
) -> ModelSpec:
    """Return the `ModelSpec` of a URDF. `retype` may change joints before the tree is built; if `drive` is False, add
    no actuators."""
    robot = document.root
    spec = ModelSpec(name or robot.get("name") or document.origin.removesuffix(".urdf"))
    with Notes() as notes:
        links, joints = links_of(robot), joints_of(robot, notes)
        note_joints(robot, joints, notes)
        add_springs(robot, joints, notes)
        add_rotors(robot, joints, notes)
        if retype is not None:
            retype(joints)
        chain = grow(spec, notes, robot, links, joints, floating)
        add_frames(spec, robot, links, notes)
        passive = add_mimics(spec, robot, joints, notes) | add_closures(spec, robot, links, joints)
        spec.followers |= passive
        if drive:
            add_actuators(spec, notes, robot, chain, passive)
        add_shapes(spec, notes, document, collision)
        note_gazebo(robot, notes)
        note_names(notes, robot, "URDF")
        warn_of_missing(document)
    return spec
