"""LLVM IR of the pieces of a schedule: the code that runs once a call, and the code for a vector of lanes.

A piece gets three pointers: to the *stage* of one vector of lanes (the rows of operands and outputs, one after the
other), to the *uniform* values, which all lanes share, one number each, and to the *arena* with the values that one
piece passes to another.
"""

import dataclasses

from .entries import operand_of
from .layout import Layout
from .live import Schedule
from .llvm import NAMES, Code
from .nodes import Advance, Begin, Choose, Outcome, Piece, Spread
from .ops import Branches, Op, Type
from .order import Guard, Store


@dataclasses.dataclass(frozen=True)
class Places:
    """Byte offsets of operands and outputs in a stage (-1 for shared operands), and of uniform values in their buffer.
    `copied` lists the shared operands that calls read: (operand, first byte, bytes, offset in the buffer). `addresses`
    are the offsets, in the same buffer, of the addresses of shared operands of which lanes read computed rows."""

    lanes: int
    inputs: list[int]
    outputs: list[int]
    stage: int
    uniform: dict[int, int]
    uniform_size: int
    copied: list[tuple[int, int, int, int]]
    addresses: dict[int, int] = dataclasses.field(default_factory=dict)

    def output(self, st: Store, t: Type) -> int:
        return self.outputs[st.output] + st.row * self.lanes * t.bytes


def places(s: Schedule, lanes: int) -> Places:
    """Return the places for vectors of this many lanes."""
    at, inputs, outputs = 0, [], []
    program = s.program
    for rows, t, shared in program.inputs:
        inputs.append(-1 if shared else at)
        at += 0 if shared else _up(rows * lanes * t.bytes)
    for out, t in zip(program.outputs, program.output_types, strict=True):
        outputs.append(at)
        at += _up(len(out) * lanes * t.bytes)
    uniform: dict[int, int] = {}
    end, copied = _copied(s, uniform) if program.calls else (0, [])
    # sorted, so that results of a call have neighbouring places
    for v in sorted(s.read) if program.calls else s.read:
        if v in uniform:
            continue
        size = max(Type(program.type[v]).bytes, 4)
        end = -(-end // size) * size
        uniform[v] = end
        end += size
    tables = sorted({operand_of(program, v) for v, o in enumerate(s.op) if o == Op.entry})
    end = -(-end // 8) * 8
    addresses = {k: end + 8 * n for n, k in enumerate(k for k in tables if program.inputs[k][2])}
    end += 8 * len(addresses)
    return Places(lanes, inputs, outputs, max(at, 64), uniform, _up(max(end, 64)), copied, addresses)


def _copied(s: Schedule, uniform: dict[int, int]) -> tuple[int, list[tuple[int, int, int, int]]]:
    """Assign places to the shared operands that are read, with the same distances as within the operand. Return the
    total number of bytes, and what to copy."""
    program, rows = s.program, {}
    for v in s.read:
        if s.op[v] == Op.input:
            rows.setdefault(s.a[v], []).append(v)
    end, copied = 0, []
    for operand, members in sorted(rows.items()):
        t = program.inputs[operand][1]
        low, high = min(s.b[v] for v in members), max(s.b[v] for v in members)
        end = -(-end // 8) * 8
        copied.append((operand, low * t.bytes, (high + 1 - low) * t.bytes, end))
        for v in members:
            uniform[v] = end + (s.b[v] - low) * t.bytes
        end += (high + 1 - low) * t.bytes
    return end, copied


def _up(n: int) -> int:
    return -(-n // 64) * 64


class Prologue(Code):
    """The code that reads shared operands and writes uniform values to their buffer; it works on single numbers."""

    uniform: dict[int, int] = {}

    def load(self, x: int) -> str:
        s, program = self.s, self.s.program
        t = program.type[x]
        if s.op[x] == Op.call:
            return self.single(self.at("%uniform", self.uniform[x]), t)
        return self.single(self.at(self.address(s.a[x]), s.b[x] * Type(t).bytes), t)

    def address(self, operand: int) -> str:
        return self.line(f"load ptr, ptr {self.at('%operands', 8 * operand)}")

    def entry(self, t: int, operand: int, row: str) -> str:
        at = self.line(f"zext i32 {row} to i64")
        return self.single(self.line(f"getelementptr {NAMES[t]}, ptr {self.address(operand)}, i64 {at}"), t)

    def store(self, v: int, offset: int) -> None:
        t = self.s.program.type[v]
        name, ty = self.use(v), NAMES[t]
        if t == Type.bool_:
            name, ty = self.line(f"zext i1 {name} to i8"), "i8"
        self.lines.append(f"store {ty} {name}, ptr {self.at('%uniform', offset)}")


class Lanes(Code):
    """The code of a piece for one vector of lanes."""

    def __init__(self, s: Schedule, layout: Layout, places: Places, declared: set[str]):
        super().__init__(s, places.lanes, declared)
        self.layout, self.places = layout, places
        #: names of vectors that were read from memory
        self.loaded: set[str] = set()

    def chosen(self, t: int, mask: str, x: str, y: str) -> str:
        # LLVM joins read, choice and write of one place to a masked store, which takes AMD's processors up to 12 cycles
        if y in self.loaded:
            y = self.line(f"freeze {self.type(t)} {y}")
        return super().chosen(t, mask, x, y)

    def read(self, base: str, offset: int, t: int) -> str:
        where = self.at(base, offset)
        align = min(64, self.lanes * Type(t).bytes)
        if t == Type.bool_:
            return self.line(f"trunc {self.vector('i8')} {self._bytes(where, align)} to {self.type(0)}")
        name = self.line(f"load {self.type(t)}, ptr {where}, align {align}")
        self.loaded.add(name)
        return name

    def _bytes(self, where: str, align: int) -> str:
        return self.line(f"load {self.vector('i8')}, ptr {where}, align {align}")

    def write(self, base: str, offset: int, t: int, name: str) -> None:
        ty = self.type(t)
        if t == Type.bool_:
            ty, name = self.vector("i8"), self.line(f"zext {self.type(0)} {name} to {self.vector('i8')}")
        align = min(64, self.lanes * Type(t).bytes)
        self.lines.append(f"store {ty} {name}, ptr {self.at(base, offset)}, align {align}")

    def load(self, x: int) -> str:
        s, t = self.s, self.s.program.type[x]
        if s.is_uniform[x]:
            return self.spread(x, t)
        if s.op[x] == Op.input:
            return self.operand(x, t)
        st = self.layout.direct.get(x)
        if st is not None:
            return self.read("%stage", self.places.output(st, Type(t)), t)
        return self.fetch(self.layout.key(x))

    def spread(self, x: int, t: int) -> str:
        """Return a uniform value, copied to all lanes."""
        return self.everywhere("%uniform", self.places.uniform[x], t)

    def everywhere(self, base: str, offset: int, t: int) -> str:
        """Return one number, copied to all lanes."""
        one, ty = self.single(self.at(base, offset), t), NAMES[t]
        if self.lanes == 1:
            return one
        first = self.line(f"insertelement {self.vector(ty)} poison, {ty} {one}, i64 0")
        mask = f"<{self.lanes} x i32> zeroinitializer"
        return self.line(f"shufflevector {self.vector(ty)} {first}, {self.vector(ty)} poison, {mask}")

    def operand(self, x: int, t: int) -> str:
        s = self.s
        return self.read("%stage", self.places.inputs[s.a[x]] + s.b[x] * self.lanes * Type(t).bytes, t)

    def entry(self, t: int, operand: int, row: str) -> str:
        places, n, name, ty = self.places, self.lanes, "poison", NAMES[t]
        shared = operand in places.addresses
        if shared:
            base = self.line(f"load ptr, ptr {self.at('%uniform', places.addresses[operand])}")
        else:
            base = self.at("%stage", places.inputs[operand])
        for lane in range(n):
            one = self.line(f"extractelement {self.vector('i32')} {row}, i64 {lane}") if n > 1 else row
            at = self.line(f"zext i32 {one} to i64")
            if not shared:
                at = self.line(f"add i64 {self.line(f'mul i64 {at}, {n}')}, {lane}")
            one = self.line(f"load {ty}, ptr {self.line(f'getelementptr {ty}, ptr {base}, i64 {at}')}")
            name = self.line(f"insertelement {self.vector(ty)} {name}, {ty} {one}, i64 {lane}") if n > 1 else one
        return name

    def output(self, st: Store) -> None:
        t = self.s.program.output_types[st.output]
        self.write("%stage", self.places.output(st, t), t, self.use(st.value))

    def fetch(self, key) -> str:
        return self.read("%arena", self.layout.slot[key] * self.lanes, self.layout.type_of(key))

    def keep(self, key, name: str) -> None:
        self.write("%arena", self.layout.slot[key] * self.lanes, self.layout.type_of(key), name)

    def piece(self, piece: Piece, around) -> None:
        """Add the code of all statements. `around` is the key of the mask of lanes in the piece's region, or None for
        all lanes."""
        self.statements(piece.statements, around)

    def statements(self, statements: list, around) -> None:
        for st in statements:
            if isinstance(st, int):
                self.operation(st)
                key = self.layout.home.get(st, st)
                if key in self.layout.slot:
                    self.keep(key, self.names[st])
            elif isinstance(st, Store):
                self.output(st)
            elif isinstance(st, Spread):
                for x in st.values:
                    self.keep(("spread", x), self.use(x))
            elif isinstance(st, Branches):
                self.detour(st)
            else:
                self.control(st, around)

    def detour(self, branches: Branches) -> None:
        """Add the code of a branch that only some lanes take. The code is skipped if no lane of the vector takes the
        branch."""
        s, places = self.s, self.s.changing[branches.index]
        usual = [self.use(branches.outcomes[1][k]) for k in places]
        mask = self.use(branches.predicates[0])
        self.count += 1
        n, before = self.count, dict(self.names)
        some = self.some(mask)
        self.lines += [f"br label %before{n}", f"before{n}:", f"br i1 {some}, label %detour{n}, label %past{n}"]
        self.lines.append(f"detour{n}:")
        for v in s.body[branches.regions[0]]:
            self.operation(v)
        found = []
        for k, old in zip(places, usual, strict=True):
            t = s.program.type[branches.results[k]]
            new = self.chosen(t, mask, self.use(branches.outcomes[0][k]), old)
            found.append((branches.results[k], self.type(t), old, new))
        self.lines += [f"br label %past{n}", f"past{n}:"]
        self.names = before
        for v, ty, old, new in found:
            self.names[v] = self.line(f"phi {ty} [ {old}, %before{n} ], [ {new}, %detour{n} ]")
        for v, *_ in found:
            if v in self.layout.slot:
                self.keep(v, self.names[v])

    def some(self, mask: str) -> str:
        """Return whether any lane of a mask is set."""
        if self.lanes == 1:
            return mask
        w = self.lanes
        self.declared.add(f"declare i1 @llvm.vector.reduce.or.v{w}i1(<{w} x i1>)")
        return self.line(f"call i1 @llvm.vector.reduce.or.v{w}i1(<{w} x i1> {mask})")

    def both(self, x: str, around) -> str:
        """Return the mask `x`, restricted to the lanes of the mask `around`."""
        if around is None:
            return x
        return self.line(f"and {self.type(0)} {x}, {self.fetch(around)}")

    def control(self, st, around) -> None:
        if isinstance(st, Begin):
            new = [(("carry", st.loop.index, k), self.use(st.loop.initial[k])) for k in st.places]
            for key, name in new:
                self.keep(key, name)
        elif isinstance(st, Guard):
            self.keep(("mask", st.loop.index, 0), self.both(self.use(st.loop.condition), around))
        elif isinstance(st, Advance):
            index = st.loop.index
            new = [(("carry", index, k), self.use(st.loop.nexts[k])) for k in st.places]
            self._set(new, self.fetch(("mask", index, 0)))
        elif isinstance(st, Choose):
            left = self.fetch(around) if around else self._ones()
            for k, p in enumerate(st.branches.predicates):
                holds = self.use(p)
                self.keep(("mask", st.branches.index, k), self.line(f"and {self.type(0)} {left}, {holds}"))
                other = self.line(f"xor {self.type(0)} {holds}, {self._ones()}")
                left = self.line(f"and {self.type(0)} {left}, {other}")
            self.keep(("mask", st.branches.index, len(st.branches.predicates)), left)
        else:
            assert isinstance(st, Outcome)
            index = st.branches.index
            outcome = st.branches.outcomes[st.which]
            new = [(("result", index, k), self.use(outcome[k])) for k in st.places]
            self._set(new, self.fetch(("mask", index, st.which)))

    def _ones(self) -> str:
        return "splat (i1 true)" if self.lanes > 1 else "true"

    def _set(self, new, mask: str) -> None:
        made = []
        for key, name in new:
            made.append((key, self.chosen(self.layout.type_of(key), mask, name, self.fetch(key))))
        for key, name in made:
            self.keep(key, name)
