"""Linearised equations r(u) = 0 of a step: −∂r/∂u y = right sides, solved by corrections with the factor of a nearby
matrix.

The equations are those of a whole step, not of an instant, and their matrix is not symmetric. The factor of a nearby
symmetric matrix corrects the solutions of the equations themselves, of the linearised equations and of the transposed
ones. The corrections are the proximal iterations of `jaxdyn.constrained.proximal`, one solve per step, with other
residuals.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..engine.core import Core, Function, bind, widen
from ..systems.base import System
from ..systems.problem import Start
from .base import Found
from .implicit import tangent_of
from .iteration import Stop, loop
from .proximal import At, Iteration

#: maximum number of corrections, and, by bytes of a number, the relative change at which they end
CORRECTIONS = 30
LEFT = {4: 1e-7, 8: 3e-9}


class _Corrections(Iteration):
    """Iterations with the residual (tau, force, r2) that ``left_over(a, lam)`` returns."""

    def __init__(self, system: System, left_over: Callable, like: Array, lam, floor: Array, plain: bool, compliance):
        stop = Stop(LEFT[like.dtype.itemsize], CORRECTIONS, plain=plain)
        start = Start(jnp.zeros_like(like), lam if len(lam) else None, None, None)
        super().__init__(system, start, lam if len(lam) else None, stop, compliance)
        self.left_over, self.floor = left_over, floor
        self.now: Any = None

    def begun(self):
        return super().begun()._replace(scale=self.floor)

    def moves(self, direction, image):
        return jnp.zeros(self.lanes, bool)  # r2 is not linear in the steps: it does not show how long one should be

    def residual(self, at: At):
        return jnp.zeros_like(at.lam)  # the next step computes it with the forces

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
            r2 = widen(r2 if self.compliance is None else r2 - self.compliance * at.lam, self.lanes)
        return widen(tau, self.lanes), force, r2


def corrected(system: System, left_over, like, lam, floor, plain: bool, compliance: Array | None = None) -> Found:
    """Return accelerations, shaped as `like`, and multipliers, starting from `lam`, with zero residual up to a fraction
    `LEFT` of a, or of `floor` if that is larger. ``left_over(a, lam)`` returns the residual as generalised forces,
    opposing forces of the bodies, and the residual of the rows. For `plain` and `compliance` see `Stop` and `iterate`.
    """
    iteration = _Corrections(system, left_over, like, lam, floor, plain, compliance)
    state = loop(lambda s: s.active, iteration.step, iteration.begun(), iteration.stop)
    at = iteration.finished(state)
    return Found(at.rates, at.lam, state.steps, at.lam, None, at.bodies, at.lam, system, state.active)


@dataclasses.dataclass(frozen=True)
class Operands:
    """The operands of a core and their tangents. Functions take some of them by number; −1 is an additional operand."""

    known: Sequence[bytes | None]
    compiler: str
    primals: Sequence[Array]
    tangents: Sequence[Array | None]

    def core(self, fn: Callable, static: tuple, *taken) -> tuple[Function, list[int]]:
        """Return a function of operands as a core, and the flat list of the numbers of its operands."""
        leaves, tree = jax.tree.flatten(taken)
        known = tuple(self.known[k] if k >= 0 else None for k in leaves)
        return Function(fn, static, tree, known, self.compiler), leaves

    def along(self, fn: Callable, taken: tuple, more=None, moved=None, static: tuple = ()) -> list:
        """Return the tangent of a function of operands; `more` is operand −1, and `moved` its tangent."""
        core, leaves = self.core(fn, static, *taken)
        at, change = (
            [x if k < 0 else xs[k] for k in leaves] for x, xs in ((more, self.primals), (moved, self.tangents))
        )
        return tangent_of(core, at, change)

    def both(self, fn: Callable, taken: tuple) -> Iterator[tuple[Array, Array | None]]:
        """Return the outputs of a function of operands, each with its tangent, which is None if no operand has one."""
        core, leaves = self.core(fn, (), *taken)
        values = bind(core, *[self.primals[k] for k in leaves])
        moves = any(self.tangents[k] is not None for k in leaves)
        return zip(values, self.along(fn, taken) if moves else [None] * len(values), strict=True)


@dataclasses.dataclass(frozen=True)
class Linearised(Core):
    """The core that returns the solutions y of −∂r/∂u y = b. Operands are those of the residuals r, the last of which
    are the unknowns u, and then b, in which the core is linear. `tree` is the structure of the operands of r; `across`
    solves with the transposed matrix."""

    #: the first arguments of `residuals`
    static: tuple
    tree: Any
    known: tuple[bytes | None, ...]
    compiler: str = "auto"
    across: bool = False

    #: r, a module-level function, and the number of unknowns
    residuals: ClassVar[Callable]
    unknowns: ClassVar[int]

    def __init_subclass__(cls):
        cls.implicit = cls.unknowns

    def image(self, operands) -> Callable:
        """Return the function from y to ∂r/∂u y, or to the product with the transpose."""
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
