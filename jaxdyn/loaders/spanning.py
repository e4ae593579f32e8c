"""`spanning_tree` chooses the joints of a mechanism with loops that form its tree; the others become constraints."""

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from ..engine.sets import Disjoint

Edge = TypeVar("Edge")


class Spanning(NamedTuple, Generic[Edge]):
    """A spanning tree. `tree` holds (edge, True if it is entered from its child), parents first; `cut` the other edges;
    `roots` the root link of each connected part whose root is not the world."""

    tree: list[tuple[Edge, bool]]
    cut: list[Edge]
    roots: list[str]


def spanning_tree(
    links: Iterable[str], edges: Sequence[Edge], ends: Callable[[Edge], tuple[str, str]], rank: Callable[[Edge], int]
) -> Spanning[Edge]:
    """Return a spanning tree that keeps edges of low rank, and of equal rank those that come first.

    `ends` returns the parent and the child of an edge; the parent may be ``"world"``. The root of each connected part
    is the world if one of its edges starts there, else its first link that is no edge's child, else its first link.
    Edges of the tree come parents first, otherwise in the order of `edges`.
    """
    links = list(links)
    parts, kept = Disjoint(("world", *links)), set()
    find = parts.find
    for k in sorted(range(len(edges)), key=lambda k: (rank(edges[k]), k)):
        a, b = ends(edges[k])
        if find(a) != find(b):
            parts.join(b, a)
            kept.add(k)
    is_child = {ends(e)[1] for e in edges}
    roots: dict[str, str] = {find("world"): "world"}
    for name in sorted(links, key=lambda n: n in is_child):
        roots.setdefault(find(name), name)
    touching: dict[str, list[int]] = {}
    for k in kept:
        for name in ends(edges[k]):
            touching.setdefault(name, []).append(k)
    there = {"world", *roots.values()}
    ready = sorted({k for name in there for k in touching.get(name, ())})
    tree: list[tuple[Edge, bool]] = []
    while ready:
        k = heapq.heappop(ready)
        parent, child = ends(edges[k])
        if parent in there and child in there:
            continue
        tree.append((edges[k], parent not in there))
        fresh = child if parent in there else parent
        there.add(fresh)
        for other in touching[fresh]:
            heapq.heappush(ready, other)
    stands = [name for name in roots.values() if name != "world"]
    return Spanning(tree, [e for k, e in enumerate(edges) if k not in kept], stands)


class Routes(Generic[Edge]):
    """The paths in a tree from its links to the root, built from tuples (link, the link above, the edge between
    them)."""

    def __init__(self, steps: Iterable[tuple[str, str, Edge]]):
        self.above = {link: (upper, edge) for link, upper, edge in steps}
        self.depth: dict[str, int] = {}
        for link in self.above:
            trail = []
            while link in self.above and link not in self.depth:
                trail.append(link)
                link = self.above[link][0]
            for passed in reversed(trail):
                self.depth[passed] = self.depth.get(self.above[passed][0], 0) + 1

    def between(self, a: str, b: str) -> tuple[list[Edge], list[Edge]]:
        """Return the edges from each of two links up to their nearest common link. The time is linear in their
        number."""
        ends, found = [a, b], ([], [])
        while ends[0] != ends[1]:
            k = int(self.depth.get(ends[1], 0) > self.depth.get(ends[0], 0))
            ends[k], edge = self.above[ends[k]]
            found[k].append(edge)
        return found
