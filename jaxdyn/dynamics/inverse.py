"""The public functions of tree dynamics: inverse dynamics, mass matrix, forces."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..engine.lanes import laned
from ..kinematics.embedding import kinematics
from ..model.checks import at_q, at_state, check_external, check_model, check_state, check_vector, common_dtype
from ..model.model import Model
from ..model.state import State
from ..spatial.numbers import ArrayLike
from . import crba
from .rnea import passive_at, rnea, rotors


def _balance(model, q, v, a, external):
    motion = kinematics(model, q, v, a)
    return rnea(motion, external) + rotors(motion, a) - passive_at(motion)


def _bias(model, q, v):
    motion = kinematics(model, q, v, jnp.zeros_like(v))
    return rnea(motion) + rotors(motion)


def _passive(model, q, v):
    return passive_at(kinematics(model, q, v))


def inverse_dynamics(
    model: Model, state: State, acceleration: ArrayLike, *, external: ArrayLike | None = None
) -> Float[Array, " nv"]:
    """Return the generalised forces (nv,) for a joint acceleration (nv,): τ = M a + h − passive − external (RNEA).

    `external`: wrenches (nb, 6), force then torque, in body axes at the body's origin. Constraint forces are not
    included.

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    call = "inverse_dynamics"
    check_model(call, model)
    state = check_state(call, model, state)
    a = check_vector(call, "acceleration", acceleration, (model.nv,))
    external = check_external(call, model, external)
    model, q, v, a, external = common_dtype(model, state.q, state.v, given=(a, external))
    return laned(_balance)(model, q, v, a, external)


def mass_matrix(model: Model, q: ArrayLike) -> Float[Array, "nv nv"]:
    """Return M (nv, nv) at q (nq,) with armature, by the composite-rigid-body algorithm.

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    return laned(crba.mass_matrix)(*at_q("mass_matrix", model, q))


def bias_forces(model: Model, state: State) -> Float[Array, " nv"]:
    """Return h (nv,): Coriolis, centrifugal and gravity forces.

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    model, q, v = at_state("bias_forces", model, state)
    return laned(_bias)(model, q, v)


def gravity_forces(model: Model, q: ArrayLike) -> Float[Array, " nv"]:
    """Return the gravity part (nv,) of the bias at q (nq,): the gradient of the bodies' potential energy.

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    check_model("gravity_forces", model)
    q = check_vector("gravity_forces", "q", q, (model.nq,))
    return bias_forces(model, State(q, jnp.zeros(model.nv, q.dtype)))


def passive_forces(model: Model, state: State) -> Float[Array, " nv"]:
    """Return the forces (nv,) of dampers and springs: −damping v − stiffness (q ⊖ rest).

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    return laned(_passive)(*at_state("passive_forces", model, state))
