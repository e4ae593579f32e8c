"""`PV` and `PVFast`: methods whose rows ride up the tree and are kept, i.e. never eliminated.

A row rides if the elimination of `jaxdyn.tree.elimination` carries it from its bodies up the tree. Eliminating a column
of a joint adds R_c R_dᵀ / D to the coupling L_cd of the rows that ride there. When all bodies are eliminated, L is
G = J M⁻¹ Jᵀ (popov_vereshchagin, section VII and Alg. 2). The paper treats constraints to the ground; here rows on
several bodies ride from each of them, and their coefficients add up where two paths meet.

Rows that hold are eliminated where the paths from their bodies have met, as in `jaxdyn.constrained.prox_bbo`: with
l_c = L_cr / L_rr, L_cd − l_c L_rd is G of the robot on which row r holds. Redundant rows are left out.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import block_diag, cho_solve, solve_triangular
from jaxtyping import Array

from ..engine.core import at_or_zero, joined
from ..engine.kept import tables
from ..engine.lanes import laned
from ..engine.sets import Disjoint
from ..kinematics.rows import plan_of
from ..systems.body_factor import body_factor
from ..systems.problem import Problem, problem_of
from ..systems.weights import automatic_weights
from ..tree import columns as co
from ..tree import panels
from ..tree.elimination import Elimination, elimination_of
from ..tree.factor import Factor
from ..tree.order import Joint, Order, beyond_a_base, elimination, kept_riders, riders_of
from ..tree.plan import Plan
from ..tree.topology import Topology
from .base import Given, Method
from .explicit import Explicit, rounding_of
from .refined import REDUNDANT


@tables
def _order(topology: Topology, plan: Plan, held: int, open_base: bool) -> Order:
    """Return the order that eliminates the first `held` constraints at the common ancestor of their bodies, and keeps
    the others. If `open_base`, floating bases are not eliminated."""
    riders = *riders_of(topology, plan)[:held], *kept_riders(plan, range(held, len(plan)))
    order = elimination(topology, frozenset(), riders)
    bases = set(topology.floating_bases) if open_base else set()
    return tuple(x for x in order if not (isinstance(x, Joint) and x.body in bases))


@tables
def _tables(topology: Topology, plan: Plan, held: int, open_base: bool) -> Elimination:
    return elimination_of(topology, plan, _order(topology, plan, held, open_base), (), panels.if_independent)


def independent(weights: Array) -> Array:
    """Return the weights of rows that ride and hold, from μ. With them, `panels.if_independent` leaves out the rows
    whose pivot in S (see `refined.py`) is at most `REDUNDANT`."""
    share = REDUNDANT[weights.dtype.itemsize]
    return weights * (1 - share) / share


def factor_of(
    problem: Problem, held: int, weights: Array, open_base: bool = False, apart: bool = False, later: bool = False
) -> Factor:
    """Return the factor of a robot on which the first `held` constraints hold, and in which the rows of the others are
    kept. Redundant rows that hold are left out, as in `refined.py`. `weights` are the μ of all rows (m, lanes). If
    `apart`, keep only each constraint's own block of L. If `later`, rows do not ride yet where that is possible."""
    order = _order(problem.model.topology, problem.plan, held, open_base)
    rides = frozenset(range(len(problem.plan)))
    rule, weights = panels.if_independent, independent(weights)
    factor = body_factor(problem, order, weights, rides, rule, penalised=(), apart=apart, later=later).factor
    assert isinstance(factor, Factor)
    return factor


def _parts(held: int, open_base: bool, given: Given):
    """Return the problem, and the parts of the factor."""
    problem = problem_of(given.model, given.constraints, given.q)
    weights = jax.lax.stop_gradient(automatic_weights(problem))
    return problem, factor_of(problem, held, weights, open_base).parts


def _factor(held: int, given: Given):
    """Return the cells (entries by number) of L."""
    return _parts(held, False, given)[1].get("L", jnp.zeros((0, 1), given.q.dtype))


@tables
def _places(topology: Topology, plan: Plan, held: int, open_base: bool) -> np.ndarray:
    """Return the cell of L for every entry of G (m, m), one beyond the last for a zero entry."""
    made, first = _tables(topology, plan, held, open_base), plan.starts[held]
    return plan.placed(made.blocks, made.cells["L"].size)[first:, first:]


class PV(Explicit):
    """PV-OSIM: all rows ride to the world, O(n + m² d) (popov_vereshchagin, Alg. 2). It takes any constraints.

    Rows that hold ride only to the common ancestor of their bodies and are eliminated there, which leaves G of the
    robot on which they hold."""

    def matrix(self, given):
        held = len(given.held)
        cells = laned(_factor, held)(given)
        plan = plan_of(given.model.topology, given.constraints)
        return at_or_zero(cells, _places(given.model.topology, plan, held, False))


class Branches(NamedTuple):
    """The parts of G = L + K H⁻¹ Kᵀ = L + Y Yᵀ: the blocks of L, for rows that are coupled even if the bases are fixed;
    K (m, 6 bases) and the inertias H (6, 6) of the bases, used in solves; Y = K C⁻ᵀ with H = C Cᵀ, used in products."""

    L: tuple[Array, ...]
    H: tuple[Array, ...]
    K: Array
    Y: Array


class DampedBranches(NamedTuple):
    """The Cholesky factors F of the blocks of L + R, Z = F⁻¹ K, and the Cholesky factor C of H + Zᵀ Z."""

    L: tuple[Array, ...]
    Z: Array
    C: Array


def _open(held: int, given: Given):
    """Return the cells of L before bases are eliminated; by base, H (6, 6, lanes); K and Y (m, 6 bases, lanes)."""
    problem, parts = _parts(held, True, given)
    topology, plan = given.model.topology, problem.plan
    ridden, at = parts.get("K", problem.rows.K), _tables(topology, plan, held, True).cells["K"].at
    asked = range(held, len(plan))
    none = jnp.zeros((given.rows, 0, 1), given.q.dtype)
    inertias, K, Y = [], [none], [none]
    for b in topology.floating_bases:
        par = jax.tree.map(lambda x, b=b: x[b], problem.motion.joints["joint"])
        columns = topology.kinds[b].columns(par, given.q[topology.q_starts[b] : topology.q_starts[b + 1]])
        arrived = [jnp.zeros((len(plan.span(c)), 6, 1), given.q.dtype) for c in asked]
        for k, c in enumerate(asked):
            if (c, b) in at:
                own = tuple(jnp.swapaxes(x[at[c, b] : at[c, b] + len(arrived[k])], 0, 1) for x in ridden)
                arrived[k] = jnp.stack([co.product(s, *own) for s in columns], 1)
        inertias.append(_base_inertia(given, problem.motion, parts, b, columns))
        K.append(joined(arrived))
        Y.append(_whitened(inertias[-1], K[-1]))
    return parts.get("L", jnp.zeros((0, 1), given.q.dtype)), tuple(inertias), joined(K, 1), joined(Y, 1)


def _base_inertia(given: Given, motion, parts, b: int, columns):
    """Return Sᵀ H S of a base plus its armature, (6, 6, lanes)."""
    topology = given.model.topology
    own = co.rigid(*(x[b] for x in motion.inertia))
    H = co.added(own, tuple(x[b] for x in parts["H"])) if topology.parents.count(b) else own
    U = [co.times(s, *H) for s in columns]
    rows = [jnp.stack(jnp.broadcast_arrays(*[co.product(s, *u) for s in columns])) for u in U]
    armature = given.model.joints.armature[topology.v_starts[b] : topology.v_starts[b] + 6]
    return jnp.stack(rows) + jnp.eye(6, dtype=armature.dtype)[..., None] * armature[:, None]


def _whitened(H: Array, K: Array) -> Array:
    """Return K C⁻ᵀ with H = C Cᵀ, (m, 6, lanes)."""
    n, m = len(H), len(K)
    none = jnp.zeros((m, m, 1), K.dtype)
    bordered = joined([joined([H, K]), joined([jnp.swapaxes(K, 0, 1), none])], 1)
    _, inverse, _, columns = panels.eliminate(bordered, n, lambda k, d, below: 1 / d)
    return jnp.stack([x[n - 1 - k :] * jnp.sqrt(d) for k, (x, d) in enumerate(zip(columns, inverse, strict=True))], 1)


@tables
def _coupled(topology: Topology, plan: Plan, held: int) -> tuple[tuple[int, ...], ...]:
    """Return the sets of rows of the operator that are coupled before bases are eliminated."""
    parts, first = Disjoint(range(held, len(plan))), plan.starts[held]
    for c, d in _tables(topology, plan, held, True).blocks:
        if c >= held:
            parts.join(c, d)
    return tuple(tuple(r - first for c in own for r in plan.span(c)) for own in parts.sets())


def _sets(given: Given) -> tuple[tuple[int, ...], ...]:
    """Return the sets of `_coupled` for the given inputs."""
    topology = given.model.topology
    return _coupled(topology, plan_of(topology, given.constraints), len(given.held))


class PVFast(Method):
    """PV-OSIM-fast: it stops before floating bases are eliminated, where limbs are not coupled yet. G is never formed:
    the matrix inversion lemma adds the bases (popov_vereshchagin, section VII-B). It takes any constraints; those that
    hold must not tie a floating base to others or to the world. Without a floating base it equals `PV`."""

    def check(self, call, topology, held, asked):
        for rider in riders_of(topology, plan_of(topology, held)):
            if beyond_a_base(topology, rider):
                name = type(held[rider.constraint]).__name__
                raise ValueError(
                    f"{call}: `PVFast` cannot hold `within[{rider.constraint}]`, a `{name}` between a floating base "
                    "and others, or the world. Use `jd.osim.MatrixFree()` or `jd.osim.PV()`."
                )

    def prepare(self, given):
        cells, H, K, Y = laned(_open, len(given.held))(given)
        plan = plan_of(given.model.topology, given.constraints)
        places = _places(given.model.topology, plan, len(given.held), True)
        return Branches(tuple(at_or_zero(cells, places[np.ix_(s, s)]) for s in _sets(given)), H, K, Y)

    def times(self, given, made, x):
        y = made.Y @ (made.Y.T @ x)
        for rows, L in zip(_sets(given), made.L, strict=True):
            y = y.at[np.asarray(rows)].add(L @ x[np.asarray(rows)])
        return y

    def rounding(self, made):
        return rounding_of(*made.L)

    def damp(self, given, made, R):
        made, sets = jax.lax.stop_gradient(made), _sets(given)
        R = R.matrix()  # a constraint's block is within one set
        L = tuple(jnp.linalg.cholesky(x + R[np.ix_(rows, rows)]) for rows, x in zip(sets, made.L, strict=True))
        Z = _branchwise(sets, L, made.K)
        return DampedBranches(L, Z, jnp.linalg.cholesky(block_diag(*made.H) + Z.T @ Z) if made.H else Z)

    def solve(self, given, made, damped, R, b):
        sets = _sets(given)
        y = _branchwise(sets, damped.L, b)
        if made.H:
            y = y - damped.Z @ cho_solve((damped.C, True), damped.Z.T @ y)
        return _branchwise(sets, damped.L, y, transposed=True)


def _branchwise(sets, factors, b: Array, transposed: bool = False) -> Array:
    """Return F⁻¹ b, or F⁻ᵀ b if `transposed`, for a vector or columns b."""
    out = jnp.zeros_like(b)
    for rows, F in zip(sets, factors, strict=True):
        found = solve_triangular(F, b[np.asarray(rows)], lower=True, trans=int(transposed))
        out = out.at[np.asarray(rows)].set(found)
    return out
