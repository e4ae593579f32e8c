"""Count the arithmetic operations that the kernels of a function take for one state.

Kernels are counted as the scalar programs that are compiled: model parameters known to be 0, 1 or -1 are folded, equal
operations are shared, unused ones are removed, and operations shared by all lanes (elements of the batch), i.e. on
numbers that depend on parameters only, are not counted. A sum, a product, a quotient, a root and a sign count one each,
a multiply-add two, a sine one and a cosine one, as in graphs of symbolic expressions. Operations between kernels are
not counted.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from operations import needed

from jaxdyn.engine.calling import uniform_of
from jaxdyn.engine.core import Core
from jaxdyn.engine.inline import straight
from jaxdyn.engine.lanes import laned
from jaxdyn.engine.live import LEAVES, fused, trim
from jaxdyn.engine.ops import Op
from jaxdyn.engine.program import Program
from jaxdyn.engine.scalarise import scalarise

TWO = frozenset((Op.fma, Op.fms, Op.fnma))
ANY_SIZE = 1 << 60


def lane_operations(f: Callable, q: jax.Array, called: bool = False) -> int:
    """Return the operations of the kernels of ``f(q)``: as straight-line code, which shares equal operations of
    different steps, or, if `called`, with steps that are called as routines, which does not."""
    count, turns = Counter(), 0
    for eqn in _cores(needed(jax.vmap(f), jnp.stack([q, q]))):
        more, joints = _counted(_program(eqn), called)
        count += more
        turns += joints
    one, each = _turn(q.dtype)
    assert turns % each == 0
    return count.total() - turns // each * (one - 2)


def _cores(jaxpr) -> Iterator:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "jaxdyn":
            yield eqn
        for v in eqn.params.values():
            inner = getattr(v, "jaxpr", v)
            if hasattr(inner, "eqns"):
                yield from _cores(inner)


def _program(eqn) -> Program:
    core: Core = eqn.params["core"]
    used = eqn.params["used"]
    shapes = [v.aval.shape for v in eqn.invars]
    shared = tuple(k is not None and s[-1] == 1 for k, s in zip(core.known, shapes, strict=True))
    known = tuple(k if same else None for k, same in zip(core.known, shared, strict=True))
    avals = tuple((s[:-1], v.aval.dtype) for s, v in zip(shapes, eqn.invars, strict=True))
    program = scalarise(core.traced(used, avals), shared, known, ANY_SIZE)
    trim(program, used)
    return program


def _counted(program: Program, called: bool) -> tuple[Counter, int]:
    """Return the operations of a lane by kind, and the number of values from branches, which belong to sines and
    cosines."""
    s, live = fused(program if called else straight(program))
    same = uniform_of(s, live)
    count, results = Counter(), 0
    for v, op in enumerate(s.op):
        if live[v] and not same[v]:
            results += op == Op.result
            count[op] += 0 if op in LEAVES else 2 if op in TWO else 1
    for c in s.program.calls:
        mask = bytes(live[c.first : c.results.stop])
        if any(mask) and not c.template.uniform:
            more, branched = _routine(c.template, mask)
            count += more
            results += branched
    return count, results


@functools.cache
def _routine(template, mask: bytes) -> tuple[Counter, int]:
    """Return the same for a called step of which some results are used."""
    s = template.routine(mask).schedule
    live = [v for body in s.body.values() for v in body if isinstance(v, int) and s.op[v] not in LEAVES]
    return Counter({op: n * (2 if op in TWO else 1) for op, n in Counter(s.op[v] for v in live).items()}), sum(
        len(s.changing[k]) for k in s.changing
    )


def _sine_and_cosine(q):
    return jnp.sin(q), jnp.cos(q)


@functools.cache
def _turn(dtype) -> tuple[int, int]:
    """Return the operations of a sine and a cosine of one angle, and the number of values from branches in them."""
    angles = jnp.zeros((2, 1), dtype)
    (eqn,) = _cores(needed(jax.vmap(laned(_sine_and_cosine)), angles))
    count, results = _counted(_program(eqn), False)
    return count.total(), results
