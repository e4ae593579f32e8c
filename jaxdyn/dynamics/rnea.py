"""Inverse dynamics: the recursive Newton-Euler algorithm.

After the sweep down (`jaxdyn.kinematics.forward`), with I_i the inertia about the body's origin and h = I v
(Featherstone, Rigid Body Dynamics Algorithms, section 5.3):

| symbol | name here | equation |
| --- | --- | --- |
| f_i | ``n, f`` | I_i (a_i − g_i) + v_i ×* h_i − external_i, moment and force |
| τ_i | result | Sᵀ f_i |
| f_p | carried up | f_p + X* f_i |
"""

import functools

import jax.numpy as jnp

from ..engine.kernel import kernel
from ..kinematics.forward import sweep
from ..model.links import along, inertia_times, join_v, node_axis, split_q
from ..model.model import Model
from ..spatial.small import cross
from ..tree.columns import to_parent
from ..tree.field import Field, select
from ..tree.plan import levels
from ..tree.sweep import each, up


@kernel
def inertial_force(mass, first, second, w, l, aw, al, g):
    """I (a − g) + v ×* I v: (moment, force)."""
    hn, hf = inertia_times(mass, first, second, w, l)
    n, f = inertia_times(mass, first, second, aw, al - g)
    return n + cross(w, hn) + cross(l, hf), f + cross(w, hf)


@kernel
def resting_force(mass, first, second, aw, al):
    """I a: (moment, force)."""
    return inertia_times(mass, first, second, aw, al)


@functools.cache
def joint_force(kind):
    """Sᵀ f: (rows of the joint, k, lanes)."""
    return kernel(lambda par, q, n, f: jnp.stack([along(c, n, f) for c in kind.columns(par, q)]))


def forces_up(model: Model, fields: dict[str, Field], constants, coordinates, forces: Field):
    """The sweep up: generalised forces (nv, lanes) that balance the forces on the bodies."""
    groups = levels(model.topology)[::-1]

    def step(group, own, link, x):
        n, f = own["force"]
        tau = joint_force(group.kind)(link.par, x, n, f)
        return {} if group.root else {"force": to_parent(own["E"], own["r"], n, f)}, tau

    state = {"E": fields["E"], "r": fields["r"], "force": forces}
    parts = up(groups, step, state, constants[::-1], coordinates[::-1])
    return join_v(model.topology, parts, groups)


def body_wrenches(external, group):
    """Rows of `external` (nb, 6, lanes), force first, as (moment, force) of a group."""
    x = select(node_axis(external), group.nodes, axis=1)
    return x[3:], x[:3]


def rnea(model: Model, q, v, a, external=None):
    """M a + h of the rigid bodies (without armature and passive forces): (nv, lanes).

    v = None leaves out velocities and gravity: M a alone.
    """
    groups = levels(model.topology)
    fields, constants, coordinates = sweep(model, q, v, a)
    forces = Field()

    def body_force(group, own, link):
        if v is None:
            n, f = resting_force(link.mass, link.first, link.second, own["aw"], own["al"])
        else:
            motion = [own[k] for k in ("w", "l", "aw", "al", "g")]
            n, f = inertial_force(link.mass, link.first, link.second, *motion)
        if external is not None:
            en, ef = body_wrenches(external, group)
            n, f = n - en, f - ef
        forces.add(group.nodes, (n, f))

    each(groups, body_force, fields, constants)
    return forces_up(model, fields, constants, coordinates, forces)


def passive(model: Model, q, v):
    """Forces of dampers and springs (nv, lanes): −damping v − stiffness (q ⊖ rest)."""
    topology, groups = model.topology, levels(model.topology)
    now, rest = split_q(topology, q, groups), split_q(topology, model.joints.rest, groups)
    stretch = [g.kind.difference(r, x) for g, r, x in zip(groups, rest, now, strict=True)]
    return -model.joints.damping * v - model.joints.stiffness * join_v(topology, stretch, groups)
