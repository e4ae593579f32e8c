"""Counts of what programs cost, shown by `jaxdyn info`."""

import dataclasses

from . import cpu, host
from .inline import steps
from .kernels import arranged, effort, made, name_of, program_of
from .live import trim
from .ops import TooLarge, Unsupported
from .order import alive, schedule


@dataclasses.dataclass(frozen=True)
class Facts:
    """Counts of a core's program.

    **Fields:** `core`, what it computes; `path`, "kernel", or the reason why XLA compiles it; `operations` of a lane;
    `shared`, operations done once a call for all lanes; `compiled`, operations in the code, where those of a called
    step count once; `alive`, the most values alive at once; `bytes` of code; `seconds` that LLVM took, 0 if the code
    came from the cache.
    """

    core: str
    path: str
    operations: int = 0
    shared: int = 0
    compiled: int = 0
    alive: int = 0
    bytes: int = 0
    seconds: float = 0.0


def facts(core, used, avals, shared) -> Facts:
    """Return the facts of a program that `kernels.watching` listed."""
    try:
        program = _arranged(core, used, avals, shared)
    except (Unsupported, TooLarge) as reason:
        return Facts(name_of(core), f"XLA: {reason}")
    found = made(program, host.target(), level=effort())
    return dataclasses.replace(_counted(core, program), bytes=found.size, seconds=found.seconds)


def counts(core, used, avals, shared) -> Facts:
    """Return the facts that need no compilation: all but bytes and seconds. Raises `Unsupported` or `TooLarge` if there
    is no kernel."""
    return _counted(core, _arranged(core, used, avals, shared))


def memory(core, used, avals, shared) -> int:
    """Return the bytes that a kernel needs for a single lane while it runs: for operands, outputs and intermediate
    values. Raises `Unsupported` or `TooLarge` if there is no kernel."""
    return cpu.memory(schedule(_arranged(core, used, avals, shared)))


def _arranged(core, used, avals, shared):
    program = program_of(core, used, avals, shared)
    trim(program, used)
    return arranged(program, steps(), effort())


def _counted(core, program) -> Facts:
    s = schedule(program)
    count = sum(isinstance(st, int) for body in s.body.values() for st in body)
    once = sum(isinstance(st, int) for st in s.uniform)
    compiled, met = count + once, set()
    for index, mask in s.masks.items():
        template = program.calls[index].template
        size = template.routine(mask).size
        compiled += 0 if (template, mask) in met else size
        met.add((template, mask))
        count, once = (count, once + size) if template.uniform else (count + size, once)
    return Facts(name_of(core), "kernel", count, once, compiled, alive(s))
