"""Jacobians of constraints and frames, by wrench columns carried up the tree."""

import jax.numpy as jnp
from jaxtyping import Array

from ..kinematics import rows as rw
from ..kinematics.forward import sweep
from ..model.model import Model
from ..tree.ride import dense
from .crba import carry


def constraint_jacobian(model: Model, constraints, q) -> Array:
    """J (m, nv, lanes)."""
    fields, constants, coordinates = sweep(model, q)
    evaluated = rw.evaluate(model, constraints, q, fields)
    return jacobian_of(model, constraints, q, evaluated, fields, constants, coordinates)


def jacobian_of(model: Model, constraints, q, evaluated, fields, constants, coordinates) -> Array:
    """The same from rows that are evaluated already."""
    bundles = rw.bundles_of(model.topology, constraints)
    boarding, rows, total = [], [], 0
    for bundle, e in zip(bundles, evaluated, strict=True):
        total += bundle.layout.rows * len(bundle.members)
        for slot, (ang, lin) in zip(bundle.slots, e.rows.K, strict=True):
            width = jnp.broadcast_shapes(ang.shape, lin.shape)
            pair = tuple(jnp.moveaxis(jnp.broadcast_to(x, width), 0, 1).reshape(3, -1, width[-1]) for x in (ang, lin))
            boarding.append((slot * bundle.layout.rows, pair))
            rows += [(row,) for row in bundle.rows]
    visits = carry(model, constants, coordinates, fields, boarding)
    return dense(visits, rows, model.topology.v_starts, (total, model.nv), q.dtype)
