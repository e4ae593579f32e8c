"""The operator J P Jᵀ + R by dense algebra in NumPy: what any way to apply or invert it is compared with.

P = M⁻¹ where nothing else holds. Where constraints K a = 0 hold meanwhile, forces move a robot by

    P = M⁻¹ - M⁻¹ Kᵀ (K M⁻¹ Kᵀ)⁺ K M⁻¹,    the upper left block of the pseudo-inverse of  [M Kᵀ; K 0],

as far as rows of K depend on each other, those of full rank alone. M, J and K come from jaxdyn here; `oracle.delassus`
makes them without it.
"""

from collections.abc import Sequence

import numpy as np

import jaxdyn as jd

#: singular values of K below this times the largest are zero: planar loops of files close to some digits only
RANK = 1e-6


def mobility(M: np.ndarray, K: np.ndarray | None = None, rank: float = RANK) -> np.ndarray:
    """P (nv, nv): accelerations from forces, where K a = 0 holds."""
    L = np.linalg.cholesky(M)
    back = np.linalg.inv(L)
    if K is None or not len(K):
        return back.T @ back
    _, s, right = np.linalg.svd(K, full_matrices=False)
    held = right[s > rank * s.max(initial=0.0)]
    held, _ = np.linalg.qr(back @ held.T)
    free = back - held @ (held.T @ back)
    return free.T @ free


def operator(M, J, K=None, damping=None, rank: float = RANK) -> np.ndarray:
    """J P Jᵀ + R (m, m)."""
    G = J @ mobility(M, K, rank) @ J.T
    return (G + G.T) / 2 + matrix(damping, len(J))


def matrix(damping, m: int) -> np.ndarray:
    """R (m, m) from None, a number, a diagonal (m,), a matrix, or the square blocks of constraints one by one."""
    if damping is None:
        return np.zeros((m, m))
    if isinstance(damping, Sequence):
        out, at = np.zeros((m, m)), 0
        for block in map(np.asarray, damping):
            size = len(block)
            out[at : at + size, at : at + size] = block
            at += size
        if at != m:
            raise ValueError(f"blocks of {at} rows in all are no damping of {m} rows.")
        return out
    damping = np.asarray(damping, float)
    return damping if damping.ndim == 2 else np.diag(np.broadcast_to(damping, (m,)))


def solve(G: np.ndarray, b: np.ndarray, rank: float = 1e-10) -> np.ndarray:
    """The x of least norm for which |G x - b| is least, G symmetric."""
    return np.linalg.pinv(G, rcond=rank, hermitian=True) @ b


def delassus(model, q, constraints, *, damping=None, within=()) -> np.ndarray:
    """The operator (m, m) of jaxdyn's own mass matrix and Jacobians, in double precision."""
    M = np.asarray(jd.mass_matrix(model, q), float)
    J = np.asarray(jd.constraint_jacobian(model, q, constraints), float)
    K = np.asarray(jd.constraint_jacobian(model, q, within), float) if within else None
    return operator(M, J, K, damping)
