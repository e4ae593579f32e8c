"""`triangles` reads mesh files with trimesh (the extra ``jaxdyn[meshes]``)."""

import io
from pathlib import Path
from typing import Any

import numpy as np

from .files import read_bytes
from .xml import cut

#: extensions of the files that are read
FORMATS = ("stl", "obj", "dae", "ply", "off", "glb", "gltf")


def triangles(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the vertices (n, 3), in metres, and the faces (m, 3) of a mesh file.

    **Raises** `ValueError` for files that cannot be read, with trimesh's message if it has one, and `ImportError`
    without trimesh.
    """
    try:
        import trimesh
    except ImportError:
        text = "mesh files are read by trimesh, which is not installed: `pip install 'jaxdyn[meshes]'`"
        raise ImportError(text) from None

    form = path.suffix.lower().removeprefix(".")
    if form not in FORMATS:
        raise ValueError(f"the format {form!r:.20} is none of {', '.join(FORMATS)}")
    data = io.BytesIO(read_bytes(path))
    options: dict[str, Any] = {"skip_materials": True} if form == "obj" else {}
    try:
        # from bytes, so that trimesh looks for no materials or textures
        scene = trimesh.load_scene(data, file_type=form, process=False, **options)
        mesh = scene.to_mesh()
        unit = trimesh.units.unit_conversion(scene.units, "meters") if form == "dae" and scene.units else 1.0
        vertices, faces = np.asarray(mesh.vertices, float) * unit, np.asarray(mesh.faces)
    except ImportError as error:
        raise ImportError(f"{error}; `pip install 'jaxdyn[meshes]'`") from None
    except Exception as error:  # a broken file may raise any exception in a reader
        told = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"it cannot be read: {cut(told, 200)}") from None
    if not len(vertices):
        raise ValueError("it holds no vertices")
    return vertices, faces
