"""PV, ProxPV and ProxBBO: rows ride up the tree with the bodies' inertias, multipliers are eliminated on the way.

| symbol | name | equation |
| --- | --- | --- |
| H_ii, K_ji, L_jk | `Articulated`, `jaxdyn.tree.elimination` | lcaba_proxbbo 40, 46; popov_vereshchagin 42 |
| LS(i) | `Group.rows` | the rows that ride at body i |
| R_i, U_i | `Multipliers.rows`, `.others` | lcaba_proxbbo 48: those with their root at i, and the rest |
| λ_R | ``-ν`` | lcaba_proxbbo 51 |

ProxBBO (Sathya and Carpentier 2025, Alg. 4 to 6) eliminates the multipliers of a constraint at the common ancestor of
all its bodies, with the compliance 1/μ of a proximal step; that of a constraint to the ground is the world. ProxPV is
the same for constraints to the ground alone. PV (Popov and Vereshchagin; Sathya et al. 2024, Alg. 1) leaves 1/μ out.
Multipliers go after the base, whose six columns are eliminated like all others (popov_vereshchagin, Eq. 47, by rows):
that also holds where the base itself is constrained, and L there has no inverse before.
"""

from collections.abc import Sequence
from typing import ClassVar

from ..kinematics.rows import Bundle
from ..tree.plan import Group, Multipliers, Rider, elimination
from ..tree.topology import WORLD, Topology
from .damped import every_row, factorised
from .iterated import Direct, Proximal


def riders_of(topology: Topology, bundles: Sequence[Bundle]) -> tuple[Rider, ...]:
    """Every constraint as one that rides to the common ancestor of its bodies."""
    riders = []
    for bundle in bundles:
        sides = list(zip(*bundle.attachments, strict=True)) or [()] * len(bundle.members)
        for start, bodies, attached in zip(bundle.starts, zip(*bundle.slots, strict=True), sides, strict=True):
            rows = tuple(range(start, start + bundle.layout.rows))
            grounded = len(bodies) == 1 or any(b == WORLD for b, _ in attached)
            riders.append(Rider(rows, tuple(bodies), WORLD if grounded else topology.common_ancestor(bodies)))
    return tuple(riders)


def _order(self, topology: Topology, bundles: Sequence[Bundle]) -> tuple[Group | Multipliers, ...]:
    return elimination(topology, frozenset(), riders_of(topology, bundles))


class ProxBBO(Proximal):
    """Proximal BBO: any constraints, redundant ones too; cheaper than LCABA where one constraint joins many bodies.

    **Arguments:** `mu`, `tol`, `max_steps`, `refine`, see `jaxdyn.constrained.iterated.Proximal`.
    """

    order = _order

    def system(self, problem, weights):
        return factorised(problem, weights, every_row(problem))


class ProxPV(Proximal):
    """Proximal PV: constraints that hold to the ground, redundant ones too.

    **Arguments:** `mu`, `tol`, `max_steps`, `refine`, see `jaxdyn.constrained.iterated.Proximal`.
    """

    grounded: ClassVar[bool] = True

    order = _order

    def system(self, problem, weights):
        return factorised(problem, weights, every_row(problem))


class PV(Direct):
    """Popov-Vereshchagin solver: independent constraints that hold to the ground, in O(n + m²d + m³).

    **Arguments:** `max_steps`, see `jaxdyn.constrained.iterated.Direct`.
    """

    grounded: ClassVar[bool] = True

    order = _order

    def system(self, problem, weights):
        return factorised(problem, weights, every_row(problem), hard=True)
