"""Where the rows of constraints stand, and the cells of their coefficients."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any

import numpy as np

from ..engine.steps import Ref, Row


@dataclasses.dataclass(frozen=True)
class Plan:
    """Where the rows of constraints stand. Row `starts[c] + r` is the r-th of constraint c; the coefficients of its
    rows on its s-th body are the cells from ``coefficients[c][s]`` on of the field ``"K"``.

    `clusters` are the numbers of independent velocities of clusters, which the elimination takes for rows as well:
    those of cluster k are called constraint −1 − k, and stand after all others."""

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
    def cliques(self) -> frozenset[tuple[int, ...]]:
        """The sets of bodies that constraints tie together; rows that are velocities of a joint tie none."""
        return frozenset(tuple(sorted(x.bodies)) for x in self.layouts if not x.velocities)

    def __len__(self) -> int:
        return len(self.layouts)

    def bodies(self, c: int) -> tuple[int, ...]:
        return self.layouts[c].bodies

    def span(self, c: int) -> range:
        """The rows of a constraint."""
        return range(self.starts[c], self.starts[c + 1])

    def count(self, c: int) -> int:
        """The number of rows of a constraint."""
        return self.layouts[c].rows if c >= 0 else self.clusters[-1 - c]

    @property
    def whole(self) -> int:
        """The number of rows, those of clusters among them."""
        return self.rows + sum(self.clusters)

    def row(self, name: str, c: int) -> Ref:
        """The cells of a constraint's rows in a field with a cell a row."""
        start = self.starts[c] if c >= 0 else self.rows + sum(self.clusters[: -1 - c])
        return Ref(name, start, self.count(c))

    def K(self, c: int, name: str = "K") -> tuple[Ref, ...]:
        """The coefficients of a constraint, body by body."""
        return tuple(Ref(name, k, self.layouts[c].rows) for k in self.coefficients[c])

    def combined(self) -> "Plan":
        """For combinations of the rows of every constraint, which are no single velocities."""
        return Plan(tuple(dataclasses.replace(x, velocities=()) for x in self.layouts))

    def placed(self, blocks: Mapping[tuple[int, int], int], size: int) -> np.ndarray:
        """Where the entries (m, m) of a symmetric matrix are among `size` numbers. `blocks` are the places from which
        on its blocks of constraints c ≤ d stand, row by row of c; what is in none is at `size`. Of a block on the
        diagonal, the upper half counts."""
        out = np.full((self.rows, self.rows), size)
        for (c, d), start in blocks.items():
            shape = self.layouts[c].rows, self.layouts[d].rows
            block = start + np.arange(shape[0] * shape[1]).reshape(shape)
            out[np.ix_(self.span(c), self.span(d))] = block if c != d else np.triu(block) + np.triu(block, 1).T
            if c != d:
                out[np.ix_(self.span(d), self.span(c))] = block.T
        return out

    def diagonal(self, blocks: Mapping[tuple[int, int], int], size: int) -> np.ndarray:
        """Where the entries (m,) of its diagonal are."""
        out = np.full(self.rows, size)
        for c in range(len(self)):
            if (c, c) in blocks:
                n = self.count(c)
                out[self.span(c)] = blocks[c, c] + np.arange(n) * (n + 1)
        return out

    def each(self, row: Callable[[int], Row]) -> list[Row]:
        return [row(c) for c in range(len(self.layouts))]
