"""PVEarly: the Popov-Vereshchagin solver with early elimination of the multipliers, O(n + m) (Sathya et al. 2024,
popov_vereshchagin, section VIII; Householder form Eqs. 65 to 68, see `jaxdyn.tree.early`)."""

from collections.abc import Sequence
from typing import ClassVar

import jax.numpy as jnp

from ..kinematics.rows import Bundle
from ..tree.early import carrying, factorise_early
from ..tree.topology import Topology
from .damped import Damped, every_row, rigid_of, rows_at
from .iterated import Proximal


def _given(topology: Topology, bundles: Sequence[Bundle]) -> list[tuple[int, ...]]:
    """The rows of constraints on every body."""
    out: list[list[int]] = [[] for _ in range(topology.nb)]
    for bundle in bundles:
        for start, (body,) in zip(bundle.starts, zip(*bundle.slots, strict=True), strict=True):
            out[body] += range(start, start + bundle.layout.rows)
    return [tuple(sorted(rows)) for rows in out]


class PVEarly(Proximal):
    """Popov-Vereshchagin solver with early elimination: constraints that hold to the ground, redundant ones too, in
    O(n + m).

    **Arguments:** `mu`, `tol`, `max_steps`, `refine`, see `jaxdyn.constrained.iterated.Proximal`.
    """

    grounded: ClassVar[bool] = True

    def order(self, topology, bundles):
        return carrying(topology, tuple(len(rows) for rows in _given(topology, bundles)))

    def system(self, problem, weights):
        names = {
            row: (b, k)
            for b, rows in enumerate(_given(problem.model.topology, problem.bundles))
            for k, row in enumerate(rows)
        }
        in_order = [row for bundle in problem.bundles for row in bundle.rows]
        K = rows_at(problem, lambda row, body: names[row])
        one = jnp.ones((1, 1), problem.q.dtype)
        compliance = 1 / weights[0][0] if weights else one
        named = tuple((row, names[row]) for row in in_order)
        factor = factorise_early(problem.order, named, problem.joints, rigid_of(problem), K, compliance)
        return Damped(problem, factor, weights, every_row(problem))
