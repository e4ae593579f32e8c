"""The rules for primitives that only move numbers. On arrays of values, these are NumPy's functions."""

import itertools
from collections.abc import Callable

import numpy as np

from .ops import Type, Unsupported, type_of
from .program import Program


def _broadcast(p, eqn, x):
    shape = eqn.params["shape"]
    whole = [1] * len(shape)
    for k, d in enumerate(eqn.params["broadcast_dimensions"]):
        whole[d] = x.shape[k]
    return np.broadcast_to(x.reshape(whole), shape)


def _slice(p, eqn, x):
    starts, stops = eqn.params["start_indices"], eqn.params["limit_indices"]
    strides = eqn.params["strides"] or (1,) * x.ndim
    return x[tuple(slice(a, b, s) for a, b, s in zip(starts, stops, strides, strict=True))]


def _pad(p, eqn, x, filling):
    out = x
    for axis, (low, high, inner) in enumerate(eqn.params["padding_config"]):
        n = out.shape[axis]
        size = low + high + n + max(n - 1, 0) * inner
        wide = np.full((*out.shape[:axis], max(size, 0), *out.shape[axis + 1 :]), filling.item(), np.int64)
        at = low + np.arange(n) * (inner + 1)
        kept = (at >= 0) & (at < size)
        head = (slice(None),) * axis
        wide[(*head, at[kept])] = out[(*head, np.flatnonzero(kept))]
        out = wide
    return out


def _iota(p: Program, eqn):
    shape, axis = eqn.params["shape"], eqn.params["dimension"]
    t = type_of(eqn.params["dtype"])
    line = np.array([p.constant(k, t) for k in range(shape[axis])], np.int64)
    return np.broadcast_to(line.reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape)


def known(p: Program, x: np.ndarray, what: str) -> np.ndarray:
    """Return the numbers that constants hold. Raises `Unsupported` if a value is not a constant."""
    if (x >= 0).any():
        raise Unsupported(f"{what} that depend on values")
    return np.array([int(p.value(v)) for v in x.ravel().tolist()], np.int64).reshape(x.shape)


def _dynamic_slice(p, eqn, x, *starts):
    sizes = eqn.params["slice_sizes"]
    at = [int(known(p, s, "slices")) for s in starts]
    at = [min(max(s, 0), n - k) for s, n, k in zip(at, x.shape, sizes, strict=True)]
    return x[tuple(slice(s, s + k) for s, k in zip(at, sizes, strict=True))]


def _dynamic_update_slice(p, eqn, x, new, *starts):
    at = [int(known(p, s, "slices")) for s in starts]
    at = [min(max(s, 0), n - k) for s, n, k in zip(at, x.shape, new.shape, strict=True)]
    out = x.copy()
    out[tuple(slice(s, s + k) for s, k in zip(at, new.shape, strict=True))] = new
    return out


def _addresses(shape, indices, window_dims, lost, to, batching, index_batching, sizes, clip):
    """Return, for each axis of the operand, the index of every element of a gather's result or of a scatter's updates
    (of shape `shape`), and a mask of the elements that lie inside the operand.

    Axes `window_dims` of `shape` run over a window. The operand's `lost` axes have no axis in `shape`.
    """
    rank = len(sizes["operand"])
    outer = [k for k in range(len(shape)) if k not in window_dims]
    grid = np.indices(shape)
    inside = np.ones(shape, bool)
    kept = [d for d in range(rank) if d not in lost and d not in batching]
    found = []
    where = tuple(grid[k] for k in outer)
    for d in range(rank):
        size, width = sizes["operand"][d], sizes["window"][d]
        at = np.zeros(shape, np.int64)
        if d in to:
            at = np.broadcast_to(indices[(*where, to.index(d))], shape)
        elif d in batching:
            at = grid[outer[index_batching[batching.index(d)]]]
        if clip:
            at = np.clip(at, 0, size - width)
        else:
            inside &= (at >= 0) & (at + width <= size)
        found.append(at + (grid[window_dims[kept.index(d)]] if d in kept else 0))
    return found, inside


def _clips(mode) -> bool:
    name = str(mode).lower()
    return "clip" in name or "promise" in name


def _gather(p: Program, eqn, x, indices):
    n, shape = eqn.params["dimension_numbers"], eqn.outvars[0].aval.shape
    found, inside = _addresses(
        shape,
        known(p, indices, "indices"),
        n.offset_dims,
        n.collapsed_slice_dims,
        n.start_index_map,
        n.operand_batching_dims,
        n.start_indices_batching_dims,
        {"operand": x.shape, "window": eqn.params["slice_sizes"]},
        _clips(eqn.params["mode"]),
    )
    if inside.all():
        return x[tuple(found)]
    filling = eqn.params["fill_value"]
    t = type_of(eqn.outvars[0].aval.dtype)
    out = np.full(shape, p.constant(_absent(t) if filling is None else filling, t), np.int64)
    out[inside] = x[tuple(f[inside] for f in found)]
    return out


def _absent(t: Type):
    """Return the number that a gather returns for an element outside the array."""
    if t.floating:
        return np.nan
    return True if t == Type.bool_ else np.iinfo(t.dtype).min if t.dtype.kind == "i" else np.iinfo(t.dtype).max


def _scatter(combine: str | None):
    def rule(p: Program, eqn, x, indices, updates):
        inner = eqn.params["update_jaxpr"]
        if combine is None and inner is not None and list(inner.outvars) != [inner.invars[1]]:
            raise Unsupported("`scatter` with a function")
        n = eqn.params["dimension_numbers"]
        window = [1] * x.ndim
        kept = [d for d in range(x.ndim) if d not in (*n.inserted_window_dims, *n.operand_batching_dims)]
        for d, k in zip(kept, n.update_window_dims, strict=True):
            window[d] = updates.shape[k]
        found, inside = _addresses(
            updates.shape,
            known(p, indices, "indices"),
            n.update_window_dims,
            n.inserted_window_dims,
            n.scatter_dims_to_operand_dims,
            n.operand_batching_dims,
            n.scatter_indices_batching_dims,
            {"operand": x.shape, "window": window},
            _clips(eqn.params["mode"]),
        )
        out = x.copy()
        f = None if combine is None else getattr(p, combine)
        for place in itertools.product(*map(range, updates.shape)):
            if inside[place]:
                at = tuple(a[place] for a in found)
                new = int(updates[place])
                out[at] = new if f is None else f(int(out[at]), new)
        return out

    return rule


def _empty(p: Program, eqn, *_):
    """Return zeros for an array that is never read."""
    aval = eqn.outvars[0].aval
    return np.full(aval.shape, p.constant(0, type_of(aval.dtype)), np.int64)


def _split(p, eqn, x):
    return np.split(x, np.cumsum(eqn.params["sizes"])[:-1], eqn.params["axis"])


def _same(p, eqn, x):
    return x


STRUCTURE: dict[str, Callable] = {
    "broadcast_in_dim": _broadcast,
    "reshape": lambda p, eqn, x: x.reshape(eqn.params["new_sizes"]),
    "squeeze": lambda p, eqn, x: np.squeeze(x, tuple(eqn.params["dimensions"])),
    "expand_dims": lambda p, eqn, x: np.expand_dims(x, tuple(eqn.params["dimensions"])),
    "transpose": lambda p, eqn, x: x.transpose(eqn.params["permutation"]),
    "concatenate": lambda p, eqn, *xs: np.concatenate(xs, eqn.params["dimension"]),
    "stack": lambda p, eqn, *xs: np.stack(xs, eqn.params["axis"]),
    "unstack": lambda p, eqn, x: list(np.moveaxis(x, eqn.params["axis"], 0)),
    "rev": lambda p, eqn, x: np.flip(x, eqn.params["dimensions"]),
    "slice": _slice,
    "pad": _pad,
    "iota": _iota,
    "empty": _empty,
    "empty2": _empty,
    "split": _split,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    "scatter": _scatter(None),
    "scatter-add": _scatter("add"),
    "scatter-sub": _scatter("sub"),
    "scatter-mul": _scatter("mul"),
    "scatter-min": _scatter("min_"),
    "scatter-max": _scatter("max_"),
    "tile": lambda p, eqn, x: np.tile(x, eqn.params["reps"]),
    "name": _same,
    "copy": _same,
    "copy_p": _same,
    "stop_gradient": _same,
    "pvary": _same,
    "optimization_barrier": lambda p, eqn, *xs: list(xs),
}
