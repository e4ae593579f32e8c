"""One step of the semi-implicit Euler method, with implicit derivatives: one kernel from a state to the next.

    (M + dt D + dt² K) a = τ − h + passive(q, v) − dt K v + Jᵀλ,      v ← v + dt a,      q ← q ⊕ dt v

with dampers D and springs K of the joints. This is the forward dynamics of a robot with larger joint inertias and
different forces, and its derivatives are those of that forward dynamics.
"""

import dataclasses

import equinox as eqx
import jax
from jaxtyping import Array

from ..dynamics.rnea import stiffened
from ..kinematics.embed import gains
from ..kinematics.manifold import arrived
from .base import Solver
from .implicit import ForwardDynamics, outputs
from .linearised import Operands
from .stepping import StepCore, Stepped, stepped


def force_of(model, q, v, tau, dt) -> Array:
    """Return τ − dt K v."""
    return tau - gains(model, q, dt * model.joints.stiffness, v)


def end_of(model, q, v, dt, a) -> tuple[Array, Array]:
    """Return q and v after the step."""
    w = v + dt * a
    return arrived(model.topology, model, q, dt * w), w


@dataclasses.dataclass(frozen=True)
class EulerStep(StepCore):
    """The step of `StepCore` by the dynamics at its start, with springs and dampers taken at its end."""

    def run(self, args, used):
        model, constraints, q, v, tau, external, dt, warm = jax.tree.unflatten(self.tree, args)
        heavy = eqx.tree_at(lambda m: m.joints.armature, model, stiffened(model.joints, dt))
        force = force_of(model, q, v, tau, dt)
        _, least, _, _, code, some = (True,) * 6 if used is None else used
        read = True, least, False, code, False, False, some
        a, lam, _, ended, *_, some = outputs(self.solver, heavy, constraints, q, v, force, external, warm, read)
        return [a, lam, *end_of(model, q, v, dt, a), ended, some]

    def tangents(self, primals, tangents, outs, used):
        a, lam, *_ = self.instead(outs, used)
        operands = Operands(self.known, self.compiler, primals, tangents)
        model, constraints, q, v, tau, external, dt, _ = jax.tree.unflatten(self.tree, range(len(primals)))
        place = {model.joints.armature: (stiffened, (model.joints, dt)), tau: (force_of, (model, q, v, tau, dt))}
        changed = {k: next(operands.both(fn, taken)) for k, (fn, taken) in place.items()}
        given = model, constraints, q, v, tau, external, None
        numbers, tree = jax.tree.flatten(given)
        known = tuple(None if k in changed else self.known[k] for k in numbers)
        solve = ForwardDynamics(self.solver, tree, jax.tree.structure(given[:3]), known, self.compiler)
        at, change = zip(*(changed.get(k, (primals[k], tangents[k])) for k in numbers), strict=True)
        least = used is None or used[1]
        x, y, *_, some = solve.tangents(at, change, [a, lam, *[a] * 4, lam], (True, least, *[False] * 4, not least))
        dq, dv = operands.along(end_of, (model, q, v, dt, -1), a, x)
        return [x, y, dq, dv, None, some]


def euler(solver: Solver, *given) -> Stepped:
    """Return the result of the step; `given` are the arguments of `stepped` after the solver."""
    return stepped(EulerStep, solver, *given)
