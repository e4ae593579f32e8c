"""`included`: the model for which an `<include>` in an SDF file stands. Only files are read, nothing is downloaded."""

from pathlib import Path

from .meshes import found
from .xml import Document, Element, brief, cut, fail, needed, parse, read

CONFIG = "model.config"
#: Gazebo's own models that most worlds include, and that no folder of a robot holds
STANDARD = {
    "sun": "<sdf><light name='sun'/></sdf>",
    "ground_plane": """<sdf><model name="ground_plane"><static>true</static><link name="link"><inertial/>
        <collision name="collision"><geometry><plane><normal>0 0 1</normal></plane></geometry>
        <surface><friction><ode><mu>100</mu></ode></friction></surface></collision></link></model></sdf>""",
}


def version_of(root: Element) -> tuple[int, ...]:
    """Return the version of an `<sdf>`."""
    parts = root.get("version", "1.7").split(".")
    return tuple(
        int(x) if x.isdecimal() and len(x) < 10 else fail(root, f"`version` is {brief('.'.join(parts))}.")
        for x in parts
    )


def included(element: Element, document: Document, known: dict[Path, Document]) -> tuple[Document, Element] | None:
    """Return the file that an `<include>` names and the model in it, None if the file holds only lights and actors.
    Files are read once, into `known`.

    The name is a path, or a ``model://`` or ``package://`` URL that is searched for in the folder of the file and all
    folders above it; a folder stands for the file that its ``model.config`` names, or else for its ``model.sdf``.
    Gazebo's sun and ground plane are known without a file.

    **Raises** `ValueError` for files that are missing or no SDF, for files with several models, and for parameters of
    an `<include>`.
    """
    uri = (needed(element, "uri").text or "").strip()
    if element.find("params") is not None or element.find("experimental_params") is not None:
        fail(element, f"changes of the parameters of {brief(uri)} are not read; put the model into the file.")
    inner = _document(element, uri, document, known)
    holders = [inner.root, *inner.root.findall("world")]
    models = [m for holder in holders for m in holder.findall("model")]
    if len(models) > 1:
        fail(models[1], f"the <include> of {brief(uri)} takes one model, this is the second.")
    if not models and not any(len(holder.findall(tag)) for holder in holders for tag in ("light", "actor")):
        fail(element, f"there is no <model> in {brief(uri)}.")
    return (inner, models[0]) if models else None


def _document(element: Element, uri: str, document: Document, known: dict[Path, Document]) -> Document:
    """Return the file that an `<include>` of a document names. Raise `ValueError` if there is none."""
    path = None if document.folder is None else found(uri, document.folder, Path.exists)
    if path is not None:
        if path not in known:
            known[path] = _read(element, _file(path) if path.is_dir() else path)
        return known[path]
    standard = STANDARD.get(uri.rstrip("/").split("/")[-1].lower().replace(" ", "_"))
    if standard is not None:
        return parse(standard)
    if "://" in uri and uri.split("://")[0] not in ("model", "package", "file"):
        fail(element, f"nothing is downloaded; put the folder of {brief(uri)} beside the file, and name it model://.")
    if document.folder is None:
        fail(element, f"a text has no folder in which {brief(uri)} could be; give the path of the file.")
    return fail(element, f"there is no {brief(uri)} in the folder of the file or in one above it.")


def _read(element: Element, path: Path) -> Document:
    """Return an included file. Raise `ValueError` with the place of the `<include>` if it is missing or no SDF."""
    try:
        document = read(path)
    except FileNotFoundError as error:
        fail(element, cut(str(error).split("`load`: ")[-1]))
    if document.root.tag != "sdf":
        fail(element, f"{brief(path.name)} is no SDF but <{document.root.tag[:60]}>; only SDF can be included.")
    return document


def _file(folder: Path) -> Path:
    """Return the file of a model's folder: that of the newest version in its configuration, else ``model.sdf``."""
    if not (folder / CONFIG).is_file():
        return folder / "model.sdf"
    root = read(folder / CONFIG).root
    told = [e for e in root.findall("sdf") if (e.text or "").strip()]
    newest = max(told, key=version_of, default=None)
    return folder / ("model.sdf" if newest is None else newest.text.strip())
