"""Entries: numbers of an operand at rows that the program computes, see `spatial/lookup.py`."""

from .ops import Op, Type
from .program import Program


def entry(program: Program, operand: int, row: int) -> int:
    """Return the number of an operand at a computed row, the first or the last if there is no such row."""
    rows, t, _ = program.inputs[operand]
    row = clipped(program, row, rows)
    if row < 0:
        return program.input(operand, int(program.value(row)), t)
    return program.emit(Op.entry, t, row, program.constant(operand, Type.int32))


def clipped(program: Program, row: int, rows: int) -> int:
    """Return a row (int32), or the first or the last of so many rows if it is none of them."""
    first, last = (program.constant(k, Type.int32) for k in (0, rows - 1))
    return program.min_(program.max_(row, first), last)


def operand_of(program: Program, v: int) -> int:
    """Return the operand that the entry v is a number of."""
    return int(program.value(program.b[v]))
