"""Poses, velocities and accelerations of all bodies, in one sweep from the roots to the leaves.

Twists are in body axes at the body's origin. Accelerations are the component-wise derivatives of twists (spatial
accelerations). With i a body and p its parent (Featherstone, Rigid Body Dynamics Algorithms, table 5.1):

| symbol | name here | recursion |
| --- | --- | --- |
| ᵖE_i, ᵖr_i | ``E, r`` | pose of i in p |
| R_i, p_i | ``R, p`` | R_p E, p_p + R_p r |
| ω_i, v_i | ``w, l`` | Eᵀω_p + ω_J, Eᵀ(v_p + ω_p × r) + v_J, with (ω_J, v_J) = S q̇ |
| c_i | ``bias`` | (ω, v)_i × (ω_J, v_J) + Ṡ q̇ |
| α_i, a_i | ``aw, al`` | the same recursion of accelerations plus S q̈ + c |
| g_i | ``g`` | gravity in body axes: Eᵀ g_p; with `falling` none, but the world accelerates by −g |
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..model.model import Model
from ..spatial import symmetric as sy
from ..spatial.small import composed, cross, dot, mtv, mv
from ..tree import gyrostats
from ..tree.columns import from_parent, motion, plus, rigid_to_parent
from ..tree.sweep import above, down, each, of_parent, place_of, q_of, v_of
from ..tree.topology import Topology


class Kinematics(NamedTuple):
    """The result of the sweep, in arrays (nb, ..., lanes).

    **Fields:** `inertia` (mass, first moment, six numbers of the inertia about the body's origin); `pose` (E, r) in the
    parent; `world` (R, p); `gravity` (None if accelerations include it); `velocity` and `acceleration` (angular,
    linear) or None; `prepared`, the constant parts of the poses, by field. With clusters (see `embedding.py`): `ratios`
    of their velocities, `rates`, the velocities of the tree, `bias` g (velocities of the tree, lanes), and `gap`, the
    position errors of loops. `spin` are axes and inertias of gyrostats: their motions are relative to the bodies that
    carry them, and they have no poses.
    """

    model: Model
    q: Array
    inertia: Any
    pose: Any
    world: Any
    gravity: Array | None = None
    velocity: Any = None
    acceleration: Any = None
    prepared: Any = None
    ratios: Any = None
    rates: Array | None = None
    bias: Array | None = None
    gap: Array | None = None
    spin: Any = None

    @property
    def joints(self) -> dict[str, Any]:
        """The fields of joints that recursions read, see `place_of`."""
        return {"joint": self.model.joints.parameters, "q": self.q, "pose": self.pose}

    @property
    def driven(self) -> dict[str, Any]:
        """The fields of `joints`, with the ratios of clusters and the axes and inertias of gyrostats if there are
        any."""
        maps = {} if self.ratios is None else {"G": self.ratios.G}
        return self.joints | maps | ({} if self.spin is None else {"spin": self.spin})


def _constants(kind, body, par):
    """Return the inertia about the body's origin, and the constant part of the pose in the parent."""
    *_, R0, p0 = body
    return _own(body), kind.prepare(par, R0, p0)


def _own(body):
    """Return the inertia of a body about its origin."""
    mass, center, rotational, *_ = body
    # the mean of both triangles, so that derivatives are symmetric
    second = sy.with_transpose(rotational) / 2 - mass * sy.skew_skew(center, center)
    return mass, mass * center, second


def _gyrostat(body, par):
    """Return the inertia of a gyrostat about its carrier's origin, and its axis in the carrier with the inertia about
    it."""
    inertia = _own(body)
    *_, R0, p0 = body
    spin = mv(R0, par.axis), dot(par.axis, sy.times(inertia[2], par.axis))
    return rigid_to_parent((R0, p0), inertia), spin


def _bias(kind, par, q, v, own, w, l):
    """Return c_i, or None if it is zero for all states."""
    wj, lj = own
    bias = (None, None) if wj is None else (cross(w, wj), cross(l, wj))
    if lj is not None:
        bias = plus(bias, (None, cross(w, lj)))
    change = kind.bias(par, q, v)
    return bias if change is None else plus(bias, change)


def _filled(pair, like):
    return tuple(jnp.zeros_like(like) if x is None else x for x in pair)


def _move(kind, biased, prepared, pose, par, q, v, a, g, world, velocity, acceleration):
    """Return pose, pose in the world, gravity, velocity and acceleration of a body. They follow from those of its
    parent (None: the world), and from its pose in the parent if that is known."""
    E, r = kind.place(prepared, q) if pose is None else pose
    R, p = (E, r) if world is None else composed(world, (E, r))
    columns = kind.columns(par, q)
    still = (None, None)
    twist = spin = None
    if v is not None:
        own = motion(columns, v)
        twist = _filled(plus(still if velocity is None else from_parent((E, r), velocity), own), r)
    if a is not None or biased:
        spin = still if acceleration is None else from_parent((E, r), acceleration)
        if a is not None:
            spin = plus(spin, motion(columns, a))
        if v is not None:
            spin = plus(spin, _bias(kind, par, q, v, own, *twist))
        spin = _filled(spin, r)
    return (E, r), (R, p), None if g is None else mtv(E, g), twist, spin


@tables
def _constants_table(topology: Topology) -> Table:
    def row(b):
        kind = topology.kinds[b]
        if b in topology.gyrostats:
            to = Ref("inertia", topology.parents[b]), Ref("spin", b)
            return Row(Step(_gyrostat), (Ref("body", b), Ref("joint", b)), to)
        return Row(
            Step(_constants, (kind,)),
            (Ref("body", b), Ref("joint", b)),
            (Ref("inertia", b), Ref(prepared_of(topology, b), b)),
        )

    prepared = {prepared_of(topology, b): topology.nb for b in range(topology.nb)}
    return Table(each(topology, row), {"inertia": topology.nb, "spin": topology.nb} | prepared)


def prepared_of(topology: Topology, body: int) -> str:
    """Return the name of the field that holds the results of `Kind.prepare` for the kind of the body's joint. Each kind
    has a field, because the structure of these values depends on the kind."""
    return f"prepared {topology.kinds.index(topology.kinds[body])}"


@tables
def _table(topology: Topology, moving: bool, accelerated: bool, biased: bool, placed: bool, falling: bool) -> Table:
    spun = accelerated or biased or falling

    def row(b, p):
        kind = topology.kinds[b]
        if b in topology.gyrostats:
            reads = tuple(
                v_of(topology, b, name) if there else None for name, there in (("v", moving), ("a", accelerated))
            )
            writes = tuple(
                None if x is None else Ref(to, b) for x, to in zip(reads, ("velocity", "acceleration"), strict=True)
            )
            return Row(Step(gyrostats.motions), (Ref("spin", b), *reads), writes)
        reads = (
            None if placed else Ref(prepared_of(topology, b), b),
            Ref("placed", b) if placed else None,
            Ref("joint", b),
            q_of(topology, b),
            v_of(topology, b) if moving else None,
            v_of(topology, b, "a") if accelerated else None,
            None if falling else above("gravity", p),
            of_parent("world", p),
            of_parent("velocity", p) if moving else None,
            above("acceleration", p) if falling else (of_parent("acceleration", p) if spun else None),
        )
        writes = (
            Ref("pose", b),
            Ref("world", b),
            None if falling else Ref("gravity", b),
            Ref("velocity", b) if moving else None,
            Ref("acceleration", b) if spun else None,
        )
        return Row(Step(_move, (kind, biased or falling)), reads, writes)

    sizes = dict.fromkeys(("pose", "world", "gravity", "velocity", "acceleration"), topology.nb)
    return Table(down(topology, row), sizes)


def tree_kinematics(
    model: Model,
    q: Array,
    v: Array | None = None,
    a: Array | None = None,
    *,
    biased: bool = False,
    placed: Any = None,
    falling: bool = False,
) -> Kinematics:
    """Return the poses at q (nq, lanes), the velocities if velocities of the tree v (nv, lanes) are given, and the
    accelerations if a (nv, lanes) is given.

    If v is given, accelerations include the velocity products. With `biased`, accelerations are returned without a,
    too. `placed` are the poses of bodies in their parents, if they are known. With `falling`, accelerations are a − g,
    as if the world accelerated upwards, and there is no gravity.
    """
    topology, bodies = model.topology, model.bodies
    placement = bodies.placement
    body = bodies.mass, bodies.center_of_mass, bodies.rotational, placement.rotation, placement.translation
    joint = model.joints.parameters
    constants = swept(_constants_table(topology), {"body": body, "joint": joint})
    inertia, spin = constants.pop("inertia"), constants.pop("spin", None)
    given = constants | ({} if spin is None else {"spin": spin}) | {"joint": joint, "q": q}
    gravity = model.gravity[None]
    given |= {"root acceleration": (jnp.zeros_like(gravity), -gravity)} if falling else {"root gravity": gravity}
    given |= {name: x for name, x in (("v", v), ("a", a)) if x is not None}
    given |= {} if placed is None else {"placed": placed}
    found = swept(_table(topology, v is not None, a is not None, biased, placed is not None, falling), given)
    return Kinematics(model, q, inertia, **found, prepared=constants, rates=v, spin=spin)


def _accelerate(kind, par, q, pose, x, above):
    """Return the acceleration of a body of a robot at rest, from that of its parent and the joint's acceleration x."""
    moved = (None, None) if above is None else from_parent(pose, above)
    return _filled(plus(moved, motion(kind.columns(par, q), x)), pose[1])


@tables
def _accelerations(topology: Topology) -> Table:
    def row(b, p):
        if b in topology.gyrostats:
            return Row(Step(gyrostats.motion), (Ref("spin", b), v_of(topology, b, "x")), Ref("a", b))
        reads = *place_of(topology, b), v_of(topology, b, "x"), of_parent("a", p)
        return Row(Step(_accelerate, (topology.kinds[b],)), reads, Ref("a", b))

    return Table(down(topology, row), {"a": topology.nb})


def accelerations(at: Kinematics, x: Array):
    """Return the accelerations (angular, linear) of all bodies, (nb, 3, lanes), for joint accelerations x (nv, lanes)
    of a robot at rest."""
    return swept(_accelerations(at.model.topology), at.driven | {"x": x})["a"]
