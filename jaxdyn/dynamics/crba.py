"""Mass matrix: the composite-rigid-body algorithm (Featherstone, Rigid Body Dynamics Algorithms, section 6.2).

| symbol | name here | equation |
| --- | --- | --- |
| I^c_i | ``(A, C, M)`` | I_i + sum over children of X* I^c X |
| F_i | column | I^c_i S_i, carried up to every ancestor |
| M_ji | number | S_jᵀ F_i |
"""

import functools

import jax.numpy as jnp

from ..engine.kernel import kernel
from ..kinematics.forward import sweep
from ..model.joints import JointParameters
from ..model.links import Link
from ..model.model import Model
from ..spatial.small import eye, skew
from ..tree.columns import shifted, times, to_parent, turned
from ..tree.field import Field, select
from ..tree.plan import levels
from ..tree.ride import dense, ride
from ..tree.sweep import each, up
from .rnea import joint_force


@kernel
def rigid(mass, first, second):
    """Inertia about the body's origin as (A, C, M)."""
    return second, skew(first), mass * eye(first)


@functools.cache
def _columns_force(kind):
    """I^c S: (moment, force), columns of one body side by side."""

    def force(par, q, A, C, M):
        parts = [times(c, A, C, M) for c in kind.columns(par, q)]
        lanes = jnp.broadcast_shapes(*[x.shape for p in parts for x in p if x is not None])
        full = [[jnp.broadcast_to(p[k], lanes) for p in parts] for k in (0, 1)]
        return tuple(jnp.concatenate(x, -2) for x in full)

    return kernel(force)


def carry(model: Model, constants: list[Link], coordinates, fields, boarding):
    """Wrench columns ridden up the tree: what each leaves at the joints."""
    groups = levels(model.topology)[::-1]
    data = {g: (link, x) for g, link, x in zip(groups, constants[::-1], coordinates[::-1], strict=True)}

    def step(group, places, values):
        link, x = data[group]
        at = lambda y: select(y, places, axis=y.ndim - 2)  # noqa: E731
        par, q = JointParameters(*[at(p) for p in link.par]), at(x)
        nodes = [group.nodes[p] for p in places]
        numbers = joint_force(group.kind)(par, q, *values)
        if group.root:
            return None, numbers
        return to_parent(fields["E"].get(nodes), fields["r"].get(nodes), *values), numbers

    return ride(groups, boarding, step)


def mass_matrix(model: Model, q):
    """M with armature: (nv, nv, lanes)."""
    return mass_matrix_of(model, *sweep(model, q))


def mass_matrix_of(model: Model, fields, constants: list[Link], coordinates):
    """The same from a sweep that has been made."""
    topology = model.topology
    groups = levels(topology)[::-1]
    own = Field()
    each(groups, lambda g, _, link: own.add(g.nodes, rigid(link.mass, link.first, link.second)), {}, constants[::-1])

    def compose(group, at, x, link):
        A, C, M = at["I"]
        force = _columns_force(group.kind)(link.par, x, A, C, M)
        if group.root:
            return {}, force
        E, r = at["E"], at["r"]
        A, C, M = turned(E, A), turned(E, C), turned(E, M)
        return {"I": (*shifted(A, C, M, r), M)}, force

    state = {"I": own, "E": fields["E"], "r": fields["r"]}
    forces = up(groups, compose, state, coordinates[::-1], constants[::-1])
    boarding, rows = [], []
    for group, force in zip(groups, forces, strict=True):
        boarding.append((group.nodes * group.kind.nv, force))
        rows += [(topology.v_starts[b] + c,) for c in range(group.kind.nv) for b in group.nodes]
    visits = carry(model, constants, coordinates, fields, boarding)
    lower = dense(visits, rows, topology.v_starts, (topology.nv, topology.nv), coordinates[0].dtype)
    body = jnp.asarray(topology.velocity_bodies)
    # a column's own joint is visited with both orders of its columns; elsewhere only once
    same = (body[:, None] == body[None])[..., None]
    armature = jnp.eye(topology.nv, dtype=lower.dtype)[..., None] * model.joints.armature
    return jnp.where(same, lower, lower + jnp.swapaxes(lower, 0, 1)) + armature
