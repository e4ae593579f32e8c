"""What runs a compiled program under XLA on a CPU: `runtime.ll`, compiled once a process and size of vector.

A program is an object file with a kernel, perhaps a prologue, a descriptor and a handler that passes XLA's call frame
and the descriptor to `jaxdyn_run_<vector bytes>`. `descriptor` and `handler` write the last two; `provide` makes the
function known to LLVM, so that the program's object finds it when it is loaded.

- ``prologue(ptr inputs, ptr uniform)`` runs once a call. ``inputs[k]`` points to the k-th operand's numbers.
- ``kernel(ptr stage, ptr uniform, ptr arena, i64 vectors)`` runs once a block of lanes, of so many vectors. The stage of
  vector v begins at ``v * stage_bytes``; row r of an operand takes ``lanes * bytes`` bytes of it at
  ``offset + r * lanes * bytes``. All three pointers are multiples of 64; the arena is the thread's own, and what it
  holds at the start is not defined. Lanes beyond the batch are copies of its last lane.

Both run with denormals kept, whatever the calling thread does.
"""

import functools
import importlib.resources
import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax.ffi
import llvmlite.binding as llvm

#: rows, bytes of a number, offset of the first row in a vector's stage (-1: an input shared by all lanes)
Operand = tuple[int, int, int]

#: bytes of a number
NUMBERS = (1, 2, 4, 8)

#: version of the interface that the structures in runtime.ll were written for, where jaxlib comes without its header
VERSION = (0, 3)

_lock = threading.Lock()
_provided: set[str] = set()


def descriptor(
    prologue: str | None,
    kernel: str,
    lanes: int,
    vectors_per_block: int,
    inputs: Sequence[Operand],
    outputs: Sequence[Operand],
    stage_bytes: int,
    uniform_bytes: int,
    arena_bytes: int,
) -> str:
    """Returns IR that defines ``@descriptor``; `prologue` and `kernel` are names of functions in the same module."""
    check(lanes, vectors_per_block, inputs, outputs, stage_bytes)
    operands = [f"{{ i64, i64, i64 }} {{ i64 {r}, i64 {b}, i64 {at} }}" for r, b, at in (*inputs, *outputs)]
    values = [
        f"ptr @{prologue}" if prologue else "ptr null",
        f"ptr @{kernel}",
        *(f"i64 {n}" for n in (lanes, vectors_per_block, len(inputs), len(outputs))),
        "ptr @operands",
        *(f"i64 {n}" for n in (stage_bytes, uniform_bytes, arena_bytes)),
    ]
    kinds = ", ".join(v.split()[0] for v in values)
    return (
        f"@operands = internal constant [{len(operands)} x {{ i64, i64, i64 }}] [{', '.join(operands)}]\n"
        f"@descriptor = internal constant {{ {kinds} }} {{ {', '.join(values)} }}\n"
    )


def check(lanes, vectors_per_block, inputs, outputs, stage_bytes) -> None:
    """Raises ValueError unless the copies of the run-time can serve such a program."""
    if lanes < 1 or lanes & (lanes - 1) or vectors_per_block < 1 or stage_bytes % 64:
        raise ValueError(f"no stage of {stage_bytes} bytes for {vectors_per_block} vectors of {lanes} lanes")
    for rows, size, offset in (*inputs, *outputs):
        shared = offset == -1
        if size not in NUMBERS or not (shared or 0 <= offset <= stage_bytes - rows * lanes * size):
            raise ValueError(f"{rows} rows of {size}-byte numbers at {offset} are not in a stage of {stage_bytes}")
    if any(offset == -1 for _, _, offset in outputs):
        raise ValueError("an output is never shared by the lanes")


def handler(name: str, vector_bytes: int) -> str:
    """Returns IR of the function `name` that XLA calls; it runs the program of ``@descriptor``."""
    run = f"jaxdyn_run_{vector_bytes}"
    return (
        f"declare ptr @{run}(ptr, ptr)\n"
        f"define ptr @{name}(ptr %frame) nounwind {{\n"
        f"  %error = tail call ptr @{run}(ptr %frame, ptr @descriptor)\n"
        "  ret ptr %error\n}\n"
    )


def provide(vector_bytes: int, machine: Any = None) -> str:
    """Returns the name of the function that handlers call, which objects loaded later will find.

    `machine` is the llvmlite `TargetMachine` that compiles it (None: one for this computer). The caller keeps it.
    """
    if vector_bytes < 16 or vector_bytes & (vector_bytes - 1):
        raise ValueError(f"{vector_bytes} bytes are no vector")
    name = f"jaxdyn_run_{vector_bytes}"
    with _lock:
        if name not in _provided:
            llvm.initialize_native_target()
            llvm.initialize_native_asmprinter()
            machine = machine or host_machine()
            module = llvm.parse_assembly(source(vector_bytes, machine.triple))
            module.triple = machine.triple
            module.data_layout = str(machine.target_data)
            # as an object, because an engine would take the machine for its own
            code = llvm.ObjectFileRef.from_data(machine.emit_object(module))
            engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), host_machine())
            engine.add_object_file(code)
            engine.finalize_object()
            llvm.add_symbol(name, engine.get_function_address(name))
            engine.detach()  # never freed: a thread of XLA's may run it while the interpreter exits
            _provided.add(name)
    return name


def host_machine():
    """Returns a new TargetMachine for the processor that this process runs on."""
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    return target.create_target_machine(cpu=llvm.get_host_cpu_name(), features=features, opt=2, jit=True)


def source(vector_bytes: int, triple: str) -> str:
    """Returns `runtime.ll` filled in for a size of vector and a target."""
    # a row of a vector's stage: at most a lane a byte, of 8 bytes each
    pieces = [2**k for k in range((8 * vector_bytes).bit_length())]
    lists = {"PIECE": ("copy", pieces), "NUMBER": ("tail", NUMBERS)}
    processor = {"x86_64": "x86", "amd64": "x86", "aarch64": "aarch64", "arm64": "aarch64"}
    here = processor.get(triple.split("-")[0], "other")

    def section(match: re.Match) -> str:
        kind, name, body = match.groups()
        if kind == "on":
            return body if name == here else ""
        return "".join(body.replace(f"@{name}@", str(value)) for value in lists[name][1])

    text = importlib.resources.files(__package__).joinpath("runtime.ll").read_text()
    text = re.sub(r"^;; (each|on) (\w+)\n(.*?)^;; end\n", section, text, flags=re.DOTALL | re.MULTILINE)
    words = {"VECTOR": vector_bytes, "YIELD": "SwitchToThread" if "windows" in triple else "sched_yield"}
    words |= dict(zip(("MAJOR", "MINOR"), version(), strict=True))
    for name, (function, values) in lists.items():
        words[f"{name}_COUNT"] = len(values)
        words[f"{name}_COPIES"] = ", ".join(f"ptr @{function}_{value}" for value in values)
    return re.sub(r"@(" + "|".join(words) + ")@", lambda m: str(words[m[1]]), text)


@functools.cache
def version() -> tuple[int, int]:
    """Returns the version of XLA's foreign function interface that the installed jaxlib has."""
    header = Path(jax.ffi.include_dir(), "xla/ffi/api/c_api.h")
    if not header.exists():
        return VERSION
    found = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", header.read_text()))
    return int(found["MAJOR"]), int(found["MINOR"])
