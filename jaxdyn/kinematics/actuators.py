"""`actuator_forces`: what actuators exert on the joints at a command."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.checks import check_model, check_state, check_vector, common_dtype
from ..model.model import Model
from ..model.state import State
from ..spatial.numbers import ArrayLike
from .embed import velocities


def actuator_forces(model: Model, state: State, command: ArrayLike) -> Float[Array, " _"]:
    """Return the generalised forces that actuators exert at a command (nu,): ``model.actuation`` times the forces of
    `model.actuators`, within the joints' `effort`.

    Without servos and bounds that is ``model.actuation @ command``. Give it to `simulate` as a policy,
    ``lambda state, t: jd.actuator_forces(model, state, command)``. Such forces stay constant over a step, so that the
    gains of servos must suit dt; the page "Environments for learning" has a way for gains that do not.

    The forces are those of the independent joints (nv,), or of all joints of the tree (n,) if actuators drive dependent
    joints of an embedded model.

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    check_model("actuator_forces", model)
    state = check_state("actuator_forces", model, state)
    command = check_vector("actuator_forces", "command", command, (model.nu,))
    model, q, v, command = common_dtype(model, state.q, state.v, command)
    gears, topology = model.actuation, model.topology
    whole = len(gears) > model.nv
    rows = np.arange(topology.nv) if whole else np.asarray(topology.independent, int)
    # coordinates of joints that have one; others, such as free joints, do not count towards lengths
    places = {topology.v_slice(b).start: topology.q_slice(b).start for b, k in enumerate(topology.kinds) if k.nq == 1}
    straight = np.array([r for r, at in enumerate(rows) if at in places], int)
    length = q[np.array([places[rows[r]] for r in straight], int)] @ gears[straight]
    rate = (velocities(model, q, v) if whole else v) @ gears
    effort = model.joints.effort[rows]
    return jnp.clip(gears @ model.actuators.force(command, length, rate), -effort, effort)
