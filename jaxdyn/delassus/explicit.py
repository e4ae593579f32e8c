"""The base class of methods that form the Delassus matrix G = J M⁻¹ Jᵀ: products, and solves by a Cholesky factor."""

import abc

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array

from .base import Given, Method

#: error of the eigenvalues of G, over its trace and the precision
ROUNDING = 4


class Explicit(Method):
    """Base class of methods that return G as a matrix, which JAX differentiates directly."""

    @abc.abstractmethod
    def matrix(self, given: Given) -> Array:
        """Return G (m, m)."""

    def prepare(self, given):
        return self.matrix(given)

    def times(self, given, made, x):
        return made @ x

    def rounding(self, made):
        return rounding_of(made)

    def damp(self, given, made, R):
        return jnp.linalg.cholesky(jax.lax.stop_gradient(made) + R.matrix())

    def solve(self, given, made, damped, R, b):
        return cho_solve((damped, True), b)


def rounding_of(*blocks: Array) -> Array:
    """Return the rounding error of the eigenvalues of positive semidefinite matrices. Rows that turn a small body have
    a large G; damping that suits heavy bodies would be lost in it."""
    return jnp.stack([ROUNDING * jnp.finfo(x.dtype).eps * jnp.abs(jnp.trace(x)) for x in blocks]).max()


def projected(A: Array, B: Array) -> Array:
    """Return B (n, m) minus its projection onto the range of A (n, h). A second pass removes the rounding errors of the
    first."""
    if not A.shape[1]:
        return B
    inverse = jnp.linalg.pinv(A, rtol=1e-6 if A.dtype == jnp.float64 else 3e-4)
    for _ in range(2):
        B = B - A @ (inverse @ B)
    return B
