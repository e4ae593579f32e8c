"""`outermost_of`: the frames of the models of an SDF file, and of those that it includes from other files."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .pose import Pose
from .sdf_frames import Scope, base_of, pose_of
from .sdf_includes import included, version_of
from .xml import Document, Element, attribute, brief, fail, needed, only, truth

#: models of other files, or with a `placement_frame`, that may be read: if each holds two more, they grow without bound
MOST = 10_000


class Model(NamedTuple):
    """A `<model>` of a document, and the `<include>` by which another file includes it."""

    name: str
    element: Element
    document: Document
    include: Element | None = None


def outermost_of(document: Document, world: Element | None) -> Scope:
    """Return the scope of a world, or that of an `<sdf>` with one `<model>`. Names of parts have that of their model in
    front if there are several."""
    holder = document.root if world is None else world
    scope = Scope(holder, document, version_of(document.root))
    models = Reader(document).read(scope)
    if not models:
        fail(holder, "there is no <model> in it.")
    if world is None and len(models) > 1:
        fail(models[1].element, "an <sdf> without <world> takes one <model>.")
    return scope


class Reader:
    """Fills scopes. `above` are the files that include each other at the moment, `files` all that were included so far,
    `count` is the number of models that `MOST` bounds."""

    def __init__(self, document: Document) -> None:
        self.above: list[Path | None] = [document.path and document.path.resolve()]
        self.files: dict[Path, Document] = {}
        self.count = 0

    def read(self, scope: Scope) -> list[Model]:
        """Add the links, frames, joints and models of an element to its scope. Return the models. Before version 1.7 a
        joint may have the name of a link."""
        element = scope.element
        for link in () if scope.is_world else element.findall("link"):
            scope.add(link, "__model__")
        for frame in element.findall("frame"):
            attached = frame.get("attached_to") or "__model__"
            scope.add(frame, attached, attached)
        for joint in element.findall("joint"):
            child, name = (needed(joint, "child").text or "").strip(), attribute(joint, "name")
            shared = scope.version < (1, 7) and name in scope.frames and scope.frames[name].element.tag == "link"
            scope.add(joint, child, child, f"{name}_joint_frame" if shared else name)
        models = list(self._models(scope))
        alone = scope.is_world and len(models) == 1
        for model in models:
            include = model.include
            if include is not None and truth(include, include.get("merge"), "merge"):
                scope.merged.append(self._placed(scope, model, scope.prefix))
                continue
            if scope.holds(model.name):
                fail(model.element if include is None else include, f"the name {model.name!r} is taken.")
            scope.inner[model.name] = self._placed(scope, model, "" if alone else f"{scope.prefix}{model.name}::")
        return models

    def _models(self, scope: Scope) -> Iterator[Model]:
        """Yield the models in an element, also those of other files."""
        for child in scope.element.iterchildren("model", "include"):
            if child.tag == "model":
                yield Model(attribute(child, "name"), child, scope.document)
                continue
            found = included(child, scope.document, self.files)
            if found is not None:
                told = only(child, "name")
                name = attribute(found[1], "name") if told is None else (told.text or "").strip()
                if not name or "::" in name:
                    fail(child, f"the name {brief(name)} is none that a model can have.")
                yield Model(name, found[1], found[0], child)

    def _placed(self, scope: Scope, model: Model, prefix: str) -> Scope:
        """Return the scope of a model at its place in another."""
        pose, frame = only(model.element, "pose"), model.element.get("placement_frame")
        if model.include is not None:
            placement, place = only(model.include, "placement_frame"), only(model.include, "pose")
            pose = pose if place is None else place
            frame = frame if placement is None else (placement.text or "").strip()
        offset = pose_of(pose)
        if frame:  # the pose is that of this frame of the model
            offset = offset @ self._inner(model, prefix).place(model.element, frame).inverse()
        return self._inner(model, prefix, scope, offset, base_of(pose) or "__model__")

    def _inner(
        self, model: Model, prefix: str, outer: Scope | None = None, offset: Pose | None = None, base: str = "__model__"
    ) -> Scope:
        """Return the scope of a model, by default at the origin of the world."""
        element, document, include = model.element, model.document, model.include
        version = version_of(document.root)
        scope = Scope(element, document, version, prefix, outer, offset or Pose(), base, include)
        self.count += include is not None or outer is None
        if self.count > MOST:
            fail(element, f"there are more than {MOST} models of other files or with a `placement_frame`.")
        path = None if include is None or document.path is None else document.path.resolve()
        if path is not None and path in self.above:
            fail(include, "the file includes itself.")
        self.above.append(path)
        self.read(scope)
        self.above.pop()
        return scope
