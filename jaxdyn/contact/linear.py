"""Solves of the linearised equations of a step with contact, by the factor of the step itself.

With F the natural map, F_f and F_s its derivatives, a tangent (x, y, z) of (a, ν, f) has

    M x − J_lᵀ y − J_cᵀ z = r1,    J_l x = r2,    −F_s J_c x − (F_f + F_s R) z = r3.

Let x₀ be x for z = 0, and let G include R. Then (F_f + F_s G) z = −r3 − F_s J_c x₀. In the transposed equations the
forces along the rows are F_sᵀ z, and (F_fᵀ + G F_sᵀ) z = −r3 − J_c x₀.

Without a matrix these are solved iteratively (`krylov.py`). Let p be the diagonal of the derivative of the projection.
Then F_f + F_s G is about 1 − p + p w G, exactly so where contacts stick or are open. Its inverse is that of a robot on
which contact is a penalty w p / (1 − p), and preconditions the iteration.
"""

import dataclasses
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..constrained.linearised import Linearised, corrected
from ..engine.core import joined, lanes_of, widen
from ..systems.base import System
from ..systems.problem import Problem, body_accelerations, still
from . import smooth
from .effect import Damped, Unformed
from .krylov import solved
from .problem import Kept, begun, residuals, touching
from .slope import At, Slope

#: share of its diagonal that is added to G: forces of redundant contacts are not unique
REGULAR = {4: 1e-5, 8: 1e-10}
#: without a matrix: the number added to 1 − p; and the tolerance relative to the right side, with the maximum of steps
NEAR = {4: 1e-4, 8: 1e-8}
ENOUGH = {4: (1e-5, 100), 8: (1e-10, 200)}


class Stepwise(eqx.Module):
    """The inverse of F_f + F_s G, or of its transpose if `across`, by iteration. `factor`, the preconditioner, is that
    of the robot on which contact is a penalty; `p` (m, lanes) is the diagonal of the derivative of the projection."""

    at: At
    G: Unformed
    factor: Damped
    p: Array
    across: bool = eqx.field(static=True)

    @classmethod
    def of(cls, at: At, G: Unformed, across: bool) -> "Stepwise":
        p = jnp.clip(at.diagonal(), 0, 1)
        return cls(at, G, G.tied(p * at.w / cls.rest(p)), p, across)

    @staticmethod
    def rest(p: Array) -> Array:
        """Return 1 − p, and a little more."""
        return 1 - p + NEAR[p.dtype.itemsize]

    def solve(self, b: Array) -> Array:
        b = widen(b, lanes_of(b, self.p, self.G.diagonal))
        tol, most = ENOUGH[b.dtype.itemsize]
        return solved(self._times, self._near, b, tol, most)

    def _effect(self, z: Array) -> Array:
        """Return G z, with a little more on the diagonal of G."""
        return self.G.times(z) + REGULAR[z.dtype.itemsize] * self.G.diagonal * z

    def _times(self, z: Array) -> Array:
        if not self.across:
            return self.at.moved(z, self._effect(z))
        by_f, by_s = self.at.transposed(z)
        return by_f + self._effect(by_s)

    def _near(self, r: Array) -> Array:
        if not self.across:  # (1 − p) z + p w G z = r
            return self.factor.pushed(r / self.rest(self.p))
        return (r - self.factor.solved(r)[1]) / self.rest(self.p)  # (1 − p) z + G p w z = r


class _Linear(System):
    """The factor with the linearised law on top. `inverse` is that of F_f + F_s G, or of its transpose if `across`."""

    problem: Problem
    weights: Array
    kept: Kept
    inverse: Slope | Stepwise
    at: At
    across: bool = eqx.field(static=True)

    def solve(self, tau, force, r2):
        first = len(self.weights)

        def top(b):  # b is −J_c x₀
            z = self.inverse.solve((b if self.across else self.at.by_s(b)) - r2[first:])
            return z, jax.linear_transpose(self.at.by_s, z)(z)[0] if self.across else z

        return self.kept.corrected(tau, force, joined([r2[:first], jnp.zeros_like(r2[first:])]), top)


@dataclasses.dataclass(frozen=True)
class ContactSolve(Linearised):
    """The linearised equations of a step, solved: a map from (model, constraints, q, v, tau, external, dt, which, w, a,
    ν, f) and r1, r2 and r3 to the changes (x, y, z) of (a, ν, f)."""

    residuals: ClassVar[Callable] = residuals
    unknowns: ClassVar[int] = 3

    def run(self, args, used):
        lanes = lanes_of(args)
        *given, which, w, a, nu, f = jax.tree.unflatten(self.tree, args[:-3])
        a, nu, f, *right = widen((a, nu, f, *args[-3:]), lanes)
        (law,) = self.static
        step = begun(law, *given, which, recursive=True)  # type: ignore
        system = self._system(touching(step, law), step, w, a, f, given[-1])
        image = self.image((*given, which, w, a, nu, f))
        sign = jnp.concatenate([jnp.full((len(nu), 1), -1.0 if self.across else 1.0), jnp.ones((len(f), 1))])
        sign, h = sign.astype(a.dtype), len(nu)

        def left_over(x, lam):
            lam = sign * lam
            left = [r + m for r, m in zip(right, image(x, lam[:h], lam[h:]), strict=True)]
            return left[0], still(step.problem, left[0]), sign * joined(left[1:])

        none = jnp.zeros(lanes, a.dtype)
        like = jnp.zeros_like(a), jnp.zeros((h + len(f), lanes), a.dtype)
        found = corrected(system, left_over, *like, none, plain=True)
        lam = sign * found.multipliers
        return [found.acceleration, lam[:h], lam[h:]]

    def _system(self, kept: Kept, step, w, a, f, dt) -> _Linear:
        bodies = body_accelerations(step.problem, step.start, a)
        at = At(step.cones, w, f, step.answer(bodies, f), smooth.forces(self.static[0].smoothing, w, dt))
        if isinstance(kept.G, Unformed):
            inverted = Stepwise.of(at, kept.G, self.across)
        else:
            regular = 1 + REGULAR[f.dtype.itemsize] * jnp.eye(len(f), dtype=f.dtype)[..., None]
            inverted = Slope.of(at, kept.G * regular, self.across)
        return _Linear(kept.problem, kept.weights, kept, inverted, at, self.across)
