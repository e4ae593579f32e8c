"""The dynamics of a robot under held controls, as integrators see them."""

import dataclasses
from collections.abc import Sequence

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..constrained.base import Solver
from ..constrained.euler import euler
from ..constrained.forward_dynamics import Solution, forward_dynamics
from ..constrained.leap import leap
from ..constrained.result import Result
from ..constrained.stepping import Stepped
from ..contact.laws import Law
from ..contact.solution import Contacts, ContactStepped, contact_step
from ..contact.warm_start import WarmStart
from ..dynamics.inverse import mass_matrix
from ..kinematics.actuators import bounded_servos, sprung
from ..kinematics.embed import independent_forces
from ..model.commands import Commands
from ..model.constraints import Constraint
from ..model.model import Model
from ..model.state import State
from ..tree.topology import refuse_clusters


class StepInfo(eqx.Module):
    """What a step returns besides the state. **Fields:** `multipliers` (m,); `result`, a `Result`; `contacts`, None
    without a law of contact; `warm`, the warm start of the next step."""

    multipliers: Float[Array, " m"]
    result: Result
    contacts: Contacts | None = None
    warm: WarmStart | None = None


def inertia_of(model: Model) -> Float[Array, " nv"] | None:
    """Return the inertia of each joint, with all joints after it held, in the neutral configuration; None for a model
    without servos whose forces have bounds."""
    return jnp.diagonal(mass_matrix(model, model.neutral())) if bounded_servos(model) else None


class Dynamics(eqx.Module):
    """A function from states to accelerations (nv,), under the generalised forces `tau` (nv,) and wrenches `external`
    (nb, 6). Solves start from `warm`, if given. Contact follows the `law`. If `projected`, each
    step ends with a projection onto the loops. `inertia` is roughly that of the joints, for servos with bounds."""

    model: Model
    tau: Float[Array, " nv"] | Commands
    constraints: Sequence[Constraint]
    solver: Solver
    external: Float[Array, "nb 6"] | None = None
    warm: WarmStart | None = None
    law: Law | None = eqx.field(static=True, default=None)
    projected: bool = eqx.field(static=True, default=False)
    inertia: Float[Array, " nv"] | None = None

    def held(self, state: State, dt) -> "tuple[Dynamics, Array]":
        """Return the dynamics during a step from a state, where servos are springs and dampers of their joints, and the
        generalised forces (nv,) or (n,) at the state."""
        if not isinstance(self.tau, Commands):
            return self, self.tau
        model, tau, now = sprung(self.model, state, self.tau.values, self.inertia, dt)
        return dataclasses.replace(self, model=model, tau=tau), now

    def __call__(self, state: State, inertia=None, force=None) -> Float[Array, " nv"]:
        """Return the accelerations at a state, with an inertia (n,) and a force (nv,) added to the joints."""
        return self.solution(state, inertia, force).acceleration

    def solution(self, state: State, inertia=None, force=None) -> Solution:
        """Return the whole solution: accelerations, multipliers and result."""
        model, tau = self.model, self.tau
        if inertia is not None:
            model = eqx.tree_at(lambda m: m.joints.armature, model, model.joints.armature + inertia)
        if force is not None:
            tau = independent_forces(model, state.q, tau) + force
        options = {"constraints": self.constraints, "solver": self.solver, "warm_start": self._multipliers}
        return forward_dynamics(model, state, tau, external=self.external, **options)

    def touch(self, state: State, dt) -> ContactStepped:
        """Return the result of one step with contact. If the state is projected afterwards, the step itself does not
        remove overlaps."""
        given = state.q, state.v, self.tau, self.external, dt
        law = dataclasses.replace(self.law, recovery=0.0) if self.projected else self.law
        return contact_step(self.model, self.constraints, *given, law, self.warm)

    def euler(self, state: State, dt) -> Stepped:
        """Return the result of one step of the semi-implicit Euler method."""
        return euler(self.solver, *self._given(state, dt))

    def leap(self, state: State, dt) -> Stepped:
        """Return the result of one step of the leapfrog."""
        refuse_clusters("Leapfrog", "`step`", self.model.topology, "jd.integrators.ImplicitMidpoint()")
        return leap(self.solver, *self._given(state, dt), projected=self.projected)

    @property
    def _multipliers(self) -> Array | None:
        return None if self.warm is None else self.warm.forces

    def _given(self, state: State, dt) -> tuple:
        """Return the arguments of a step after its solver."""
        tau = independent_forces(self.model, state.q, self.tau)
        return self.model, self.constraints, state.q, state.v, tau, self.external, dt, self._multipliers
