"""`Actuators`: the laws of the forces of a model's actuators."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class Actuators(eqx.Module):
    """The laws of a model's actuators. An actuator of length l, the sum of its gears times the coordinates of its
    joints, exerts the force

    f = gain u + offset − stiffness l − damping l̇

    within `lower` and `upper` at a command u within `lower_command` and `upper_command`.

    **Fields**, all (nu,): `gain`, N or N m per unit of the command, 1 if the command is the force; `offset`, N or N m;
    `stiffness`; `damping`; `lower`, `upper`, N or N m; `lower_command`, `upper_command`. Bounds are infinite where
    there are none.
    """

    gain: Float[Array, " nu"]
    offset: Float[Array, " nu"]
    stiffness: Float[Array, " nu"]
    damping: Float[Array, " nu"]
    lower: Float[Array, " nu"]
    upper: Float[Array, " nu"]
    lower_command: Float[Array, " nu"]
    upper_command: Float[Array, " nu"]

    def forces(
        self, command: Float[Array, " nu"], length: Float[Array, " nu"], rate: Float[Array, " nu"]
    ) -> tuple[Float[Array, " nu"], Float[Array, " nu"]]:
        """Return the forces (nu,) at commands, lengths and rates of length, without and with their bounds."""
        command = jnp.clip(command, self.lower_command, self.upper_command)
        force = self.gain * command + self.offset - self.stiffness * length - self.damping * rate
        return force, jnp.clip(force, self.lower, self.upper)
