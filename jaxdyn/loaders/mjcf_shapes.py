"""Conversion of MJCF's geoms that collide, pairs and excludes, as MuJoCo compiles them, to shapes.

A geom's frame is MuJoCo's, in which a mesh is centred. Geoms without `contype` and `conaffinity` that are in no
`<pair>` collide with nothing and are left out.
"""

from typing import Any

import numpy as np

from ..model.collision import SLIDES, TWISTS
from ..model.shapes import Box, Capsule, Cylinder, Ellipsoid, HeightField, Mesh, Plane, Shape, Sphere
from ..model.spec import ModelSpec
from .mjcf_tree import Tree, field, is_off, is_on
from .pose import Pose, from_quaternion
from .shapes import Shapes, Wanted
from .xml import Document, Notes

PLANE, HFIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = range(8)
#: contact dimension from which on there is rolling friction
ROLLS = 6


def add_shapes(spec: ModelSpec, notes: Notes, document: Document, m: Any, tree: Tree, wanted: Wanted) -> None:
    """Add the geoms that collide, the pairs, and the excludes."""
    if wanted == "none" or not m.ngeom:
        return
    root = document.root
    if is_off(m, "CONTACT", "CONSTRAINT"):
        notes.add(root, "contacts that a <flag> disables, so that there are no shapes: {}.", "all")
        return
    if is_on(m, "OVERRIDE"):
        notes.add(root, "contact parameters for all contacts, which a <flag> enables, are not kept: {}.", "override")
    if is_off(m, "FILTERPARENT"):
        notes.add(root, "a <flag> that lets neighbours collide, which they do not: {}.", "filterparent")
    paired = {int(g) for ends in (m.pair_geom1, m.pair_geom2) for g in ends}
    colliding = [g for g in range(m.ngeom) if m.geom_contype[g] or m.geom_conaffinity[g] or g in paired]
    shapes = Shapes(spec, notes, wanted, (m.geom(g).name for g in colliding))
    names: dict[int, str] = {}
    for g in colliding:
        body = int(m.geom_bodyid[g])
        place = tree.offsets[body] @ Pose(from_quaternion(m.geom_quat[g]), np.array(m.geom_pos[g]))
        name = shapes.add(
            root,
            m.geom(g).name,
            tree.bodies[body],
            lambda place=place: place,
            lambda g=g: _shape(m, g),
            lambda g=g: _surface(m, g),
            mesh=int(m.geom_type[g]) == MESH,
        )
        if name is not None:
            names[g] = name
            _note(notes, root, m, g, name)
    _add_pairs(spec, notes, root, m, names, shapes.moves)
    for signature in m.exclude_signature:
        spec.exclude(*(tree.bodies[b] for b in (int(signature) >> 16, int(signature) & 0xFFFF)))


def _shape(m: Any, g: int) -> Shape:
    """Return the shape of a geom."""
    kind, size, data = int(m.geom_type[g]), np.array(m.geom_size[g]), int(m.geom_dataid[g])
    if kind == PLANE:
        return Plane()
    if kind == SPHERE:
        return Sphere(size[0])
    if kind in (CAPSULE, CYLINDER):
        return (Capsule if kind == CAPSULE else Cylinder)(size[0], 2 * size[1])
    if kind == ELLIPSOID:
        return Ellipsoid(size)
    if kind == BOX:
        return Box(2 * size)
    if kind == MESH:
        first, first_face = int(m.mesh_vertadr[data]), int(m.mesh_faceadr[data])
        vertices = m.mesh_vert[first : first + m.mesh_vertnum[data]]
        return Mesh(vertices, m.mesh_face[first_face : first_face + m.mesh_facenum[data]])
    if kind == HFIELD:
        rows, columns, first = (int(x[data]) for x in (m.hfield_nrow, m.hfield_ncol, m.hfield_adr))
        x, y, height, _ = m.hfield_size[data]
        heights = np.array(m.hfield_data[first : first + rows * columns], float).reshape(rows, columns)
        return HeightField(height * heights, (2 * x, 2 * y))
    raise ValueError("it is no shape that is read: plane, hfield, sphere, capsule, ellipsoid, cylinder, box, mesh")


def _surface(m: Any, g: int) -> dict[str, Any]:
    """Return the friction of a geom, its contact dimension, its masks and its priority."""
    slide, twist, _ = (float(x) for x in m.geom_friction[g])
    return {
        "friction": slide,
        "torsion": twist,
        "dimension": int(m.geom_condim[g]),
        "collides": int(m.geom_contype[g]) & 0xFFFFFFFF,
        "collides_with": int(m.geom_conaffinity[g]) & 0xFFFFFFFF,
        "priority": int(m.geom_priority[g]),
    }


def _note(notes: Notes, root: Any, m: Any, g: int, name: str) -> None:
    """Note the properties of a geom that shapes do not have."""
    if m.geom_margin[g] or m.geom_gap[g]:
        notes.add(root, "margins and gaps of geoms, which are not kept: {}.", repr(name))
    if int(m.geom_condim[g]) >= ROLLS and m.geom_friction[g][2]:
        notes.add(root, "rolling friction of geoms, which is not modelled: {}.", repr(name))
    for what in ("surfacevel", "adhesion"):
        if np.any(field(m, f"geom_{what}", m.ngeom)[g]):
            notes.add(root, f"`{what}` of geoms, which is not modelled: {{}}.", repr(name))


def _add_pairs(spec: ModelSpec, notes: Notes, root: Any, m: Any, names: dict[int, str], moves: dict[str, str]) -> None:
    """Add every `<pair>` of shapes with its friction, according to its contact dimensions."""
    for k in range(m.npair):
        ends = [int(m.pair_geom1[k]), int(m.pair_geom2[k])]
        if not all(g in names for g in ends):
            continue
        one, other = (names[g] for g in ends)
        if len({moves[spec.shapes[n].body] for n in (one, other)}) == 1:
            notes.add(root, "pairs of shapes that do not move against each other: {}.", f"{one} and {other}")
            continue
        friction = m.pair_friction[k]
        if friction[0] != friction[1]:
            notes.add(
                root, "pairs whose friction has a direction, of which the first is kept: {}.", f"{one} and {other}"
            )
        if m.pair_margin[k] or m.pair_gap[k]:
            notes.add(root, "margins and gaps of pairs, which are not kept: {}.", f"{one} and {other}")
        if np.any(field(m, "pair_adhesion", m.npair)[k]):
            notes.add(root, "`adhesion` of pairs, which is not modelled: {}.", f"{one} and {other}")
        dimensions = int(m.pair_dim[k])
        if dimensions >= ROLLS and friction[3:].any():
            notes.add(root, "rolling friction of pairs, which is not modelled: {}.", f"{one} and {other}")
        spec.add_pair(
            one,
            other,
            friction=float(friction[0]) if dimensions >= SLIDES else 0.0,
            torsion=float(friction[2]) if dimensions >= TWISTS else 0.0,
        )
