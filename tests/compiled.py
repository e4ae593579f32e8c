"""Compiled functions of the catalogue's robots, each made once a session: compiling is what takes the time.

All functions map over states and share the model, which is an operand: other numbers need no other program.
"""

import functools

import catalogue
import jax
import jax.numpy as jnp
import numpy as np

import jaxdyn as jd


@functools.cache
def states(name, n=4, seed=3) -> catalogue.States:
    """`catalogue.sample` of the robot."""
    return catalogue.sample(catalogue.CATALOGUE[name].build(), seed, n)


@functools.cache
def wrenches(name, n=4) -> np.ndarray:
    """External wrenches (n, nb, 6), small on light bodies."""
    model = catalogue.CATALOGUE[name].build()
    scale = np.minimum(1.0, np.asarray(model.bodies.mass)) * 0.3
    return scale[:, None] * np.random.default_rng(5).normal(size=(n, model.nb, 6))


def mapped(f, shared=1):
    """jit of f mapped over all operands but the first `shared`."""
    return jax.jit(lambda *a: jax.vmap(f, (None,) * shared + (0,) * (len(a) - shared))(*a))


@functools.cache
def solve_program(solver: jd.solvers.Solver):
    """(model, q, v, tau, external) to a `Solution`, one program for every robot that comes along."""
    return mapped(lambda m, q, v, tau, x: jd.forward_dynamics(m, jd.State(q, v), tau, external=x, solver=solver))


def solve(solver, model, q, v, tau, external=None) -> jd.Solution:
    external = np.zeros((len(q), model.nb, 6)) if external is None else external
    dtype = model.gravity.dtype
    return solve_program(solver)(model, *(jnp.asarray(x, dtype) for x in (q, v, tau, external)))


@functools.cache
def solved(name, solver) -> jd.Solution:
    """Solutions at `states(name)` under `wrenches(name)`."""
    return solve(solver, catalogue.CATALOGUE[name].build(), *states(name), wrenches(name))


rows_program = mapped(
    lambda m, q, v: (jd.constraint_jacobian(m, q), jd.constraint_bias(m, jd.State(q, v)), jd.constraint_residual(m, q))
)
"""(model, q, v) to J, gamma and the residual."""


def succeeded(result) -> np.ndarray:
    """Per lane, whether a batched result is the successful one."""
    return np.asarray(result == jd.Result.successful)


def close(got, wanted, tolerance, scale=None):
    """Agreement relative to `scale`: by default the larger of 1 and the largest wanted number."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape, (got.shape, wanted.shape)
    scale = max(1.0, np.abs(wanted).max(initial=0.0)) if scale is None else scale
    error = np.abs(got - wanted).max(initial=0.0) / scale
    assert error <= tolerance, error
