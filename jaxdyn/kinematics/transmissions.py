"""Values and derivatives of embedded transmissions φ(q) = 0 at a configuration.

They are steps of one table, so that a function that several transmissions share, for instance those of both legs, is
compiled once.

| symbol | name here | |
| --- | --- | --- |
| K, φ | ``"K"``, ``"gap"`` | slopes ∂φ/∂q, and the position error |
| ∂²φ/∂q² | ``"curve"`` | of pairs a ≤ b of joints; it shares intermediate results with K |
| k | ``"k"`` | d/dt(K) v = Σ_ab ∂²φ/∂q_a∂q_b v_a v_b |
"""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..spatial.small import summed
from ..tree.topology import Topology


class Function(NamedTuple):
    """A function φ with its number of rows, and the indices of its joints' coordinates and velocities."""

    fn: Callable
    rows: int
    q: tuple[int, ...]
    v: tuple[int, ...]


def _pairs(n: int) -> list[tuple[int, int]]:
    return list(itertools.combinations_with_replacement(range(n), 2))


def _derived(fn, q):
    """Return K, the second derivatives of all pairs, and φ, by row, for coordinates (1, lanes) each."""
    single = lambda x: fn(x).astype(x.dtype)  # noqa: E731 - constants in `fn` may be in double precision

    def parts(x):
        first, second = zip(*_pairs(len(q)), strict=True)
        curve = jax.jacfwd(jax.jacfwd(single))(x)[:, list(first), list(second)]
        return jax.jacfwd(single)(x).ravel(), curve.ravel(), single(x)

    return jax.vmap(parts, -1, -1)(jnp.concatenate(q))


def _turned(rows, curve, v):
    """Return k by row."""
    curve = curve.reshape(rows, -1, curve.shape[-1])
    rates = [v[a][0] * v[b][0] * (1 if a == b else 2) for a, b in _pairs(len(v))]
    return jnp.stack([summed(x[k] * rate for k, rate in enumerate(rates)) for x in curve])


class _Places:
    """The cells of each function's numbers: `of`, by function and field name, and `size`, the cells of each field."""

    def __init__(self, functions: tuple[Function, ...]):
        self.size = dict.fromkeys(("K", "curve", "k", "gap"), 0)
        self.of = []
        for f in functions:
            n = len(f.q)
            counts = {"K": f.rows * n, "curve": f.rows * len(_pairs(n)), "k": f.rows, "gap": f.rows}
            self.of.append({name: Ref(name, self.size[name], x) for name, x in counts.items()})
            self.size = {name: x + counts[name] for name, x in self.size.items()}


@tables
def _deriving(topology: Topology, functions: tuple[Function, ...]) -> Table:
    places, names = _Places(functions), ("K", "curve", "gap")
    rows = [
        Row(Step(_derived, (f.fn,)), (tuple(Ref("q", at, 1) for at in f.q),), tuple(of[x] for x in names))
        for f, of in zip(functions, places.of, strict=True)
    ]
    return Table(rows, {name: places.size[name] for name in names})


@tables
def _turning(topology: Topology, functions: tuple[Function, ...]) -> Table:
    places = _Places(functions)
    rows = [
        Row(Step(_turned, (f.rows,)), (of["curve"], tuple(Ref("v", at, 1) for at in f.v)), of["k"])
        for f, of in zip(functions, places.of, strict=True)
    ]
    return Table(rows, {"k": places.size["k"]})


def _apart(functions, name: str, found: Array) -> list[Array]:
    return [found[of[name].start : of[name].start + of[name].count] for of in _Places(functions).of]


class Transmissions:
    """All transmissions at q (nq, lanes)."""

    def __init__(self, topology: Topology, functions: tuple[Function, ...], q: Array):
        self.topology, self.functions = topology, functions
        self.found: dict[str, Any] = swept(_deriving(topology, functions), {"q": q})

    def slopes(self) -> list[Array]:
        """Return K of each, (rows, joints, lanes)."""
        parts = zip(_apart(self.functions, "K", self.found["K"]), self.functions, strict=True)
        return [x.reshape(f.rows, len(f.q), -1) for x, f in parts]

    def gaps(self) -> list[Array]:
        """Return φ of each, (rows, lanes)."""
        return _apart(self.functions, "gap", self.found["gap"])

    def biases(self, v: Array) -> list[Array]:
        """Return k of each at velocities v of the tree, (rows, lanes)."""
        found = swept(_turning(self.topology, self.functions), {"curve": self.found["curve"], "v": v})
        return _apart(self.functions, "k", found["k"])
