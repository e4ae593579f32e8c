"""Which joints move together: the clusters of constraints, and the choice of their independent velocities."""

from collections.abc import Sequence

import numpy as np

from ..model.constraints import Constraint, Layout
from ..model.transmission import OnJoints
from ..tree.topology import WORLD, Topology

#: what must be left of a dependent column of K, relative to the largest one, so that it can be told from the others
ENOUGH = 1e-2


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


def dependent(K: np.ndarray, rank: int, order: Sequence[Sequence[int]]) -> tuple[list[int], float]:
    """Return the columns of K (samples, rows, columns) that are solved for, and the share that is left of the worst of
    them.

    Columns of the first group of `order` are taken before those of the next; within a group, the one of which most is
    left by those before, in the sample where least is. One that others nearly make up is only taken if no group has a
    better one.
    """
    left = K.astype(float).copy()
    found: list[int] = []
    worst = 1.0

    def share(j):
        return (np.linalg.norm(left[:, :, j], axis=1) / np.linalg.norm(K[:, :, j], axis=1).max().clip(1e-300)).min()

    for least in (ENOUGH, 1e-2 * ENOUGH):
        for group in order:
            while len(found) < rank:
                best = max((j for j in group if j not in found), key=share, default=None)
                if best is None or share(best) < least:
                    break
                worst = min(worst, share(best))
                found.append(best)
                unit = left[:, :, best] / np.linalg.norm(left[:, :, best], axis=1, keepdims=True)
                left = left - unit[:, :, None] * np.einsum("sr,srj->sj", unit, left)[:, None]
    return found, float(worst)
