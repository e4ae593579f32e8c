"""Checks of an MJCF file before MuJoCo reads it. MuJoCo would wait forever for a pipe; it accepts NaN as a number, and
then writes a log into the working directory."""

import math
import os
from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from .files import check_regular, is_there
from .xml import Document, Element, brief, cut, fail
from .xml_tree import parser_of

#: attributes of <compiler> that name folders of assets
FOLDERS = ("assetdir", "meshdir", "texturedir")


#: most copies of a body, and most cells of a height field, that a file may ask for
COPIES, CELLS = 20_000, 10_000_000
#: attributes that hold names, or data that no engine reads
WORDS = ("name", "class", "childclass", "model", "user")
#: attributes that place something; others, such as ranges, may be infinite
PLACES = ("pos", "quat", "axisangle", "xyaxes", "zaxis", "euler", "fromto", "axis", "ref")


def check(document: Document) -> "Files":
    """Return the files of which a model consists. Raise `ValueError` if one of them holds NaN or infinite positions,
    asks for too many copies, or refers to something that is no regular file."""
    files = Files(document)
    for root in files.roots:
        _check_numbers(root)
        _check_counts(root)
        for element, told in _references(root):
            for path in files.places(told):
                _checked(element, path)
    return files


class Files:
    """The XML files of a model: `roots`, the root elements of the file and of those that it includes or attaches, and
    `folders`, those in which MuJoCo may look for the assets of one of them."""

    def __init__(self, document: Document):
        first = document.folder or Path()
        self.roots: list[Element] = []
        self.folders: list[Path] = []
        waiting, seen = [(document.root, first)], set()
        while waiting:
            root, base = waiting.pop()
            self.roots.append(root)
            named = (e.get(k) for e in root.iter("compiler") for k in FOLDERS)
            self.folders += [b / (name or "") for name in ("", *filter(None, named)) for b in (first, base)]
            for element, told in _references(root, ("include", "model")):
                for path in (b / told for b in dict.fromkeys((first, base))):
                    real = os.path.realpath(path)  # files may refer to each other in a ring
                    if real not in seen and is_there(path):
                        seen.add(real)
                        _checked(element, path)
                        waiting += [(e, path.parent) for e in _root(path)]
        self.folders = list(dict.fromkeys(self.folders))

    def says(self, key: str) -> bool:
        """Return True if a <compiler> sets this to true."""
        return any(e.get(key) == "true" for root in self.roots for e in root.iter("compiler"))

    def places(self, told: str) -> list[Path]:
        """Return the files that this name of an asset may mean."""
        names = [told, *([Path(told.replace("\\", "/")).name] if self.says("strippath") else [])]
        paths = (folder / name for name in names for folder in self.folders)
        return [path for path in dict.fromkeys(paths) if is_there(path)]


def _references(root: Element, tags: tuple[str, ...] = ()) -> Iterator[tuple[Element, str]]:
    """Yield the elements that refer to files, with the names of these."""
    for element in root.iter(*tags) if tags else root.iter(etree.Element):
        for key, told in element.attrib.items():
            if key.startswith("file") and told:
                yield element, told


def _check_numbers(root: Element) -> None:
    names = {e.get("name") for e in root.iter(etree.Element)}
    for element in root.iter(etree.Element):
        for key, told in element.attrib.items() if element.tag != "text" else ():
            if key not in PLACES and ("nan" not in told.lower() or key in WORDS or told in names):
                continue
            numbers = [_number(word) for word in told.split()]
            if any(math.isnan(x) or (key in PLACES and math.isinf(x)) for x in numbers):
                fail(element, f"`{key}` holds {brief(told)}, which is not a finite number.")


def _check_counts(root: Element) -> None:
    """Raise `ValueError` for a file that asks for more bodies or numbers than memory may hold."""
    for element in root.iter("replicate", "composite", "flexcomp", "hfield"):
        keys, most = (("nrow", "ncol"), CELLS) if element.tag == "hfield" else (("count",), COPIES)
        asked = 1.0
        for e in (element, *element.iterancestors("replicate")):
            for word in " ".join(e.get(k, "") for k in keys).split():
                asked *= max(1.0, _number(word))
        if asked > most:
            fail(element, f"`{' * '.join(keys)}` asks for {asked:.3g} of them; at most {most} are read.")


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return 1.0  # MuJoCo reports the error


def _checked(element: Element, path: Path) -> None:
    try:
        check_regular(path)
    except ValueError as error:
        fail(element, cut(str(error)).removeprefix("`load`: "))


def _root(path: Path) -> list[Element]:
    """Return a list with the root element of an included file, empty if it is no XML: MuJoCo reports the error."""
    try:
        root = etree.fromstring(path.read_bytes(), parser_of(recover=True), base_url=str(path))
    except (etree.XMLSyntaxError, OSError, ValueError):
        return []
    return [] if root is None else [root]
