"""Kinematics of models with embedded constraints: motions of all bodies from independent velocities alone.

A cluster is a group of joints that embedded constraints tie together. Models without clusters are trees, for which
`kinematics` is `tree_kinematics`. Constraints say K v = 0 and K q̈ + k = 0. K and k of a cluster are computed relative
to the bodies that carry the cluster, as if these were at rest: the constraints depend on nothing else, and single
precision loses no digits to the distance from the world's origin.
"""

import dataclasses
import itertools
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from ..engine.core import joined
from ..engine.kept import tables
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.transmission import OnJoints, Transmission
from ..spatial.small import summed
from ..tree.topology import Topology
from . import ratios
from .carried import Boarding, ridden, tree_jacobian
from .forward import Kinematics, accelerations, tree_kinematics
from .ratios import Cells, Ratios
from .rows import Rows, evaluate
from .transmissions import Function, Transmissions


@dataclasses.dataclass(frozen=True)
class RowLayout:
    """The static part of the embedded constraints' rows. `apart` is the tree cut where clusters begin. `bodies` are the
    indices of the embedded constraints between frames, and `still` the (place in `bodies`, body) pairs in which the
    body counts as at rest. `joints` are the indices of the constraints on joints alone. `cells` are the places of the
    clusters' rows."""

    apart: Topology
    bodies: tuple[int, ...]
    still: frozenset[tuple[int, int]]
    joints: tuple[int, ...]
    cells: Cells


@tables
def row_layout_of(topology: Topology, constraints: tuple[tuple[bool, tuple[int, ...], int], ...]) -> RowLayout:
    """Return the layout of the rows of embedded constraints. Each is given as (True if it is on joints alone, its
    bodies, its number of rows)."""
    members, parents = topology.cluster_of, topology.apart
    on_bodies = tuple(c for c, (alone, *_) in enumerate(constraints) if not alone)
    owner = {c: k for k, cluster in enumerate(topology.clusters) for c in cluster.constraints}
    still = {(n, b) for n, c in enumerate(on_bodies) for b in constraints[c][1] if members.get(b) != owner[c]}
    on_joints = tuple(c for c, (alone, *_) in enumerate(constraints) if alone)
    sizes = tuple(
        (sum(constraints[c][2] for c in cluster.constraints), len(cluster.dependent), len(cluster.velocities))
        for cluster in topology.clusters
    )
    apart = dataclasses.replace(topology, parents=parents, clusters=(), gyrostats=frozenset())
    return RowLayout(apart, on_bodies, frozenset(still), on_joints, Cells(sizes))


def row_layout(model: Model) -> RowLayout:
    """Return the layout of the rows of a model's embedded constraints."""
    topology = model.topology
    layouts = [c.layout(topology) for c in model.embedded]
    told = zip(model.embedded, layouts, strict=True)
    return row_layout_of(topology, tuple((isinstance(c, OnJoints), x.bodies, x.rows) for c, x in told))


class Embedded:
    """The rows of the embedded constraints at q (nq, lanes). Intermediate results that K, k and the residual share are
    computed once."""

    def __init__(self, model: Model, q: Array):
        self.model, self.q, self.topology, self.layout = model, q, model.topology, row_layout(model)
        self.local = dataclasses.replace(model, topology=self.layout.apart, embedded=())
        self.on_bodies = tuple(model.embedded[c] for c in self.layout.bodies)

    @cached_property
    def motion(self) -> Kinematics:
        """The poses of bodies relative to the bodies that carry their clusters, for constraints between frames."""
        return tree_kinematics(self.local, self.q)

    @cached_property
    def rows(self) -> Rows:
        """The rows of constraints between frames, at rest."""
        return evaluate(self.on_bodies, self.motion, self.layout.still)

    @cached_property
    def placed(self) -> Any:
        """The poses of bodies in their parents if the rows needed them, otherwise None."""
        return self.motion.pose if self.on_bodies else None

    @cached_property
    def transmissions(self) -> tuple[list[int], Transmissions]:
        """The indices of transmissions among the embedded constraints, and their values at q."""
        places = [c for c, x in enumerate(self.model.embedded) if isinstance(x, Transmission)]
        functions = []
        for x in (self.model.embedded[c] for c in places):
            bodies = [self.topology.joint(j) for j in x.joints]  # type: ignore
            at = [tuple(starts[b] for b in bodies) for starts in (self.topology.q_starts, self.topology.v_starts)]
            functions.append(Function(x.fn, x.rows, *at))  # type: ignore
        return places, Transmissions(self.topology, tuple(functions), self.q)

    def joints(self, c: int):
        """Return the slope and the residual of constraint `c`, which is on joints alone."""
        constraint: Any = self.model.embedded[c]
        if isinstance(constraint, Transmission):
            places, every = self.transmissions
            k = places.index(c)
            return every.slopes()[k], every.gaps()[k]
        slope, _, residual = constraint.slope(self.along(constraint, self.q, self.topology.q_starts), None)
        return slope, residual

    def along(self, constraint: Any, x: Array, starts) -> Array:
        """Return the entries of x at the joints of a constraint, (joints, lanes). `starts` are the bodies' first
        indices in x."""
        return jnp.stack([x[starts[self.topology.joint(j)]] for j in constraint.joints])

    def joint_biases(self, v: Array) -> dict[int, Array]:
        """Return k of all constraints on joints alone, by index."""
        places, every = self.transmissions
        found = dict(zip(places, every.biases(v), strict=True)) if places else {}
        for c in set(self.layout.joints) - set(places):
            constraint: Any = self.model.embedded[c]
            q = self.along(constraint, self.q, self.topology.q_starts)
            found[c] = constraint.slope(q, self.along(constraint, v, self.topology.v_starts))[1]
        return found

    def columns(self, constraint: Constraint) -> np.ndarray:
        """Return the velocities of the tree that a constraint on joints alone couples."""
        return np.asarray([self.topology.v_starts[self.topology.joint(j)] for j in constraint.joints])  # type: ignore

    def by_constraint(self, of_rows, of_joints) -> list[Array]:
        """Return an array for each constraint: its part of ``of_rows()``, (rows, ...), which holds the rows of all
        constraints between frames, or ``of_joints(c)`` for a constraint on joints alone with index c."""
        parts = dict(zip(self.layout.bodies, self.apart(of_rows()), strict=True)) if self.on_bodies else {}
        parts |= {c: of_joints(c) for c in self.layout.joints}
        return [parts[c] for c in range(len(self.model.embedded))]

    def apart(self, rows: Array) -> list[Array]:
        """Split the rows of constraints between frames by constraint."""
        starts = np.cumsum([0, *(c.layout(self.topology).rows for c in self.on_bodies)])
        return [rows[a:b] for a, b in itertools.pairwise(starts)]

    def by_cluster(self, parts: list[Array]) -> Array:
        """Join arrays of the constraints in the order of clusters."""
        return joined([parts[c] for cluster in self.topology.clusters for c in cluster.constraints])

    def K(self, turns: Mapping[int, Array] | None = None) -> Array:
        """Return the rows' coefficients by cluster, dependent velocities first, row by row: see `Cells`. `turns`
        replaces the velocities of some bodies' joints by other rates. It holds, per rate, a column with the joint's
        velocities for a unit rate."""

        def of_rows():
            J = tree_jacobian(self.motion, self.rows)
            for b, turn in (turns or {}).items():
                at = self.topology.v_slice(b)
                own = J[:, at]
                new = jnp.stack([summed(own[:, j] * x for j, x in enumerate(column)) for column in turn], 1)
                J = jnp.concatenate([J[:, : at.start], new, J[:, at.stop :]], 1)
            return J

        def of_joints(c):
            slope = self.joints(c)[0]
            whole = jnp.zeros((slope.shape[0], self.topology.nv, slope.shape[-1]), slope.dtype)
            return whole.at[:, self.columns(self.model.embedded[c])].add(slope)

        parts = self.by_constraint(of_rows, of_joints)
        for cluster in self.topology.clusters:
            at = np.asarray((*cluster.dependent, *cluster.independent))
            for c in cluster.constraints:
                parts[c] = parts[c][:, at].reshape(-1, parts[c].shape[-1])
        return self.by_cluster(parts)

    def k(self, v: Array) -> Array:
        """Return k = d/dt(K) v at velocities v of the tree, by cluster, so that K q̈ + k = 0."""

        def of_rows():
            motion = tree_kinematics(self.local, self.q, v, biased=True, placed=self.placed)
            rows = evaluate(self.on_bodies, motion._replace(world=self.motion.world), self.layout.still)
            at = [(n, b) for n in range(len(rows.plan)) for b in rows.plan.bodies(n)]
            moving = np.repeat([x not in self.layout.still for x in at], [rows.plan.count(n) for n, _ in at])
            mask = jnp.asarray(moving, v.dtype)[:, None, None]
            seen = dataclasses.replace(rows, K=tuple(x * mask for x in self.rows.K))
            return rows.gamma + seen.times(motion.acceleration)

        return self.by_cluster(self.by_constraint(of_rows, self.joint_biases(v).__getitem__))

    def residual(self) -> Array:
        """Return the position errors of the loops, by cluster."""
        return self.by_cluster(self.by_constraint(lambda: self.rows.residual, lambda c: self.joints(c)[1]))

    def ratios(self, turns: Mapping[int, Array] | None = None) -> Ratios:
        """Return the ratios of velocities, or, with `turns`, of the rates that replace them: see `K`."""
        return ratios.solved(self.layout.cells, self.K(turns))

    def bias(self, found: Ratios, v: Array) -> Array | None:
        """Return g (velocities of the tree, lanes), or None if the ratios of all clusters are constant."""
        if all(c.constant for c in self.topology.clusters):
            return None
        return ratios.moved(self.layout.cells, self.topology, found, self.k(v))

    def back(self, found: Ratios) -> Array:
        """Return the motion of dependent joints (velocities of the tree, lanes) that closes loops to first order."""
        return ratios.moved(self.layout.cells, self.topology, found, self.residual())


def kinematics(
    model: Model,
    q: Array,
    v: Array | None = None,
    a: Array | None = None,
    *,
    biased: bool = False,
    falling: bool = False,
) -> Kinematics:
    """Return what `tree_kinematics` returns, for independent velocities v and their rates a, (nv, lanes)."""
    if not model.topology.clusters:
        return tree_kinematics(model, q, v, a, biased=biased, falling=falling)
    topology, loops = model.topology, Embedded(model, q)
    found = loops.ratios()
    rates = None if v is None else ratios.spread(topology, found.G, v)
    more = None if a is None else ratios.spread(topology, found.G, a)
    bias = None if rates is None else loops.bias(found, rates)
    if bias is not None and (biased or a is not None):
        more = bias if more is None else more + bias
    motion = tree_kinematics(model, q, rates, more, biased=biased, placed=loops.placed, falling=falling)
    return motion._replace(ratios=found, rates=rates, bias=bias, gap=loops.residual())


def spread(motion: Kinematics, w: Array) -> Array:
    """Return G w: the velocities of the tree for independent velocities w (nv, lanes)."""
    return w if motion.ratios is None else ratios.spread(motion.model.topology, motion.ratios.G, w)


def gathered(motion: Kinematics, tau: Array) -> Array:
    """Return Gᵀ τ: the forces along independent velocities for forces along velocities of the tree (.., lanes)."""
    return tau if motion.ratios is None else ratios.gathered(motion.model.topology, motion.ratios.G, tau)


def body_rates(motion: Kinematics, x: Array):
    """Return the accelerations (angular, linear) of all bodies, (nb, 3, lanes), for rates x (nv, lanes) of the
    independent velocities of a robot at rest."""
    return accelerations(motion, spread(motion, x))


def both_sides(motion: Kinematics, M: Array) -> Array:
    """Return Gᵀ M G of a symmetric matrix M (n, n, lanes), with n the number of velocities of the tree."""
    return M if motion.ratios is None else gathered(motion, jnp.swapaxes(gathered(motion, M), 0, 1))


def jacobian_at(motion: Kinematics, rows) -> Array:
    """Return J (m, nv, lanes) of constraints with evaluated rows."""
    return _independent(motion, tree_jacobian(motion, rows))


def wrench_jacobian(motion: Kinematics, body: int, wrenches) -> Array:
    """Return J (n, nv, lanes) whose rows are wrenches (angular, linear) on one body, (n, 3, lanes) each."""
    n = len(wrenches[0])
    return _independent(motion, ridden(motion, (Boarding(body, 0, n, tuple(range(n))),), wrenches, n))


def _independent(motion: Kinematics, J: Array) -> Array:
    """Return J G (n, nv, lanes) for J (n, velocities of the tree, lanes)."""
    return J if motion.ratios is None else jnp.swapaxes(gathered(motion, jnp.swapaxes(J, 0, 1)), 0, 1)


def reflected(motion: Kinematics, weights: Array, x: Array) -> Array:
    """Return the forces (nv, lanes) of joint inertias or gains: Gᵀ W G x with `weights` W along velocities of the
    tree."""
    return gathered(motion, weights * spread(motion, x))
