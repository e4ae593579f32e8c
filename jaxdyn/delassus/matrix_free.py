"""`MatrixFree`: products and damped inverses of the Delassus operator without the matrix (Sathya, Montaut, de
Mont-Marin and Carpentier, matrix_free_delassus).

The product is three maps in two sweeps over the tree (section IV-D): x acts as forces on the bodies (Alg. 1), the
bodies and joints accelerate (Alg. 2, the reduced articulated-body algorithm), and the accelerations of the bodies give
those of the rows (Alg. 3). The damped inverse solves the equations of motion with compliant rows (Alg. 4),

    M a − J_hᵀν − J_cᵀ x = 0,    J_h a = 0,    J_c a + R x = b,

by the elimination of LCABA, with μ = 1 / R (the paper calls that R). `jaxdyn.delassus.refined` describes the rows J_h
that hold, and the refinement.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..constrained.implicit import saddle
from ..constrained.iteration import tolerance
from ..engine.core import joined, lanes_of
from ..engine.lanes import laned
from ..kinematics.rows import plan_of
from ..spatial.options import check_count, check_number
from ..systems.problem import problem_of, still
from ..systems.weights import automatic_weights
from .base import Given, Method
from .damping import Damping
from .refined import (
    Geometry,
    Prepared,
    Stop,
    asked_rows,
    factorised,
    geometry_problem,
    held_rows,
    prepared_factor,
    refined,
)


def _prepared(given: Given) -> Prepared:
    problem = problem_of(given.model, given.constraints, given.q)
    assert problem.rows is not None
    motion = problem.motion
    geometry = Geometry(motion.inertia, motion.pose, problem.rows.K, automatic_weights(problem)[:1], motion.ratios)
    return prepared_factor(given, geometry)


def _product(stop: Stop, given: Given, made: Prepared, x):
    """Return J_c M⁻¹ J_cᵀ x (m, lanes), in two sweeps over the tree."""
    asked = asked_rows(given, made.geometry)
    zero = jnp.zeros((given.model.nv, x.shape[-1]), x.dtype)
    held = jnp.zeros((held_rows(given), x.shape[-1]), x.dtype)
    _, bodies, _ = refined(stop, given, made, made.factor, zero, asked.forces(-x), held, None)
    return asked.times(bodies)


def _solved(stop: Stop, given: Given, made: Prepared, tau, rows):
    """Return a and ν with M a − J_hᵀν = τ and J_h a = rows."""
    force = still(geometry_problem(given, made.geometry, (), False), tau)
    a, _, nu = refined(stop, given, made, made.factor, tau, force, rows, None)
    return a, nu


def _damped(whitened: bool, given: Given, made: Prepared, R):
    """Return the factor of M + J_hᵀ μ J_h + J_cᵀ R⁻¹ J_c."""
    return factorised(given, made.geometry, R, made.kept, whitened)


def _inverse(stop: Stop, whitened: bool, given: Given, made: Prepared, factor, R, b):
    """Return (J_c M⁻¹ J_cᵀ + R)⁻¹ b (m, lanes)."""
    lanes = lanes_of(b, R)
    zero = jnp.zeros((given.model.nv, lanes), b.dtype)
    held = held_rows(given)
    wanted = joined([jnp.zeros((held, lanes), b.dtype), b])
    force = still(geometry_problem(given, made.geometry, (), False), zero)
    return refined(stop, given, made, factor, zero, force, wanted, R, whitened)[2][held:]


class MatrixFree(Method):
    """Products and damped inverses by sweeps over the robot, in O(n + m) time and memory if loops are local. It takes
    any constraints; rows that hold add a dense system of their own size.

    **Arguments:** `tol`: refinement stops when the predicted relative size of another step is below it (None: 1e-12 in
    double, 1e-6 in single precision); `max_steps`, the maximum number of solves of a refinement.
    """

    tol: float | None = eqx.field(static=True, default=None)
    max_steps: int = eqx.field(static=True, default=30)

    def __check_init__(self):
        check_number("MatrixFree", "tol", self.tol, lambda x: x >= 0, "a number from 0 on", optional=True)
        check_count("MatrixFree", "max_steps", self.max_steps)

    def _stop(self, dtype) -> Stop:
        return Stop(tolerance(dtype, self.tol), self.max_steps)

    def prepare(self, given):
        return laned(_prepared)(jax.lax.stop_gradient(given))

    def times(self, given, made, x):
        return _times(self._stop(x.dtype), given, made, x)

    def rounding(self, made):
        # a penalty 1/R beyond the automatic weight would cost light rotors their digits if rows are long, as gears' are
        return 1 / made.geometry.mu[0]

    def damp(self, given, made, R):
        given, made, R = jax.lax.stop_gradient((given, made, R))
        K = None if R.blocks is None else _whitened(given, made, R)
        return laned(_damped, R.blocks is not None)(given, _with(made, K), _unit(R)), K

    def solve(self, given, made, damped, R, b):
        (factor, K), whitened = damped, R.blocks is not None
        solve = laned(_inverse, self._stop(b.dtype), whitened)
        x = solve(given, _with(made, K), factor, _unit(R), R.whiten(b) if whitened else b)
        return R.unwhiten(x) if whitened else x


def _unit(R: Damping) -> Array:
    """Return the diagonal of R (m,); for blocks, ones, because their rows are whitened."""
    return R.diagonal if R.blocks is None else jnp.ones(sum(map(len, R.blocks)), R.blocks[0].dtype)


def _with(made: Prepared, K) -> Prepared:
    """Return `made` with the row coefficients K, or unchanged if K is None."""
    return made if K is None else made._replace(geometry=made.geometry._replace(K=K))


def _whitened(given: Given, made: Prepared, R: Damping) -> tuple[Array, ...]:
    """Return the row coefficients C⁻¹ K, for blocks C Cᵀ of R: for these rows R is the identity."""
    plan = plan_of(given.model.topology, given.asked)
    first = plan_of(given.model.topology, given.held).cells if given.held else 0
    cells = [(c, slice(first + k, first + k + len(plan.span(c)))) for c, at in enumerate(plan.coefficients) for k in at]
    blocks = Damping(blocks=tuple(R.blocks[c] for c, _ in cells))
    return tuple(x.at[first:].set(blocks.whiten(x[first:])) for x in made.geometry.K)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _times(stop: Stop, given: Given, made: Prepared, x):
    return laned(_product, stop, symmetric=True)(given, made, x)


@_times.defjvp
def _times_jvp(stop, primals, tangents):
    """Differentiate the product as three maps, the second one by the implicit function theorem."""
    _, made, _ = primals

    def apart(given, x):
        model, held, asked, q = given
        none = jnp.zeros(model.nv, x.dtype), jnp.zeros_like(x)
        pushed = -laned(saddle)(model, asked, q, none[0], x)[0]

        def matrix(unknown):
            left, image = laned(saddle)(model, held, q, unknown[: model.nv], unknown[model.nv :])
            return jnp.concatenate([left, -image])

        def solved(_, right):
            tau, rows = right[: model.nv], -right[model.nv :]
            return jnp.concatenate(laned(_solved, stop)(*jax.lax.stop_gradient((given, made)), tau, rows))

        rows = sum(c.layout(model.topology).rows for c in held)
        right = jnp.concatenate([pushed, jnp.zeros(rows, x.dtype)])
        a = jax.lax.custom_linear_solve(matrix, right, solved, symmetric=True)[: model.nv]
        return laned(saddle)(model, asked, q, a, none[1])[1]

    given, _, x = primals
    moved, _, dx = tangents
    return jax.jvp(apart, (given, x), (moved, dx))
