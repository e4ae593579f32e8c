"""Steps as small programs of their own, made once for every pattern of what a step is given.

A *pattern* tells of each number that a step reads what is known before the program runs: which constant it is, whether
all lanes share it, which of the other numbers it equals or is the negative of. A step's program for a pattern is folded
and fused by itself, whoever calls it, and is cut into what all lanes share and the rest: two *templates*. So straight
programs, into which templates are copied, and called ones have the same bits.
"""

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from .ops import DTYPES, Branches, Loop, Op, Type
from .order import schedule
from .program import Program

#: of a number in a pattern: all lanes share it; it is the negative of the one with its label
SHARED, MINUS = 2, 1
_LABEL = 4

#: numbers of constants in patterns, the same in all programs
_constants: dict[tuple[int, bytes], int] = {}
_values: list[tuple] = []


def numbered(value, t: int) -> int:
    """The number of a constant in patterns, negative."""
    key = (t, value.tobytes())
    found = _constants.get(key)
    if found is None:
        found = _constants[key] = -1 - len(_values)
        _values.append((value, t))
    return found


class Template:
    """A program without loops whose operands are single numbers. `types` are those of its results; `uniform`, whether
    all lanes share all that it reads; `size`, its operations."""

    def __init__(self, program: Program, outputs: Sequence[int], uniform: bool):
        self.program, self.outputs, self.uniform = program, list(outputs), uniform
        self.types = [program.type[v] for v in outputs]
        self._deps = _dependencies(program)
        self._reads: dict[bytes, list[int]] = {}
        self._routines: dict[bytes, Routine] = {}
        self._key = b""
        self.size = self.routine(b"\1" * len(self.outputs)).size

    def key(self) -> bytes:
        """What it is, as bytes."""
        if not self._key:
            self._key = self.program.key() + repr((self.outputs, self.uniform)).encode()
        return self._key

    def reads(self, mask: bytes) -> list[int]:
        """The operands that those results depend on; `mask` has a byte for every result."""
        found = self._reads.get(mask)
        if found is None:
            bits = 0
            for v, wanted in zip(self.outputs, mask, strict=True):
                bits |= self._deps[v] if wanted else 0
            found = self._reads[mask] = [k for k in range(len(self.program.inputs)) if bits >> k & 1]
        return found

    def routine(self, mask: bytes) -> "Routine":
        """The code for those results."""
        found = self._routines.get(mask)
        if found is None:
            found = self._routines[mask] = Routine(self, mask)
        return found


def _dependencies(program: Program) -> list[int]:
    """By value, the operands that it depends on, as bits."""
    found: list[int] = []
    for v, o in enumerate(program.op):
        if o == Op.input:
            bits = 1 << program.a[v] if program.a[v] >= 0 else 0
        elif o == Op.result:
            owner, k = program.owners[program.a[v]], program.b[v]
            assert isinstance(owner, Branches)
            bits = 0
            for x in (*owner.predicates, *(out[k] for out in owner.outcomes)):
                bits |= found[x] if x >= 0 else 0
        else:
            bits = 0
            for x in (program.a[v], program.b[v], program.c[v]):
                bits |= found[x] if x >= 0 else 0
        found.append(bits)
    return found


class Routine:
    """The fused, ordered code of a template for some of its results. `results` are their numbers; its schedule stores
    the k-th of them as output k; `reads` are the operands that it needs, with whether all lanes share them; `size`, its operations."""

    def __init__(self, template: Template, mask: bytes):
        program = copy.copy(template.program)
        program.owners = [copy.copy(o) for o in program.owners]
        self.template, self.mask = template, mask
        self.results = [k for k, wanted in enumerate(mask) if wanted]
        self.reads = [(k, program.inputs[k][2]) for k in template.reads(mask)]
        program.outputs = [[template.outputs[k]] for k in self.results]
        program.output_types = [Type(template.types[k]) for k in self.results]
        self.schedule = schedule(program)
        self.size = len(self.schedule.uniform) + sum(
            isinstance(st, int) for body in self.schedule.body.values() for st in body
        )
        if template.uniform:
            self.size -= len(self.reads)


class Cut(NamedTuple):
    """A step for a pattern: its templates, and which of the pattern's numbers they read. `lanes` also reads all results
    of `uniform`, after the others. `results`: per number that the step gives (kind, k, whether negative); the kind is
    "constant", "operand", "uniform" or "lanes"."""

    uniform: Template | None
    given: list[int]
    lanes: Template | None
    read: list[int]
    results: list[tuple[str, int, bool]]


_cuts: dict[tuple, tuple] = {}


def cut(closed, shapes, added: Sequence[int], pattern: tuple[int, ...], run: Callable) -> Cut | None:
    """The templates of a step for a pattern, None if it has loops. `shapes` are those of its operands; the pattern goes
    on, after their numbers, with the numbers to which results are added: `added` has the types of all of those."""
    key = id(closed), pattern
    found = _cuts.get(key)
    if found is None:
        found = _cuts[key] = closed, _made(closed, shapes, added, pattern, run)
    return found[1]


def _made(closed, shapes, added, pattern, run) -> Cut | None:
    program = Program()
    program.nested = True
    types = [t for shape, t in shapes for _ in range(int(np.prod(shape)))] + list(added)
    values = _operands(program, types, pattern)
    args, at = [], 0
    for shape, _ in shapes:
        size = int(np.prod(shape))
        args.append(np.array(values[at : at + size], np.int64).reshape(shape))
        at += size
    with np.errstate(all="ignore"):
        outs = [x for o in run(program, closed, args) for x in o.ravel().tolist()]
    outs = [program.add(old, x) for old, x in zip(values[at:], outs, strict=True)]
    if any(isinstance(o, Loop) for o in program.owners):
        return None
    return _parted(program, outs)


def _operands(program: Program, types, pattern) -> list[int]:
    """The values that a pattern stands for, one operand a label."""
    values, labels = [], {}
    for t, p in zip(types, pattern, strict=True):
        if p < 0:
            value, t = _values[-1 - p]
            values.append(program.constant(value, t))
            continue
        label = p // _LABEL
        if label not in labels:
            labels[label] = len(program.inputs)
            program.inputs.append((1, Type(t), bool(p & SHARED)))
        x = program.input(labels[label], 0, t)
        values.append(program.neg(x) if p & MINUS else x)
    return values


def _parted(program: Program, outs: list[int]) -> Cut:
    """A step's program as templates."""
    bare = [program.a[x] if x >= 0 and program.op[x] == Op.neg else x for x in outs]
    same = program.uniform()
    wanted = list(dict.fromkeys(x for x in bare if x >= 0 and program.op[x] != Op.input))
    own = [x for x in wanted if not same[x]]
    shared = [x for x in wanted if same[x]]
    shared += [x for x in _read(program, own, same) if x not in shared]
    uniform, given = _template(program, shared, [], True)
    lanes, read = _template(program, own, shared, False)
    results = []
    for x, b in zip(outs, bare, strict=True):
        if b < 0:
            results.append(("constant", numbered(program.value(b), program.type_of(b)), False))
        elif program.op[b] == Op.input:
            results.append(("operand", program.a[b], x != b))
        else:
            results.append(("uniform", shared.index(b), x != b) if same[b] else ("lanes", own.index(b), x != b))
    return Cut(uniform, given, lanes, read, results)


def _read(program: Program, wanted: list[int], same: list[bool]) -> list[int]:
    """What all lanes share of what the other values read, operands left out."""
    found: dict[int, None] = {}
    seen, todo = set(), list(reversed(wanted))
    while todo:
        v = todo.pop()
        if v < 0 or v in seen or program.op[v] == Op.input:
            continue
        seen.add(v)
        if same[v]:
            found[v] = None
        elif program.op[v] == Op.result:
            owner = program.owners[program.a[v]]
            todo += [*owner.predicates, *(o[program.b[v]] for o in owner.outcomes)]
        else:
            todo += [program.a[v], program.b[v], program.c[v]]
    return list(found)


def _template(program: Program, outputs: list[int], shared: list[int], uniform: bool) -> tuple[Template | None, list]:
    """The template of those values, given `shared` ones, and the operands that it has before those."""
    if not outputs:
        return None, []
    part = copy.copy(program)
    part.op, part.a, part.b, part.inputs = list(part.op), list(part.a), list(part.b), list(part.inputs)
    for x in shared:
        part.op[x], part.a[x], part.b[x] = Op.input, len(part.inputs), 0
        part.inputs.append((1, Type(part.type[x]), True))
    deps = _dependencies(part)
    bits = 0
    for x in outputs:
        bits |= deps[x]
    first = len(program.inputs)
    read = [k for k in range(first) if bits >> k & 1]
    place = {k: j for j, k in enumerate([*read, *range(first, len(part.inputs))])}
    part.a = [place.get(a, -1) if o == Op.input else a for o, a in zip(part.op, part.a, strict=True)]
    # what all lanes share is computed for one lane, where it is ordinary
    part.inputs = [(1, part.inputs[k][1], part.inputs[k][2] and not uniform) for k in place]
    return Template(part, outputs, uniform), read


def sweep(program: Program, table, given: Sequence[np.ndarray], run: Callable, type_of: Callable) -> list[np.ndarray]:
    """The outputs of a sweep: its steps' templates, called one after the other. `run` makes a closed jaxpr's code."""
    return _Rows(program, table, given, run, type_of).outputs()


class _Rows:
    """The rows of a sweep. Cells are lists of values."""

    def __init__(self, program, table, given, run, type_of):
        self.program, self.table, self.run = program, table, run
        self.type_of = type_of
        self.held = [[c.ravel().tolist() for c in x] for x in given]
        for a, i in zip(table.outputs, table.initial, strict=True):
            zero = program.constant(0, type_of(a.dtype))
            size = int(np.prod(a.shape))
            self.held.append([[zero] * size for _ in range(a.cells)] if i is None else [list(c) for c in self.held[i]])
        self.parts = [self.part(kind) for kind in table.kinds]
        #: numbers in patterns, by constant
        self.numbers: dict[int, int] = {}

    def part(self, kind):
        """Shapes and types of a kind's operands; types of the numbers that it gives; sizes of cells written."""
        jaxpr = kind.jaxpr.jaxpr
        shapes = [(v.aval.shape, self.type_of(v.aval.dtype)) for v in jaxpr.invars]
        types, sizes = [], []
        for v, (_, count) in zip(jaxpr.outvars, kind.writes, strict=True):
            size = int(np.prod(v.aval.shape))
            types += [self.type_of(v.aval.dtype)] * size
            sizes.append(size if count is None else size // max(count, 1))
        return shapes, types, sizes

    def outputs(self) -> list[np.ndarray]:
        for index, reads, writes in self.table.rows:
            self.row(index, reads, writes)
        n = len(self.table.inputs)
        shaped = zip(self.held[n:], self.table.outputs, strict=True)
        return [np.array(h, np.int64).reshape(a.cells, *a.shape) for h, a in shaped]

    def row(self, index, reads, writes) -> None:
        kind, (shapes, types, sizes), held = self.table.kinds[index], self.parts[index], self.held
        flat: list[int] = []
        for (a, n), s in zip(kind.reads, reads, strict=True):
            if n is None:
                flat += held[a][s]
            else:
                for cell in held[a][s : s + n]:
                    flat += cell
        read = len(flat)
        for (a, n), s in zip(kind.writes, writes, strict=True):
            for c in range(s, s + (1 if n is None else n)):
                flat += held[a][c]
        found = self.called(kind.jaxpr, shapes, types, flat, read)
        at = 0
        for (a, n), s, size in zip(kind.writes, writes, sizes, strict=True):
            for c in range(s, s + (1 if n is None else n)):
                held[a][c] = found[at : at + size]
                at += size

    def called(self, closed, shapes, types, flat: list[int], read: int) -> list[int]:
        """The numbers that a step gives, with those added that are there."""
        program = self.program
        pattern, operands = self.pattern(flat)
        made = None if program.nested else cut(closed, shapes, types, pattern, self.run)
        if made is None:
            return self.straight(closed, shapes, flat, read)
        first = then = 0
        if made.uniform is not None:
            first = program.call(made.uniform, [operands[k] for k in made.given])
        if made.lanes is not None:
            shared = range(first, first + len(made.uniform.types)) if made.uniform is not None else ()
            then = program.call(made.lanes, [*[operands[k] for k in made.read], *shared])
        out = []
        for kind, k, minus in made.results:
            if kind == "lanes":
                x = then + k
            elif kind == "uniform":
                x = first + k
            elif kind == "operand":
                x = operands[k]
            else:
                value, t = _values[-1 - k]
                x = program.constant(value, t)
            out.append(program.neg(x) if minus else x)
        return out

    def straight(self, closed, shapes, flat, read) -> list[int]:
        args, at = [], 0
        for shape, _ in shapes:
            size = int(np.prod(shape))
            args.append(np.array(flat[at : at + size], np.int64).reshape(shape))
            at += size
        outs = [x for o in self.run(self.program, closed, args) for x in o.ravel().tolist()]
        return [self.program.add(old, x) for old, x in zip(flat[read:], outs, strict=True)]

    def pattern(self, flat: list[int]) -> tuple[tuple[int, ...], list[int]]:
        """What is known of values, and those that are no constants, once each."""
        program, numbers = self.program, self.numbers
        same, op = program.uniform(), program.op
        found, seen, operands = [], {}, []
        for x in flat:
            if x < 0:
                k = numbers.get(x)
                if k is None:
                    k = numbers[x] = numbered(program.value(x), program.type_of(x))
                found.append(k)
                continue
            p = seen.get(x)
            if p is None:
                minus = op[x] == Op.neg
                bare = program.a[x] if minus else x
                p = seen.get(bare)
                if p is None:
                    p = seen[bare] = _LABEL * len(operands) + (SHARED if same[bare] else 0)
                    operands.append(bare)
                if minus:
                    p = seen[x] = p + MINUS
            found.append(p)
        return tuple(found), operands
