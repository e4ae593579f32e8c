"""Random functions of arrays with lanes last, through kernels and through XLA: their values and gradients must agree.

`JAX_ENABLE_X64=1 python tests/random_functions.py --first 100 --functions 50` compares many of them.
"""

import argparse
import sys

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scalar_help import kernel, lanes

from jaxdyn.engine.lanes import laned

#: relative to the larger of 1 and the number
TOLERANCE = {"float64": 1e-9, "float32": 2e-3}
#: rows of the two operands, and the number of lanes
ROWS, LANES = (4, 3), 9

ONE = (
    jnp.sin,
    jnp.tanh,
    jnp.abs,
    jnp.floor,
    jnp.negative,
    lambda a: jnp.sqrt(jnp.abs(a) + 0.1),
    lambda a: jnp.exp(-a * a),
    lambda a: jnp.log1p(jnp.abs(a)),
    lambda a: jnp.arctan2(a, 1 + a * a),
    lambda a: a**3,
    lambda a: jnp.cumsum(a, 0),
    lambda a: jnp.flip(a, 0),
    lambda a: jnp.sort(a, axis=0),
    lax.cummax,
    lambda a: a.sum(0, keepdims=True),
    lambda a: a.max(0, keepdims=True),
    lambda a: jnp.pad(a, ((1, 1), (0, 0)))[:5],
    lambda a: a[::2],
    lambda a: a.at[0].set(a[-1] * 0.25),
    lambda a: (jnp.floor(3 * a).astype(int) % 5 >> 1).astype(a.dtype) * 0.3,
    lambda a: lax.fori_loop(0, 3, lambda k, c: jnp.where(c > 0.5, c - 0.1 * k, c + jnp.cos(c)), a),
)
TWO = (
    jnp.add,
    jnp.subtract,
    jnp.multiply,
    jnp.maximum,
    jnp.minimum,
    lambda a, b: a / (1 + b * b),
    lambda a, b: jnp.where(a > b, a, 2 * b),
    lambda a, b: jnp.where((a > 0) ^ (b > 0.3), a, b),
    lambda a, b: jnp.hypot(a, b + 0.1),
    lambda a, b: jnp.concatenate([a, b])[:5],
    lambda a, b: lax.scan(lambda c, z: (0.5 * c + z, jnp.cos(c) * z), b[0], a)[1],
    lambda a, b: lax.cond((a > b).any(), lambda: jnp.where(a > b, 2 * jnp.sin(a), a), lambda: a),
)


def function(seed: int):
    """A function of arrays (4, lanes) and (3, lanes), of the same operations whenever it is called."""

    def grown(a):
        """A loop of as many turns as each lane needs; it has no reverse derivative."""
        go_on = lambda s: (s[0] < 2).any() & (s[1] < 12)  # noqa: E731
        turn = lambda s: (jnp.where(s[0] < 2, 1.1 * s[0] + 0.5, s[0]), s[1] + 1)  # noqa: E731
        return lax.stop_gradient(lax.while_loop(go_on, turn, (lax.stop_gradient(jnp.clip(a, -3, 3)), 0))[0])

    def fn(x, y):
        rng = np.random.default_rng(seed)
        wide = lambda a: jnp.broadcast_to(a, (len(a), x.shape[-1]))  # noqa: E731
        found = [wide(a) for a in (x, y, 0.5 * x[:2], jnp.full((3, 1), 0.7, x.dtype))]
        pick = lambda: found[rng.integers(len(found))]  # noqa: E731
        for _ in range(rng.integers(4, 22)):
            of = rng.integers(8)
            if of < 3:
                new = ONE[rng.integers(len(ONE))](pick())
            elif of < 6:
                a, b = pick(), pick()
                new = TWO[rng.integers(len(TWO))](a[: len(b)], b[: len(a)])
            elif of == 6:
                a = pick()
                new = jnp.einsum("ij,jl->il", rng.normal(size=(3, len(a))).astype(x.dtype), a)
            else:
                new = grown(pick())
            found = [*found[:2], *found[-9:], wide(new)]
        return sum((0.3 + 0.1 * k) * jnp.clip(a, -1e6, 1e6).sum(0, keepdims=True) for k, a in enumerate(found))

    return fn


def apart(seed: int) -> dict[str, float]:
    """How far kernel and XLA are apart in a function's value and gradient, over the tolerance; infinite if a number is
    finite in one of them only."""
    dtype = "float32" if seed % 3 == 2 else "float64"
    rng, fn = np.random.default_rng([seed, 1]), function(seed)
    x, y = (rng.normal(size=(LANES, n)).astype(dtype) for n in ROWS)
    single = laned(fn)
    slopes = jax.vmap(jax.grad(lambda x, y: single(x, y)[0], (0, 1)))

    def by_xla(x, y):
        one = lambda x, y: fn(x[:, None], y[:, None])[0, 0]  # noqa: E731
        return jax.grad(one, (0, 1))(x, y)

    with jax.numpy_rank_promotion("allow"):
        values = kernel(fn, x, y), lanes(fn, x, y)
        gradients = jax.jit(slopes)(x, y), jax.jit(lambda x, y: lax.map(lambda z: by_xla(*z), (x, y)))(x, y)
    return {
        name: max(map(_off, *(jax.tree.leaves(of) for of in both))) / TOLERANCE[dtype]
        for name, both in (("value", values), ("gradient", gradients))
    }


def _off(got, wanted) -> float:
    got, wanted = np.asarray(got, float), np.asarray(wanted, float)
    if (np.isfinite(got) != np.isfinite(wanted)).any():
        return np.inf
    return float(np.where(np.isfinite(wanted), np.abs(got - wanted) / np.maximum(1, np.abs(wanted)), 0).max())


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--first", type=int, default=0, help="seed")
    options.add_argument("--functions", type=int, default=50)
    given = options.parse_args()
    wrong = 0
    for seed in range(given.first, given.first + given.functions):
        found = apart(seed)
        if max(found.values()) > 1:
            wrong += 1
            print(f"{seed}: {found} of the tolerance")
    print(f"{wrong} of {given.functions} functions differ")
    return int(wrong > 0)


if __name__ == "__main__":
    assert jax.config.read("jax_enable_x64"), "half of the functions are in double precision: set JAX_ENABLE_X64=1"
    sys.exit(main())
