"""`Shapes` collects the shapes of a file for a `ModelSpec`.

A shape that cannot be read is left out and noted, so that broken shapes or missing meshes do not prevent the use of a
robot's dynamics."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal, NoReturn

import numpy as np

from ..model.described import Collider
from ..model.shapes import UNBOUNDED, Mesh, Shape
from ..model.spec import ModelSpec
from .mesh_files import triangles
from .meshes import found
from .pose import Pose
from .skeleton import rigid
from .xml import Element, Notes, brief, cut, fail, needed

#: choices of the shapes to read
Wanted = Literal["all", "primitives", "none"]
LOST = "shapes that cannot be read, and that collide with nothing: {}."
ODD = "meshes of which a convex hull is taken: {}."


def geometry_of(collision: Element, unread: tuple[str, ...] = ()) -> Element:
    """Return the element of the one shape in a `<collision>`. Elements with a tag in `unread` are ignored."""
    inner = [e for e in needed(collision, "geometry") if isinstance(e.tag, str) and e.tag not in unread]
    if len(inner) != 1:
        fail(collision, f"its <geometry> holds {len(inner)} shapes, not one.")
    return inner[0]


def is_mesh(collision: Element) -> bool:
    """Return True if the shape of a `<collision>` is a mesh."""
    geometry = collision.find("geometry")
    return geometry is not None and geometry.find("mesh") is not None


def unknown_shape(element: Element) -> NoReturn:
    """Raise `ValueError` for an element that is none of the shapes that are read."""
    fail(element, "it is no shape that is read: box, sphere, cylinder, capsule, ellipsoid, plane, mesh.")


class Shapes:
    """Adds shapes to a `ModelSpec`. If `wanted` is not "all", meshes are left out. `names` are the names of all shapes
    in the file."""

    def __init__(self, spec: ModelSpec, notes: Notes, wanted: Wanted, names: Iterable[str] = ()):
        self.spec, self.notes, self.wanted = spec, notes, wanted
        self.moves = rigid(spec)
        self._names = Counter(names)
        self._meshes: dict[tuple, Mesh] = {}

    def add(
        self,
        element: Element,
        name: str | None,
        body: str,
        pose: Callable[[], Pose],
        shape: Callable[[], Shape],
        surface: Callable[[], dict[str, Any] | None] = dict,
        mesh: bool = False,
    ) -> str | None:
        """Add a shape and return its name, None if it is left out. `pose`, `shape` and `surface` may raise
        `ValueError`, which leaves the shape out; so does a `surface` of None, of what nothing collides with."""
        called = self._called(name, body)
        if mesh and self.wanted != "all":
            self.spec.left_out.append(called)
            self.spec.unread.append(called)
            return None
        try:
            at, made, touch = pose(), shape(), surface()
            if touch is None:
                return None
            if made.kind in UNBOUNDED and self.moves[body] != "world":
                raise ValueError(f"a {made.kind} stands on the world, and {body!r} moves")
            collider = Collider(called, body, made, at.R, at.p, **touch)
            self.spec.collide(collider, judged=True)
        except (ValueError, ImportError) as error:
            self.lose(element, called, str(error))
            return None
        for text in made.told:
            self.notes.add(element, ODD, f"{called!r} ({text})")
        return called

    def lose(self, element: Element, name: str, why: str) -> None:
        """Note a shape that is left out."""
        why = cut(why.split("`load`: ")[-1], 200).rstrip(".")
        self.notes.add(element, LOST, f"{name!r} ({why})" if "line " in why else self._at(element, name, why))
        self.spec.left_out.append(name)

    def _at(self, element: Element, name: str, why: str) -> str:
        line = "" if element.getparent() is None else f"line {element.sourceline}: "
        return f"{name!r} ({line}{why})"

    def _called(self, name: str | None, body: str) -> str:
        """Return a free name for a shape: its own name, with the body's in front if others have it too, or else the
        body's."""
        name = (name or "").strip()
        if name and self._names[name] > 1 or name in self.spec.shapes:
            name = f"{body}_{name}"
        return self.spec.free_name(name) if name else self.spec.free_name(body, self._names)

    def mesh(self, name: str, scale: np.ndarray, folder: Path | None) -> Mesh:
        """Return the hull of a mesh file, in metres, named by a file in a folder. Raise `ValueError` if the mesh is
        missing or cannot be read."""
        path = self._file(name, folder)
        key = path, tuple(scale)
        if key not in self._meshes:
            try:
                vertices, faces = triangles(path)
            except ValueError as error:
                raise ValueError(f"{brief(name)}: {str(error).split('`load`: ')[-1]}") from None
            self._meshes[key] = Mesh(vertices * scale, faces)
        return self._meshes[key]

    def _file(self, name: str, folder: Path | None) -> Path:
        if folder is None:
            raise ValueError(f"{brief(name)} is a file beside a text, which has no folder")
        path = found(name, folder)
        if path is None:
            raise ValueError(f"the file {brief(name)} is missing")
        return path
