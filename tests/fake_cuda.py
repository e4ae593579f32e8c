"""A CUDA driver that runs kernels on this processor, and XLA's side of a call: what GPU tests do without a GPU."""

import ctypes
import re

from jaxdyn.engine import host

# ---- a driver that runs kernels on this processor ----

LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, *[ctypes.c_void_p] * 3)
HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)

#: cuLaunchKernel for one kernel: all threads of all blocks, one after the other
GRID = """
@index.ctaid = internal global i32 0
@index.ntid = internal global i32 0
@index.tid = internal global i32 0
define void @grid(ptr %parameters, i32 %blocks, i32 %threads) {
  store i32 %threads, ptr @index.ntid
  LOADS
  br label %block
block:
  %b = phi i32 [ 0, %0 ], [ %b.next, %block.end ]
  store i32 %b, ptr @index.ctaid
  br label %thread
thread:
  %t = phi i32 [ 0, %block ], [ %t.next, %thread ]
  store i32 %t, ptr @index.tid
  call void @jaxdyn(ARGUMENTS)
  %t.next = add i32 %t, 1
  %t.more = icmp ult i32 %t.next, %threads
  br i1 %t.more, label %thread, label %block.end
block.end:
  %b.next = add i32 %b, 1
  %b.more = icmp ult i32 %b.next, %blocks
  br i1 %b.more, label %block, label %end
end:
  ret void
}
"""


def on_the_host(source: str):
    """The kernel's own text as a function of parameters, blocks and threads."""
    source = re.sub(r"^(target triple|declare \w+ @llvm.nvvm).*\n", "", source, flags=re.MULTILINE)
    source = re.sub(r"call i32 @llvm.nvvm.activemask\(\)", "add i32 1, 0", source)  # a warp of one thread
    source = re.sub(r"call void @llvm.nvvm.bar.warp.sync.*\n", "", source)
    source = re.sub(r"call i32 @llvm.nvvm.read.ptx.sreg.(\w+).x\(\)", r"load i32, ptr @index.\1", source)
    types = [p.strip().split(" ")[0] for p in re.search(r"@jaxdyn\((.*)\)", source)[1].split(",")]
    types = ["ptr addrspace(1)" if t == "ptr" else t for t in types]
    loads, arguments = [], []
    for k, t in enumerate(types):
        loads += [f"%q{k} = getelementptr ptr, ptr %parameters, i64 {k}", f"%r{k} = load ptr, ptr %q{k}"]
        loads.append(f"%a{k} = load {t}, ptr %r{k}")
        arguments.append(f"{t} %a{k}")
    grid = GRID.replace("LOADS", "\n".join(loads)).replace("ARGUMENTS", ", ".join(arguments))
    objects = host.compile_ir([source.replace("ptx_kernel ", "") + grid], host.target(), 1)
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)(host.load(objects, "grid"))


class Library:
    """A fake of libcuda. `calls` lists calls by name, `launches` those of kernels, `texts` their PTX,
    `status` what they return."""

    def __init__(self, version=12040, capabilities=((9, 0),), active=(0,)):
        self.calls, self.launches, self.sources, self.status = [], [], [], 0
        self.capabilities, self.active, self.context, self.version = capabilities, active, 77, version
        self.kernels: list = []
        self.texts: list[bytes] = []
        self.cuLaunchKernel = LAUNCH(self.launch)

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *args: self.called(name, *args)

    def called(self, name, *args):
        self.calls.append(name)
        first, value = args[0], None
        if name == "cuDriverGetVersion":
            value = self.version
        elif name == "cuDeviceGetCount":
            value = len(self.capabilities)
        elif name == "cuDeviceGet":
            value = args[1]
        elif name == "cuDeviceGetAttribute":
            value = self.capabilities[args[2].value][args[1] - 75]
        elif name == "cuLibraryLoadData":
            assert args[1].value.startswith(b"//") and args[2:] == (None, None, 0) * 2
            self.texts.append(args[1].value)
            self.kernels.append(on_the_host(self.sources[-1]) if self.sources else None)
            value = len(self.kernels)
        elif name == "cuLibraryGetKernel":
            assert args[2] == b"jaxdyn"
            value = args[1].value
        elif name == "cuDevicePrimaryCtxGetState":
            args[2]._obj.value = first.value in self.active
        elif name == "cuCtxGetCurrent":
            value = self.context
        elif name == "cuDevicePrimaryCtxRetain":
            value = 100 + args[1].value
        elif name == "cuCtxSetCurrent":
            self.context = first.value
        elif name == "cuKernelGetFunction":
            self.calls[-1] += f" in {self.context}"
            return self.status
        elif name == "cuGetErrorName":
            args[1]._obj.value = b"CUDA_ERROR_OF_SOME_KIND"
        if value is not None:
            first._obj.value = value
        return 0

    def launch(self, kernel, bx, by, bz, tx, ty, tz, shared, stream, parameters, extra):
        assert (by, bz, ty, tz, shared, extra) == (1, 1, 1, 1, 0, None)
        self.launches.append((kernel, bx, tx, stream))
        if not self.status:
            self.kernels[kernel - 1](parameters, bx, tx)
        return self.status


# ---- XLA's side of a call ----


def structure(*kinds):
    return type("Structure", (ctypes.Structure,), {"_fields_": [(f"f{k}", t) for k, t in enumerate(kinds)]})


I, P = ctypes.c_int64, ctypes.c_void_p
Version = structure(I, P, ctypes.c_int32, ctypes.c_int32)
Metadata = structure(I, Version, ctypes.c_uint32, I)
Extension = structure(structure(I, ctypes.c_int32, P), P)
List = structure(I, P, I, P, P)
Buffer = structure(I, P, ctypes.c_int32, P, I, P)
Frame = structure(I, P, P, P, ctypes.c_int32, List, List, structure(I, P, I, P, P, P), P)
Api = structure(I, P, Version, P, *[P] * 5)
ErrorArgs = structure(I, P, ctypes.c_char_p, ctypes.c_int32)
StreamArgs = structure(I, P, P, P)


class Call:
    """A call of XLA's with arrays. `run` returns the error: None, (code, message), or "no stream"."""

    def __init__(self, inputs, outputs, stream=0x57):
        self.keep, self.errors, self.stream = [], {}, stream
        functions_ = (
            [HANDLER(self.error), HANDLER(lambda p: None)] + [HANDLER(lambda p: None)] * 2 + [HANDLER(self.get)]
        )
        self.keep += functions_
        api = Api(0, None, Version(0, None, 0, 3), None, *(ctypes.cast(f, P).value for f in functions_))
        self.frame = Frame(0, None, self.at(api), 0xC0, 3, self.list(inputs), self.list(outputs))

    def at(self, thing) -> int:
        self.keep.append(thing)
        return ctypes.addressof(thing)

    def list(self, arrays):
        buffers = []
        for a in arrays:
            self.keep.append(a)
            dims = (I * a.ndim)(*a.shape)
            buffers.append(self.at(Buffer(0, None, 0, a.ctypes.data, a.ndim, self.at(dims))))
        return List(0, None, len(arrays), None, self.at((P * len(arrays))(*buffers)))

    def error(self, p):
        args = ErrorArgs.from_address(p)
        self.errors[0xE] = (args.f3, args.f2.decode())
        return 0xE

    def get(self, p):
        args = StreamArgs.from_address(p)
        assert args.f0 == ctypes.sizeof(StreamArgs) and args.f2 == 0xC0
        if self.stream is None:
            return 0xA
        args.f3 = self.stream
        return None

    def run(self, address: int):
        found = HANDLER(address)(ctypes.addressof(self.frame))
        return {None: None, 0xA: "no stream"}.get(found) or self.errors.get(found)
