"""Krylov methods on a Delassus operator: conjugate gradients by `lineax`, and the largest eigenvalue by Lanczos."""

import jax
import jax.numpy as jnp
import lineax
from jaxtyping import Array, ArrayLike, Float

from ..constrained.iterated import check_count, check_number
from ..constrained.result import MEMBERS, result_of
from ..engine.meshes import alike
from ..engine.once import once
from ..spatial.instances import check_instance
from ..spatial.numbers import floats
from .inverse import Solved
from .operator import Delassus


def linear_operator(operator: Delassus) -> lineax.FunctionLinearOperator:
    """Return the operator for solvers of `lineax`, tagged as positive semidefinite."""
    check_instance("`linear_operator`", "operator", operator, Delassus)
    return _tagged(operator.mv, operator)


def _tagged(fn, operator: Delassus) -> lineax.FunctionLinearOperator:
    shape = jax.ShapeDtypeStruct((operator.shape[0],), operator.dtype)
    return lineax.FunctionLinearOperator(fn, shape, lineax.positive_semidefinite_tag)


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
    `start` (m,), the initial x; `tol`, of the residual relative to b; `max_steps`, None: ten times m.

    **Returns** a `Solved`; `result` is `max_steps_reached` if `tol` was not reached. Derivatives are those of the
    solution.
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
    return _descended(operator, b, preconditioner, start, tol, max_steps or 10 * m)


@once
def _descended(operator: Delassus, b, preconditioner: Delassus | None, start, tol: float, max_steps: int) -> Solved:
    options = {}
    if preconditioner is not None:
        options["preconditioner"] = _tagged(preconditioner.solve, operator)
    if start is not None:
        options["y0"] = start
    solver = lineax.CG(rtol=tol, atol=0.0, max_steps=max_steps)
    found = lineax.linear_solve(linear_operator(operator), b, solver, options=options, throw=False)
    ended = jnp.where(found.result == lineax.RESULTS.successful, 0, MEMBERS.index("max_steps_reached"))
    sound = jnp.isfinite(found.value).all() & jnp.isfinite(b).all()  # for a b of NaN lineax takes x = 0
    ended = jnp.where(sound, ended, MEMBERS.index("not_finite"))
    return Solved(found.value, result_of(ended), jnp.asarray(found.stats["num_steps"]))


def largest_eigenvalue(operator: Delassus, *, steps: int = 20) -> Float[Array, ""]:
    """Return the largest eigenvalue () of A by Lanczos' method, which approaches it from below: the relative error is
    about exp(−4 steps √gap), where gap is the relative distance of the next eigenvalue.

    **Arguments:** `steps`, the number of products, at most m. The start is a fixed vector without symmetries.
    """
    check_instance("`largest_eigenvalue`", "operator", operator, Delassus)
    check_count("largest_eigenvalue", "steps", steps)
    return _largest(operator, min(int(steps), operator.shape[0]))


@once
def _largest(operator: Delassus, steps: int) -> Array:
    m = operator.shape[0]
    tiny = jnp.finfo(operator.dtype).tiny
    start = jax.random.normal(jax.random.PRNGKey(0), (m,), operator.dtype)
    frozen = jax.lax.stop_gradient(operator)

    def grow(carry, k):
        basis, v = carry
        basis = basis.at[k].set(v)
        w = frozen.mv(v)
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
    vector = jax.lax.stop_gradient(vector / jnp.maximum(jnp.linalg.norm(vector), tiny))
    return vector @ operator.mv(vector)  # its derivative is that of the eigenvalue
