"""Energies, centre of mass and centroidal momentum."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..engine.kept import tables
from ..engine.lanes import laned
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..kinematics.embedding import kinematics
from ..kinematics.forward import Kinematics, tree_kinematics
from ..kinematics.manifold import differenced
from ..model.checks import at_q, at_state
from ..model.model import Model
from ..model.state import State
from ..spatial.numbers import ArrayLike
from ..spatial.small import cross, dot, mv
from ..tree.columns import inertia_times
from ..tree.sweep import each
from ..tree.topology import Topology


def _moment(inertia, world):
    """Return the body's first moment about the world's origin."""
    mass, first, _ = inertia
    return mass * world[1] + mv(world[0], first)


def _twice_energy(inertia, velocity):
    n, f = inertia_times(inertia, velocity)
    return dot(velocity[0], n) + dot(velocity[1], f)


def _body_momentum(inertia, world, velocity):
    """Return the body's momentum (angular, linear) about the world's origin."""
    n, f = inertia_times(inertia, velocity)
    f = mv(world[0], f)
    return mv(world[0], n) + cross(world[1], f), f


@tables
def _sum(topology: Topology, fn, names: tuple[str, ...]) -> Table:
    """Return the table that adds up fn over all bodies, in one cell."""
    row = lambda b: Row(Step(fn), tuple(Ref(name, b) for name in names), Ref("sum", 0))  # noqa: E731
    return Table(each(topology, row), {"sum": 1})


def _total(fn, motion: Kinematics, *names: str):
    given = {name: getattr(motion, name) for name in names}
    found = swept(_sum(motion.model.topology, fn, names), given)["sum"]
    return jax.tree.map(lambda x: x[0], found)


def _center_at(motion: Kinematics):
    return _total(_moment, motion, "inertia", "world") / motion.model.bodies.mass.sum(0)


def _center(model, q):
    return _center_at(tree_kinematics(model, q))


def _potential(model, q):
    stretch = differenced(model.topology, model.joints.rest, q)
    springs = (model.joints.stiffness * stretch * stretch).sum(0) / 2
    return springs - dot(model.gravity, _total(_moment, tree_kinematics(model, q), "inertia", "world"))


def _kinetic(model, q, v):
    motion = kinematics(model, q, v)
    bodies = _total(_twice_energy, motion, "inertia", "velocity")
    return (bodies + (model.joints.armature * motion.rates**2).sum(0)) / 2


def _momentum(model, q, v):
    motion = kinematics(model, q, v)
    n, f = _total(_body_momentum, motion, "inertia", "world", "velocity")
    return jnp.concatenate([f, n - cross(_center_at(motion), f)])


def center_of_mass(model: Model, q: ArrayLike) -> Float[Array, "3"]:
    """Return the position (3,) of the centre of mass of all moving bodies in the world at q (nq,), in metres.

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    return laned(_center)(*at_q("center_of_mass", model, q))


def potential_energy(model: Model, q: ArrayLike) -> Float[Array, ""]:
    """Return the energy () at q (nq,) of gravity (zero with the centre of mass at the world's origin) and of springs,
    in joules.

    A spring stores ½ stiffness (q ⊖ rest)². For `Spherical` joints this is the potential of `passive_forces` if the
    stiffness is the same about all axes. A spring of a `Free` joint has no potential: it may gain or lose energy where
    it is both stretched and twisted.

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    return laned(_potential)(*at_q("potential_energy", model, q))


def kinetic_energy(model: Model, state: State) -> Float[Array, ""]:
    """Return ½ vᵀ M v (), armature included, in joules.

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    return laned(_kinetic)(*at_state("kinetic_energy", model, state))


def centroidal_momentum(model: Model, state: State) -> Float[Array, "6"]:
    """Return the momentum (6,) about the centre of mass in the world's axes: linear (kg m/s), angular (kg m²/s).

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    return laned(_momentum)(*at_state("centroidal_momentum", model, state))
