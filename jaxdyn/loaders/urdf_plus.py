"""Reader of the elements that URDF+ adds to URDF for closed loops (Chignoli, Slotine, Wensing and Kim, 2024).

| in the file | in the model |
| --- | --- |
| `<loop type="revolute">` or `continuous` | a `Hinge` of the loop's name |
| `<loop type="prismatic">`, `fixed` | a `Slider`, a `Weld` |
| `<loop type="planar">` | three `PointOnPlane`, named ``<loop>_0`` to ``<loop>_2`` |
| `<loop type="spherical">`, `cylindrical` | a `Point`, a `Cylinder` (not in the paper) |
| `<coupling>` with a `<ratio>` | a `Coupling` of the same name |
| `independent="false"` on a joint | no actuator, and `embed` solves for it first; a warning if nothing ties it |

A coupling means that the ratio times the sum of the joint coordinates on the path from the links' nearest common
ancestor to the predecessor equals the sum on the path to the successor: a rotor that is the successor turns `ratio`
times as fast.
"""

import numpy as np

from ..model.joints import Fixed
from ..model.pairs import Cylinder, Hinge, Point, PointOnPlane, Slider, Weld
from ..model.spec import ModelSpec
from ..model.transmission import Coupling
from ..tree.topology import unknown
from .origin import direction_of, origin
from .pose import Pose
from .skeleton import Connection, Link
from .spanning import Routes
from .xml import Element, attribute, fail, located, needed, number, only, truth, warn

CLOSURES = {
    "revolute": Hinge,
    "continuous": Hinge,
    "prismatic": Slider,
    "fixed": Weld,
    "planar": PointOnPlane,
    "spherical": Point,
    "cylindrical": Cylinder,
}


def is_plus(robot: Element) -> bool:
    """Return True if the file uses elements or attributes of URDF+ that URDF does not have."""
    return any(e.tag in ("loop", "coupling") or (e.tag == "joint" and e.get("independent") is not None) for e in robot)


def ends_of(element: Element, links: dict[str, Link]) -> tuple[str, str]:
    """Return the predecessor and the successor of a `<loop>` or `<coupling>`."""
    found = []
    for tag in ("predecessor", "successor"):
        link = attribute(needed(element, tag), "link")
        if link not in links:
            fail(element, f"its {tag}: " + unknown("link", link, links))
        found.append(link)
    if found[0] == found[1]:
        fail(element, f"it ties link {found[0]!r} to itself.")
    return found[0], found[1]


def add_loop(spec: ModelSpec, element: Element, pair: tuple[str, str]) -> None:
    """Add the constraint of a `<loop>`. Frame a is the predecessor's, except for "planar", where it is the
    successor's."""
    name, kind = attribute(element, "name"), attribute(element, "type")
    if kind not in CLOSURES:
        fail(element, f"the type {kind!r} is none of {', '.join(CLOSURES)}.")
    a, b = (origin(only(needed(element, tag), "origin")) for tag in ("predecessor", "successor"))
    axis = only(element, "axis")
    direction = np.array([1.0, 0, 0]) if axis is None else direction_of(axis)
    build = CLOSURES[kind]
    if kind == "planar":
        # three points of the successor stay in the predecessor's plane: a planar joint
        first = np.cross(direction, np.eye(3)[np.abs(direction).argmin()])
        first /= np.linalg.norm(first)
        second = np.cross(direction, first) / np.linalg.norm(direction)
        for k, step in enumerate((np.zeros(3), first, second)):
            point = b @ Pose(np.eye(3), step)
            options = {"placement_a": point.transform(), "placement_b": a.transform(), "normal": direction}
            spec.add_constraint(located(element, build, *pair[::-1], name=f"{name}_{k}", **options))
        return
    options = {"axis": direction} if build in (Hinge, Slider, Cylinder) else {}
    places = {"placement_a": a.transform(), "placement_b": b.transform()}
    spec.add_constraint(located(element, build, *pair, name=name, **places, **options))


def add_coupling(spec: ModelSpec, element: Element, before: list[Connection], after: list[Connection]) -> None:
    """Add the `Coupling` of a `<coupling>` between the joints of its two paths."""
    ratio = number(needed(element, "ratio"), "value")
    terms = {j.name: ratio for j in before} | {j.name: -1.0 for j in after}
    for joint in (*before, *after):
        if joint.joint.kind.nv != 1:
            fail(element, f"joint {joint.name!r} on its path has no single coordinate.")
    if not terms:
        fail(element, "no moving joint lies between its links.")
    spec.add_constraint(
        located(element, Coupling, tuple(terms), tuple(terms.values()), name=attribute(element, "name"))
    )


def add_closures(spec: ModelSpec, robot: Element, links: dict[str, Link], joints: dict[str, Connection]) -> set[str]:
    """Add the constraints of all `<loop>` and `<coupling>`. Return the names of the dependent joints."""
    if not is_plus(robot):
        return set()
    ways = Routes((j.child, j.parent, j) for j in joints.values())
    tied = {j for c in spec.constraints if isinstance(c, Coupling) for j in c.joints}  # those of `<mimic>`
    for element in (*robot.findall("loop"), *robot.findall("coupling")):
        pair = ends_of(element, links)
        before, after = ([j for j in way if not isinstance(j.joint, Fixed)] for way in ways.between(*pair))
        if element.tag == "loop":
            add_loop(spec, element, pair)
        else:
            add_coupling(spec, element, before, after)
        tied |= {j.name for j in (*before, *after)}
    dependent = [
        j for j in joints.values() if not truth(j.element, j.element.get("independent"), "independent", default=True)
    ]
    loose = [j for j in dependent if j.name not in tied]
    if loose:
        names = ", ".join(repr(j.name) for j in loose)
        warn(
            loose[0].element,
            f'independent="false", but no <loop>, <coupling> or <mimic> ties: {names}; they move freely.',
        )
    return {j.name for j in dependent if j.name in tied}
