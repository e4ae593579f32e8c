"""What one evaluation of forward dynamics costs: operations, CPU time on one core, and CPU time to compile."""

import time

import jax
import jax.numpy as jnp
import numpy as np
import operations

import jaxdyn as jd
from jaxdyn.bench import best


def states(model: jd.Model, q, n: int, seed: int = 0) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(q, v, tau), all (n, ...), around `q`: loops are open a little, which costs the same."""
    rng = np.random.default_rng(seed)
    v, tau = rng.normal(size=(n, model.nv)), rng.normal(size=(n, model.nv))
    around = jax.vmap(lambda d: jd.integrate(model, q, d, 0.02))(jnp.asarray(v))
    return around, jnp.asarray(v), jnp.asarray(tau)


def measure(model: jd.Model, q, solver: jd.Solver, batch: int = 256, repeats: int = 7, count: bool = True) -> dict:
    """Operations of an evaluation more in a batch, microseconds of CPU time per evaluation in single precision, and
    seconds of CPU time to trace and compile."""
    free = isinstance(solver, jd.ABA)
    args = states(model, q, batch)

    def solve(model, q, v, tau):
        options = {"constraints": ()} if free else {}
        return jd.forward_dynamics(model, jd.State(q, v), tau, solver=solver, **options).acceleration

    found = {"nv": model.nv, "rows": 0 if free else sum(c.layout(model.topology).rows for c in model.constraints)}
    if count:
        of = lambda n: operations.operations(jax.vmap(lambda *x: solve(model, *x)), *[x[:n] for x in args])  # noqa: E731
        found["operations"] = of(3) - of(2)
    single = lambda tree: jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), tree)  # noqa: E731
    robot, args = single(model), single(args)
    begin = time.process_time()
    run = jax.jit(jax.vmap(lambda *x: solve(robot, *x))).lower(*args).compile()
    found["compile_seconds"] = round(time.process_time() - begin, 2)
    found["microseconds"] = round(best(lambda: jax.block_until_ready(run(*args)), batch, repeats), 3)
    return found
