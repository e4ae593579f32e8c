"""The rows of a sweep in a program: each row is a call of a template."""

from collections.abc import Callable, Sequence

import numpy as np

from .calling import call, uniform
from .ops import Op, Type, flat, unflat
from .program import Program
from .templates import LABEL, MINUS, SHARED, constant, cut, numbered, sine_and_cosine


def sweep(program: Program, table, given: Sequence[np.ndarray], run: Callable, type_of: Callable) -> list[np.ndarray]:
    """Return the outputs of a sweep, by calling the templates of its steps one after the other. `run` adds the code of
    a closed jaxpr to the program."""
    return _Rows(program, table, given, run, type_of).outputs()


class _Rows:
    """The rows of a sweep. A cell is a list of values."""

    def __init__(self, program, table, given, run, type_of):
        self.program, self.table, self.run = program, table, run
        self.type_of = type_of
        self.held = [[c.ravel().tolist() for c in x] for x in given]
        for a, i in zip(table.outputs, table.initial, strict=True):
            zero = program.constant(0, type_of(a.dtype))
            size = int(np.prod(a.shape))
            self.held.append([[zero] * size for _ in range(a.cells)] if i is None else [list(c) for c in self.held[i]])
        self.parts = [self.part(kind) for kind in table.kinds]
        #: the number in patterns of each constant
        self.numbers: dict[int, int] = {}

    def part(self, kind):
        """Return the shapes and types of a kind's operands, the types of its results, and the sizes of the cells that
        it writes."""
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
        values: list[int] = []
        for (a, n), s in zip(kind.reads, reads, strict=True):
            if n is None:
                values += held[a][s]
            else:
                for cell in held[a][s : s + n]:
                    values += cell
        read = len(values)
        for (a, n), s in zip(kind.writes, writes, strict=True):
            for c in range(s, s + (1 if n is None else n)):
                values += held[a][c]
        found = self.called(kind.jaxpr, shapes, types, values, read)
        at = 0
        for (a, n), s, size in zip(kind.writes, writes, sizes, strict=True):
            for c in range(s, s + (1 if n is None else n)):
                held[a][c] = found[at : at + size]
                at += size

    def called(self, closed, shapes, types, values: list[int], read: int) -> list[int]:
        """Return the numbers that a step computes, added to the present content of the cells that it writes."""
        program = self.program
        pattern, operands = self.pattern(values)
        made = None if program.nested else cut(closed, shapes, types, pattern, self.run)
        if made is None:
            return self.straight(closed, shapes, values, read)
        for k in made.turned:  # the operand may itself be a sine or cosine appended here
            operands += self.turned(operands[k])
        first = then = 0
        if made.uniform is not None:
            first = call(program, made.uniform, [operands[k] for k in made.given])
        if made.lanes is not None:
            shared = range(first, first + len(made.uniform.types)) if made.uniform is not None else ()
            then = call(program, made.lanes, [*[operands[k] for k in made.read], *shared])
        out = []
        for kind, k, minus in made.results:
            if kind == "lanes":
                x = then + k
            elif kind == "uniform":
                x = first + k
            elif kind == "operand":
                x = operands[k]
            else:
                x = constant(program, k)
            out.append(program.neg(x) if minus else x)
        return out

    def turned(self, x: int) -> tuple[int, int]:
        """Return sine and cosine of a value; each value's are computed only once."""
        program = self.program
        first = call(program, sine_and_cosine(Type(program.type[x]), uniform(program)[x]), [x])
        return first, first + 1

    def straight(self, closed, shapes, values, read) -> list[int]:
        outs = flat(self.run(self.program, closed, unflat(values, [shape for shape, _ in shapes])))
        return [self.program.add(old, x) for old, x in zip(values[read:], outs, strict=True)]

    def pattern(self, values: list[int]) -> tuple[tuple[int, ...], list[int]]:
        """Return the pattern of values, and the operands: each value that is not a constant, once."""
        program, numbers = self.program, self.numbers
        same, op = uniform(program), program.op
        found, seen, operands = [], {}, []
        for x in values:
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
                    p = seen[bare] = LABEL * len(operands) + (SHARED if same[bare] else 0)
                    operands.append(bare)
                if minus:
                    p = seen[x] = p + MINUS
            found.append(p)
        return tuple(found), operands
