"""The call of a kernel in XLA's program: one primitive, which can be sharded by lanes.

The lanes are the first axis of the operands, as the batch is in users' arrays, so that no transpose is needed. The
partitioner knows that the call is parallel over its first axis: a batch that is sharded over devices stays where it is.
"""

import dataclasses
import functools
import string

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Primitive
from jax.interpreters import mlir


@dataclasses.dataclass(frozen=True)
class Kernel:
    """A kernel that XLA can call.

    **Fields:** `name`, under which it is registered; `kept`, the operands that it reads; `made`, the outputs that it
    computes: the others, never read or always zero, are zeros, and without any there is no call; `shared`, for each
    operand, whether all lanes share it; `outputs`, shapes (without lanes) and dtypes.
    """

    name: str
    kept: tuple[int, ...]
    made: tuple[int, ...]
    shared: tuple[bool, ...]
    outputs: tuple


kernel_p = Primitive("jaxdyn_kernel")
kernel_p.multiple_results = True


@kernel_p.def_abstract_eval
def _abstract(*args, kernel: Kernel, lanes: int):
    found = [kernel.outputs[k] for k in kernel.made]
    return [jax.core.ShapedArray((lanes, int(np.prod(shape))), dtype) for shape, dtype in found]


def call(kernel: Kernel, devices: int, *args) -> list:
    """Return the outputs of a kernel, with lanes last as in its operands, in a program for this many devices."""
    lanes = max(a.shape[-1] for a in args)
    flat = []
    for k in kernel.kept:
        a = args[k]
        if kernel.shared[k]:
            # the partitioner splits the first axis of every operand, so each device gets a copy of shared ones
            flat.append(jnp.broadcast_to(a.reshape(1, -1), (devices, a.size)))
        else:
            a = jnp.broadcast_to(a, (*a.shape[:-1], lanes))
            flat.append(jnp.moveaxis(a, -1, 0).reshape(lanes, -1))
    outs = iter(kernel_p.bind(*flat, kernel=kernel, lanes=lanes) if kernel.made else ())
    made = set(kernel.made)
    return [
        jnp.moveaxis(next(outs).reshape(lanes, *shape), 0, -1) if k in made else jnp.zeros((*shape, lanes), dtype)
        for k, (shape, dtype) in enumerate(kernel.outputs)
    ]


def _lower(ctx, *operands, kernel: Kernel, lanes: int, layouts=None):
    _refuse_export(ctx)
    _partitionable(kernel.name)
    wide = [not kernel.shared[k] for k in kernel.kept]
    rule = _rule([a.shape for a in ctx.avals_in], [a.shape for a in ctx.avals_out], wide)
    attributes = {
        "mhlo.frontend_attributes": mlir.ir_attribute({"num_batch_dims": "1"}),
        "sdy.sharding_rule": mlir.ir.Attribute.parse(rule),
    }
    ins, outs = layouts or (None, None)
    lowering = jax.ffi.ffi_lowering(kernel.name, operand_layouts=ins, result_layouts=outs, extra_attributes=attributes)
    return lowering(ctx, *operands)


def _lower_cuda(ctx, *operands, kernel: Kernel, lanes: int):
    """Lower the call for GPUs, with lanes side by side in memory, because neighbouring threads read neighbouring
    lanes."""
    layouts = [(1, 0) if kernel.shared[k] else (0, 1) for k in kernel.kept]  # minor to major
    return _lower(ctx, *operands, kernel=kernel, lanes=lanes, layouts=(layouts, [(0, 1)] * len(ctx.avals_out)))


mlir.register_lowering(kernel_p, _lower)
mlir.register_lowering(kernel_p, _lower_cuda, platform="cuda")


def _refuse_export(ctx) -> None:
    if ctx.module_context.lowering_parameters.for_export:
        raise ValueError(
            "`jax.export`: the program calls kernels, which live in this process. "
            'Export it with `model.with_compiler("xla")`, or set JAXDYN_COMPILER=xla.'
        )


@functools.cache
def _partitionable(name: str) -> None:
    jax.ffi.register_ffi_target_as_batch_partitionable(name)


def _factors():
    """Yield names of factors in the form that Shardy expects: i to z, then z_1 and so on."""
    yield from string.ascii_lowercase[8:]
    n = 0
    while True:
        n += 1
        yield f"z_{n}"


def _rule(ins: list[tuple], outs: list[tuple], wide: list[bool]) -> str:
    """Return Shardy's rule: the first axis of wide operands and of outputs is the lanes, and only this axis may be
    split."""
    names = _factors()
    lanes, sizes, alone = next(names), {}, []

    def axes(shape, is_wide) -> str:
        own = [next(names) for _ in range(1 if is_wide else 2)]
        sizes.update(zip(reversed(own), reversed(shape), strict=False))
        alone.extend(own)
        if is_wide:
            sizes[lanes] = shape[0]
        return f"[{', '.join([lanes, *own] if is_wide else own)}]"

    left = [axes(s, w) for s, w in zip(ins, wide, strict=True)]
    right = [axes(s, True) for s in outs]
    found = ", ".join(f"{k}={sizes[k]}" for k in [lanes, *alone])
    return (
        f"#sdy.op_sharding_rule<({', '.join(left)})->({', '.join(right)}) {{{found}}} "
        f"need_replication={{{', '.join(alone)}}}, custom>"
    )
