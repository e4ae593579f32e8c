"""Reads XML safely, and makes errors that name the file, the line and the element."""

import math
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from lxml import etree

from ..model.spec import ModelWarning

#: what an lxml element is for the rest of this folder
Element = Any

_DECLARATION = re.compile(r"^\s*<\?xml[^>]*\?>")
_REQUIRED: Any = object()


class Document(NamedTuple):
    """An XML file or text: its root element, its name in messages, its folder (None for a text), and the
    text itself."""

    root: Element
    origin: str
    folder: Path | None
    data: bytes


def brief(text: Any, length: int = 60) -> str:
    """Return a value as an error message shows it, cut if it is long."""
    shown = repr(text)
    return shown if len(shown) <= length else shown[: length - 3] + "..."


def arrows(names: Sequence[str], most: int = 8) -> str:
    """Return names as a message shows a ring or chain of them, cut if it is long."""
    shown = [name[:60] for name in names]
    if len(names) > most:
        shown[most // 2 : -(most // 2)] = [f"... ({len(names) - most} more)"]
    return " -> ".join(shown)


def where(element: Element) -> str:
    """Return the place of an element: file, line, tag and name."""
    url = element.getroottree().docinfo.URL
    named = [key for key in ("name", "link", "joint") if element.get(key)]
    tag = f"<{element.tag} {named[0]}={brief(element.get(named[0]))}>" if named else f"<{element.tag}>"
    if named[:1] != ["name"]:
        holder = next((e for e in element.iterancestors() if e.get("name")), None)
        tag += "" if holder is None else f" of <{holder.tag} name={brief(holder.get('name'))}>"
    return f"{Path(url).name if url else 'text'}, line {element.sourceline}, {tag}"


def fail(element: Element, message: str) -> NoReturn:
    """Raise a `ValueError` that says what is wrong with an element, and where it is."""
    raise ValueError(f"`load`: {where(element)}: {message}")


def warn(element: Element, message: str) -> None:
    """Give a `ModelWarning` about an element that is odd but accepted."""
    warnings.warn(f"`load`: {where(element)}: {message}", ModelWarning, stacklevel=2)


class Notes:
    """Collects what is odd in a file, and gives one `ModelWarning` per kind at the end of a ``with`` without errors.

    ``add(element, "the joints {} ...", item)`` collects items under one text. The warning names them, and the place
    of the first one.
    """

    def __init__(self, most: int = 12):
        self.most = most
        self.kinds: dict[str, tuple[Element, list[str]]] = {}

    def add(self, element: Element, text: str, item: str) -> None:
        self.kinds.setdefault(text, (element, []))[1].append(item)

    def __enter__(self) -> "Notes":
        return self

    def __exit__(self, kind, *_) -> None:
        for text, (element, items) in self.kinds.items() if kind is None else ():
            more = f" and {len(items) - self.most} more" if len(items) > self.most else ""
            warn(element, text.format(", ".join(items[: self.most]) + more))


def located(element: Element, call: Callable, *args, **options):
    """Return ``call(*args, **options)``. Its errors name the element's place."""
    try:
        return call(*args, **options)
    except (ValueError, TypeError) as error:
        raise ValueError(f"`load`: {where(element)}: {error}") from error


def parse(data: bytes | str, origin: str, folder: Path | None = None) -> Document:
    """Return the tree of an XML file or text.

    Entities, external files and huge trees are switched off, and a document that declares entities is an error, so
    none is ever expanded. Tags lose their namespaces. Elements of xacro are an error: run xacro first.

    **Raises** `ValueError` with file and line.
    """
    if isinstance(data, str):
        data = _DECLARATION.sub(lambda m: "\n" * m.group().count("\n"), data).encode()
    parser = etree.XMLParser(
        resolve_entities=False,
        load_dtd=False,
        dtd_validation=False,
        no_network=True,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        root = etree.fromstring(data, parser, base_url=str(folder / origin) if folder else origin)
    except etree.XMLSyntaxError as error:
        told = re.sub(r",? line \d+, column \d+$", "", error.msg or "it is empty")
        if "amplification" in told:
            told = "it declares entities that grow without bound"
        raise ValueError(f"`load`: {origin}, line {error.lineno}: the XML cannot be read: {told}.") from None
    doctype = root.getroottree().docinfo.internalDTD
    if doctype is not None:
        entities = [e.name for e in doctype.iterentities()]
        if entities or doctype.external_id or doctype.system_url:
            named = f"the entity {entities[0]!r}" if entities else "an external document type"
            raise ValueError(
                f"`load`: {origin}: the file declares {named}; remove the DOCTYPE, entities are not expanded."
            )
    for element in root.iter(etree.Element):
        if element.tag.startswith("{"):
            space, tag = element.tag[1:].split("}", 1)
            if "xacro" in space:
                element.tag = tag
                fail(element, f"<xacro:{tag}> is a macro; run `xacro` on the file first and load the result.")
            element.tag = tag
    return Document(root, origin, folder, data)


def read(path: Path) -> Document:
    """Return the tree of a file. Raise `FileNotFoundError`, or `ValueError` if it cannot be read."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"`load`: there is no file {str(path)!r}.") from None
    except OSError as error:
        raise ValueError(f"`load`: {str(path)!r} cannot be read: {error.strerror}.") from None
    return parse(data, path.name, path.parent)


def only(element: Element, tag: str) -> Element | None:
    """Return the only child with a tag, or None. Raise `ValueError` if there are several."""
    found = element.findall(tag)
    if len(found) > 1:
        fail(found[1], f"<{element.tag}> takes one <{tag}>, this is the second.")
    return found[0] if found else None


def needed(element: Element, tag: str) -> Element:
    """Return the only child with a tag. Raise `ValueError` if there is none."""
    found = only(element, tag)
    return fail(element, f"there is no <{tag}> in it.") if found is None else found


def attribute(element: Element, name: str, what: str = "") -> str:
    """Return an attribute. Raise `ValueError` if it is absent or empty."""
    value = element.get(name)
    if value is None or not value.strip():
        fail(element, f"the attribute `{name}`{what} is missing or empty.")
    return value.strip()


def numbers(element: Element, text: str | None, count: int | None, what: str) -> np.ndarray:
    """Return `count` finite numbers from text. Raise `ValueError` for any other count, words, NaN or infinity."""
    parts = (text or "").split()
    if count is not None and len(parts) != count:
        fail(element, f"`{what}` takes {count} number{'s' * (count > 1)}, not {brief(text)}.")
    out = []
    for part in parts:
        try:
            value = float(part) if "_" not in part else math.nan
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            fail(element, f"`{what}` holds {brief(part)}, which is not a finite number.")
        out.append(value)
    return np.array(out)


def vector(element: Element, name: str, default, count: int = 3) -> np.ndarray:
    """Return an attribute of `count` numbers."""
    text = element.get(name)
    return np.array(default, float) if text is None else numbers(element, text, count, name)


def number(element: Element, name: str, default: Any = _REQUIRED) -> float:
    """Return an attribute that is one number, `default` if it is absent."""
    text = element.get(name)
    if text is None:
        return float(default) if default is not _REQUIRED else fail(element, f"the attribute `{name}` is missing.")
    return float(numbers(element, text, 1, name)[0])


def text_number(element: Element, tag: str, default: Any = _REQUIRED) -> float:
    """Return the number in a child's text, `default` if there is no such child."""
    child = only(element, tag)
    if child is None:
        return default if default is not _REQUIRED else fail(element, f"there is no <{tag}> in it.")
    return float(numbers(child, child.text, 1, tag)[0])


def truth(element: Element, text: str | None, what: str, default: bool = False) -> bool:
    """Return True or False for a yes or no. Raise `ValueError` for other words."""
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false", "1", "0"):
        fail(element, f"`{what}` is {brief(text)}, neither true nor false.")
    return word in ("true", "1")
