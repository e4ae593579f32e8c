"""Steps as small programs of their own, one for each pattern of operands.

A *pattern* says what is known of each number that a step reads before the program runs: which constant it is, whether
all lanes share it, and which of the other numbers it equals or is the negative of. The step's program for a pattern is
folded and fused by itself, whoever calls it. It is split into the part that all lanes share and the rest: two
*templates*. Therefore programs into which templates are copied give the same bits as programs that call them.
"""

import copy
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from . import trigonometry
from .calling import uniform
from .kept import PARTS, Kept
from .locks import Lock
from .ops import Loop, Op, Type, flat, unflat
from .order import schedule
from .program import Program

#: flags of a number in a pattern: all lanes share it; it is the negative of the number with its label
SHARED, MINUS = 2, 1
LABEL = 4

#: constants by their number in patterns, which is the same in all programs
_constants: dict[tuple[int, bytes], int] = {}
VALUES: list[tuple] = []
_lock = Lock()


def constant(program: Program, k: int) -> int:
    """Return the program's constant for constant `k` of patterns."""
    return program.constant(*VALUES[-1 - k])


def numbered(value, t: int) -> int:
    """Return the number, which is negative, of a constant in patterns."""
    key = (t, value.tobytes())
    found = _constants.get(key)
    if found is None:
        with _lock:
            if key not in _constants:
                VALUES.append((value, t))
                _constants[key] = -len(VALUES)
            found = _constants[key]
    return found


class Template:
    """A program without loops whose operands are single numbers. `types` are the types of its results; `uniform` says
    whether all lanes share everything that it reads; `size` is its number of operations."""

    def __init__(self, program: Program, outputs: Sequence[int], uniform: bool):
        self.program, self.outputs, self.uniform = program, list(outputs), uniform
        self.types = [program.type_of(v) for v in outputs]
        self._deps = _dependencies(program)
        self._reads: dict[bytes, list[int]] = {}
        self._routines: dict[bytes, Routine] = {}
        self._key = b""
        self.size = self.routine(b"\1" * len(self.outputs)).size

    def key(self) -> bytes:
        """Return the template as bytes, which are the same for equal templates."""
        if not self._key:
            self._key = self.program.key() + repr((self.outputs, self.uniform)).encode()
        return self._key

    def reads(self, mask: bytes) -> list[int]:
        """Return the operands that the marked results depend on; `mask` has a byte for every result."""
        found = self._reads.get(mask)
        if found is None:
            bits = 0
            for v, wanted in zip(self.outputs, mask, strict=True):
                bits |= self._deps[v] if wanted and v >= 0 else 0
            found = self._reads[mask] = [k for k in range(len(self.program.inputs)) if bits >> k & 1]
        return found

    def routine(self, mask: bytes) -> "Routine":
        """Return the code that computes the marked results."""
        found = self._routines.get(mask)
        if found is None:
            found = self._routines[mask] = Routine(self, mask)
        return found


def sine_and_cosine(t: Type, shared: bool) -> Template:
    """Return the template that computes sine and cosine of a number. Equal arguments give the same object."""
    return _turns.get((t, shared), lambda: _turn(t, shared))


def _turn(t: Type, shared: bool) -> Template:
    program = Program()
    program.inputs.append((1, t, shared))
    x = program.input(0, 0, t)
    made, _ = _template(program, [trigonometry.sin(program, x), trigonometry.cos(program, x)], [], shared)
    assert made is not None
    return made


def _dependencies(program: Program) -> list[int]:
    """Return, for each value, a bit mask of the operands that it depends on."""
    found: list[int] = []
    for v, o in enumerate(program.op):
        if o == Op.input:
            found.append(1 << program.a[v] if program.a[v] >= 0 else 0)
            continue
        read = (program.a[v], program.b[v], program.c[v])
        bits = 0
        for x in program.owners[program.a[v]].behind(program.b[v]) if o == Op.result else read:
            bits |= found[x] if x >= 0 else 0
        found.append(bits)
    return found


class Routine:
    """The fused and ordered code that computes some results of a template.

    **Fields:** `results`, the numbers of these results (the schedule stores the k-th of them as output k); `reads`, the
    operands that it reads, and whether all lanes share them; `size`, its number of operations.
    """

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
    """The templates of a step for a pattern, and which of the pattern's numbers they read. Sine and cosine of the
    numbers in `turned` follow after the pattern's numbers. `lanes` also reads all results of `uniform`, as its last
    operands. `results`: for each number that the step returns, (kind, k, whether negative), where the kind is
    "constant", "operand", "uniform" or "lanes"."""

    turned: list[int]
    uniform: Template | None
    given: list[int]
    lanes: Template | None
    read: list[int]
    results: list[tuple[str, int, bool]]


_cuts, _turns = Kept(PARTS), Kept(PARTS)


def cut(closed, shapes, added: Sequence[int], pattern: tuple[int, ...], run: Callable) -> Cut | None:
    """Return the templates of a step for a pattern, or None if the step has loops.

    `shapes` are those of the step's operands. After the operands' numbers, the pattern lists the numbers that the
    results are added to; `added` holds the types of all of these.
    """
    # keep a reference to the jaxpr, so that no other one gets its id
    return _cuts.get((id(closed), pattern), lambda: (closed, _made(closed, shapes, added, pattern, run)))[1]


def _made(closed, shapes, added, pattern, run) -> Cut | None:
    program = Program()
    program.nested = True
    types = [t for shape, t in shapes for _ in range(int(np.prod(shape)))] + list(added)
    values = _operands(program, types, pattern)
    args = unflat(values, [shape for shape, _ in shapes])
    with np.errstate(all="ignore"):
        outs = flat(run(program, closed, args))
    outs = [program.add(old, x) for old, x in zip(values[len(values) - len(added) :], outs, strict=True)]
    if any(isinstance(o, Loop) for o in program.owners):
        return None
    return _parted(program, outs)


def _operands(program: Program, types, pattern) -> list[int]:
    """Return the values of a pattern, with one operand for each label."""
    values, labels = [], {}
    for t, p in zip(types, pattern, strict=True):
        if p < 0:
            value, t = VALUES[-1 - p]
            values.append(program.constant(value, t))
            continue
        label = p // LABEL
        if label not in labels:
            labels[label] = len(program.inputs)
            program.inputs.append((1, Type(t), bool(p & SHARED)))
        x = program.input(labels[label], 0, t)
        values.append(program.neg(x) if p & MINUS else x)
    return values


def _parted(program: Program, outs: list[int]) -> Cut:
    """Split a step's program into templates."""
    bare = [program.a[x] if x >= 0 and program.op[x] == Op.neg else x for x in outs]
    same = uniform(program)
    wanted = list(dict.fromkeys(x for x in bare if x >= 0 and program.op[x] != Op.input))
    own = [x for x in wanted if not same[x]]
    shared = [x for x in wanted if same[x]]
    shared += [x for x in _read(program, own, same) if x not in shared]
    common, given = _template(program, shared, [], True)
    lanes, read = _template(program, own, shared, False)
    results = []
    for x, b in zip(outs, bare, strict=True):
        if b < 0:
            results.append(("constant", numbered(program.value(b), program.type_of(b)), False))
        elif program.op[b] == Op.input:
            results.append(("operand", program.a[b], x != b))
        else:
            results.append(("uniform", shared.index(b), x != b) if same[b] else ("lanes", own.index(b), x != b))
    turned = [program.a[x] for x in program.borrowed]
    return Cut(turned, common, given, lanes, read, results)


def _read(program: Program, wanted: list[int], same: list[bool]) -> list[int]:
    """Return the values that all lanes share and that the values `wanted`, which differ between lanes, read, without
    operands."""
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
            todo += program.owners[program.a[v]].behind(program.b[v])
        else:
            todo += [program.a[v], program.b[v], program.c[v]]
    return list(found)


def _template(program: Program, outputs: list[int], shared: list[int], uniform: bool) -> tuple[Template | None, list]:
    """Return the template of the values `outputs`, and the operands that it reads. The `shared` values follow these as
    further operands."""
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
    # a uniform template is computed for a single lane, where no operand is marked as shared
    part.inputs = [(1, part.inputs[k][1], part.inputs[k][2] and not uniform) for k in place]
    return Template(part, outputs, uniform), read
