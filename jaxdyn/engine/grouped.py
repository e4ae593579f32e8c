"""A sweep as array operations, for cores that XLA compiles.

Rows of one kind that do not depend on each other become one call on stacked values, behind a wall (`walls.py`).
"""

from collections import defaultdict
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun

from .core import lanes_of
from .steps import Sweep, cells
from .walls import walled


def grouped(sweep: Sweep, args: Sequence) -> list:
    """Return the outputs of a sweep."""
    n = len(sweep.inputs)
    held = [_Held(a, sweep.array(k)) for k, a in enumerate(args)]
    for k, i in enumerate(sweep.initial):
        held.append(_Held(None if i is None else args[i], sweep.array(n + k)))
    for kind, members in _groups(sweep):
        parts = sweep.kinds[kind]
        reads = [held[a].get([sweep.rows[m][1][j] for m in members], count) for j, (a, count) in enumerate(parts.reads)]
        outs = _walled(kind, sweep, len(members))(*reads)
        for j, (a, count) in enumerate(parts.writes):
            held[a].add([sweep.rows[m][2][j] for m in members], count, outs[j])
    return [h.whole() for h in held[n:]]


def _walled(kind: int, sweep: Sweep, members: int):
    made = sweep.derived.setdefault("walls", {})
    key = kind, members == 1
    if key not in made:
        f = jaxpr_as_fun(sweep.kinds[kind].jaxpr)
        if members == 1:
            made[key] = walled(lambda *xs: [o[None] for o in f(*[x[0] for x in xs])])
        else:
            made[key] = walled(jax.vmap(f))
    return made[key]


def _groups(sweep: Sweep) -> list[tuple[int, list[int]]]:
    """Return (kind, rows) of rows that can be evaluated together, in an order that respects what they read."""
    if "groups" in sweep.derived:
        return sweep.derived["groups"]
    ready: dict[tuple[int, int], int] = defaultdict(int)
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for m, (kind, reads, writes) in enumerate(sweep.rows):
        parts = sweep.kinds[kind]
        level = max(
            (ready[a, c] for (a, count), s in zip(parts.reads, reads, strict=True) for c in cells(s, count)), default=0
        )
        for (a, count), s in zip(parts.writes, writes, strict=True):
            for c in cells(s, count):
                ready[a, c] = max(ready[a, c], level + 1)
        found[level, kind].append(m)
    out = [(kind, members) for (_, kind), members in sorted(found.items())]
    sweep.derived["groups"] = out
    return out


class _Held:
    """The cells of an array, as sums of slices of the values written to them."""

    def __init__(self, given, array):
        self.array, self.sources, self.parts = array, [], defaultdict(list)
        if given is not None:
            # the initial values of an output may have fewer lanes
            wide = (*given.shape[:-1], max(given.shape[-1], array.shape[-1]))
            self.sources.append(jnp.broadcast_to(given, wide))
            for c in range(array.cells):
                self.parts[c].append((0, c))

    def add(self, starts: Sequence[int], count: int | None, value) -> None:
        """Add `value`, of shape (rows, ...) or (rows, count, ...), to cells."""
        self.sources.append(value if count is None else value.reshape(-1, *value.shape[2:]))
        places = [c for s in starts for c in cells(s, count)]
        for k, c in enumerate(places):
            self.parts[c].append((len(self.sources) - 1, k))

    def get(self, starts: Sequence[int], count: int | None):
        x = self.at([c for s in starts for c in cells(s, count)])
        return x if count is None else x.reshape(len(starts), count, *x.shape[1:])

    def whole(self):
        return self.at(range(self.array.cells))

    def at(self, wanted: Sequence[int]):
        views = [self.parts.get(c, ()) for c in wanted]
        depth = max((len(v) for v in views), default=0)
        zero = jnp.zeros((1, *self.array.shape), self.array.dtype)
        if depth == 0:
            return jnp.broadcast_to(zero, (len(wanted), *self.array.shape))
        total = None
        for rank in range(depth):
            runs: list[list[int]] = []
            for view in views:
                source, place = view[rank] if rank < len(view) else (-1, 0)
                last = runs[-1] if runs else None
                if last is not None and last[0] == source and (source < 0 or last[2] == place):
                    last[2] += 1
                else:
                    runs.append([source, place, place + 1])
            row = self._joined(runs, zero)
            total = row if total is None else total + row
        return total

    def _joined(self, runs, zero):
        if len(runs) == 1 and runs[0][0] >= 0:
            k, a, b = runs[0]
            return self.sources[k] if (a, b) == (0, len(self.sources[k])) else self.sources[k][a:b]
        parts = [zero if k < 0 else self.sources[k][a:b] for k, a, b in runs]
        lanes = lanes_of(parts)
        sizes = [b - a for _, a, b in runs]
        return jnp.concatenate(
            [jnp.broadcast_to(x, (n, *x.shape[1:-1], lanes)) for x, n in zip(parts, sizes, strict=True)]
        )
