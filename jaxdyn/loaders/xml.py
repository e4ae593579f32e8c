"""Functions that read XML safely, with errors that name the file, the line and the element."""

import difflib
import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from lxml import etree

from ..model.values import ModelWarning
from ..spatial.instances import counted, listed
from ..spatial.numbers import LARGEST
from .files import read_bytes
from .xml_tree import tree, without_declaration

#: type of an lxml element, which has no public name
Element = Any

_REQUIRED: Any = object()


class Document(NamedTuple):
    """An XML file or text: its root element, its name in messages, its path (None for a text), and the text itself."""

    root: Element
    origin: str
    path: Path | None
    data: bytes

    @property
    def folder(self) -> Path | None:
        """Return the folder of the file, None for a text."""
        return None if self.path is None else self.path.parent


def brief(text: Any, length: int = 60) -> str:
    """Return a value's text for an error message, shortened if it is long."""
    shown = repr(text)
    return shown if len(shown) <= length else shown[: length - 3] + "..."


def cut(message: str, length: int = 500) -> str:
    """Return a message without its middle part if it is long: names in files can have any length."""
    half = length // 2
    return message if len(message) <= length else f"{message[:half]} ... {message[-half:]}"


def arrows(names: Sequence[str]) -> str:
    """Return the text of a cycle or chain of names for a message, shortened if it is long."""
    shown = [name[:60] for name in names]
    if len(names) > 8:
        shown[4:-4] = [f"... ({len(names) - 8} more)"]
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
    """Raise a `ValueError` with a message about an element, and the element's place."""
    raise ValueError(f"`load`: {where(element)}: {cut(message)}")


def warn(element: Element, message: str) -> None:
    """Give a `ModelWarning` about an element that is accepted although something is wrong with it."""
    warnings.warn(f"`load`: {where(element)}: {cut(message, 2000)}", ModelWarning, stacklevel=2)


class Notes:
    """Collects notes on a file, and gives one `ModelWarning` per kind at the end of a ``with`` block without errors.

    ``add(element, "the joints {} ...", item)`` collects items under one text. The warning lists the first `most` of
    them, and names the place of the first one.
    """

    def __init__(self, most: int = 12):
        self.most = most
        self.kinds: dict[str, tuple[Element, list[str]]] = {}

    def has_room(self, text: str) -> bool:
        """Return True if the warning of a text will show one more item."""
        return text not in self.kinds or len(self.kinds[text][1]) < self.most

    def add(self, element: Element, text: str, item: str) -> None:
        self.kinds.setdefault(text, (element, []))[1].append(item)

    def __enter__(self) -> "Notes":
        return self

    def __exit__(self, kind, *_) -> None:
        for text, (element, items) in self.kinds.items() if kind is None else ():
            warn(element, text.format(listed(items, self.most)))


def located(element: Element, call: Callable, *args, **options):
    """Return ``call(*args, **options)``. Its errors name the element's place."""
    try:
        return call(*args, **options)
    except (ValueError, TypeError) as error:
        raise ValueError(f"`load`: {where(element)}: {cut(str(error))}") from error


def parse(data: bytes | str, path: Path | None = None) -> Document:
    """Return the tree of an XML file or text.

    Entities, external files and huge trees are disabled, and a document that declares entities is an error, so that
    none is ever expanded. Only MJCF without a DOCTYPE may nest deeply. Namespaces and prefixes are removed from tags.
    Elements of xacro are an error: run xacro first.

    **Raises** `ValueError` with file and line.
    """
    # a file name that is not UTF-8 contains surrogates, which messages cannot show
    origin = "text" if path is None else path.name.encode("utf-8", "backslashreplace").decode()
    if isinstance(data, str):
        data = without_declaration(data).encode(errors="surrogatepass")
    try:
        root = tree(data, origin)
    except etree.XMLSyntaxError as error:
        told = re.sub(r",? line \d+, column \d+$", "", error.msg or "it is empty").split(", use XML_PARSE_HUGE")[0]
        if "amplification" in told:
            told = "it declares entities that grow without bound"
        raise ValueError(f"`load`: {origin}, line {error.lineno}: the XML cannot be read: {cut(told)}.") from None
    except LookupError as error:  # an unknown encoding
        raise ValueError(f"`load`: {origin}: the XML cannot be read: {cut(str(error))}.") from None
    doctype = root.getroottree().docinfo.internalDTD
    if doctype is not None:
        entities = [e.name for e in doctype.iterentities()]
        if entities or doctype.external_id or doctype.system_url:
            named = f"the entity {entities[0]!r}" if entities else "an external document type"
            raise ValueError(
                f"`load`: {origin}: the file declares {named}; remove the DOCTYPE, entities are not expanded."
            )
    for element in root.iter(etree.Element):
        space, mark, tag = element.tag.removeprefix("{").rpartition("}" if element.tag.startswith("{") else ":")
        if mark and tag:
            element.tag = tag
            if "xacro" in space:
                fail(element, f"<xacro:{tag}> is a macro; run `xacro` on the file first and load the result.")
    return Document(root, origin, path, data)


def read(path: Path) -> Document:
    """Return the tree of a file. Raise `FileNotFoundError`, or `ValueError` if it cannot be read."""
    return parse(read_bytes(path), path)


def only(element: Element, tag: str) -> Element | None:
    """Return the only child with a tag, or None. Raise `ValueError` if there are several."""
    found = element.findall(tag)
    if len(found) > 1:
        fail(found[1], f"<{element.tag}> takes one <{tag}>, this is the second.")
    return found[0] if found else None


def within(element: Element, path: str) -> Element | None:
    """Return the element on a path of tags such as "surface/friction", or None. Raise `ValueError` if there are
    several."""
    for tag in path.split("/"):
        found = only(element, tag)
        if found is None:
            return None
        element = found
    return element


def needed(element: Element, tag: str) -> Element:
    """Return the only child with a tag. Raise `ValueError` if there is none."""
    found = only(element, tag)
    if found is not None:
        return found
    near = nearest(tag, [child.tag for child in element])
    return fail(element, f"there is no <{tag}> in it." + (f" Is <{near}> meant for it?" if near else ""))


def attribute(element: Element, name: str, what: str = "") -> str:
    """Return an attribute. Raise `ValueError` if it is absent or empty."""
    value = element.get(name)
    if value is None or not value.strip():
        near = nearest(name, element.attrib) if value is None else None
        hint = f" Is `{near}` meant for it?" if near else ""
        fail(element, f"the attribute `{name}`{what} is missing or empty.{hint}")
    return value.strip()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most similar to `name`, ignoring case; None if no name is similar."""
    plain: dict[str, str] = {}
    for k in known:
        plain.setdefault(k.lower(), k)
    near = difflib.get_close_matches(name.lower()[:60], plain, n=1)
    return plain[near[0]] if near else None


def numbers(element: Element, text: str | None, count: int | None, what: str, endless: bool = False) -> np.ndarray:
    """Return `count` numbers from text. Raise `ValueError` for any other count, for words and NaN, and, unless
    `endless`, for numbers that are infinite in float32."""
    parts = (text or "").split()
    if count is not None and len(parts) != count:
        fail(element, f"`{what}` takes {counted(count, 'number')}, not {brief(text)}.")
    out = []
    for part in parts:
        try:
            value = float(part) if "_" not in part and part.isascii() else math.nan
        except ValueError:
            value = math.nan
        if math.isnan(value) or not (endless or math.isfinite(value)):
            fail(element, f"`{what}` holds {brief(part)}, which is not a finite number.")
        if abs(value) > LARGEST and not endless:
            fail(element, f"`{what}` holds {brief(part)}, which is beyond the range of float32.")
        out.append(value)
    return np.array(out)


def vector(element: Element, name: str, default, count: int = 3) -> np.ndarray:
    """Return an attribute of `count` numbers, `default` if it is absent."""
    text = element.get(name)
    return np.array(default, float) if text is None else numbers(element, text, count, name)


def number(element: Element, name: str, default: Any = _REQUIRED, endless: bool = False) -> float:
    """Return an attribute that is one number, `default` if it is absent."""
    text = element.get(name)
    if text is None and default is not _REQUIRED:
        return float(default)
    return float(numbers(element, attribute(element, name), 1, name, endless)[0])


def text_number(element: Element, tag: str, default: float, endless: bool = False) -> float:
    """Return the number in a child's text, `default` if there is no such child."""
    child = only(element, tag)
    return default if child is None else float(numbers(child, child.text, 1, tag, endless)[0])


def truth(element: Element, text: str | None, what: str, default: bool = False) -> bool:
    """Return the truth value of a text: true, 1, false or 0; `default` for None. Raise `ValueError` for other words."""
    if text is None:
        return default
    word = text.strip().lower()
    if word not in ("true", "false", "1", "0"):
        fail(element, f"`{what}` is {brief(text)}, neither true nor false.")
    return word in ("true", "1")
