"""The Delassus matrix G of contact rows, s = G f, as a matrix or without one.

`Unformed` is G without the matrix (matrix_free_delassus). A product is one downward sweep of the factor in which the
rows ride (are carried up the tree by the elimination); only the blocks of L of places that share slots are kept. A
damped inverse is the elimination in which contacts tie bodies by penalties 1 / R (Alg. 4). The time of both grows with
the numbers of rows and bodies, while that of a matrix grows with the square of the rows and that of its factor with the
cube. Arrays are (rows, lanes); a lane is one element of the batch.
"""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..delassus.riding import independent
from ..engine.core import joined, lanes_of, widen
from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..systems.base import System
from ..systems.body_factor import body_factor, cliques_of
from ..systems.problem import Problem, still
from ..tree import panels
from ..tree.factor import Factor
from ..tree.order import elimination, riders_of

#: up to FEW rows a matrix is multiplied by one expression; beyond that by steps of TOGETHER products, in constant code
FEW, TOGETHER = 48, 12


class Unformed(eqx.Module):
    """G of a problem whose first `held` constraints (the loops) hold, without the matrix. **Fields:** `weights` (loops'
    rows, lanes), their μ; `factor`, in which contact rows are kept; `compliance` R and `diagonal` of G + R (m, lanes);
    `penalised`: True if loops are penalties, False if they are eliminated at the common ancestors of their bodies."""

    problem: Problem
    weights: Array
    factor: Factor
    compliance: Array
    diagonal: Array
    held: int = eqx.field(static=True)
    penalised: bool = eqx.field(static=True)

    def times(self, f: Array) -> Array:
        """Return (G + R) f."""
        first, lanes = len(self.weights), f.shape[-1]
        none = lambda n: jnp.zeros((n, lanes), f.dtype)  # noqa: E731
        up = {"u": none(self.problem.model.topology.nv)}
        if "Linv" in self.factor.parts:
            up["w"] = none(len(self.factor.parts["Linv"]))
        _, bodies, _ = self.factor.down(up, joined([none(first), -f]))
        return self.problem.rows.times(bodies)[first:] + self.compliance * f

    def damped(self, shift: Array) -> "Damped":
        """Return the factor of G + R + a positive shift (m, lanes)."""
        return self.tied(1 / (self.compliance + shift))

    def tied(self, weights: Array) -> "Damped":
        """Return the factor of M + J_cᵀ w J_c with weights w ≥ 0 (m, lanes), on which the loops hold."""
        problem, plan, topology = self.problem, self.problem.plan, self.problem.model.topology
        loops, contacts = tuple(range(self.held)), tuple(range(self.held, len(plan)))
        if self.penalised:
            held, riding, penalised = self.weights, (), (*loops, *contacts)
        else:
            held, riding, penalised = independent(self.weights), loops, contacts
        riders = riders_of(topology, plan)[: len(riding)]
        order = elimination(topology, cliques_of(plan, penalised), riders)
        every, rule = joined([held, weights]), panels.if_independent
        return Damped(body_factor(problem, order, every, frozenset(riding), rule, penalised), len(held))


class Damped(eqx.Module):
    """A factor of an `Unformed`, whose contact rows begin at `first`; w are its weights."""

    system: System
    first: int = eqx.field(static=True)

    def solve(self, b: Array) -> Array:
        """Return x with (G + R + shift) x = b (m, lanes)."""
        return self.solved(b)[0]

    def solved(self, b: Array) -> tuple[Array, Array]:
        """Return x and G x, with G x + x / w = b (m, lanes)."""
        problem = self.system.problem
        none = jnp.zeros((problem.model.nv, b.shape[-1]), b.dtype)
        right = joined([jnp.zeros((self.first, b.shape[-1]), b.dtype), b])
        _, _, y, image = self.system.solve(none, still(problem, none), right)
        return y[self.first :], image[self.first :]

    def pushed(self, f: Array) -> Array:
        """Return x with x / w + G x = f / w (m, lanes)."""
        problem = self.system.problem
        none = jnp.zeros((problem.model.nv, f.shape[-1]), f.dtype)
        force = problem.rows.forces(joined([jnp.zeros((self.first, f.shape[-1]), f.dtype), -f]), still(problem, none))
        _, _, y, _ = self.system.solve(none, force, None)
        return f + y[self.first :]


def diagonal(G: Array | Unformed) -> Array:
    """Return the diagonal (m, lanes)."""
    return G.diagonal if isinstance(G, Unformed) else jnp.stack([G[k, k] for k in range(len(G))])


def product(G: Array | Unformed, f: Array) -> Array:
    """Return G f."""
    if isinstance(G, Unformed):
        return G.times(widen(f, lanes_of(f, G.diagonal)))
    m = len(f)
    if m <= FEW:
        return (G * f[None]).sum(1)
    return swept(_products(m), {"G": G.reshape(m * m, G.shape[-1]), "f": f})["s"]


def _inner(row: Array, f: Array) -> Array:
    return (row * f).sum(0)


@tables
def _products(m: int) -> Table:
    parts = [(k, min(TOGETHER, m - k)) for k in range(0, m, TOGETHER)]
    rows = [
        Row(Step(_inner), (Ref("G", i * m + k, n), Ref("f", k, n)), Ref("s", i)) for i in range(m) for k, n in parts
    ]
    return Table(rows, {"s": m})
