"""`loop_forces`: the forces that embedded loops and gears transmit."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from ..engine.lanes import laned
from ..kinematics import ratios
from ..kinematics.embed import checked_forces
from ..kinematics.embedding import Embedded, kinematics, spread
from ..model.checks import check_model, check_state, check_vector, common_dtype
from ..model.model import Model
from ..model.state import State
from ..spatial.numbers import ArrayLike
from .rnea import body_forces, passive, tree_forces


def _forces(model, q, v, a, tau, external):
    topology, motion = model.topology, kinematics(model, q, v, a)
    force = body_forces(motion, motion.velocity, motion.acceleration, motion.gravity, external)
    rates = spread(motion, a) if motion.bias is None else spread(motion, a) + motion.bias
    left = tree_forces(motion, force) + model.joints.armature * rates - passive(model, q, motion.rates)
    if tau.shape[0] == topology.nv:
        left = left - tau
    loops = Embedded(model, q)
    found = ratios.balanced(loops.frame.cells, topology, motion.ratios, left)
    start, parts = 0, {}
    for c in (c for cluster in topology.clusters for c in cluster.constraints):
        rows = model.embedded[c].layout(topology).rows
        parts[c] = found[start : start + rows]
        start += rows
    return jnp.concatenate([parts[c] for c in sorted(parts)])


def loop_forces(
    embedded: Model,
    state: State,
    acceleration: ArrayLike,
    tau: ArrayLike,
    *,
    external: ArrayLike | None = None,
) -> Float[Array, " m"]:
    """Return the multipliers λ (m,) of the constraints `embedded.embedded`, one after the other: the minimum-norm
    ones with M q̈ + h = τ + passive + external + Jᵀλ at all joints of the tree (constraint_embedding, Eqs. 21 to 33).

    **Arguments:** `state` and `acceleration` (nv,) of the embedded model; `tau`, the forces that cause it, (nv,), or
    (n,) at all joints of the tree; `external` (nb, 6) as in `forward_dynamics`.

    **Raises** `ValueError` for wrong shapes, and for a model without embedded constraints.
    """
    call = "loop_forces"
    check_model(call, embedded, "embedded")
    if not embedded.embedded:
        raise ValueError(f"`{call}`: {embedded.name!r} has no embedded constraints: `embed` makes them.")
    state = check_state(call, embedded, state)
    a = check_vector(call, "acceleration", acceleration, (embedded.nv,))
    tau = checked_forces(call, embedded, tau)
    if external is not None:
        external = check_vector(call, "external", external, (embedded.nb, 6))
    return laned(_forces)(*common_dtype(embedded, state.q, state.v, a, tau, external))
