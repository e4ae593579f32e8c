"""Conversion of the links and joints that a file declares to bodies of a `ModelSpec`."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..model.described import Body
from ..model.joints import Fixed, Free, Joint
from ..model.spec import ModelSpec
from ..spatial.inertia import problem_of
from ..tree.topology import unknown
from .pose import Mass, Pose
from .xml import Element, Notes, arrows, fail, located, warn

#: invalid inertias whose entries (kg m²) are below this are rounding errors of the program that wrote the file
DUST = 1e-15
HERE, NOTHING = Pose(), Mass()


@dataclass
class Link:
    """A link of the file, with its mass properties in its own frame."""

    name: str
    element: Element
    mass: Mass


@dataclass
class Connection:
    """A joint of the file. `pose` is the joint frame in the parent link's frame."""

    name: str
    element: Element
    parent: str
    child: str
    pose: Pose
    joint: Joint


def collect(records) -> dict:
    """Return records by name. Raise `ValueError` for a name that occurs twice."""
    out: dict = {}
    for record in records:
        if record.name in out:
            first = out[record.name].element.sourceline
            fail(record.element, f"the name {record.name!r} is taken by the <{record.element.tag}> in line {first}.")
        out[record.name] = record
    return out


def root_of(robot: Element, links: dict[str, Link], joints: dict[str, Connection]) -> str:
    """Return the root link. Raise `ValueError` for unknown links, links with two parents, cycles, and several roots."""
    if not links:
        fail(robot, "there is no <link> in it.")
    above: dict[str, Connection] = {}
    for joint in joints.values():
        for what, name in (("parent", joint.parent), ("child", joint.child)):
            if name not in links:
                fail(joint.element, f"its {what}: " + unknown("link", name, links))
        if joint.parent == joint.child:
            fail(joint.element, f"link {joint.child!r} is its own parent.")
        if joint.child in above:
            fail(
                joint.element,
                f"link {joint.child!r} already hangs on joint {above[joint.child].name!r}; a URDF is a tree. "
                "Close loops with the <loop> of URDF+ or with a robot.yaml.",
            )
        above[joint.child] = joint
    tops = [name for name in links if name not in above]
    ring = ring_in({j.child: j.parent for j in joints.values()})
    if ring:
        fail(above[ring[-1]].element, f"the links hang on each other in a ring: {arrows(ring[::-1])}.")
    if len(tops) > 1:
        fail(
            links[tops[1]].element, f"the robot has {len(tops)} roots: {', '.join(map(repr, tops[:6]))}; connect them."
        )
    return tops[0]


def ring_in(after: Mapping[str, str]) -> list[str]:
    """Return the names of a cycle in which each leads to the next, with the first one repeated at the end. Return an
    empty list if there is none."""
    done: set[str] = set()
    for name in after:
        trail: dict[str, None] = {}
        while name in after and name not in done:
            if name in trail:
                names = list(trail)
                return [*names[names.index(name) :], name]
            trail[name] = None
            name = after[name]
        done.update(trail)
    return []


def parent_first(root: str, joints: dict[str, Connection]) -> list[Connection]:
    """Return the joints in an order in which parents come before children, close to that of the file.

    Of the joints whose parent link is already in the tree, the one that comes first in the file is next. Fixed joints,
    which have no coordinate, come before all others.
    """
    below: dict[str, list[tuple[bool, int, Connection]]] = {}
    for k, joint in enumerate(joints.values()):
        below.setdefault(joint.parent, []).append((not isinstance(joint.joint, Fixed), k, joint))
    ready = list(below.get(root, ()))
    heapq.heapify(ready)
    out = []
    while ready:
        joint = heapq.heappop(ready)[2]
        out.append(joint)
        for item in below.get(joint.child, ()):
            heapq.heappush(ready, item)
    return out


def hang(
    spec: ModelSpec,
    notes: Notes,
    link: Element,
    via: Element,
    name: str,
    parent: str,
    joint: Joint,
    pose: Pose = HERE,
    mass: Mass = NOTHING,
) -> None:
    """Add a body to `spec`. Errors name the line of the <link> or of its joint (`via`).

    Real files contain rotational inertias that violate the triangle inequality, or that have a negative principal
    moment because of their products of inertia. Other engines accept them, and so does jaxdyn, with a warning. A
    negative mass, or a negative moment on the diagonal, is an error.
    """
    rotational = mass.rotational
    problem = problem_of(mass.mass, mass.center, mass.rotational)
    if problem is not None:
        diagonal = np.diag(mass.rotational)
        if np.abs(mass.rotational).max() < DUST and mass.mass >= 0:
            rotational = np.zeros((3, 3))
        elif problem[1] and (mass.mass < 0 or diagonal.min() < 0):
            fail(link, f"body {name!r} {problem[0]}.")
        else:
            notes.add(link, "inertias that no body has, used as they are: {}.", f"body {name!r} {problem[0]}")
    body = Body(name, parent, joint, pose.R, pose.p, mass.mass, mass.center, rotational)
    located(via, spec.add, body, judged=True)


def body_of(spec: ModelSpec, link: str) -> str:
    """Return the body of a link of a URDF: a link of the name 'world' that moves has another one, see `grow`."""
    return "world_link" if link == "world" and "world_link" in spec.bodies else link


def rigid(spec: ModelSpec) -> dict[str, str]:
    """Return, by body, the body that moves it. Bodies on fixed joints move with the body that moves their parent."""
    host = {"world": "world"}
    for name, body in spec.bodies.items():
        host[name] = host[body.parent] if isinstance(body.joint, Fixed) else name
    return host


def _joints_of_base(root: str, links: dict[str, Link], chain: list[Connection]) -> list[Connection]:
    """Return the floating joints of the base: those on the root link, or on links fixed to it, if these have no mass or
    nothing else moves against them. Else the root link is the base, and what floats beside its limbs is its load."""
    still, moving = {root}, []
    for joint in chain:
        if joint.parent in still and isinstance(joint.joint, Fixed):
            still.add(joint.child)
        elif joint.parent in still:
            moving.append(joint)
    floating = [joint for joint in moving if isinstance(joint.joint, Free)]
    heavy = next((name for name in links if name in still and links[name].mass.mass), None)
    if floating and heavy is not None and len(floating) == len(moving):
        text = f"`floating` is about this joint, because nothing else hangs on the link {heavy!r}, which stays fixed."
        warn(floating[0].element, text)
    elif floating and heavy is not None:
        text = f"`floating` is about the link {heavy!r}: this joint, on which a load of it floats, stays as it is."
        warn(floating[0].element, text)
        return []
    return floating


def grow(
    spec: ModelSpec,
    notes: Notes,
    robot: Element,
    links: dict[str, Link],
    joints: dict[str, Connection],
    floating: bool | None,
) -> list[Connection]:
    """Add the tree of a URDF to `spec`. Return the joints in the order of the model.

    If `floating` is True and the file has no floating joint of the base, the root link gets a `Free` joint named
    ``root_joint``. If it is False, floating joints of the base become fixed.
    """
    root = root_of(robot, links, joints)
    chain = parent_first(root, joints)
    own = [] if floating is None else _joints_of_base(root, links, chain)
    if floating is False:
        for joint in own:
            joint.joint = Fixed(joint.name)
    base = floating and not own
    called = {name: name for name in links}
    if "world" in links and (root != "world" or base):
        called["world"] = "world_link"
        warn(links["world"].element, "the name 'world' is kept for the world; the link is 'world_link'.")
    top = links[root]
    if base:
        if "root_joint" in joints:
            fail(joints["root_joint"].element, "the name 'root_joint' is kept for the floating base; rename the joint.")
        hang(spec, notes, top.element, top.element, called[root], "world", Free("root_joint"), mass=top.mass)
    elif root != "world":
        hang(spec, notes, top.element, top.element, called[root], "world", Fixed(), mass=top.mass)
    for joint in chain:
        link = links[joint.child]
        ends = called[joint.child], called[joint.parent]
        hang(spec, notes, link.element, joint.element, *ends, joint.joint, joint.pose, link.mass)
    return chain
