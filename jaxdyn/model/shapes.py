"""The shapes that bodies collide with, in NumPy: ``jd.shapes.Sphere(0.1)``.

The engine knows a shape by its `kind`, its `size` (up to three numbers), and for some kinds an array `data`:

| class | kind | size | data |
| --- | --- | --- | --- |
| `Sphere` | "sphere" | radius | |
| `Capsule`, `Cylinder` | "capsule", "cylinder" | radius, half length along z | |
| `Box` | "box" | half of each edge | |
| `Ellipsoid` | "ellipsoid" | radii | |
| `Mesh` | "mesh" | | vertices (n, 3) of its convex hull |
| `Plane` | "plane" | | |
| `HeightField` | "heights" | half extents in x and y | heights (rows, columns) |
"""

import dataclasses
from typing import Any, ClassVar

import numpy as np

from ..spatial.numbers import constants, positive
from .hulls import hull_of

#: kinds that must be fixed in the world: they represent the ground
UNBOUNDED = ("plane", "heights")


class Shape:
    """Base class of shapes. Sizes are in metres; the origin of a shape's frame is its centre."""

    kind: ClassVar[str]

    @property
    def numbers(self) -> tuple[float, ...]:
        """Return the size of the shape, up to three numbers: see the docstring of the module."""
        return ()

    @property
    def data(self) -> np.ndarray | None:
        """Return the vertices of a mesh, the heights of a height field, None for other shapes."""
        return None

    @property
    def told(self) -> tuple[str, ...]:
        """Return the texts of warnings about the shape."""
        return ()

    def _set(self, name: str, shape: tuple[int, ...] | None, *rules) -> None:
        """Check a field and store it as a float or an array."""
        found = constants(f"`{type(self).__name__}`", name, getattr(self, name), shape, *rules)
        object.__setattr__(self, name, float(found) if found.shape == () else found)


@dataclasses.dataclass(frozen=True, eq=False)
class Sphere(Shape):
    """A sphere around the origin of its frame. **Arguments:** `radius`."""

    kind = "sphere"
    radius: Any

    def __post_init__(self):
        self._set("radius", (), positive)

    @property
    def numbers(self):
        return (self.radius,)


@dataclasses.dataclass(frozen=True, eq=False)
class _Round(Shape):
    radius: Any
    length: Any

    def __post_init__(self):
        self._set("radius", (), positive)
        self._set("length", (), positive)

    @property
    def numbers(self):
        return self.radius, self.length / 2


@dataclasses.dataclass(frozen=True, eq=False)
class Capsule(_Round):
    """A cylinder along z with hemispheres on its ends. **Arguments:** `radius`; `length`, of the cylinder alone."""

    kind = "capsule"


@dataclasses.dataclass(frozen=True, eq=False)
class Cylinder(_Round):
    """A cylinder along z. **Arguments:** `radius`, `length`."""

    kind = "cylinder"


@dataclasses.dataclass(frozen=True, eq=False)
class Box(Shape):
    """A box. **Arguments:** `size` (3,), the lengths of its edges along x, y and z."""

    kind = "box"
    size: Any

    def __post_init__(self):
        self._set("size", (3,), positive)

    @property
    def numbers(self):
        return tuple(float(x) for x in self.size / 2)


@dataclasses.dataclass(frozen=True, eq=False)
class Ellipsoid(Shape):
    """An ellipsoid. **Arguments:** `radii` (3,), along x, y and z."""

    kind = "ellipsoid"
    radii: Any

    def __post_init__(self):
        self._set("radii", (3,), positive)

    @property
    def numbers(self):
        return tuple(float(x) for x in self.radii)


@dataclasses.dataclass(frozen=True, eq=False)
class Mesh(Shape):
    """The convex hull of points. If `faces` are given, `ModelSpec.add_shape` warns of a mesh that is not convex.

    A hull keeps at most 64 vertices, chosen so that the others stand out little; `add_shape` warns by how much. Needs
    SciPy (``pip install 'jaxdyn[meshes]'``).

    **Arguments:** `vertices` (n, 3); `faces` (m, 3), vertex numbers of triangles, if known.
    """

    kind = "mesh"
    vertices: Any
    faces: Any = None

    def __post_init__(self):
        call = "`Mesh`"
        vertices = constants(call, "vertices", self.vertices, None)
        if vertices.ndim != 2 or vertices.shape[1] != 3 or not len(vertices):
            raise ValueError(f"{call}: `vertices` has shape {vertices.shape}, not (n, 3).")
        faces = None
        if self.faces is not None:
            constants(call, "faces", self.faces, None)
            faces = np.asarray(self.faces)
        if faces is not None and (faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu"):
            raise ValueError(f"{call}: `faces` has shape {faces.shape} of {faces.dtype}, not (m, 3) of whole numbers.")
        if faces is not None and faces.size and not (0 <= faces.min() and faces.max() < len(vertices)):
            raise ValueError(f"{call}: `faces` names vertices from {faces.min()} to {faces.max()} of {len(vertices)}.")
        hull = hull_of(call, vertices, faces)
        object.__setattr__(self, "vertices", hull.vertices)
        object.__setattr__(self, "faces", None)
        object.__setattr__(self, "_told", hull.told)
        object.__setattr__(self, "_quarters", hull.quarters)

    @property
    def data(self):
        return self._quarters

    @property
    def told(self):
        return self._told  # type: ignore


@dataclasses.dataclass(frozen=True, eq=False)
class Plane(Shape):
    """The half space below z = 0 of its frame: the ground. It is fixed in the world."""

    kind = "plane"


@dataclasses.dataclass(frozen=True, eq=False)
class HeightField(Shape):
    """Ground whose height is given on a grid, bilinear in between. It is fixed in the world, solid below and ends in
    upright sides. Its number of nodes has no effect on the time of a step, if all elements of a batch share it.

    **Arguments:** `heights` (rows, columns), rows along y and columns along x, starting at the smallest coordinate;
    `size` (2,), the lengths of the whole field along x and y. Its centre is the origin of its frame.
    """

    kind = "heights"
    heights: Any
    size: Any

    def __post_init__(self):
        self._set("heights", None)
        if np.ndim(self.heights) != 2 or min(np.shape(self.heights)) < 2:
            told = np.shape(self.heights)
            raise ValueError(f"`HeightField`: `heights` has shape {told}, not (rows, columns) of two or more each.")
        self._set("size", (2,), positive)

    @property
    def numbers(self):
        return tuple(float(x) for x in self.size / 2)

    @property
    def data(self):
        return self.heights
