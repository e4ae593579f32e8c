"""Calls of steps as LLVM IR: a function for each kind of step, and tables of addresses.

A *row* of a table is one call: the number of its function, followed by addresses of 32 bits each. Operands and results
whose addresses differ by the same amount in all rows of a function share one address, and an address that is the same
in all rows is part of the code. Thus even a step with thirty operands has only a few addresses. Rows are in the order
of the calls. Tables of many kinds are run by a list of calls, one for each row, so that the processor sees early which
code comes next. Tables of few kinds are run by a loop, whose code does not grow with them: every function returns the
address of the next row.

Calls that follow each other more than once are merged into one function, pair by pair, so that the second one need not
load what the first one computed.
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from .layout import Layout
from .live import Schedule
from .ops import Call, Op, Type
from .order import Store
from .pieces import Lanes, Places
from .templates import Routine

#: calls are merged if they follow each other at least this often; most operations of merged calls; most merged pairs
OFTEN, LONGEST, ROUNDS = 2, 200, 30
#: a table with at most this many rows for each of its kinds is run by a list of calls
LISTED = 10
#: parameters of a function that runs a table
GIVEN = "ptr %stage, ptr %uniform, ptr %arena"
#: the pointers that addresses are relative to
SPACES = {"s": "%stage", "u": "%uniform", "a": "%arena"}


class Kind:
    """Calls that run the same code.

    **Fields:** `parts`, routines, one after the other, each with the spaces of its operands and results, one letter
    each; `base`, for each operand and result, the number of the row's address that it is relative to (None: no
    address), and the offset in bytes; `same`, for an operand that is the result of an earlier part, the number of that
    result.
    """

    def __init__(self, index: int, parts: tuple[tuple[Routine, str], ...]):
        self.index, self.parts = index, parts
        self.spaces = "".join(spaces for _, spaces in parts)
        self.size = sum(routine.size for routine, _ in parts)
        self.rows: list[list[int]] = []
        self.values: list[list[int]] = []
        self.base: list[tuple[int | None, int]] = []
        self.same: dict[int, int] = {}
        self.words = np.zeros((0, 0), np.int32)

    def merge(self) -> None:
        """Find which addresses a row needs, and which results later parts read."""
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
        self._hand_over()

    def _hand_over(self) -> None:
        if len(self.parts) < 2:
            return
        values, given, at = np.array(self.values, np.int64), {}, 0
        for routine, _ in self.parts:
            for j in range(at, at + len(routine.reads)):
                k = given.get(values[:, j].tobytes())
                if k is not None:
                    self.same[j] = k
            at += len(routine.reads)
            given.update((values[:, j].tobytes(), j) for j in range(at, at + len(routine.results)))
            at += len(routine.results)


class _Row(NamedTuple):
    """Consecutive calls: their code, and the values and places of their operands and results."""

    parts: tuple[tuple[Routine, str], ...]
    values: list[int]
    places: list[int]

    def then(self, other: "_Row") -> "_Row":
        return _Row(self.parts + other.parts, self.values + other.values, self.places + other.places)


class Tables:
    """Sequences of calls, and the functions that they need. All names begin with `name`; `lanes` is 1 for code that
    runs once a call of the kernel."""

    def __init__(self, name: str, lanes: int, masks: dict[int, bytes]):
        self.name, self.lanes, self.masks = name, lanes, masks
        self.kinds: dict[tuple, Kind] = {}
        self.made: list[list[_Row]] = []
        self.runs: list[list[tuple[Kind, int]]] = []

    def run(self, calls: Iterable[Call], own: Mapping, shared: Mapping) -> str:
        """Return the name of the function that makes these calls. `own` maps values that each lane has to their (space,
        bytes), `shared` values that all lanes share."""
        rows = []
        for call in calls:
            routine, first, operands = call.template.routine(self.masks[call.index]), call.first, call.operands
            places = [shared[operands[k]] if same else own[operands[k]] for k, same in routine.reads]
            places += [own[first + k] for k in routine.results]
            values = [operands[k] for k, _ in routine.reads] + [first + k for k in routine.results]
            spaces = "".join([s for s, _ in places])
            rows.append(_Row(((routine, spaces),), values, [at for _, at in places]))
        return self._made(rows)

    def moves(self, rows: Iterable[tuple[Routine, list[tuple[str, int]]]]) -> str:
        """Return the name of the function that runs these routines, each with the (space, bytes) of its operands and
        results."""
        made, value = [], itertools.count()
        for routine, places in rows:
            spaces = "".join([s for s, _ in places])
            # distinct numbers, since there are no results to pass on
            values = [-next(value) for _ in places]
            made.append(_Row(((routine, spaces),), values, [at for _, at in places]))
        return self._made(made)

    def _made(self, rows: list[_Row]) -> str:
        self.made.append(rows)
        return f"@{self.name}.run{len(self.made) - 1}"

    def finish(self) -> None:
        """Merge calls that follow each other more than once, then find the addresses of all rows."""
        for _ in range(ROUNDS):
            pair = self._often()
            if pair is None:
                break
            self.made = [_joined(rows, pair) for rows in self.made]
        for rows in self.made:
            run = []
            for row in rows:
                kind = self.kinds.get(row.parts)
                if kind is None:
                    kind = self.kinds[row.parts] = Kind(len(self.kinds), row.parts)
                run.append((kind, len(kind.rows)))
                kind.rows.append(row.places)
                kind.values.append(row.values)
            self.runs.append(run)
        for kind in self.kinds.values():
            kind.merge()

    def _often(self) -> tuple | None:
        """Return the pair of codes that follow each other most often, or None."""
        count: dict[tuple, int] = defaultdict(int)
        for rows in self.made:
            before = None
            for row in rows:
                pair = before, row.parts
                # of three equal codes in a row, only the first two are a pair
                before = None if pair[0] == pair[1] else row.parts
                if pair[0] is not None:
                    count[pair] += 1
        size = lambda pair: sum(routine.size for parts in pair for routine, _ in parts)  # noqa: E731
        found = [(n, -k, pair) for k, (pair, n) in enumerate(count.items()) if n >= OFTEN and size(pair) <= LONGEST]
        return max(found, key=lambda x: x[:2])[2] if found else None

    def function(self, kind: Kind, linkage: str, declared: set[str], fused_apart: bool) -> str:
        """Return the code of a kind for a vector of lanes."""
        code = _Step(kind, self.lanes, declared)
        code.fused_apart = fused_apart
        code.steps()
        spaces = ", ".join(f"ptr noalias {s}" for s in SPACES.values())
        head = f"define {linkage} ptr @{self.name}{kind.index}({spaces}, ptr noalias %row) nounwind noinline {{"
        end = f"%next = getelementptr i8, ptr %row, i64 {4 * kind.words.shape[1]}"
        return "\n".join([head, *code.lines, end, "ret ptr %next", "}"])

    def text(self) -> str:
        """Return the tables, and the functions that run all rows of a table for one vector."""
        out = []
        for k, run in enumerate(self.runs):
            words = np.concatenate([*(kind.words[row] for kind, row in run), np.full(1, -1, np.int32)])
            data = "".join([_BYTES[b] for b in words.astype("<i4").tobytes()])
            out.append(f'@{self.name}.rows{k} = internal constant [{4 * len(words)} x i8] c"{data}", align 64')
            out.append(f"define internal void @{self.name}.run{k}({GIVEN}) nounwind noinline {{")
            if len(run) > LISTED * len({kind for kind, _ in run}):
                out.append(f"call void @{self.name}.each({GIVEN}, ptr @{self.name}.rows{k})")
            else:
                out += self._listed(k, run)
            out += ["ret void", "}"]
        names = ", ".join(f"ptr @{self.name}{k}" for k in range(len(self.kinds)))
        out.append(f"@{self.name}.all = internal constant [{len(self.kinds)} x ptr] [{names}]")
        return "\n".join(out) + ROWS.replace("@@NAME@@", self.name)

    def _listed(self, table: int, run: list[tuple[Kind, int]]) -> Iterable[str]:
        at = 0
        for n, (kind, _) in enumerate(run):
            yield f"%row{n} = getelementptr i8, ptr @{self.name}.rows{table}, i64 {4 * at}"
            yield f"%next{n} = call ptr @{self.name}{kind.index}({GIVEN}, ptr %row{n})"
            at += kind.words.shape[1]


def _joined(rows: list[_Row], pair: tuple) -> list[_Row]:
    """Return the rows, merged wherever the two codes of `pair` follow each other."""
    out: list[_Row] = []
    last = False
    for row in rows:
        if not last and out and (out[-1].parts, row.parts) == pair:
            out[-1] = out[-1].then(row)
            last = True
        else:
            out.append(row)
            last = False
    return out


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
    """The layout of a step, which has no slots because only its results leave it."""

    slot: dict = {}
    home: dict = {}


class _Step(Lanes):
    """The code of routines for a vector of lanes."""

    def __init__(self, kind: Kind, lanes: int, declared: set[str]):
        places = Places(lanes, [], [], 0, {}, 0, [])
        schedule = kind.parts[0][0].schedule
        super().__init__(schedule, _NoSlots(), places, declared)  # pyright: ignore[reportArgumentType]
        self.kind, self.first, self.routine = kind, 0, kind.parts[0][0]
        self.number: dict[int, int] = {}
        self.bases: dict[int, str] = {}
        #: by result, the name of its value
        self.handed: dict[int, str] = {}

    def steps(self) -> None:
        for routine, spaces in self.kind.parts:
            self.routine, self.s, self.names = routine, routine.schedule, {}
            self.number = {k: self.first + j for j, (k, _) in enumerate(routine.reads)}
            self.statements(self.s.body[0], None)
            self.first += len(spaces)

    def place(self, j: int) -> tuple[str, int]:
        """Return a pointer, and an offset in bytes, to an operand or a result."""
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
        handed = self.handed.get(self.kind.same.get(self.number[k], -1))
        if handed is not None:
            return handed
        base, offset = self.place(self.number[k])
        if self.s.program.inputs[k][2]:
            return self.everywhere(base, offset, t)
        return self.read(base, offset, t)

    def output(self, st: Store) -> None:
        t = self.s.program.output_types[st.output]
        j = self.first + len(self.routine.reads) + st.output
        base, offset = self.place(j)
        self.handed[j] = self.use(st.value)
        self.write(base, offset, t, self.handed[j])


class InLanes(dict):
    """The places (space, bytes) of values that each lane has, found on demand."""

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
    """The places (space, bytes) of values that all lanes share."""

    def __init__(self, places: Places):
        self.update((x, ("u", at)) for x, at in places.uniform.items())
