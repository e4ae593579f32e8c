"""`Commands`: what `step` and `simulate` take in place of generalised forces where a robot has actuators."""

import equinox as eqx
from jaxtyping import Array, Float

from ..kinematics.embed import checked_forces
from ..model.checks import check_vector
from ..model.model import Model
from ..spatial.numbers import ArrayLike


class Commands(eqx.Module):
    """Commands of a model's actuators, in place of the generalised forces `tau` of `step` and `simulate`.

    Each command (nu,) is held over its step. Its forces follow from the laws of `model.actuators`, with all bounds, as
    `actuator_forces` returns them at the start of a step. During the step a servo acts as a spring and a damper of its
    joint, like those of `Joints`, so that it is stable at any gain with the integrators that take these implicitly. A
    servo that starts a step at a bound, or in a joint at its effort limit, exerts that force until its end.

    A servo that drives several joints is a spring and a damper of each of them during a step, strong enough for it to
    be stable. They also resist motions that do not change its length, by an inertia in proportion to dt.

    **Fields:** `values`: (nu,), or (T, nu) for the steps of `simulate`.
    """

    values: Float[ArrayLike, "*T nu"]


def checked_controls(call: str, model: Model, tau) -> Array | Commands:
    """Return generalised forces as `checked_forces` does, or commands (nu,)."""
    if isinstance(tau, Commands):
        return Commands(check_vector(call, "tau.values", tau.values, (model.nu,)))
    return checked_forces(call, model, tau)
