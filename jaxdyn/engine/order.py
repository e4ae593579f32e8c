"""Chooses the order in which a program runs.

Values that depend only on operands shared by all lanes are *uniform*: they are computed once a call of the kernel. The
rest is ordered depth first from the outputs, which keeps few values alive at once. The order alternates between calls
and other statements as rarely as possible.
"""

import dataclasses
import itertools
from collections.abc import Sequence

from .calling import uniform_of
from .live import Schedule, fused
from .ops import Branches, Call, Loop, Op
from .program import Program
from .sink import sink


@dataclasses.dataclass(frozen=True)
class Store:
    """Row `row` of output `output` is `value`."""

    output: int
    row: int
    value: int


@dataclasses.dataclass(frozen=True)
class Guard:
    """The point at which a loop ends unless its condition holds."""

    loop: Loop


def schedule(program: Program) -> Schedule:
    """Return the program as an ordered schedule."""
    s, live = fused(program)
    sink(s, live)
    s.is_uniform = uniform_of(s, live)
    s.uniform = list(itertools.compress(range(len(s.op)), s.is_uniform))
    if program.calls:
        _gather(s)
    _Order(s, live).run()
    return s


def _gather(s: Schedule) -> None:
    """Replace uniform results of calls by the calls, and group calls that need not wait for other operations."""
    phase: dict[int, int] = {}
    found: dict = {}
    for v in s.uniform:
        if s.op[v] == Op.call:
            call = s.program.calls[s.a[v]]
            if call not in found:
                found[call] = max([phase[x] for x in s.given(call)], default=0) | 1
            phase[v] = found[call]
        else:
            last = max((phase[x] for x in s.operands(v)), default=0)
            found[v] = phase[v] = last + (last & 1)
    s.uniform = sorted(found, key=found.__getitem__)


class _Order:
    """The order of the statements of all regions, depth first."""

    def __init__(self, s: Schedule, live: list[bool]):
        self.s, self.live = s, live
        self.done = [False] * len(s.op)
        self.begun: set[int] = set()
        self.read: dict[int, None] = {}
        self.spread: dict[int, None] = {}
        #: the values that calls, loops and branches need
        self.needed: dict[tuple[int, int], list[int]] = {}
        self.captured = self._captures()
        self.depth = [0] * len(s.op)
        for v, alive in enumerate(live):
            if alive and s.op[v] != Op.call:
                self.depth[v] = 1 + max((self.depth[x] for x in s.operands(v)), default=0)
            elif alive and not self.depth[v]:
                call = s.program.calls[s.a[v]]
                depth = 1 + max((self.depth[x] for x in s.given(call) if x >= 0), default=0)
                self.depth[call.first : call.results.stop] = [depth] * len(call.results)
        self.phases = _Phases(self) if s.program.calls else None

    def _captures(self) -> dict[int, list[int]]:
        """Return, for each loop and each set of branches, the values from outside that its regions read."""
        s, program = self.s, self.s.program
        found: dict[int, dict[int, None]] = {k: {} for k in s.changing}

        def note(x: int, region: int) -> None:
            if x < 0:
                return
            home = program.region[x]
            while region != home and region:
                found[program.regions[region].owner.index][x] = None
                region = program.regions[region].parent

        for v, alive in enumerate(self.live):
            if alive and program.region[v]:
                for x in s.operands(v):
                    note(x, program.region[v])
        for index in s.masks:
            call = program.calls[index]
            if call.region:
                for x in s.given(call):
                    note(x, call.region)
        for values, region in s.owned():
            for x in values:
                note(x, region)
        return {k: list(v) for k, v in found.items()}

    def run(self) -> None:
        s = self.s
        body = s.body[0] = []
        stores = [Store(k, row, x) for k, out in enumerate(s.program.outputs) for row, x in enumerate(out)]
        if self.phases is None:
            for st in stores:
                self.visit(st.value, 0, body)
                body.append(st)
        else:
            self.phases.region(0, body, stores)
        for call in s.uniform:
            if isinstance(call, Call):
                mask = s.masks[call.index]
                self.read.update((x, None) for x in (*s.given(call), *itertools.compress(call.results, mask)))
        s.read, s.spread = list(self.read), list(self.spread)

    def inner(self, owner) -> None:
        """Order the body of a loop, or of all branches."""
        s, places = self.s, self.s.changing[owner.index]
        if isinstance(owner, Loop):
            body = s.body[owner.region] = []
            self.visit(owner.condition, owner.region, body)
            body.append(Guard(owner))
            self.roots([owner.nexts[k] for k in places], owner.region, body)
        else:
            for region, outcome in zip(owner.regions, owner.outcomes, strict=True):
                body = s.body[region] = []
                self.roots([outcome[k] for k in places], region, body)

    def roots(self, values: list[int], region: int, body: list) -> None:
        if self.phases is not None:
            self.phases.region(region, body, [])
        for x in values:
            self.visit(x, region, body)

    def needs(self, v: int) -> Sequence[int]:
        """Return the values that must be computed before v, in the same region or outside."""
        s = self.s
        if s.op[v] not in (Op.call, Op.result):
            return s.operands(v)
        key = s.op[v], s.a[v]
        if key not in self.needed:
            self.needed[key] = self.called(s.program.calls[s.a[v]]) if s.op[v] == Op.call else self.owned(s.a[v])
        return self.needed[key]

    def owned(self, index: int) -> list[int]:
        """Return the values that a loop or branches need."""
        owner, places = self.s.program.owners[index], self.s.changing[index]
        first = owner.predicates if isinstance(owner, Branches) else [owner.initial[k] for k in places]
        return list(dict.fromkeys(x for x in (*first, *self.captured[index]) if x >= 0))

    def called(self, call: Call) -> list[int]:
        """Return the values that a call needs; another call is represented by its first result. Record in `spread` the
        values that all lanes share but that the call reads lane by lane."""
        s, calls = self.s, self.s.program.calls
        found: dict[int, None] = {}
        for k in call.template.reads(s.masks[call.index]):
            x = call.operands[k]
            if x < 0 or s.is_uniform[x]:
                if not call.template.program.inputs[k][2]:
                    self.spread[x] = None
            if x >= 0:
                found[x if s.op[x] != Op.call or s.is_uniform[x] else calls[s.a[x]].first] = None
        return list(found)

    def visit(self, root: int, region: int, body: list) -> None:
        s, done, same = self.s, self.done, self.s.is_uniform
        if root < 0:
            return
        home = s.program.region
        stack = [(root, False)]
        while stack:
            v, ready = stack.pop()
            if s.op[v] == Op.call and not same[v]:
                v = s.program.calls[s.a[v]].first
            if done[v] and not ready:
                continue
            if same[v]:
                done[v] = True
                self.read[v] = None
                continue
            if s.op[v] in (Op.input, Op.carry) or home[v] != region:
                continue  # available already
            if s.op[v] == Op.result and s.a[v] in self.begun:
                done[v] = True
                continue
            if not ready:
                stack.append((v, True))
                # visit the deepest operand first, so that the others are alive for a shorter time
                needed = self.needs(v)
                if len(needed) > 1:
                    needed = sorted(needed, key=self.depth.__getitem__, reverse=True)
                stack += [(x, False) for x in reversed(needed) if not done[x]]
                continue
            if done[v]:
                continue
            done[v] = True
            if s.op[v] == Op.call:
                body.append(s.program.calls[s.a[v]])
            elif s.op[v] == Op.result:
                self.begun.add(s.a[v])
                owner = s.program.owners[s.a[v]]
                self.inner(owner)
                body.append(owner)
            else:
                body.append(v)


class _Phases:
    """An order that alternates between calls and other statements as rarely as possible. A statement's phase counts the
    alternations that it has to wait for, and is odd for calls. `crossing` holds, by region and phase, the values that
    later phases read."""

    def __init__(self, order: "_Order"):
        self.order = order
        s, live, program = order.s, order.live, order.s.program
        self.phase = phase = [0] * len(s.op)
        self.crossing: dict[int, dict[int, list[int]]] = {}
        seen: set[int] = set()
        owners: dict[int, int] = {}
        marked: set[int] = set()
        for v, alive in enumerate(live):
            if not alive or s.is_uniform[v]:
                continue
            is_call = s.op[v] == Op.call
            if is_call and s.program.calls[s.a[v]].first in seen:
                continue
            region = program.region[v]
            if s.op[v] == Op.result:
                if s.a[v] in owners:
                    phase[v] = owners[s.a[v]]
                    continue
            needs = [
                x for x in order.needs(v) if x >= 0 and not s.is_uniform[x] and program.region[x] == region and x != v
            ]
            last = max((phase[x] for x in needs), default=0)
            here = last | 1 if is_call else last + (last & 1)
            phase[v] = here
            if s.op[v] == Op.result:
                owners[s.a[v]] = here
            if is_call:
                call = program.calls[s.a[v]]
                seen.add(call.first)
                phase[call.first : call.results.stop] = [here] * len(call.results)
            for x in needs:
                if phase[x] < here and x not in marked and s.op[x] not in (Op.input, Op.carry):
                    marked.add(x)
                    self.crossing.setdefault(region, {}).setdefault(phase[x], []).append(x)

    def region(self, region: int, body: list, stores: list[Store]) -> None:
        """Order a region, and the stores of the program's outputs."""
        crossing, visit = self.crossing.get(region, {}), self.order.visit
        by_phase: dict[int, list[Store]] = {}
        for st in stores:
            by_phase.setdefault(self.phase[st.value] if st.value >= 0 else 0, []).append(st)
        for phase in sorted({*crossing, *by_phase}):
            for x in sorted(crossing.get(phase, ())):
                visit(x, region, body)
            for st in by_phase.get(phase, ()):
                visit(st.value, region, body)
                body.append(st)


def alive(s: Schedule) -> int:
    """Return the largest number of values that are alive at once in a lane, in the order of the schedule."""
    line: list[int] = []

    def walk(region: int) -> None:
        for st in s.body[region]:
            if isinstance(st, int):
                line.append(st)
            elif isinstance(st, Loop):
                walk(st.region)
            elif isinstance(st, Branches):
                for inner in st.regions:
                    walk(inner)

    walk(0)
    last = {x: k for k, v in enumerate(line) for x in s.operands(v)}
    ends = [0] * (len(line) + 1)
    most = now = 0
    for k, v in enumerate(line):
        now += v in last
        if v in last:
            ends[last[v]] += 1
        most = max(most, now)
        now -= ends[k]
    return most
