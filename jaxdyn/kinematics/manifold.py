"""The configuration manifold: moving along it, differences on it, and derivatives of functions of q."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ..engine.lanes import laned
from ..model.checks import check_model, check_vector, common_dtype
from ..model.links import join_v, split, split_q, split_v
from ..model.model import Model
from ..tree.plan import levels
from ..tree.topology import Topology


def join_q(topology: Topology, parts, groups) -> Array:
    """Rows of q by group to (nq, lanes)."""
    rows: list = [None] * topology.nb
    for group, x in zip(groups, parts, strict=True):
        for k, b in enumerate(group.nodes):
            rows[b] = x[:, k]
    return jnp.concatenate(rows)


def integrated(topology: Topology, q, dv):
    """q moved by the tangent vector dv, lanes-last."""
    groups = levels(topology)
    parts = zip(groups, split_q(topology, q, groups), split_v(topology, dv, groups), strict=True)
    return join_q(topology, [g.kind.integrate(x, d) for g, x, d in parts], groups)


def differenced(topology: Topology, q0, q1):
    groups = levels(topology)
    parts = zip(groups, split_q(topology, q0, groups), split_q(topology, q1, groups), strict=True)
    return join_v(topology, [g.kind.difference(a, b) for g, a, b in parts], groups)


def normalized(topology: Topology, q):
    """q with every quaternion of unit length."""
    groups = levels(topology)
    parts = zip(groups, split(q, topology.q_starts, groups, "nq"), strict=True)
    return join_q(topology, [g.kind.normalize(x) for g, x in parts], groups)


def integrate(model: Model, q: ArrayLike, v: ArrayLike, dt: ArrayLike = 1.0) -> Float[Array, " nq"]:
    """The configuration (nq,) that q (nq,) reaches when it moves at the constant velocity v (nv,) for a time dt ().

    Free joints move along the exponential of SE(3), balls along that of SO(3); all others add ``dt * v``.
    Raises `ValueError` for wrong shapes.
    """
    check_model("integrate", model)
    q = check_vector("integrate", "q", q, (model.nq,))
    v = check_vector("integrate", "v", v, (model.nv,))
    q, v = common_dtype(q, v)
    return laned(integrated, model.topology)(q, v * jnp.asarray(dt, v.dtype))


def difference(model: Model, q0: ArrayLike, q1: ArrayLike) -> Float[Array, " nv"]:
    """The velocity (nv,) that takes q0 (nq,) to q1 (nq,) in a unit of time: the inverse of `integrate`."""
    check_model("difference", model)
    q0 = check_vector("difference", "q0", q0, (model.nq,))
    q1 = check_vector("difference", "q1", q1, (model.nq,))
    return laned(differenced, model.topology)(*common_dtype(q0, q1))


def tangent(f: Callable[[Array], Any], model: Model, q: ArrayLike) -> Any:
    """Derivative of ``f(q)`` along the manifold at q (nq,): each output array (...,) becomes (..., nv).

    Column k is the rate of change of f when q moves with the k-th unit velocity.
    """
    check_model("tangent", model)
    q = check_vector("tangent", "q", q, (model.nq,))
    return jax.jacfwd(lambda d: f(integrate(model, q, d)))(jnp.zeros(model.nv, q.dtype))
