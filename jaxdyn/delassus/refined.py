"""Solves of the equations of motion in which some rows hold and others are damped, with iterative refinement:

    M a − J_hᵀν − J_cᵀ x = τ,    J_h a = r,    J_c a + R x = b.

LCABA's elimination factorises A = M + μ J_hᵀ J_h + J_cᵀ R⁻¹ J_c. In it the rows that hold also ride: they are carried
up the tree and kept, so that the same elimination gives J_h A⁻¹ J_hᵀ = S / μ. Every correction for the residual
(r1, r_h, r_c) is

    η = μ S⁻¹ (r_h − J_h A⁻¹ p),    p = r1 + J_cᵀ R⁻¹ r_c,    δa = A⁻¹ (p + J_hᵀ η),
    δν = η − μ J_h δa,    δx = R⁻¹ (r_c − J_c δa).

An eigenvalue w of J_h M⁻¹ J_hᵀ becomes μw / (1 + μw) in S: about one for an independent row, zero for a redundant one.
Model files give planar loops to a few digits only, so that redundant rows are not exactly so, and would lock the
mechanism if they held. As in forward dynamics, rows whose pivot in S is at most `REDUNDANT` are left out. Then one
correction reduces the residual to a hundredth or less, and two to four corrections reach rounding.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..constrained.iteration import Stop
from ..engine.core import at_or_zero, joined, lanes_of, widen
from ..engine.kept import tables
from ..kinematics.forward import Kinematics
from ..kinematics.rows import Rows, plan_of
from ..systems.body_factor import body_factor, tying
from ..systems.problem import Problem, Start, left_over
from ..tree import panels
from ..tree.elimination import elimination_of
from ..tree.factor import SWEPT, Factor, kept_of
from ..tree.order import Order, elimination, kept_riders
from ..tree.plan import Plan
from ..tree.topology import Topology
from .base import Given

#: the pivot in S that an independent row must exceed, by bytes of a number: see `systems.weights.redundant`
REDUNDANT = {4: 1e-2, 8: 2.5e-2}


class Geometry(NamedTuple):
    """The geometry at a configuration: inertias of the bodies about their origins, poses in their parents, coefficients
    K of all rows, the weight μ of the rows that hold, and the velocity maps of clusters (bodies of embedded loops)."""

    inertia: tuple[Array, Array, Array]
    pose: tuple[Array, Array]
    K: tuple[Array, Array]
    mu: Array
    ratios: Any = None


class Factored(NamedTuple):
    """The parts of the factor of A; for L D Lᵀ of S, `inverse` is 1 / D and `below` the columns of L below the
    diagonal."""

    parts: dict[str, Any]
    inverse: Array | None
    below: Array | None


class Prepared(NamedTuple):
    """The arrays that products share: the geometry, the factor of M + J_hᵀ μ J_h, and `kept`, which is 1 for
    independent rows that hold and 0 for redundant ones."""

    geometry: Geometry
    factor: Factored
    kept: Array


def held_rows(given: Given) -> int:
    """Return the number of rows that hold."""
    return plan_of(given.model.topology, given.held).rows if given.held else 0


def _rows(given: Given, K, constraints, first: int, whitened: bool) -> Rows | None:
    """Return the rows of the given constraints, whose coefficients are the cells of K from `first` on. Whitened rows
    mix rows, and so are never treated as single joint velocities."""
    if not constraints:
        return None
    plan = plan_of(given.model.topology, constraints)
    plan = plan.combined() if whitened else plan
    own = tuple(x[first : first + plan.cells] for x in K)
    none = jnp.zeros((plan.rows, 1), own[0].dtype)
    return Rows(plan, given.model.topology, own, *[none] * 5)


def geometry_problem(given: Given, geometry: Geometry, constraints, whitened: bool) -> Problem:
    """Return the problem of the given constraints, the first in `geometry`, at rest."""
    still = jnp.zeros_like(geometry.pose[1])
    motion = Kinematics(given.model, given.q, geometry.inertia, geometry.pose, None, still, ratios=geometry.ratios)
    return Problem(given.model, tuple(constraints), motion, _rows(given, geometry.K, constraints, 0, whitened))


def asked_rows(given: Given, geometry: Geometry) -> Rows:
    """Return the rows of the operator."""
    first = plan_of(given.model.topology, given.held).cells if given.held else 0
    rows = _rows(given, geometry.K, given.asked, first, False)
    assert rows is not None
    return rows


@tables
def _order(topology: Topology, plan: Plan, held: int) -> Order:
    """Return the order in which all rows are penalties, and those of the first `held` constraints also ride."""
    return elimination(topology, plan.cliques, kept_riders(plan, range(held)))


def _weights(given: Given, mu: Array, R: Array | None) -> Array:
    """Return the weights of the rows that hold, μ, followed by those of the damped rows, 1 / R."""
    held = jnp.broadcast_to(mu, (held_rows(given), mu.shape[-1]))
    return held if R is None else joined([held, 1 / R])


def factorised(given: Given, geometry: Geometry, R: Array | None, kept: Array | None, whitened: bool) -> Factored:
    """Return the factor, with the damped rows if R is given. `kept` selects the rows that hold; None selects the
    independent ones."""
    constraints, n, h = given.held if R is None else given.constraints, len(given.held), held_rows(given)
    problem = geometry_problem(given, geometry, constraints, whitened)
    plan, topology = problem.plan, given.model.topology
    order, every = _order(topology, plan, n), tuple(range(len(plan)))
    weights = _weights(given, geometry.mu, R)
    made = body_factor(problem, order, weights, frozenset(range(n)), penalised=every).factor
    parts = {name: x for name, x in made.parts.items() if name in SWEPT}
    if not h:
        return Factored(parts, None, None)
    cells = made.parts["L"]
    places = Plan(plan.layouts[:n]).placed(made.tables.blocks, cells.shape[0])
    S = geometry.mu * at_or_zero(cells, places)

    def pivot(k, d, below):
        if kept is None:
            return panels.independent(d, REDUNDANT[d.dtype.itemsize])
        return jnp.where(kept[k] > 0, 1 / jnp.where(kept[k] > 0, d, 1), 0)

    _, inverse, below, _ = panels.eliminate(S, h, pivot)
    return Factored(parts, jnp.stack(inverse), jnp.concatenate(below) if h > 1 else None)


def prepared_factor(given: Given, geometry: Geometry) -> Prepared:
    """Return the `Prepared` of products."""
    factor = factorised(given, geometry, None, None, False)
    if factor.inverse is None:
        return Prepared(geometry, factor, jnp.zeros((0, 1), given.q.dtype))
    return Prepared(geometry, factor, (factor.inverse > 0).astype(given.q.dtype))


class _State(NamedTuple):
    """The accelerations of joints and bodies, and the multipliers; per lane (element of the batch) the size of the last
    step, and whether to go on."""

    a: Array
    bodies: Any
    lam: Array
    last: Array
    active: Array


def refined(stop: Stop, given: Given, made: Prepared, factor: Factored, tau, force, wanted, R, whitened=False):
    """Return a (nv, lanes), the accelerations of the bodies, and the multipliers (ν, x), with
    M a − Jᵀ(ν, x) = τ − force, J_h a = r and J_c a + R x = b. `wanted` is (r, b); R is None if no rows are damped."""
    constraints, h = given.held if R is None else given.constraints, held_rows(given)
    problem = geometry_problem(given, made.geometry, constraints, whitened)
    rows, n = problem.rows, len(given.held)
    order = _order(given.model.topology, problem.plan, n)
    made_tables = elimination_of(
        given.model.topology, problem.plan, order, tying(problem.plan, range(len(problem.plan)))
    )
    swept = Factor(made_tables, problem.motion.driven, factor.parts)
    if rows is None:
        a, bodies, _ = swept.solve(tau, force)
        return a, bodies, jnp.zeros((0, a.shape[-1]), a.dtype)
    mu, dtype = made.geometry.mu, tau.dtype
    lanes = lanes_of(tau, wanted, given.q, mu, made.geometry.K, R)
    wide = lambda x: widen(x, lanes)  # noqa: E731
    tau, wanted = wide((tau, wanted))
    soft = jnp.zeros((0, lanes), dtype) if R is None else wide(R)
    padded = lambda x, y: jnp.concatenate(wide([x, y]))  # noqa: E731
    none = jnp.zeros((h, lanes), dtype), jnp.zeros_like(soft)
    start = Start(tau, wanted, None, force)

    def corrected(a, bodies, lam):
        """Return the corrections of a, of the accelerations of the bodies, and of λ."""
        left = left_over(problem, start, a, bodies, lam) if bodies is not None else (tau, force)
        r = wanted if bodies is None else wanted - rows.times(bodies) - padded(none[0], soft * lam[h:])
        pulled = rows.forces(padded(none[0], -r[h:] / soft), left[1])
        up = swept.up(left[0], pulled, padded(r[:h], none[1]) if h else None)
        if not h:
            x, moved, _ = swept.down(kept_of(up))
        else:
            eta = wide(mu * panels.solve(factor.inverse, factor.below, up["b"][:h]))
            x, moved, _ = swept.down(kept_of(up), padded(-eta, none[1]))
        image = rows.times(moved)
        held = none[0] if not h else made.kept * (eta - mu * image[:h])
        return wide(x), wide(moved), padded(held, (r[h:] - image[h:]) / soft)

    tiny = jnp.finfo(dtype).tiny

    def size(a, lam):
        return jnp.abs(a).max(0), jnp.abs(lam[h:]).max(0, initial=0.0)

    def step(s: _State) -> _State:
        da, dbodies, dlam = corrected(s.a, s.bodies, s.lam)
        a, lam = s.a + da, s.lam + dlam
        shares = [d / jnp.maximum(x, tiny) for d, x in zip(size(da, dlam), size(a, lam), strict=True)]
        worst = jnp.maximum(*shares)
        coming = worst * worst / jnp.minimum(s.last, 1)  # the predicted size of another step, from the last two
        active = s.active & (coming > stop.tol) & (worst < s.last / 2)  # False for NaN
        found = _State(a, jax.tree.map(jnp.add, s.bodies, dbodies), lam, worst, active)
        return jax.tree.map(lambda x, y: jnp.where(s.active, x, y), found, s)

    first = corrected(jnp.zeros_like(tau), None, padded(*none))
    begun = _State(*first, jnp.full(lanes, jnp.inf, dtype), jnp.ones(lanes, bool))
    go_on = lambda s: s[0].active.any() & (s[1] < stop.max_steps)  # noqa: E731
    end, _ = jax.lax.while_loop(go_on, lambda s: (step(s[0]), s[1] + 1), (begun, 1))
    return end.a, end.bodies, end.lam
