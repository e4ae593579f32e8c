"""Steps, and tables that say which cells each step reads and writes.

A *step* is a pure function of a few values of one node, written as in the paper, without indices. A *table* lists steps
in order, with the cells that each one reads and writes. A *cell* is one entry along the first axis of a field. It holds
the sum of all values written to it; no step may write to it after another one has read it. A table therefore describes
a recursion completely before anything is traced, and each kind of step is traced once, however long the recursion is.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun

from .kept import parts
from .meshes import meshless


class Ref(NamedTuple):
    """A reference to cell `start` of field `name` or, if `count` is given, to that many cells from `start` on, stacked
    along a first axis."""

    name: str
    start: int
    count: int | None = None


@dataclasses.dataclass(frozen=True)
class Step:
    """The function ``fn(*static, *values)``. It is hashable, so that equal steps are traced once."""

    fn: Callable
    static: tuple = ()

    def __call__(self, *values):
        return self.fn(*self.static, *values)


class Row(NamedTuple):
    """One call of a step. `reads` and `writes` are nested tuples of `Ref`s; None represents an absent value."""

    step: Step
    reads: tuple
    writes: tuple


class Kind(NamedTuple):
    """Rows that differ only in their cells: the step's jaxpr and, for each operand and each result, the array and the
    number of cells."""

    jaxpr: Any
    reads: tuple[tuple[int, int | None], ...]
    writes: tuple[tuple[int, int | None], ...]


class Array(NamedTuple):
    """The static description of an array: number of cells, shape of a cell with its lanes, and dtype."""

    cells: int
    shape: tuple[int, ...]
    dtype: Any


@dataclasses.dataclass(eq=False)
class Sweep:
    """A table applied to arrays, as the primitive takes it. Arrays are numbered: `inputs` first, then `outputs`.

    **Fields:** `kinds`; `rows`, for each row its kind and the first cells of what it reads and writes; `initial`, for
    each output the input that it starts from, or None; `derived`, a cache of the sweep's derivatives.
    """

    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    kinds: tuple[Kind, ...]
    rows: tuple[tuple[int, tuple[int, ...], tuple[int, ...]], ...]
    initial: tuple[int | None, ...]
    derived: dict = dataclasses.field(default_factory=dict)

    def array(self, k: int) -> Array:
        return self.inputs[k] if k < len(self.inputs) else self.outputs[k - len(self.inputs)]


def cells(start: int, count: int | None) -> range:
    return range(start, start + (1 if count is None else count))


@parts
@meshless
def traced(step: Step, tree, avals: tuple, lanes: int):
    """Return the jaxpr of a step for flat values of these shapes and dtypes, and the structure of its results. All
    results have `lanes` lanes."""
    found = None

    def flat(*leaves):
        nonlocal found
        out, found = jax.tree.flatten(step(*jax.tree.unflatten(tree, leaves)))
        return [jnp.broadcast_to(x, (*x.shape[:-1], lanes)) for x in out]

    with jax.numpy_rank_promotion("allow"):
        closed = jax.make_jaxpr(flat)(*[jax.ShapeDtypeStruct(s, d) for s, d in avals])
    return closed, found


@parts
@meshless
def summed(closed, to: tuple[int, ...]):
    """Return the jaxpr of a step that writes to a cell several times: results with the same place in `to` are
    summed."""

    def once(*args):
        outs: dict[int, Any] = {}
        for k, x in zip(to, jaxpr_as_fun(closed)(*args), strict=True):
            outs[k] = outs[k] + x if k in outs else x
        return list(outs.values())

    return jax.make_jaxpr(once)(*[v.aval for v in closed.jaxpr.invars])


def _is_ref(x) -> bool:
    return isinstance(x, Ref)


def _named(x, found: list[Ref]):
    """Return what a row reads or writes without the cells, and append the `Ref`s to `found` in order."""
    if isinstance(x, Ref):
        found.append(x)
        return x.name, x.count
    return None if x is None else tuple([_named(y, found) for y in x])


def _check_order(rows: Sequence[Row], sizes: Mapping[str, int]) -> None:
    """Raise `ValueError` if a cell is written after it has been read. Derivatives read the values that a step has read
    from the arrays of the sweep, which hold the final content of each cell."""
    seen: dict[str, set[int]] = {name: set() for name in sizes}
    for k, row in enumerate(rows):
        reads: list[Ref] = []
        writes: list[Ref] = []
        _named(row.reads, reads)
        _named(row.writes, writes)
        for name, start, count in reads:
            if name in seen:
                seen[name].update(cells(start, count))
        for name, start, count in writes:
            late = seen[name].intersection(cells(start, count))
            if late:
                step = getattr(row.step.fn, "__name__", row.step.fn)
                raise ValueError(
                    f"row {k} of a table (`{step}`) writes to cell {min(late)} of `{name}`, which has been read. "
                    "Put what reads it after all that write to it, or write to another field."
                )


class Table:
    """Rows in order, and the number of cells of every field that is written.

    **Arguments:** `rows`; `sizes`, number of cells by name of field.

    **Raises** `ValueError` if a cell is written after it has been read.
    """

    def __init__(self, rows: Sequence[Row], sizes: Mapping[str, int]):
        self.rows, self.sizes = tuple(rows), dict(sizes)
        _check_order(self.rows, self.sizes)
        self._made: dict = {}

    def sweep(self, given: Mapping[str, Any]) -> tuple[Sweep, dict[str, Any]]:
        """Return the sweep for fields of these shapes, and the structures of the fields that it writes.

        `given` are pytrees of arrays (cells, ..., lanes) or of their shapes. A field that is both given and written
        starts from the given values.
        """
        leaves, tree = jax.tree.flatten(dict(given))
        key = tree, tuple((x.shape, jnp.dtype(x.dtype)) for x in leaves)
        found = self._made.get(key)
        return found or self._made.setdefault(key, _Maker(self, given).make())


class _Maker:
    """A builder of the `Sweep` of a table, for fields of given shapes."""

    def __init__(self, table: Table, given: Mapping[str, Any]):
        self.table = table
        self.inputs: list[Array] = []
        self.outputs: list[Array] = []
        self.initial: list[int | None] = []
        #: structure and array numbers of each field; outputs are numbered from -1 downwards until all inputs are known
        self.fields: dict[str, tuple[Any, list[int]]] = {}
        self.lanes = max((x.shape[-1] for x in jax.tree.leaves(given)), default=1)
        for name in sorted(given):
            leaves, tree = jax.tree.flatten(given[name])
            first = len(self.inputs)
            self.inputs += [Array(x.shape[0], tuple(x.shape[1:]), jnp.dtype(x.dtype)) for x in leaves]
            if name in table.sizes:
                wide = [(*x.shape[1:-1], self.lanes) for x in leaves]
                avals = [(s, x.dtype) for s, x in zip(wide, leaves, strict=True)]
                self.field(name, tree, avals, range(first, len(self.inputs)))
            else:
                self.fields[name] = tree, list(range(first, len(self.inputs)))

    def field(self, name, tree, avals, initial=None) -> None:
        """Add a field that the table writes."""
        first = -1 - len(self.outputs)
        self.outputs += [Array(self.table.sizes[name], tuple(s), jnp.dtype(d)) for s, d in avals]
        self.initial += list(initial) if initial is not None else [None] * len(avals)
        self.fields[name] = tree, list(range(first, first - len(avals), -1))

    def array(self, k: int) -> Array:
        return self.inputs[k] if k >= 0 else self.outputs[-1 - k]

    def make(self):
        kinds: dict = {}
        rows = []
        #: kinds by rows without their cells, so that each kind is built once for thousands of rows
        known: dict = {}
        for row in self.table.rows:
            reads, writes = [], []
            key = row.step, _named(row.reads, reads), _named(row.writes, writes), len(set(writes)) < len(writes)
            found = known.get(key)
            if found is None or key[-1]:
                found = known[key] = self.kind(row, reads, kinds)
            index, given, to = found
            rows.append((index, tuple([reads[k].start for k in given]), tuple([writes[k].start for k in to])))
        n = len(self.inputs)
        number = lambda k: k if k >= 0 else n - 1 - k  # noqa: E731
        renumbered = tuple(
            Kind(k.jaxpr, *(tuple((number(a), c) for a, c in part) for part in k[1:])) for _, k in kinds.values()
        )
        sweep = Sweep(tuple(self.inputs), tuple(self.outputs), renumbered, tuple(rows), tuple(self.initial))
        named = {
            name: (tree, [-1 - k for k in at]) for name, (tree, at) in self.fields.items() if name in self.table.sizes
        }
        return sweep, named

    def kind(self, row: Row, refs: list[Ref], kinds: dict) -> tuple[int, list[int], list[int]]:
        """Return the number of a row's kind and, for each operand and result, the index of its cell among the row's
        cells."""
        outer = jax.tree.structure(row.reads, is_leaf=_is_ref)
        trees = [self.fields[r.name][0] for r in refs]
        arrays = [(k, n) for n, r in enumerate(refs) for k in self.fields[r.name][1]]
        avals = tuple(self.aval(k, refs[n].count) for k, n in arrays)
        inner = jax.tree.unflatten(outer, [jax.tree.unflatten(t, [0] * t.num_leaves) for t in trees])
        closed, out_tree = traced(row.step, jax.tree.structure(inner), avals, self.lanes)
        written = self.written(row.step, row.writes, out_tree, closed.out_avals)
        places = [(k, r) for k, r, _ in written]
        if len(set(places)) < len(places):
            closed = summed(closed, tuple(places.index(x) for x in places))
            written = [w for n, w in enumerate(written) if places.index(places[n]) == n]
        kind = Kind(closed, tuple((k, refs[n].count) for k, n in arrays), tuple((k, r.count) for k, r, _ in written))
        index = kinds.setdefault((id(closed), *kind[1:]), (len(kinds), kind))[0]
        return index, [n for _, n in arrays], [n for *_, n in written]

    def aval(self, k: int, count: int | None):
        a = self.array(k)
        return (a.shape if count is None else (count, *a.shape)), a.dtype

    def written(self, step, writes, out_tree, avals) -> list[tuple[int, Ref, int]]:
        """Return, for each leaf of a step's results, the array that it is written to, its cell, and the index of that
        cell in `writes`."""
        value = jax.tree.unflatten(out_tree, list(avals))
        refs, outer = jax.tree.flatten(writes, is_leaf=_is_ref)
        out = []
        for n, (ref, part) in enumerate(zip(refs, outer.flatten_up_to(value), strict=True)):
            leaves, tree = jax.tree.flatten(part)
            shapes = [(x.shape if ref.count is None else x.shape[1:], x.dtype) for x in leaves]
            if ref.name not in self.fields:
                self.field(ref.name, tree, shapes)
            known, arrays = self.fields[ref.name]
            found = [(self.array(k).shape, self.array(k).dtype) for k in arrays]
            if known != tree or found != [(tuple(s), jnp.dtype(d)) for s, d in shapes]:
                raise AssertionError(f"{step} writes {tree}, {shapes} to the field {ref.name!r} of {known}, {found}")
            out += [(k, ref, n) for k in arrays]
        return out
