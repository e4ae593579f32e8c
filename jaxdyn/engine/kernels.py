"""Decides whether a core becomes a *kernel* (code compiled here) or is left to XLA, and emits the kernel's call."""

import contextlib
import contextvars
import functools
import gc
import logging

import numpy as np
from jax.interpreters import mlir

from . import cpu, cuda, host, runtime
from .calls import Kernel, call
from .inline import called, steps, straight
from .kept import programs
from .live import trim
from .ops import TooLarge, Unsupported
from .order import schedule
from .outline import outlined
from .program import Program
from .room import roomy
from .scalarise import scalarise
from .settings import chosen

#: operations beyond which "auto" leaves a program to XLA. On GPUs it is the time of their driver's assembler that grows
#: with the square: 33,000 operations 6 s, 67,000 25 s, 135,000 108 s
LIMITS = {"cpu": 700_000, "cuda": 100_000}

CHOICES = ("auto", "kernel", "xla")
log = logging.getLogger("jaxdyn")


def default() -> str:
    """Return the choice of the environment variable JAXDYN_COMPILER, or "auto"."""
    return chosen("JAXDYN_COMPILER", CHOICES, "auto")


def choice(compiler: str, platform: str = "cpu") -> str:
    """Return "kernel" or "xla". Raises `RuntimeError` if `compiler` asks for kernels and they cannot be compiled."""
    if compiler == "auto":
        compiler = default()
    reason, fix = None if compiler == "xla" else host.unavailable(), "Install llvmlite, or choose"
    if compiler != "xla" and platform == "cuda" and not reason:
        reason, fix = cuda.unavailable(), "Choose"
    if reason and compiler == "kernel":
        raise RuntimeError(f'`compiler="kernel"`: {reason}. {fix} "auto" or "xla".')
    if reason:
        log.info("programs are left to XLA: %s", reason)
    return "xla" if reason else "kernel" if compiler == "auto" else compiler


def effort() -> int:
    """Return LLVM's optimisation level: that of the environment variable JAXDYN_EFFORT, or 2. At level 0, steps
    are also called, rather than copied, more often."""
    return int(chosen("JAXDYN_EFFORT", ("0", "1", "2", "3"), "2"))


#: the list that `watching` fills; None outside of this context
_watched: contextvars.ContextVar[list | None] = contextvars.ContextVar("watched", default=None)


@contextlib.contextmanager
def watching():
    """Yield a list that collects (core, used, shapes and dtypes, shared) of the programs lowered in the context."""
    found: list = []
    token = _watched.set(found)
    try:
        yield found
    finally:
        _watched.reset(token)


def kernel_of(core, used, operands: tuple, platform: str = "cpu") -> Kernel | None:
    """Return the kernel of a core for operands of these shapes and dtypes, or None if XLA compiles the core."""
    if choice(core.compiler, platform) == "xla":
        return None
    if any(shape[-1] == 0 for shape, _ in operands):
        return None
    shared = tuple(k is not None and s[-1] == 1 for k, (s, _) in zip(core.known, operands, strict=True))
    avals = tuple((s[:-1], d) for s, d in operands)
    watched = _watched.get()
    if watched is not None:
        watched.append((core, used, avals, shared))
    single = platform == "cpu" and all(s[-1] == 1 for s, _ in operands)
    aim = host.target() if platform == "cpu" else None
    try:
        found = _kernel(core, used, avals, shared, aim, steps(), single, effort())
        if not isinstance(found, str):
            return found
        log.info("%s is left to XLA: %s", name_of(core), found)
    except cuda.DriverError as reason:
        if "kernel" in (core.compiler, default()):
            raise
        log.warning("%s is left to XLA: %s", name_of(core), reason)
    return None


def program_of(core, used, avals, shared, platform: str = "cpu") -> Program:
    """Return the scalar program of a core. Raises `Unsupported` or `TooLarge` if there is none."""
    known = tuple(k if same else None for k, same in zip(core.known, shared, strict=True))
    return scalarise(core.traced(used, avals), shared, known, LIMITS[platform])


@contextlib.contextmanager
def _uncollected():
    """Switch off Python's collection of reference cycles. Programs have no cycles, and with a million numbers in lists
    and tables the search for them takes a quarter of the time."""
    before = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if before:
            gc.enable()


@programs
def _kernel(*given) -> Kernel | str | None:
    """Return `_made_kernel`, or why there is none. That is kept, too: it may take as long to find out as to compile."""
    try:
        return _made_kernel(*given)
    except (Unsupported, TooLarge) as reason:
        return str(reason)


@roomy
@_uncollected()
def _made_kernel(core, used, avals, shared, aim: host.Target | None, mode, single, level) -> Kernel | None:
    """Return the kernel for the processor `aim`, or for GPUs if that is None."""
    outputs = tuple((o.shape[:-1], o.dtype) for o in core.traced(used, avals).out_avals)
    if not any(np.prod(shape) for shape, _ in outputs):
        return None
    program = program_of(core, used, avals, shared, "cpu" if aim else "cuda")
    kept, outs = trim(program, used)
    if not outs:
        return Kernel("", (), (), shared, outputs)
    if not kept:  # constants
        return None
    program = arranged(program, mode, level) if aim else straight(program)
    found = made(program, aim, single, level) if aim else cuda.made(program)
    return Kernel(found.name, kept, outs, shared, outputs)


def arranged(program: Program, mode: str, level: int) -> Program:
    """Return the program with calls of steps where that is worthwhile, or without calls."""
    return outlined(program) if called(program, mode, not level) else straight(program)


def made(program: Program, aim: host.Target, single: bool = False, level: int = 2) -> host.Made:
    """Return the loaded kernel of a program for the processor `aim`, registered with XLA. `single` compiles for one
    lane only, which would leave most of each wider vector empty and take as many times the memory; `level` is LLVM's
    optimisation level."""
    width = min(aim.vector_bytes, cpu.lane_bytes(program)) if single else aim.vector_bytes
    runtime.provide(width, cpu.numbers(program))
    modules = lambda: cpu.modules(schedule(program), width, not aim.fused)  # noqa: E731
    return host.program("lanes", program.key() + bytes([width]), modules, cpu.HANDLER, level)


def name_of(core) -> str:
    """Return a short description of what a core computes."""
    inner = getattr(core, "core", None)
    if inner is not None:
        return f"{type(core).__name__} of {name_of(inner)}"
    fn = getattr(core, "fn", None)
    return type(core).__name__ if fn is None else fn.__name__


def lower(ctx, kernel: Kernel, operands):
    """Return the call of a kernel, in the form that lowering rules return."""
    devices = getattr(ctx.module_context.axis_context, "num_devices", 1)
    return mlir.lower_fun(functools.partial(call, kernel, devices), multiple_results=True)(ctx, *operands)
