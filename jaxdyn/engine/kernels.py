"""Which compiler makes a core's program, and the call of its kernel."""

import dataclasses
import functools
import logging
import os

import jax
import jax.numpy as jnp
from jax.interpreters import mlir

from . import cpu, host, runtime
from .order import schedule
from .program import TooLarge, Unsupported
from .scalarise import scalarise

#: operations beyond which "auto" leaves a program to XLA
LIMIT = 400_000

CHOICES = ("auto", "kernel", "xla")
log = logging.getLogger("jaxdyn")


@dataclasses.dataclass(frozen=True)
class Target:
    """A kernel that XLA can call.

    **Fields:** `name`, under which it is registered; `shared`, the operands that are the same for all lanes; `outputs`,
    shapes (without lanes) and dtypes.
    """

    name: str
    shared: tuple[bool, ...]
    outputs: tuple


def default() -> str:
    """The choice of the environment variable JAXDYN_COMPILER, "auto" if there is none."""
    found = os.environ.get("JAXDYN_COMPILER", "auto")
    if found not in CHOICES:
        raise ValueError(f"JAXDYN_COMPILER is {found!r}; choose one of {', '.join(CHOICES)}.")
    return found


def choice(compiler: str) -> str:
    """"kernel" or "xla". Raises `RuntimeError` if kernels are asked for and cannot be made."""
    if compiler == "auto":
        compiler = default()
    reason = host.unavailable() if compiler != "xla" else None
    if reason and compiler == "kernel":
        raise RuntimeError(f'`compiler="kernel"`: {reason}. Install llvmlite, or choose "auto" or "xla".')
    return "xla" if reason else "kernel" if compiler == "auto" else compiler


def target(core, used, operands: tuple) -> Target | None:
    """The kernel of a core for operands of these shapes and dtypes, None where XLA's path is taken."""
    if choice(core.compiler) == "xla":
        return None
    lanes = max((shape[-1] for shape, _ in operands), default=1)
    shared = tuple(k is not None and s[-1] == 1 for k, (s, _) in zip(core.known, operands, strict=True))
    return _target(core, used, tuple((s[:-1], d) for s, d in operands), shared, lanes == 0)


@functools.lru_cache(maxsize=1024)
def _target(core, used, avals, shared, empty) -> Target | None:
    closed = core.traced(used, avals)
    outputs = tuple((o.shape[:-1], o.dtype) for o in closed.out_avals)
    if empty or not any(o.size for o in closed.out_avals):
        return None
    known = tuple(k if same else None for k, same in zip(core.known, shared, strict=True))
    try:
        program = scalarise(closed, shared, known, LIMIT)
    except (Unsupported, TooLarge) as reason:
        log.info("%s is left to XLA: %s", name_of(core), reason or "too large")
        return None
    key = program.key()
    made = host.target()
    runtime.provide(made.vector_bytes, None)
    name = host.program("lanes", key, lambda: cpu.modules(schedule(program), made.vector_bytes), cpu.HANDLER)
    return Target(name, shared, outputs)


def name_of(core) -> str:
    """What a core computes, in few words."""
    inner = getattr(core, "core", None)
    if inner is not None:
        return f"{type(core).__name__} of {name_of(inner)}"
    fn = getattr(core, "fn", None)
    return type(core).__name__ if fn is None else fn.__name__


def _call(target: Target, *args):
    lanes = max(a.shape[-1] for a in args)
    wide = [
        a if same or a.shape[-1] == lanes else jnp.broadcast_to(a, (*a.shape[:-1], lanes))
        for a, same in zip(args, target.shared, strict=True)
    ]
    outs = [jax.ShapeDtypeStruct((*shape, lanes), dtype) for shape, dtype in target.outputs]
    return jax.ffi.ffi_call(target.name, outs)(*wide)


def lower(ctx, target: Target, operands):
    """The call of a kernel, as a lowering rule returns it."""
    return mlir.lower_fun(functools.partial(_call, target), multiple_results=True)(ctx, *operands)
