"""Elimination of riding rows' multipliers, one row at a time: steps, see `jaxdyn.tree.elimination`.

Rows are those of `riders`, then those of `others`, one constraint after the other.
"""

from typing import Any

import jax.numpy as jnp

from ..engine.core import joined, lanes_of, widen
from ..spatial.small import summed
from . import columns as co
from . import panels


def _joined(parts, counts):
    """Return the rows of constraints one after the other, with zeros for None."""
    like = next(x for x in parts if x is not None)
    full = [jnp.zeros((n, *like.shape[1:]), like.dtype) if x is None else x for x, n in zip(parts, counts, strict=True)]
    return joined(full)


def _matrix(blocks, turned, counts, kept):
    """Return L of the riders' and the others' rows. The given blocks (c, d) are those of riders c and all d at or after
    c, as (rows of c, rows of d) one after the other."""
    sizes = (*counts, *kept)
    square: list[list[Any]] = [[None] * len(sizes) for _ in sizes]
    for (c, d), block in blocks.items():
        shape = (sizes[d], sizes[c]) if (c, d) in turned else (sizes[c], sizes[d])
        block = block.reshape(*shape, block.shape[-1])
        block = jnp.swapaxes(block, 0, 1) if (c, d) in turned else block
        square[c][d] = block
        square[d][c] = jnp.swapaxes(block, 0, 1)
    like = next(x for row in square for x in row if x is not None)
    lanes = lanes_of(blocks)
    zero = lambda c, d: jnp.zeros((sizes[c], sizes[d], lanes), like.dtype)  # noqa: E731
    full = [[zero(c, d) if x is None else widen(x, lanes) for d, x in enumerate(row)] for c, row in enumerate(square)]
    return jnp.concatenate([jnp.concatenate(row, 1) for row in full])


def eliminate(rule, counts, kept, pairs, turned, coupled, K, L, R, whole):
    """Eliminate the rows of riders with `counts` rows; `kept` are the numbers of rows of the others, and `coupled` the
    pairs of the others that have a block in L, by their places.

    `pairs` are the places of the blocks `L`, of which those in `turned` are transposed. `K` are, per body and rider,
    the coefficients, None where a rider does not act. `R` is the compliance by rider (hard rows: what pivots must
    exceed; None: nothing), and `whole` what bodies have added to the diagonal of L. `rule` gives 1 / L_rr
    (`panels.py`).

    Returns (1 / L_rr, columns below the diagonal, coefficients at their elimination by body); then the additions to the
    inertia by body, to ties by pair of bodies, to the others' coefficients by body and constraint, to the others' L,
    and to their `whole`.
    """
    e, o = sum(counts), sum(kept)
    A = _matrix(dict(zip(pairs, L, strict=True)), turned, counts, kept)
    R = None if R is None else _joined(R, counts)
    error = jnp.zeros((e + o, 1), A.dtype)
    if any(x is not None for x in whole):
        error = _joined((*whole, *[None] * len(kept)), (*counts, *kept))

    left, inverse, below, _, error = panels.eliminate_rows(A, e, rule, error, R)
    taken, rest = [], []
    for at_body in K:
        sides = [[None if x is None else x[k] for x in at_body] for k in (0, 1)]
        n, f = (_joined((*s, *[None] * len(kept)), (*counts, *kept)) for s in sides)
        gone = []
        for l in below:
            gone.append((n[0], f[0]))
            n, f = n[1:] - l[:, None] * n[:1], f[1:] - l[:, None] * f[:1]
        taken.append(tuple(jnp.stack(x) for x in zip(*gone, strict=True)))
        rest.append(tuple(zip(co.apart(n, kept), co.apart(f, kept), strict=True)))
    own = tuple(co.sum_of(co.symmetric_product, inverse, x) for x in taken)
    pairs_of = [(s, t) for s in range(len(taken)) for t in range(s + 1, len(taken))]
    ties = tuple(co.sum_of(co.tie_product, inverse, taken[t], taken[s]) for s, t in pairs_of)
    square = [
        [jnp.swapaxes(x, 0, 1) for x in co.apart(jnp.swapaxes(row, 0, 1), kept)]
        for row in co.apart(panels.mirrored(left), kept)
    ]
    blocks = tuple(square[c][d].reshape(-1, left.shape[-1]) for c, d in coupled)
    flat_below = jnp.concatenate(below) if e + o > 1 else None
    return (jnp.stack(inverse), flat_below, tuple(taken)), own, ties, tuple(rest), blocks, co.apart(error, kept)


def forwards(counts, kept, b, Linv, below, taken):
    """Return the rows' right sides times 1 / L, the forces on the bodies, and additions to the others' right sides."""
    own, left = panels.lowered(below, _joined((*b, *[None] * len(kept)), (*counts, *kept)), sum(counts))
    w = own * Linv
    return w, tuple(co.row_forces(x, -w) for x in taken), co.apart(left, kept)


def backwards(counts, w, Linv, below, taken, motions, nu):
    """Return ν_r = (K_r a − b_r − Σ_s L_rs ν_s) / L_rr by rider, last row first; `nu` are those of the others."""
    value = -w
    if motions:
        value = value + summed(co.row_rates(x, a) for x, a in zip(taken, motions, strict=True)) * Linv
    return co.apart(panels.raised(below, value, [x[r] for x in nu for r in range(len(x))]), counts)
