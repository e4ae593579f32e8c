"""Mass matrix and Jacobians. Both are computed from wrenches that are carried up the tree: at every joint on the way,
the product of a wrench with the motion subspace is one entry.

The mass matrix is the composite-rigid-body algorithm (Featherstone, Rigid Body Dynamics Algorithms, section 6.2):

| symbol | name here | equation |
| --- | --- | --- |
| I^c_i | ``inertia`` (mass, first, second) | I_i + sum over children of X* I^c X: that of a rigid body |
| F_i | ``wrench`` | I^c_i S_i, carried up to every ancestor |
| M_ji | number | S_jᵀ F_i |

The rows of a constraint are wrenches too: J_rj is the product of row r with joint j.
"""

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..kinematics.carried import Boarding, ridden
from ..kinematics.embedding import both_sides, kinematics
from ..kinematics.forward import Kinematics
from ..model.model import Model
from ..tree.columns import added, rigid, rigid_to_parent, times
from ..tree.sweep import place_of, up, v_of
from ..tree.topology import WORLD, Topology


def _compose(kind, root, inertia, above, par, q, pose):
    """Return I^c S as wrenches (nv, 3, lanes), and I^c as seen from the parent; `above` is that of the children."""
    inertia = added(inertia, above)
    parts = [times(s, *rigid(*inertia)) for s in kind.columns(par, q)]
    wrench = tuple(jnp.stack(jnp.broadcast_arrays(*x)) for x in zip(*parts, strict=True))
    return wrench, None if root else rigid_to_parent(pose, inertia)


@tables
def _composites(topology: Topology) -> Table:
    below = set(topology.parents)

    def row(b, p):
        carried = Ref("composite", b) if b in below else None
        reads = Ref("inertia", b), carried, *place_of(topology, b)
        root = p == WORLD
        writes = v_of(topology, b, "wrench"), None if root else Ref("composite", p)
        return Row(Step(_compose, (topology.kinds[b], root)), reads, writes)

    return Table(up(topology, row), {"wrench": topology.nv, "composite": topology.nb})


def mass_matrix(model: Model, q):
    """Return M with armature, (nv, nv, lanes)."""
    return mass_matrix_at(kinematics(model, q))


def mass_matrix_at(motion: Kinematics) -> Array:
    """Return M with armature, (nv, nv, lanes), for bodies whose poses are known."""
    model, topology = motion.model, motion.model.topology
    wrench = swept(_composites(topology), motion.joints | {"inertia": motion.inertia})["wrench"]
    lower = ridden(motion, _of_joints(topology), wrench, topology.nv)
    body = jnp.asarray(topology.velocity_bodies)
    # the block of a joint with itself is complete; of all others only one half is
    same = (body[:, None] == body[None])[..., None]
    armature = jnp.eye(topology.nv, dtype=lower.dtype)[..., None] * model.joints.armature
    return both_sides(motion, jnp.where(same, lower, lower + jnp.swapaxes(lower, 0, 1)) + armature)


@tables
def _of_joints(topology: Topology) -> tuple[Boarding, ...]:
    starts = topology.v_starts
    return tuple(
        Boarding(b, starts[b], kind.nv, tuple(range(starts[b], starts[b + 1])))
        for b, kind in enumerate(topology.kinds)
        if kind.nv
    )
