"""The elimination of riding rows' multipliers, one row at a time; see `jaxdyn.tree.elimination`."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kernel import kernel
from . import columns as co
from . import panels
from .coupling import Coupling
from .field import Field
from .plan import Multipliers
from .topology import WORLD


def by_slot(blocks, slots: int, nodes: int):
    """Columns (slots * nodes) to two axes (slots, nodes)."""
    return tuple(slots_of(b, slots, nodes) for b in blocks)


def slots_of(x: Array, slots: int, nodes: int) -> Array:
    return x.reshape(*x.shape[:-2], slots, nodes, x.shape[-1])


def flat(blocks):
    return tuple(flat_rows(b) for b in blocks)


def flat_rows(x: Array) -> Array:
    """Axes (slots, nodes) to columns."""
    return x.reshape(*x.shape[:-3], x.shape[-3] * x.shape[-2], x.shape[-1])


def stack(parts: Sequence[Array], axis: int = 0) -> Array:
    """Side by side, as wide as the widest: some have a single lane."""
    shape = jnp.broadcast_shapes(*[x.shape for x in parts])
    return jnp.stack([jnp.broadcast_to(x, shape) for x in parts], axis)


def rows_on(K: Field, rows: Sequence[Sequence[int]], nodes: Sequence[int]):
    """(moment, force) of the rows of every slot on its node: (3, slots, nodes, lanes)."""
    found = K.get([(r, b) for slot in rows for r, b in zip(slot, nodes, strict=True)])
    if found is None:
        return None
    return by_slot(found, len(rows), len(nodes))


class Eliminated(NamedTuple):
    """What rows leave behind for the solves: 1 / L_rr (rows, nodes, lanes), K of the node and of its neighbours, (3,
    rows, nodes, lanes) each, and the columns l below the diagonal, by row."""

    Linv: Array
    K: tuple[Array, Array] | None
    around: list[tuple[Array, Array] | None]
    below: list[Array]


@kernel
def _damped(pivot, R):
    """1 / (L_rr + R), which does not exceed 1 / R."""
    return 1 / (jnp.maximum(pivot, 0) + R)


@kernel
def _less(below, K):
    """K_s − l_s K_0 of the rows after the first."""
    return tuple(x[:, 1:] - below[None] * x[:, :1] for x in K)


def eliminate(
    group: Multipliers, own: Field, ties: Field, K: Field, L: Coupling, compliance: Field | None, least: Field | None
) -> Eliminated:
    """`compliance` holds R by row; None is zero, and then `least` what L_rr must exceed."""
    rows, k = (*group.rows, *group.others), len(group)
    left = L.take(group)
    slots = [group.nodes] if group.nodes[0] != WORLD else []
    slots += group.neighbours
    on = [rows_on(K, rows, slot) for slot in slots]
    e = len(group.rows)
    error = stack([left[a, a] for a in range(e)])
    names = [r for slot in group.rows for r in slot]
    R = slots_of((least if compliance is None else compliance).get(names), e, k)

    def pivot(a, d, below):
        nonlocal error
        if compliance is not None:
            return _damped(d, R[a])
        error = panels.followed(error, below[-1][: e - a]) if a else error
        return panels.hard(d, error[0], R[a])

    left, inverse, below, _ = panels.eliminate(left, e, pivot)
    taken: list[list[Any]] = [[] for _ in slots]
    for s, x in enumerate(on):
        for l in below if x is not None else ():
            taken[s].append(tuple(y[:, 0] for y in x))
            x = on[s] = _less(l, x)
    weights = stack(inverse)
    stacked = [tuple(stack(x) for x in zip(*t, strict=True)) if t else None for t in taken]
    for s, slot in enumerate(slots):
        if stacked[s] is None:
            continue
        own.add(slot, co.inertia_of_rows(weights, *stacked[s]))
        for t in range(s + 1, len(slots)):
            if stacked[t] is not None:
                pairs = list(zip(slot, slots[t], strict=True))
                ties.add(pairs, co.tie_of_rows(weights, *stacked[s], *stacked[t]))
        if group.others:
            K.replace([(r, b) for o in group.others for r, b in zip(o, slot, strict=True)], flat(on[s]))
    if group.others:
        L.replace(group.others, left)
    here = bool(slots) and group.nodes[0] != WORLD
    return Eliminated(weights, stacked[0] if here else None, stacked[1:] if here else stacked, below)


@kernel
def _push(l, b):
    """b_s − l_s b_0 of the rows after the first."""
    return b[1:] - l * b[:1]


def forwards(group: Multipliers, parts: Eliminated, force: Field, rows: Field) -> Array:
    """The rows' right sides times 1 / L, (rows, nodes, lanes); what they exert goes to bodies and other rows."""
    names = [r for slot in (*group.rows, *group.others) for r in slot]
    left = slots_of(rows.get(names), len(group.rows) + len(group.others), len(group))
    own = []
    for l in parts.below:
        own.append(left[0])
        left = _push(l, left)
    w = stack(own) * parts.Linv
    for slot, K in zip(_bodies(group, parts), _acting(parts), strict=True):
        if K is not None:
            force.add(slot, co.row_forces(*K, -w))
    if group.others:
        rows.replace([r for slot in group.others for r in slot], flat_rows(left))
    return w


def _bodies(group: Multipliers, parts: Eliminated) -> list:
    return [group.nodes, *group.neighbours] if parts.K is not None else list(group.neighbours)


def _acting(parts: Eliminated) -> list:
    return [parts.K, *parts.around] if parts.K is not None else parts.around


def backwards(group: Multipliers, parts: Eliminated, w: Array, accelerations: Field, found: Field) -> None:
    """ν_r = (K_r a − b_r − Σ_s L_rs ν_s) / L_rr, last row first."""
    value = -w
    for slot, K in zip(_bodies(group, parts), _acting(parts), strict=True):
        if K is not None:
            value = value + co.row_rates(*K, *accelerations.get(slot)) * parts.Linv
    later = []
    if group.others:
        names = [r for slot in group.others for r in slot]
        others = slots_of(found.get(names), len(group.others), len(group))
        later = list(others)
    for a in reversed(range(len(group.rows))):
        x = value[a]
        if later:
            x = panels.substituted(x, parts.below[a], later)
        later.insert(0, x)
    found.add([r for slot in group.rows for r in slot], flat_rows(stack(later[: len(group.rows)])))
