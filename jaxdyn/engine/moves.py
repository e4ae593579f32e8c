"""Copies of values, as rows of tables.

A loop carries more values the larger the robot is. Straight code that initialises and advances them would grow in the
same way, and so would code that stores outputs. Instead, values of one type and origin are copied by rows of a table, a
few values in each row.
"""

import itertools
from collections.abc import Mapping

from .kept import parts
from .layout import Layout
from .live import Schedule
from .nodes import Moves
from .ops import Op, Type
from .order import Store
from .pieces import Places
from .program import Program
from .templates import Template, numbered
from .templates import constant as value_of

#: most values that a row copies
TOGETHER = 12


@parts
def _template(count: int, t: int, shared: bool, constant: int | None, masked: bool) -> Template:
    """Return the template that copies `count` values. If it is `masked`, its first operand is a mask, and its last
    operands are the values that lanes outside of the mask keep. If `constant` is given, it is copied instead of
    operands."""
    program = Program()
    program.fused = True

    def operand(t: int, shared: bool = False) -> int:
        program.inputs.append((1, Type(t), shared))
        return program.input(len(program.inputs) - 1, 0, t)

    mask = operand(Type.bool_) if masked else 0
    if constant is None:
        new = [operand(t, shared) for _ in range(count)]
    else:
        new = [value_of(program, constant)] * count
    if masked:
        new = [program.emit(Op.select, t, mask, x, operand(t)) for x in new]
    return Template(program, new, False)


def moved(s: Schedule, layout: Layout, places: Places, node: Moves, own: Mapping, shared: Mapping):
    """Yield, for each row, its routine, and the spaces and places of what it reads and writes. `own` maps values that
    each lane has to their places, `shared` values that all lanes share."""

    def slot(key):
        if isinstance(key, Store):
            return "s", places.output(key, s.program.output_types[key.output])
        return "a", layout.slot[key] * places.lanes

    def origin(pair):
        x = pair[0]
        constant = numbered(s.program.value(x), s.program.type_of(x)) if x < 0 else None
        return s.program.type_of(x), x >= 0 and s.is_uniform[x], constant

    for kind, run in itertools.groupby(zip(node.values, node.keys, strict=True), origin):
        while together := list(itertools.islice(run, TOGETHER)):
            t, same, constant = kind
            template = _template(len(together), t, same, constant, node.mask is not None)
            keys = [slot(key) for _, key in together]
            values = [] if constant is not None else [(shared if same else own)[x] for x, _ in together]
            masks = [] if node.mask is None else [slot(node.mask)]
            reads = [*masks, *values, *(keys if masks else [])]
            yield template.routine(b"\1" * len(together)), [*reads, *keys]
