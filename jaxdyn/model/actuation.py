"""Actuators as a `ModelSpec` describes them, and their conversion to the arrays of a `Model`."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..spatial.numbers import constants
from ..tree.topology import Topology
from .actuators import Actuators
from .arrays import floats_of
from .values import limits_of, rules_of

#: number of entries above which JAX fills a matrix on the device, because a copy from NumPy would double the memory
MANY = 10_000_000


class Actuator(NamedTuple):
    """An actuator as a `ModelSpec` describes it: its gears by joint, and the numbers of its law in `Actuators`."""

    gears: Mapping[str, np.ndarray]
    law: Mapping[str, np.ndarray]


def actuator(call: str, gears: Mapping[str, Any], limits: Any, command_limits: Any, **law: Any) -> Actuator:
    """Return an actuator with checked numbers. Joints are looked up later, by `actuation_of`."""
    checked = {str(j): constants(call, f"gear of {j!r}", g, None) for j, g in gears.items()}
    numbers = {what: constants(call, what, x, (), *rules_of(what)) for what, x in law.items()}
    numbers["lower"], numbers["upper"] = (x[0] for x in limits_of(call, "limits", limits, 1))
    pair = limits_of(call, "command_limits", command_limits, 1)
    numbers["lower_command"], numbers["upper_command"] = (x[0] for x in pair)
    return Actuator(checked, numbers)


def laws_of(actuators: Sequence[Actuator]) -> Actuators:
    """Return the laws of actuators, stacked."""
    return Actuators(**{what: floats_of([a.law[what] for a in actuators]) for what in Actuators.__dataclass_fields__})


def actuation_of(call: str, topology: Topology, actuators: Mapping[str, Actuator]) -> Float[Array, "nv nu"]:
    """Return the generalised forces (nv, nu) per force of actuators, which are given by their gears at joints."""
    rows, columns, values = [np.zeros(0, int)], [np.zeros(0, int)], [np.zeros(0)]
    for k, (name, one) in enumerate(actuators.items()):
        for joint, gear in one.gears.items():
            at = topology.v_slice(_driven(f"{call}: actuator {name!r}", topology, name, joint, gear, one.law))
            rows.append(np.arange(at.start, at.stop))
            columns.append(np.full(at.stop - at.start, k))
            values.append(np.full(at.stop - at.start, gear))
    shape = topology.nv, len(actuators)
    filled = np.concatenate(rows), np.concatenate(columns), np.concatenate(values).astype(jnp.result_type(float))
    if topology.nv * len(actuators) > MANY:
        return jax.jit(lambda r, c, x: jnp.zeros(shape, x.dtype).at[r, c].set(x))(*filled)
    out = np.zeros(shape, filled[2].dtype)
    out[filled[:2]] = filled[2]
    return floats_of(out)


def _driven(call: str, topology: Topology, name: str, joint: str, gear: np.ndarray, law: Mapping) -> int:
    """Return the body of the joint that an actuator drives. Raise `ValueError` if there is none, or if gear or law do
    not suit it."""
    try:
        body = topology.joint(joint)
    except ValueError as error:
        swapped = f" `add_actuator` takes the joint first: ({name!r}, {joint!r})."
        raise ValueError(f"{call}: {error}{swapped if name in topology.joint_names else ''}") from None
    nv = topology.kinds[body].nv
    if gear.shape not in ((), (nv,)) or (gear.shape == () and nv != 1):
        raise ValueError(f"{call}: `gear` has shape {gear.shape}; joint {joint!r} takes ({nv},).")
    if law["stiffness"] and nv != 1:
        raise ValueError(f"{call}: `stiffness` is for joints with one velocity; joint {joint!r} has {nv}.")
    return body
