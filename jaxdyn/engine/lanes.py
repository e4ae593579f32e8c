"""The batching primitive: single-state functions whose batch becomes the fastest axis.

`call(core, *args)` binds one JAX primitive. Its operands carry a trailing *lane* axis; `jax.vmap` moves the
batch there (unbatched operands keep a lane axis of size 1, never a broadcast copy), so that code under a core
sees ``(..., lanes)`` however deep the user nests `vmap`. On a CPU long batches run in tiles that fit the cache.

A `Core` is static and hashable: an instance is a key of the compilation cache. Its derivatives are cores
again, `Tangent` and `Pullback`, unless it defines its own (a linear solve does).

Where the primitive is lowered, `kernels.py` makes one kernel of a core, or leaves it to XLA.
"""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe

from . import kernels, patterns

#: lanes worked on at once on a CPU, by bytes of the widest float
TILE = {4: 256, 8: 128}


class Core(abc.ABC):
    """A pure function of flat lists of lanes-last arrays. Subclasses are frozen dataclasses.

    `used` tells which outputs somebody reads (None: all); a core may leave the others out of its work but
    still returns an array of the right shape for each. `known`, one entry an operand, marks parameters: None for what is
    none, else a byte a number (`scalarise.ZERO`, `ONE`, `MINUS`, `ANY`). `compiler` is "auto", "kernel" or "xla".
    """

    known: tuple[bytes | None, ...]
    compiler: str

    #: outputs of a core that knows its derivative by `tangents`, which reads them; 0: it is differentiated
    implicit: ClassVar[int] = 0

    @abc.abstractmethod
    def run(self, args: tuple, used: tuple[bool, ...] | None) -> list:
        """The outputs."""

    def traced(self, used, avals: tuple):
        """The closed jaxpr at one lane; `avals` are the operands' shapes without lanes, and dtypes."""
        return _traced(self, used, avals)

    def jvp(self, primals, tangents, outs, used):
        """Tangents of the outputs `outs`; symbolic zeros are `None`."""
        active = tuple(t is not None for t in tangents)
        lifted = [t for t in tangents if t is not None]
        return bind(Tangent(self, active), *primals, *outs[: self.implicit], *lifted, used=used)

    def tangents(self, primals, tangents, outs, used) -> list:
        """Tangents of the outputs of an `implicit` core, `None` where one has none: made by binding cores, which become
        one program. None stands for a tangent that is zero."""
        raise NotImplementedError

    def transpose(self, args, undefined, cotangents, used):
        """Cotangents of the operands marked in `undefined`, in which the core is linear; None elsewhere."""
        raise NotImplementedError(f"{type(self).__name__} is not linear")


@dataclasses.dataclass(frozen=True)
class Function(Core):
    """A function of pytrees of lanes-last arrays; `fn` must be a module-level function, `static` hashable."""

    fn: Callable
    static: tuple
    tree: Any
    known: tuple[bytes | None, ...]
    compiler: str = "auto"

    def run(self, args, used):
        return jax.tree.leaves(self.fn(*self.static, *jax.tree.unflatten(self.tree, args)))


class _Derivative(Core):
    """What `Tangent` and `Pullback` share. Operands are the primals of `core`, its outputs if it is implicit, and what the
    derivative is linear in."""

    core: Core
    active: tuple[bool, ...]

    @property
    def given(self) -> int:
        """Operands before those in which it is linear."""
        return len(self.active) + self.core.implicit

    @property
    def compiler(self):
        return self.core.compiler

    def place(self) -> list[int]:
        return [k for k, a in enumerate(self.active) if a]

    def at(self, args, lanes: int) -> tuple:
        """The primals of active operands, all with so many lanes."""
        return tuple(widen(args[k], lanes) for k in self.place())

    def filled(self, xs, others) -> list:
        """`others` with the active ones replaced by `xs`."""
        full = list(others)
        for k, x in zip(self.place(), xs, strict=True):
            full[k] = x
        return full

    def linear(self, args, used) -> Callable:
        """The active tangents to those of the outputs, for an implicit core."""
        n = len(self.active)
        outs = args[n : self.given]

        def tangents(*xs):
            found = self.core.tangents(args[:n], self.filled(xs, [None] * n), outs, used)
            return [jnp.zeros_like(o) if t is None else t for o, t in zip(outs, found, strict=True)]

        return tangents

    def primal(self, args, used) -> Callable:
        """The active operands to the outputs."""
        n = len(self.active)
        return lambda *xs: self.core.run(tuple(self.filled(xs, args[:n])), used)


@dataclasses.dataclass(frozen=True)
class Tangent(_Derivative):
    """Forward derivative of `core`, linear in the tangents of the active operands."""

    core: Core
    active: tuple[bool, ...]

    @property
    def known(self):
        return self.core.known + (None,) * (self.core.implicit + sum(self.active))

    def run(self, args, used):
        # a tangent may have more lanes than its primal
        lanes = max(x.shape[-1] for x in args)
        tangents = tuple(widen(t, lanes) for t in args[self.given :])
        if self.core.implicit:
            return self.linear(args, used)(*tangents)
        out = jax.jvp(self.primal(args, used), self.at(args, lanes), tangents)[1]
        return [jnp.zeros(t.shape, jnp.float32) if t.dtype == jax.dtypes.float0 else t for t in out]

    def transpose(self, args, undefined, cotangents, used):
        n = self.given
        wanted = iter(undefined[n:])
        active = tuple(a and next(wanted) for a in self.active)
        seen = tuple(c is not None for c in cotangents)
        back = Pullback(self.core, active, seen)
        outs = iter(bind(back, *args[:n], *[c for c in cotangents if c is not None]))
        return [None] * n + [next(outs) if u else None for u in undefined[n:]]


@dataclasses.dataclass(frozen=True)
class Pullback(_Derivative):
    """Reverse derivative of `core`, linear in the cotangents of the outputs in `seen`."""

    core: Core
    active: tuple[bool, ...]
    seen: tuple[bool, ...]

    @property
    def known(self):
        return self.core.known + (None,) * (self.core.implicit + sum(self.seen))

    def run(self, args, used):
        lanes = max(x.shape[-1] for x in args)
        f = self.linear(args, self.seen) if self.core.implicit else self.primal(args, self.seen)
        select = lambda *xs: [widen(o, lanes) for o, s in zip(f(*xs), self.seen, strict=True) if s]  # noqa: E731
        cotangents = [widen(c, lanes) for c in args[self.given :]]
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


def widen(x, lanes: int):
    """`x` with at least that many lanes: a single one is repeated."""
    return jnp.broadcast_to(x, (*x.shape[:-1], lanes)) if x.shape[-1] < lanes else x


def _run(core: Core, used, args):
    """The core's outputs, all with the common number of lanes."""
    lanes = max((a.shape[-1] for a in args), default=1)
    with jax.numpy_rank_promotion("allow"):
        outs = core.run(tuple(args), used)
    return [widen(o, lanes) for o in outs]


def _tiled(core: Core, used, args):
    """As `_run`, in tiles of lanes; the last tile is filled with copies of the last lane."""
    lanes = max((a.shape[-1] for a in args), default=1)
    width = TILE[8 if any(a.dtype.itemsize == 8 for a in args) else 4]
    if lanes <= width + width // 2:
        return _run(core, used, args)
    tiles = -(-lanes // width)
    pad = tiles * width - lanes

    def split(a):
        a = jnp.concatenate([a, jnp.repeat(a[..., -1:], pad, -1)], -1) if pad else a
        return jnp.moveaxis(a.reshape(*a.shape[:-1], tiles, width), -2, 0)

    wide = [split(a) for a in args if a.shape[-1] == lanes]

    def one(parts):
        parts = iter(parts)
        return _run(core, used, [next(parts) if a.shape[-1] == lanes else a for a in args])

    outs = jax.lax.map(one, wide)
    return [jnp.moveaxis(o, 0, -2).reshape(*o.shape[1:-1], tiles * width)[..., :lanes] for o in outs]


@functools.lru_cache(maxsize=1024)
def _traced(core: Core, used, avals: tuple):
    args = [jax.ShapeDtypeStruct((*shape, 1), dtype) for shape, dtype in avals]
    return jax.make_jaxpr(lambda *a: _run(core, used, a))(*args)


def shapes(core: Core, used, avals: tuple) -> tuple:
    """Shapes (without lanes) and dtypes of the outputs."""
    return tuple((o.shape[:-1], o.dtype) for o in core.traced(used, avals).out_avals)


def key_of(avals) -> tuple:
    """Operands' shapes without lanes, and dtypes."""
    return tuple((a.shape[:-1], a.dtype) for a in avals)


lanes_p = Primitive("jaxdyn")
lanes_p.multiple_results = True


@functools.lru_cache(maxsize=4096)
def _compiled(core: Core, used):
    # through the primitive's lowering, so that eager calls are tiled as jitted ones are
    return jax.jit(lambda *args: lanes_p.bind(*args, core=core, used=used))


@lanes_p.def_impl
def _impl(*args, core, used):
    return _compiled(core, used)(*args)


@lanes_p.def_abstract_eval
def _abstract(*avals, core, used):
    lanes = max((a.shape[-1] for a in avals), default=1)
    found = shapes(core, used, key_of(avals))
    return [jax.core.ShapedArray((*shape, lanes), dtype) for shape, dtype in found]


@functools.lru_cache(maxsize=4096)
def _jitted(run, core: Core, used):
    """One jitted function a core, so that a program that binds it often holds its code once."""
    return jax.jit(lambda *args: run(core, used, args))


def _lowering(run):
    return mlir.lower_fun(lambda *args, core, used: _jitted(run, core, used)(*args), multiple_results=True)


_on_xla, _tiled_on_xla = _lowering(_run), _lowering(_tiled)


def _lower_cpu(ctx, *operands, core, used):
    """A call of the core's kernel, or what XLA makes of it."""
    target = kernels.target(core, used, tuple((a.shape, a.dtype) for a in ctx.avals_in))
    if target is None:
        return _tiled_on_xla(ctx, *operands, core=core, used=used)
    return kernels.lower(ctx, target, operands)


mlir.register_lowering(lanes_p, _on_xla)
mlir.register_lowering(lanes_p, _lower_cpu, platform="cpu")


def _batch(args, dims, *, core, used):
    size = next(a.shape[d] for a, d in zip(args, dims, strict=True) if d is not None)
    moved = [a if d is None else jnp.moveaxis(a, d, -1) for a, d in zip(args, dims, strict=True)]
    lanes = max(a.shape[-1 if d is None else -2] for a, d in zip(moved, dims, strict=True))
    flat = []
    for a, d in zip(moved, dims, strict=True):
        if d is not None:
            a = jnp.broadcast_to(a, (*a.shape[:-2], lanes, size)).reshape(*a.shape[:-2], lanes * size)
        elif a.shape[-1] > 1:  # lanes of another batch: one copy per member of this one
            a = jnp.broadcast_to(a[..., None], (*a.shape, size)).reshape(*a.shape[:-1], a.shape[-1] * size)
        flat.append(a)
    outs = lanes_p.bind(*flat, core=core, used=used)
    return [o.reshape(*o.shape[:-1], lanes, size) for o in outs], [o.ndim for o in outs]


def _jvp(primals, tangents, *, core, used):
    outs = lanes_p.bind(*primals, core=core, used=used)
    lifted = [None if type(t) is ad.Zero else t for t in tangents]
    touts = core.jvp(primals, lifted, outs, used)
    zeros = [ad.Zero(jax.typeof(o).to_tangent_aval()) for o in outs]
    return outs, [
        z if t is None or not jnp.issubdtype(o.dtype, jnp.floating) else t
        for o, t, z in zip(outs, touts, zeros, strict=True)
    ]


def _transpose(cotangents, *args, core, used):
    undefined = tuple(ad.is_undefined_primal(a) for a in args)
    cts = [None if type(c) is ad.Zero else c for c in cotangents]
    if all(c is None for c in cts):
        return [ad.Zero(a.aval) if u else None for a, u in zip(args, undefined, strict=True)]
    outs = core.transpose(args, undefined, cts, used)
    result = []
    for a, u, o in zip(args, undefined, outs, strict=True):
        if not u:
            result.append(None)
        elif o is None:
            result.append(ad.Zero(a.aval))
        else:  # an operand shared by all lanes collects from all of them
            result.append(o.sum(-1, keepdims=True) if a.aval.shape[-1] < o.shape[-1] else o)
    return result


def _dce(used_outputs, eqn):
    if not any(used_outputs):
        return [False] * len(eqn.invars), None
    before = eqn.params["used"]
    used = tuple(u and (before is None or before[k]) for k, u in enumerate(used_outputs))
    return [True] * len(eqn.invars), eqn.replace(params={**eqn.params, "used": None if all(used) else used})


batching.primitive_batchers[lanes_p] = _batch
ad.primitive_jvps[lanes_p] = _jvp
ad.primitive_transposes[lanes_p] = _transpose
pe.dce_rules[lanes_p] = _dce


def bind(core: Core, *args, used=None) -> list:
    """Bind the primitive to flat operands that already carry lanes."""
    return lanes_p.bind(*args, core=core, used=used)


#: what marks a class whose leaves are parameters: the same for all lanes unless somebody maps over them
PARAMETERS = "parameters_of_lanes"


def _known(args: tuple) -> tuple[bytes | None, ...]:
    """`Core.known` of the leaves of `args`: numbers under objects marked as parameters are looked at if they are there."""
    out: list[bytes | None] = []
    for node in jax.tree.leaves(args, is_leaf=lambda x: hasattr(type(x), PARAMETERS)):
        if hasattr(type(node), PARAMETERS):
            out += [patterns.of(leaf) for leaf in jax.tree.leaves(node)]
        else:
            out.append(None)
    return tuple(out)


def _compiler(things: tuple) -> str:
    """The first choice of compiler that one of these makes."""
    return next((x.compiler for x in things if hasattr(x, "compiler")), "auto")


def call(core_of: Callable[[Any, tuple, str], Core], *args, static: tuple = ()):
    """Call a core on single-state pytrees. `core_of` makes the core from the operands' tree structure, what is known of
    them, and the compiler that an operand or one of `static` names.

    Returns the flat list of outputs without their lane axis.
    """
    leaves, tree = jax.tree.flatten(args)
    core = core_of(tree, _known(args), _compiler((*static, *args)))
    outs = lanes_p.bind(*[jnp.asarray(x)[..., None] for x in leaves], core=core, used=None)
    return [o[..., 0] for o in outs]


def laned(fn: Callable, *static: Any) -> Callable:
    """`fn(*static, *pytrees)`, written for lanes-last arrays, as a function of single states.

    `fn` is a module-level function; `static` are hashable. The result has the derivatives that automatic
    differentiation of `fn` gives.
    """

    def single(*args):
        def out_tree(*xs):
            with jax.numpy_rank_promotion("allow"):
                return fn(*static, *jax.tree.map(lambda x: x[..., None], xs))

        outs = call(lambda tree, known, c: Function(fn, static, tree, known, c), *args, static=static)
        return jax.tree.unflatten(_structure(fn, static, out_tree, args), outs)

    return single


_structures: dict = {}


def _structure(fn, static, out_tree, args):
    """Tree structure of the result, cached by the operands' structure and shapes."""
    leaves, tree = jax.tree.flatten(args)
    key = (fn, static, tree, tuple((jnp.shape(x), jnp.result_type(x)) for x in leaves))
    if key not in _structures:
        _structures[key] = jax.tree.structure(jax.eval_shape(out_tree, *args))
    return _structures[key]
