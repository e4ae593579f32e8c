"""Programs on NVIDIA's GPUs: PTX stored on disk, loaded by the driver, and registered with JAX for the platform "CUDA".

The driver is loaded only when the first program is lowered for a GPU. It compiles PTX for the GPUs of the machine and
stores the result on disk itself. XLA calls a program's *handler*, which is compiled for the host and launches the
kernel on XLA's stream (`cuda.ll`).
"""

import ctypes
import functools
import importlib.resources
import time

from . import cache, host, ptx
from .locks import Lock
from .order import schedule
from .program import Program

#: the oldest driver with libraries of kernels for all devices, in the driver's own version numbers
DRIVER = 12000
#: the oldest driver for `ptx.spilled`, and the compute capability for which that was measured
SPILLED, MEASURED = 13000, (9, 0)
#: the least compute capability that the PTX supports
CAPABILITY = (7, 0)

_HANDLER = "jaxdyn_handler"
_LAUNCH = "jaxdyn_launch"
_lock = Lock()
_made: dict[str, host.Made] = {}


class DriverError(RuntimeError):
    """A function of the driver failed."""


def unavailable() -> str | None:
    """Return why programs cannot run on a GPU here, as a sentence for users, or None if they can."""
    return host.unavailable() or _unavailable()


@functools.cache
def _unavailable() -> str | None:
    try:
        ptx.target()
        driver()
    except (OSError, RuntimeError) as error:
        return str(error)
    return None


def made(program: Program) -> host.Made:
    """Return a program that is loaded and registered with JAX for the platform "CUDA" under `Made.name`, a hash.

    Wide operands and outputs are (rows, lanes) in memory, shared operands (rows,), whatever their shapes are.
    `Made.size` counts the bytes of PTX, `Made.seconds` the time of LLVM and of the driver.

    **Raises** `Unsupported` for more operands than a kernel can have, `DriverError` if the driver reports an error.
    """
    name = host.name_of(program.key(), ptx.KERNEL, ptx.target())
    with _lock:
        found = _made.setdefault(name, host.Made(name))
    with found.lock:
        if not found.address:
            start = time.perf_counter()
            text = _text(name, program)
            if driver().spills and ptx.worthwhile(program, text):
                text = ptx.spilled(text)
            kernel = driver().load(text)
            found.size, found.seconds = len(text), time.perf_counter() - start
            modules = [handler(program, driver().launch, kernel)]
            address = host.load(host.compile_ir(modules, host.target()), _HANDLER)
            host.register(name, address, "CUDA")
            found.address = address
    return found


def _text(name: str, program: Program) -> str:
    """Return the program's PTX, from disk if it is there."""
    objects = cache.get(name)
    if objects is None:
        objects = [ptx.assembled(ptx.text(schedule(program))).encode()]
        cache.put(name, objects)
    return objects[0].decode()


def handler(program: Program, launch: int, kernel: int) -> str:
    """Return LLVM IR of the function that XLA calls, which passes a description of the program to the code of
    `cuda.ll`."""
    operands = [(rows, int(shared)) for rows, _, shared in program.inputs]
    operands += [(len(rows), 0) for rows in program.outputs]
    listed = ", ".join(f"{{ i64, i64 }} {{ i64 {rows}, i64 {shared} }}" for rows, shared in operands)
    address = "ptr inttoptr (i64 {} to ptr)".format
    values = [
        address(launch),
        address(kernel),
        f"i32 {ptx.THREADS}",
        f"i64 {len(program.inputs)}",
        f"i64 {len(program.outputs)}",
    ]
    values.append("ptr @operands")
    kinds = ", ".join(v.split()[0] for v in values)
    return (
        f"@operands = internal constant [{len(operands)} x {{ i64, i64 }}] [{listed}]\n"
        f"@descriptor = internal constant {{ {kinds} }} {{ {', '.join(values)} }}\n"
        f"define ptr @{_HANDLER}(ptr %frame) nounwind {{\n"
        f"  %error = tail call ptr {address(_launcher()).removeprefix('ptr ')}(ptr %frame, ptr @descriptor)\n"
        "  ret ptr %error\n}\n"
    )


def _launcher() -> int:
    """Return the address of the function that all handlers call."""
    from . import runtime

    text = importlib.resources.files(__package__).joinpath("cuda.ll").read_text()
    for word, value in zip(("@MAJOR@", "@MINOR@"), runtime.version(), strict=True):
        text = text.replace(word, str(value))
    return host.made(text.encode(), lambda: [text], _LAUNCH).address


class Driver:
    """CUDA's driver.

    **Fields:** `launch`, the address of `cuLaunchKernel`; `spills`, whether it can load what `ptx.spilled` returns.

    **Raises** `RuntimeError`, with the reason, if it cannot be used.
    """

    def __init__(self, library):
        self.library = library
        self.call("cuInit", 0)
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        if version.value < DRIVER:
            have, want = (f"{v // 1000}.{v % 1000 // 10}" for v in (version.value, DRIVER))
            raise RuntimeError(f"the driver is for CUDA {have}; {want} is the oldest that will do")
        capabilities = {tuple(self.attribute(d, k) for k in (75, 76)) for d in self.devices()}  # major, minor
        for found in capabilities:
            if found < CAPABILITY:
                raise RuntimeError("a GPU has compute capability {}.{}; {}.{} is the least".format(*found, *CAPABILITY))
        self.spills = version.value >= SPILLED and capabilities == {MEASURED}
        self.launch: int = ctypes.cast(library.cuLaunchKernel, ctypes.c_void_p).value or 0

    def call(self, name: str, *args) -> None:
        status = getattr(self.library, name)(*args)
        if status:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(status, ctypes.byref(text))
            raise DriverError(f"`{name}` of CUDA's driver failed: {(text.value or b'error').decode()} ({status})")

    def devices(self) -> list[ctypes.c_int]:
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        found = [ctypes.c_int() for _ in range(count.value)]
        for k, device in enumerate(found):
            self.call("cuDeviceGet", ctypes.byref(device), k)
        return found

    def attribute(self, device, which: int) -> int:
        value = ctypes.c_int()
        self.call("cuDeviceGetAttribute", ctypes.byref(value), which, device)
        return value.value

    def load(self, text: str) -> int:
        """Return a handle of the kernel in PTX. It is valid on all devices for the lifetime of the process."""
        library, kernel = ctypes.c_void_p(), ctypes.c_void_p()
        nothing = (None, None, 0)  # keys, values and number of options
        self.call("cuLibraryLoadData", ctypes.byref(library), ctypes.c_char_p(text.encode()), *nothing, *nothing)
        self.call("cuLibraryGetKernel", ctypes.byref(kernel), library, ptx.KERNEL.encode())
        for device in self.devices():
            self._prepare(device, kernel)
        return kernel.value or 0

    def _prepare(self, device, kernel) -> None:
        """Compile a kernel now for a device in use, because nothing may be compiled while a graph is captured."""
        flags, active = ctypes.c_uint(), ctypes.c_int()
        self.call("cuDevicePrimaryCtxGetState", device, ctypes.byref(flags), ctypes.byref(active))
        if not active.value:
            return
        before, context, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(before))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        try:
            self.call("cuCtxSetCurrent", context)
            self.call("cuKernelGetFunction", ctypes.byref(function), kernel)
        finally:
            self.call("cuCtxSetCurrent", before)
            self.call("cuDevicePrimaryCtxRelease_v2", device)


@functools.cache
def driver() -> Driver:
    """Return the driver. Raises OSError or RuntimeError if there is none that can be used."""
    return Driver(ctypes.CDLL("libcuda.so.1"))
