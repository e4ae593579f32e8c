"""Inertial forces from poses alone, for bodies whose points move along chords.

Between the poses T₀ at q₀ and T₁ at q₁ of a body its points y move by (T₀⁻¹ T₁ − 1) y, in body axes at T₀. The momenta
of the points along the chords from a pose to the next and to the one before,

    Σ m y ×, Σ m  of  (T₀⁻¹ T₁ − 1) y + (T₀⁻¹ T₋₁ − 1) y,

are dt² times the inertial forces, including velocity products. They derive from one discrete Lagrangian, so a step
built from them is symplectic and conserves momentum.

| symbol | name here | |
| --- | --- | --- |
| E, r | ``pose``, ``ahead`` | pose in the parent at q₀ and at q₁ |
| D, δ | ``moved`` | T₀⁻¹ T₁ − 1: E₀ᵀ (D_p E₁ + E₁ − E₀) and E₀ᵀ (D_p r₁ + δ_p + r₁ − r₀) |
| Σ | | second moment Σ m y yᵀ about the body's origin |

Joints compute E₁ − E₀ and r₁ − r₀ from their motion: the rounding of a difference of poses, divided by dt², would be
larger than the forces.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..kinematics.forward import Kinematics, prepared_of
from ..spatial.small import cross, mm, mtm, mtv, mv
from ..spatial.symmetric import diagonal, mm_symmetric, trace
from ..tree.sweep import down, each, of_parent, q_of, v_of
from ..tree.topology import Topology


class Displaced(NamedTuple):
    """The displacement of bodies from q₀ to another q: (D, δ), (nb, 3, 3, lanes) and (nb, 3, lanes); and their poses
    there, in the parent and in the world."""

    moved: Any
    pose: Any
    world: Any

    def there(self, at: Kinematics, q) -> Kinematics:
        """Return the bodies at their new poses, at rest."""
        return at._replace(q=q, pose=self.pose, world=self.world, velocity=None, acceleration=None)


def _displace(kind, prepared, q, dv, pose, world, above):
    """Return D and δ, and poses in parent and world, after a motion `dv` of the joint from q₀, which is `q`; `above`
    are D and δ of the parent, None for the world."""
    (E0, r0), (R0, p0) = pose, world
    turned, shifted = kind.change(prepared, q, dv)
    E1, r1 = E0 + turned, r0 + shifted
    if above is not None:
        D, delta = above
        turned, shifted = turned + mm(D, E1), shifted + delta + mv(D, r1)
    D, delta = mtm(E0, turned), mtv(E0, shifted)
    return (D, delta), (E1, r1), (R0 + mm(R0, D), p0 + mv(R0, delta))


def _force(inertia, one, other):
    """Return moment and force of two displacements."""
    mass, first, second = inertia
    D, delta = (x + y for x, y in zip(one, other, strict=True))
    B = mm_symmetric(D, diagonal(trace(second) / 2) - second)
    turning = jnp.stack([B[2, 1] - B[1, 2], B[0, 2] - B[2, 0], B[1, 0] - B[0, 1]])
    return turning + cross(first, delta), mass * delta + mv(D, first)


@tables
def _displacements(topology: Topology) -> Table:
    def row(b, p):
        reads = (
            Ref(prepared_of(topology, b), b),
            q_of(topology, b),
            v_of(topology, b, "dv"),
            Ref("pose", b),
            Ref("world", b),
            of_parent("moved", p),
        )
        writes = Ref("moved", b), Ref("ahead", b), Ref("there", b)
        return Row(Step(_displace, (topology.kinds[b],)), reads, writes)

    return Table(down(topology, row), dict.fromkeys(("moved", "ahead", "there"), topology.nb))


@tables
def _forces(topology: Topology) -> Table:
    row = lambda b: Row(Step(_force), (Ref("inertia", b), Ref("one", b), Ref("other", b)), Ref("force", b))  # noqa: E731
    return Table(each(topology, row), {"force": topology.nb})


def displacements(at: Kinematics, dv) -> Displaced:
    """Return the displacements from the poses of `at`, at q₀, to those at q₀ ⊕ dv, with dv (nv, lanes)."""
    given = at.prepared | {"q": at.q, "dv": dv, "pose": at.pose, "world": at.world}
    found = swept(_displacements(at.model.topology), given)
    return Displaced(found["moved"], found["ahead"], found["there"])


def chord_forces(at: Kinematics, one: Displaced, other: Displaced):
    """Return dt² times the inertial forces (moment, force), (nb, 3, lanes) each, of displacements forwards and
    backwards."""
    given = {"inertia": at.inertia, "one": one.moved, "other": other.moved}
    return swept(_forces(at.model.topology), given)["force"]
