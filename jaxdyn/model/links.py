"""A model's arrays as the engine reads them: component-first, group by group, lanes last."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kernel import kernel
from ..spatial.small import cross, dot, eye, mv, outer
from ..tree.field import permute
from ..tree.plan import Group
from ..tree.topology import Topology
from .joints import Column, JointParameters
from .model import Model


class Link(NamedTuple):
    """A group's constants: the joint's `par` and prepared placement, and the inertia about the body's origin."""

    par: JointParameters
    prepared: tuple
    mass: Array  # (k, lanes)
    first: Array  # mass times centre of mass (3, k, lanes)
    second: Array  # rotational inertia about the origin (3, 3, k, lanes)


def node_axis(x: Array) -> Array:
    """(nodes, ..., lanes) to (..., nodes, lanes)."""
    return jnp.moveaxis(x, 0, -2)


@kernel
def _about_origin(mass, c, rotational):
    return mass * c, rotational + mass * (dot(c, c) * eye(c) - outer(c, c))


@functools.cache
def _prepare(kind):
    return kernel(kind.prepare)


def links(model: Model, groups: Sequence[Group]) -> list[Link]:
    """The constants of each group. `model` has lanes-last leaves."""
    bodies, joints = model.bodies, model.joints
    mass, center = node_axis(bodies.mass), node_axis(bodies.center_of_mass)
    first, second = _about_origin(mass, center, node_axis(bodies.rotational))
    R0, p0 = node_axis(bodies.placement.rotation), node_axis(bodies.placement.translation)
    par = JointParameters(node_axis(joints.axis), node_axis(joints.axis2), node_axis(joints.pitch))
    order = [b for group in groups for b in group.nodes]
    everything = [permute(x, order, axis=x.ndim - 2) for x in (*par, R0, p0, mass, first, second)]
    out, start = [], 0
    for group in groups:
        at = [x[..., start : start + len(group), :] for x in everything]
        own = JointParameters(*at[:3])
        out.append(Link(own, _prepare(group.kind)(own, at[3], at[4]), *at[5:]))
        start += len(group)
    return out


def split(x: Array, starts: Sequence[int], groups: Sequence[Group], size: str) -> list[Array]:
    """Rows (n, lanes) of q (`size` "nq") or v ("nv") by group: (rows of the joint, k, lanes)."""
    counts = [getattr(group.kind, size) for group in groups]
    order = [starts[b] + r for group, n in zip(groups, counts, strict=True) for r in range(n) for b in group.nodes]
    x = permute(x, order)
    out, start = [], 0
    for group, n in zip(groups, counts, strict=True):
        rows = n * len(group)
        out.append(x[start : start + rows].reshape(n, len(group), x.shape[-1]))
        start += rows
    return out


def split_q(topology: Topology, q: Array, groups: Sequence[Group]) -> list[Array]:
    return split(q, topology.q_starts, groups, "nq")


def split_v(topology: Topology, v: Array, groups: Sequence[Group]) -> list[Array]:
    return split(v, topology.v_starts, groups, "nv")


def join_v(topology: Topology, parts: Sequence[Array], groups: Sequence[Group]) -> Array:
    """The inverse of `split_v`: (nv, lanes)."""
    if not parts:
        return jnp.zeros((0, 1))
    lanes = max(x.shape[-1] for x in parts)
    rows = jnp.concatenate([jnp.broadcast_to(x, (*x.shape[:-1], lanes)).reshape(-1, lanes) for x in parts])
    place = [0] * topology.nv
    position = 0
    for group in groups:
        for r in range(group.kind.nv):
            for b in group.nodes:
                place[topology.v_starts[b] + r] = position
                position += 1
    return permute(rows, place)


def combine(columns: Sequence[Column], x: Array):
    """The motion ``sum_c columns[c] x[c]`` as (angular, linear), None for a part that is zero by structure."""
    out = []
    for part in (0, 1):
        total, unit = None, {}
        for column, value in zip(columns, x, strict=True):
            direction = column[part]
            if isinstance(direction, int):
                unit[direction] = value
            elif direction is not None:
                term = direction * value
                total = term if total is None else total + term
        if unit:
            zero = jnp.zeros_like(x[0])
            stacked = jnp.stack([unit.get(k, zero) for k in range(3)])
            total = stacked if total is None else total + stacked
        out.append(total)
    return out


def along(column: Column, angular: Array, linear: Array) -> Array:
    """The product of a column with a spatial force (or of a row of an inertia with it): a number a node."""
    total = None
    for direction, force in zip(column, (angular, linear), strict=True):
        if direction is None:
            continue
        term = force[direction] if isinstance(direction, int) else dot(direction, force)
        total = term if total is None else total + term
    return total


def inertia_times(mass, first, second, w, l):
    """Spatial inertia about the origin times a motion: (moment, force)."""
    return mv(second, w) + cross(first, l), mass * l - cross(first, w)
