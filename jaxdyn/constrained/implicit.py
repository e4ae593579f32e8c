"""Derivatives of constrained dynamics by the implicit function theorem.

The residuals r1 = τ + passive + external + Jᵀλ − M q̈ − h and r2 = a* − γ − J q̈ vanish at the solution. A tangent of
the solution therefore solves

    M dq̈ − Jᵀ dλ = dr1,    J dq̈ = dr2,

where (dr1, dr2) is the tangent of the residuals at fixed (q̈, λ): one more solve with the same matrix. The matrix is
symmetric except for a sign, so the transpose of the solve is the solve itself, and its own derivative is implicit
again: no loop is ever differentiated.

If rows are redundant (constant rank), q̈ needs no more, but the minimum-norm λ = J J⁺ λ moves with the range of J: dλ
gains (1 − P) dJ z with P = J J⁺ and any z with J z = λ. Soft rows, r2 = a* − γ − J q̈ − R λ with a constant R, have the
same dr1 and dr2, and add R to the matrix; their multipliers are unique.
"""

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp

from ..engine.core import Core, Function, Tangent, bind, lanes_of, widen
from ..model.checks import rows_of
from ..systems.problem import Problem, Start, body_accelerations, problem_of, residual, start_of, with_gyrostats
from .apart import parted
from .base import Found, Solver
from .result import ended, left


def residuals(model, constraints, q, v, tau, external, qdd, lam):
    """Return (r1, r2) at any (q̈, λ): (nv, lanes) and (m, lanes)."""
    problem = problem_of(model, constraints, q, v, qdd, falling=not constraints)
    start = start_of(problem, tau, external, settled=True)
    return residual(problem, start, qdd, None, lam)


def saddle(model, constraints, q, x, y):
    """Return (M x − Jᵀ y, J x): (nv, lanes) and (m, lanes)."""
    problem = problem_of(model, constraints, q, None, x)
    rows = None if problem.rows is None else jnp.zeros((problem.rows.plan.rows, 1), x.dtype)
    r1, r2 = residual(problem, Start(jnp.zeros_like(x), rows, None, None), x, problem.motion.acceleration, y)
    return -r1, -r2


def _full(q, args):
    """Return q with the largest number of lanes of any operand: iterations carry arrays with that many."""
    return widen(q, lanes_of(args))


@dataclasses.dataclass(frozen=True)
class SaddleSolve(Core):
    """The core that maps (r1, r2) to (x, y, some y) with M x − Jᵀ y = r1 and J x = r2. If rank is missing, it solves by
    least squares, and y is the minimum-norm one.

    Operands: the leaves of (model, constraints, q); r1 and r2, in which the core is linear; and optionally the y to
    start from, on which nothing depends. `tree` is the structure of (model, constraints, q).
    """

    solver: Solver
    tree: Any
    #: see `Core`: of the leaves of `tree`, and of r1, r2 and the y to start from
    known: tuple[bytes | None, ...]
    compiler: str = "auto"
    #: True if r2 lies in the range of J, so that its cotangents may have any part outside it
    inside: bool = False
    #: True if x balances y to the last digit, even if an r2 outside that range makes y large
    settles: bool = False

    implicit: ClassVar[int] = 3

    def shapes(self, used, avals):
        n = self.tree.num_leaves
        return avals[n], avals[n + 1], avals[n + 1]

    def run(self, args, used):
        _, _, found = self.found(args, used is None or used[1])
        settled = found.settled if self.settles else None
        return [found.acceleration if settled is None else settled, found.multipliers, found.some]

    def found(self, args, least: bool) -> tuple[Problem, Start, Found]:
        """Return the problem, where its solver starts, and the solver's result, with minimum-norm multipliers if
        `least` asks for them."""
        n = self.tree.num_leaves
        model, constraints, q = jax.tree.unflatten(self.tree, args[:n])
        r1, r2, *warm = args[n:]
        if self.solver.recursive:
            model = with_gyrostats(model, constraints, None)
        problem = problem_of(model, constraints, _full(q, args))
        start = Start(r1, r2 if constraints else None, None, None)
        guess = warm[0] if warm and constraints else None
        return problem, start, _found(self.solver, problem, start, guess, least or guess is not None)

    def transpose(self, args, undefined, cotangents, used):
        n = self.tree.num_leaves
        r1, *multipliers = cotangents
        multipliers = [c for c in multipliers if c is not None]
        r1 = _zeros(args[n]) if r1 is None else r1
        r2 = -sum(multipliers) if multipliers else _zeros(args[n + 1])
        least = not self.inside or bool(multipliers)
        solve = dataclasses.replace(self, settles=least, known=self.known[: n + 2])
        x, y, some = bind(solve, *args[:n], r1, r2, used=(True, least, not least))
        found = [x if undefined[n] else None, -(y if least else some) if undefined[n + 1] else None]
        return [None] * n + found + [None] * (len(args) - n - 2)

    def tangents(self, primals, tangents, outs, used):
        n = self.tree.num_leaves
        self = dataclasses.replace(self, known=self.known[: n + 2])
        *matrix, r1, r2 = primals[: n + 2]
        *moved, dr1, dr2 = tangents[: n + 2]
        dr1 = jnp.zeros_like(r1) if dr1 is None else dr1
        dr2 = jnp.zeros_like(r2) if dr2 is None else dr2
        x, y, _ = self.instead(outs, used)
        if any(t is not None for t in moved):
            ds1, ds2 = self.moved_by(matrix, moved, x, y)
            dr1, dr2 = dr1 - ds1, dr2 - ds2
        least = used is None or used[1]
        dx, dy, some = bind(self, *matrix, dr1, dr2, used=(True, least, not least))
        dy = self.follow(matrix, moved, x, y, dy) if least else None
        return [dx, dy, dy if least else some]

    def instead(self, outs, used):
        return _some_instead(outs, used)

    def follow(self, matrix, moved, x, lam, dlam):
        """Return the tangent of the minimum-norm `lam`: `dlam` plus (1 − P) dJ z with J z = λ, because the range of J
        moves."""
        if self.solver.soft or self.solver.hard or not lam.shape[0] or all(t is None for t in moved):
            return dlam
        none = jnp.zeros_like(x), jnp.zeros_like(lam)
        nearest = functools.partial(bind, dataclasses.replace(self, inside=False), *matrix, none[0])
        z, *_ = nearest(lam, used=(True, False, False))
        _, w = self.moved_by(matrix, moved, z, none[1])
        inside, *_ = nearest(w, used=(True, False, False))
        # as a tangent, because that has a transpose
        _, pw = tangent_of(self._saddle, [*matrix, *none], [*(None for _ in matrix), inside, None])
        return dlam + w - pw

    @property
    def _saddle(self) -> Function:
        return function_of(saddle, self.tree, self.known[: self.tree.num_leaves], self.compiler, 0, 0)

    def moved_by(self, matrix, moved, x, y):
        """Return the tangent of (M x − Jᵀ y, J x) at fixed x and y."""
        return tangent_of(self._saddle, [*matrix, x, y], [*moved, None, None])


def _found(solver, problem, start, guess, least) -> Found:
    """Return the solver's result, with `some` filled in."""
    found = Found(*solver.solve(problem, start, guess, least))
    if found.some is None or guess is not None:  # `some` would keep the part of a guess outside the range of J
        found = found._replace(some=found.multipliers)
    return found


def _some_instead(outs, used) -> list:
    """Return the outputs, with any multipliers (the last output) in place of the minimum-norm ones (the second) if
    `used` does not ask for the latter. Tangents of the accelerations are the same from both: if Jᵀn = 0 along the way,
    dJᵀ n lies in the range of Jᵀ."""
    return list(outs) if used is None or used[1] else [outs[0], outs[-1], *outs[2:]]


def _zeros(operand):
    aval = getattr(operand, "aval", operand)
    return jnp.zeros(aval.shape, aval.dtype)


def function_of(fn, tree, known, compiler, *more) -> Function:
    """Return `fn` as a differentiable core of (model, constraints, q, ...), which `tree` and `known` describe, and of
    the operands `more`."""
    base = jax.tree.unflatten(tree, [0] * tree.num_leaves)
    whole = jax.tree.structure((*base, *more))
    return Function(fn, (), whole, known + (None,) * (whole.num_leaves - tree.num_leaves), compiler)


def tangent_of(core, primals, tangents):
    """Return the tangents of a core's outputs. A tangent of None is zero."""
    active = tuple(t is not None for t in tangents)
    return bind(Tangent(core, active), *primals, *[t for t in tangents if t is not None])


def outputs(solver, model, constraints, q, v, tau, external, warm, used=None) -> list:
    """Return q̈, λ, the number of solves, how it ended (see `result_of`), the largest r1 and r2, and some λ. Outputs
    that are not in `used` (None: all) may be zeros."""
    given = q, v, tau, external
    if solver.recursive:
        model = with_gyrostats(model, constraints, external)
    inside = parted(solver.factorises, model.compiler)
    full = _full(q, jax.tree.leaves((model, constraints, given)))
    problem, start = inside(_begun, (), model, constraints, full, v, tau, external)
    guess = warm if constraints else None
    read = (True,) * 7 if used is None else used
    found = _found(solver, problem, start, guess, any(read[k] for k in (1, 4, 5)) or guess is not None)
    return inside(_ended, (solver, read), problem, start, found, given)


def _begun(model, constraints, q, v, tau, external):
    """Return the problem, and where its solver starts."""
    problem = problem_of(model, constraints, q, v)
    return problem, start_of(problem, tau, external)


def _ended(solver, read, problem, start, found, given) -> list:
    """Return what `outputs` returns, from the solver's result."""
    q, v, *_ = given
    none = jnp.zeros_like(found.steps)
    if found.bodies is None and any(read[3:6]):
        found = found._replace(bodies=body_accelerations(problem, start, found.acceleration))
    end = ended(solver, problem, start, found, v, given) if read[3] else none
    largest = left(problem, start, found) if read[4] or read[5] else (none.astype(q.dtype),) * 2
    return [found.acceleration, found.multipliers, found.steps, end, *largest, found.some]


@dataclasses.dataclass(frozen=True)
class ForwardDynamics(Core):
    """The core that maps (model, constraints, q, v, tau, external, warm) to (q̈, λ, number of solves, how it ended,
    largest r1 and r2, some λ), with implicit derivatives.

    `tree` is the structure of all operands, `matrix` that of (model, constraints, q), which come first.
    """

    solver: Solver
    tree: Any
    matrix: Any
    known: tuple[bytes | None, ...]
    compiler: str = "auto"

    implicit: ClassVar[int] = 7

    def shapes(self, used, avals):
        model, constraints, _, v, *_ = jax.tree.unflatten(self.tree, avals)
        dtype, whole = v[1], jnp.dtype(jnp.int32)
        multipliers = (rows_of(model, constraints),), dtype
        return v, multipliers, ((), whole), ((), whole), ((), dtype), ((), dtype), multipliers

    def run(self, args, used):
        return outputs(self.solver, *jax.tree.unflatten(self.tree, args), used=used)

    def instead(self, outs, used):
        qdd, lam, *_, some = _some_instead(outs, used)
        return [qdd, lam, *[qdd] * 4, some]

    def tangents(self, primals, tangents, outs, used):
        qdd, lam, *_ = self.instead(outs, used)
        *_, external, warm = jax.tree.unflatten(self.tree, list(range(len(primals))))
        if warm is not None:  # the solution does not depend on where iterations start
            primals, tangents = primals[:-1], tangents[:-1]
        n = self.matrix.num_leaves
        known = self.known[:n]
        optional = None if external is None else 0
        core = function_of(residuals, self.matrix, known, self.compiler, 0, 0, optional, 0, 0)
        dr1, dr2 = tangent_of(core, [*primals, qdd, lam], [*tangents, None, None])
        matrix, moved = primals[:n], tangents[:n]
        solve = SaddleSolve(self.solver, self.matrix, known + (None, None), self.compiler, inside=True)
        least = used is None or used[1]
        x, y, some = bind(solve, *matrix, dr1, dr2, used=(True, least, not least))
        y = solve.follow(matrix, moved, qdd, lam, y) if least else None
        none = jnp.zeros(x.shape[-1:], x.dtype)
        return [x, y, none, none, none, none, y if least else some]
