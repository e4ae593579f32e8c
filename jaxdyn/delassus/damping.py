"""The damping R of a Delassus operator: a compliance for every row, or a block for the rows of every constraint."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag, solve_triangular
from jaxtyping import Array

from ..spatial.numbers import check, finite, floats, not_negative


class Damping(eqx.Module):
    """The damping R, as its `diagonal` (m,) or as positive semidefinite `blocks` (r, r), one for each constraint."""

    diagonal: Array | None = None
    blocks: tuple[Array, ...] | None = None

    def times(self, x: Array) -> Array:
        """Return R x for a vector (m,)."""
        if self.blocks is None:
            return self.diagonal * x
        out = []
        for size, blocks, rows in self._by_size():
            out.append((rows, (blocks @ x[rows].reshape(-1, size, 1)).reshape(-1)))
        y = jnp.zeros_like(x)
        for rows, part in out:
            y = y.at[rows].set(part)
        return y

    def matrix(self) -> Array:
        """Return R as a matrix (m, m)."""
        return jnp.diag(self.diagonal) if self.blocks is None else block_diag(*self.blocks)

    def at_least(self, least: Array) -> "Damping":
        """Return the damping with a diagonal of at least `least`; to the diagonal of blocks, add `least`."""
        if self.blocks is None:
            return Damping(jnp.maximum(self.diagonal, least))
        return Damping(blocks=tuple(x + least * jnp.eye(len(x), dtype=x.dtype) for x in self.blocks))

    def whiten(self, rows: Array) -> Array:
        """Return C⁻¹ A for rows A (m, ...), where C are the Cholesky factors of the blocks."""
        return self._each(rows, lambda C, x: solve_triangular(C, x, lower=True))

    def unwhiten(self, x: Array) -> Array:
        """Return C⁻ᵀ x for a vector (m,)."""
        return self._each(x, lambda C, x: solve_triangular(C, x, lower=True, trans=1))

    def _each(self, x, fn):
        out = jnp.zeros_like(x)
        for size, blocks, rows in self._by_size():
            part = fn(jnp.linalg.cholesky(blocks), x[rows].reshape(-1, size, x[0].size))
            out = out.at[rows].set(part.reshape(-1, *x.shape[1:]))
        return out

    def _by_size(self):
        """Yield the size, the stacked blocks and the rows of all blocks of one size."""
        assert self.blocks is not None
        sizes = [len(x) for x in self.blocks]
        starts = np.cumsum([0, *sizes])
        for size in sorted(set(sizes)):
            which = [k for k, s in enumerate(sizes) if s == size]
            yield (
                size,
                jnp.stack([self.blocks[k] for k in which]),
                np.concatenate([np.arange(starts[k], starts[k] + size) for k in which]),
            )


def damping_of(call: str, given, rows: Sequence[int], dtype) -> Damping | None:
    """Return the damping for a user's argument: None, a number, one number a row, or a list with a number, a diagonal
    (r,) or a block (r, r) for each constraint. `rows` are the numbers of rows of the constraints. Raise for anything
    else."""
    if given is None or isinstance(given, Damping):
        return given
    m = sum(rows)
    if isinstance(given, list | tuple) and (any(np.ndim(x) > 0 for x in given) or len(given) == len(rows)):
        return _by_constraint(call, given, rows, dtype)
    R = floats(f"`{call}`", "damping", given)
    check(f"`{call}`", "damping", R, finite, not_negative)
    if R.shape not in ((), (m,)):
        raise ValueError(
            f"`{call}`: `damping` has shape {R.shape}: give a number, one number for each of the {m} rows, or a list "
            "with a number, a diagonal or a square block for each constraint."
        )
    return Damping(jnp.broadcast_to(R, (m,)).astype(dtype))


def _by_constraint(call, given, rows, dtype) -> Damping:
    """Return the damping of a list with an entry for each constraint: a diagonal, unless an entry is a block."""
    if len(given) != len(rows):
        raise ValueError(f"`{call}`: `damping` has {len(given)} blocks for {len(rows)} constraints; give one for each.")
    out = []
    for k, (x, r) in enumerate(zip(given, rows, strict=True)):
        name = f"damping[{k}]"
        block = floats(f"`{call}`", name, x).astype(dtype)
        if block.shape not in ((), (r,), (r, r)):
            raise ValueError(f"`{call}`: `{name}` has shape {block.shape}, neither (), ({r},) nor ({r}, {r}).")
        if block.ndim < 2:
            check(f"`{call}`", name, block, finite, not_negative)
            block = jnp.broadcast_to(block, (r,))
        elif not isinstance(block, jax.core.Tracer):
            _check_block(call, name, np.asarray(block))
        out.append(block)
    if all(x.ndim == 1 for x in out):
        return Damping(jnp.concatenate(out))
    return Damping(blocks=tuple(jnp.diag(x) if x.ndim == 1 else (x + x.T) / 2 for x in out))


def _check_block(call: str, name: str, block: np.ndarray) -> None:
    size = np.abs(block).max(initial=0)
    if not np.isfinite(block).all() or np.abs(block - block.T).max() > 1e-5 * size:
        raise ValueError(f"`{call}`: `{name}` is not a finite symmetric matrix.")
    if np.linalg.eigvalsh(block.astype(float)).min() < -1e-6 * size:
        raise ValueError(f"`{call}`: `{name}` has a negative eigenvalue; a damping must not.")
