"""Arithmetic operations of a function, counted on its jaxpr.

One each for an addition, a product, a quotient, a root, a comparison that chooses, per element; products of
matrices, Cholesky factors, triangular solves and decompositions by their textbook counts. Loops count their body
as often as they run: a scan by its length, a while loop `trips` times. Of branches the cheapest counts: the others are
repairs that hardly ever run. Data that only moves costs nothing, nor does what no output needs, which compilers leave
out. XLA's own analysis counts neither loops nor factorisations.
"""

import math
from collections.abc import Callable, Sequence

import jax
from jax.interpreters import partial_eval as pe

ONE = {
    "add", "sub", "mul", "div", "neg", "sqrt", "rsqrt", "max", "min", "abs", "sign", "exp", "log", "sin", "cos", "tan",
    "atan2", "tanh", "pow", "integer_pow", "square", "select_n", "add_any", "floor", "cbrt",
}  # fmt: skip
REDUCTIONS = {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "cumsum", "argmax", "argmin"}


def operations(f: Callable, *args, trips: int = 1) -> int:
    """Operations of ``f(*args)``."""
    return _of(_needed(f, *args), trips)


def _needed(f: Callable, *args, used: Sequence[bool] | None = None):
    """The program of ``f(*args)`` without what no output, or none of those that are used, needs."""
    jaxpr = jax.make_jaxpr(f)(*args).jaxpr
    return pe.dce_jaxpr(jaxpr, list(used or [True] * len(jaxpr.outvars)))[0]


def _of(jaxpr, trips: int) -> int:
    return sum(_equation(e, trips) for e in jaxpr.eqns)


def _inner(jaxpr):
    return getattr(jaxpr, "jaxpr", jaxpr)


def _equation(e, trips: int) -> int:
    name, p = e.primitive.name, e.params
    size = max((math.prod(v.aval.shape) for v in e.outvars if hasattr(v.aval, "shape")), default=0)
    shapes = [v.aval.shape for v in e.invars if hasattr(v.aval, "shape")]
    if name == "jaxdyn":
        core, used = p["core"], p["used"]
        with jax.numpy_rank_promotion("allow"):
            return _of(_needed(lambda *a: core.run(a, used), *[v.aval for v in e.invars], used=used), trips)
    if name in ONE:
        return size
    if name == "scatter-add":
        return math.prod(shapes[2])
    if name in REDUCTIONS:
        return math.prod(shapes[0])
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
