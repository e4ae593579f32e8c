"""Programs as functions that XLA can call: choice of processor, compilation, the cache on disk, registration with
JAX."""

import ctypes
import dataclasses
import functools
import hashlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from . import cache, native
from .locks import Lock

#: counts changes in how programs are compiled that the sources here do not show
VERSION = 1

#: features of each level of x86-64 beyond the level below, as LLVM names them
_LEVELS = {
    "x86-64-v2": "cx16 popcnt sse3 ssse3 sse4.1 sse4.2",
    "x86-64-v3": "avx avx2 bmi bmi2 f16c fma lzcnt movbe",
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
}

_FMA = """
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
define void @f(ptr %p) nounwind {
  %x = load <16 x float>, ptr %p, align 4
  %y = call <16 x float> @llvm.fma.v16f32(<16 x float> %x, <16 x float> %x, <16 x float> %x)
  store <16 x float> %y, ptr %p, align 4
  ret void
}
"""


@dataclasses.dataclass(frozen=True)
class Target:
    """The processor to compile for, as LLVM names it, the bytes of its vectors, and LLVM's own version."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    llvm: str

    @property
    def fused(self) -> bool:
        """Return whether the processor is known to have fused multiply-adds."""
        x86 = self.triple.startswith(("x86_64", "i"))
        return not x86 or "+fma" in self.features or self.cpu in ("x86-64-v3", "x86-64-v4") or self.vector_bytes > 16


def unavailable() -> str | None:
    """Return why programs cannot be compiled here, as a sentence for users, or None if they can."""
    with _lock:
        if not _reason:
            _reason.append(_check())
        return _reason[0]


def _check() -> str | None:
    try:
        import llvmlite
    except ModuleNotFoundError as error:
        return "llvmlite is not installed" if error.name == "llvmlite" else f"llvmlite could not be imported: {error}"
    except Exception as error:
        return f"llvmlite could not be imported: {error!r}"
    name = f"llvmlite {getattr(llvmlite, '__version__', 'of unknown version')}"
    try:
        cpu, features = _host()
        text = "define i32 @jaxdyn_check(i32 %x) {\n  %y = mul i32 %x, 3\n  ret i32 %y\n}\n"
        objects = native.compile_ir([text], native.llvm().get_process_triple(), cpu, features)
        answer = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(native.load(objects, "jaxdyn_check"))(14)
    except Exception as error:
        return f"{name} could not be initialised: {error!r}"
    return None if answer == 42 else f"{name} compiles wrong code"


def target() -> Target:
    """Return the processor to compile for: this one, or the one given by JAXDYN_CPU and JAXDYN_VECTOR_BYTES."""
    return _target(os.environ.get("JAXDYN_CPU", ""), os.environ.get("JAXDYN_VECTOR_BYTES", ""))


@functools.lru_cache(maxsize=64)
def _target(asked: str, vector: str) -> Target:
    llvm = native.llvm()
    triple = llvm.get_process_triple()
    cpu, features = (asked, "") if asked else _host()
    if asked == "native":
        cpu, features = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    elif asked:
        _check_cpu(asked)
    if not vector:
        width = _vector_bytes(triple, cpu, features)
    elif vector in ("4", "8", "16", "32", "64"):
        width = int(vector)
    else:
        raise ValueError(f"JAXDYN_VECTOR_BYTES={vector} is none of 4, 8, 16, 32, 64; unset it for this processor's own")
    return Target(triple, cpu, features, width, ".".join(map(str, llvm.llvm_version_info)))


def _host() -> tuple[str, str]:
    """Return name and features of this processor.

    An x86-64 processor is named by its level only. Its other features do not help arithmetic, the code runs on every
    computer of the level, and LLVM takes 15 % less time than for a name with a model of the pipeline (the code is as
    fast).
    """
    llvm = native.llvm()
    has = llvm.get_host_cpu_features()
    if not llvm.get_process_triple().startswith(("x86_64", "amd64")):
        return llvm.get_host_cpu_name(), has.flatten()
    level = "x86-64"
    for name, features in _LEVELS.items():
        if not all(has.get(f) for f in features.split()):
            break
        level = name
    return level, ""


def _check_cpu(name: str) -> None:
    """Raise ValueError if LLVM does not know the processor or, for levels of x86-64, if this one lacks their
    instructions."""
    x86 = native.llvm().get_process_triple().startswith(("x86_64", "amd64"))
    if x86 and (name == "x86-64" or name in _LEVELS):
        if name > _host()[0]:
            raise ValueError(
                f"JAXDYN_CPU={name} has instructions that this processor lacks; unset it or use {_host()[0]}"
            )
        return
    if name == native.llvm().get_host_cpu_name():
        return
    # some names make LLVM terminate the process, so another process tries it
    code = f"import sys; sys.path[:] = {sys.path!r}\nimport llvmlite.binding as llvm\n"
    code += "llvm.initialize_native_target(); llvm.initialize_native_asmprinter()\n"
    code += "target = llvm.Target.from_triple(llvm.get_process_triple())\n"
    code += f"machine = target.create_target_machine(cpu={name!r}, jit=True)\n"
    code += "machine.emit_object(llvm.parse_assembly('define void @f() { ret void }'))\n"
    try:
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ValueError(f"JAXDYN_CPU={name} could not be tried out ({error}); unset it") from None
    if done.returncode or "not a recognized processor" in done.stderr:
        known = "x86-64, x86-64-v2, x86-64-v3, x86-64-v4, native, or another" if x86 else "native or a"
        raise ValueError(f"JAXDYN_CPU={name} is no processor that LLVM knows; use {known} name of LLVM's, or unset it")


def _vector_bytes(triple: str, cpu: str, features: str) -> int:
    """Return the bytes of a vector that the processor multiplies and adds in one instruction, according to LLVM's
    assembly."""
    llvm = native.llvm()
    module = llvm.parse_assembly(_FMA, llvm.create_context())
    assembly = native.machine(triple, cpu, features, 0).emit_assembly(module)
    return 16 if "vfmadd" not in assembly else 64 if "zmm" in assembly else 32


def compile_ir(modules: list[str], target: Target, opt: int = 2) -> list[bytes]:
    """Return the object code of LLVM modules, compiled on all cores, joined into one file if possible."""
    return native.compile_ir(modules, target.triple, target.cpu, target.features, opt)


load = native.load


@dataclasses.dataclass
class Made:
    """A program loaded into this process: its name, address, bytes of object code, and the seconds that LLVM took (0 if
    the code came from the cache)."""

    name: str
    lock: Lock = dataclasses.field(default_factory=Lock)
    address: int = 0
    size: int = 0
    seconds: float = 0.0


_log = logging.getLogger(__name__)
_lock = Lock()
_reason: list[str | None] = []
_made: dict[str, Made] = {}
_registered: dict[tuple[str, str], object] = {}


@functools.cache
def _compiler() -> bytes:
    """Return a hash of the code that compiles programs, so that programs compiled by other versions of it are not
    used."""
    found = hashlib.sha256(str(VERSION).encode())
    for path in sorted(Path(__file__).parent.glob("*")):
        if path.suffix in (".py", ".ll"):
            found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.digest()


def name_of(key: bytes, symbol: str, target: Target, opt: int = 2) -> str:
    """Return the name of a program: a hash of its content, the target, LLVM's version and the code that compiles
    programs."""
    parts = [key, symbol.encode(), *(str(v).encode() for v in dataclasses.astuple(target)), str(opt).encode()]
    found = hashlib.sha256(_compiler())
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return f"jaxdyn_{found.hexdigest()[:40]}"


def made(key: bytes, modules: Callable[[], list[str]], symbol: str, opt: int = 2) -> Made:
    """Return a loaded program: one of equal content in this process, one from disk, or one compiled from `modules()`.

    If several threads ask for the same program, one compiles it and the others wait.
    """
    aim = target()
    name = name_of(key, symbol, aim, opt)
    with _lock:
        program = _made.setdefault(name, Made(name))
    with program.lock:
        if not program.address:
            _make(program, modules, symbol, aim, opt)
    return program


def _make(program: Made, modules: Callable[[], list[str]], symbol: str, aim: Target, opt: int) -> None:
    objects = cache.get(program.name)
    if objects is not None:
        try:
            program.size, program.address = sum(map(len, objects)), native.load(objects, symbol)
            return
        except (RuntimeError, ValueError):
            pass  # stored under this name by another compiler: compile again
    texts = modules()
    start = time.perf_counter()
    objects = compile_ir(texts, aim, opt)
    program.seconds = time.perf_counter() - start
    address = native.load(objects, symbol)
    cache.put(program.name, objects)
    program.size, program.address = sum(map(len, objects)), address


def program(hint: str, key: bytes, modules: Callable[[], list[str]], symbol: str, opt: int = 2) -> Made:
    """Return a program that XLA can call by its name. The name is a hash, so that executables in JAX's cache on disk
    find their programs.

    `key` contains everything that the program depends on, except for the processor and the compiler. `modules` returns
    the LLVM text if it is needed; `symbol` is the function in it that XLA calls. `hint` is for messages only.
    """
    found = made(key, modules, symbol, opt)
    if (found.name, "cpu") not in _registered:
        register(found.name, found.address)
        _log.debug("%s: %d bytes of code, LLVM took %.2f s (%s)", hint, found.size, found.seconds, found.name)
    return found


def register(name: str, address: int, platform: str = "cpu") -> None:
    """Make a function known to XLA under a name. Repeated calls have no effect."""
    with _lock:
        if (name, platform) in _registered:
            return
        import jax.errors
        import jax.ffi

        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        capsule = new(address, None, None)
        try:
            jax.ffi.register_ffi_target(name, capsule, platform=platform)
        except jax.errors.JaxRuntimeError as error:
            # the name is a hash of the content: the function of an earlier import of this package is the same
            if "Duplicate FFI handler" not in str(error):
                raise
        _registered[name, platform] = capsule
