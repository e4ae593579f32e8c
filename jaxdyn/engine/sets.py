"""Sets that grow together: which bodies, constraints or operations are connected."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T", bound=Hashable)


class Disjoint(Generic[T]):
    """Disjoint sets (union-find). Every item is alone at first."""

    def __init__(self, items: Iterable[T] = ()):
        self.above = {x: x for x in items}

    def __contains__(self, x: T) -> bool:
        return x in self.above

    def add(self, x: T) -> None:
        """Add an item that is alone at first."""
        self.above[x] = x

    def find(self, x: T) -> T:
        """Return the item that stands for the set of x."""
        above = self.above
        while above[x] != x:
            above[x] = above[above[x]]  # shorter for the next
            x = above[x]
        return x

    def join(self, x: T, y: T) -> None:
        """Unite the sets of x and y."""
        self.above[self.find(x)] = self.find(y)

    def sets(self) -> list[list[T]]:
        """Return the sets. Their items, and they by their first ones, are in the order in which items were added."""
        found: dict[T, list[T]] = {}
        for x in self.above:
            found.setdefault(self.find(x), []).append(x)
        return list(found.values())


def connected(groups: Sequence[Iterable[Hashable]]) -> list[list[int]]:
    """Return the numbers of groups that hang together because they share items, part by part, in the order of the last
    number of each part."""
    parts, first = Disjoint(range(len(groups))), {}
    for k, items in enumerate(groups):
        for x in items:
            parts.join(first.setdefault(x, k), k)
    return sorted(parts.sets(), key=max)
