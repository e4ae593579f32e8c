"""Liveness: finds which values of a program are read, and fuses multiply-adds.

A product that only one sum of its region reads is fused with that sum to a multiply-add. This is done here and by no
compiler, so that the bits are the same everywhere. Operands and results of calls are not fused with anything outside of
the call.
"""

import dataclasses
import heapq
from collections.abc import Iterator, Sequence

from .entries import operand_of
from .ops import Call, Loop, Op, Type
from .program import Program

LEAVES = frozenset((Op.input, Op.carry, Op.result, Op.call))


@dataclasses.dataclass
class Schedule:
    """A program in order.

    **Fields:** `program`; `uniform`, operations (and `Call`s) that run once a call of the kernel, in order; `read`,
    those of them (and shared inputs) that lanes or calls read; `body`, the statements of every region: values, `Call`s,
    `Loop`s, `Branches`, `Guard`s, `Store`s; `changing`, for loops and branches, the places of results that are read;
    `is_uniform`, for each value whether it is uniform; `masks`, for each call, a mask of the results that are read;
    `spread`, values that all lanes share, but that a call reads lane by lane; `op`, `a`, `b`, `c` of every
    value after fusing.
    """

    program: Program
    op: list[int]
    a: list[int]
    b: list[int]
    c: list[int]
    uniform: list[int] = dataclasses.field(default_factory=list)
    read: list[int] = dataclasses.field(default_factory=list)
    body: dict[int, list] = dataclasses.field(default_factory=dict)
    changing: dict[int, list[int]] = dataclasses.field(default_factory=dict)
    is_uniform: list[bool] = dataclasses.field(default_factory=list)
    masks: dict[int, bytes] = dataclasses.field(default_factory=dict)
    spread: list[int] = dataclasses.field(default_factory=list)

    def given(self, call: Call) -> list[int]:
        """Return the values that a call reads."""
        return [call.operands[k] for k in call.template.reads(self.masks[call.index])]

    def owned(self) -> Iterator[tuple[list[int], int]]:
        """Yield the values that loops and branches read, and the region where they read them."""
        for index, places in self.changing.items():
            owner = self.program.owners[index]
            if isinstance(owner, Loop):
                yield [owner.condition, *(owner.nexts[k] for k in places)], owner.region
                yield [owner.initial[k] for k in places], owner.parent
                continue
            for region, outcome in zip(owner.regions, owner.outcomes, strict=True):
                yield [outcome[k] for k in places], region
            yield owner.predicates, owner.parent

    def operands(self, v: int) -> tuple[int, ...]:
        """Return the operands of an operation, without constants."""
        if self.op[v] in LEAVES:
            return ()
        a, b, c = self.a[v], self.b[v], self.c[v]
        if c >= 0:
            return tuple([x for x in (a, b, c) if x >= 0])
        if b >= 0:
            return (a, b) if a >= 0 else (b,)
        return (a,) if a >= 0 else ()


def fused(program: Program) -> tuple[Schedule, list[bool]]:
    """Return the program with fused multiply-adds, still without an order, and for each value whether it is read."""
    op, a, b, c = list(program.op), list(program.a), list(program.b), list(program.c)
    alias = _unchanging(program)
    if alias:
        _resolve(program, alias, a, b, c)
    s = Schedule(program, op, a, b, c)
    live = _live(s)
    s.masks = _masks(s, live)
    if not program.fused:
        _fuse(s, live)
    return s, live


def _resolve(program: Program, alias: dict[int, int], a: list[int], b: list[int], c: list[int]) -> None:
    """Replace values by the values that they equal, in all operations, loops, branches, calls and outputs."""

    def resolve(x: int) -> int:
        while x in alias:
            x = alias[x]
        return x

    for v, o in enumerate(program.op):
        if o not in LEAVES:
            a[v], b[v], c[v] = resolve(a[v]), resolve(b[v]), resolve(c[v])
    for owner in program.owners:
        if isinstance(owner, Loop):
            owner.initial = [resolve(x) for x in owner.initial]
            owner.nexts = [resolve(x) for x in owner.nexts]
            owner.condition = resolve(owner.condition)
        else:
            owner.predicates = [resolve(x) for x in owner.predicates]
            owner.outcomes = [[resolve(x) for x in o] for o in owner.outcomes]
    for call in program.calls:
        call.operands = [resolve(x) for x in call.operands]
    program.outputs = [[resolve(x) for x in o] for o in program.outputs]


def trim(program: Program, used: Sequence[bool] | None) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the operands that are read and the outputs that are computed. Remove from the program all outputs that are
    not `used` or are always zero, and the operands that only these read."""
    some = lambda out: any(program.value(v) != 0 for v in out)  # noqa: E731 - None for what is no constant
    made = tuple(k for k, out in enumerate(program.outputs) if (used is None or used[k]) and some(out))
    program.outputs = [program.outputs[k] for k in made]
    program.output_types = [program.output_types[k] for k in made]
    live = _live(Schedule(program, program.op, program.a, program.b, program.c))
    entries = {v: operand_of(program, v) for v, o in enumerate(program.op) if o == Op.entry}
    inputs = {program.a[v] for v, o in enumerate(program.op) if o == Op.input and live[v]}
    read = tuple(sorted(inputs.union(k for v, k in entries.items() if live[v])))
    place = {old: new for new, old in enumerate(read)}
    # inputs that are not read lose their operand; they are dropped later
    program.a = [place.get(a, -1) if o == Op.input else a for o, a in zip(program.op, program.a, strict=True)]
    for v, operand in entries.items():
        if live[v]:
            program.b[v] = program.constant(place[operand], Type.int32)
        else:
            program.op[v], program.a[v] = Op.input, -1
    program.inputs = [program.inputs[k] for k in read]
    return read, made


def _unchanging(program: Program) -> dict[int, int]:
    """Return, for values of loops that no iteration changes, the values that they start from."""
    alias: dict[int, int] = {}
    for loop in program.owners:
        if isinstance(loop, Loop):
            for k, (carry, new) in enumerate(zip(loop.carries, loop.nexts, strict=True)):
                if carry == new and carry >= 0:  # in a copy, values that are not read are negative
                    alias[carry] = loop.initial[k]
                    if loop.results[k] >= 0:
                        alias[loop.results[k]] = loop.initial[k]
    return alias


def _live(s: Schedule) -> list[bool]:
    live = [False] * len(s.op)
    todo = [x for out in s.program.outputs for x in out if x >= 0]
    #: a heap of calls, last one first, so that most readers of a call are visited before the call
    calls: list[int] = []
    waiting: dict[int, bool] = {}
    while todo or calls:
        if not todo:
            index = -heapq.heappop(calls)
            waiting[index] = False
            todo += _reached(s, live, index)
            continue
        v = todo.pop()
        if live[v]:
            continue
        live[v] = True
        if s.op[v] == Op.call:
            if not waiting.get(s.a[v]):
                waiting[s.a[v]] = True
                heapq.heappush(calls, -s.a[v])
        elif s.op[v] in (Op.carry, Op.result):
            todo += [x for x in s.program.owners[s.a[v]].behind(s.b[v]) if x >= 0]
        elif s.op[v] != Op.input:
            todo += [x for x in (s.a[v], s.b[v], s.c[v]) if x >= 0 and not live[x]]
    s.changing = {}
    for v, alive in enumerate(live):
        if alive and s.op[v] in (Op.carry, Op.result):
            places = s.changing.setdefault(s.a[v], [])
            if s.b[v] not in places:
                places.append(s.b[v])
    for places in s.changing.values():
        places.sort()
    return live


def _reached(s: Schedule, live: list[bool], index: int) -> list[int]:
    """Return the operands, not yet marked as live, of those results of a call that are known to be read."""
    call = s.program.calls[index]
    mask = bytes(live[call.first : call.first + len(call.template.types)])
    return [x for k in call.template.reads(mask) if (x := call.operands[k]) >= 0 and not live[x]]


def _masks(s: Schedule, live: list[bool]) -> dict[int, bytes]:
    """Return, for each call with a result that is read, a byte for every result: 1 if it is read."""
    found = {}
    for call in s.program.calls:
        mask = bytes(live[call.first : call.first + len(call.template.types)])
        if any(mask):
            found[call.index] = mask
    return found


def _fuse(s: Schedule, live: list[bool]) -> None:
    """Fuse each product with the sum of its region that reads it, if there is only one such sum. The product stays live
    only if other regions or outputs read it too; these readers must not change how the sum is rounded."""
    region, types, floats = s.program.region, s.program.type, (Type.float32, Type.float64)
    uses, elsewhere = [0] * len(s.op), [False] * len(s.op)
    for v, alive in enumerate(live):
        if alive:
            for x in s.operands(v):
                if region[x] == region[v]:
                    uses[x] += 1
                else:
                    elsewhere[x] = True
    outside = [x for out in s.program.outputs for x in out]
    for values, _ in s.owned():
        outside += values
    for index in s.masks:
        outside += s.given(s.program.calls[index])
    for x in outside:
        if x >= 0:
            elsewhere[x] = True

    def product(x, v):
        return x >= 0 and s.op[x] == Op.mul and uses[x] == 1 and region[x] == region[v]

    for v, alive in enumerate(live):
        if not alive or s.op[v] not in (Op.add, Op.sub) or types[v] not in floats:
            continue
        x, y, plus = s.a[v], s.b[v], s.op[v] == Op.add
        if product(y, v):
            s.op[v], s.a[v], s.b[v], s.c[v] = (Op.fma if plus else Op.fnma), s.a[y], s.b[y], x
            live[y] = elsewhere[y]
        elif product(x, v):
            s.op[v], s.a[v], s.b[v], s.c[v] = (Op.fma if plus else Op.fms), s.a[x], s.b[x], y
            live[x] = elsewhere[x]
