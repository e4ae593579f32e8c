"""Inverse dynamics: the recursive Newton-Euler algorithm.

After the sweep down (`jaxdyn.kinematics.forward`), with I_i the inertia about the body's origin
(Featherstone, Rigid Body Dynamics Algorithms, section 5.3):

| symbol | name here | equation |
| --- | --- | --- |
| h_i | ``hn, hf`` | I_i v_i, momentum, angular and linear |
| f_i | ``n, f`` | I_i (a_i − g_i) + v_i ×* h_i − external_i, moment and force |
| τ_i | result | Sᵀ f_i |
| f_p | carried up | f_p + X* f_i |
"""

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..kinematics.embedding import gathered, reflected
from ..kinematics.forward import Kinematics
from ..kinematics.manifold import differenced
from ..model.model import Model
from ..spatial.small import cross
from ..tree import gyrostats
from ..tree.columns import inertia_times, plus, product, to_parent
from ..tree.sweep import each, place_of, up, v_of
from ..tree.topology import WORLD, Topology


def _inertial(inertia, acceleration, g):
    """Return I (a − g). An argument of None is zero."""
    if acceleration is None:
        mass, first, _ = inertia
        return -cross(first, g), -mass * g
    aw, al = acceleration
    return inertia_times(inertia, (aw, al if g is None else al - g))


def _body_force(inertia, velocity, momentum, acceleration, g, external):
    """Return I (a − g) + v ×* h − external as (moment, force). An argument of None is zero; the
    momentum h = I v comes with the velocity."""
    force = None, None
    if velocity is not None:
        (w, l), (hn, hf) = velocity, momentum
        force = cross(w, hn) + cross(l, hf), cross(w, hf)
    if acceleration is not None or g is not None:
        force = plus(force, _inertial(inertia, acceleration, g))
    if external is not None:
        force = plus(force, (-external[3:], -external[:3]))
    return force


def _joint_force(kind, root, par, q, pose, force):
    """Return Sᵀ f, and f as seen from the parent."""
    tau = jnp.stack([product(s, *force) for s in kind.columns(par, q)])
    return tau, None if root else to_parent(pose, force)


@tables
def _bodies(topology: Topology, given: frozenset[str]) -> Table:
    def refs(b, *names):
        return [Ref(name, b) if name in given else None for name in names]

    def rows(b):
        if b in topology.gyrostats:
            p = topology.parents[b]
            reads = [r for at in (b, p) for r in refs(at, "velocity", "acceleration")]
            return [Row(Step(gyrostats.force), (Ref("spin", b), *reads), (Ref("force", p), Ref("force", b)))]
        velocity, *others = refs(b, "velocity", "acceleration", "gravity", "external")
        # in a cell of its own, since derivatives read it again
        momentum = None if velocity is None else Ref("momentum", b)
        own = [] if velocity is None else [Row(Step(inertia_times), (Ref("inertia", b), velocity), momentum)]
        return [*own, Row(Step(_body_force), (Ref("inertia", b), velocity, momentum, *others), Ref("force", b))]

    return Table(each(topology, rows), dict.fromkeys(("momentum", "force"), topology.nb))


@tables
def _up(topology: Topology) -> Table:
    def row(b, p):
        if b in topology.gyrostats:
            return Row(Step(gyrostats.torque), (Ref("spin", b), Ref("force", b)), v_of(topology, b, "tau"))
        reads = *place_of(topology, b), Ref("force", b)
        root = p == WORLD
        return Row(
            Step(_joint_force, (topology.kinds[b], root)),
            reads,
            (v_of(topology, b, "tau"), None if root else Ref("force", p)),
        )

    return Table(up(topology, row), {"tau": topology.nv, "force": topology.nb})


def body_forces(motion: Kinematics, velocity=None, acceleration=None, gravity=None, external=None):
    """Return the forces that move the bodies, (moment, force) as (nb, 3, lanes) each. An argument of None is zero.
    `external` (nb, 6, lanes) has the force first."""
    fields = {"velocity": velocity, "acceleration": acceleration, "gravity": gravity, "external": external}
    given = {name: x for name, x in fields.items() if x is not None}
    table = _bodies(motion.model.topology, frozenset(given))
    spin = {} if motion.spin is None else {"spin": motion.spin}
    return swept(table, given | spin | {"inertia": motion.inertia})["force"]


def joint_forces(motion: Kinematics, force) -> Array:
    """Return the generalised forces (nv, lanes) in balance with forces (moment, force) on the bodies: the sweep up."""
    return gathered(motion, tree_forces(motion, force))


def tree_forces(motion: Kinematics, force) -> Array:
    """Return the generalised forces in balance with forces (moment, force) on the bodies, at all joints of the tree."""
    return swept(_up(motion.model.topology), motion.driven | {"force": force})["tau"]


def rnea(motion: Kinematics, external=None) -> Array:
    """Return the forces (nv, lanes) of rigid bodies with a given motion, without armature and passive forces."""
    return joint_forces(motion, body_forces(motion, motion.velocity, motion.acceleration, motion.gravity, external))


def rotors(motion: Kinematics, a=None) -> Array:
    """Return the forces (nv, lanes) that armature requires at accelerations a (nv, lanes), None for zero, including
    what clusters add to these accelerations at the velocity of the motion."""
    armature = motion.model.joints.armature
    force = jnp.zeros((motion.model.nv, 1), motion.q.dtype) if a is None else reflected(motion, armature, a)
    return force if motion.bias is None else force + gathered(motion, armature * motion.bias)


def stiffened(joints, dt: Array) -> Array:
    """Return the inertia of the joints, with what their springs and dampers add to it at the end of a step."""
    return joints.armature + dt * (joints.damping + dt * joints.stiffness)


def passive(model: Model, q, v):
    """Return the forces (velocities of the tree, lanes) of dampers and springs: −damping v − stiffness (q ⊖ rest)."""
    stretch = differenced(model.topology, model.joints.rest, q)
    return -model.joints.damping * v - model.joints.stiffness * stretch


def passive_at(motion: Kinematics):
    """Return the forces (nv, lanes) of dampers and springs."""
    return gathered(motion, passive(motion.model, motion.q, motion.rates))
