"""Equations r(u) = 0 of a step, linearised: −∂r/∂u y = right sides, solved by corrections with a factor that is close.

Such equations are those of a step rather than of a moment, and their matrix is not symmetric: the factor of a
symmetric one near it corrects the solutions, as it does those of the equations themselves and of the transposed ones.
These are the proximal iterations of `jaxdyn.constrained.proximal`, one solve a step, with other equations to fulfil.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import Core, Function, bind
from ..systems.base import System
from ..systems.problem import Start
from .base import Found
from .implicit import tangent_of
from .iteration import Stop, loop
from .proximal import At, Iteration

#: most corrections, and the change, relative to what is corrected, that is left when they end
CORRECTIONS = 30
LEFT = {4: 1e-7, 8: 3e-9}


class _Corrections(Iteration):
    """Iterations for what ``left_over(a, lam)`` tells, (tau, force, r2)."""

    def __init__(self, system: System, left_over: Callable, like: Array, lam, floor: Array, plain: bool, compliance):
        stop = Stop(LEFT[like.dtype.itemsize], CORRECTIONS, plain=plain)
        start = Start(jnp.zeros_like(like), lam if len(lam) else None, None, None)
        super().__init__(system, start, lam if len(lam) else None, stop, compliance)
        self.far = 0  # r2 is not linear in the steps, and tells nothing of how much longer one should be
        self.left_over, self.floor = left_over, floor
        self.now: Any = None

    def begun(self):
        return super().begun()._replace(scale=self.floor)

    def residual(self, at: At):
        return jnp.zeros_like(at.lam)  # it comes with the forces, in the next step

    def change(self, at: At, r2, refined: bool = True):
        tau, force, r2 = self.now or self._found(at)
        return self.made(tau, force, r2)

    def step(self, s, refined: bool = True):
        self.now = self._found(s.at)
        s = super().step(s if self.now[2] is None else s._replace(r2=self.now[2]), refined)
        self.now = None
        return s

    def _found(self, at: At):
        tau, force, r2 = self.left_over(at.rates, at.lam)
        if r2 is not None:
            r2 = self.wide(r2 if self.compliance is None else r2 - self.compliance * at.lam)
        return self.wide(tau), force, r2


def corrected(system: System, left_over, like, lam, floor, plain: bool, compliance: Array | None = None) -> Found:
    """Accelerations, shaped as `like`, and multipliers from `lam` on that leave nothing over, but for a share `LEFT` of
    a, or of `floor` if that is larger; ``left_over(a, lam)`` tells what is, as generalised forces, opposing forces of
    the bodies, and of the rows. For `plain` and `compliance` see `Stop` and `iterate`."""
    iteration = _Corrections(system, left_over, like, lam, floor, plain, compliance)
    state = loop(lambda s: s.active, iteration.step, iteration.begun(), iteration.stop)
    at = iteration.finished(state)
    return Found(at.rates, at.lam, state.steps, at.lam, None, at.bodies, at.lam, system, state.active)


@dataclasses.dataclass(frozen=True)
class Operands:
    """The operands of a core and their tangents, of which functions take some: by number, −1 being one more."""

    known: Sequence[bytes | None]
    compiler: str
    primals: Sequence[Array]
    tangents: Sequence[Array | None]

    def core(self, fn: Callable, static: tuple, *taken) -> tuple[Function, list[int]]:
        """A function of operands as a core, and the numbers of those that it takes, flat."""
        leaves, tree = jax.tree.flatten(taken)
        known = tuple(self.known[k] if k >= 0 else None for k in leaves)
        return Function(fn, static, tree, known, self.compiler), leaves

    def along(self, fn: Callable, taken: tuple, more=None, moved=None, static: tuple = ()) -> list:
        """The tangent of a function of operands; `more` is operand −1, and `moved` its tangent."""
        core, leaves = self.core(fn, static, *taken)
        at, change = (
            [x if k < 0 else xs[k] for k in leaves] for x, xs in ((more, self.primals), (moved, self.tangents))
        )
        return tangent_of(core, at, change)

    def both(self, fn: Callable, taken: tuple) -> Iterator[tuple[Array, Array | None]]:
        """What a function of operands gives, each with its tangent, None where they do not move."""
        core, leaves = self.core(fn, (), *taken)
        values = bind(core, *[self.primals[k] for k in leaves])
        moves = any(self.tangents[k] is not None for k in leaves)
        return zip(values, self.along(fn, taken) if moves else [None] * len(values), strict=True)


@dataclasses.dataclass(frozen=True)
class Linearised(Core):
    """The solutions y of −∂r/∂u y = b. Operands: those of the residuals r, the last of which are the unknowns u, and b,
    in which it is linear. `tree` is the structure of the former; `across` solves with the transposed matrix."""

    #: the first arguments of `residuals`
    static: tuple
    tree: Any
    known: tuple[bytes | None, ...]
    compiler: str = "auto"
    across: bool = False

    #: r, a function of a module, and the number of unknowns
    residuals: ClassVar[Callable]
    unknowns: ClassVar[int]

    def __init_subclass__(cls):
        cls.implicit = cls.unknowns

    def image(self, operands) -> Callable:
        """y to ∂r/∂u y, or to the transpose's."""
        given, at = operands[: -self.unknowns], operands[-self.unknowns :]
        return _image_of(type(self).residuals, self.static, self.across, given, at)

    def transpose(self, args, undefined, cotangents, used):
        n = len(args) - self.unknowns
        zeros = [jnp.zeros(getattr(x, "aval", x).shape, getattr(x, "aval", x).dtype) for x in args[n:]]
        given = [z if c is None else c for z, c in zip(zeros, cotangents, strict=True)]
        found = bind(dataclasses.replace(self, across=not self.across), *args[:n], *given)
        return [None] * n + [x if u else None for x, u in zip(found, undefined[n:], strict=True)]

    def tangents(self, primals, tangents, outs, used):
        count = self.unknowns
        matrix, right = primals[:-count], primals[-count:]
        moved, changes = tangents[:-count], tangents[-count:]
        right = [jnp.zeros_like(r) if d is None else d for r, d in zip(right, changes, strict=True)]
        if any(t is not None for t in moved):
            leaves = jax.tree.leaves(self.tree.unflatten(range(len(matrix))))
            tree = jax.tree.structure((*self.tree.unflatten(leaves), *[0] * count))
            static = type(self).residuals, self.static, self.across, count
            known = (*self.known[:-count], *[None] * count)
            image = Function(_image, static, tree, known, self.compiler)
            along = tangent_of(image, [*matrix, *outs], [*moved, *[None] * count])
            right = [r + t for r, t in zip(right, along, strict=True)]
        return bind(self, *matrix, *right)


def _image_of(residuals, static, across: bool, given, at) -> Callable:
    moved = lambda *y: jax.jvp(lambda *u: residuals(*static, *given, *u), tuple(at), y)[1]  # noqa: E731
    if not across:
        return moved
    back = jax.linear_transpose(moved, *at)
    return lambda *y: back(y)


def _image(residuals, static, across, count, *operands):
    given, at, along = operands[: -2 * count], operands[-2 * count : -count], operands[-count:]
    return _image_of(residuals, static, across, given, at)(*along)
