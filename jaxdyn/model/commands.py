"""`Commands`: what `step` and `simulate` take in place of generalised forces where a robot has actuators."""

import equinox as eqx
from jaxtyping import Float

from ..spatial.instances import listed
from ..spatial.numbers import ArrayLike
from .model import Model

#: most names of actuators that an error lists
MOST_TOLD = 3


class Commands(eqx.Module):
    """Commands of a model's actuators, in place of the generalised forces `tau` of `step` and `simulate`.

    Each command (nu,) is held over its step. Its forces follow from the laws of `model.actuators`, with all bounds, as
    `actuator_forces` returns them at the start of a step. During the step a servo acts as a spring and a damper of its
    joint, like those of `Joints`, so that it is stable at any gain with the integrators that take these implicitly. At
    a bound of its force, or at the effort limit of its joint, it exerts this bound, and in a joint so light that it
    would leave the bound during the step, as much less at the end as it should.

    A servo that drives several joints exerts a constant force, that of its spring at the end of the step, and adds an
    inertia to each of its joints that keeps it stable. They are in proportion to dt, so such a step is of first order.

    **Fields:** `values`: (nu,), or (T, nu) for the steps of `simulate`.
    """

    values: Float[ArrayLike, "*T nu"]


def actuators_hint(model: Model) -> str:
    """Return what actuators a model has, as advice if commands have another number."""
    names = model.actuator_names
    told = listed([repr(name) for name in names], MOST_TOLD, "actuators") if names else "none"
    return f" `Commands` are for the actuators of the model: {told}. `load` warns if it leaves out some of a file."
