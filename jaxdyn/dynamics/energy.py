"""Energies, centre of mass and centroidal momentum."""

import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ..engine.lanes import laned
from ..kinematics.forward import sweep
from ..kinematics.manifold import differenced
from ..model.checks import check_model, check_state, check_vector, common_dtype
from ..model.links import inertia_times
from ..model.model import Model
from ..model.state import State
from ..spatial.small import cross, dot, mv
from ..tree.plan import levels
from ..tree.sweep import each


def _weighted_center(model, q):
    fields, constants, _ = sweep(model, q)

    def moment(group, own, link):
        return (link.mass * own["p"] + mv(own["R"], link.first)).sum(-2)

    return sum(each(levels(model.topology), moment, fields, constants))


def _center(model, q):
    return _weighted_center(model, q) / model.bodies.mass.sum(0)


def _potential(model, q):
    stretch = differenced(model.topology, model.joints.rest, q)
    springs = (model.joints.stiffness * stretch * stretch).sum(0) / 2
    return springs - dot(model.gravity, _weighted_center(model, q))


def _kinetic(model, q, v):
    fields, constants, _ = sweep(model, q, v)

    def energy(group, own, link):
        n, f = inertia_times(link.mass, link.first, link.second, own["w"], own["l"])
        return (dot(own["w"], n) + dot(own["l"], f)).sum(0) / 2

    return sum(each(levels(model.topology), energy, fields, constants)) + (model.joints.armature * v * v).sum(0) / 2


def _momentum(model, q, v):
    fields, constants, _ = sweep(model, q, v)

    def momentum(group, own, link):
        n, f = inertia_times(link.mass, link.first, link.second, own["w"], own["l"])
        f = mv(own["R"], f)
        n = mv(own["R"], n) + cross(own["p"], f)
        return n.sum(-2), f.sum(-2)

    parts = each(levels(model.topology), momentum, fields, constants)
    n, f = sum(p[0] for p in parts), sum(p[1] for p in parts)
    return jnp.concatenate([f, n - cross(_center(model, q), f)])


def _at_q(call: str, model: Model, q: ArrayLike):
    check_model(call, model)
    return common_dtype(model, check_vector(call, "q", q, (model.nq,)))


def _at_state(call: str, model: Model, state: State):
    check_model(call, model)
    state = check_state(call, model, state)
    return common_dtype(model, state.q, state.v)


def center_of_mass(model: Model, q: ArrayLike) -> Float[Array, "3"]:
    """Position (3,) of the centre of mass in the world at q (nq,), in metres."""
    return laned(_center)(*_at_q("center_of_mass", model, q))


def potential_energy(model: Model, q: ArrayLike) -> Float[Array, ""]:
    """Energy () at q (nq,) of gravity (zero with the centre of mass at the world's origin) and of springs, in joules.

    A spring stores ½ stiffness (q ⊖ rest)²; on joints with rotations of three freedoms this is the potential of
    `passive_forces` when the stiffness is the same about all axes.
    """
    return laned(_potential)(*_at_q("potential_energy", model, q))


def kinetic_energy(model: Model, state: State) -> Float[Array, ""]:
    """½ vᵀ M v (), armature included, in joules."""
    return laned(_kinetic)(*_at_state("kinetic_energy", model, state))


def centroidal_momentum(model: Model, state: State) -> Float[Array, "6"]:
    """Momentum (6,) about the centre of mass in the world's axes: linear (kg m/s), angular (kg m²/s)."""
    return laned(_momentum)(*_at_state("centroidal_momentum", model, state))
