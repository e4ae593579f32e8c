"""Adds calls of templates to a program, and finds which values all lanes share."""

from .entries import operand_of
from .live import Schedule
from .ops import NONE, Call, Op, TooLarge
from .program import Program


def uniform(program: Program) -> list[bool]:
    """Return, for each operation added so far, whether it is known that all lanes share it."""
    return _extended(program.same, program, program)


def uniform_of(s: Schedule, live: list[bool]) -> list[bool]:
    """Return, for each operation of a fused program, whether it is read and all lanes share it."""
    return _extended([], s, s.program, live)


def _extended(same: list[bool], code: Program | Schedule, program: Program, live=None) -> list[bool]:
    """Append to `same` the answers for all operations of `code` that it does not cover yet, and return it."""
    op, a, b, c, region = code.op, code.a, code.b, code.c, program.region
    for v in range(len(same), len(op)):
        o = op[v]
        if region[v] or o == Op.carry or o == Op.result or live is not None and not live[v]:
            same.append(False)
        elif o == Op.input:
            same.append(program.inputs[a[v]][2])
        elif o == Op.entry:
            same.append(same[a[v]] and program.inputs[operand_of(program, v)][2])
        elif o == Op.call:
            same.append(program.calls[a[v]].template.uniform)
        else:
            x, y, z = a[v], b[v], c[v]
            same.append((x < 0 or same[x]) and (y < 0 or same[y]) and (z < 0 or same[z]))
    return same


def call(program: Program, template, operands: list[int]) -> int:
    """Return the first result of a call of a template; the others follow it. Equal calls are shared."""
    key = (template, *operands)
    tables = program.shared[:1] if template.uniform else program.shared
    for table in tables:
        found = table.get(key)
        if found is not None:
            return found
    floor = 0 if template.uniform else program.branch
    where = max([floor, *[program.region[x] for x in operands]])
    # the limit counts the operations of each template once, and does not count results of calls
    if template not in program.templates:
        program.templates.add(template)
        program.limit -= template.size
    if len(program.op) > program.limit:
        raise TooLarge(program.most)
    first = tables[-1][key] = append(program, template, operands, where, floor)
    return first


def append(program: Program, template, operands: list[int], region: int, floor: int) -> int:
    """Add a call without a search for an equal one, and return its first result."""
    first, count = len(program.op), len(template.types)
    program.limit += count
    program.op += [Op.call] * count
    program.a += [len(program.calls)] * count
    program.b += range(count)
    program.c += [NONE] * count
    program.type += template.types
    program.region += [region] * count
    program.calls.append(Call(len(program.calls), template, operands, first, region, floor))
    return first
