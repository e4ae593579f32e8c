"""Search for mesh files, with one warning per model file for all that are missing. In URDF and SDF no inertia depends
on them."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

from ..model.values import ModelWarning
from .xml import Document


def references(document: Document) -> Iterator[tuple[str, int]]:
    """Yield the names of the meshes in a URDF or SDF, with their lines."""
    for mesh in document.root.iter("mesh"):
        name = mesh.get("filename") or mesh.findtext("uri")
        if name and name.strip():
            yield name.strip(), mesh.sourceline


def found(name: str, folder: Path, is_there: Callable[[Path], bool] = Path.is_file) -> Path | None:
    """Return what a file in `folder` names, such as a mesh, None if it is missing. The name is a path, a ``file://``
    URL, or a ``package://`` or ``model://`` URL, which is searched for in the folder and all folders above it."""
    scheme, rest = name.split("://", 1) if "://" in name else ("", name)
    try:
        if scheme in ("package", "model"):
            parts, place = rest.lstrip("/").split("/"), folder.resolve()
            while True:
                near = [place.joinpath(*parts), *([place.joinpath(*parts[1:])] if place.name == parts[0] else [])]
                if path := next((p for p in near if is_there(p)), None):
                    return path
                if place == place.parent:
                    return None
                place = place.parent
        path = Path(unquote(urlparse(name).path)) if scheme == "file" else folder / rest
        return path if scheme in ("", "file") and is_there(path) else None
    except (OSError, ValueError):
        return None


def exists(name: str, folder: Path) -> bool:
    """Return True if a mesh exists. Meshes with an unknown URL scheme are assumed to exist."""
    scheme = name.split("://", 1)[0] if "://" in name else ""
    return scheme not in ("", "package", "model", "file") or found(name, folder) is not None


def warn_of_missing(document: Document) -> None:
    """Give one `ModelWarning` with the number of missing meshes. Documents from a text have no folder and are
    skipped."""
    if document.folder is None:
        return
    missing: dict[str, int] = {}
    for name, line in references(document):
        if name not in missing and not exists(name, document.folder):
            missing[name] = line
    if missing:
        first, line = next(iter(missing.items()))
        text = f"{len(missing)} meshes are" if len(missing) > 1 else "a mesh is"
        warnings.warn(
            f"`load`: {document.origin}, line {line}: {text} missing, first {first!r}; only contacts need them.",
            ModelWarning,
            stacklevel=2,
        )
