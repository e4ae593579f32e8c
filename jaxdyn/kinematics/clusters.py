"""Clusters of joints that constraints tie together, and the choice of their independent velocities."""

from collections.abc import Sequence

import numpy as np

from ..engine.sets import connected
from ..model.constraints import Constraint, Layout
from ..model.transmission import OnJoints
from ..tree.topology import WORLD, Topology

#: the least share of a dependent column of K that must be linearly independent of the other dependent columns, and the
#: share that is required as long as there is a choice
ENOUGH, AMPLE = 1e-3, 1e-2
#: shares count as equal if their ratio is at least this; among equal joints, the first ones of the tree stay
#: independent
ALIKE = 0.5


def joints_of(topology: Topology, constraint: Constraint) -> frozenset[int]:
    """Return the bodies whose joints a constraint depends on: the joints that it names, or those on the paths from its
    bodies to their common ancestors, or to the world if it is not relative."""
    if isinstance(constraint, OnJoints):
        return frozenset(topology.joint(j) for j in constraint.joints)
    layout: Layout = constraint.layout(topology)
    paths = [set(topology.ancestors(b)) for b in layout.bodies]
    grounded = not layout.relative or any(b == WORLD for b, _ in layout.attachments)
    shared = set() if grounded else set.intersection(*paths)
    return frozenset(set().union(*paths) - shared)


def merged(needs: Sequence[frozenset[int]]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the clusters of constraints that depend on these bodies, as (bodies, constraints). Constraints that share
    a joint, whether they overlap, are nested or parallel, are in one cluster."""
    return sorted((tuple(sorted(set().union(*(needs[k] for k in own)))), tuple(own)) for own in connected(needs))


def outputs(topology: Topology, bodies: Sequence[int]) -> tuple[int, ...]:
    """Return the bodies, or the world, that carry a cluster."""
    return tuple(sorted({topology.parents[b] for b in bodies} - set(bodies)))


def regularity(K: np.ndarray, tol: float) -> tuple[int, np.ndarray]:
    """Return the largest rank of K (samples, rows, columns) over all samples, and for each sample the singular value of
    that index relative to the largest one: near zero, the sample is near a singular pose."""
    values = np.linalg.svd(K, compute_uv=False)
    largest = values[:, :1].clip(1e-300)
    rank = int((values > tol * largest).sum(-1).max(initial=0))
    return rank, values[:, rank - 1] / largest[:, 0] if rank else np.ones(len(K))


def dependent(K: np.ndarray, rank: int, order: Sequence[Sequence[int]], tol: float) -> tuple[list[int], float]:
    """Return the columns of K (samples, rows, columns) to solve for, and the smallest share among them. The share of a
    column is the part that is orthogonal to the columns chosen before it, in the sample where that is least. Rows and
    columns whose norm relative to the largest is at most `tol` count as zero.

    The groups of `order` are tried one after the other. Within a group, the column with the largest share is next, and
    the last one of those with about the same share. A column that nearly depends on others is only chosen if no group
    has a better one. Rows and columns are normalised, so that units and gear ratios do not affect the choice.
    """
    rows = np.linalg.norm(K, axis=2).max(0, initial=0.0)
    K = K / np.where(rows > tol * rows.max(initial=0.0), rows, np.inf)[:, None]
    sizes = np.linalg.norm(K, axis=1).max(0, initial=0.0)
    K = K / np.where(sizes > tol * sizes.max(initial=0.0), sizes, np.inf)
    left = K.copy()
    found: list[int] = []
    worst = 1.0

    def share(j):
        return np.linalg.norm(left[:, :, j], axis=1).min()

    for least in (AMPLE, ENOUGH, 1e-2 * ENOUGH):
        for group in order:
            while len(found) < rank:
                shares = {j: share(j) for j in group if j not in found}
                most = max(shares.values(), default=0.0)
                if most < least:
                    break
                best = max(j for j, x in shares.items() if x >= ALIKE * most)
                worst = min(worst, shares[best])
                found.append(best)
                unit = left[:, :, best] / np.linalg.norm(left[:, :, best], axis=1, keepdims=True)
                left = left - unit[:, :, None] * np.einsum("sr,srj->sj", unit, left)[:, None]
    return _exchanged(K, found, order), float(worst)


def _exchanged(K: np.ndarray, found: list[int], order: Sequence[Sequence[int]]) -> list[int]:
    """Return the columns with some exchanged for others of the same or an earlier group. An exchange must increase the
    volume that the columns span, in the sample where it is least, by more than the factor 1 / `ALIKE`."""
    group = {j: g for g, members in enumerate(order) for j in members}
    volume = lambda at: np.linalg.svd(K[:, :, at], compute_uv=False).prod(-1).min()  # noqa: E731
    spanned = volume(found)
    while True:
        pairs = [(d, j) for d in found for j in group if j not in found and group[j] <= group[d]]
        others = [[j if x == d else x for x in found] for d, j in pairs]
        best = max(others, key=volume, default=found)
        if volume(best) * ALIKE <= spanned:
            return found
        found, spanned = best, volume(best)
