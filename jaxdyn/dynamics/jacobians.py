"""Jacobians of constraints."""

from jaxtyping import Array

from ..kinematics.forward import kinematics
from ..kinematics.rows import evaluate
from ..model.model import Model
from .crba import jacobian_at


def constraint_jacobian(model: Model, constraints, q) -> Array:
    """Return J (m, nv, lanes)."""
    motion = kinematics(model, q)
    return jacobian_at(motion, evaluate(constraints, motion))
