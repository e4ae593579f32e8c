"""Translates operations of scalar programs to LLVM IR, for vectors of lanes or single lanes."""

import numpy as np

from .entries import operand_of
from .live import Schedule
from .ops import FLOATS, UNSIGNED, Op, Type

NOT_SIGNED = (Type.bool_, *UNSIGNED)

NAMES = {
    Type.bool_: "i1",
    Type.int32: "i32",
    Type.int64: "i64",
    Type.float32: "float",
    Type.float64: "double",
    Type.uint32: "i32",
    Type.uint64: "i64",
}
_SUFFIX = {"i1": "i1", "i32": "i32", "i64": "i64", "float": "f32", "double": "f64"}
_FLOAT = {Op.add: "fadd", Op.sub: "fsub", Op.mul: "fmul", Op.div: "fdiv"}
_INT = {Op.add: "add", Op.sub: "sub", Op.mul: "mul"}
_BITS = {Op.and_: "and", Op.or_: "or", Op.xor: "xor", Op.shl: "shl"}
_ORDERED = {Op.lt: "olt", Op.le: "ole", Op.eq: "oeq", Op.ne: "une"}
_SIGNED = {Op.lt: "slt", Op.le: "sle", Op.eq: "eq", Op.ne: "ne"}
_UNSIGNED = {Op.lt: "ult", Op.le: "ule", Op.eq: "eq", Op.ne: "ne"}
_CALLS = {Op.sqrt: "sqrt", Op.abs_: "fabs", Op.rint: "rint", Op.floor: "floor"}


def literal(value, t: int) -> str:
    """Return a constant in LLVM's notation."""
    if t in FLOATS:
        # also for float32, which LLVM writes with the bits of the double of equal value
        return f"0x{int(np.float64(value).view(np.uint64)):016X}"
    if t == Type.bool_:
        return "true" if value else "false"
    return str(int(value))


class Code:
    """The lines of one function. Subclasses define where operands are read from and results are written to."""

    #: whether multiply-adds call a function: without such an instruction, LLVM expands each one to pages of code
    fused_apart = False

    def __init__(self, s: Schedule, lanes: int, declared: set[str]):
        self.s, self.lanes, self.declared = s, lanes, declared
        self.lines: list[str] = []
        self.names: dict = {}
        self.count = 0
        self._types = {t: self.vector(name) for t, name in NAMES.items()}
        #: the beginning of calls of intrinsics, by name, type and number of operands
        self._calls: dict[tuple[str, int, int], str] = {}

    def vector(self, name: str) -> str:
        return f"<{self.lanes} x {name}>" if self.lanes > 1 else name

    def type(self, t: int) -> str:
        return self._types[t]

    def line(self, text: str) -> str:
        """Add a line that computes `text`, and return the name of its result."""
        self.count += 1
        name = f"%t{self.count}"
        self.lines.append(f"{name} = {text}")
        return name

    def constant(self, x: int) -> str:
        program = self.s.program
        t = program.constant_types[-1 - x]
        text = literal(program.constants[-1 - x], t)
        return f"splat ({NAMES[t]} {text})" if self.lanes > 1 else text

    def use(self, x: int) -> str:
        """Return the name or the constant that represents a value in an instruction."""
        name = self.names.get(x)
        if name is None:
            name = self.names[x] = self.constant(x) if x < 0 else self.load(x)
        return name

    def load(self, x: int) -> str:
        raise NotImplementedError

    def at(self, base: str, offset: int) -> str:
        return self.line(f"getelementptr i8, ptr {base}, i64 {offset}") if offset else base

    def single(self, where: str, t: int) -> str:
        """Return the number of a type at an address."""
        if t == Type.bool_:
            return self.line(f"trunc i8 {self.line(f'load i8, ptr {where}')} to i1")
        return self.line(f"load {NAMES[t]}, ptr {where}")

    def intrinsic(self, name: str, t: int, *operands: str) -> str:
        vector, key = self._types[t], (name, t, len(operands))
        begin = self._calls.get(key)
        if begin is None:
            full = f"@llvm.{name}.{f'v{self.lanes}' if self.lanes > 1 else ''}{_SUFFIX[NAMES[t]]}"
            self.declared.add(f"declare {vector} {full}({', '.join([vector] * len(operands))})")
            begin = self._calls[key] = f"call {vector} {full}({vector} "
        return self.line(begin + f", {vector} ".join(operands) + ")")

    def operation(self, v: int) -> None:
        """Add the code that computes the value v."""
        s = self.s
        op, a, b, c = s.op[v], s.a[v], s.b[v], s.c[v]
        t = s.program.type[v]
        x = self.use(a)
        if op in _FLOAT and t in FLOATS:
            self.names[v] = self.line(f"{_FLOAT[op]} {self.type(t)} {x}, {self.use(b)}")
        elif op in (Op.fma, Op.fms, Op.fnma):
            self.names[v] = self.fused(op, t, x, self.use(b), self.use(c))
        elif op == Op.select:
            self.names[v] = self.chosen(t, x, self.use(b), self.use(c))
        elif op in _ORDERED:
            self.names[v] = self.compare(op, s.program.type_of(a), x, self.use(b))
        elif op in _CALLS and t in FLOATS:
            self.names[v] = self.intrinsic(_CALLS[op], t, x)
        elif op in (Op.max_, Op.min_):
            self.names[v] = self.extreme(op, t, x, self.use(b))
        elif op == Op.convert:
            self.names[v] = self.convert(s.program.type_of(a), t, x)
        elif op == Op.bits:
            self.names[v] = self.line(f"bitcast {self.type(s.program.type_of(a))} {x} to {self.type(t)}")
        elif op == Op.neg:
            zero = "fneg" if t in FLOATS else "sub"
            first = "" if t in FLOATS else ("zeroinitializer, " if self.lanes > 1 else "0, ")
            self.names[v] = self.line(f"{zero} {self.type(t)} {first}{x}")
        elif op == Op.not_:
            ones = "true" if t == Type.bool_ else "-1"
            ones = f"splat ({NAMES[t]} {ones})" if self.lanes > 1 else ones
            self.names[v] = self.line(f"xor {self.type(t)} {x}, {ones}")
        elif op == Op.abs_ and t in NOT_SIGNED:
            self.names[v] = x
        elif op == Op.abs_:
            flipped = self.line(f"sub {self.type(t)} {'zeroinitializer' if self.lanes > 1 else '0'}, {x}")
            self.names[v] = self.extreme(Op.max_, t, x, flipped)
        elif op == Op.div:
            self.names[v] = self.quotient(t, x, self.use(b))
        elif op == Op.entry:
            self.names[v] = self.entry(t, operand_of(s.program, v), x)
        else:
            name = _INT.get(op) or _BITS.get(op) or ("lshr" if t in UNSIGNED else "ashr")
            self.names[v] = self.line(f"{name} {self.type(t)} {x}, {self.use(b)}")

    def entry(self, t: int, operand: int, row: str) -> str:
        """Return the number of an operand at a computed row."""
        raise NotImplementedError

    def chosen(self, t: int, mask: str, x: str, y: str) -> str:
        """Return x where a mask is set, else y."""
        ty = self.type(t)
        return self.line(f"select {self.type(Type.bool_)} {mask}, {ty} {x}, {ty} {y}")

    def fused(self, op: int, t: int, x: str, y: str, z: str) -> str:
        if op == Op.fnma:
            x = self.line(f"fneg {self.type(t)} {x}")
        elif op == Op.fms:
            z = self.line(f"fneg {self.type(t)} {z}")
        if not self.fused_apart:
            return self.intrinsic("fma", t, x, y, z)
        ty, name = self.type(t), f"{NAMES[t]}.{self.lanes}"
        full = f"llvm.fma.{f'v{self.lanes}' if self.lanes > 1 else ''}{_SUFFIX[NAMES[t]]}"
        self.declared.add(f"declare {ty} @{full}({ty}, {ty}, {ty})")
        self.declared.add(
            f"define internal {ty} @fma.{name}({ty} %x, {ty} %y, {ty} %z) nounwind noinline {{\n"
            f"%r = call {ty} @{full}({ty} %x, {ty} %y, {ty} %z)\nret {ty} %r\n}}"
        )
        return self.line(f"call {ty} @fma.{name}({ty} {x}, {ty} {y}, {ty} {z})")

    def compare(self, op: int, t: int, x: str, y: str) -> str:
        if t in FLOATS:
            return self.line(f"fcmp {_ORDERED[op]} {self.type(t)} {x}, {y}")
        how = (_UNSIGNED if t in NOT_SIGNED else _SIGNED)[op]
        return self.line(f"icmp {how} {self.type(t)} {x}, {y}")

    def extreme(self, op: int, t: int, x: str, y: str) -> str:
        """Return the larger or the smaller number, or NaN if one is NaN."""
        ty, mask = self.type(t), self.type(Type.bool_)
        if t in FLOATS:
            first = self.line(f"fcmp {'ogt' if op == Op.max_ else 'olt'} {ty} {x}, {y}")
            best = self.line(f"select {mask} {first}, {ty} {x}, {ty} {y}")
            none = self.line(f"fcmp uno {ty} {x}, {x}")
            return self.line(f"select {mask} {none}, {ty} {x}, {ty} {best}")
        sign = "u" if t in NOT_SIGNED else "s"
        first = self.line(f"icmp {sign}{'gt' if op == Op.max_ else 'lt'} {ty} {x}, {y}")
        return self.line(f"select {mask} {first}, {ty} {x}, {ty} {y}")

    def quotient(self, t: int, x: str, y: str) -> str:
        """Return the quotient of integers, rounded towards zero; division by zero gives -1. Divisions that would trap
        divide by one instead."""
        ty, mask = self.type(t), self.type(Type.bool_)
        splat = lambda k: f"splat ({NAMES[t]} {k})" if self.lanes > 1 else str(k)  # noqa: E731
        none = self.line(f"icmp eq {ty} {y}, {splat(0)}")
        if t in UNSIGNED:
            safe = self.line(f"select {mask} {none}, {ty} {splat(1)}, {ty} {y}")
            found = self.line(f"udiv {ty} {x}, {safe}")
        else:
            back = self.line(f"icmp eq {ty} {y}, {splat(-1)}")
            trap = self.line(f"or {mask} {none}, {back}")
            safe = self.line(f"select {mask} {trap}, {ty} {splat(1)}, {ty} {y}")
            usual = self.line(f"sdiv {ty} {x}, {safe}")
            flipped = self.line(f"sub {ty} {splat(0)}, {x}")
            found = self.line(f"select {mask} {back}, {ty} {flipped}, {ty} {usual}")
        return self.line(f"select {mask} {none}, {ty} {splat(-1)}, {ty} {found}")

    def convert(self, old: int, new: int, x: str) -> str:
        source, target = self.type(old), self.type(new)
        if old == Type.bool_:
            return self.line(f"{'uitofp' if new in FLOATS else 'zext'} {source} {x} to {target}")
        if old in FLOATS and new in FLOATS:
            return self.line(f"{'fpext' if new == Type.float64 else 'fptrunc'} {source} {x} to {target}")
        if old in FLOATS:
            name = "fptoui.sat" if new in UNSIGNED else "fptosi.sat"
            wide = f"v{self.lanes}" if self.lanes > 1 else ""
            full = f"llvm.{name}.{wide}{_SUFFIX[NAMES[new]]}.{wide}{_SUFFIX[NAMES[old]]}"
            self.declared.add(f"declare {target} @{full}({source})")
            return self.line(f"call {target} @{full}({source} {x})")
        if new in FLOATS:
            return self.line(f"{'uitofp' if old in UNSIGNED else 'sitofp'} {source} {x} to {target}")
        if Type(old).bytes == Type(new).bytes:
            return x
        how = "trunc" if Type(old).bytes > Type(new).bytes else "zext" if old in UNSIGNED else "sext"
        return self.line(f"{how} {source} {x} to {target}")
