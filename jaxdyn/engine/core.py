"""Cores: functions of batched arrays, each of which is compiled to one program, and their derivatives.

Elements of the batch are called *lanes*; they are the last axis of every array. A `Core` is static and hashable, so an
instance serves as a key of the compilation cache. Its derivatives are cores again, `Tangent` and `Pullback`. An
*implicit* core, such as a linear solve, has a derivative rule of its own; all cores that this rule binds are compiled
to one program.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive

from .kept import parts, programs
from .meshes import alike, meshless
from .room import roomy


class _Lanes(Primitive):
    """The primitive of cores."""

    multiple_results = True

    def bind(self, *args, **params):
        """Bind the primitive to operands that vary over the same axes of a mesh."""
        return super().bind(*alike(args), **params)


lanes_p = _Lanes("jaxdyn")


def bind(core: "Core", *args, used=None) -> list:
    """Bind the primitive to flat operands whose last axis is the lanes, and return the outputs."""
    return lanes_p.bind(*args, core=core, used=used)


class Aval(NamedTuple):
    """The shape without lanes, and the dtype, of an operand; what constraints ask of an array without its numbers."""

    shape: tuple[int, ...]
    dtype: Any


class Core(abc.ABC):
    """A pure function of flat lists of arrays whose last axis is the lanes. Subclasses are frozen dataclasses.

    `used` marks the outputs that are read (None: all). A core may skip the computation of the others, but returns an
    array of the right shape for each. `known` has one entry for each operand: for parameters of a robot, one byte for
    each number (see `patterns.py`), for other operands None. `compiler` is "auto", "kernel" or "xla".
    """

    known: tuple[bytes | None, ...]
    compiler: str

    #: number of outputs of an implicit core, whose derivative is `tangents`; 0 for other cores, where JAX
    #: differentiates `run`
    implicit: ClassVar[int] = 0

    @property
    def selective(self) -> bool:
        """Return whether `run` depends on `used`. If so, each choice of outputs has a trace of its own."""
        return True

    @abc.abstractmethod
    def run(self, args: tuple, used: tuple[bool, ...] | None) -> list:
        """Return the outputs."""

    def traced(self, used, avals: tuple[Aval, ...]):
        """Return the closed jaxpr for one lane and operands of these types."""
        return traces(self, used if self.selective else None, avals)[0]

    def shapes(self, used, avals: tuple) -> tuple:
        """Return the outputs' shapes without lanes, and dtypes. A subclass that knows them without a trace overrides
        this, which saves a trace if only some of the outputs are read."""
        return tuple((o.shape[:-1], o.dtype) for o in self.traced(used, avals).out_avals)

    def jvp(self, primals, tangents, outs, used):
        """Return the tangents of the outputs `outs`. None represents a symbolic zero."""
        active = tuple(t is not None for t in tangents)
        lifted = [t for t in tangents if t is not None]
        return bind(Tangent(self, active), *primals, *outs[: self.implicit], *lifted, used=used)

    def instead(self, outs, used) -> list:
        """Return the outputs of an `implicit` core. If only the results in `used` are needed, other arrays replace the
        outputs that `tangents` does not read."""
        return list(outs)

    def lean(self, args, used) -> list:
        """Return the operands, with other arrays in place of those that are not read, so that these need not be
        computed."""
        return list(args)

    def tangents(self, primals, tangents, outs, used) -> list:
        """Return the tangents of the outputs of an `implicit` core, by binding cores, which are compiled to one
        program. In arguments and results, None represents zero."""
        raise NotImplementedError

    def transpose(self, args, undefined, cotangents, used):
        """Return the cotangents of the operands marked in `undefined`, and None for the others. The core is linear in
        the marked operands."""
        raise NotImplementedError(f"{type(self).__name__} is not linear")


@dataclasses.dataclass(frozen=True)
class Function(Core):
    """A function of pytrees of arrays with lanes last. `fn` is a module-level function; `static` is hashable. If
    `symmetric`, its result is one array, a symmetric matrix times its last operand."""

    fn: Callable
    static: tuple
    tree: Any
    known: tuple[bytes | None, ...]
    compiler: str = "auto"
    symmetric: bool = False

    @property
    def selective(self):
        return False

    def run(self, args, used):
        return jax.tree.leaves(self.result(args))

    def transpose(self, args, undefined, cotangents, used):
        if not self.symmetric or any(undefined[:-1]):
            return super().transpose(args, undefined, cotangents, used)
        return [None] * (len(args) - 1) + bind(self, *args[:-1], *cotangents)

    def result(self, args):
        """Return the pytree of the outputs."""
        return self.fn(*self.static, *jax.tree.unflatten(self.tree, args))

    def structure(self, avals: tuple):
        """Return the structure of the pytree of the outputs."""
        return _structure(self, avals)


class _Derivative(Core):
    """Base class of `Tangent` and `Pullback`. The operands are the primals of `core`, the outputs of `core` if it is
    implicit, and then the operands in which the derivative is linear."""

    core: Core
    active: tuple[bool, ...]

    @property
    def given(self) -> int:
        """The number of operands before those in which the derivative is linear."""
        return len(self.active) + self.core.implicit

    @property
    def compiler(self):
        return self.core.compiler

    def place(self) -> list[int]:
        return [k for k, a in enumerate(self.active) if a]

    def at(self, args, lanes: int) -> tuple:
        """Return the primals of active operands, widened to `lanes` lanes."""
        return tuple(widen(args[k], lanes) for k in self.place())

    def filled(self, xs, others) -> list:
        """Return `others` with the active operands replaced by `xs`."""
        full = list(others)
        for k, x in zip(self.place(), xs, strict=True):
            full[k] = x
        return full

    def lean(self, args, used) -> list:
        n = len(self.active)
        outs = self.core.instead(args[n : self.given], used) if self.core.implicit else ()
        return [*args[:n], *outs, *args[self.given :]]

    def linear(self, args, used) -> Callable:
        """Return the function that maps active tangents to the tangents of an implicit core's outputs."""
        n = len(self.active)
        outs = args[n : self.given]

        def tangents(*xs):
            found = self.core.tangents(args[:n], self.filled(xs, [None] * n), outs, used)
            if any(t is None for t in found):  # `outs` may be other arrays, see `instead`
                shapes = self.core.shapes(used, tuple(Aval(a.shape[:-1], a.dtype) for a in args[:n]))
                none = [jnp.zeros((*shape, outs[0].shape[-1]), dtype) for shape, dtype in shapes]
                found = [z if t is None else t for z, t in zip(none, found, strict=True)]
            return found

        return tangents

    def primal(self, args, used) -> Callable:
        """Return the function that maps active operands to the outputs."""
        n = len(self.active)
        return lambda *xs: self.core.run(tuple(self.filled(xs, args[:n])), used)


@dataclasses.dataclass(frozen=True)
class Tangent(_Derivative):
    """The forward derivative of `core`, linear in the tangents of the active operands."""

    core: Core
    active: tuple[bool, ...]

    @property
    def known(self):
        return self.core.known + (None,) * (self.core.implicit + sum(self.active))

    @property
    def selective(self):
        return self.core.selective

    def shapes(self, used, avals):
        # reverse derivatives bind a tangent, whose trace nobody reads, and transpose it. Whole numbers have no tangent
        found = self.core.shapes(None, avals[: len(self.active)])
        return tuple((shape, dtype if jnp.issubdtype(dtype, jnp.inexact) else jnp.float32) for shape, dtype in found)

    def run(self, args, used):
        # a tangent may have more lanes than its primal
        lanes = lanes_of(args)
        tangents = widen(tuple(args[self.given :]), lanes)
        if self.core.implicit:
            out = self.linear(args, used)(*tangents)
        else:
            out = jax.jvp(self.primal(args, used), self.at(args, lanes), tangents)[1]
        shapes = self.shapes(used, tuple(Aval(x.shape[:-1], x.dtype) for x in args))
        return [t if t.dtype == dtype else jnp.zeros(t.shape, dtype) for t, (_, dtype) in zip(out, shapes, strict=True)]

    def transpose(self, args, undefined, cotangents, used):
        n = self.given
        wanted = iter(undefined[n:])
        active = tuple(a and next(wanted) for a in self.active)
        seen = tuple(c is not None for c in cotangents)
        back = Pullback(self.core, active, seen)
        outs = iter(bind(back, *back.lean((*args[:n], *[c for c in cotangents if c is not None]), None)))
        return [None] * n + [next(outs) if u else None for u in undefined[n:]]


@dataclasses.dataclass(frozen=True)
class Pullback(_Derivative):
    """The reverse derivative of `core`, linear in the cotangents of the outputs in `seen`."""

    core: Core
    active: tuple[bool, ...]
    seen: tuple[bool, ...]

    @property
    def selective(self):
        return False

    @property
    def known(self):
        return self.core.known + (None,) * (self.core.implicit + sum(self.seen))

    def shapes(self, used, avals):
        return tuple(avals[k] for k in self.place())

    def lean(self, args, used):
        return super().lean(args, self.seen)

    def run(self, args, used):
        lanes = lanes_of(args)
        f = self.linear(args, self.seen) if self.core.implicit else self.primal(args, self.seen)
        select = lambda *xs: [widen(o, lanes) for o, s in zip(f(*xs), self.seen, strict=True) if s]  # noqa: E731
        cotangents = widen(list(args[self.given :]), lanes)
        at = self.at(args, lanes)
        if self.core.implicit:
            return list(jax.linear_transpose(select, *at)(cotangents))
        return list(jax.vjp(select, *at)[1](cotangents))

    def transpose(self, args, undefined, cotangents, used):
        n = self.given
        seen = [k for k, s in enumerate(self.seen) if s]
        read = [p for p, c in zip(self.place(), cotangents, strict=True) if c is not None]
        active = tuple(k in read for k in range(len(self.active)))
        outs = bind(Tangent(self.core, active), *args[:n], *[c for c in cotangents if c is not None])
        return [None] * n + [outs[k] if u else None for k, u in zip(seen, undefined[n:], strict=True)]


def lanes_of(*trees) -> int:
    """Return the largest number of lanes of the arrays of trees, at least 1."""
    return max((x.shape[-1] for x in jax.tree.leaves(trees)), default=1)


def widen(tree, lanes: int):
    """Return arrays, one or a tree of them, with at least `lanes` lanes each, by repeating single lanes."""
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (*x.shape[:-1], lanes)) if x.shape[-1] < lanes else x, tree)


def joined(parts: Sequence[jax.Array], axis: int = 0) -> jax.Array:
    """Concatenate arrays along an axis, widened to the largest number of lanes among them."""
    return jnp.concatenate(widen(list(parts), lanes_of(parts)), axis)


def at_or_zero(cells: jax.Array, places) -> jax.Array:
    """Return the cells (n, ...) at `places`, zero where a place is n."""
    none = jnp.zeros((1, *cells.shape[1:]), cells.dtype)
    return jnp.take(jnp.concatenate([cells, none]), places, axis=0, mode="clip")


def run(core: Core, used, args):
    """Return the core's outputs, all widened to the common number of lanes."""
    lanes = lanes_of(args)
    with jax.numpy_rank_promotion("allow"):
        outs = core.run(tuple(args), used)
    return [widen(o, lanes) for o in outs]


@programs
@meshless
@roomy
def traces(core: Core, used, avals: tuple):
    """Return the closed jaxpr of `Core.traced` and, for a `Function`, the structure of its result."""
    args = [jax.ShapeDtypeStruct((*shape, 1), dtype) for shape, dtype in avals]
    if not isinstance(core, Function):
        return jax.make_jaxpr(lambda *a: run(core, used, a))(*args), None
    with jax.numpy_rank_promotion("allow"):
        closed, result = jax.make_jaxpr(lambda *a: core.result(a), return_shape=True)(*args)
    return closed, jax.tree.structure(result)


@parts
def _structure(core: Function, avals: tuple):
    # cached for longer than traces, since every call outside of `jit` asks for it
    return traces(core, None, avals)[1]
