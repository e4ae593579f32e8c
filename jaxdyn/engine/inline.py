"""Replaces calls by code: copies templates to where they are called.

Multiply-adds are fused before that, separately in the program and in its templates, and never afterwards. Therefore
programs without calls give the same bits as programs with calls.
"""

import dataclasses

from .calling import append
from .live import LEAVES, Schedule, fused
from .ops import NONE, Call, Loop, Op
from .program import Program
from .settings import chosen
from .sink import sink

#: steps are called if their copies have at least `LEAST` operations in all, and `RATIO` for each one in a template; the
#: second pair holds where compilation must be fast rather than the code
LEAST, RATIO = 3500, 2
LEAST_SOON, RATIO_SOON = 1000, 1.3
#: programs are straight if their steps, up to SHORT operations without sines, have fewer than SMALL in the mean: two
#: hands, 298 steps of 18 operations, take 1.25 to 1.47 times as long with calls
SMALL, SHORT = 20, 10_000


def steps() -> str:
    """Return the choice of the environment variable JAXDYN_STEPS: "auto", "straight" or "called"."""
    return chosen("JAXDYN_STEPS", ("auto", "straight", "called"), "auto")


def called(program: Program, mode: str, soon: bool = False) -> bool:
    """Return whether steps are called rather than copied. `soon`: compilation must be fast rather than the code."""
    if mode != "auto" or not program.calls:
        return mode == "called" and bool(program.calls)
    copied = sum(c.template.size for c in program.calls)
    once = sum(t.size for t in {c.template for c in program.calls})
    least, ratio = (LEAST_SOON, RATIO_SOON) if soon else (LEAST, RATIO)
    # of the templates, only that of sines has branches, most of which hardly ever run
    steps = [c.template.size for c in program.calls if not c.template.program.owners]
    brief = not soon and sum(steps) <= SHORT and sum(steps) < SMALL * len(steps)
    return copied >= least and copied >= ratio * once and not brief


def straight(program: Program) -> Program:
    """Return the program without calls, which is itself if it has none."""
    return _Inlined(program).made() if program.calls else program


class Copy:
    """A copy of a program under construction, fused. `to` holds the new value of each old one."""

    def __init__(self, program: Program):
        self.s, self.live = fused(program)
        sink(self.s, self.live)
        self.old = program = self.s.program
        new = self.new = Program(program.most)
        new.inputs, new.output_types = list(program.inputs), list(program.output_types)
        new.constants, new.constant_types = list(program.constants), list(program.constant_types)
        new._constant = dict(program._constant)
        new.regions = [dataclasses.replace(r) for r in program.regions]
        new.owners = [dataclasses.replace(o) for o in program.owners]
        new.fused = True
        for region in new.regions:
            if region.owner is not None:
                region.owner = new.owners[region.owner.index]
        self.to: list[int] = [NONE] * len(program.op)
        self.shared: dict[tuple, int] = {}

    def made(self) -> Program:
        for v, alive in enumerate(self.live):
            if alive and self.to[v] == NONE:
                self.value(v)
        old, new, at = self.old, self.new, self.at
        for owner in new.owners[: len(old.owners)]:
            owner.results = [at(x) for x in owner.results]
            if isinstance(owner, Loop):
                owner.initial, owner.nexts = [at(x) for x in owner.initial], [at(x) for x in owner.nexts]
                owner.carries, owner.condition = [at(x) for x in owner.carries], at(owner.condition)
            else:
                owner.predicates = [at(x) for x in owner.predicates]
                owner.outcomes = [[at(x) for x in out] for out in owner.outcomes]
        new.outputs = [[at(x) for x in out] for out in self.s.program.outputs]
        return new

    def value(self, root: int) -> None:
        """Copy a value, after the values that it needs."""
        stack = [root]
        while stack:
            v = stack[-1]
            missing = [x for x in self.needs(v) if x >= 0 and self.to[x] == NONE] if self.to[v] == NONE else []
            stack += missing
            if not missing:
                stack.pop()
                if self.to[v] == NONE:
                    self.other(v)

    def needs(self, v: int) -> list[int]:
        s = self.s
        if s.op[v] != Op.call:
            return list(s.operands(v))
        call = self.old.calls[s.a[v]]
        return [call.operands[k] for k in call.template.reads(self.mask(call))]

    def mask(self, call: Call) -> bytes:
        return self.s.masks[call.index]

    def other(self, v: int) -> None:
        """Copy a value whose operands have been copied."""
        s, old = self.s, self.old
        op = s.op[v]
        if op == Op.call:
            self.call(old.calls[s.a[v]])
            return
        a, b, c = s.a[v], s.b[v], s.c[v]
        if op not in LEAVES:
            a, b, c = self.at(a), self.at(b), self.at(c)
        self.to[v] = self.new.new(op, old.type[v], a, b, c, old.region[v])
        if not old.region[v]:
            self.shared[0, op, old.type[v], a, b, c] = self.to[v]

    def at(self, x: int) -> int:
        return x if x < 0 else self.to[x]

    def call(self, call: Call) -> None:
        to = self.to
        operands = [x if x < 0 else to[x] for x in call.operands]
        self.add(call.template, operands, list(call.results), call.region, call.floor)

    def add(self, template, operands: list[int], results: list[int], region: int, floor: int) -> None:
        """Add a call that computes these old values."""
        first = append(self.new, template, operands, region, floor)
        for v, made in zip(results, range(first, len(self.new.op)), strict=True):
            self.to[v] = made


class _Inlined(Copy):
    def call(self, call: Call) -> None:
        routine = call.template.routine(self.mask(call))
        stores = _Body(self, routine.schedule, [self.at(x) for x in call.operands], call.floor).made()
        for k, x in zip(routine.results, stores, strict=True):
            self.to[call.first + k] = x


class _Body:
    """The copy of a template's code."""

    def __init__(self, copy: Copy, s: Schedule, operands: list[int], floor: int):
        self.copy, self.s, self.operands, self.floor = copy, s, operands, floor
        self.to: dict[int, int] = {}

    def made(self) -> list[int]:
        """Copy the code, and return the new values of its results."""
        return self.statements(0, self.floor)

    def statements(self, region: int, floor: int) -> list[int]:
        s, stored = self.s, []
        for st in s.body[region]:
            if isinstance(st, int):
                self.to[st] = self.operation(st, floor)
            elif hasattr(st, "value"):
                stored.append(self.use(st.value))
            else:
                self.branches(st, floor)
        return stored

    def use(self, x: int) -> int:
        if x < 0:
            constants = self.s.program
            return self.copy.new.constant(constants.constants[-1 - x], constants.constant_types[-1 - x])
        return self.operands[self.s.a[x]] if self.s.op[x] == Op.input else self.to[x]

    def operation(self, v: int, floor: int) -> int:
        s, new, shared = self.s, self.copy.new, self.copy.shared
        a, b, c = (x if x == NONE else self.use(x) for x in (s.a[v], s.b[v], s.c[v]))
        op, t = s.op[v], s.program.type[v]
        for level in {0, floor}:
            found = shared.get((level, op, t, a, b, c))
            if found is not None:
                return found
        where = max(floor, *(new.region[x] if x >= 0 else 0 for x in (a, b, c)))
        found = shared[floor, op, t, a, b, c] = new.new(op, t, a, b, c, where)
        return found

    def branches(self, old, floor: int) -> None:
        """Copy branches into the innermost region of their operands."""
        new, s, places = self.copy.new, self.s, self.s.changing[old.index]
        predicates = [self.use(x) for x in old.predicates]
        inner = [x for region in old.regions for v in s.body[region] if isinstance(v, int) for x in s.operands(v)]
        inner += [o[k] for o in old.outcomes for k in places]
        outside = [self.use(x) for x in inner if x < 0 or s.op[x] == Op.input or x in self.to]
        if not all(isinstance(v, int) for region in old.regions for v in s.body[region]):
            outside += self.operands
        home = max([floor, *(new.region[x] for x in (*predicates, *outside) if x >= 0)])
        new._here.append(home)
        made = new.branches(predicates)
        for region, outcome in zip(old.regions, old.outcomes, strict=True):
            new.enter(made)
            self.statements(region, made.regions[-1])
            new.leave(made, [self.use(outcome[k]) for k in places])
        new._here.pop()
        made.results = []
        for j, k in enumerate(places):
            t = s.program.type[old.results[k]]
            made.results.append(new.new(Op.result, t, made.index, j, region=home))
            self.to[old.results[k]] = made.results[-1]
