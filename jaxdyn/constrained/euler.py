"""One step of the semi-implicit Euler method, with implicit derivatives: one kernel from a state to the next.

    (M + dt D + dt² K) a = τ − h + passive(q, v) − dt K v + Jᵀλ,      v ← v + dt a,      q ← q ⊕ dt v

with dampers D and springs K of the joints: forward dynamics of a robot with more inertia at its joints and other
forces, and so are its derivatives.
"""

import dataclasses
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import Core
from ..engine.lanes import call
from ..kinematics.embed import gains
from ..kinematics.manifold import advanced
from ..model.checks import rows_of
from .auto import Auto
from .base import Solver
from .implicit import ForwardDynamics, outputs
from .linearised import Operands
from .result import Result, result_of


class Moved(NamedTuple):
    """What a step finds: q (nq,), v (nv,), the multipliers (m,), and how the solve ended."""

    q: Array
    v: Array
    multipliers: Array
    result: Result


def inertia_of(joints, dt) -> Array:
    """The inertia of the joints, with what springs and dampers add to it."""
    return joints.armature + dt * (joints.damping + dt * joints.stiffness)


def force_of(model, q, v, tau, dt) -> Array:
    """τ − dt K v."""
    return tau - gains(model, q, dt * model.joints.stiffness, v)


def end_of(model, q, v, dt, a) -> tuple[Array, Array]:
    """q and v after the step."""
    w = v + dt * a
    return advanced(model, q, dt * w), w


@dataclasses.dataclass(frozen=True)
class EulerStep(Core):
    """(model, constraints, q, v, tau, external, dt, warm) to a and λ, q and v after the step, how the solve ended, and
    some λ. `tree` is the structure of all operands."""

    solver: Solver
    tree: Any
    known: tuple[bytes | None, ...]
    compiler: str = "auto"

    implicit: ClassVar[int] = 6

    def shapes(self, used, avals):
        model, constraints, q, v, *_ = jax.tree.unflatten(self.tree, avals)
        multipliers = (rows_of(model, constraints),), v[1]
        return v, multipliers, q, v, ((), jnp.dtype(jnp.int32)), multipliers

    def run(self, args, used):
        model, constraints, q, v, tau, external, dt, warm = jax.tree.unflatten(self.tree, args)
        heavy = eqx.tree_at(lambda m: m.joints.armature, model, inertia_of(model.joints, dt))
        force = force_of(model, q, v, tau, dt)
        _, least, _, _, code, some = (True,) * 6 if used is None else used
        read = True, least, False, code, False, False, some
        a, lam, _, ended, *_, some = outputs(self.solver, heavy, constraints, q, v, force, external, warm, read)
        return [a, lam, *end_of(model, q, v, dt, a), ended, some]

    def instead(self, outs, used):
        a, lam, *_, some = outs
        lam = lam if used is None or used[1] else some
        return [a, lam, *[a] * 3, some]

    def tangents(self, primals, tangents, outs, used):
        a, lam, *_ = self.instead(outs, used)
        operands = Operands(self.known, self.compiler, primals, tangents)
        model, constraints, q, v, tau, external, dt, _ = jax.tree.unflatten(self.tree, range(len(primals)))
        place = {model.joints.armature: (inertia_of, (model.joints, dt)), tau: (force_of, (model, q, v, tau, dt))}
        changed = {k: operands.both(fn, taken) for k, (fn, taken) in place.items()}
        given = model, constraints, q, v, tau, external, None
        numbers, tree = jax.tree.flatten(given)
        known = tuple(None if k in changed else self.known[k] for k in numbers)
        solve = ForwardDynamics(self.solver, tree, jax.tree.structure(given[:3]), known, self.compiler)
        at, change = zip(*(changed.get(k, (primals[k], tangents[k])) for k in numbers), strict=True)
        least = used is None or used[1]
        x, y, *_, some = solve.tangents(at, change, [a, lam, *[a] * 4, lam], (True, least, *[False] * 4, not least))
        dq, dv = operands.along(end_of, (model, q, v, dt, -1), a, x)
        return [x, y, dq, dv, None, some]


def euler(model, constraints, q, v, tau, external, solver: Solver, warm, dt) -> Moved:
    """The `Moved` of a single state, differentiable in everything; solves start from the multipliers `warm`."""
    if isinstance(solver, Auto):
        solver = solver.pick(model.topology, constraints)
    args = model, tuple(constraints), q, v, tau, external, dt, warm
    _, lam, end, w, code, _ = call(lambda tree, known, c: EulerStep(solver, tree, known, c), *args)
    return Moved(end, w, lam, result_of(code))
