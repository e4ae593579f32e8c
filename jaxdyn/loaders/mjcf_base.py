"""`base_of`: the bodies of an MJCF file whose joint to the world `floating` decides.

MJCF does not say which body is the base, and a file may hold a robot beside a table and free objects. Bases are the
bodies on the world that other bodies hang on by joints; if there is none, the free bodies; if there is none either,
the bodies with mass that stand on the world.
"""

from typing import Any, NamedTuple

from .mjcf_tree import FREE, Tree
from .xml import Document, Notes, fail


class Base(NamedTuple):
    """The body that gets a free joint (None: none does), and those whose free joint becomes fixed."""

    floats: int | None
    held: frozenset[int]


def base_of(notes: Notes, document: Document, m: Any, tree: Tree, floating: bool | None) -> Base:
    """Return what `floating` changes. Note the bodies that it could be meant for and leaves as they are.

    **Raises** `ValueError` if `floating` is True and no single base can float.
    """
    if floating is None:
        return Base(None, frozenset())
    tops = [b for b in range(1, m.nbody) if m.body_parentid[b] == 0]
    free = [b for b in tops if any(m.jnt_type[j] == FREE for j in tree.joints(b))]
    bases = _bases(m, tops, free)
    fixed = [b for b in bases if b not in free]
    named = lambda bodies: ", ".join(repr(tree.bodies[b]) for b in bodies)  # noqa: E731
    if not floating:
        others = [b for b in free if b not in bases]
        if others:
            text = "free bodies that are not the base, and that `floating=False` leaves free: {}."
            notes.add(document.root, text, named(others))
        held = [b for b in bases if b in free]
        if len(held) > 1:
            notes.add(document.root, "bodies that `floating=False` fixes, each of them a base: {}.", named(held))
        return Base(None, frozenset(held))
    if len(fixed) < len(bases):
        if fixed:
            text = "bodies that `floating=True` leaves on the world, because another base floats: {}."
            notes.add(document.root, text, named(fixed))
        return Base(None, frozenset())
    if len(fixed) != 1 or tree.joints(fixed[0]) or m.body_mocapid[fixed[0]] >= 0:
        told = named(fixed or tops)
        fail(
            document.root, f"`floating=True`: no single body without joints stands on the world as a base, but {told}."
        )
    return Base(fixed[0], frozenset())


def _bases(m: Any, tops: list[int], free: list[int]) -> list[int]:
    """Return the bases of a file."""
    carries = {int(m.body_rootid[m.jnt_bodyid[j]]) for j in range(m.njnt) if m.jnt_type[j] != FREE}
    return (
        [b for b in tops if b in carries]
        or free
        or [b for b in tops if m.body_mocapid[b] < 0 and m.body_subtreemass[b] > 0]
    )
