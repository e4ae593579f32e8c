"""`note_names` notes the elements and attributes of a file that its format does not have, so that no misspelt name is
ignored silently."""

from collections.abc import Iterator, Mapping
from functools import lru_cache

from lxml import etree

from .known_names import SDF, URDF, Names
from .xml import Element, Notes, brief, nearest

UNKNOWN = "names that {} does not have in this place, and that are not read: {{}}."
ACTS = "elements whose effect on the motion is not modelled: {}."
TABLES = {"URDF": URDF, "SDF": SDF}
LEAF = Names(text=True)


def note_names(notes: Notes, root: Element, form: str) -> None:
    """Note the names in a file that its format ("URDF" or "SDF") does not have, with the nearest name that it has."""
    table, text = TABLES[form], UNKNOWN.format(form)
    waiting = [root]
    while waiting:
        element = waiting.pop()
        names = _names(table, element)
        for told in _odd(element, names, table, hint=notes.has_room(text)):
            notes.add(element, text, told)
        for child in element.iterchildren(etree.Element):
            if child.tag in names.inner.split():
                waiting.append(child)
            elif child.tag in names.acts and not _is_idle(child, names.acts[child.tag]):
                notes.add(child, ACTS, f"<{child.tag}> in {_shown(element)}")


def _names(table: Mapping[str, Names], element: Element) -> Names:
    above = element.getparent()
    key = "" if above is None else f"{above.tag}/{element.tag}"
    return table.get(key) or table.get(element.tag, LEAF)


def _odd(element: Element, names: Names, table: Mapping[str, Names], hint: bool) -> Iterator[str]:
    """Yield a text for each part of an element that is not in its table. `hint` adds the name that may be meant."""
    attributes, elements = names.attributes.split(), [*names.inner.split(), *names.idle.split(), *names.acts]
    for name in element.attrib:
        if name not in attributes and not name.startswith("{") and ":" not in name:
            near = nearest(name, attributes) if hint else None
            yield f"`{name[:60]}` of {_shown(element)}" + (f" (`{near}`?)" if near else "")
    for child in element.iterchildren(etree.Element):
        if child.tag not in elements:
            yield f"<{child.tag[:60]}> in {_shown(element)}" + (_meant(child, elements, table) if hint else "")
    if not names.text and (element.text or "").strip():
        yield f"the text {brief(element.text.strip(), 30)} in {_shown(element)}"


def _meant(child: Element, elements: list[str], table: Mapping[str, Names]) -> str:
    """Return a hint about an unknown element: the place where it belongs, or the name that may be meant."""
    places = _places(table is SDF)
    if child.tag in places:
        return f" (it belongs into <{'> or <'.join(places[child.tag][:3])}>)"
    near = nearest(child.tag, elements) or nearest(child.tag, places)
    return f" (<{near}>?)" if near else ""


@lru_cache(maxsize=2)
def _places(sdf: bool) -> dict[str, list[str]]:
    """Return, for each element, the elements that may contain it."""
    out: dict[str, list[str]] = {}
    for key, names in (SDF if sdf else URDF).items():
        for child in (*names.inner.split(), *names.acts):
            out.setdefault(child, []).append(key.split("/")[-1])
    return out


def _shown(element: Element) -> str:
    name = element.get("name")
    named = f" name={brief(name, 40)}" if name else ""
    return f"<{element.tag[:60]}{named}>, line {element.sourceline}"


def _is_idle(element: Element, words: str) -> bool:
    """Return True if the contents of an element state that it has no effect: all words in it are among `words`, or
    equal to one of them as a number."""
    found = [
        w for e in element.iter(etree.Element) for w in (*(e.text or "").split(), *" ".join(e.attrib.values()).split())
    ]
    known = words.split()
    return bool(words) and all(w.lower() in known or _value(w) in map(_value, known) for w in found)


def _value(word: str) -> float | str:
    try:
        return float(word)
    except ValueError:
        return word.lower()
