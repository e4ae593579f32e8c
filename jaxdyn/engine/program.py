"""The scalar program that every lane runs, as lists of integers. Operations are folded and shared as they are added.

A value is an integer: the index of an operation if it is not negative, a constant otherwise. Operations have up to
three operands. All are *pure*, so that equal ones are shared and any order that respects the operands is valid:
`order.py` chooses one. The operands also determine where a value belongs: to the innermost *region* (a loop's body, a
branch) among those of its operands. So an operation in a loop's body with all operands outside is outside too.

Folding makes three assumptions: 0 x, 0 / x and x − x are 0, also if x is zero, infinite or NaN; zeros have no sign; and
p (x (1/p)) is x, so that eliminations clear rows exactly. All other folding is exact. (What is known of a model still
changes which products `live.py` fuses, and thus the last bits; one program always gives the same bits.)
"""

import struct

import numpy as np

from .folding import FOLD, converted, undone
from .ops import DTYPES, FLOATS, NONE, Branches, Call, Loop, Op, Region, TooLarge, Type


class Program:
    """A program under construction. Methods named like an operation return its value, folded and shared.

    `limit` is the number of operations beyond which `TooLarge` is raised.
    """

    def __init__(self, limit: int = 1 << 62):
        self.limit = self.most = limit
        self.op: list[int] = []
        self.a: list[int] = []
        self.b: list[int] = []
        self.c: list[int] = []
        self.type: list[int] = []
        self.region: list[int] = []
        self.constants: list = []
        self.constant_types: list[int] = []
        self.regions = [Region(-1)]
        self.owners: list[Loop | Branches] = []
        self.calls: list[Call] = []
        #: True if multiply-adds are fused already, so that no further ones may be fused
        self.fused = False
        self.outputs: list[list[int]] = []
        #: operands: (rows, type, whether all lanes share it)
        self.inputs: list[tuple[int, Type, bool]] = []
        self.output_types: list[Type] = []
        self._constant: dict[bytes, int] = {}
        self._folded: dict[tuple, int] = {}
        self.shared: list[dict] = [{}]
        self._floors = [0]
        self._here = [0]
        #: True for templates, which have no calls
        self.nested = False
        #: sine and cosine of operands, see `trigonometry.py`; `same` and `templates` belong to `calling.py`
        self.borrowed: dict[int, tuple[int, int]] = {}
        self.same: list[bool] = []
        self.templates: set = set()
        self.true, self.false = self.constant(True, Type.bool_), self.constant(False, Type.bool_)

    # constants and types

    def type_of(self, x: int) -> int:
        return self.type[x] if x >= 0 else self.constant_types[-1 - x]

    def value(self, x: int):
        """Return the number that a constant holds, or None for other values."""
        return self.constants[-1 - x] if x < 0 else None

    def constant(self, value, t: int) -> int:
        value = DTYPES[t].type(value)
        if t in FLOATS and value == 0:
            value = abs(value)  # zeros have no sign
        key = bytes([t]) + value.tobytes()
        found = self._constant.get(key)
        if found is None:
            self.constants.append(value)
            self.constant_types.append(t)
            found = self._constant[key] = -len(self.constants)
        return found

    # making operations

    def new(self, op: int, t: int, a: int, b: int = NONE, c: int = NONE, region: int = 0) -> int:
        if len(self.op) >= self.limit:
            raise TooLarge(self.most)
        self.op.append(op)
        self.a.append(a)
        self.b.append(b)
        self.c.append(c)
        self.type.append(t)
        self.region.append(region)
        return len(self.op) - 1

    def emit(self, op: int, t: int, a: int, b: int = NONE, c: int = NONE) -> int:
        """Add an operation without folding, and return it; an equal one is shared."""
        key = (op, t, a, b, c)
        for table in self.shared:
            found = table.get(key)
            if found is not None:
                return found
        where, region = self._floors[-1], self.region
        if a >= 0 and region[a] > where:
            where = region[a]
        if b >= 0 and region[b] > where:
            where = region[b]
        if c >= 0 and region[c] > where:
            where = region[c]
        found = self.shared[-1][key] = self.new(op, t, a, b, c, where)
        return found

    def input(self, operand: int, row: int, t: int) -> int:
        key = (Op.input, t, operand, row, NONE)
        if key not in self.shared[0]:
            self.shared[0][key] = self.new(Op.input, t, operand, row)
        return self.shared[0][key]

    # regions

    def _open(self, owner) -> int:
        self.regions.append(Region(self.here, owner))
        return len(self.regions) - 1

    @property
    def branch(self) -> int:
        """The region of the innermost branch under construction."""
        return self._floors[-1]

    @property
    def here(self) -> int:
        """The region under construction."""
        return self._here[-1]

    def loop(self, initial: list[int]) -> Loop:
        """Begin a loop, which `close` ends."""
        loop = Loop(len(self.owners), self.here, 0, list(initial), [])
        loop.region = self._open(loop)
        self.owners.append(loop)
        for k, x in enumerate(initial):
            loop.carries.append(self.new(Op.carry, self.type_of(x), loop.index, k, region=loop.region))
        self._here.append(loop.region)
        return loop

    def close(self, loop: Loop, condition: int, nexts: list[int]) -> list[int]:
        """End a loop and return the values after it."""
        self._here.pop()
        loop.condition, loop.nexts = condition, list(nexts)
        loop.results = [
            self.new(Op.result, self.type_of(x), loop.index, k, region=loop.parent) for k, x in enumerate(loop.initial)
        ]
        return loop.results

    def branches(self, predicates: list[int]) -> Branches:
        """Begin branches: one for every predicate and one for the rest. Build each one between `enter` and `leave`."""
        made = Branches(len(self.owners), self.here, list(predicates), [])
        self.owners.append(made)
        return made

    def enter(self, branches: Branches) -> None:
        region = self._open(branches)
        branches.regions.append(region)
        self._here.append(region)
        self._floors.append(region)
        self.shared.append({})

    def leave(self, branches: Branches, outcome: list[int]) -> None:
        self._here.pop()
        self._floors.pop()
        self.shared.pop()
        branches.outcomes.append(list(outcome))

    def join(self, branches: Branches) -> list[int]:
        """Return the values of the branch taken."""
        for k, same in enumerate(zip(*branches.outcomes, strict=True)):
            if len(set(same)) == 1:
                branches.results.append(same[0])
            else:
                t = self.type_of(same[0])
                branches.results.append(self.new(Op.result, t, branches.index, k, region=branches.parent))
        return branches.results

    # arithmetic; `t` is the type of the operands

    def _fold(self, op: int, t: int, x: int, y: int = NONE) -> int:
        if (op, x, y) not in self._folded:
            found = FOLD[op](self.value(x), self.value(y) if y != NONE else None)
            self._folded[op, x, y] = self.constant(found, Type.bool_ if Op.lt <= op <= Op.ne else t)
        return self._folded[op, x, y]

    def neg(self, x: int) -> int:
        if x < 0:
            return self._fold(Op.neg, self.type_of(x), x)
        op = self.op[x]
        if op == Op.neg:
            return self.a[x]
        # do not swap if an operand is a product: the sum that reads it must stay its only reader, to be fused with it
        if op == Op.sub and not any(k >= 0 and self.op[k] == Op.mul for k in (self.a[x], self.b[x])):
            return self.emit(Op.sub, self.type[x], self.b[x], self.a[x])
        return self.emit(Op.neg, self.type[x], x)

    def add(self, x: int, y: int) -> int:
        if x < 0 or y < 0:
            if x < 0 and y < 0:
                return self._fold(Op.add, self.type_of(x), x, y)
            if x < 0 and self.constants[-1 - x] == 0:
                return y
            if y < 0 and self.constants[-1 - y] == 0:
                return x
        if y >= 0 and self.op[y] == Op.neg:
            return self.sub(x, self.a[y])
        if x >= 0 and self.op[x] == Op.neg:
            return self.sub(y, self.a[x])
        if y < x:
            x, y = y, x
        return self.emit(Op.add, self.type_of(x), x, y)

    def sub(self, x: int, y: int) -> int:
        if x == y and x >= 0:
            return self.constant(0, self.type_of(x))
        if x < 0 or y < 0:
            if x < 0 and y < 0:
                return self._fold(Op.sub, self.type_of(x), x, y)
            if x < 0 and self.constants[-1 - x] == 0:
                return self.neg(y)
            if y < 0 and self.constants[-1 - y] == 0:
                return x
        if y >= 0 and self.op[y] == Op.neg:
            return self.add(x, self.a[y])
        if x >= 0 and self.op[x] == Op.neg:
            return self.neg(self.add(self.a[x], y))
        return self.emit(Op.sub, self.type_of(x), x, y)

    def mul(self, x: int, y: int) -> int:
        if x < 0 or y < 0:
            if x < 0 and y < 0:
                return self._fold(Op.mul, self.type_of(x), x, y)
            if y < 0:
                x, y = y, x
            value = self.constants[-1 - x]
            if value == 0:
                return x
            if value == 1:
                return y
            if value == -1:
                return self.neg(y)
        if x >= 0 and self.op[x] == Op.neg:
            return self.neg(self.mul(self.a[x], y))
        if y >= 0 and self.op[y] == Op.neg:
            return self.neg(self.mul(x, self.a[y]))
        if y < x:
            x, y = y, x
        found = undone(self, x, y)
        return self.emit(Op.mul, self.type_of(x), x, y) if found is None else found

    def div(self, x: int, y: int) -> int:
        if x < 0 and y < 0:
            return self._fold(Op.div, self.type_of(x), x, y)
        t = self.type_of(x)
        if t not in (Type.float32, Type.float64):
            return self.emit(Op.div, t, x, y)
        if x < 0 and self.constants[-1 - x] == 0:
            return x
        if y < 0:
            value = self.constants[-1 - y]
            if np.isfinite(value) and abs(np.frexp(value)[0]) == 0.5 and np.isfinite(1 / value):
                return self.mul(x, self.constant(1 / value, t))  # exact
        if x >= 0 and self.op[x] == Op.neg:
            return self.neg(self.div(self.a[x], y))
        if y >= 0 and self.op[y] == Op.neg:
            return self.neg(self.div(x, self.a[y]))
        return self.emit(Op.div, t, x, y)

    def fma(self, x: int, y: int, z: int) -> int:
        """Return x y + z, rounded once."""
        if (z < 0 and self.constants[-1 - z] == 0) or any(k < 0 and self.constants[-1 - k] == 0 for k in (x, y)):
            return self.add(self.mul(x, y), z)
        return self.emit(Op.fma, self.type_of(z), x, y, z)

    def _unary(self, op: int, x: int) -> int:
        return self._fold(op, self.type_of(x), x) if x < 0 else self.emit(op, self.type[x], x)

    def sqrt(self, x: int) -> int:
        return self._unary(Op.sqrt, x)

    def abs_(self, x: int) -> int:
        if x >= 0 and self.op[x] in (Op.neg, Op.abs_):
            return self.abs_(self.a[x])
        return self._unary(Op.abs_, x)

    def rint(self, x: int) -> int:
        return self._unary(Op.rint, x)

    def floor(self, x: int) -> int:
        return self._unary(Op.floor, x)

    def _pair(self, op: int, x: int, y: int, result: int | None = None, symmetric: bool = False) -> int:
        t = self.type_of(x)
        if x < 0 and y < 0:
            return self._fold(op, t, x, y)
        if symmetric and y < x:
            x, y = y, x
        return self.emit(op, t if result is None else result, x, y)

    def max_(self, x: int, y: int) -> int:
        return x if x == y else self._pair(Op.max_, x, y, None, True)

    def min_(self, x: int, y: int) -> int:
        return x if x == y else self._pair(Op.min_, x, y, None, True)

    def lt(self, x: int, y: int) -> int:
        return self._pair(Op.lt, x, y, Type.bool_)

    def le(self, x: int, y: int) -> int:
        return self._pair(Op.le, x, y, Type.bool_)

    def eq(self, x: int, y: int) -> int:
        return self._pair(Op.eq, x, y, Type.bool_, True)

    def ne(self, x: int, y: int) -> int:
        return self._pair(Op.ne, x, y, Type.bool_, True)

    def not_(self, x: int) -> int:
        if x >= 0 and self.op[x] == Op.not_:
            return self.a[x]
        return self._unary(Op.not_, x)

    def and_(self, x: int, y: int) -> int:
        if x == y:
            return x
        if self.type_of(x) == Type.bool_:
            if x < 0:
                return y if x == self.true else x
            if y < 0:
                return x if y == self.true else y
        return self._pair(Op.and_, x, y, None, True)

    def or_(self, x: int, y: int) -> int:
        if x == y:
            return x
        if self.type_of(x) == Type.bool_:
            if x < 0:
                return y if x == self.false else x
            if y < 0:
                return x if y == self.false else y
        return self._pair(Op.or_, x, y, None, True)

    def xor(self, x: int, y: int) -> int:
        return self._pair(Op.xor, x, y, None, True)

    def shl(self, x: int, y: int) -> int:
        return self._pair(Op.shl, x, y)

    def shr(self, x: int, y: int) -> int:
        return self._pair(Op.shr, x, y)

    def select(self, p: int, x: int, y: int) -> int:
        """Return x if p holds, else y."""
        if p < 0:
            return x if p == self.true else y
        if x == y:
            return x
        if self.op[p] == Op.not_:
            return self.select(self.a[p], y, x)
        t = self.type_of(x)
        if t == Type.bool_:
            if x < 0:
                return self.or_(p, y) if x == self.true else self.and_(self.not_(p), y)
            if y < 0:
                return self.and_(p, x) if y == self.false else self.or_(self.not_(p), x)
        return self.emit(Op.select, t, p, x, y)

    def convert(self, x: int, t: int) -> int:
        """Return x as another type. Floats are rounded towards zero to integers; nonzero numbers become True."""
        if self.type_of(x) == t:
            return x
        if x < 0:
            return self.constant(converted(self.constants[-1 - x], Type(t)), t)
        if t == Type.bool_:
            return self.ne(x, self.constant(0, self.type[x]))
        return self.emit(Op.convert, t, x)

    def bits(self, x: int, t: int) -> int:
        """Return the bits of x read as another type of the same size."""
        if self.type_of(x) == t:
            return x
        if x < 0:
            return self.constant(np.asarray(self.constants[-1 - x]).view(DTYPES[t])[()], t)
        return self.emit(Op.bits, t, x)

    def key(self) -> bytes:
        """Return the program as bytes, which are the same for equal programs."""
        head = repr((self.inputs, self.output_types, self.outputs, [r.parent for r in self.regions], self.owners))
        numbers = np.asarray([self.op, self.a, self.b, self.c, self.type, self.region], np.int64).tobytes()
        constants = b"".join(
            struct.pack("B", t) + v.tobytes() for t, v in zip(self.constant_types, self.constants, strict=True)
        )
        found, templates = [head.encode(), numbers, constants], {}
        for c in self.calls:
            templates.setdefault(c.template, len(templates))
        words = [x for c in self.calls for x in (templates[c.template], c.region, c.floor, *c.operands)]
        found += [*[t.key() for t in templates], np.asarray(words, np.int64).tobytes()]
        return b"\0".join([*found, bytes([self.fused])])
