"""`loop_forces`: the forces that embedded loops and gears transmit."""

from collections.abc import Sequence

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..engine.lanes import laned
from ..kinematics import ratios
from ..kinematics.embed import checked_forces
from ..kinematics.embedding import Embedded, kinematics, spread
from ..kinematics.rows import evaluate
from ..model.checks import (
    check_constraints,
    check_external,
    check_model,
    check_state,
    check_vector,
    common_dtype,
    rows_of,
)
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.state import State
from ..spatial.numbers import ArrayLike
from .rnea import body_forces, passive, tree_forces


def _forces(model, constraints, q, v, a, tau, external, lam):
    topology, motion = model.topology, kinematics(model, q, v, a)
    force = body_forces(motion, motion.velocity, motion.acceleration, motion.gravity, external)
    if lam is not None:  # coefficients of rows need no velocity
        force = evaluate(constraints, motion._replace(velocity=None)).forces(-lam, force)
    rates = spread(motion, a) if motion.bias is None else spread(motion, a) + motion.bias
    left = tree_forces(motion, force) + model.joints.armature * rates - passive(model, q, motion.rates)
    if tau.shape[0] == topology.nv:
        left = left - tau
    loops = Embedded(model, q)
    found = ratios.balanced(loops.layout.cells, topology, motion.ratios, left)
    start, parts = 0, {}
    for c in (c for cluster in topology.clusters for c in cluster.constraints):
        rows = model.embedded[c].layout(topology).rows
        parts[c] = found[start : start + rows]
        start += rows
    return jnp.concatenate([parts[c] for c in sorted(parts)])


def _checked_rows(call: str, model: Model, constraints, multipliers):
    """Return the constraints that act besides embedded ones, and their forces: () and None if none does."""
    rows = check_constraints(call, model, constraints)
    m = rows_of(model, rows)
    if multipliers is None and constraints:
        raise ValueError(f"`{call}`: `constraints` come without `multipliers` ({m},), their forces.")
    if multipliers is None:
        return (), None
    if m == 0 and constraints is None and jnp.shape(multipliers) != (0,):
        raise ValueError(
            f"`{call}`: `multipliers` has shape {jnp.shape(multipliers)}, but {model.name!r} has no constraints that "
            "are not embedded. Give the `constraints` that they belong to."
        )
    multipliers = check_vector(call, "multipliers", multipliers, (m,))
    return (rows, multipliers) if m else ((), None)


def loop_forces(
    embedded: Model,
    state: State,
    acceleration: ArrayLike,
    tau: ArrayLike,
    *,
    external: ArrayLike | None = None,
    constraints: Sequence[Constraint] | None = None,
    multipliers: ArrayLike | None = None,
) -> Float[Array, " m"]:
    """Return the multipliers λ (m,) of the constraints `embedded.embedded`, one after the other: the minimum-norm
    ones with M q̈ + h = τ + passive + external + J_cᵀ λ_c + Jᵀλ at all joints of the tree (constraint_embedding, Eqs.
    21 to 33).

    **Arguments:**

    - `state` and `acceleration` (nv,) of the embedded model.
    - `tau`: the forces that cause it, (nv,), or (n,) at all joints of the tree; `external` (nb, 6) as in
      `forward_dynamics`.
    - `constraints`: those that are not embedded, None for the model's own `embedded.constraints`; `multipliers` λ_c
      (m_c,), N or N m, their forces, as `forward_dynamics` returns them.

    Without `multipliers` no force of a constraint that is not embedded acts, not even of the model's own: if the
    acceleration is one that feet, cut loops or a brake cause, give theirs, or the result is wrong.

    **Raises** `ValueError` for wrong shapes, unknown bodies and joints, `constraints` without `multipliers`, and for a
    model without embedded constraints; `TypeError` for other types.
    """
    call = "loop_forces"
    check_model(call, embedded, "embedded")
    if not embedded.embedded:
        raise ValueError(f"`{call}`: {embedded.name!r} has no embedded constraints: `embed` makes them.")
    state = check_state(call, embedded, state)
    a = check_vector(call, "acceleration", acceleration, (embedded.nv,))
    tau = checked_forces(call, embedded, tau)
    external = check_external(call, embedded, external)
    constraints, multipliers = _checked_rows(call, embedded, constraints, multipliers)
    given = constraints, a, tau, external, multipliers
    model, q, v, constraints, *given = common_dtype(embedded, state.q, state.v, given=given)
    return laned(_forces)(model, constraints, q, v, *given)
