"""What actuators exert on the joints at a command, and their laws as springs and dampers of the joints."""

from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.checks import check_model, check_state, check_vector, common_dtype
from ..model.model import Model
from ..model.state import State
from ..spatial.numbers import ArrayLike
from .embed import velocities


class Acting(NamedTuple):
    """What actuators do at a state: the `forces` (k,) on the joints, and the `stiffness` (k,) and `damping` (k,) that
    they give to them. The k velocities, `rows` of the tree's, are the independent ones, or all."""

    rows: np.ndarray
    forces: Array
    stiffness: Array
    damping: Array


def actuator_forces(model: Model, state: State, command: ArrayLike) -> Float[Array, " _"]:
    """Return the generalised forces that actuators exert at a command (nu,): ``model.actuation`` times the forces of
    `model.actuators`, within the joints' `effort`.

    Without servos and bounds that is ``model.actuation @ command``. To move under commands, give `jaxdyn.Commands` to
    `step` and `simulate`: then the forces of servos follow the joints within a step, and no gain is too high for dt.

    The forces are those of the independent joints (nv,), or of all joints of the tree (n,) if actuators drive dependent
    joints of an embedded model.

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    check_model("actuator_forces", model)
    state = check_state("actuator_forces", model, state)
    command = check_vector("actuator_forces", "command", command, (model.nu,))
    model, q, v, command = common_dtype(model, state.q, state.v, command)
    return _acting(model, q, _rates(model, q, v), command).forces


def _rates(model: Model, q, v) -> Array:
    """Return the velocities of the joints that may have actuators."""
    return velocities(model, q, v) if len(model.actuation) > model.nv else v


def _coordinates(model: Model, rows) -> tuple[np.ndarray, np.ndarray]:
    """Return which of the rows belong to joints with one coordinate, and the places of those coordinates in q. Others,
    such as free joints, do not count towards lengths."""
    topology = model.topology
    places = {topology.v_slice(b).start: topology.q_slice(b).start for b, k in enumerate(topology.kinds) if k.nq == 1}
    straight = np.array([r for r, at in enumerate(rows) if at in places], int)
    return straight, np.array([places[rows[r]] for r in straight], int)


def _acting(model: Model, q, rates, command) -> Acting:
    gears, topology, laws = model.actuation, model.topology, model.actuators
    rows = np.arange(topology.nv) if len(gears) > model.nv else np.asarray(topology.independent, int)
    straight, places = _coordinates(model, rows)
    length, rate = jnp.stack([jnp.zeros_like(rates).at[straight].set(q[places]), rates]) @ gears
    free, held = laws.forces(command, length, rate)
    forces, effort = gears @ held, model.joints.effort[rows]
    # a diagonal matrix that is at least gears law gears.T, which couples the joints of one actuator (Gershgorin)
    shared = jnp.abs(gears) * jnp.abs(gears).sum(0, keepdims=True)
    given = jnp.where((free == held)[None], jnp.stack([laws.stiffness, laws.damping]), 0) @ shared.T
    stiffness, damping = jnp.where((jnp.abs(forces) <= effort)[None], given, 0)
    return Acting(rows, jnp.clip(forces, -effort, effort), stiffness, damping)


def sprung(model: Model, state: State, command) -> tuple[Model, Array, Array]:
    """Return the model whose joints have the springs and dampers of its servos as well, the generalised forces that
    make it move as the servos do, and the forces of the actuators at the state."""
    q, rates = state.q, _rates(model, state.q, state.v)
    now, joints = _acting(model, q, rates, command), model.joints
    straight, places = _coordinates(model, now.rows)
    stretch = jnp.zeros_like(rates).at[straight].set(q[places] - joints.rest[places])
    both = joints.stiffness.at[now.rows].add(now.stiffness), joints.damping.at[now.rows].add(now.damping)
    with_servos = eqx.tree_at(lambda m: (m.joints.stiffness, m.joints.damping), model, both)
    return with_servos, now.forces + now.stiffness * stretch + now.damping * rates, now.forces
