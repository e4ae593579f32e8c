"""PV, ProxPV and ProxBBO: rows ride up the tree, and multipliers are eliminated on the way.

A row rides if its coefficients pass from body to parent together with the articulated inertia.

| symbol | name | equation |
| --- | --- | --- |
| H_ii, K_ji, L_jk | fields `H`, `K`, `L` of `jaxdyn.tree.elimination` | lcaba_proxbbo 40, 46; popov_vereshchagin 42 |
| LS(i) | `Joint.riders` | the rows that ride at body i |
| R_i, U_i | `Multipliers.riders`, `.others` | lcaba_proxbbo 48: those with their root at i, and the rest |
| λ_R | ``-ν`` | lcaba_proxbbo 51 |

ProxBBO (Sathya and Carpentier 2025, Alg. 4 to 6) eliminates the multipliers of a constraint at the common ancestor of
all its bodies, with the compliance 1/μ of a proximal step. The common ancestor of a constraint to the ground is the
world. ProxPV is the same for constraints to the ground only. PV (Popov and Vereshchagin; Sathya et al. 2024, Alg. 1)
omits 1/μ. At a floating base it eliminates multipliers before the six columns of the base, so that no limb is coupled
with another (popov_vereshchagin, Eq. 49). Multipliers of constraints on the base itself, or of limbs that have fewer
freedoms than rows, are eliminated after the base (Eq. 47).
"""

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar

import equinox as eqx

from ..spatial.instances import check_flag
from ..systems.body_factor import body_factor, every_constraint, tied_factor
from ..systems.weights import riding_weights
from ..tree import panels
from ..tree.order import Rider, elimination, riders_of
from ..tree.topology import Topology
from .base import Solver
from .iterated import Direct, Proximal


def _freedoms(topology: Topology, limb: int, bodies: Collection[int]) -> int:
    """Return the number of independent velocities that move these bodies relative to the base that their `limb`, the
    first body of it, branches from. Those of clusters that reach beyond the limb do not count."""
    single = sum(topology.kinds[b].nv for b in bodies if b not in topology.cluster_of)
    met = [topology.clusters[k] for k in {topology.cluster_of.get(b, -1) for b in bodies} - {-1}]
    return single + sum(len(c.independent) for c in met if all(limb in topology.ancestors(b) for b in c.bodies))


def _at_the_base(topology: Topology, riders: Sequence[Rider]) -> tuple[Rider, ...]:
    """Return the riders with new roots: constraints of limbs with enough freedoms are eliminated at the floating base
    that the limbs branch from."""
    limbs = defaultdict(list)
    for rider in riders:
        path = topology.ancestors(*rider.bodies)[::-1]
        if len(path) > 1 and topology.kinds[path[0]].nv == 6:
            limbs[path[1]].append((rider, path[1:]))
    moved = {}
    for limb, members in limbs.items():
        needs = [(len(rider.rows), path) for rider, path in members]
        needs.append((sum(rows for rows, _ in needs), {b for _, path in needs for b in path}))
        if all(rows <= _freedoms(topology, limb, bodies) for rows, bodies in needs):
            moved |= {rider: topology.ancestors(*rider.bodies)[-1] for rider, _ in members}
    return tuple(dataclasses.replace(rider, root=moved.get(rider, rider.root)) for rider in riders)


def _riding(solver: Solver, problem, weights, rule: Callable = panels.damped):
    """Return the factor in which all rows ride, in the solver's order."""
    order = solver.order(problem.model.topology, problem.plan)
    return body_factor(problem, order, weights, every_constraint(problem), rule)


class ProxBBO(Proximal):
    """Proximal BBO: any constraints, redundant ones too; cheaper than LCABA where one constraint joins many bodies.

    **Arguments:** `mu`, `tol`, `max_steps`, `refine`, see `jaxdyn.extend.Proximal`.
    """

    recursive: ClassVar[bool] = True
    penalised = staticmethod(tied_factor)

    def order(self, topology, plan):
        return elimination(topology, frozenset(), riders_of(topology, plan))

    def weights(self, problem):
        return riding_weights(problem)

    def system(self, problem, weights):
        return _riding(self, problem, weights)


class ProxPV(ProxBBO):
    """Proximal PV: constraints to the ground, redundant ones too.

    **Arguments:** `mu`, `tol`, `max_steps`, `refine`, see `jaxdyn.extend.Proximal`.
    """

    grounded: ClassVar[bool] = True


class PV(Direct):
    """Popov-Vereshchagin solver: independent constraints to the ground, in O(n + m²d + m³), for limbs of a floating
    base in O(n + md).

    **Arguments:**

    - `max_steps`, see `jaxdyn.extend.Direct`.
    - `limbs_first`: True eliminates rows of limbs before a floating base moves, so that limbs are not coupled. Then a
      limb in a singular pose, such as a stretched leg, ends as `dependent_rows`, although the base could compensate for
      it. False eliminates all rows last.
    """

    recursive: ClassVar[bool] = True

    limbs_first: bool = eqx.field(static=True, default=True)

    grounded: ClassVar[bool] = True

    def __check_init__(self):
        check_flag("`PV`", "limbs_first", self.limbs_first)

    def order(self, topology, plan):
        riders = riders_of(topology, plan)
        return elimination(topology, frozenset(), _at_the_base(topology, riders) if self.limbs_first else riders)

    def system(self, problem, weights):
        return _riding(self, problem, weights, panels.hard)
