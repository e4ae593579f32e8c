"""How a solve ended: one rule for all solvers, whose errors `accuracy.py` estimates.

Nothing here changes the solution, and it is computed only if the result is read.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from ..spatial.instances import check_instance
from ..systems.problem import Problem, Start, asymmetric, residual
from .accuracy import balance_of, error_of
from .base import Found, Solver
from .iteration import largest_of
from .lcaba import free


class Result(eqx.Enumeration):
    """How a solve ended, for each member of a batch. Compare by ``result == jd.Result.successful``; `jd.Result[result]`
    is the message, empty for `successful`; `jd.result_counts(result)` counts the members of a batch. The page "Choosing
    a solver" lists them."""

    successful = ""
    max_steps_reached = (
        "The solver did not reach `tol`. Raise `max_steps`; leave `mu` automatic, or lower it in single precision."
    )
    inconsistent_constraints = (
        "The rows contradict each other, and what is returned violates them least. "
        "Look for duplicated or conflicting rows with `jaxdyn check`."
    )
    dependent_rows = (
        "The constraints' rows are linearly dependent (or the mass matrix is singular), and this solver needs "
        "independent ones: leave out what is said twice, or use `jd.solvers.LCABA()`."
    )
    not_finite = "The accelerations are not finite: an input was NaN or infinite, or the mass matrix is singular."
    non_unit_quaternion = "A quaternion of the configuration is not of unit length: divide it by its norm."
    diverged = "A velocity of more than 1e6 rad/s or m/s: no robot moves so fast, the simulation has blown up."
    inaccurate = (
        "Rounding errors leave the accelerations less accurate than 1e-6 (float64) or 1e-3 (float32): masses, lengths "
        "or rows differ by too many orders of magnitude. Use double precision, or better units."
    )
    singular_loop = (
        "The independent joints of an embedded loop do not determine its other joints in this pose. Choose others with "
        "`embed(..., independent=...)`, or leave the loop cut."
    )
    contact_not_converged = (
        "What is left of the law of contact is more than 1e-3 of the largest speed that calls for forces nearby: take "
        "more sweeps or steps, or `jd.contact.Newton()`."
    )
    asymmetric_rotor = (
        "An embedded rotor is no longer symmetric about its axis, and is computed as if it were: change it by "
        "`Model.replace`, or call `Model.without_rotors` before you change it otherwise."
    )
    open_loop = "The configuration does not close an embedded loop: start from `neutral`, `random_state` or `assemble`."


class Stats(eqx.Module):
    """Statistics of a solve.

    **Fields:** `iterations` (), the number of damped solves; `residual_dynamics` () and `residual_constraint` (), the
    largest magnitudes of entries of r1 = τ + passive + external − h − M q̈ + Jᵀλ (N m or N) and r2 = a* − γ − J q̈
    (rad/s² or m/s²)."""

    iterations: Int[Array, ""]
    residual_dynamics: Float[Array, ""]
    residual_constraint: Float[Array, ""]


#: names of the results by code, in the order of `Result`
MEMBERS = (
    "successful",
    "max_steps_reached",
    "inconsistent_constraints",
    "dependent_rows",
    "not_finite",
    "non_unit_quaternion",
    "diverged",
    "inaccurate",
    "singular_loop",
    "contact_not_converged",
    "asymmetric_rotor",
    "open_loop",
)
#: acceptable errors by bytes of a number, relative to the accelerations without constraints, or to 1
GOOD = {4: 1e-3, 8: 1e-6}
#: errors count relative to the accelerations without constraints, or to those with them divided by this, if larger
LARGER = 10
#: least pivots of dependent columns of embedded loops, relative to their squares, by bytes of a number
SINGULAR = {4: 1e-6, 8: 1e-12}
#: how far rotors may be from symmetry, relative to their inertias, and in m, by bytes of a number
ASYMMETRIC = {4: 1e-4, 8: 1e-6}
#: a velocity that no robot reaches
FASTEST = 1e6
#: redundant rows of real files disagree by rounding; more than this counts as contradiction
CONFLICT = 1e-3
#: accelerations may be off by this many times the disagreement of rows
OPEN = 100


def ended(
    solver: Solver, problem: Problem, start: Start, found: Found, v: Array, inputs, floor: Array | float = 1.0
) -> Array:
    """Return the `Result` of every lane at velocities `v`, as an index into `MEMBERS`; `inputs` are arrays that must be
    finite. Accelerations below `floor` count as that."""
    code = _accurate(problem, start, found, solver.soft, floor)
    return _checked(solver, problem, code, v, inputs, (found.acceleration, balance_of(found)))


def jumped(solver: Solver, problem: Problem, start: Start, found: Found, v: Array) -> Array:
    """Return the `Result` of every lane of a jump of the velocities `v`, as an index into `MEMBERS`. The jump counts as
    the accelerations do, beside the velocities."""
    code = _accurate(problem, start, found, False, largest_of(v))
    inputs, x = (problem.q, v, start.tau, start.rows), found.acceleration
    return _checked(solver, problem, code, v + x, inputs, (x, balance_of(found)))


def _accurate(problem: Problem, start: Start, found: Found, soft: bool, floor: Array | float) -> Array:
    """Return, as indices into `MEMBERS`, whether the errors of the accelerations are acceptable. Accelerations below
    `floor` count as that."""
    code_of, good = MEMBERS.index, GOOD[problem.q.dtype.itemsize]
    size = jnp.maximum(largest_of(found.acceleration), floor)
    error, conflict = error_of(problem, start, found, soft, 1e-3 * good * size)
    scale = size
    at_odds = conflict > CONFLICT * size
    if problem.rows is not None:
        scale = jnp.maximum(size / LARGER, floor)  # accelerations without constraints are seldom needed
        doubtful = (error > good * scale) | at_odds
        unhindered = lambda: jnp.maximum(largest_of(free(problem, start).acceleration), scale)  # noqa: E731
        scale = jax.lax.cond(doubtful.any(), lambda: jnp.where(doubtful, unhindered(), scale), lambda: scale)
    # rows that disagree slightly, as those of loops in files do, leave an error of that size
    code = jnp.where(error <= jnp.maximum(good * scale, OPEN * conflict), code_of("successful"), code_of("inaccurate"))
    if found.unfinished is not None:
        code = jnp.where((code > 0) & found.unfinished, code_of("max_steps_reached"), code)
    return jnp.where(at_odds & (conflict > good * scale), code_of("inconsistent_constraints"), code)


def _checked(solver: Solver, problem: Problem, code: Array, v: Array, inputs, outputs) -> Array:
    """Return the results `code`, changed in lanes whose velocities `v` no robot has, whose configurations are none, or
    whose `inputs` or `outputs` are not finite."""
    code_of = MEMBERS.index
    code = jnp.where(largest_of(v) > FASTEST, code_of("diverged"), code)
    code = jnp.where(_off_unit(problem), code_of("non_unit_quaternion"), code)
    known, finite = _finite(inputs), _finite(outputs)
    code = jnp.where(known & finite, code, code_of("not_finite"))
    if solver.hard and problem.rows is not None:
        code = jnp.where(known & ~finite, code_of("dependent_rows"), code)
    if problem.model.topology.clusters:
        code = jnp.where(known & (code != code_of("diverged")), _embedded(problem, code), code)
    return code.astype(jnp.int32)


def _embedded(problem: Problem, code: Array) -> Array:
    """Return the results `code`, changed in lanes whose embedded loops are singular or open, or whose rotors
    are not symmetric."""
    code_of, size = MEMBERS.index, problem.q.dtype.itemsize
    if problem.model.topology.gyrostats:
        code = jnp.where(asymmetric(problem.model, ASYMMETRIC[size]), code_of("asymmetric_rotor"), code)
    gap = largest_of(problem.motion.gap)
    code = jnp.where(gap > GOOD[size] * jnp.maximum(largest_of(problem.q), 1), code_of("open_loop"), code)
    return jnp.where(problem.motion.ratios.left.min(0) > SINGULAR[size], code, code_of("singular_loop"))


def result_counts(result: Result) -> dict[str, int]:
    """Return how often each result occurs in a batch, by the names of the members: most frequent first, without those
    that do not occur.

    **Raises** `TypeError` for anything but a `Result`, and inside of `jit` or `vmap`: there, count by
    ``(result == jd.Result.successful).sum()``.

    ```python
    jd.result_counts(traj.result)  # {'successful': 998, 'contact_not_converged': 2}
    ```
    """
    call = "`result_counts`"
    check_instance(call, "result", result, Result, " Give the `.result` of a solution or trajectory.")
    if result.is_traced():
        raise TypeError(
            f"{call}: `result` is traced; call it outside of `jit` and `vmap`, or count by `(result == ...).sum()`."
        )
    (codes,) = jax.tree.leaves(result)
    counts = np.bincount(np.ravel(codes), minlength=len(MEMBERS))
    return {MEMBERS[k]: int(counts[k]) for k in np.argsort(-counts, kind="stable") if counts[k]}


def result_of(code) -> Result:
    """Return the `Result` at an index into `MEMBERS`."""
    return jax.tree.map(lambda x: jnp.asarray(code, x.dtype), Result.successful)  # its one leaf is the number


def left(problem: Problem, start: Start, found: Found) -> tuple[Array, Array]:
    """Return the largest entries of r1 and r2 (lanes,) at the accelerations and the minimum-norm multipliers."""
    r1, r2 = residual(problem, start, found.acceleration, found.bodies, found.multipliers)
    return tuple(jnp.abs(r).max(0, initial=0.0) for r in (r1, r2))


def _finite(tree) -> Array:
    """Return, per lane, whether all numbers are finite."""
    whole = [jnp.isfinite(x).all(tuple(range(x.ndim - 1))) for x in jax.tree.leaves(tree)]
    return functools.reduce(jnp.logical_and, whole)


def _off_unit(problem: Problem) -> Array:
    """Return, per lane, whether a quaternion is not of unit length."""
    q, topology = problem.q, problem.model.topology
    kinds = enumerate(topology.kinds)
    starts = [topology.q_slice(b).start + k.quaternion.start for b, k in kinds if k.quaternion is not None]
    if not starts:
        return jnp.zeros(q.shape[-1], bool)
    lengths = jnp.stack([jnp.sum(q[k : k + 4] ** 2, 0) for k in starts])
    return jnp.any(jnp.abs(lengths - 1) > (1e-3 if q.dtype == jnp.float32 else 1e-6), 0)
