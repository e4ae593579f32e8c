"""Moves operations into the branches that alone read them, so that they are done only where a lane takes the branch.

An operation belongs to the innermost region of its operands (`program.py`). So the operands of a branch are computed
before it, with all that only they need, even if no lane takes it. Here these operations move into the branch. Their
multiply-adds are fused already: what a program reads elsewhere, and so where an operation is done, changes no bits.
Nothing moves into a loop, which would repeat it, and nothing that all lanes share, which is done once a call.
"""

import copy
import dataclasses
import functools

from .calling import uniform_of
from .live import LEAVES, Schedule
from .ops import Branches, Call, Op

#: branches with at most this many operations stay as short as they are: for sines of huge angles, for instance
SHORT = 150


def sink(s: Schedule, live: list[bool]) -> None:
    """Give `s` a copy of its program in which operations belong to the innermost branch around all that read them."""
    found = _Sink(s, live)
    if found.open:
        found.run()
        s.program = found.program


class _Sink:
    """`open` are the branches to which operations may move, `home` the innermost region around all readers of a
    value."""

    def __init__(self, s: Schedule, live: list[bool]):
        self.s, self.live, self.regions = s, live, s.program.regions
        self.open = self._open()
        self.home: dict[int, int] = {}

    def _open(self) -> set[int]:
        owners = [k for k, r in enumerate(self.regions) if isinstance(r.owner, Branches)]
        if not owners:
            return set()
        size = [0] * len(self.regions)
        for region, alive in zip(self.s.program.region, self.live, strict=True):
            size[region] += alive
        for k in range(len(size) - 1, 0, -1):  # parents come first
            size[self.regions[k].parent] += size[k]
        return {k for k in owners if size[k] > SHORT}

    def run(self) -> None:
        s, old = self.s, self.s.program
        self.program = copy.copy(old)
        self.region = self.program.region = list(old.region)
        self.calls = self.program.calls = list(old.calls)
        same = uniform_of(s, self.live)
        for out in old.outputs:
            self._read(out, 0)
        for values, region in s.owned():
            self._read(values, region)
        for v in range(len(s.op) - 1, -1, -1):  # readers before what they read
            if not self.live[v]:
                continue
            if s.op[v] == Op.call:
                call = old.calls[s.a[v]]
                if v == call.first + s.masks[call.index].index(1):  # all readers of all its results are done
                    self._call(call)
            elif s.op[v] not in LEAVES:
                if not same[v]:
                    self.region[v] = self._place(self.region[v], self.home[v])
                self._read(s.operands(v), self.region[v])

    def _call(self, call: Call) -> None:
        region = call.region
        if not call.template.uniform:
            homes = [self.home[x] for x in call.results if x in self.home]
            region = self._place(region, functools.reduce(self._common, homes))
        if region != call.region:
            self.calls[call.index] = dataclasses.replace(call, region=region, floor=region)
            self.region[call.first : call.results.stop] = [region] * len(call.results)
        self._read(self.s.given(call), region)

    def _read(self, values, region: int) -> None:
        for x in values:
            if x >= 0:
                self.home[x] = self._common(self.home[x], region) if x in self.home else region

    def _common(self, a: int, b: int) -> int:
        """Return the innermost region around both."""
        while a != b:  # parents come first
            a, b = min(a, b), self.regions[max(a, b)].parent
        return a

    def _place(self, now: int, home: int) -> int:
        """Return the innermost region around `home` that has only open branches between itself and `now`."""
        path = []
        while home != now:
            path.append(home)
            home = self.regions[home].parent
        for region in reversed(path):
            if region not in self.open:
                break
            now = region
        return now
