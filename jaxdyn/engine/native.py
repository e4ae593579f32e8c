"""Compiles LLVM's text to code in this process, with llvmlite and on several cores.

Loaded code is never freed, since one of XLA's threads may run it while the interpreter exits. A fork waits until no
thread is inside LLVM, so that LLVM's locks are open in the child, which can go on compiling.
"""

import ctypes
import ctypes.util
import itertools
import os
import sys
import threading
from concurrent.futures.thread import ThreadPoolExecutor  # early: a fork closes our gate before its lock

from .objects import joined, undefined

#: most bytes of memory for compiling, and bytes needed for each byte of text (without FMA: ten times the usual)
MEMORY, MEMORY_PER_BYTE = 2_500_000_000, 250

#: functions that objects call if the processor lacks an instruction
_MATHS = ("fma", "fmaf", "floor", "floorf", "rint", "rintf", "sqrt", "sqrtf", "roundeven", "roundevenf")


class _Gate:
    """A gate that lets any number of threads into LLVM, but none while the process forks."""

    def __init__(self):
        self.condition = threading.Condition()
        self.inside = 0
        self.others = None

    def __enter__(self):
        with self.condition:
            self.inside += 1

    def __exit__(self, *error):
        with self.condition:
            self.inside -= 1
            self.condition.notify_all()

    def close(self):
        self.condition.acquire()
        while self.inside:
            self.condition.wait()
        if "llvmlite.binding" in sys.modules:  # other packages may be inside LLVM and hold llvmlite's own lock
            self.others = getattr(sys.modules["llvmlite.binding"].ffi.lib, "_lock", None)
            if self.others is not None:
                self.others.__enter__()

    def open(self):
        if self.others is not None:
            self.others.__exit__(None, None, None)
            self.others = None
        self.condition.release()


_gate = _Gate()
_state: dict = {}
_count = itertools.count()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_gate.close, after_in_parent=_gate.open, after_in_child=_gate.open)


def llvm():
    """Return llvmlite's `binding`, initialised for this computer."""
    import llvmlite.binding as binding

    if not _state.get("ready"):
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        _state["ready"] = True
    return binding


def machine(triple: str, cpu: str, features: str, opt: int = 2):
    """Return a new llvmlite `TargetMachine`.

    Its code addresses constants relative to itself, and functions through stubs. It works anywhere in memory without
    the 64-bit addresses in instructions that LLVM's large model needs (5 to 10 % slower).
    """
    target = llvm().Target.from_triple(triple)
    return target.create_target_machine(cpu=cpu, features=features, opt=opt, reloc="pic", codemodel="default", jit=True)


def cores() -> int:
    """Return how many processor cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


def compile_ir(modules: list[str], triple: str, cpu: str, features: str, opt: int = 2) -> list[bytes]:
    """Return the object code of LLVM modules, joined into one file if the format is known.

    Several modules are compiled in parallel, on as many cores as there are. Raises RuntimeError if LLVM does not accept
    the text.
    """
    binding = llvm()
    objects = [b""] * len(modules)

    def work(k: int) -> None:
        objects[k] = _emit(binding, modules[k], machine(triple, cpu, features, opt))

    order = sorted(range(len(modules)), key=lambda k: -len(modules[k]))
    largest = max(map(len, modules), default=0)
    threads = min(cores(), len(modules), int(MEMORY / (MEMORY_PER_BYTE * largest + 1)))
    with _gate:
        if threads < 2:
            for k in order:
                work(k)
        else:
            with ThreadPoolExecutor(threads, "jaxdyn-llvm") as pool:
                list(pool.map(work, order))
    return joined(objects)


def _emit(binding, text: str, machine) -> bytes:
    """Return a module's object code. Every module has its own context, so that threads share nothing."""
    context = binding.create_context()
    module = binding.parse_assembly(text, context)
    try:
        module.triple = machine.triple
        module.verify()
        return _emit_unlocked(binding, machine, module)
    finally:
        module.close()
        context.close()


def _emit_unlocked(binding, machine, module) -> bytes:
    """Return `machine.emit_object(module)`, without the lock with which llvmlite admits one thread at a time.

    LLVM does not need this lock: it protects what threads share, and these threads share nothing.
    """
    lib = binding.ffi.lib
    emit = getattr(lib.LLVMPY_TargetMachineEmitToMemory, "_cfn", None)
    if emit is None or not emit.argtypes:
        return machine.emit_object(module)
    with binding.ffi.OutputString() as error:
        buffer = emit(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return ctypes.string_at(lib.LLVMPY_GetBufferStart(buffer), lib.LLVMPY_GetBufferSize(buffer))
    finally:
        lib.LLVMPY_DisposeMemoryBuffer(buffer)


def load(objects: list[bytes], symbol: str) -> int:
    """Link the objects of one program into the process, permanently, and return the address of `symbol`.

    Undefined names are looked up in the process and among the names given to `llvmlite.binding.add_symbol`. Raises
    RuntimeError if a name is not found or an object is damaged.
    """
    binding = llvm()
    with _gate:
        objects = joined(objects)
        builder = binding.JITLibraryBuilder().add_current_process().export_symbol(symbol)
        for data in objects:
            builder.add_object_img(data)
        if len(objects) == 1:
            for name in undefined(objects[0]) or ():
                address = _address(binding, name)
                if address:
                    builder.import_symbol(name, address)
                elif name != "_GLOBAL_OFFSET_TABLE_":
                    raise RuntimeError(f"compiled code needs the function {name}, which this process does not have")
        tracker = builder.link(_linker(binding), f"jaxdyn{next(_count)}")
        address = tracker[symbol]
        tracker.detach()  # otherwise the code is freed with its Python object
    if not address:
        raise RuntimeError(f"compiled code has no function {symbol}")
    return address


_linker_lock = threading.Lock()


def _linker(binding):
    """Return the process's linker. It puts an object into one piece of memory, and reports missing names, where MCJIT
    would end the process."""
    with _linker_lock:
        if "linker" not in _state:
            made = binding.create_lljit_compiler(use_jit_link=True, suppress_errors=True)
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))  # never freed, not even at the interpreter's exit
            _state["linker"] = made
        return _state["linker"]


def _address(binding, name: str) -> int:
    """Return a function's address, or 0 if there is none."""
    found = binding.address_of_symbol(name)
    if found:
        return found
    # LLVM searches the names that it knows, which may not include the C library
    math = ctypes.util.find_library("m") if name in _MATHS else None
    for library in (None, math):
        try:
            function = getattr(ctypes.CDLL(library), name)
        except (AttributeError, OSError, TypeError):
            continue
        return ctypes.cast(function, ctypes.c_void_p).value or 0
    return 0
