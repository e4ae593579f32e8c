"""`MatrixFree`: products and damped inverses of the Delassus operator without the matrix (Sathya, Montaut, de
Mont-Marin and Carpentier, matrix_free_delassus).

The product is three maps in two sweeps (section IV-D): x acts as forces on the bodies (Alg. 1), the bodies and joints
accelerate (Alg. 2, the reduced articulated-body algorithm), and the accelerations of the rows are read from the bodies
(Alg. 3). The damped inverse solves the equations of motion with the compliance R in the rows (Alg. 4),

    M a − J_hᵀν − J_cᵀ x = 0,    J_h a = 0,    J_c a + R x = b,

by the elimination of LCABA, with μ = 1 / R (the paper calls that R). Both are refined by what these equations leave
over: a penalty 1 / R of 1e6 costs six digits otherwise. Rows J_h hold exactly, by proximal steps.
"""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..constrained.implicit import saddle
from ..constrained.iteration import Stop
from ..constrained.proximal import iterate
from ..engine.lanes import laned
from ..kinematics.forward import Kinematics
from ..kinematics.rows import Rows, plan_of
from ..systems.body_factor import BodyFactor, body_factor, tying
from ..systems.problem import Problem, Start, problem_of, still
from ..systems.weights import automatic_weights
from ..tree.elimination import Factor, elimination_of
from ..tree.plan import elimination
from .base import Given, Method
from .damping import Damping

#: what rows that hold weigh in double precision beside those of forward dynamics: their right sides are zero, so that
#: conflicts cannot arise, and rows of which a rounded file has left a hundred-thousandth count as independent
HELD = 1e4


class Geometry(NamedTuple):
    """Of a configuration: inertias of the bodies about their origins, poses in the parents, coefficients of all rows,
    and the weight μ of the rows that hold."""

    inertia: tuple[Array, Array, Array]
    pose: tuple[Array, Array]
    K: tuple[Array, Array]
    mu: Array


class Prepared(NamedTuple):
    """What products share: the geometry, and the parts of the factor of M + J_hᵀ μ J_h."""

    geometry: Geometry
    factor: dict


def _order(problem: Problem):
    return elimination(problem.model.topology, problem.plan.cliques)


def _rows(given: Given, K, constraints, first: int = 0) -> Rows | None:
    """The rows of some constraints, whose coefficients are the cells of K from the `first` on."""
    if not constraints:
        return None
    plan = plan_of(given.model.topology, constraints)
    own = tuple(x[first : first + plan.cells] for x in K)
    none = jnp.zeros((plan.rows, 1), own[0].dtype)
    return Rows(plan, given.model.topology, own, *[none] * 5)


def _problem(given: Given, geometry: Geometry, constraints) -> Problem:
    """The problem of the first constraints at rest."""
    motion = Kinematics(given.model, given.q, geometry.inertia, geometry.pose, None, jnp.zeros_like(geometry.pose[1]))
    return Problem(given.model, tuple(constraints), motion, _rows(given, geometry.K, constraints))


def _asked(given: Given, geometry: Geometry) -> Rows:
    first = plan_of(given.model.topology, given.held).cells if given.held else 0
    rows = _rows(given, geometry.K, given.asked, first)
    assert rows is not None
    return rows


def _system(problem: Problem, weights: Array, parts: dict | None = None) -> BodyFactor:
    """The factor of M + Jᵀ W J; from its parts, if they are there."""
    if parts is None:
        return body_factor(problem, _order(problem), weights, frozenset())
    every = tying(problem.plan, range(len(problem.plan)))
    tables = elimination_of(problem.model.topology, problem.plan, _order(problem), every, False)
    return BodyFactor(problem, Factor(tables, problem.motion.joints, parts), weights, frozenset())


def _prepared(given: Given) -> Prepared:
    problem = problem_of(given.model, given.constraints, given.q)
    assert problem.rows is not None
    mu = automatic_weights(problem)[:1] * (HELD if given.q.dtype == jnp.float64 else 1)
    geometry = Geometry(problem.motion.inertia, problem.motion.pose, problem.rows.K, mu)
    held = _problem(given, geometry, given.held)
    return Prepared(geometry, _system(held, _weights(given, mu)).factor.parts)


def _weights(given: Given, mu: Array, R: Array | None = None) -> Array:
    """Those of the rows that hold, and of the damped ones."""
    rows = plan_of(given.model.topology, given.held).rows if given.held else 0
    held = jnp.broadcast_to(mu, (rows, mu.shape[-1]))
    if R is None:
        return held
    lanes = max(held.shape[-1], R.shape[-1])
    wide = lambda x: jnp.broadcast_to(x, (x.shape[0], lanes))  # noqa: E731
    return jnp.concatenate([wide(held), wide(1 / R)])


def _moved(given: Given, made: Prepared, method: "MatrixFree", tau, rows, force):
    """a and the motions of the bodies, and the multipliers of rows that hold."""
    problem = _problem(given, made.geometry, given.held)
    system = _system(problem, _weights(given, made.geometry.mu), made.factor)
    if not given.held:
        a, bodies, _, _ = system.solve(tau, force, None)
        return a, bodies, jnp.zeros((0, a.shape[-1]), a.dtype)
    found = iterate(system, Start(tau, rows, None, force), None, method.stop(given.q.dtype))
    return found.acceleration, found.bodies, found.multipliers


def _product(method, given: Given, made: Prepared, x):
    """J_c M⁻¹ J_cᵀ x (m, lanes), in two sweeps."""
    asked = _asked(given, made.geometry)
    zero = jnp.zeros((given.model.nv, x.shape[-1]), x.dtype)
    rows = _weights(given, made.geometry.mu) * 0 if given.held else None
    _, bodies, _ = _moved(given, made, method, zero, rows, asked.forces(-x))
    return asked.times(bodies)


def _solved(method, given: Given, made: Prepared, tau, rows):
    """a and ν of M a − J_hᵀν = τ, J_h a = rows."""
    problem = _problem(given, made.geometry, ())
    a, _, nu = _moved(given, made, method, tau, rows, still(problem, tau))
    return a, nu


def _damped(given: Given, made: Prepared, R):
    """The parts of the factor of M + J_hᵀ μ J_h + J_cᵀ R⁻¹ J_c."""
    problem = _problem(given, made.geometry, given.constraints)
    return _system(problem, _weights(given, made.geometry.mu, R)).factor.parts


def _inverse(method, given: Given, made: Prepared, parts, R, b):
    """(J_c M⁻¹ J_cᵀ + R)⁻¹ b (m, lanes)."""
    problem = _problem(given, made.geometry, given.constraints)
    weights = _weights(given, made.geometry.mu, R)
    system = _system(problem, weights, parts)
    n = weights.shape[0] - b.shape[0]
    lanes = max(b.shape[-1], R.shape[-1])
    zero = jnp.zeros((n, lanes), b.dtype)
    wanted = jnp.concatenate([zero, jnp.broadcast_to(b, (b.shape[0], lanes))])
    compliance = jnp.concatenate([zero, jnp.broadcast_to(R, (b.shape[0], lanes))])
    start = Start(jnp.zeros((given.model.nv, lanes), b.dtype), wanted, None, None)
    return iterate(system, start, None, method.stop(b.dtype), compliance).multipliers[n:]


class MatrixFree(Method):
    """Products and damped inverses by sweeps over the robot: any constraints, O(n + m) time and memory where loops are
    local.

    **Arguments:** `tol`, the relative change of accelerations at which refinement stops (None: 1e-12 in double, 1e-6
    in single precision); `max_steps`, the most sweeps of a refined solve.
    """

    tol: float | None = eqx.field(static=True, default=None)
    max_steps: int = eqx.field(static=True, default=30)

    def stop(self, dtype) -> Stop:
        tol = self.tol if self.tol is not None else (1e-12 if dtype == jnp.float64 else 1e-6)
        return Stop(tol, self.max_steps, resolved=True)

    def prepare(self, given):
        return laned(_prepared)(jax.lax.stop_gradient(given))

    def times(self, given, made, x):
        return _times(self, given, made, x)

    def damp(self, given, made, R):
        given, made, R = jax.lax.stop_gradient((given, made, R))
        return laned(_damped)(given, _whitened(given, made, R), _unit(R))

    def solve(self, given, made, damped, R, b):
        made, whitens = _whitened(given, made, R), R.blocks is not None
        x = laned(_inverse, self)(given, made, damped, _unit(R), R.whiten(b) if whitens else b)
        return R.unwhiten(x) if whitens else x


def _unit(R: Damping) -> Array:
    """R row by row (m,), of whitened rows."""
    return R.diagonal if R.blocks is None else jnp.ones(sum(map(len, R.blocks)), R.blocks[0].dtype)


def _whitened(given: Given, made: Prepared, R: Damping) -> Prepared:
    """With rows C⁻¹ K in place of K, for blocks C Cᵀ of R: then R is one."""
    if R.blocks is None:
        return made
    plan = plan_of(given.model.topology, given.asked)
    first = plan_of(given.model.topology, given.held).cells if given.held else 0
    cells = [(c, slice(first + k, first + k + len(plan.span(c)))) for c, at in enumerate(plan.coefficients) for k in at]
    blocks = Damping(blocks=tuple(R.blocks[c] for c, _ in cells))
    K = tuple(x.at[first:].set(blocks.whiten(x[first:])) for x in made.geometry.K)
    return made._replace(geometry=made.geometry._replace(K=K))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _times(method, given: Given, made: Prepared, x):
    return laned(_product, method)(given, made, x)


@_times.defjvp
def _times_jvp(method, primals, tangents):
    """The same in three maps, of which each has a derivative: that of the second by the implicit function theorem."""
    _, made, _ = primals

    def apart(given, x):
        model, held, asked, q = given
        none = jnp.zeros(model.nv, x.dtype), jnp.zeros_like(x)
        pushed = -laned(saddle)(model, asked, q, none[0], x)[0]

        def matrix(unknown):
            left, image = laned(saddle)(model, held, q, *unknown)
            return left, -image

        def solved(_, right):
            tau, rows = right
            return laned(_solved, method)(*jax.lax.stop_gradient((given, made)), tau, -rows)

        right = pushed, jnp.zeros(sum(c.layout(model.topology).rows for c in held), x.dtype)
        a, _ = jax.lax.custom_linear_solve(matrix, right, solved, symmetric=True)
        return laned(saddle)(model, asked, q, a, none[1])[1]

    given, _, x = primals
    moved, _, dx = tangents
    return jax.jvp(apart, (given, x), (moved, dx))
