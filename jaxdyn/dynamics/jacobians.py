"""Jacobians of constraints."""

from jaxtyping import Array

from ..kinematics.embedding import jacobian_at, kinematics
from ..kinematics.rows import evaluate
from ..model.model import Model


def constraint_jacobian(model: Model, constraints, q) -> Array:
    """Return J (m, nv, lanes)."""
    motion = kinematics(model, q)
    return jacobian_at(motion, evaluate(constraints, motion))
