"""The batching primitive, which turns single-state functions into functions whose batch is the last, fastest axis.

`call(core, *args)` binds one JAX primitive. The last axis of its operands is the *lane* axis: a lane is one element of
the batch. `jax.vmap` moves the batch there, however deep `vmap` is nested, so that a core always sees arrays
``(..., lanes)``. Operands without a batch keep a lane axis of size 1 and are not copied. If XLA compiles a core for a
CPU, the core works on long batches in tiles that fit the cache.

When JAX lowers the primitive, `kernels.py` compiles the core to one kernel, or leaves it to XLA.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.interpreters import ad, batching, mlir
from jax.interpreters import partial_eval as pe

from . import kernels, patterns
from .core import Aval, Core, Function, lanes_p, run
from .kept import programs
from .meshes import made, meshless, plain

#: lanes of a tile on a CPU, by the bytes of the widest number
TILE = {4: 256, 8: 128}


def _tiled(core: Core, used, args):
    """Return the outputs of `core.run`, computed in tiles of lanes. The last tile is padded with copies of the last
    lane."""
    lanes = max((a.shape[-1] for a in args), default=1)
    width = TILE[8 if any(a.dtype.itemsize == 8 for a in args) else 4]
    if lanes <= width + width // 2:
        return run(core, used, args)
    tiles = -(-lanes // width)
    pad = tiles * width - lanes

    def split(a):
        a = jnp.concatenate([a, jnp.repeat(a[..., -1:], pad, -1)], -1) if pad else a
        return jnp.moveaxis(a.reshape(*a.shape[:-1], tiles, width), -2, 0)

    wide = [split(a) for a in args if a.shape[-1] == lanes]

    def one(parts):
        parts = iter(parts)
        return run(core, used, [next(parts) if a.shape[-1] == lanes else a for a in args])

    outs = jax.lax.map(one, wide)
    return [jnp.moveaxis(o, 0, -2).reshape(*o.shape[1:-1], tiles * width)[..., :lanes] for o in outs]


def key_of(avals) -> tuple:
    """Return the types of operands."""
    return tuple(Aval(a.shape[:-1], a.dtype) for a in avals)


@programs
def _compiled(core: Core, used):
    # binds the primitive again, so that eager calls are lowered like jitted ones
    return jax.jit(lambda *args: lanes_p.bind(*args, core=core, used=used))


@lanes_p.def_impl
def _impl(*args, core, used):
    # the jitted function binds this primitive again; with checks of numbers JAX would call that again and again
    with jax.disable_jit(False), jax.debug_nans(False), jax.debug_infs(False):
        outs = _compiled(core, used)(*args)
    _check_numbers(core, outs)
    return outs


def _check_numbers(core: Core, outs: list) -> None:
    """Raise `FloatingPointError` if ``jax_debug_nans`` or ``jax_debug_infs`` is on and such a number is in `outs`."""
    for on, kind, found in (
        (jax.config.jax_debug_nans, "nan", jnp.isnan),
        (jax.config.jax_debug_infs, "inf", jnp.isinf),
    ):
        if on and any(jnp.issubdtype(x.dtype, jnp.inexact) and bool(found(x).any()) for x in outs):
            raise FloatingPointError(f"invalid value ({kind}) encountered in {kernels.name_of(core)} of jaxdyn")


@lanes_p.def_abstract_eval
def _abstract(*avals, core, used):
    unknown = next((a.shape[-1] for a in avals if not isinstance(a.shape[-1], int)), None)
    if unknown is not None:
        raise ValueError(f"`jax.export`: the batch has a symbolic size, {unknown}; export one program for each size.")
    lanes = max((a.shape[-1] for a in avals), default=1)
    found = core.shapes(used, key_of(avals))
    return [made(avals, (*shape, lanes), dtype) for shape, dtype in found]


@programs
def _jitted(run, core: Core, used):
    """Return one jitted function for each core, so that a program that binds a core many times contains its code only
    once."""
    return jax.jit(lambda *args: run(core, used, args))


def _lowering(run):
    lower = mlir.lower_fun(lambda *args, core, used: _jitted(run, core, used)(*args), multiple_results=True)
    return lambda ctx, *operands, core, used: lower(plain(ctx), *operands, core=core, used=used)


_on_xla, _tiled_on_xla = meshless(_lowering(run)), meshless(_lowering(_tiled))


def _lower(platform: str, otherwise):
    """Return the lowering rule: it calls the core's kernel, or follows `otherwise` if XLA compiles the core."""

    def rule(ctx, *operands, core, used):
        kernel = kernels.kernel_of(core, used, tuple((a.shape, a.dtype) for a in ctx.avals_in), platform)
        if kernel is None:
            return otherwise(ctx, *operands, core=core, used=used)
        return kernels.lower(plain(ctx), kernel, operands)

    return meshless(rule)


mlir.register_lowering(lanes_p, _on_xla)
mlir.register_lowering(lanes_p, _lower("cpu", _tiled_on_xla), platform="cpu")
mlir.register_lowering(lanes_p, _lower("cuda", _on_xla), platform="cuda")


def _batch(args, dims, *, core, used):
    size = next(a.shape[d] for a, d in zip(args, dims, strict=True) if d is not None)
    # the outer batch comes first among the lanes, as it does in memory. Lanes are merged and split as first axes, so
    # that XLA sees that this undoes the transposes around a kernel
    moved = [a if d is None else jnp.moveaxis(a, d, 0) for a, d in zip(args, dims, strict=True)]
    lanes = max(a.shape[-1] for a in moved)
    if size == 0:  # a bind could not tell: operands that all elements share have one lane, more than none
        avals = tuple(Aval(a.shape[d is not None : -1], a.dtype) for a, d in zip(moved, dims, strict=True))
        outs = [jnp.zeros((0, *shape, lanes), dtype) for shape, dtype in core.shapes(used, avals)]
        return outs, [0] * len(outs)
    flat = []
    for a, d in zip(moved, dims, strict=True):
        if d is not None:
            a = jnp.moveaxis(a, -1, 1)
            a = jnp.broadcast_to(a, (size, lanes, *a.shape[2:])).reshape(size * lanes, *a.shape[2:])
            a = jnp.moveaxis(a, 0, -1)
        elif a.shape[-1] > 1:  # repeat the lanes of another batch for each element of this one
            a = jnp.broadcast_to(a[..., None, :], (*a.shape[:-1], size, lanes)).reshape(*a.shape[:-1], size * lanes)
        flat.append(a)
    outs = lanes_p.bind(*flat, core=core, used=used)
    split = [jnp.moveaxis(o, -1, 0).reshape(size, lanes, *o.shape[:-1]) for o in outs]
    return [jnp.moveaxis(o, 1, -1) for o in split], [0] * len(outs)


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
        else:  # sum the cotangent of an operand that all lanes share
            result.append(o.sum(-1, keepdims=True) if a.aval.shape[-1] < o.shape[-1] else o)
    return result


def _dce(used_outputs, eqn):
    if not any(used_outputs):
        return [False] * len(eqn.invars), None
    before = eqn.params["used"]
    used = tuple(u and (before is None or before[k]) for k, u in enumerate(used_outputs))
    used = None if all(used) else used
    invars = eqn.params["core"].lean(eqn.invars, used)
    read = [v is w for v, w in zip(invars, eqn.invars, strict=True)]
    return read, eqn.replace(invars=invars, params={**eqn.params, "used": used})


batching.primitive_batchers[lanes_p] = _batch
ad.primitive_jvps[lanes_p] = _jvp
ad.primitive_transposes[lanes_p] = _transpose
pe.dce_rules[lanes_p] = _dce


#: attribute of classes whose leaves are parameters: all lanes share them unless `vmap` maps over them
PARAMETERS = "parameters_of_lanes"
#: the attribute by which such an object tells of arrays whose numbers are not examined, because programs read them at
#: computed places only
TABLES = "tables_of_lanes"


def known_of(args: tuple, parameters: tuple[int, ...] = ()) -> tuple[bytes | None, ...]:
    """Return `Core.known` of the leaves of `args`. Leaves of objects that are marked as parameters, and of the args at
    these positions, are examined number by number."""
    out: list[bytes | None] = []
    for k, arg in enumerate(args):
        for node in jax.tree.leaves(arg, is_leaf=lambda x: hasattr(type(x), PARAMETERS)):
            if k in parameters or hasattr(type(node), PARAMETERS):
                tables = {id(x) for x in getattr(node, TABLES, ())}
                out += [patterns.any_of(x.size) if id(x) in tables else patterns.of(x) for x in jax.tree.leaves(node)]
            else:
                out.append(None)
    return tuple(out)


def _compiler(things: tuple) -> str:
    """Return the choice of compiler of the first of these objects that has one, or "auto"."""
    return next((x.compiler for x in things if hasattr(x, "compiler")), "auto")


def _single(core: Core, *leaves) -> list:
    return [o[..., 0] for o in lanes_p.bind(*[x[..., None] for x in leaves], core=core, used=None)]


@programs
def _eager(core: Core):
    """Return one jitted program for calls outside of `jit`. To add and remove the lane axis operation by operation
    would compile a program for each shape."""
    return jax.jit(functools.partial(_single, core))


def call(core_of: Callable[[Any, tuple, str], Core], *args, static: tuple = (), parameters: tuple[int, ...] = ()):
    """Call a core on single-state pytrees and return the flat list of outputs without their lane axis.

    `core_of` makes the core from the operands' tree structure, from what is known of their numbers, and from the
    compiler that an operand or one of `static` asks for. The args at the positions `parameters` are parameters, like
    the leaves of models: all lanes share them unless `vmap` maps over them.
    """
    return _called(*_prepared(core_of, args, static, parameters))


def _prepared(core_of, args: tuple, static: tuple, parameters: tuple[int, ...] = ()) -> tuple[Core, list]:
    """Return the core and its operands."""
    leaves, tree = jax.tree.flatten(args)
    known = known_of(args, parameters)
    return core_of(tree, known, _compiler((*static, *args))), [jnp.asarray(x) for x in leaves]


def _called(core: Core, leaves: list) -> list:
    if any(isinstance(x, jax.core.Tracer) for x in leaves):
        return _single(core, *leaves)
    with jax.disable_jit(False):
        return _eager(core)(*leaves)


def laned(fn: Callable, *static: Any, symmetric: bool = False) -> Callable:
    """Return ``fn(*static, *pytrees)``, written for arrays with lanes last, as a function of single states.

    `fn` is a module-level function; `static` are hashable. Derivatives come from automatic differentiation of `fn`.
    `symmetric`: see `Function`; it gives the function a transpose.
    """

    def single(*args):
        core, leaves = _prepared(lambda tree, known, c: Function(fn, static, tree, known, c, symmetric), args, static)
        outs = _called(core, leaves)
        return jax.tree.unflatten(core.structure(tuple((x.shape, x.dtype) for x in leaves)), outs)

    return single
