"""Damped systems, M x − Jᵀ y = r1 and J x + R y = r2 with a small compliance R = 1/μ, and the weight μ.

They are factorised once, and solved in every proximal iteration. The multipliers y of a constraint are eliminated
first, which leaves M + Jᵀ μ J, or ride up the tree with its rows; see `jaxdyn.tree.elimination`.
"""

import abc
import functools
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from ..dynamics.crba import rigid
from ..kinematics import rows as rw
from ..spatial.small import summed
from ..tree.columns import inertia_of_rows, tie_of_rows
from ..tree.early import EarlyFactor
from ..tree.elimination import Articulated, Factor, factorise
from ..tree.field import Field, select
from ..tree.multipliers import flat, flat_rows, slots_of
from ..tree.sweep import each
from .problem import Problem


def automatic_weight(problem: Problem) -> Array:
    """μ (lanes,) from the precision and the size of the inertia: so large that a step gains several digits, so
    small that μ JᵀJ leaves those of M. Measured on the benchmark systems: `docs/algorithms/lcaba.md`."""
    return _digits(problem, 3e3, 1e7) * _mean_mass(problem)


def _digits(problem: Problem, single: float, double: float) -> float:
    return double if problem.q.dtype == jnp.float64 else single


def _mean_mass(problem: Problem) -> Array:
    return jnp.maximum(problem.model.bodies.mass.mean(0), 1e-3)


def largest_weight(weights: Sequence[Array]) -> Array:
    """The largest of all rows: (lanes,)."""
    return functools.reduce(jnp.maximum, [w.max((0, 1)) for w in weights])


def farthest(problem: Problem, weights: Sequence[Array]) -> Array:
    """The longest conjugate step. An eigenvalue w of J M⁻¹ Jᵀ calls for 1 / (μ w); what is smaller than 1e-9 (single
    precision: 1e-7) over the mean mass counts as zero. Rows that are redundant where loops are closed have
    w of 1e-12 where the loops are open by a micrometre: resolving those would make forces of rounding errors."""
    return jnp.maximum(_digits(problem, 1e7, 1e9) * _mean_mass(problem) / largest_weight(weights), 1)


class System(eqx.Module):
    """A factorised damped system. `weights` are μ by bundle, (rows or 1, members or 1, lanes)."""

    problem: eqx.AbstractVar[Problem]
    weights: eqx.AbstractVar[list[Array]]

    @abc.abstractmethod
    def solve(
        self, tau: Sequence[Array], force: Field, lam: list[Array] | None, r2: list[Array] | None
    ) -> tuple[list[Array], Any, list[Array], list[Array]]:
        """x and y with M x − Jᵀ y = τ − force + Jᵀ lam and J x + R y = r2; None is zero.

        `tau` is by group, `force` (moment, force) a body, `lam` and `r2` by bundle; `force` is used up. Returns x, the
        accelerations of the bodies as a `Field`, y and J x.
        """


class Damped(System):
    """Eliminated body by body. `riding` are the first rows of the constraints whose rows ride up the tree (ProxBBO,
    PV); the others tie bodies by penalties, M + Jᵀ μ J (LCABA)."""

    problem: Problem
    factor: Factor | EarlyFactor
    weights: list[Array]
    riding: frozenset[int] = eqx.field(static=True)

    def solve(self, tau, force, lam, r2):
        bundles, evaluated = self.problem.bundles, self.problem.evaluated
        tied = [self._tied(b) for b in bundles]
        pulled = r2
        if r2 is not None and self.riding:
            pulled = [r if t is True else r * t for r, t in zip(r2, tied, strict=True)]
        push(self.problem, force, weighed(self.weights, lam, pulled))
        rows = Field() if self.riding else None
        if rows is not None:
            for k, bundle in enumerate(bundles):
                zero = jnp.zeros((bundle.layout.rows, len(bundle.members), 1), self.problem.q.dtype)
                rows.add(bundle.rows, flat_rows(zero if r2 is None else r2[k]))
        x, accelerations, found = self.factor.solve(tau, force, rows)
        image = rw.times(bundles, evaluated, accelerations)
        left = [-i for i in image] if r2 is None else [r - i for r, i in zip(r2, image, strict=True)]
        y = [w * e for w, e in zip(self.weights, left, strict=True)]
        if found is not None:
            for k, bundle in enumerate(bundles):
                if tied[k] is not True:
                    nu = slots_of(found.get(bundle.rows), bundle.layout.rows, len(bundle.members))
                    y[k] = jnp.where(tied[k] > 0, y[k], -nu)
        return x, accelerations, y, image

    def _tied(self, bundle: rw.Bundle) -> Any:
        """Which members are penalties: True for all, else ones and zeros (1, members, 1)."""
        if not self.riding & set(bundle.starts):
            return True
        return jnp.asarray([[[float(start not in self.riding)] for start in bundle.starts]], self.problem.q.dtype)


def weighed(weights: list[Array], lam: list[Array] | None, r2: list[Array] | None) -> list[Array] | None:
    """lam + μ r2."""
    pulled = None if r2 is None else [w * r for w, r in zip(weights, r2, strict=True)]
    if lam is None or pulled is None:
        return pulled if lam is None else lam
    return [x + y for x, y in zip(lam, pulled, strict=True)]


def push(problem: Problem, force: Field, lam: list[Array] | None) -> None:
    """Jᵀ lam as forces on the bodies."""
    if lam is not None:
        for slot, (n, f) in rw.transposed(problem.bundles, problem.evaluated, lam):
            force.add(slot, (-n, -f))


def row_weights(problem: Problem, weights: list[Array]) -> Array:
    """μ of every row: (m, lanes)."""
    shaped = zip(problem.bundles, weights, strict=True)
    full = [jnp.broadcast_to(w, (b.layout.rows, len(b.members), w.shape[-1])) for b, w in shaped]
    return rw.flatten(problem.bundles, full)


def vanishing(problem: Problem) -> Array:
    """What rounding leaves of J M⁻¹ Jᵀ of a row that moves nothing, though it acts on bodies: (m, lanes)."""
    eps = jnp.finfo(problem.q.dtype).eps
    sizes = []
    for bundle, e in zip(problem.bundles, problem.evaluated, strict=True):
        square = summed(jnp.square(x).sum(1) for pair in e.rows.K for x in pair)
        sizes.append(jnp.broadcast_to(square, (bundle.layout.rows, len(bundle.members), square.shape[-1])))
    return (32 * eps) ** 2 * rw.flatten(problem.bundles, sizes) / _mean_mass(problem)


def uniform(problem: Problem, mu: Array) -> list[Array]:
    """One weight for all rows, by bundle."""
    return [mu[None, None] for _ in problem.bundles]


def rigid_of(problem: Problem) -> Field:
    own = Field()
    each(
        problem.groups,
        lambda g, _, link: own.add(g.nodes, rigid(link.mass, link.first, link.second)),
        {},
        problem.links,
    )
    return own


def rows_at(problem: Problem, name=lambda row, body: row) -> Field:
    """K (moment, force) of all rows by (name of the row, body)."""
    K = Field()
    for bundle, e in zip(problem.bundles, problem.evaluated, strict=True):
        for slot, (ang, lin) in zip(bundle.slots, e.rows.K, strict=True):
            shape = jnp.broadcast_shapes(ang.shape, lin.shape)
            pair = tuple(jnp.moveaxis(jnp.broadcast_to(x, shape), 0, 1) for x in (ang, lin))
            bodies = slot * bundle.layout.rows
            K.add([(name(row, b), b) for row, b in zip(bundle.rows, bodies, strict=True)], flat(pair))
    return K


def every_row(problem: Problem) -> frozenset[int]:
    """The first rows of all constraints."""
    return frozenset(start for bundle in problem.bundles for start in bundle.starts)


def factorised(problem: Problem, weights: list[Array], riding: frozenset[int], hard: bool = False) -> Damped:
    """The factor of [M Jᵀ; J −1/μ] in the problem's order; `hard` leaves 1/μ of the riding rows out."""
    own, ties, by_row = rigid_of(problem), Field(), Field()
    if riding:
        each_row = vanishing(problem) if hard else 1 / row_weights(problem, weights)
        by_row.add(range(each_row.shape[0]), each_row)
    for bundle, e, mu in zip(problem.bundles, problem.evaluated, weights, strict=True):
        stay = [k for k, start in enumerate(bundle.starts) if start not in riding]
        if not stay:
            continue
        K, slots = [[_members(x, stay) for x in pair] for pair in e.rows.K], bundle.slots
        slots = [tuple(slot[k] for k in stay) for slot in slots]
        mu = _members(mu, stay)
        for s, slot in enumerate(slots):
            own.add(slot, inertia_of_rows(mu, *K[s]))
            for t in range(s + 1, len(K)):
                ties.add(list(zip(slot, slots[t], strict=True)), tie_of_rows(mu, *K[s], *K[t]))
    kept = (None, by_row) if hard else (by_row, None)
    inertia = Articulated(own, ties, rows_at(problem) if riding else None, *kept)
    return Damped(problem, factorise(problem.order, problem.joints, inertia), weights, riding)


def _members(x: Array, kept: list[int]) -> Array:
    """Of (..., members or 1, lanes), those that are kept."""
    return x if x.shape[-2] == 1 else select(x, kept, axis=x.ndim - 2)
