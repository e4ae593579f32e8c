"""Turns a jaxpr over lanes into the scalar program of one lane.

The jaxpr is that of a core with a single lane. Each of its arrays becomes an array of values (`program.py`). Operations
that only move numbers (slices, reshapes, gathers with known indices) add no code. A `while` stays a loop in which each
lane has a condition of its own. A primitive without a rule raises `Unsupported`.
"""

import functools
from collections.abc import Sequence

import jax
import numpy as np
from jax.extend import core as jex

from . import rows
from .entries import clipped, entry
from .ops import Op, Type, Unsupported, flat, unflat
from .ops import type_of as named
from .patterns import ANY
from .program import Program
from .rules import RULES, each
from .structure import STRUCTURE

#: branches with at most this many equations are all computed, and the result is selected
FEW = 30
#: loops with at most this many iterations are unrolled
SHORT = 3
#: most comparisons of a `spread`
SPREAD = 20_000
#: operands with at most this many numbers become values at once
LONG = 1000


def scalarise(closed, shared: Sequence[bool], known: Sequence[bytes | None], limit: int) -> Program:
    """Return the program of a closed jaxpr. `shared` marks operands that are the same for all lanes. `known` has, for
    an operand, a byte for each number that says whether it is 0, 1 or -1, or is None. `limit` is the largest number of
    operations.

    **Raises** `Unsupported` for a primitive or type without a rule, and `TooLarge`.
    """
    program = Program(limit)
    args = []
    for k, (v, same, pattern) in enumerate(zip(closed.jaxpr.invars, shared, known, strict=True)):
        t, shape = type_of(v.aval), v.aval.shape
        program.inputs.append((int(np.prod(shape)), t, same))
        args.append(Operand(program, k, t, shape, pattern))
    with np.errstate(all="ignore"):
        outs = _closed(program, closed, args)
    for x, v in zip(map(listed, outs), closed.jaxpr.outvars, strict=True):
        program.outputs.append(x.ravel().tolist())
        program.output_types.append(type_of(v.aval))
    return program


class Operand:
    """An operand of the program. Its numbers become values when they are first read; a long table of which only
    computed rows are read never is a list of values."""

    def __init__(self, program: Program, index: int, t: Type, shape: tuple[int, ...], pattern: bytes | None):
        self.program, self.index, self.type, self.shape, self.pattern = program, index, t, shape, pattern
        if np.prod(shape) <= LONG:
            self.values  # noqa: B018 - short operands are numbered in their order

    @functools.cached_property
    def values(self) -> np.ndarray:
        program, k, t = self.program, self.index, self.type
        if self.pattern is None:
            found = [program.input(k, row, t) for row in range(int(np.prod(self.shape)))]
        else:
            sure = [program.constant(x, t) for x in (0, 1, -1)]
            found = [program.input(k, i, t) if p == ANY else sure[p] for i, p in enumerate(self.pattern)]
        return np.array(found, np.int64).reshape(self.shape)


def listed(x: np.ndarray | Operand) -> np.ndarray:
    """Return an array of values."""
    return x.values if isinstance(x, Operand) else x


def type_of(aval) -> Type:
    return named(np.dtype(bool) if aval.dtype == jax.dtypes.float0 else aval.dtype)


def constants(program: Program, x) -> np.ndarray:
    x = np.asarray(x)
    if x.dtype == jax.dtypes.float0:
        x = np.zeros(x.shape, bool)
    t = named(x.dtype)
    return np.array([program.constant(v, t) for v in x.ravel()], np.int64).reshape(x.shape)


def run(program: Program, jaxpr, consts: Sequence, args: Sequence) -> list:
    """Return the jaxpr's outputs as arrays of values."""
    env: dict = {}
    literals: dict = {}

    def read(v):
        if isinstance(v, jex.Literal):
            key = id(v)
            if key not in literals:
                literals[key] = constants(program, np.asarray(v.val, v.aval.dtype))
            return literals[key]
        return env[v]

    env.update(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        xs = [read(v) for v in eqn.invars]
        if name not in WHOLE:
            xs = [listed(x) for x in xs]
        if name in STRUCTURE:
            out = STRUCTURE[name](program, eqn, *xs)
        elif name in RULES:
            out = RULES[name](program, eqn, *xs)
        elif name in CONTROL:
            out = CONTROL[name](program, eqn, *xs)
        else:
            raise Unsupported(f"`{name}`")
        outs = out if eqn.primitive.multiple_results else [out]
        for v, o in zip(eqn.outvars, outs, strict=True):
            if o.shape != v.aval.shape:
                raise AssertionError(f"`{name}` gives {o.shape}, not {v.aval.shape}")
            env[v] = o
    return [read(v) for v in jaxpr.outvars]


def _closed(program, closed, args):
    return run(program, closed.jaxpr, [constants(program, c) for c in closed.consts], args)


def _call(program, eqn, *xs):
    inner = next(eqn.params[k] for k in ("jaxpr", "call_jaxpr", "fun_jaxpr") if k in eqn.params)
    return _closed(program, inner, xs) if hasattr(inner, "consts") else run(program, inner, [], xs)


def _lanes(program, eqn, *xs):
    """Inline a core within a core."""
    shapes = tuple((v.aval.shape[:-1], v.aval.dtype) for v in eqn.invars)
    closed = eqn.params["core"].traced(eqn.params["used"], shapes)
    return _closed(program, closed, xs)


def _lookup(program, eqn, table, index):
    if not isinstance(table, Operand):
        raise Unsupported("`lookup` in a table that is no operand")
    return each(lambda row: entry(program, table.index, row), listed(index))


def _spread(program, eqn, values, index):
    """Add each value to the number of a table at its index, by a comparison with the index of every number."""
    shape = eqn.outvars[0].aval.shape
    size, t = int(np.prod(shape)), type_of(eqn.outvars[0].aval)
    if size * values.size > SPREAD:
        raise Unsupported("`spread` in a long table")
    zero = program.constant(0, t)
    places = [clipped(program, i, size) for i in index.ravel().tolist()]
    out = []
    for k in range(size):
        here, total = program.constant(k, Type.int32), zero
        for i, value in zip(places, values.ravel().tolist(), strict=True):
            total = program.add(total, program.select(program.eq(i, here), value, zero))
        out.append(total)
    return np.array(out, np.int64).reshape(shape)


def _sweep(program, eqn, *xs):
    """Call the steps of a sweep one after the other."""
    return rows.sweep(program, eqn.params["sweep"], xs, _closed, named)


def _while(program, eqn, *xs):
    nc, nb = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    cond, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    return _loop(
        program,
        [listed(x) for x in xs[nc + nb :]],
        lambda at: listed(_closed(program, cond, [*xs[:nc], *at])[0]).item(),
        lambda at: _closed(program, body, [*xs[nc : nc + nb], *at]),
    )


def _loop(program, initial, condition, body):
    shapes = [x.shape for x in initial]
    start = flat(initial)
    loop = program.loop(start)
    holds = condition(unflat(loop.carries, shapes))
    # inside the body, the condition holds for every active lane
    sure = _conjuncts(program, holds)
    at = [program.true if c in sure else c for c in loop.carries]
    nexts = flat(map(listed, body(unflat(at, shapes))))
    return unflat(program.close(loop, holds, nexts), shapes)


def _conjuncts(program, x) -> set[int]:
    if x >= 0 and program.op[x] == Op.and_:
        return _conjuncts(program, program.a[x]) | _conjuncts(program, program.b[x])
    return {x}


def _counts(p) -> tuple[int, int]:
    """Return how many constants a `scan` of these parameters has, and how many carried values."""
    if "ft_in" in p:  # from JAX 0.11 on
        consts, carry, _ = p["ft_in"].unpack()
        return len(consts), len(carry)
    return p["num_consts"], p["num_carry"]


def _scan(program, eqn, *xs):
    p = eqn.params
    length, (nc, ns) = p["length"], _counts(p)
    consts, carry, rows = xs[:nc], [listed(x) for x in xs[nc : nc + ns]], [listed(x) for x in xs[nc + ns :]]
    ys = len(eqn.outvars) - ns
    if not rows and not ys and length > SHORT:
        count = constants(program, np.int32(length))
        one = program.constant(1, Type.int32)
        outs = _loop(
            program,
            [count, *carry],
            lambda at: program.lt(program.constant(0, Type.int32), at[0].item()),
            lambda at: [each(lambda c: program.sub(c, one), at[0]), *_closed(program, p["jaxpr"], [*consts, *at[1:]])],
        )
        return outs[1:]
    made: list = [None] * length
    for k in reversed(range(length)) if p["reverse"] else range(length):
        outs = [listed(x) for x in _closed(program, p["jaxpr"], [*consts, *carry, *(r[k] for r in rows)])]
        carry, made[k] = outs[:ns], outs[ns:]
    stacked = [
        np.stack([m[j] for m in made]) if length else np.zeros(eqn.outvars[ns + j].aval.shape, np.int64)
        for j in range(ys)
    ]
    return [*carry, *stacked]


def _equations(jaxpr) -> int:
    inner = [eqn.params[k] for eqn in jaxpr.eqns for k in ("jaxpr", "call_jaxpr") if k in eqn.params]
    loops = any(e.primitive.name in ("while", "scan", "cond", "jaxdyn") for e in jaxpr.eqns)
    return (FEW + 1 if loops else 0) + len(jaxpr.eqns) + sum(_equations(getattr(j, "jaxpr", j)) for j in inner)


def _cond(program, eqn, index, *xs):
    branches = eqn.params["branches"]
    index = listed(index).item()
    if index < 0:
        at = int(np.clip(int(program.value(index)), 0, len(branches) - 1))
        return _closed(program, branches[at], xs)
    t = program.type_of(index)
    if t == Type.bool_:
        order, predicates = [1, 0], [index]
    else:
        order = list(range(len(branches)))
        predicates = [program.le(index, program.constant(k, t)) for k in order[:-1]]
    shapes = [v.aval.shape for v in eqn.outvars]
    if sum(_equations(b.jaxpr) for b in branches) <= FEW:
        outs = [flat(map(listed, _closed(program, branches[k], xs))) for k in order]
        chosen = outs[-1]
        for p, other in zip(reversed(predicates), reversed(outs[:-1]), strict=True):
            chosen = [program.select(p, a, b) for a, b in zip(other, chosen, strict=True)]
        return unflat(chosen, shapes)
    made = program.branches(predicates)
    for k in order:
        program.enter(made)
        program.leave(made, flat(map(listed, _closed(program, branches[k], xs))))
    return unflat(program.join(made), shapes)


CALLS = ("jit", "pjit", "closed_call", "core_call", "custom_jvp_call", "custom_vjp_call", "checkpoint", "remat2")
CONTROL = {
    **dict.fromkeys(CALLS, _call),
    "jaxdyn": _lanes,
    "jaxdyn_lookup": _lookup,
    "jaxdyn_spread": _spread,
    "jaxdyn_sweep": _sweep,
    "while": _while,
    "scan": _scan,
    "cond": _cond,
}
#: primitives that take operands as they are
WHOLE = frozenset((*CALLS, "jaxdyn", "jaxdyn_lookup", "while", "scan", "cond"))
