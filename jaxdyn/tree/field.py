"""`Field`: a value per node, kept as columns of the arrays of whole groups.

Nodes (bodies, or pairs of bodies) are grouped differently by different sweeps. A field remembers, per node,
which columns of which arrays sum up to its value, and assembles the values of any list of nodes with static
slices. The node axis is the last but one, the lanes are last.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..engine.kernel import kernel

#: slices of numbers that are assembled one by one; more are one gather, which is quicker to compile and to run. Vectors
#: and matrices are too large for that: what is gathered from is copied first
RUNS = 6


class Field:
    """Per-node sums of columns; a value is a pytree of arrays (..., nodes, lanes)."""

    def __init__(self) -> None:
        self._parts: dict[Hashable, list[tuple[int, int]]] = {}
        self._arrays: list[Any] = []

    def __contains__(self, node: Hashable) -> bool:
        return node in self._parts

    def add(self, nodes: Sequence[Hashable], value: Any) -> None:
        """Add the k-th column of `value` to the k-th node."""
        self._arrays.append(value)
        for column, node in enumerate(nodes):
            self._parts.setdefault(node, []).append((len(self._arrays) - 1, column))

    def replace(self, nodes: Sequence[Hashable], value: Any) -> None:
        """Forget what the nodes had, and give them the columns of `value`."""
        for node in nodes:
            self._parts[node] = []
        self.add(nodes, value)

    def get(self, nodes: Sequence[Hashable]) -> Any:
        """The values of `nodes` side by side, zero for a node without any; None when no node has one."""
        views = [self._parts.get(n, []) for n in nodes]
        depth = max(len(v) for v in views)
        if depth == 0:
            return None
        recipe, used = [], []
        for rank in range(depth):
            runs: list[list[int]] = []
            for view in views:
                array, column = view[rank] if rank < len(view) else (-1, 0)
                if array >= 0:
                    if array not in used:
                        used.append(array)
                    array = used.index(array)
                last = runs[-1] if runs else None
                if last is not None and last[0] == array and (array < 0 or last[2] == column):
                    last[2] += 1
                else:
                    runs.append([array, column, column + 1])
            recipe.append(tuple(tuple(r) for r in runs))
        arrays = [self._arrays[k] for k in used]
        width = jax.tree.leaves(arrays[0])[0].shape[-2]
        if recipe == [((0, 0, width),)]:
            return arrays[0]
        return _assembler(tuple(recipe))(arrays)


_assemblers: dict = {}


def _assembler(recipe):
    """One walled function a recipe, so that equal gathers share their trace."""
    if recipe not in _assemblers:
        _assemblers[recipe] = kernel(lambda arrays: jax.tree.map(lambda *xs: assemble(xs, recipe), *arrays))
    return _assemblers[recipe]


def assemble(arrays: Sequence[Any], recipe: Sequence) -> Any:
    """Sum over ranks of concatenated runs (array, start, stop) of columns; array -1 is zeros."""
    lanes = max(x.shape[-1] for x in arrays)
    shape, dtype = arrays[0].shape[:-2], arrays[0].dtype
    if not shape and sum(map(len, recipe)) > RUNS:
        return _gathered(arrays, recipe, lanes)
    total = None
    for runs in recipe:
        parts = [
            jnp.zeros((*shape, stop - start, lanes), dtype)
            if k < 0
            else jnp.broadcast_to(arrays[k][..., start:stop, :], (*shape, stop - start, lanes))
            for k, start, stop in runs
        ]
        row = parts[0] if len(parts) == 1 else jnp.concatenate(parts, -2)
        total = row if total is None else total + row
    return total


def _gathered(arrays: Sequence[Any], recipe: Sequence, lanes: int) -> Any:
    """The same for numbers, by one gather a rank out of all arrays, side by side, and a zero after them."""
    starts = np.cumsum([0, *(len(x) for x in arrays)])
    zero = jnp.zeros((1, lanes), arrays[0].dtype)
    whole = jnp.concatenate([*(jnp.broadcast_to(x, (len(x), lanes)) for x in arrays), zero])
    total = None
    for runs in recipe:
        columns = [
            c for k, a, b in runs for c in ([starts[-1]] * (b - a) if k < 0 else range(starts[k] + a, starts[k] + b))
        ]
        row = jnp.take(whole, np.asarray(columns, np.int32), axis=0, mode="clip")
        total = row if total is None else total + row
    return total


def runs_of(indices: Sequence[int]) -> list[tuple[int, int]]:
    """Maximal runs (start, stop) of consecutive integers."""
    out: list[tuple[int, int]] = []
    for i in indices:
        if out and out[-1][1] == i:
            out[-1] = (out[-1][0], i + 1)
        else:
            out.append((i, i + 1))
    return out


def select(x: Any, indices: Sequence[int], axis: int = 0) -> Any:
    """``x[indices]`` along an axis by static slices."""
    if not indices:
        return jax.lax.slice_in_dim(x, 0, 0, axis=axis)
    parts = [jax.lax.slice_in_dim(x, a, b, axis=axis) for a, b in runs_of(indices)]
    return parts[0] if len(parts) == 1 else jnp.concatenate(parts, axis)


def permute(x: Any, indices: Sequence[int], axis: int = 0) -> Any:
    """``x[indices]`` along an axis for many indices: slices where they make few runs, else one gather, which is quicker
    to compile than its many slices."""
    if len(runs_of(indices)) <= 3:
        return select(x, indices, axis)
    return jnp.take(x, np.asarray(indices, np.int32), axis=axis, mode="clip", unique_indices=True)
