"""Calls as LLVM IR: a function a kind of step, and tables of addresses.

A *row* of a table is one call: the number of its function, then addresses, 32 bits each. Operands and results whose
addresses differ by the same amount in all rows of a function share one of them; an address that never changes is part
of the code. So a step of thirty operands has a few addresses only. Rows follow each other in the order of the calls,
and every function returns where the next row begins.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from .layout import Layout
from .live import Schedule
from .ops import Call, Op, Type
from .order import Store
from .pieces import Lanes, Places
from .templates import Routine

#: what an address is counted from
SPACES = {"s": "%stage", "u": "%uniform", "a": "%arena"}


class Kind:
    """Calls that run the same code: a routine whose operands and results lie in `spaces`, a letter each. `base`, by
    operand and result, which of the row's addresses it is counted from, or None, and the bytes from there."""

    def __init__(self, index: int, routine: Routine, spaces: str):
        self.index, self.routine, self.spaces = index, routine, spaces
        self.rows: list[list[int]] = []
        self.base: list[tuple[int | None, int]] = []
        self.words = np.zeros((0, 0), np.int32)

    def merge(self) -> None:
        """Find which addresses a row needs."""
        places = np.array(self.rows, np.int64).reshape(len(self.rows), len(self.spaces))
        moves = places - places[:1]
        groups: dict[tuple, list[int]] = {}
        for j, (space, column) in enumerate(zip(self.spaces, moves.T, strict=True)):
            groups.setdefault((space, column.tobytes()) if column.any() else (), []).append(j)
        constant = groups.pop((), [])
        self.base = [(None, int(places[0, j])) for j in range(len(self.spaces))]
        first = []
        for k, members in enumerate(groups.values()):
            low = min(members, key=lambda j: places[0, j])
            first.append(low)
            for j in members:
                self.base[j] = k, int(places[0, j] - places[0, low])
        assert len(constant) + sum(map(len, groups.values())) == len(self.spaces)
        self.words = np.concatenate([np.full((len(places), 1), self.index), places[:, first]], 1).astype(np.int32)


class Tables:
    """Runs of calls, and the functions that they need. `name` begins the names of all that is made; `lanes` is 1 for
    what is made once a call of the kernel."""

    def __init__(self, name: str, lanes: int, masks: dict[int, bytes]):
        self.name, self.lanes, self.masks = name, lanes, masks
        self.kinds: dict[tuple, Kind] = {}
        self.runs: list[list[tuple[Kind, int]]] = []

    def run(self, calls: Iterable[Call], own: Mapping, shared: Mapping) -> str:
        """The name of the table of these calls. (space, bytes) of values that each lane has, and of what all share."""
        rows = []
        for call in calls:
            routine, first, operands = call.template.routine(self.masks[call.index]), call.first, call.operands
            places = [shared[operands[k]] if same else own[operands[k]] for k, same in routine.reads]
            places += [own[first + k] for k in routine.results]
            spaces = "".join([s for s, _ in places])
            kind = self.kinds.get((routine, spaces))
            if kind is None:
                kind = self.kinds[routine, spaces] = Kind(len(self.kinds), routine, spaces)
            rows.append((kind, len(kind.rows)))
            kind.rows.append([at for _, at in places])
        self.runs.append(rows)
        return f"@{self.name}.rows{len(self.runs) - 1}"

    def finish(self) -> None:
        for kind in self.kinds.values():
            kind.merge()

    def function(self, kind: Kind, linkage: str, declared: set[str], fused_apart: bool) -> str:
        """A kind's code for a vector of lanes."""
        code = _Step(kind, self.lanes, declared)
        code.fused_apart = fused_apart
        code.steps()
        spaces = ", ".join(f"ptr noalias {s}" for s in SPACES.values())
        head = f"define {linkage} ptr @{self.name}{kind.index}({spaces}, ptr noalias %row) nounwind noinline {{"
        end = f"%next = getelementptr i8, ptr %row, i64 {4 * kind.words.shape[1]}"
        return "\n".join([head, *code.lines, end, "ret ptr %next", "}"])

    def text(self) -> str:
        """The tables, and what goes over one of them for one vector."""
        out = []
        for k, run in enumerate(self.runs):
            words = np.concatenate([*(kind.words[row] for kind, row in run), np.full(1, -1, np.int32)])
            data = "".join([_BYTES[b] for b in words.astype("<i4").tobytes()])
            out.append(f'@{self.name}.rows{k} = internal constant [{4 * len(words)} x i8] c"{data}", align 64')
        names = ", ".join(f"ptr @{self.name}{k}" for k in range(len(self.kinds)))
        out.append(f"@{self.name}.all = internal constant [{len(self.kinds)} x ptr] [{names}]")
        return "\n".join(out) + ROWS.replace("@@NAME@@", self.name)


_BYTES = [f"\\{b:02X}" for b in range(256)]

ROWS = """
define internal void @@@NAME@@.each(ptr %stage, ptr %uniform, ptr %arena, ptr %table) nounwind noinline {
  br label %look
look:
  %row = phi ptr [ %table, %0 ], [ %next, %step ]
  %kind = load i32, ptr %row, align 4
  %more = icmp sge i32 %kind, 0
  br i1 %more, label %step, label %end
step:
  %k = zext i32 %kind to i64
  %place = getelementptr ptr, ptr @@@NAME@@.all, i64 %k
  %f = load ptr, ptr %place, align 8
  %next = call ptr %f(ptr %stage, ptr %uniform, ptr %arena, ptr %row)
  br label %look
end:
  ret void
}
"""


class _NoSlots:
    """What stands for the layout of a step: nothing crosses from it to others but its results."""

    slot: dict = {}


class _Step(Lanes):
    """A routine for a vector of lanes."""

    def __init__(self, kind: Kind, lanes: int, declared: set[str]):
        places = Places(lanes, [], [], 0, {}, 0, [])
        super().__init__(kind.routine.schedule, _NoSlots(), places, declared)  # pyright: ignore[reportArgumentType]
        self.kind = kind
        self.number = {k: j for j, k in enumerate(k for k, _ in kind.routine.reads)}
        self.bases: dict[int, str] = {}

    def steps(self) -> None:
        self.statements(self.s.body[0], None)

    def place(self, j: int) -> tuple[str, int]:
        """A pointer and the bytes from there, of an operand or a result."""
        k, offset = self.kind.base[j]
        space = SPACES[self.kind.spaces[j]]
        if k is None:
            return space, offset
        if k not in self.bases:
            word = self.line(f"load i32, ptr {self.at('%row', 4 * (k + 1))}, align 4")
            wide = self.line(f"sext i32 {word} to i64")
            self.bases[k] = self.line(f"getelementptr i8, ptr {space}, i64 {wide}")
        return self.bases[k], offset

    def load(self, x: int) -> str:
        k, t = self.s.a[x], self.s.program.type[x]
        base, offset = self.place(self.number[k])
        if self.s.program.inputs[k][2]:
            return self.everywhere(base, offset, t)
        return self.read(base, offset, t)

    def output(self, st: Store) -> None:
        t = self.s.program.output_types[st.output]
        base, offset = self.place(len(self.kind.routine.reads) + st.output)
        self.write(base, offset, t, self.use(st.value))


class InLanes(dict):
    """Where values lie that lanes have, (space, bytes)."""

    def __init__(self, s: Schedule, layout: Layout, places: Places):
        self.s, self.layout, self.places = s, layout, places

    def __missing__(self, x: int) -> tuple[str, int]:
        s, layout, places, lanes = self.s, self.layout, self.places, self.places.lanes
        if x < 0 or s.is_uniform[x]:
            found = "a", layout.slot["spread", x] * lanes
        elif s.op[x] == Op.input:
            found = "s", places.inputs[s.a[x]] + s.b[x] * lanes * Type(s.program.type[x]).bytes
        elif x in layout.direct:
            found = "s", places.output(layout.direct[x], Type(s.program.type[x]))
        else:
            found = "a", layout.slot[layout.key(x)] * lanes
        self[x] = found
        return found


class Shared(dict):
    """Where values lie that all lanes share, (space, bytes)."""

    def __init__(self, places: Places):
        self.update((x, ("u", at)) for x, at in places.uniform.items())
