"""Turns the links and joints that a file declares into bodies of a `ModelSpec`."""

import heapq
from dataclasses import dataclass

import numpy as np

from ..model.joints import Fixed, Free, Joint
from ..model.spec import ModelSpec
from ..spatial.inertia import Inertia, problem_of
from ..tree.topology import unknown
from .pose import Mass, Pose
from .xml import Element, Notes, fail, located, warn

#: moments (kg m²) this small with a wrong sign are the rounding of a file's writer
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
    """Return the root link. Raise `ValueError` for unknown links, two parents, rings, and several roots."""
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
    reached = set(tops).union(*({j.child for j in parent_first(top, joints)} for top in tops))
    stray = next((name for name in links if name not in reached), None)
    if stray is not None:
        trail = [stray]
        while above[trail[-1]].parent not in trail:
            trail.append(above[trail[-1]].parent)
        ring = trail[trail.index(above[trail[-1]].parent) :][::-1]
        fail(above[ring[0]].element, f"the links hang on each other in a ring: {' -> '.join([*ring, ring[0]])}.")
    if len(tops) > 1:
        fail(
            links[tops[1]].element, f"the robot has {len(tops)} roots: {', '.join(map(repr, tops[:6]))}; connect them."
        )
    return tops[0]


def parent_first(root: str, joints: dict[str, Connection]) -> list[Connection]:
    """Return the joints in an order in which parents come before children, close to that of the file.

    Of the joints whose parent link is placed, the one that comes first in the file is next. Fixed joints, which have no
    coordinate, go before all others.
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
    """Call `ModelSpec.add_body`. Its errors name the line of the <link> or of its joint (`via`).

    In real files there are rotational inertias that violate the triangle inequality, or that have a negative principal
    moment because of their products of inertia. Other engines accept them, and so does jaxdyn, with a warning. A
    negative mass, or a negative moment on the diagonal, is an error.
    """
    inertia, given = mass.inertia(), None
    problem = problem_of(mass.mass, mass.center, mass.rotational)
    if problem is not None:
        diagonal = np.diag(mass.rotational)
        if np.abs(mass.rotational).max() < DUST and mass.mass >= 0:
            given = np.zeros((3, 3))
        elif problem[1] and (mass.mass < 0 or diagonal.min() < 0):
            fail(link, f"body {name!r} {problem[0]}.")
        else:
            given = mass.rotational
            notes.add(link, "inertias that no body has, used as they are: {}.", f"body {name!r} {problem[0]}")
        inertia = Inertia(mass.mass, mass.center)
    located(via, spec.add_body, name, parent, joint, placement=pose.transform(), inertia=inertia)
    if given is not None:
        spec.bodies[name].rotational = given


def grow(
    spec: ModelSpec,
    notes: Notes,
    robot: Element,
    links: dict[str, Link],
    joints: dict[str, Connection],
    floating: bool | None,
) -> list[Connection]:
    """Add the tree of a URDF to `spec`. Return the joints in the order of the model.

    If `floating` is True and the file has no floating joint at the root, the root link gets a `Free` joint named
    ``root_joint``. If it is False, the root link is fixed to the world, even if the file has a floating joint there.
    """
    root = root_of(robot, links, joints)
    chain = parent_first(root, joints)
    still, own = {root}, []
    for joint in chain:
        if joint.parent in still and isinstance(joint.joint, Fixed):
            still.add(joint.child)
        elif joint.parent in still and isinstance(joint.joint, Free):
            own.append(joint)
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
