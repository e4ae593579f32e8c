"""The linearised equations of a step with contact, by the factor of the step itself.

With F the natural map, F_f and F_s its derivatives, a tangent (x, y, z) of (a, ν, f) has

    M x − J_lᵀ y − J_cᵀ z = r1,    J_l x = r2,    −F_s J_c x − (F_f + F_s R) z = r3.

Where J_c x₀ is what x is without z, and G holds R, (F_f + F_s G) z = −r3 − F_s J_c x₀. The transposed equations have
F_sᵀ z for the forces along the rows, and (F_fᵀ + G F_sᵀ) z = −r3 − J_c x₀.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..constrained.linearised import Linearised, corrected
from ..engine.core import joined, widen
from ..kinematics.ratios import least
from ..systems.problem import body_accelerations, still
from .cones import Cones, natural
from .problem import Touching, begun, residuals, touching

#: of its diagonal, that is added to G: forces of redundant contacts are not unique
REGULAR = {4: 1e-5, 8: 1e-10}


class _Linear(Touching):
    """The factor with the linearised law on top. `matrix` is F_f + F_s G, or its transpose; `slope` is F_s (m, m,
    lanes)."""

    matrix: Array
    slope: Array
    across: bool = eqx.field(static=True)

    def solve(self, tau, force, r2):
        m = len(self.slope)

        def top(b):  # b is −J_c x₀
            r3 = r2[len(r2) - m :]
            along = b if self.across else _times(self.slope, b)
            z = least(self.matrix, along - r3)
            return z, _times(jnp.swapaxes(self.slope, 0, 1), z) if self.across else z

        none = jnp.zeros((m, r2.shape[-1]), r2.dtype)
        return self.corrected(tau, force, joined([r2[: len(r2) - m], none]), top)


def _times(A: Array, x: Array) -> Array:
    """A x of the lanes."""
    return (A * x[None]).sum(1)


def slopes(cones: Cones, w: Array, f: Array, s: Array) -> tuple[Array, Array]:
    """The derivatives of the natural map by f and by s, (m, m, lanes) each."""
    m, lanes = f.shape
    basis = jnp.broadcast_to(jnp.eye(m, dtype=f.dtype)[..., None], (m, m, lanes))

    def by(fn, x):
        return jnp.swapaxes(jax.vmap(lambda e: jax.jvp(fn, (x,), (e,))[1])(basis), 0, 1)

    return by(lambda f: natural(cones, w, f, s), f), by(lambda s: natural(cones, w, f, s), s)


@dataclasses.dataclass(frozen=True)
class ContactSolve(Linearised):
    """The linearised equations of a step: of (model, constraints, q, v, tau, external, dt, w, a, ν, f), then r1, r2 and
    r3, to the changes (x, y, z) of (a, ν, f) that they call for."""

    residuals: ClassVar[Callable] = residuals
    unknowns: ClassVar[int] = 3

    def run(self, args, used):
        lanes = max(x.shape[-1] for x in args)
        *given, w, a, nu, f = jax.tree.unflatten(self.tree, args[:-3])
        a, nu, f, *right = (widen(x, lanes) for x in (a, nu, f, *args[-3:]))
        step = begun(*self.static, *given, recursive=True)
        system = self._system(touching(step), step, w, a, f)
        image = self.image((*given, w, a, nu, f))
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

    def _system(self, made: Touching, step, w, a, f) -> _Linear:
        bodies = body_accelerations(step.problem, step.start, a)
        by_f, by_s = slopes(step.cones, w, f, step.answer(bodies, f))
        G = made.G * (1 + REGULAR[f.dtype.itemsize] * jnp.eye(len(f), dtype=f.dtype)[..., None])
        matrix = by_f + sum(by_s[:, k, None] * G[None, k] for k in range(len(f)))
        if self.across:
            matrix = jnp.swapaxes(matrix, 0, 1)
        fields: dict[str, Any] = {x.name: getattr(made, x.name) for x in dataclasses.fields(Touching)}
        return _Linear(**fields, matrix=matrix, slope=by_s, across=self.across)
