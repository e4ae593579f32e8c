"""The rules for JAX's arithmetic primitives: element-wise operations and reductions."""

import functools
from collections.abc import Callable

import numpy as np

from .numerics import FUNCTIONS
from .ops import Type, Unsupported, type_of
from .program import Program


def each(f: Callable[..., int], *xs: np.ndarray) -> np.ndarray:
    """Apply f to every element, and return the results; operands are broadcast."""
    if len(xs) == 1:
        return np.array([f(x) for x in xs[0].ravel().tolist()], np.int64).reshape(xs[0].shape)
    first = xs[0].shape
    if any(x.shape != first for x in xs[1:]):
        xs = np.broadcast_arrays(*xs)
    lists = [x.ravel().tolist() for x in xs]
    return np.array([f(*v) for v in zip(*lists, strict=True)], np.int64).reshape(xs[0].shape)


def _method(name: str):
    f = getattr(Program, name)
    return lambda p, eqn, *xs: each(functools.partial(f, p), *xs)


def _function(f):
    return lambda p, eqn, *xs: each(functools.partial(f, p), *xs)


def _equal(p: Program, x: int, y: int) -> int:
    return p.not_(p.xor(x, y)) if p.type_of(x) == Type.bool_ else p.eq(x, y)


def _differ(p: Program, x: int, y: int) -> int:
    return p.xor(x, y) if p.type_of(x) == Type.bool_ else p.ne(x, y)


def _convert(p: Program, eqn, x):
    t = type_of(eqn.params["new_dtype"])
    return each(lambda v: p.convert(v, t), x)


def _shift(left: bool, filled: bool):
    """Return the rule of a shift. A shift by at least as many bits as the type has gives zero, or copies of the sign
    bit if `filled`."""

    def one(p: Program, x: int, by: int) -> int:
        t = Type(p.type_of(x))
        signed, unsigned = {4: (Type.int32, Type.uint32), 8: (Type.int64, Type.uint64)}[t.bytes]
        most = p.constant(8 * t.bytes - 1, unsigned)
        by = p.bits(by, unsigned)
        inside, by = p.le(by, most), p.bits(p.min_(by, most), t)
        if left:
            return p.select(inside, p.shl(x, by), p.constant(0, t))
        u = signed if filled else unsigned
        found = p.bits(p.shr(p.bits(x, u), p.bits(by, u)), t)
        return found if filled else p.select(inside, found, p.constant(0, t))

    return _function(one)


def _select(p: Program, eqn, which, *cases):
    if len(cases) == 1:
        return cases[0]
    t = p.type_of(which.ravel()[0].item()) if which.size else Type.bool_
    if t == Type.bool_:
        return each(lambda k, a, b: p.select(k, b, a), which, *cases)
    chosen = cases[-1]
    for k in reversed(range(len(cases) - 1)):
        level = p.constant(k, t)
        chosen = each(lambda i, a, b, level=level: p.select(p.le(i, level), a, b), which, cases[k], chosen)
    return chosen


def _clamp(p: Program, eqn, low, x, high):
    return each(lambda a, v, b: p.min_(p.max_(v, a), b), low, x, high)


def _integer_pow(p: Program, eqn, x):
    return each(lambda v: FUNCTIONS["integer_pow"](p, v, eqn.params["y"]), x)


def _round(p: Program, eqn, x):
    even = int(eqn.params["rounding_method"]) == 1
    return each(p.rint if even else lambda v: FUNCTIONS["round"](p, v), x)


def _bits(p: Program, eqn, x):
    t = type_of(eqn.params["new_dtype"])
    if t.bytes != type_of(eqn.invars[0].aval.dtype).bytes:
        raise Unsupported("`bitcast_convert_type` between sizes")
    return each(lambda v: p.bits(v, t), x)


def _precision(p: Program, eqn, x):
    full = {Type.float32: (8, 23), Type.float64: (11, 52)}.get(type_of(eqn.outvars[0].aval.dtype))
    if (eqn.params["exponent_bits"], eqn.params["mantissa_bits"]) != full:
        raise Unsupported("`reduce_precision`")
    return x


def _rows(x: np.ndarray, axes) -> tuple[list[list[int]], tuple]:
    """Return the groups of values to be reduced, and the shape of the result."""
    axes = tuple(a % x.ndim for a in axes)
    rest = [k for k in range(x.ndim) if k not in axes]
    shape = tuple(x.shape[k] for k in rest)
    together = int(np.prod([x.shape[k] for k in axes]))
    return x.transpose([*rest, *axes]).reshape(int(np.prod(shape)), together).tolist(), shape


def _reduce(name: str, empty):
    def rule(p: Program, eqn, x):
        t = type_of(eqn.outvars[0].aval.dtype)
        f = functools.partial(getattr(Program, name), p)
        rows, shape = _rows(x, eqn.params["axes"])
        made = [functools.reduce(f, row) if row else p.constant(empty(t), t) for row in rows]
        return np.array(made, np.int64).reshape(shape)

    return rule


def _extreme(largest: bool):
    return lambda t: {True: -np.inf, False: np.inf}[largest] if t.floating else _bound(t, largest)


def _bound(t: Type, largest: bool):
    if t == Type.bool_:
        return not largest
    return np.iinfo(t.dtype).min if largest else np.iinfo(t.dtype).max


def _ones(t: Type):
    return np.array(-1, np.int64).astype(t.dtype)


def _arg(better: str):
    def rule(p: Program, eqn, x):
        (axis,) = eqn.params["axes"]
        t = type_of(eqn.params["index_dtype"])
        rows, shape = _rows(x, (axis,))
        made = []
        for row in rows:
            best, at = row[0], p.constant(0, t)
            for k, v in enumerate(row[1:], 1):  # of equal values the first wins; NaN counts as the extreme value
                wins = p.lt(best, v) if better == "max" else p.lt(v, best)
                wins = p.or_(wins, p.and_(p.ne(v, v), p.eq(best, best)))
                best, at = p.select(wins, v, best), p.select(wins, p.constant(k, t), at)
            made.append(at)
        return np.array(made, np.int64).reshape(shape)

    return rule


def _before(p: Program, xs, ys) -> int:
    """Return whether the numbers xs come before ys in lexicographic order. NaN is last."""
    found = p.false
    for x, y in reversed(list(zip(xs, ys, strict=True))):
        less, same = (p.and_(p.not_(x), y), _equal(p, x, y)) if p.type_of(x) == Type.bool_ else (p.lt(x, y), p.eq(x, y))
        if Type(p.type_of(x)).floating:
            number, none = p.eq(x, x), p.ne(y, y)
            less, same = p.or_(less, p.and_(number, none)), p.or_(same, p.and_(p.not_(number), none))
        found = p.or_(less, p.and_(same, found))
    return found


def _sort(p: Program, eqn, *xs):
    """Return the values sorted, by a bubble sort, which keeps the order of equal values."""
    axis, keys = eqn.params["dimension"], eqn.params["num_keys"]
    stacked = np.moveaxis(np.stack(xs), 1 + axis, 1)
    out = stacked.reshape(*stacked.shape[:2], -1).copy()
    count = out.shape[1]
    for line in range(out.shape[2]):
        row = [out[:, k, line].tolist() for k in range(count)]
        for end in reversed(range(1, count)):
            for k in range(end):
                a, b = row[k], row[k + 1]
                swap = _before(p, b[:keys], a[:keys])
                row[k] = [p.select(swap, y, x) for x, y in zip(a, b, strict=True)]
                row[k + 1] = [p.select(swap, x, y) for x, y in zip(a, b, strict=True)]
        out[:, :, line] = np.array(row, np.int64).T
    return list(np.moveaxis(out.reshape(stacked.shape), 1, 1 + axis))


def _cumulative(name: str):
    def rule(p: Program, eqn, x):
        axis, f = eqn.params["axis"], functools.partial(getattr(Program, name), p)
        moved = np.moveaxis(x, axis, 0)
        moved = moved[::-1] if eqn.params["reverse"] else moved
        parts = [moved[0]] if len(moved) else []
        for k in range(1, len(moved)):
            parts.append(each(f, parts[-1], moved[k]))
        out = np.stack(parts) if parts else moved
        return np.moveaxis(out[::-1] if eqn.params["reverse"] else out, 0, axis)

    return rule


def _dot(p: Program, eqn, x, y):
    (cx, cy), (bx, by) = eqn.params["dimension_numbers"]
    fx = [k for k in range(x.ndim) if k not in (*cx, *bx)]
    fy = [k for k in range(y.ndim) if k not in (*cy, *by)]
    size = lambda a, axes: int(np.prod([a.shape[k] for k in axes]))  # noqa: E731
    u = x.transpose([*bx, *fx, *cx]).reshape(size(x, bx), size(x, fx), size(x, cx)).tolist()
    v = y.transpose([*by, *fy, *cy]).reshape(size(y, by), size(y, fy), size(y, cy)).tolist()
    t = type_of(eqn.outvars[0].aval.dtype)
    zero = p.constant(0, t)
    add, mul = (p.or_, p.and_) if t == Type.bool_ else (p.add, p.mul)

    def inner(row, column):
        total = zero
        for a, b in zip(row, column, strict=True):
            total = add(total, mul(p.convert(a, t), p.convert(b, t)))
        return total

    made = [[[inner(r, c) for c in v[k]] for r in u[k]] for k in range(len(u))]
    return np.array(made, np.int64).reshape(eqn.outvars[0].aval.shape)


def _bilinear(p: Program, eqn, x, y):
    """Return sums of products, as a table of terms defines them; see `jaxdyn.spatial.bilinear`."""
    form = eqn.params["form"]
    tail = eqn.outvars[0].aval.shape[len(form.out) :]
    x = np.broadcast_to(x, (*form.x, *tail)).reshape(-1, int(np.prod(tail))).tolist()
    y = np.broadcast_to(y, (*form.y, *tail)).reshape(-1, int(np.prod(tail))).tolist()
    zero = p.constant(0, type_of(eqn.outvars[0].aval.dtype))
    out = []
    for terms in form.by_entry:
        total = [zero] * int(np.prod(tail))
        for i, j, sign in terms:
            combine = p.add if sign > 0 else p.sub
            total = [combine(t, p.mul(a, b)) for t, a, b in zip(total, x[i], y[j], strict=True)]
        out.append(total)
    return np.array(out, np.int64).reshape(*form.out, *tail)


RULES: dict[str, Callable] = {
    "jaxdyn_bilinear": _bilinear,
    **{name: _function(f) for name, f in FUNCTIONS.items()},
    **{n: _method(n) for n in ("add", "sub", "mul", "div", "neg", "sqrt", "floor", "lt", "le", "xor")},
    "add_any": _method("add"),
    "abs": _method("abs_"),
    "max": _method("max_"),
    "min": _method("min_"),
    "and": _method("and_"),
    "or": _method("or_"),
    "not": _method("not_"),
    "gt": lambda p, eqn, x, y: each(lambda a, b: p.lt(b, a), x, y),
    "ge": lambda p, eqn, x, y: each(lambda a, b: p.le(b, a), x, y),
    "eq": _function(_equal),
    "ne": _function(_differ),
    "shift_left": _shift(True, False),
    "shift_right_arithmetic": _shift(False, True),
    "shift_right_logical": _shift(False, False),
    "convert_element_type": _convert,
    "bitcast_convert_type": _bits,
    "reduce_precision": _precision,
    "select_n": _select,
    "clamp": _clamp,
    "integer_pow": _integer_pow,
    "round": _round,
    "reduce_sum": _reduce("add", lambda t: 0),
    "reduce_prod": _reduce("mul", lambda t: 1),
    "reduce_max": _reduce("max_", _extreme(True)),
    "reduce_min": _reduce("min_", _extreme(False)),
    "reduce_and": _reduce("and_", lambda t: True if t == Type.bool_ else _ones(t)),
    "reduce_or": _reduce("or_", lambda t: 0),
    "reduce_xor": _reduce("xor", lambda t: 0),
    "argmax": _arg("max"),
    "argmin": _arg("min"),
    "sort": _sort,
    "cumsum": _cumulative("add"),
    "cumprod": _cumulative("mul"),
    "cummax": _cumulative("max_"),
    "cummin": _cumulative("min_"),
    "dot_general": _dot,
}
