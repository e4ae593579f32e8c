"""Programs that `delassus.py` measures: operators by jaxdyn's methods and by plain dense algebra."""

import dataclasses
import functools
import re
import time
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Var
from jax.scipy.linalg import cho_solve
from scene_parts import ContactScene

import jaxdyn as jd
from jaxdyn.engine import kernels
from jaxdyn.engine.facts import memory
from jaxdyn.engine.ops import TooLarge, Unsupported

#: name of plain dense algebra among the methods
PLAIN = "jnp Cholesky"
METHODS = (PLAIN, "ConstrainedABA", "Dense", "EFPA", "KJR", "LTL", "MatrixFree", "PV", "PVFast", "PVReduced")
#: timed programs: those that start from a configuration (a product, a solve, and both with the same operator), then
#: those with another vector or damping
FIRST = ("product", "solve", "both")
TIMES = (*FIRST, "product again", "solve again", "solve with new damping")
#: damping of rows, 1/kg
DAMPING = 1e-3
#: number of successive evaluations in a program for a batch of 1
STEPS = 32


class Cholesky(eqx.Module):
    """G = J M⁻¹ Jᵀ as a matrix, and the Cholesky factor of G + R."""

    G: jax.Array
    R: jax.Array
    L: jax.Array

    @staticmethod
    def of(G, R) -> "Cholesky":
        return Cholesky(G, R, jnp.linalg.cholesky(G + R * jnp.eye(len(G), dtype=G.dtype)))

    def mv(self, x):
        return self.G @ x + self.R * x

    def solve(self, b):
        return cho_solve((self.L, True), b)

    def with_damping(self, R) -> "Cholesky":
        return Cholesky.of(self.G, R)


def matrices(scene: ContactScene, q) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Return M, and the Jacobians of the operator's rows and of the enforced rows (`within`)."""
    J, K = (
        jd.constraint_jacobian(scene.model, q, rows) if rows else jnp.zeros((0, scene.model.nv), q.dtype)
        for rows in (scene.constraints, scene.within)
    )
    return jd.mass_matrix(scene.model, q), J, K


def plain(scene: ContactScene, q, R) -> Cholesky:
    """Return the operator computed from the mass matrix and Jacobians. Enforced rows are eliminated with a small
    damping, as they may depend on each other."""
    M, J, K = matrices(scene, q)
    A = jax.scipy.linalg.solve_triangular(jnp.linalg.cholesky(M), jnp.concatenate([K, J]).T, lower=True)
    G, k = A.T @ A, len(K)
    if k:
        little = 1e-9 if q.dtype == jnp.float64 else 1e-5
        L = jnp.linalg.cholesky(G[:k, :k] + little * jnp.trace(G[:k, :k]) * jnp.eye(k, dtype=G.dtype))
        G = G[k:, k:] - G[k:, :k] @ cho_solve((L, True), G[:k, k:])
    return Cholesky.of(G, R)


def operator(scene: ContactScene, method: str) -> Callable:
    """Return a function from (q, R) to the operator."""
    if method == PLAIN:
        return lambda q, R: plain(scene, q, R)
    by = getattr(jd.osim, method)()
    return lambda q, R: jd.delassus(scene.model, q, scene.constraints, method=by, damping=R, within=scene.within)


def refusal(scene: ContactScene, method: str) -> str | None:
    """Return why the method does not support the scene's constraints, or None."""
    if method != PLAIN:
        try:
            getattr(jd.osim, method)().check(method, scene.model.topology, scene.within, scene.constraints)
        except ValueError as error:
            why = str(error).removeprefix(f"{method}: `{method}` ")
            return re.split("[,:.] ", why)[0]
    return None


def cast(scene: ContactScene, dtype) -> ContactScene:
    to = lambda x: jnp.asarray(x, dtype) if eqx.is_inexact_array(x) else x  # noqa: E731
    parts = {name: jax.tree.map(to, getattr(scene, name)) for name in ("model", "q", "contacts", "joints")}
    return dataclasses.replace(scene, **parts)


class Parts:
    """The leaves of an operator, split into those that depend on the configuration or the damping, and the others."""

    def __init__(self, build: Callable, q, R):
        self.treedef = jax.tree.structure(jax.eval_shape(build, q, R))
        traced = jax.make_jaxpr(lambda q, R: jax.tree.leaves(build(q, R)))(q, R).jaxpr
        varying = set(traced.invars)
        for step in traced.eqns:
            if any(isinstance(x, Var) and x in varying for x in step.invars):
                varying.update(step.outvars)
        self.varies = [isinstance(x, Var) and x in varying for x in traced.outvars]
        leaves = jax.tree.leaves(jax.jit(build)(q, R))
        self.fixed = [None if v else x for x, v in zip(leaves, self.varies, strict=True)]

    def apart(self, made) -> list:
        return [x for x, v in zip(jax.tree.leaves(made), self.varies, strict=True) if v]

    def joined(self, varying: list):
        rest = iter(varying)
        leaves = [next(rest) if v else x for x, v in zip(self.fixed, self.varies, strict=True)]
        return jax.tree.unflatten(self.treedef, leaves)


@functools.cache
def _kernel_memory(entry: tuple) -> int:
    return memory(*entry)


def kernel_memory(entry: tuple) -> int:
    """Return the bytes that a kernel needs for one state while it runs; 0 if XLA compiles the program."""
    try:
        return _kernel_memory(entry)
    except (TooLarge, Unsupported):
        return 0


@dataclasses.dataclass
class Programs:
    """Programs of a scene, a method, a batch and a precision: figures known before timing, and functions to run."""

    found: dict
    runs: dict[str, Callable]
    outputs: dict[str, np.ndarray]
    evaluations: int


def both(operator, x) -> jax.Array:
    """Return A x and A⁻¹ x, concatenated."""
    return jnp.concatenate([operator.mv(x), operator.solve(x)])


def compiled(f: Callable, *args) -> tuple[float, Callable]:
    """Return the CPU seconds to trace and compile, and the program."""
    begin = time.process_time()
    made = jax.jit(f).lower(*args).compile()
    return round(time.process_time() - begin, 2), made


def programs(scene: ContactScene, method: str, batch: int, dtype, steps: int = STEPS) -> Programs:
    """Compile the programs. A batch of 1 runs `steps` evaluations one after the other, which excludes the cost of calls
    from Python."""
    n, rng = steps if batch == 1 else batch, np.random.default_rng(0)
    qs = jnp.asarray(scene.configurations(n), dtype)
    scene = cast(scene, dtype)
    build = operator(scene, method)
    over = (lambda f: lambda *args: jax.lax.map(lambda a: f(*a), args)) if batch == 1 else jax.vmap
    R, R2 = (jnp.asarray(DAMPING * rng.uniform(0.5, 2, n), dtype) for _ in range(2))
    x = jnp.asarray(rng.normal(size=(n, scene.rows)), dtype)
    parts = Parts(build, qs[0], R[0])
    make = lambda q, R: parts.apart(build(q, R))  # noqa: E731
    made = jax.jit(make)(qs[0], R[0]) if batch == 1 else jax.jit(jax.vmap(make))(qs, R)

    def again(use: Callable) -> Callable:
        """Apply `use` with one operator for all successive evaluations, or with one for each element of a batch."""
        if batch == 1:
            return lambda made, *args: over(lambda *a: use(parts.joined(made), *a))(*args)
        return jax.vmap(lambda made, *a: use(parts.joined(made), *a))

    cases = {
        "product": (over(lambda q, R, x: build(q, R).mv(x)), qs, R, x),
        "solve": (over(lambda q, R, x: build(q, R).solve(x)), qs, R, x),
        "both": (over(lambda q, R, x: both(build(q, R), x)), qs, R, x),
        "product again": (again(lambda op, x: op.mv(x)), made, x),
        "solve again": (again(lambda op, x: op.solve(x)), made, x),
        "solve with new damping": (again(lambda op, R, x: op.with_damping(R).solve(x)), made, R2, x),
    }
    runs, seconds, outputs, temporary, kernel = {}, {}, {}, {}, {}
    for name, (f, *args) in cases.items():
        with kernels.watching() as seen:
            seconds[name], run = compiled(f, *args)
        runs[name] = lambda run=run, args=args: jax.block_until_ready(run(*args))
        outputs[name] = np.asarray(runs[name]()[0], float)
        taken = run.memory_analysis()
        temporary[name] = getattr(taken, "temp_size_in_bytes", 0) // batch
        kernel[name] = max(map(kernel_memory, seen), default=0)
    stored = sum(leaf.nbytes for leaf in made) // batch
    found = {"compile_seconds": seconds, "stored_bytes": stored}
    found |= {"temporary_bytes": temporary, "kernel_bytes": kernel}
    return Programs(found, runs, outputs, n)


def reference(scene: ContactScene, steps: int, batch: int) -> dict[str, np.ndarray]:
    """Return the expected result of the first evaluation of each program, in double precision."""
    n, rng = steps if batch == 1 else batch, np.random.default_rng(0)
    q = scene.configurations(n)[0]
    R, R2 = (DAMPING * rng.uniform(0.5, 2, n) for _ in range(2))
    x = rng.normal(size=(n, scene.rows))[0]
    M, J, K = (np.asarray(a, float) for a in matrices(scene, q))
    _, size, right = np.linalg.svd(K, full_matrices=False)
    held = right[size > 1e-6 * size.max(initial=0.0)]
    system = np.block([[M, held.T], [held, np.zeros((len(held), len(held)))]])
    sides = np.concatenate([J.T, np.zeros((len(held), len(J)))])
    G = J @ np.linalg.solve(system, sides)[: len(M)]
    damped = lambda R: np.linalg.solve(G + R[0] * np.eye(len(G)), x)  # noqa: E731
    product, solve = G @ x + R[0] * x, damped(R)
    whole = np.concatenate([product, solve])
    return dict(zip(TIMES, (product, solve, whole, product, solve, damped(R2)), strict=True))
