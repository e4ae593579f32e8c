"""Gives one warning per file for missing meshes. No inertia comes from them in URDF and SDF."""

import warnings
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

from ..model.values import ModelWarning
from .xml import Document


def references(document: Document) -> Iterator[tuple[str, int]]:
    """Return the meshes that a URDF or SDF names, with their lines."""
    for mesh in document.root.iter("mesh"):
        name = mesh.get("filename") or mesh.findtext("uri")
        if name and name.strip():
            yield name.strip(), mesh.sourceline


def found(name: str, folder: Path) -> Path | None:
    """Return the file of a mesh, None if it is missing: a path, ``file://``, or ``package://`` and ``model://`` in a
    folder above."""
    scheme, rest = name.split("://", 1) if "://" in name else ("", name)
    try:
        if scheme in ("package", "model"):
            parts, place = rest.lstrip("/").split("/"), folder
            while True:
                near = [place.joinpath(*parts), *([place.joinpath(*parts[1:])] if place.name == parts[0] else [])]
                if path := next((p for p in near if p.is_file()), None):
                    return path
                if place == place.parent:
                    return None
                place = place.parent
        path = Path(unquote(urlparse(name).path)) if scheme == "file" else folder / rest
        return path if scheme in ("", "file") and path.is_file() else None
    except (OSError, ValueError):
        return None


def exists(name: str, folder: Path) -> bool:
    """Return whether a mesh exists; one of another scheme is taken to."""
    scheme = name.split("://", 1)[0] if "://" in name else ""
    return scheme not in ("", "package", "model", "file") or found(name, folder) is not None


def warn_of_missing(document: Document) -> None:
    """Give one `ModelWarning` with the number of missing meshes. Skip texts, which have no folder."""
    if document.folder is None:
        return
    folder = document.folder.resolve()
    missing: dict[str, int] = {}
    for name, line in references(document):
        if name not in missing and not exists(name, folder):
            missing[name] = line
    if missing:
        first, line = next(iter(missing.items()))
        text = f"{len(missing)} meshes are" if len(missing) > 1 else "a mesh is"
        warnings.warn(
            f"`load`: {document.origin}, line {line}: {text} missing, first {first!r}; only contacts need them.",
            ModelWarning,
            stacklevel=2,
        )
