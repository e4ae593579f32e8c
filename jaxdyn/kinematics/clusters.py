"""Which joints move together: the clusters of constraints, and the choice of their independent velocities."""

from collections.abc import Sequence

import numpy as np

from ..model.constraints import Constraint, Layout
from ..model.transmission import OnJoints
from ..tree.topology import WORLD, Topology

#: what must be left of a dependent column of K, relative to the largest one, so that it can be told from the others,
#: and how much is wanted while there is a choice
ENOUGH, AMPLE = 1e-3, 1e-2
#: shares that are as good as each other: of joints that are, the first ones of the tree stay independent
ALIKE = 0.5


def joints_of(topology: Topology, constraint: Constraint) -> frozenset[int]:
    """Return the bodies whose joints a constraint needs: those that it names, or those on the way from its bodies to
    what carries all of them, which is the world if it is not relative."""
    if isinstance(constraint, OnJoints):
        return frozenset(topology.joint(j) for j in constraint.joints)
    layout: Layout = constraint.layout(topology)
    paths = [set(topology.ancestors(b)) for b in layout.bodies]
    grounded = not layout.relative or any(b == WORLD for b, _ in layout.attachments)
    shared = set() if grounded else set.intersection(*paths)
    return frozenset(set().union(*paths) - shared)


def merged(needs: Sequence[frozenset[int]]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the clusters of constraints that need these bodies, as (bodies, constraints): those that share a joint,
    overlapping, nested or parallel, are in one."""
    parts: list[tuple[set[int], set[int]]] = []
    for k, bodies in enumerate(needs):
        here, constraints = set(bodies), {k}
        for part in [p for p in parts if p[0] & here]:
            parts.remove(part)
            here |= part[0]
            constraints |= part[1]
        parts.append((here, constraints))
    return sorted((tuple(sorted(a)), tuple(sorted(b))) for a, b in parts)


def outputs(topology: Topology, bodies: Sequence[int]) -> tuple[int, ...]:
    """Return the bodies, or the world, that carry a cluster."""
    return tuple(sorted({topology.parents[b] for b in bodies} - set(bodies)))


def regularity(K: np.ndarray, tol: float) -> tuple[int, np.ndarray]:
    """Return the rank that K (samples, rows, columns) has where it is regular, and how far from losing it each sample
    is: the least singular value that counts, relative to the largest."""
    values = np.linalg.svd(K, compute_uv=False)
    largest = values[:, :1].clip(1e-300)
    rank = int((values > tol * largest).sum(-1).max(initial=0))
    return rank, values[:, rank - 1] / largest[:, 0] if rank else np.ones(len(K))


def dependent(K: np.ndarray, rank: int, order: Sequence[Sequence[int]], tol: float) -> tuple[list[int], float]:
    """Return the columns of K (samples, rows, columns) that are solved for, and the share that is left of the worst of
    them. What is smaller than `tol` is zero.

    Columns of the first group of `order` are taken before those of the next; within a group, the one of which most is
    left by those before, in the sample where least is, and the last one of those of which about as much is left. One
    that others nearly make up is only taken if no group has a better one. Units and gears shall not decide: rows and
    columns count with their lengths divided out.
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
    """Return as many columns, of which some are exchanged for others of the same or an earlier group, as long as the
    volume that they span, in the sample where it is least, grows much."""
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
