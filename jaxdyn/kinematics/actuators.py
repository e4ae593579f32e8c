"""What actuators exert on the joints at a command, and their laws as springs and dampers of the joints."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..model.checks import check_model, check_state, check_vector, common_dtype
from ..model.model import Model
from ..model.state import State
from ..spatial.numbers import ArrayLike, numbers_of
from .embed import velocities

#: kg m² or kg, of joints of which no inertia is known
LIGHTEST = 1e-12


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
    return _within(model, model.actuation @ _lawful(model, q, _rates(model, q, v), command)[1])


def _rates(model: Model, q, v) -> Array:
    """Return the velocities of the joints that may have actuators."""
    return velocities(model, q, v) if len(model.actuation) > model.nv else v


def _rows(model: Model) -> np.ndarray:
    """Return which of the tree's velocities may have actuators: the independent ones, or all."""
    topology = model.topology
    return np.arange(topology.nv) if len(model.actuation) > model.nv else np.asarray(topology.independent, int)


def _straight(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Return which of the rows belong to joints with one coordinate, and the places of those coordinates in q. Others,
    such as free joints, do not count towards lengths."""
    topology, rows = model.topology, _rows(model)
    places = {topology.v_slice(b).start: topology.q_slice(b).start for b, k in enumerate(topology.kinds) if k.nq == 1}
    straight = np.array([r for r, at in enumerate(rows) if at in places], int)
    return straight, np.array([places[rows[r]] for r in straight], int)


def _lawful(model: Model, q, rates, command) -> tuple[Array, Array]:
    """Return the forces (nu,) of actuators, without and with their bounds."""
    straight, places = _straight(model)
    length, rate = jnp.stack([jnp.zeros_like(rates).at[straight].set(q[places]), rates]) @ model.actuation
    return model.actuators.forces(command, length, rate)


def _within(model: Model, forces) -> Array:
    """Return generalised forces within the efforts of the joints."""
    effort = model.joints.effort[_rows(model)]
    return jnp.clip(forces, -effort, effort)


def bounded_servos(model: Model) -> bool:
    """Return False if it is known that no actuator has gains, or that no force has bounds."""
    laws = model.actuators
    gains = [numbers_of(x) for x in (laws.stiffness, laws.damping)]
    bounds = laws.upper, laws.lower, model.joints.effort
    return any(x is None or x.any() for x in gains) and not all(map(_endless, bounds))


def sprung(model: Model, state: State, command, inertia, dt) -> tuple[Model, Array, Array]:
    """Return the model whose joints have the springs and dampers of its servos as well, the generalised forces that
    make it move as the servos do in a step of dt, and the forces of the actuators at the state. `inertia` (nv,) is that
    of the joints, roughly; None if no servo has bounds.

    A servo that drives several joints adds an inertia to each of them instead: a diagonal matrix, which is at least
    ``gears @ diag(dt damping + dt² stiffness) @ gears.T`` (Gershgorin).
    """
    gears, laws, joints, rows = model.actuation, model.actuators, model.joints, _rows(model)
    q, rates, (straight, places) = state.q, _rates(model, state.q, state.v), _straight(model)
    free, held = _lawful(model, q, rates, command)
    whole, gains, squares = gears @ held, jnp.stack([laws.stiffness, laws.damping]), gears**2
    forces, part = _within(model, whole), jnp.ones_like(rates)
    if inertia is not None:
        light = jnp.full(len(rows), LIGHTEST, q.dtype).at[_independent(model)].set(inertia)
        yields = 1 / jnp.maximum(light, LIGHTEST)
        gains = gains * _part(held, free, _change(gains, dt) * (yields @ squares))[None]
        if not _endless(joints.effort):
            part = _part(forces, whole, _change(gains @ squares.T, dt) * yields)
    alone, lengthens = jnp.sum(gears != 0, 0) == 1, jnp.zeros_like(rates).at[straight].set(1)
    springs, dampers = jnp.where(alone[None], gains, 0) @ squares.T * part[None]
    springs = springs * lengthens
    stretch = jnp.zeros_like(rates).at[straight].set(q[places] - joints.rest[places])
    tau = forces + springs * stretch + dampers * rates
    both = joints.stiffness.at[rows].add(springs), joints.damping.at[rows].add(dampers)
    model = eqx.tree_at(lambda m: (m.joints.stiffness, m.joints.damping), model, both)
    if not _all_alone(gears):
        coupled = jnp.where(alone[None], 0, gains)
        added = (jnp.abs(gears) * jnp.abs(gears).sum(0, keepdims=True)) @ _change(coupled, dt) * part
        model = eqx.tree_at(lambda m: m.joints.armature, model, joints.armature.at[rows].add(added))
        tau = tau - part * (gears @ (dt * coupled[0] * ((rates * lengthens) @ gears)))
    return model, tau, forces


def _endless(bounds) -> bool:
    """Return whether bounds are known to be infinite."""
    known = numbers_of(bounds)
    return known is not None and bool(np.isinf(known).all())


def _all_alone(gears) -> bool:
    """Return whether it is known that no actuator drives several joints."""
    known = numbers_of(gears)
    return known is not None and bool(((known != 0).sum(0) <= 1).all())


def _independent(model: Model) -> np.ndarray:
    """Return the places of the independent velocities among those that may have actuators."""
    return np.asarray(model.topology.independent, int) if len(model.actuation) > model.nv else np.arange(model.nv)


def _change(gains, dt):
    """Return by how much forces with a stiffness and a damping change with an acceleration during a step."""
    return dt * (dt * gains[0] + gains[1])


def _part(held, free, x):
    """Return the part, from 0 to 1, of the gains with which bounded forces act during a step.

    A joint of inertia m under a law f − G a with the bound B accelerates by m a = min(B, f − G a). So it does under B −
    ρ G a with ρ = r − (1 − r) / x, not below 0, where r = B / f and x = G / m. Constant forces at the bounds would make
    light joints with strong gains overshoot by more and more."""
    tiny = np.sqrt(jnp.finfo(free.dtype).tiny)  # of smaller numbers the squares, which are in derivatives, are zero
    beyond = (free != held) & (jnp.abs(free) > tiny)
    r = jnp.where(beyond, jnp.clip(held / jnp.where(beyond, free, 1), 0, 1), 1)
    return jnp.clip(r - (1 - r) / jnp.where(x > tiny, x, 1), 0, 1)
