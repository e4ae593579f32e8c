"""The layout of the rows of constraints, and the cells of their coefficients."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from ..engine.steps import Ref, Row


@dataclasses.dataclass(frozen=True)
class Plan:
    """The layout of the rows of constraints. Row `starts[c] + r` is the r-th of constraint c. The coefficients of its
    rows on its s-th body are the cells from ``coefficients[c][s]`` on of the field ``"K"``.

    `clusters` are the numbers of independent velocities of clusters, which the elimination also treats as rows: those
    of cluster k belong to constraint −1 − k, and come after all others."""

    layouts: tuple[Any, ...]
    clusters: tuple[int, ...] = ()

    @functools.cached_property
    def starts(self) -> tuple[int, ...]:
        return (0, *accumulate(layout.rows for layout in self.layouts))

    @property
    def rows(self) -> int:
        return self.starts[-1]

    @functools.cached_property
    def coefficients(self) -> tuple[tuple[int, ...], ...]:
        sizes = [layout.rows for layout in self.layouts for _ in layout.bodies]
        at = iter(accumulate(sizes, initial=0))
        return tuple(tuple(next(at) for _ in layout.bodies) for layout in self.layouts)

    @functools.cached_property
    def cells(self) -> int:
        return sum(layout.rows * len(layout.bodies) for layout in self.layouts)

    @functools.cached_property
    def firsts(self) -> tuple[int, ...]:
        """Return the first body of each row."""
        return tuple(layout.bodies[0] for layout in self.layouts for _ in range(layout.rows))

    @functools.cached_property
    def cliques(self) -> frozenset[tuple[int, ...]]:
        """Return the sets of bodies that constraints tie together. Rows that are velocities of a joint tie none."""
        return frozenset(tuple(sorted(x.bodies)) for x in self.layouts if not x.velocities)

    def __len__(self) -> int:
        return len(self.layouts)

    def bodies(self, c: int) -> tuple[int, ...]:
        return self.layouts[c].bodies

    def span(self, c: int) -> range:
        """Return the rows of a constraint."""
        return range(self.starts[c], self.starts[c + 1])

    def count(self, c: int) -> int:
        """Return the number of rows of a constraint."""
        return self.layouts[c].rows if c >= 0 else self.clusters[-1 - c]

    @property
    def whole(self) -> int:
        """Return the number of rows, including those of clusters."""
        return self.rows + sum(self.clusters)

    def row(self, name: str, c: int) -> Ref:
        """Return the cells of a constraint's rows in a field with one cell per row."""
        start = self.starts[c] if c >= 0 else self.rows + sum(self.clusters[: -1 - c])
        return Ref(name, start, self.count(c))

    def K(self, c: int, name: str = "K") -> tuple[Ref, ...]:
        """Return the cells of a constraint's coefficients, body by body."""
        return tuple(Ref(name, k, self.layouts[c].rows) for k in self.coefficients[c])

    def combined(self) -> "Plan":
        """Return the plan for combinations of the rows of every constraint, none of which is a single velocity."""
        return Plan(tuple(dataclasses.replace(x, velocities=()) for x in self.layouts))

    def placed(self, blocks: Mapping[tuple[int, int], int], size: int) -> np.ndarray:
        """Return where the entries (m, m) of a symmetric matrix are among `size` numbers. `blocks` are the first places
        of its blocks of constraints c ≤ d, row by row of c. Entries outside of all blocks are at `size`. Of a block on
        the diagonal, the upper half counts."""
        out = np.full((self.rows, self.rows), size)
        for (c, d), start in blocks.items():
            shape = self.layouts[c].rows, self.layouts[d].rows
            block = start + np.arange(shape[0] * shape[1]).reshape(shape)
            out[np.ix_(self.span(c), self.span(d))] = block if c != d else np.triu(block) + np.triu(block, 1).T
            if c != d:
                out[np.ix_(self.span(d), self.span(c))] = block.T
        return out

    def diagonal(self, blocks: Mapping[tuple[int, int], int], size: int) -> np.ndarray:
        """Return where the entries (m,) of the diagonal are."""
        out = np.full(self.rows, size)
        for c in range(len(self)):
            if (c, c) in blocks:
                n = self.count(c)
                out[self.span(c)] = blocks[c, c] + np.arange(n) * (n + 1)
        return out

    def each(self, row: Callable[[int], Row]) -> list[Row]:
        return [row(c) for c in range(len(self.layouts))]
