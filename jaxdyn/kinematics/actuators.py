"""What actuators exert on the joints at a command, and their laws as springs and dampers of the joints.

Functions without a state among their arguments are for arrays with the lanes last. k is the number of velocities that
may have actuators: the independent ones, or all.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..engine.core import at_or_zero
from ..engine.lanes import laned
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
    return laned(_exerted)(_compiled(model), q, _rates(model, q, v), command)


def _compiled(model: Model) -> Model:
    """Return the model, left to XLA unless its gears are known: a kernel has an operation for each gear that is not
    known to be zero."""
    return model if numbers_of(model.actuation) is not None else model.with_compiler("xla")


def _rates(model: Model, q, v) -> Array:
    """Return the velocities (k,) of the joints that may have actuators, for a single state."""
    return velocities(model, q, v) if len(model.actuation) > model.nv else v


def _rows(model: Model) -> np.ndarray:
    """Return which of the tree's velocities may have actuators (k,)."""
    topology = model.topology
    return np.arange(topology.nv) if len(model.actuation) > model.nv else np.asarray(topology.independent, int)


def _places(model: Model) -> np.ndarray:
    """Return the places in q of the joints' coordinates (k,), nq for joints that have several, such as free ones, which
    do not count towards lengths."""
    topology = model.topology
    places = {topology.v_slice(b).start: topology.q_slice(b).start for b, k in enumerate(topology.kinds) if k.nq == 1}
    return np.array([places.get(r, model.nq) for r in _rows(model)], int)


def _times(gears, x):
    """Return the products (k, lanes) of gears (k, nu, lanes) and x (nu, lanes)."""
    return gears[..., 0] @ x if gears.shape[-1] == 1 else (gears * x[None]).sum(1)


def _along(gears, x):
    """Return the products (nu, lanes) of the transposed gears and x (k, lanes)."""
    return _times(jnp.swapaxes(gears, 0, 1), x)


def _lawful(model: Model, q, rates, command) -> tuple[Array, Array]:
    """Return the forces (nu, lanes) of actuators, without and with their bounds."""
    length = _along(model.actuation, at_or_zero(q, _places(model)))
    return model.actuators.forces(command, length, _along(model.actuation, rates))


def _within(model: Model, forces) -> Array:
    """Return generalised forces (k, lanes) within the efforts of the joints."""
    effort = model.joints.effort[_rows(model)]
    return jnp.clip(forces, -effort, effort)


def _exerted(model: Model, q, rates, command) -> Array:
    return _within(model, _times(model.actuation, _lawful(model, q, rates, command)[1]))


def bounded_servos(model: Model) -> bool:
    """Return False if it is known that no actuator has gains, or that no force has bounds."""
    laws = model.actuators
    gains = [numbers_of(x) for x in (laws.stiffness, laws.damping)]
    bounds = laws.upper, laws.lower, model.joints.effort
    return any(x is None or x.any() for x in gains) and not all(map(_endless, bounds))


def _endless(bounds) -> bool:
    """Return whether bounds are known to be infinite."""
    known = numbers_of(bounds)
    return known is not None and bool(np.isinf(known).all())


def _all_alone(gears) -> bool:
    """Return whether it is known that no actuator drives several joints."""
    known = numbers_of(gears)
    return known is not None and bool(((known != 0).sum(0) <= 1).all())


def sprung(model: Model, state: State, command, inertia, dt) -> tuple[Model, Array, Array]:
    """Return the model whose joints have the springs and dampers of its servos as well, the generalised forces that
    make it move as the servos do in a step of dt, and the forces of the actuators at the state. `inertia` (nv,) is that
    of the joints, roughly; None if no servo has bounds.

    A servo that drives several joints adds an inertia to each of them instead: a diagonal matrix, which is at least
    ``gears @ diag(dt damping + dt² stiffness) @ gears.T`` (Gershgorin).
    """
    several, limited = not _all_alone(model.actuation), inertia is not None and not _endless(model.joints.effort)
    given = _compiled(model), state.q, _rates(model, state.q, state.v), command, inertia, dt
    tau, forces, *joints = laned(_sprung, several, limited)(*given)
    parts = lambda m: [m.joints.stiffness, m.joints.damping, *([m.joints.armature] if several else [])]  # noqa: E731
    return eqx.tree_at(parts, model, joints), tau, forces


def _sprung(several: bool, limited: bool, model: Model, q, rates, command, inertia, dt) -> list[Array]:
    """Return what `sprung` returns: forces, and those at the state; stiffness, damping, and, if an actuator may drive
    `several` joints, armature of the joints. With `limited` joints may have efforts."""
    gears, laws, joints, places = model.actuation, model.actuators, model.joints, _places(model)
    free, held = _lawful(model, q, rates, command)
    whole, gains, squares = _times(gears, held), (laws.stiffness, laws.damping), gears**2
    forces, part = _within(model, whole), 1
    if inertia is not None:
        yields = 1 / jnp.maximum(at_or_zero(inertia, _independent(model)), LIGHTEST)
        share = _part(held, free, _change(gains, dt) * _along(squares, yields))
        gains = tuple(x * share for x in gains)
        if limited:
            part = _part(forces, whole, _times(squares, _change(gains, dt)) * yields)
    alone, straight = jnp.sum(gears != 0, 0) <= 1, (places < model.nq)[:, None].astype(q.dtype)
    springs, dampers = (_times(squares, jnp.where(alone, x, 0)) * part for x in gains)
    springs = springs * straight
    stretch = at_or_zero(q, places) - at_or_zero(joints.rest, places)
    tau = forces + springs * stretch + dampers * rates
    rows = _rows(model)
    back = np.full(model.topology.nv, len(rows))
    back[rows] = np.arange(len(rows))
    changed = [joints.stiffness + at_or_zero(springs, back), joints.damping + at_or_zero(dampers, back)]
    if several:
        coupled = [jnp.where(alone, 0, x) for x in gains]
        added = _times(jnp.abs(gears) * jnp.abs(gears).sum(0, keepdims=True), _change(coupled, dt)) * part
        tau = tau - part * _times(gears, dt * coupled[0] * _along(gears, rates * straight))
        changed.append(joints.armature + at_or_zero(added, back))
    return [tau, forces, *changed]


def _independent(model: Model) -> np.ndarray:
    """Return the place among the independent velocities of each that may have actuators (k,), nv for dependent ones."""
    if len(model.actuation) == model.nv:
        return np.arange(model.nv)
    return np.array([model.topology.places.get(r, model.nv) for r in _rows(model)], int)


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
