"""The two loops over a tree. A recursion of the engine is a step function handed to one of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .field import Field
from .plan import Group

Carry = Mapping[str, Any]


def down(
    groups: Sequence[Group], step: Callable[..., tuple[Carry, Any]], *inputs: Sequence[Any]
) -> tuple[dict[str, Field], list[Any]]:
    """Roots to leaves. ``step(group, parent, *inputs_of_the_group)`` returns the group's carry, and a result.

    A carry is a mapping of names to pytrees of arrays (..., nodes, lanes); `parent` holds those of the
    parents, None for roots. Returns the carries of all bodies, one `Field` a name, and the results by group.
    """
    fields: dict[str, Field] = {}
    out = []
    for group, *xs in zip(groups, *inputs, strict=True):
        parent = None if group.root else _Lazy(fields, group.parents)
        carry, result = step(group, parent, *xs)
        for name, value in carry.items():
            fields.setdefault(name, Field()).add(group.nodes, value)
        out.append(result)
    return fields, out


def up(
    groups: Sequence[Group], step: Callable[..., tuple[Carry, Any]], fields: dict[str, Field], *inputs: Sequence[Any]
) -> list[Any]:
    """Leaves to roots. ``step(group, own, *inputs_of_the_group)`` returns what is added to the parents, and a result.

    `own` holds the sums of `fields` at the group's bodies: what was there and what their children added.
    A step may add to other bodies too, through the fields it was made with. Returns the results, in the order
    of `groups`, which must name children before parents.
    """
    out = []
    for group, *xs in zip(groups, *inputs, strict=True):
        contribution, result = step(group, _Lazy(fields, group.nodes), *xs)
        if not group.root:
            for name, value in contribution.items():
                if value is not None:
                    fields[name].add(group.parents, value)
        out.append(result)
    return out


def each(
    groups: Sequence[Group], step: Callable[..., Any], fields: Mapping[str, Field], *inputs: Sequence[Any]
) -> list[Any]:
    """No recursion: ``step(group, own, *inputs_of_the_group)`` for every group, with `own` as in `up`."""
    return [step(group, _Lazy(fields, group.nodes), *xs) for group, *xs in zip(groups, *inputs, strict=True)]


class _Lazy(Mapping):
    """Gathers a name's values when asked, so that what a step does not read costs nothing."""

    def __init__(self, fields: Mapping[str, Field], nodes: tuple[int, ...]):
        self._fields, self._nodes = fields, nodes

    def __getitem__(self, name: str) -> Any:
        return self._fields[name].get(self._nodes)

    def __iter__(self):
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)
