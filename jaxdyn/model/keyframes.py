"""`Keyframes`: the states that a robot's file names, such as "home"."""

from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Float

from .state import State


class Keyframe(NamedTuple):
    """A named state of a robot. **Fields:** `state`, a `State`; `command` (nu,) of the actuators there."""

    state: State
    command: Array


class Keyframes(eqx.Module):
    """The named states of a robot, one row for each of the `names`.

    **Fields:** `q` (k, nq), `v` (k, n) of all joints of the tree, `command` (k, nu).
    """

    q: Float[Array, "k nq"]
    v: Float[Array, "k n"]
    command: Float[Array, "k nu"]
    names: tuple[str, ...] = eqx.field(static=True)
