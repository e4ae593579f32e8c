"""Count the arithmetic operations of a function on its jaxpr.

An addition, a product, a quotient, a root and a selection by comparison count one per element; matrix products,
Cholesky factors, triangular solves and decompositions have their textbook counts. The body of a loop counts as often
as it runs: a scan by its length, a while loop `trips` times. Of branches the cheapest counts, because the others are
corrections that hardly ever run. A sweep is counted row by row, plus an addition for every cell that is written again.
Moving data costs nothing. Equations, rows of a sweep and results of a row that no output needs are not counted, because
compilers remove them. XLA's own analysis counts neither loops nor factorisations.
"""

import functools
import math
from collections import Counter
from collections.abc import Callable, Sequence

import jax
from jax.interpreters import partial_eval as pe

from jaxdyn.engine.steps import Sweep, cells

ONE = {
    "add", "sub", "mul", "div", "neg", "sqrt", "rsqrt", "max", "min", "abs", "sign", "exp", "log", "sin", "cos", "tan",
    "atan2", "tanh", "pow", "integer_pow", "square", "select_n", "add_any", "floor", "cbrt",
}  # fmt: skip
REDUCTIONS = {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "cumsum", "argmax", "argmin"}


def operations(f: Callable, *args, trips: int = 1) -> int:
    """Return the operations of ``f(*args)``."""
    return _of(needed(f, *args), trips)


def needed(f: Callable, *args, used: Sequence[bool] | None = None):
    """Return the program of ``f(*args)`` without equations that no output, or none of the `used` ones, needs."""
    jaxpr = jax.make_jaxpr(f)(*args).jaxpr
    return pe.dce_jaxpr(jaxpr, list(used or [True] * len(jaxpr.outvars)))[0]


def _of(jaxpr, trips: int) -> int:
    """Return the operations of a program, counted from its last equation to its first. Of the results of sweeps, only
    cells that are read count as needed."""
    needed: dict = {v: _every(v) for v in jaxpr.outvars if not hasattr(v, "val")}
    total = 0
    for e in reversed(jaxpr.eqns):
        if not any(v in needed for v in e.outvars):
            continue
        if e.primitive.name == "jaxdyn_sweep":
            count, read = _sweep(e.params["sweep"], [needed.get(v, ()) for v in e.outvars])
        else:
            count, read = _equation(e, trips), map(_every, e.invars)
        total += count
        for v, some in zip(e.invars, read, strict=True):
            if some is not None and not hasattr(v, "val"):
                needed[v] = {*needed.get(v, ()), *some}
    return total


def _every(v) -> range:
    """Return the indices along the first axis of an array."""
    return range(v.aval.shape[0] if getattr(v.aval, "shape", ()) else 0)


def _sweep(sweep: Sweep, needed: Sequence) -> tuple[int, list]:
    """Return the operations of the rows whose results are read, and, for each operand, the cells that these rows read
    (None if there are none)."""
    n, total, written = len(sweep.inputs), 0, Counter()
    read = {(n + k, c) for k, some in enumerate(needed) for c in some}
    for index, reads, writes in reversed(sweep.rows):
        kind = sweep.kinds[index]
        out = [[(a, c) for c in cells(start, count)] for (a, count), start in zip(kind.writes, writes, strict=True)]
        mask = tuple(any(x in read for x in some) for some in out)
        if not any(mask):
            continue
        count, used = _row(kind.jaxpr, mask)
        total += count
        written.update(x for some, m in zip(out, mask, strict=True) if m for x in some)
        for (a, k), start, u in zip(kind.reads, reads, used, strict=True):
            if u:
                read |= {(a, c) for c in cells(start, k)}
    for k, i in enumerate(sweep.initial):
        some = [c for c in range(sweep.outputs[k].cells) if i is not None and (n + k, c) in read]
        written.update((n + k, c) for c in some)
        read |= {(i, c) for c in some}
    total += sum((times - 1) * math.prod(sweep.array(a).shape) for (a, _), times in written.items())
    by_operand = [{c for a, c in read if a == k} for k in range(n)]
    return total, [some or None for some in by_operand]


@functools.lru_cache(maxsize=4096)
def _row(closed, mask: tuple[bool, ...]) -> tuple[int, list[bool]]:
    """Return the operations of a step for some of its results, and whether each operand is needed for these."""
    jaxpr, used = pe.dce_jaxpr(closed.jaxpr, list(mask))
    return _of(jaxpr, 1), used


def _inner(jaxpr):
    return getattr(jaxpr, "jaxpr", jaxpr)


def _equation(e, trips: int) -> int:
    name, p = e.primitive.name, e.params
    size = max((math.prod(v.aval.shape) for v in e.outvars if hasattr(v.aval, "shape")), default=0)
    shapes = [v.aval.shape for v in e.invars if hasattr(v.aval, "shape")]
    if name == "jaxdyn":
        core, used = p["core"], p["used"]
        with jax.numpy_rank_promotion("allow"):
            return _of(needed(lambda *a: core.run(a, used), *[v.aval for v in e.invars], used=used), trips)
    if name in ONE:
        return size
    if name == "scatter-add":
        return math.prod(shapes[2])
    if name in REDUCTIONS:
        return math.prod(shapes[0])
    if name == "jaxdyn_bilinear":
        form = e.params["form"]
        entries = math.prod(form.out)
        return (2 * len(form.terms) - entries) * (e.outvars[0].aval.size // entries)
    if name == "dot_general":
        (left, _), _ = p["dimension_numbers"]
        return 2 * size * math.prod(shapes[0][k] for k in left)
    if name == "cholesky":
        *batch, n, _ = shapes[0]
        return math.prod(batch) * (n**3 // 3 + n**2)
    if name == "triangular_solve":
        *batch, n, _ = shapes[0]
        return n * math.prod(shapes[1])
    if name in ("svd", "eigh", "qr"):
        *batch, m, n = shapes[0]
        return math.prod(batch) * {"svd": 22, "eigh": 9, "qr": 2}[name] * max(m, n) * min(m, n) ** 2
    if name == "while":
        return trips * (_of(_inner(p["body_jaxpr"]), trips) + _of(_inner(p["cond_jaxpr"]), trips))
    if name == "scan":
        return p["length"] * _of(_inner(p["jaxpr"]), trips)
    if name == "cond":
        return min(_of(_inner(b), trips) for b in p["branches"])
    inner = [v for v in p.values() if hasattr(_inner(v), "eqns")]
    return sum(_of(_inner(v), trips) for v in inner)
