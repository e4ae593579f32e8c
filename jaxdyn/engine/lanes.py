"""The batching primitive: single-state functions whose batch becomes the fastest axis.

`call(core, *args)` binds one JAX primitive. Its operands carry a trailing *lane* axis; `jax.vmap` moves the
batch there (unbatched operands keep a lane axis of size 1, never a broadcast copy), so that code under a core
sees ``(..., lanes)`` however deep the user nests `vmap`. On a CPU long batches run in tiles that fit the cache.

A `Core` is static and hashable: an instance is a key of the compilation cache. Its derivatives are cores
again, `Tangent` and `Pullback`, unless it defines its own (a linear solve does).
"""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe

#: lanes worked on at once on a CPU, by bytes of the widest float
TILE = {4: 256, 8: 128}


class Core(abc.ABC):
    """A pure function of flat lists of lanes-last arrays. Subclasses are frozen dataclasses.

    `used` tells which outputs somebody reads (None: all); a core may leave the others out of its work but
    still returns an array of the right shape for each.
    """

    @abc.abstractmethod
    def run(self, args: tuple, used: tuple[bool, ...] | None) -> list:
        """The outputs."""

    def jvp(self, primals, tangents, outs, used):
        """Tangents of the outputs `outs`, `None` where an output has none; symbolic zeros are `None` too."""
        active = tuple(t is not None for t in tangents)
        lifted = [t for t in tangents if t is not None]
        return bind(Tangent(self, active), *primals, *lifted, used=used)

    def transpose(self, args, undefined, cotangents, used):
        """Cotangents of the operands marked in `undefined`, in which the core is linear; None elsewhere."""
        raise NotImplementedError(f"{type(self).__name__} is not linear")


@dataclasses.dataclass(frozen=True)
class Function(Core):
    """A function of pytrees of lanes-last arrays; `fn` must be a module-level function, `static` hashable."""

    fn: Callable
    static: tuple
    tree: Any

    def run(self, args, used):
        return jax.tree.leaves(self.fn(*self.static, *jax.tree.unflatten(self.tree, args)))


@dataclasses.dataclass(frozen=True)
class Tangent(Core):
    """Forward derivative of `core`: operands are its primals, then tangents of the active ones."""

    core: Core
    active: tuple[bool, ...]

    def run(self, args, used):
        n = len(self.active)
        primals, lifted = args[:n], iter(args[n:])
        place = [k for k, a in enumerate(self.active) if a]

        def f(*xs):
            full = list(primals)
            for k, x in zip(place, xs, strict=True):
                full[k] = x
            return self.core.run(tuple(full), used)

        at = tuple(primals[k] for k in place)
        tangents = tuple(lifted)
        # a tangent may have more lanes than its primal
        at = tuple(widen(x, t.shape[-1]) for x, t in zip(at, tangents, strict=True))
        tangents = tuple(widen(t, x.shape[-1]) for x, t in zip(at, tangents, strict=True))
        out = jax.jvp(f, at, tangents)[1]
        return [jnp.zeros(t.shape, jnp.float32) if t.dtype == jax.dtypes.float0 else t for t in out]

    def transpose(self, args, undefined, cotangents, used):
        n = len(self.active)
        wanted = iter(undefined[n:])
        active = tuple(a and next(wanted) for a in self.active)
        seen = tuple(c is not None for c in cotangents)
        back = Pullback(self.core, active, seen)
        outs = iter(bind(back, *args[:n], *[c for c in cotangents if c is not None]))
        return [None] * n + [next(outs) if u else None for u in undefined[n:]]


@dataclasses.dataclass(frozen=True)
class Pullback(Core):
    """Reverse derivative of `core`: operands are its primals, then cotangents of the outputs in `seen`."""

    core: Core
    active: tuple[bool, ...]
    seen: tuple[bool, ...]

    def run(self, args, used):
        n = len(self.active)
        primals, cts = args[:n], args[n:]
        lanes = max(x.shape[-1] for x in args)
        place = [k for k, a in enumerate(self.active) if a]

        def f(*xs):
            full = list(primals)
            for k, x in zip(place, xs, strict=True):
                full[k] = x
            outs = zip(self.core.run(tuple(full), self.seen), self.seen, strict=True)
            return [widen(o, lanes) for o, s in outs if s]

        outs, pull = jax.vjp(f, *[widen(primals[k], lanes) for k in place])
        return list(pull([widen(c, o.shape[-1]) for c, o in zip(cts, outs, strict=True)]))

    def transpose(self, args, undefined, cotangents, used):
        n = len(self.active)
        seen = [k for k, s in enumerate(self.seen) if s]
        place = [k for k, a in enumerate(self.active) if a]
        active = tuple(k in [p for p, c in zip(place, cotangents, strict=True) if c is not None] for k in range(n))
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


@functools.lru_cache(maxsize=4096)
def _shapes(core: Core, used, avals: tuple) -> tuple:
    """Shapes (without lanes) and dtypes of the outputs."""
    args = [jax.ShapeDtypeStruct((*shape, 1), dtype) for shape, dtype in avals]
    outs = jax.eval_shape(lambda *a: _run(core, used, a), *args)
    return tuple((o.shape[:-1], o.dtype) for o in outs)


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
    shapes = _shapes(core, used, tuple((a.shape[:-1], a.dtype) for a in avals))
    return [jax.core.ShapedArray((*shape, lanes), dtype) for shape, dtype in shapes]


@functools.lru_cache(maxsize=4096)
def _jitted(run, core: Core, used):
    """One jitted function a core, so that a program that binds it often holds its code once."""
    return jax.jit(lambda *args: run(core, used, args))


def _lowering(run):
    return mlir.lower_fun(lambda *args, core, used: _jitted(run, core, used)(*args), multiple_results=True)


mlir.register_lowering(lanes_p, _lowering(_run))
mlir.register_lowering(lanes_p, _lowering(_tiled), platform="cpu")


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


def call(core_of: Callable[[Any], Core], *args):
    """Call a core on single-state pytrees. `core_of` makes the core from the operands' tree structure.

    Returns the flat list of outputs without their lane axis.
    """
    leaves, tree = jax.tree.flatten(args)
    outs = lanes_p.bind(*[jnp.asarray(x)[..., None] for x in leaves], core=core_of(tree), used=None)
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

        outs = call(lambda tree: Function(fn, static, tree), *args)
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
