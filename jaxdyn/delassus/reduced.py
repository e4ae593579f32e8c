"""`PVReduced` and `ConstrainedABA`: methods of lowest order for constraints to the ground.

Rows *ride*: the elimination propagates them from their bodies up the tree. A body has six degrees of freedom, so that
six unit rows represent any number of rows to the bodies above it. Where more than six rows meet at a body (a relay),
they stop, and six unit rows ride on from there. Let K be the rows at a relay s, and L their coupling through the bodies
below it. Then

    G_cd = L_cd + K_c Λ_s K_dᵀ,    Λ_st = G of the unit rows of relays,

where rows that stop at different relays have L = 0. Unit rows are rows like any other, so that all of G follows from
the root down, in O(n + m²): the idea of PV-OSIMr (Sathya, Decré and Swevers, IEEE RA-L 9(11), 2024), derived here from
popov_vereshchagin, Alg. 2.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..constrained.base import refuse_loops
from ..engine.core import at_or_zero
from ..engine.kept import tables
from ..engine.lanes import laned
from ..kinematics.rows import plan_of
from ..model.constraints import Layout
from ..systems.body_factor import body_factor
from ..systems.problem import problem_of
from ..tree.elimination import Elimination, elimination_of
from ..tree.factor import factorise
from ..tree.order import Order, Rider, elimination, kept_riders, relays
from ..tree.plan import Plan
from ..tree.topology import WORLD, Topology
from .base import Given, refuse_held
from .damping import Damping
from .explicit import Explicit

#: degrees of freedom of a body
SIX = 6


class Relayed(NamedTuple):
    """The rows of the constraints, followed by the unit rows of relays: their plan, the order of elimination, where
    each stops (a body or the world), and the relays."""

    plan: Plan
    order: Order
    stops: tuple[int, ...]
    relays: tuple[int, ...]


@tables
def _relayed(topology: Topology, plan: Plan) -> Relayed:
    given = [0] * topology.nb
    for c in range(len(plan)):
        given[plan.bodies(c)[0]] += len(plan.span(c))
    found = relays(topology, tuple(given), SIX)
    whole = Plan((*plan.layouts, *(Layout("relay", SIX, (b,)) for b in found)))
    stops, riders = [], []
    for c in range(len(whole)):
        body = whole.bodies(c)[0]
        above = topology.ancestors(body)[c >= len(plan) :]  # unit rows start above their own body
        stops.append(next((b for b in above if b in found), WORLD))
        riders.append(Rider(c, tuple(whole.span(c)), (body,), stops[-1], kept=True))
    return Relayed(whole, elimination(topology, frozenset(), tuple(riders)), tuple(stops), found)


@tables
def _tables(topology: Topology, plan: Plan) -> Elimination:
    made = _relayed(topology, plan)
    return elimination_of(topology, made.plan, made.order, ())


def _factor(given: Given):
    """Return the cells (entries by number) of L and K."""
    problem = problem_of(given.model, given.asked, given.q)
    topology, motion = given.model.topology, problem.motion
    made, rows = _relayed(topology, problem.plan), problem.rows
    unit = jnp.eye(SIX, dtype=given.q.dtype)[..., None]
    lanes = rows.K[0].shape[-1]
    parts = [jnp.broadcast_to(x, (*x.shape[:-1], lanes)) for x in (unit[:, :3], unit[:, 3:])]
    K = tuple(jnp.concatenate([k, *[x] * len(made.relays)]) for k, x in zip(rows.K, parts, strict=True))
    found = factorise(
        _tables(topology, problem.plan), motion.inertia, given.model.joints.armature, motion.driven, K
    ).parts
    return found.get("L", jnp.zeros((0, 1), given.q.dtype)), found.get("K", K)


class PVReduced(Explicit):
    """PV-OSIMr: at most six rows ride up from any body, O(n + m²). It takes constraints to the ground, and none that
    hold."""

    def check(self, call, topology, held, asked):
        refuse_held(self, call, held)
        refuse_loops(type(self).__name__, call, topology, asked, "`jd.osim.MatrixFree()` or `jd.osim.PV()`")

    def matrix(self, given):
        topology, plan = given.model.topology, plan_of(given.model.topology, given.asked)
        made, cells = _relayed(topology, plan), _tables(topology, plan).cells["K"].at
        L, K = laned(_factor)(given)
        K = jnp.concatenate(K, 1)
        places = made.plan.placed(_tables(topology, plan).blocks, L.shape[0])
        G = at_or_zero(L, places)
        first = {b: made.plan.starts[len(plan) + k] for k, b in enumerate(made.relays)}
        done = np.zeros(0, int)  # rows whose part of G is complete; those that stop at the world come first
        for stop in (WORLD, *reversed(made.relays)):
            here = [c for c, s in enumerate(made.stops) if s == stop]
            rows = np.asarray([r for c in here for r in made.plan.span(c)], int)
            if stop != WORLD and len(rows):
                at = np.asarray([cells[c, stop] + k for c in here for k in range(len(made.plan.span(c)))])
                unit = np.arange(first[stop], first[stop] + SIX)
                through = K[at] @ G[np.ix_(unit, done)]
                G = G.at[np.ix_(rows, done)].set(through).at[np.ix_(done, rows)].set(through.T)
                G = G.at[np.ix_(rows, rows)].add(K[at] @ G[np.ix_(unit, unit)] @ K[at].T)
            done = np.concatenate([done, rows])
        return G[: plan.rows, : plan.rows]


def _penalised(given: Given, R):
    """Return the cells of L if all rows also enter as penalties 1 / R."""
    problem = problem_of(given.model, given.asked, given.q)
    plan = problem.plan
    order = _riding(given.model.topology, plan)
    factor = body_factor(problem, order, 1 / R, frozenset(range(len(plan))), penalised=tuple(range(len(plan)))).factor
    return factor.parts["L"]


@tables
def _riding(topology: Topology, plan: Plan) -> Order:
    return elimination(topology, plan.cliques, kept_riders(plan, range(len(plan))))


class ConstrainedABA(PVReduced):
    """cABA-OSIM: the damped inverse as a matrix, without a factor of G + R (Sathya and Carpentier, IEEE T-RO 41, 2025).

    By the matrix inversion lemma, (G + R)⁻¹ = R⁻¹ − R⁻¹ J (M + Jᵀ R⁻¹ J)⁻¹ Jᵀ R⁻¹ (matrix_free_delassus, Eq. 8). Its
    middle factor is a Delassus matrix of the constrained articulated-body algorithm. It takes constraints to the
    ground, none that hold, and damping as a number or one number a row."""

    def damp(self, given, made, R):
        if R.diagonal is None:
            raise ValueError(
                "`ConstrainedABA` takes one number for each row as `damping`, no blocks. Use `jd.osim.MatrixFree()`."
            )
        given, R = jax.lax.stop_gradient((given, R))
        topology, plan = given.model.topology, plan_of(given.model.topology, given.asked)
        every = tuple(c for c in range(len(plan)) if not plan.layouts[c].velocities)
        L = laned(_penalised)(given, R.diagonal)
        blocks = elimination_of(topology, plan, _riding(topology, plan), every).blocks
        soft = at_or_zero(L, plan.placed(blocks, L.shape[0]))
        return soft / R.diagonal[:, None] / R.diagonal[None]

    def solve(self, given, made, damped, R: Damping, b: Array):
        once = lambda b: b / R.diagonal - damped @ b  # noqa: E731
        x = once(b)
        return x + once(b - made @ x - R.times(x))  # refine: the difference loses digits if R is small
