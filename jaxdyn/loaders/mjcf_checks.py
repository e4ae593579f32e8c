"""Checks of an MJCF file before MuJoCo reads it. MuJoCo would wait forever for a pipe; it accepts NaN as a number, and
then writes a log into the working directory."""

import math
from pathlib import Path

from lxml import etree

from .files import check_regular, is_there
from .xml import Document, Element, brief, cut, fail

#: attributes of <compiler> that name folders of assets
FOLDERS = ("assetdir", "meshdir", "texturedir")


#: most copies of a body, and most cells of a height field, that a file may ask for
COPIES, CELLS = 20_000, 10_000_000
#: attributes that hold names, or data that no engine reads
WORDS = ("name", "class", "childclass", "model", "user")
#: attributes that place something; others, such as ranges, may be infinite
PLACES = ("pos", "quat", "axisangle", "xyaxes", "zaxis", "euler", "fromto", "axis", "ref")


def check(document: Document) -> None:
    """Raise `ValueError` if the file, or one that it includes, holds NaN or infinite positions, asks for too many
    copies, or refers to something that is no regular file."""
    folder = document.folder or Path()
    waiting, seen = [document.root], set()
    while waiting:
        root = waiting.pop()
        _check_numbers(root)
        _check_counts(root)
        folders = [folder, *(folder / e.get(k) for e in root.iter("compiler") for k in FOLDERS if e.get(k))]
        for element in root.iter(etree.Element):
            for key, told in element.attrib.items():
                if not key.startswith("file") or not told:
                    continue
                for path in (f / told for f in folders):
                    if not is_there(path):
                        continue
                    _checked(element, path)
                    if element.tag in ("include", "model") and path not in seen:
                        seen.add(path)
                        waiting += _root(path)


def _check_numbers(root: Element) -> None:
    names = {e.get("name") for e in root.iter(etree.Element)}
    for element in root.iter(etree.Element):
        for key, told in element.attrib.items():
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
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=True)
    try:
        root = etree.fromstring(path.read_bytes(), parser, base_url=str(path))
    except (etree.XMLSyntaxError, OSError, ValueError):
        return []
    return [] if root is None else [root]
