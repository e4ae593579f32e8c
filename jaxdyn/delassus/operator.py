"""`delassus` and `Delassus`: the operator J M⁻¹ Jᵀ + R, with products and damped inverses."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..constrained.result import Result, result_of
from ..engine.once import once
from ..model.checks import check_constraints, check_model, check_vector, common_dtype, rows_of
from ..model.constraints import Constraint
from ..model.model import Model
from ..spatial.instances import check_instance
from ..spatial.numbers import ArrayLike, floats
from .base import Given, Method
from .damping import Damping, damping_of
from .inverse import Solved, at_least, damped_inverse, exceeds
from .least_norm import any_of_batch, derivative
from .matrix_free import MatrixFree


class Delassus(eqx.Module):
    """The operator A = G + R of constraint rows, with G = J M⁻¹ Jᵀ.

    It maps forces along the rows to the accelerations of the rows that they cause (or impulses to changes of velocity).
    With constraints that hold (`within`), M⁻¹ is that of the robot with closed loops. `with_damping` and all products
    share the results that do not depend on R or the vector. **Fields** are not public.
    """

    method: Method = eqx.field(static=True)
    _given: Given
    _made: Any
    _damping: Damping | None
    _damped: Any

    @property
    def shape(self) -> tuple[int, int]:
        """Return (m, m)."""
        m = self._given.rows
        return m, m

    @property
    def dtype(self):
        return self._given.q.dtype

    def __repr__(self) -> str:
        damped = "" if self._damping is None else ", damped"
        return f"Delassus({self.method!r}, shape={self.shape}{damped})"

    def mv(self, x: ArrayLike) -> Float[Array, "m ..."]:
        """Return A x for a vector (m,), or a matrix (m, k) of columns; without damping, G x."""
        return _by_columns(self._times, self._vector("mv", "x", x))

    def solve(self, b: ArrayLike) -> Float[Array, "m ..."]:
        """Return x with A x = b for a vector (m,), or a matrix (m, k) of columns. If A is singular, x is the least-norm
        one with the least residual; `solution` reports whether b is outside the range of A."""
        return _solve(self, self._vector("solve", "b", b))

    def solution(self, b: ArrayLike) -> Solved:
        """Return the `Solved` for a vector b (m,): the x of `solve`, its result, and the number of damped solves."""
        return _solution(self, self._vector("solution", "b", b, columns=False))

    def dense(self) -> Float[Array, "m m"]:
        """Return A as a matrix."""
        return self.mv(jnp.eye(self.shape[0], dtype=self.dtype))

    def with_damping(self, damping: ArrayLike | Sequence[ArrayLike] | None) -> "Delassus":
        """Return the operator with another R (the compliance that is added: see `delassus`)."""
        return _damped(self.method, self._given, self._made, damping, "Delassus.with_damping")

    @property
    def result(self) -> Result:
        """Return `successful`, or `not_finite` if an input was not finite or M is singular."""
        leaves = [x for x in jax.tree.leaves((self._made, self._damping)) if eqx.is_inexact_array(x)]
        sound = jnp.stack([jnp.isfinite(x).all() for x in leaves]).all()
        return Result.where(sound, Result.successful, Result.not_finite)

    def _times(self, x):
        y = self.method.times(self._given, self._made, x)
        return y if self._damping is None else y + self._damping.times(x)

    def _least(self) -> Damping:
        """Return the damping of the inverses that the iteration applies."""
        return at_least(self._damping, self._given, self.method.rounding(self._made))

    def _iterated(self, b):
        """Return x, the index of the result, and the number of solves of the iteration."""
        R = self._least()
        damped = lambda r: self.method.solve(self._given, self._made, self._damped, R, r)  # noqa: E731
        added = R.times if self._damping is None else lambda x: R.times(x) - self._damping.times(x)
        return damped_inverse(self._times, damped, added, b, exceeds(R, self._damping))

    def _vector(self, call, name, x, columns=True):
        if self._given.q.ndim > 1:
            mapped = f"`jax.vmap(lambda A, {name}: A.{call}({name}))`"
            raise ValueError(f"`Delassus.{call}`: this is a batch of operators; call it for each by {mapped}.")
        call = f"`Delassus.{call}`"
        x = floats(call, name, x)
        m = self.shape[0]
        if x.ndim not in ((1, 2) if columns else (1,)) or x.shape[0] != m:
            shapes = f"neither ({m},) nor ({m}, k)" if columns else f"not ({m},)"
            raise ValueError(f"{call}: `{name}` has shape {x.shape}, {shapes}.")
        return x.astype(self.dtype)


def _by_columns(fn: Callable, x: Array) -> Array:
    return fn(x) if x.ndim == 1 else jax.vmap(fn, 1, 1)(x)


@once
def _solve(operator: Delassus, b: Array) -> Array:
    return _by_columns(lambda b: _inverse(operator, b)[0], b)


@once
def _solution(operator: Delassus, b: Array) -> Solved:
    x, code, steps = _inverse(operator, b)
    return Solved(x, result_of(code), steps)


@jax.custom_jvp
def _inverse(operator: Delassus, b: Array):
    """Return the result of `Delassus._iterated`, with derivatives."""
    return operator._iterated(b)


@_inverse.defjvp
def _inverse_jvp(primals, tangents):
    """Differentiate as `least_norm.py` describes; if R is at least δ everywhere, dx = A⁻¹ (db − dA x)."""
    (operator, b), (moved, db) = primals, tangents
    x, code, steps = _inverse(operator, b)
    inverse = lambda b: jax.lax.stop_gradient(operator)._iterated(b)[0]  # noqa: E731
    change = lambda y: jax.jvp(lambda o: o._times(y), (operator,), (moved,))[1]  # noqa: E731

    def regular(x, b, db):
        solve = lambda _, b: inverse(b)  # noqa: E731
        return jax.lax.custom_linear_solve(operator._times, db - change(x), solve, symmetric=True)

    def singular(x, b, db):
        w = _inverse(operator, x)[0]
        return derivative(operator._times, change, inverse, w, b - operator._times(x), x, db)

    R = operator._damping
    anywhere = any_of_batch(exceeds(operator._least(), R))
    dx = singular(x, b, db) if R is None else jax.lax.cond(anywhere, singular, regular, x, b, db)
    return (x, code, steps), (dx, *(np.zeros(y.shape, jax.dtypes.float0) for y in (code, steps)))


def delassus(
    model: Model,
    q: ArrayLike,
    constraints: Sequence[Constraint] | None = None,
    *,
    method: Method = MatrixFree(),  # noqa: B008 - static
    damping: ArrayLike | Sequence[ArrayLike] | None = None,
    within: Sequence[Constraint] = (),
) -> Delassus:
    """Return the operator J M⁻¹ Jᵀ + R at q (nq,) of the rows of `constraints` (None: the model's own).

    **Arguments:**

    - `method`, one of `jaxdyn.osim`.
    - `damping`: the compliance R that is added, in 1/kg for linear rows: () for all rows, (m,), or a list with a
      number, a diagonal (r,) or a symmetric block (r, r) for each constraint. None: no damping.
    - `within`: further constraints that hold exactly. With the loops of a robot in it, M⁻¹ is that of the robot with
      closed loops.

    **Returns** a `Delassus`, differentiable in all its inputs.

    **Raises** `TypeError` and `ValueError` for wrong types and shapes, unknown bodies, negative damping, and
    constraints that the method cannot treat.
    """
    call = "delassus"
    model = check_model(call, model)
    q = check_vector(call, "q", q, (model.nq,))
    if within is None:
        raise TypeError(f"`{call}`: `within` is None, not a tuple of constraints, such as `model.constraints` or `()`.")
    asked, held = check_constraints(call, model, constraints), check_constraints(call, model, within, "within")
    check_instance(f"`{call}`", "method", method, Method, " Use one such as `jd.osim.MatrixFree()`.")
    if rows_of(model, asked) == 0:
        raise ValueError(f"`{call}`: `constraints` is empty: the operator would have no rows.")
    method.check(f"`{call}`", model.topology, held, asked)
    model, q, held, asked = common_dtype(model, q, given=(held, asked))
    given = Given(model, held, asked, q)
    return _damped(method, given, method.prepare(given), damping, call)


def _damped(method: Method, given: Given, made, damping, call: str) -> Delassus:
    rows = [c.layout(given.model.topology).rows for c in given.asked]
    damping = damping_of(call, damping, rows, given.q.dtype)
    least = at_least(damping, given, method.rounding(made))
    return Delassus(method, given, made, damping, method.damp(given, made, least))
