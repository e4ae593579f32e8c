"""Programs of the lane compiler run by NumPy, operation by operation, as what the compiled ones are checked against."""

import numpy as np

from jaxdyn.engine.entries import operand_of
from jaxdyn.engine.ops import NONE, Loop, Op, Type
from jaxdyn.engine.program import Program


def run(program: Program, inputs: list, schedule=None) -> list[np.ndarray]:
    """Outputs as arrays (rows, lanes), from operands that are arrays (rows, lanes); with the fused operations of a
    `Schedule` of the program, if one is given."""
    inputs = [np.asarray(x) for x in inputs]
    lanes = max((x.shape[-1] for x in inputs), default=1)
    with np.errstate(all="ignore"):
        found = _Run(program, schedule or program, inputs, lanes)
        found.region(0, np.ones(lanes, bool))
        rows = [[np.broadcast_to(found.use(x), lanes) for x in out] for out in program.outputs]
    return [np.array(r, t.dtype).reshape(-1, lanes) for r, t in zip(rows, program.output_types, strict=True)]


class _Run:
    def __init__(self, program: Program, code, inputs: list[np.ndarray], lanes: int):
        self.program, self.code, self.inputs, self.lanes = program, code, inputs, lanes
        self.values: dict[int, np.ndarray] = {}
        self.places: dict[int, list[int]] = {}
        for v, region in enumerate(program.region):
            self.places.setdefault(region, []).append(v)

    def use(self, x: int):
        return self.values[x] if x >= 0 else self.program.value(x)

    def region(self, region: int, mask: np.ndarray) -> None:
        """Compute all values of a region; those of loops and branches where the first of them is met."""
        p, code, done = self.program, self.code, set()
        for v in self.places.get(region, ()):
            op = code.op[v]
            if op == Op.input:
                self.values[v] = self.inputs[p.a[v]][p.b[v]]
            elif op == Op.entry:
                rows = np.broadcast_to(self.use(code.a[v]), self.lanes)
                table = self.inputs[operand_of(p, v)]
                self.values[v] = np.broadcast_to(table, (len(table), self.lanes))[rows, np.arange(self.lanes)]
            elif op == Op.result:
                if p.a[v] not in done:
                    done.add(p.a[v])
                    owner = p.owners[p.a[v]]
                    (self.loop if isinstance(owner, Loop) else self.branches)(owner, mask)
            elif op != Op.carry:
                operands = [self.use(x) for x in (code.a[v], code.b[v], code.c[v]) if x != NONE]
                self.values[v] = operation(op, Type(p.type[v]), *operands)

    def loop(self, loop: Loop, mask: np.ndarray) -> None:
        spread = lambda x: np.broadcast_to(self.use(x), self.lanes)  # noqa: E731
        at = [spread(x) for x in loop.initial]
        while True:
            self.values.update(zip(loop.carries, at, strict=True))
            self.region(loop.region, mask)
            mask = mask & spread(loop.condition)
            if not mask.any():
                break
            at = [np.where(mask, spread(new), old) for new, old in zip(loop.nexts, at, strict=True)]
        self.values.update(zip(loop.results, at, strict=True))

    def branches(self, owner, mask: np.ndarray) -> None:
        rest, found = mask, None
        for k, region in enumerate(owner.regions):
            here = rest & self.use(owner.predicates[k]) if k < len(owner.predicates) else rest
            rest = rest & ~here
            if here.any() or found is None:
                self.region(region, here)
                new = [np.broadcast_to(self.use(x), self.lanes) for x in owner.outcomes[k]]
                found = new if found is None else [np.where(here, a, b) for a, b in zip(new, found, strict=True)]
        for k, x in enumerate(owner.results):
            # what is the same in all branches stays what it is
            if x >= 0 and (self.program.op[x], self.program.a[x]) == (Op.result, owner.index):
                self.values[x] = found[k]


def operation(op: int, t: Type, x, y=None, z=None):
    """One operation on arrays or numbers; the result has type t."""
    if op in _PLAIN:
        return _PLAIN[op](x) if y is None else _PLAIN[op](x, y)
    if op == Op.div:
        return np.divide(x, y) if t.floating else _quotient(x, y)
    if op == Op.select:
        return np.where(x, y, z)
    if op == Op.convert:
        return _convert(np.asarray(x), t)
    if op == Op.bits:
        return np.ascontiguousarray(x).view(t.dtype).reshape(np.shape(x))
    return fma(-x if op == Op.fnma else x, y, -z if op == Op.fms else z)


_NAMES = (
    "add:add sub:subtract mul:multiply neg:negative sqrt:sqrt abs_:abs rint:rint floor:floor max_:maximum min_:minimum "
    "lt:less le:less_equal eq:equal ne:not_equal and_:bitwise_and or_:bitwise_or xor:bitwise_xor not_:invert "
    "shl:left_shift shr:right_shift"
)
_PLAIN = {getattr(Op, ours): getattr(np, theirs) for ours, theirs in (pair.split(":") for pair in _NAMES.split())}


def _quotient(x, y):
    """Integers divided towards zero; by zero -1."""
    safe = np.where(y == 0, 1, y)
    down = np.floor_divide(x, safe)
    up = (down * safe != x) & (down < 0)
    return np.where(y == 0, np.array(-1).astype(down.dtype), down + up).astype(np.asarray(x).dtype)


def _convert(x: np.ndarray, t: Type):
    """As NumPy, but integers from floats saturate and are 0 from NaN."""
    if x.dtype.kind != "f" or t.floating or t == Type.bool_:
        return x.astype(t.dtype)
    info = np.iinfo(t.dtype)
    inside = (x >= info.min) & (x < float(info.max))
    low, zero, high = np.array([info.min, 0, info.max], t.dtype)
    beyond = np.where(x > 0, high, np.where(x < 0, low, zero))
    return np.where(inside, np.where(inside, x, 0).astype(t.dtype), beyond).astype(t.dtype)


def fma(x, y, z):
    """x y + z, rounded once: to odd in a type with more bits, then to nearest."""
    t = np.result_type(x, y, z)
    wide = np.float64 if t == np.float32 else np.longdouble
    x, y, z = np.broadcast_arrays(*(np.asarray(v).astype(wide) for v in (x, y, z)))
    product = x * y
    if t == np.float32:
        return _odd(*_two_sum(product, z)).astype(t)
    u, v = _two_sum(z, _lost(x, y, product))
    s, r = _two_sum(product, u)
    found = _odd(*_two_sum(s, _odd(*_two_sum(r, v))))
    return np.where(np.isfinite(product) & np.isfinite(z), found, product + z).astype(t)


def _two_sum(a, b):
    s = a + b
    c = s - a
    return s, (a - (s - c)) + (b - c)


def _lost(x, y, product):
    """What the product's rounding lost."""

    def halves(v):
        c = np.longdouble(2**32 + 1) * v
        return c - (c - v), v - (c - (c - v))

    (a, b), (c, d) = halves(x), halves(y)
    return b * d - (((product - a * c) - b * c) - a * d)


def _odd(s, error):
    """s + error rounded to a number with an odd last bit, if it is not exact."""
    last = np.ascontiguousarray(s).view(np.uint8).reshape(*s.shape, -1)[..., 0]
    move = np.isfinite(s) & (last % 2 == 0) & (error != 0)
    return np.where(move, np.nextafter(s, np.where(error > 0, np.inf, -np.inf).astype(s.dtype)), s)
