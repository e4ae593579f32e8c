"""The loader of SDF. It builds a spanning tree of links and joints, and constraints for the joints that the tree cuts.

| in the file | in the model |
| --- | --- |
| `<link>` | a body in the joint's frame; a frame ``<link>_origin`` for the link's own frame if that differs |
| `<joint>` kept in the tree | a joint of the same name, with `<limit>`, damping, friction and spring |
| `<joint>` cut | a constraint of the same name: ball `Point`, revolute `Hinge`, prismatic `Slider`, fixed `Weld` |
| `<collision>` | a shape of the same name, see `jaxdyn.loaders.sdf_shapes` |
| `<joint type="gearbox">`, `<mimic>` | a `Coupling` named as the joint, or ``<joint>_mimic`` |
| `<static>` | all links of the model are fixed to the world |
| no joint to the world, not static | a `Free` joint named ``root_joint``; its q is the link's pose in the world |

If a cut revolute joint ends a rod with a ball joint at its other end, and its axis would nearly lock the loop, it
becomes a `Point`, with a warning (`jaxdyn.loaders.mobility`).

In a loop, the tree prefers to keep joints in this order: fixed ones; those without a matching constraint (universal,
screw); those that mimic another, or that another mimics; those that the file declares as driven (an effort limit above
zero, or a plugin that names them); those with a spring; then those that come first in the file. A joint that the tree
enters from its child's side keeps its name and the sign of its coordinate (a ball joint's q is always the orientation
of the body in its parent in the tree; the angles of a universal joint are exchanged). At q = 0 links that joints
connect are placed as in the file, except for a base that floats, so that loops are closed there.

SDF says little about motors. Driven joints of the tree with one velocity get actuators. If no joint is driven, all
joints of the tree with one velocity get one, except those with a spring or an effort limit of zero and those that
follow others.
"""

from typing import NamedTuple, NoReturn

import numpy as np

from ..model.joints import Fixed, Free, Joint
from ..model.pairs import Hinge, Point, Slider, Weld
from ..model.spec import ModelSpec
from ..model.transmission import Coupling
from .free_names import free_name
from .meshes import warn_of_missing
from .mobility import hinge_nearly_locks
from .names import note_names
from .pose import Pose
from .sdf_parts import Part, Robot, flatten
from .sdf_shapes import add_shapes
from .shapes import Wanted
from .skeleton import hang, rigid
from .spanning import Routes, spanning_tree
from .xml import Document, Notes, fail, located, truth

CUTS = {"ball": Point, "revolute": Hinge, "continuous": Hinge, "prismatic": Slider, "fixed": Weld}


def load(
    document: Document, floating: bool | None = None, name: str | None = None, collision: Wanted = "primitives"
) -> ModelSpec:
    """Return the `ModelSpec` of an SDF."""
    with Notes() as notes:
        robot = flatten(document, notes)
        spec = located(document.root, ModelSpec, name or robot.name, gravity=robot.gravity)
        ties = _hold_static(robot, notes)
        driven = {p.name for p in robot.joints if p.effort > 0 or p.name in robot.plugged}
        coupled = {n for p in robot.joints if p.mimic is not None for n in (p.name, p.mimic[1])}

        def rank(part: Part) -> int:
            fixed, coupling = part.kind == "fixed", part.name in coupled
            order = (fixed, part.kind not in CUTS, coupling, part.name in driven, part.is_sprung)
            return order.index(True) if True in order else len(order)

        span = spanning_tree(robot.links, [*ties, *robot.joints], lambda p: (p.parent, p.child), rank)
        frames = {"world": Pose()}
        for k, root in enumerate(span.roots):
            _stand(spec, notes, robot, root, floating, k, frames)
        if floating and not span.roots:
            _refuse_to_float(document, robot)
        for part, reverse in span.tree:
            _grow(spec, notes, robot, part, reverse, frames)
        _name_frames(spec, notes, robot, frames)
        add_shapes(spec, notes, robot.links, frames, collision)
        routes = Routes((p.parent, p.child, p) if reverse else (p.child, p.parent, p) for p, reverse in span.tree)
        touching: dict[str, list[Part]] = {}
        for part in robot.joints:
            touching.setdefault(part.parent, []).append(part)
            touching.setdefault(part.child, []).append(part)
        graph = Graph(routes, touching, rigid(spec))
        for part in span.cut:
            _cut(spec, notes, part, frames, driven, graph)
        follow = _couple(spec, notes, robot, [p for p, _ in span.tree if p not in ties])
        _drive(spec, [p for p, _ in span.tree], driven, follow)
        for each in robot.documents.values():
            note_names(notes, each.root, "SDF")
            warn_of_missing(each)
    return spec


def _hold_static(robot: Robot, notes: Notes) -> list[Part]:
    """Return a fixed joint to the world for each link of a `<static>` model, and remove the joints between such links
    from the robot. Note those that would move."""
    static = {"world", *(name for name, link in robot.links.items() if link.static)}
    held = [p for p in robot.joints if p.parent in static and p.child in static and robot.links[p.child].static]
    for part in held:
        if part.kind != "fixed":
            text = "joints of <static> models, which do not move: {}."
            notes.add(part.element, text, repr(part.name))
    names = {p.name for p in held}
    robot.joints = [p for p in robot.joints if p.name not in names]
    robot.gears = [p for p in robot.gears if not {p.parent, p.child, p.reference} <= static]
    links = [(name, link) for name, link in robot.links.items() if link.static]
    return [Part(f"{name}_static", link.element, "fixed", "world", name, link.pose, []) for name, link in links]


def _refuse_to_float(document: Document, robot: Robot) -> NoReturn:
    """Raise `ValueError` that names what ties the model to the world."""
    advice = "remove it or leave `floating` out."
    tie = next((p for p in robot.joints if p.parent == "world"), None)
    if tie is not None:
        fail(tie.element, f"`floating=True`, but this ties the model to the world; {advice}")
    said = (e for each in robot.documents.values() for e in each.root.iter("static"))
    still = next((e for e in said if truth(e, e.text, "static")), document.root)
    fail(still, f"`floating=True`, but this holds the model still; {advice}")


def _stand(
    spec: ModelSpec, notes: Notes, robot: Robot, root: str, floating: bool | None, k: int, frames: dict[str, Pose]
) -> None:
    """Add the root link of a connected part that nothing ties to the world, free or fixed."""
    link, free = robot.links[root], floating is not False
    wanted = "root_joint" if k == 0 else f"{root}_root_joint"
    called = free_name(notes, link.element, "joints", wanted, {p.name for p in robot.joints}) if free else None
    joint = Free(called) if free else Fixed()
    frames[root] = link.pose
    # a free joint's q is the pose in the world, as in MuJoCo and Pinocchio
    pose = Pose() if free else link.pose
    hang(spec, notes, link.element, link.element, root, "world", joint, pose, link.mass)


def _grow(spec: ModelSpec, notes: Notes, robot: Robot, part: Part, reverse: bool, frames: dict[str, Pose]) -> None:
    """Add a link on a joint of the tree."""
    parent, child = (part.child, part.parent) if reverse else (part.parent, part.child)
    link = robot.links[child]
    joint: Joint = part.joint(reverse)
    frames[child] = link.pose if part.kind == "fixed" else part.pose
    pose = frames[parent].inverse() @ frames[child]
    mass = link.mass.seen_from(frames[child].inverse() @ link.pose)
    hang(spec, notes, link.element, part.element, child, parent, joint, pose, mass)


def _name_frames(spec: ModelSpec, notes: Notes, robot: Robot, frames: dict[str, Pose]) -> None:
    """Add frames for links whose own frame differs from the joint's, and for every `<frame>`."""
    taken = {**dict.fromkeys(robot.links), **dict.fromkeys(robot.frames)}
    for name, link in robot.links.items():
        own = frames[name].inverse() @ link.pose
        if not own.is_identity():
            called = free_name(notes, link.element, "frames", f"{name}_origin", taken)
            taken[called] = None
            located(link.element, spec.add_frame, called, name, own.transform())
    for name, (element, link, pose) in robot.frames.items():
        located(element, spec.add_frame, name, link, (frames[link].inverse() @ pose).transform())


class Graph(NamedTuple):
    """The graph of the mechanism, for cut joints: `routes`, the paths in the tree; `touching`, the joints of every
    link; `rigid`, the link that moves each link."""

    routes: Routes[Part]
    touching: dict[str, list[Part]]
    rigid: dict[str, str]

    def nearly_locks(self, part: Part) -> bool:
        """Return True if the axis of a hinge nearly locks the loop that it closes."""
        one, other = self.routes.between(part.parent, part.child)
        return hinge_nearly_locks(part, [*one, *other], self.touching)


def _cut(
    spec: ModelSpec,
    notes: Notes,
    part: Part,
    frames: dict[str, Pose],
    driven: set[str],
    graph: Graph,
) -> None:
    """Add the constraint that replaces a joint that the tree cuts."""
    if part.kind not in CUTS:
        fail(part.element, f"the joint closes a loop and a {part.kind} joint has no constraint; cut another one.")
    if part.mimic is not None:
        fail(part.mimic[0], f"all joints of the loop of {part.name!r} are fixed or coupled; it cannot follow another.")
    build = CUTS[part.kind]
    if build is Hinge and graph.nearly_locks(part):
        text = "revolute joints of rods whose axes lean and would lock their loops, closed by their points alone: {}."
        notes.add(part.element, text, repr(part.name))
        build = Point
    ends = part.parent, part.child
    a, b = ((frames[e].inverse() @ part.pose).transform() for e in ends)
    options = {"axis": part.axes[0].direction} if build in (Hinge, Slider) else {}
    constraint = located(part.element, build, *ends, placement_a=a, placement_b=b, name=part.name, **options)
    if part.kind == "fixed" and graph.rigid[ends[0]] == graph.rigid[ends[1]]:
        notes.add(part.element, "fixed joints between links that are fixed to each other already: {}.", repr(part.name))
        return
    spec.add_constraint(constraint)
    if part.is_sprung or part.axes and (part.axes[0].damping or part.axes[0].friction):
        text = "joints that close loops, whose springs, damping and friction make no force: {}."
        notes.add(part.element, text, repr(part.name))
    if part.axes and part.kind != "ball" and np.isfinite(part.axes[0].limits).any():
        notes.add(part.element, "joints that close loops, whose limits are not kept: {}.", repr(part.name))
    if part.name in driven:
        notes.add(part.element, "joints that close loops and cannot be driven: {}.", repr(part.name))


def _couple(spec: ModelSpec, notes: Notes, robot: Robot, tree: list[Part]) -> set[str]:
    """Add gearboxes and mimic joints as `Coupling`s. Return the joints that follow others."""
    follow: set[str] = set()
    by_name = {p.name: p for p in tree}
    between: dict[frozenset[str], Part] = {}
    for part in by_name.values():
        if part.is_single:
            between.setdefault(frozenset((part.parent, part.child)), part)
    for gear in robot.gears:
        terms = {}
        for end, axis, factor in ((gear.parent, gear.axes[0], gear.ratio), (gear.child, gear.axes[1], 1.0)):
            found = between.get(frozenset((gear.reference, end)))
            if found is None:
                fail(gear.element, f"no joint with one coordinate connects {gear.reference!r} and {end!r}.")
            turn = found.pose.R @ found.axes[0].direction
            along = float(turn @ (gear.pose.R @ axis.direction)) / float(np.linalg.norm(turn) * axis.length)
            if abs(abs(along) - 1) > 1e-2:
                fail(gear.element, f"its axis is not that of joint {found.name!r}.")
            sign = np.sign(along) * (1.0 if found.parent == gear.reference else -1.0)
            terms[found.name] = terms.get(found.name, 0.0) + sign * factor
        if len(terms) != 2:
            fail(gear.element, "it couples a joint with itself.")
        follow.add(list(terms)[1])
        coupling = located(gear.element, Coupling, tuple(terms), tuple(terms.values()), name=gear.name)
        spec.add_constraint(coupling)
    taken = {p.name for p in (*robot.joints, *robot.gears)}
    for part in by_name.values():
        if part.mimic is None:
            continue
        element, other, ratio, offset = part.mimic
        if other not in by_name or not by_name[other].is_single or not part.is_single:
            fail(element, f"joint {other!r} is no joint of the tree with a single coordinate.")
        terms = (part.name, other), (1.0, -ratio)
        called = free_name(notes, element, "constraints", f"{part.name}_mimic", taken)
        spec.add_constraint(located(element, Coupling, *terms, offset, name=called))
        follow.add(part.name)
    return follow


def _drive(spec: ModelSpec, kept: list[Part], driven: set[str], follow: set[str]) -> None:
    """Add the actuators."""
    if not driven:
        driven = {p.name for p in kept if not p.is_sprung and p.name not in follow and p.effort != 0}
    for part in kept:
        if part.name in driven and part.is_single:
            located(part.element, spec.add_actuator, part.name)
