"""What methods share that form the Delassus matrix G = J M⁻¹ Jᵀ: products, and solves by a Cholesky factor."""

import abc

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array

from .base import Given, Method


class Explicit(Method):
    """Base class of methods that return G as a matrix, from which derivatives are taken as they come."""

    @abc.abstractmethod
    def matrix(self, given: Given) -> Array:
        """G (m, m)."""

    def prepare(self, given):
        return self.matrix(given)

    def times(self, given, made, x):
        return made @ x

    def damp(self, given, made, R):
        return jnp.linalg.cholesky(jax.lax.stop_gradient(made) + R.matrix())

    def solve(self, given, made, damped, R, b):
        return cho_solve((damped, True), b)


def entries(cells: Array, places) -> Array:
    """The numbers at `places` among cells; zero beyond the last."""
    return jnp.concatenate([cells, jnp.zeros(1, cells.dtype)])[places]


def projected(A: Array, B: Array) -> Array:
    """B (n, m) without its parts in the range of A (n, h): twice, since once leaves what rounding has left."""
    if not A.shape[1]:
        return B
    inverse = jnp.linalg.pinv(A, rtol=1e-6 if A.dtype == jnp.float64 else 3e-4)
    for _ in range(2):
        B = B - A @ (inverse @ B)
    return B
