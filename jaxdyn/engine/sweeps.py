"""The primitive of a sweep, i.e. of a table applied to arrays: one equation, however long the table is.

The tangent of a sweep is a sweep of the steps' tangents over the same cells. Its transpose is a sweep of the transposed
steps, in reverse order. Both are sweeps again and therefore have derivatives themselves. No tape is needed: a cell is
read only after the last write to it, so the arrays of a sweep still hold everything that its steps have read.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
from jax.extend.core import ClosedJaxpr, Primitive, jaxpr_as_fun
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe

from .grouped import grouped
from .kept import parts
from .meshes import meshless
from .steps import Kind, Sweep, Table, cells

sweep_p = Primitive("jaxdyn_sweep")
sweep_p.multiple_results = True


def swept(table: Table, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a table writes, as arrays (cells, ..., lanes). `given` are the fields that it reads. A
    field that is both given and written starts from the given values."""
    sweep, named = table.sweep(given)
    outs = sweep_p.bind(*jax.tree.leaves(dict(given)), sweep=sweep)
    return {name: jax.tree.unflatten(tree, [outs[k] for k in at]) for name, (tree, at) in named.items()}


@sweep_p.def_impl
def _impl(*args, sweep):
    return jax.jit(grouped, static_argnums=0)(sweep, args)


@sweep_p.def_abstract_eval
def _abstract(*avals, sweep):
    return [jax.core.ShapedArray((a.cells, *a.shape), a.dtype) for a in sweep.outputs]


mlir.register_lowering(sweep_p, mlir.lower_fun(lambda *args, sweep: grouped(sweep, args), multiple_results=True))


def _batch(args, dims, *, sweep):
    raise NotImplementedError("sweeps carry lanes; batch the function that binds them")


batching.primitive_batchers[sweep_p] = _batch


def _jvp(primals, tangents, *, sweep: Sweep):
    outs = sweep_p.bind(*primals, sweep=sweep)
    active = tuple(type(t) is not ad.Zero for t in tangents)
    made, at = tangent(sweep, active)
    zero = [ad.Zero(jax.typeof(o).to_tangent_aval()) for o in outs]
    if made is None:
        return outs, zero
    moved = [ad.instantiate_zeros(t) for t, a in zip(tangents, active, strict=True) if a]
    found = sweep_p.bind(*primals, *outs, *moved, sweep=made)
    return outs, [z if k is None else found[k] for z, k in zip(zero, at, strict=True)]


def _transpose(cotangents, *args, sweep: Sweep):
    linear = tuple(ad.is_undefined_primal(a) for a in args)
    given = tuple(type(c) is not ad.Zero for c in cotangents)
    zero = [ad.Zero(a.aval) if u else None for a, u in zip(args, linear, strict=True)]
    made, at = transposed(sweep, linear, given)
    if made is None:
        return zero
    known = [a for a, u in zip(args, linear, strict=True) if not u]
    found = sweep_p.bind(*known, *[c for c, g in zip(cotangents, given, strict=True) if g], sweep=made)
    return [z if k is None else found[k] for z, k in zip(zero, at, strict=True)]


ad.primitive_jvps[sweep_p] = _jvp
ad.primitive_transposes[sweep_p] = _transpose


def tangent(sweep: Sweep, active: tuple[bool, ...]) -> tuple[Sweep | None, list[int | None]]:
    """Return the sweep of tangents and, for each output, the position of its tangent among the results (None: zero).

    `active` marks inputs whose tangents are not zero. Operands are those of `sweep`, its results, and the active
    tangents.
    """
    key = "tangent", active
    return sweep.derived.get(key) or sweep.derived.setdefault(key, _Tangent(sweep, active).make())


def transposed(sweep: Sweep, linear: tuple[bool, ...], given: tuple[bool, ...]) -> tuple[Sweep | None, list]:
    """Return the transpose of a sweep that is linear in its `linear` inputs and, for each input, the position of its
    cotangent among the results.

    `given` marks outputs whose cotangents are not zero. Operands are the inputs that are not linear, and the given
    cotangents.
    """
    key = "transposed", linear, given
    return sweep.derived.get(key) or sweep.derived.setdefault(key, _Transposed(sweep, linear, given).make())


class _Derived:
    """Base class of builders of a sweep's derivative. Its rows work on the arrays of the sweep and on `moved` arrays,
    the tangents or cotangents of these; `alive` holds the cells of moved arrays that may differ from zero."""

    def __init__(self, sweep: Sweep):
        self.sweep, self.n = sweep, len(sweep.inputs)
        self.kinds: dict = {}
        self.rows: list = []
        self.alive: set[tuple[int, int]] = set()

    def lives(self, array: int, start: int, count: int | None) -> bool:
        return any((array, c) in self.alive for c in cells(start, count))

    def born(self, array: int, start: int, count: int | None) -> None:
        self.alive.update((array, c) for c in cells(start, count))

    def all_of(self, array: int) -> None:
        self.born(array, 0, self.sweep.array(array).cells)

    def row(self, jaxpr, reads, writes) -> None:
        """Add a row. `reads` and `writes` are lists of ((array, count), start), where an array is (whether it is moved,
        number)."""
        key = id(jaxpr), tuple(r for r, _ in reads), tuple(w for w, _ in writes)
        index = self.kinds.setdefault(key, (len(self.kinds), jaxpr))[0]
        self.rows.append((index, tuple(s for _, s in reads), tuple(s for _, s in writes)))

    def finished(self, inputs, outputs, initial) -> Sweep:
        """Return the sweep; `inputs` and `outputs` are arrays as in `row`."""
        # if an input and an output are the same array, rows read the output
        number = {a: k for k, a in enumerate([*inputs, *outputs])}
        kinds = tuple(
            Kind(jaxpr, tuple((number[a], c) for a, c in reads), tuple((number[a], c) for a, c in writes))
            for (_, reads, writes), (_, jaxpr) in self.kinds.items()
        )
        given, made = (tuple(self.sweep.array(k) for _, k in part) for part in (inputs, outputs))
        return Sweep(given, made, kinds, tuple(self.rows), tuple(initial))


class _Tangent(_Derived):
    def __init__(self, sweep, active):
        super().__init__(sweep)
        self.active = active
        for k, a in enumerate(active):
            if a:
                self.all_of(k)
        for k, i in enumerate(sweep.initial):
            if i is not None and active[i]:
                self.all_of(self.n + k)

    def make(self):
        sweep, n = self.sweep, self.n
        for index, reads, writes in sweep.rows:
            kind = sweep.kinds[index]
            given = list(zip(kind.reads, reads, strict=True))
            mask = tuple(self.lives(a, s, c) for (a, c), s in given)
            if not any(mask):
                continue
            jaxpr, made = _step_tangent(kind.jaxpr, mask)
            old = [((False, a), c) for (a, c), _ in given]
            new = [((True, a), c) for ((a, c), _), m in zip(given, mask, strict=True) if m]
            starts = [*reads, *(s for s, m in zip(reads, mask, strict=True) if m)]
            out = [(w, s) for w, s, m in zip(kind.writes, writes, made, strict=True) if m]
            for (a, c), s in out:
                self.born(a, s, c)
            self.row(jaxpr, list(zip([*old, *new], starts, strict=True)), [(((True, a), c), s) for (a, c), s in out])
        moving = sorted({a for a, _ in self.alive if a >= n})
        if not moving:
            return None, [None] * len(sweep.outputs)
        inputs = [(False, k) for k in range(n + len(sweep.outputs))]
        inputs += [(True, k) for k, a in enumerate(self.active) if a]
        at = {a: k for k, a in enumerate(inputs)}
        initial = [sweep.initial[a - n] for a in moving]
        outputs = [(True, a) for a in moving]
        made = self.finished(inputs, outputs, [None if i is None else at.get((True, i)) for i in initial])
        return made, [moving.index(n + k) if n + k in moving else None for k in range(len(sweep.outputs))]


class _Transposed(_Derived):
    def __init__(self, sweep, linear, given):
        super().__init__(sweep)
        self.linear, self.given = linear, given
        for k, g in enumerate(given):
            if g:
                self.all_of(self.n + k)

    def make(self):
        sweep, n, linear = self.sweep, self.n, self.linear
        of_output = lambda a: a >= n or linear[a]  # noqa: E731
        for index, reads, writes in reversed(sweep.rows):
            kind = sweep.kinds[index]
            mask = tuple(self.lives(a, s, c) for (a, c), s in zip(kind.writes, writes, strict=True))
            if not any(mask):
                continue
            moving = tuple(of_output(a) for a, _ in kind.reads)
            jaxpr, made = _step_transpose(kind.jaxpr, moving, mask)
            given = [(((False, a), c), s) for (a, c), s, m in zip(kind.reads, reads, moving, strict=True) if not m]
            given += [(((True, a), c), s) for (a, c), s, m in zip(kind.writes, writes, mask, strict=True) if m]
            back = [(r, s) for r, s, m in zip(kind.reads, reads, moving, strict=True) if m]
            out = [x for x, m in zip(back, made, strict=True) if m]
            for (a, c), s in out:
                self.born(a, s, c)
            self.row(jaxpr, given, [(((True, a), c), s) for (a, c), s in out])
        for k, i in enumerate(sweep.initial):
            if i is not None and any((n + k, c) in self.alive for c in range(sweep.outputs[k].cells)):
                self.pass_on(n + k, i)
        return self.result()

    def pass_on(self, output: int, operand: int) -> None:
        """Add the cotangent of an output to the cotangent of the input that the output starts from."""
        a = self.sweep.array(output)
        jaxpr = _identity((a.cells, *a.shape), (a.cells, *self.sweep.array(operand).shape), a.dtype)
        self.row(jaxpr, [(((True, output), a.cells), 0)], [(((True, operand), a.cells), 0)])
        self.all_of(operand)

    def result(self):
        n = self.n
        arrays = sorted({a for a, _ in self.alive})
        wanted = [a for a in arrays if a < n]
        if not wanted:
            return None, [None] * n
        inputs = [(False, k) for k in range(n) if not self.linear[k]]
        first = len(inputs)
        cotangents = [n + k for k, g in enumerate(self.given) if g]
        inputs += [(True, a) for a in cotangents]
        initial = [first + cotangents.index(a) if a in cotangents else None for a in arrays]
        made = self.finished(inputs, [(True, a) for a in arrays], initial)
        return made, [arrays.index(k) if k in wanted else None for k in range(n)]


@parts
@meshless
def _identity(shape, target, dtype):
    reduce = shape[-1] > target[-1]
    return jax.make_jaxpr(lambda x: [x.sum(-1, keepdims=True) if reduce else x])(jax.ShapeDtypeStruct(shape, dtype))


def _reached(jaxpr, start: Sequence) -> set:
    """Return the variables that depend on those in `start`."""
    found = set(start)
    for eqn in jaxpr.eqns:
        if any(not hasattr(v, "val") and v in found for v in eqn.invars):
            found.update(eqn.outvars)
    return found


def _pruned(closed, keep: Sequence[bool]):
    """Return the closed jaxpr reduced to the results marked in `keep`."""
    jaxpr, _ = pe.dce_jaxpr(closed.jaxpr, list(keep), True)
    return ClosedJaxpr(jaxpr, closed.consts)


def _moving(made, first: int):
    """Return the jaxpr with those results alone that depend on its inputs from `first` on, and a mask of these."""
    reached = _reached(made.jaxpr, made.jaxpr.invars[first:])
    moves = [not hasattr(v, "val") and v in reached for v in made.jaxpr.outvars]
    return _pruned(made, moves), tuple(moves)


@parts
@meshless
def _step_tangent(closed, mask):
    """Return the jaxpr that maps (values, tangents of the masked values) to the tangents that are not zero, and a mask
    of these."""
    f, n = jaxpr_as_fun(closed), len(mask)

    def tangents(*args):
        xs, ts = args[:n], iter(args[n:])
        moved = [next(ts) if m else None for m in mask]
        at = [k for k, m in enumerate(mask) if m]

        def of(*some):
            full = list(xs)
            for k, x in zip(at, some, strict=True):
                full[k] = x
            return f(*full)

        return jax.jvp(of, [xs[k] for k in at], [moved[k] for k in at])[1]

    avals = [v.aval for v in closed.jaxpr.invars]
    made = jax.make_jaxpr(tangents)(*avals, *[a for a, m in zip(avals, mask, strict=True) if m])
    return _moving(made, n)


@parts
@meshless
def _step_transpose(closed, linear, mask):
    """Return the jaxpr that maps (values in which the step is not linear, cotangents of the masked results) to the
    cotangents of the other values that are not zero, and a mask of these."""
    f = jaxpr_as_fun(closed)
    avals = [v.aval for v in closed.jaxpr.invars]
    fixed = sum(not x for x in linear)

    def back(*args):
        known, cts = iter(args[:fixed]), args[fixed:]
        xs = [None if m else next(known) for m in linear]

        def of(*some):
            some = iter(some)
            outs = f(*[next(some) if m else x for m, x in zip(linear, xs, strict=True)])
            return [o for o, m in zip(outs, mask, strict=True) if m]

        return list(jax.linear_transpose(of, *[a for a, m in zip(avals, linear, strict=True) if m])(list(cts)))

    given = [a for a, m in zip(avals, linear, strict=True) if not m]
    cts = [a for a, m in zip(closed.out_avals, mask, strict=True) if m]
    made = jax.make_jaxpr(back)(*given, *cts)
    return _moving(made, fixed)
