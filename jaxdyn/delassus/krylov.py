"""Krylov methods on a Delassus operator: conjugate gradients, and the largest eigenvalue by Lanczos."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import lineax
import numpy as np
from jaxtyping import Array, Float

from ..constrained.result import MEMBERS, result_of
from ..engine.meshes import alike
from ..engine.once import once
from ..spatial.instances import check_instance
from ..spatial.numbers import ArrayLike, floats
from ..spatial.options import check_count, check_number
from .inverse import Solved
from .least_norm import any_of_batch
from .operator import Delassus

#: number of steps after which the residual is computed from its definition, against the rounding of its updates
ANEW = 10


def linear_operator(operator: Delassus) -> lineax.FunctionLinearOperator:
    """Return the operator for solvers of `lineax`, tagged as positive semidefinite.

    Raises `TypeError` for anything but a `Delassus`.
    """
    check_instance("`linear_operator`", "operator", operator, Delassus)
    shape = jax.ShapeDtypeStruct((operator.shape[0],), operator.dtype)
    return lineax.FunctionLinearOperator(operator.mv, shape, lineax.positive_semidefinite_tag)


def conjugate_gradient(
    operator: Delassus,
    b: ArrayLike,
    *,
    preconditioner: Delassus | None = None,
    start: ArrayLike | None = None,
    tol: float = 1e-6,
    max_steps: int | None = None,
) -> Solved:
    """Return x with A x = b (m,) by preconditioned conjugate gradients, from products only, without a factor of A.

    **Arguments:** `preconditioner`, an operator that is easier to solve, such as the same one with more damping;
    `start` (m,), the initial x; `tol`, of the length of the residual relative to that of b; `max_steps`, None: ten
    times m.

    **Returns** a `Solved`; `result` is `max_steps_reached` if `tol` was not reached. Derivatives are those of the
    solution.

    Raises `ValueError` for wrong shapes and numbers out of range, `TypeError` for other types.
    """
    call = "`conjugate_gradient`"
    check_instance(call, "operator", operator, Delassus)
    if not isinstance(tol, jax.Array):
        check_number("conjugate_gradient", "tol", tol, lambda x: x >= 0, "a number from 0 on")
    check_count("conjugate_gradient", "max_steps", max_steps, optional=True)
    m = operator.shape[0]
    b = floats(call, "b", b, (m,)).astype(operator.dtype)
    if preconditioner is not None:
        check_instance(call, "preconditioner", preconditioner, Delassus)
        if preconditioner.shape != operator.shape:
            raise ValueError(f"{call}: `preconditioner` has shape {preconditioner.shape}, not {operator.shape}.")
    if start is not None:
        start = floats(call, "start", start, (m,)).astype(operator.dtype)
    start = jnp.zeros_like(b) if start is None else start
    return _solved(operator, b, preconditioner, start, jnp.asarray(tol, b.dtype), max_steps or 10 * m)


@once
def _solved(operator: Delassus, b, preconditioner: Delassus | None, start, tol: Array, max_steps: int) -> Solved:
    x, code, steps = _descended(max_steps, operator, b, preconditioner, start, tol)
    return Solved(x, result_of(code), steps)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _descended(most: int, operator: Delassus, b, preconditioner: Delassus | None, start, tol):
    """Return x, the index of the result in `MEMBERS`, and the number of steps."""
    near = (lambda r: r) if preconditioner is None else preconditioner.solve
    return _conjugate(operator.mv, near, b, start, tol, most)


@_descended.defjvp
def _descended_jvp(most, primals, tangents):
    """Differentiate the solution: A dx = db − dA x. It does not depend on the preconditioner and the start."""
    (operator, _, preconditioner, _, tol), (moved, db, *_) = primals, tangents
    x, code, steps = _descended(most, *primals)
    change = jax.jvp(lambda A: A.mv(x), (operator,), (moved,))[1]
    given = jax.lax.stop_gradient((operator, preconditioner, tol))

    def solve(_, b):
        operator, preconditioner, tol = given
        return _descended(most, operator, b, preconditioner, jnp.zeros_like(b), tol)[0]

    dx = jax.lax.custom_linear_solve(operator.mv, db - change, solve, symmetric=True)
    return (x, code, steps), (dx, *(np.zeros(y.shape, jax.dtypes.float0) for y in (code, steps)))


class _State(NamedTuple):
    """The state of the iteration: x; its residual r; the direction p; r · z with the preconditioned residual z; the
    largest ratio of A p to p so far; the number of steps; and whether to go on."""

    x: Array
    r: Array
    p: Array
    along: Array
    largest: Array
    steps: Array
    active: Array


def _conjugate(times: Callable, near: Callable, b: Array, start: Array, tol: Array, most: int):
    """Return x with A x = b, the index of the result in `MEMBERS`, and the number of steps. `times` is A, and `near`
    approximates its inverse. The steps end at a direction that A does not move, as the null space of a singular A."""
    eps, size = jnp.finfo(b.dtype).eps, jnp.linalg.norm
    enough = tol * size(b)

    def step(s: _State) -> _State:
        image = times(s.p)
        curve, square = s.p @ image, s.p @ s.p
        largest = jnp.maximum(s.largest, size(image) / jnp.sqrt(square))
        moves = curve > 10 * eps * largest * square
        length = jnp.where(moves, s.along / jnp.where(moves, curve, 1), 0)
        x, steps = s.x + length * s.p, s.steps + 1
        anew = any_of_batch(s.active & (steps % ANEW == 0))
        r = jax.lax.cond(anew, lambda: b - times(x), lambda: s.r - length * image)
        z = near(r)
        along = r @ z
        active = moves & (along > 0) & (size(r) > enough)
        return _State(x, r, z + along / s.along * s.p, along, largest, steps, active)

    r = b - times(start)
    z = near(r)
    along, zero = r @ z, jnp.zeros((), jnp.int32)
    begun = _State(start, r, z, along, jnp.zeros_like(along), zero, (along > 0) & (size(r) > enough))
    end = jax.lax.while_loop(lambda s: s.active & (s.steps < most), step, alike(begun))
    reached = (size(end.r) <= enough) | (tol == 0)  # without a tolerance the number of steps is what is asked for
    code = jnp.where(reached, 0, MEMBERS.index("max_steps_reached"))
    finite = jnp.isfinite(end.x).all() & jnp.isfinite(end.r).all()
    return end.x, jnp.where(finite, code, MEMBERS.index("not_finite")), end.steps


def largest_eigenvalue(operator: Delassus, *, steps: int = 20) -> Float[Array, ""]:
    """Return the largest eigenvalue () of A by Lanczos' method, which approaches it from below: the relative error is
    about exp(−4 steps √gap), where gap is the relative distance of the next eigenvalue. Derivatives are those of the
    eigenvalue, to the accuracy of the eigenvector; second ones need a single largest eigenvalue.

    **Arguments:** `steps`, the number of products, at most m. The start is a fixed vector without symmetries.

    Raises `ValueError` for numbers of steps out of range, `TypeError` for other types.
    """
    check_instance("`largest_eigenvalue`", "operator", operator, Delassus)
    check_count("largest_eigenvalue", "steps", steps)
    return _largest(operator, min(int(steps), operator.shape[0]))


@eqx.filter_custom_jvp
@once
def _largest(operator: Delassus, steps: int) -> Array:
    vector = _eigenvector(operator, steps)
    return vector @ operator.mv(vector)


@_largest.def_jvp
def _(primals, tangents):
    """A unit eigenvector x moves at a right angle to itself, so that dλ = x · dA x."""
    x, product, moved = _at_largest(primals, tangents)
    return x @ product, x @ moved


@eqx.filter_custom_jvp
@once
def _eigenvector(operator: Delassus, steps: int) -> Array:
    """Return the unit eigenvector (m,) of the largest eigenvalue."""
    m = operator.shape[0]
    tiny = jnp.finfo(operator.dtype).tiny
    start = jax.random.normal(jax.random.PRNGKey(0), (m,), operator.dtype)

    def grow(carry, k):
        basis, v = carry
        basis = basis.at[k].set(v)
        w = operator.mv(v)
        a = v @ w
        for _ in range(2):  # the second pass removes the rounding errors of the first
            w = w - basis.T @ (basis @ w)
        b = jnp.linalg.norm(w)
        return (basis, w / jnp.maximum(b, tiny)), (a, b)

    zero = jnp.zeros((steps, m), operator.dtype)
    first = start / jnp.linalg.norm(start)
    (basis, _), (a, b) = jax.lax.scan(grow, alike((zero, first), operator), jnp.arange(steps))
    T = jnp.diag(a) + jnp.diag(b[:-1], 1) + jnp.diag(b[:-1], -1)
    vector = jnp.linalg.eigh(T)[1][:, -1] @ basis
    return vector / jnp.maximum(jnp.linalg.norm(vector), tiny)


@_eigenvector.def_jvp
def _(primals, tangents):
    """(λ − A) dx = dA x, at a right angle to x."""
    operator, _ = primals
    x, product, moved = _at_largest(primals, tangents)
    off = lambda v: v - x * (x @ v)  # noqa: E731
    largest = x @ product
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    apart = lineax.FunctionLinearOperator(
        lambda v: off(v - operator.mv(v) / largest), shape, lineax.positive_semidefinite_tag
    )
    tol = float(jnp.finfo(x.dtype).eps) ** 0.75
    # the absolute tolerance is for entries of the right side that are zero
    dx = lineax.linear_solve(apart, off(moved) / largest, lineax.CG(rtol=tol, atol=tol), throw=False).value
    return x, off(dx)


def _at_largest(primals, tangents) -> tuple[Array, Array, Array]:
    """Return the eigenvector x of the largest eigenvalue, A x and dA x, each (m,)."""
    operator, steps = primals
    x = _eigenvector(operator, steps)
    return x, *eqx.filter_jvp(lambda A: A.mv(x), (operator,), (tangents[0],))
