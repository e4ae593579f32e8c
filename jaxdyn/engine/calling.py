"""Calls in programs that are being made."""

from .ops import NONE, Call, Op, TooLarge
from .program import Program


def uniform(program: Program) -> list[bool]:
    """By operation made so far, whether all lanes surely share it."""
    same, op, region = program.same, program.op, program.region
    for v in range(len(same), len(op)):
        o = op[v]
        if region[v] or o == Op.carry or o == Op.result:
            same.append(False)
        elif o == Op.input:
            same.append(program.inputs[program.a[v]][2])
        elif o == Op.call:
            same.append(program.calls[program.a[v]].template.uniform)
        else:
            same.append(all(x < 0 or same[x] for x in (program.a[v], program.b[v], program.c[v])))
    return same


def call(program: Program, template, operands: list[int]) -> int:
    """The first of the results of a template (the others follow it), shared with an equal call."""
    key = (template, *operands)
    tables = program.shared[:1] if template.uniform else program.shared
    for table in tables:
        found = table.get(key)
        if found is not None:
            return found
    floor = 0 if template.uniform else program.branch
    where = max([floor, *[program.region[x] for x in operands]])
    count = len(template.types)
    # the limit counts operations: those of a template once, and no results
    if template not in program.templates:
        program.templates.add(template)
        program.limit -= template.size
    program.limit += count
    if len(program.op) + count > program.limit:
        raise TooLarge(program.most)
    first = tables[-1][key] = append(program, template, operands, where, floor)
    return first


def append(program: Program, template, operands: list[int], region: int, floor: int) -> int:
    """The first of the results of a new call."""
    first, count = len(program.op), len(template.types)
    program.op += [Op.call] * count
    program.a += [len(program.calls)] * count
    program.b += range(count)
    program.c += [NONE] * count
    program.type += template.types
    program.region += [region] * count
    program.calls.append(Call(len(program.calls), template, operands, first, region, floor))
    return first
