"""What the tests of the run-time call it with: a toy program, an XLA made by hand, guarded and counted memory."""

import ctypes
import functools
import mmap

import numpy as np

from jaxdyn.engine import host, native, runtime

#: bytes of a vector, lanes of a vector
SIZES = [(8, 2), (16, 1), (16, 4), (32, 4), (32, 8), (64, 8), (64, 16), (64, 64)]
BLOCK = 5
HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
#: how often prologues ran
prologues = ctypes.c_int64(0)


# ---- a toy program: p = a s0 + 2 s1, q = b / 2 or -b, r = a0 > 0 ----
# p is NaN if a pointer is not aligned or a lane of the vector, also beyond the batch, is NaN

#: F4, F8, I8 and I1 stand for vectors of W lanes
TOY = """
@toy_prologues = external global i64

declare i1 @llvm.vector.reduce.or.vWi1(I1)

define internal void @prologue(ptr %inputs, ptr %uniform) nounwind {
  %count = atomicrmw add ptr @toy_prologues, i64 1 monotonic
  %s.p = getelementptr ptr, ptr %inputs, i64 2
  %s = load ptr, ptr %s.p
  %both = load <2 x float>, ptr %s, align 4
  %scaled = fmul <2 x float> %both, <float 1.0, float 2.0>
  store <2 x float> %scaled, ptr %uniform
  ret void
}

define internal F4 @splat(float %x) nounwind {
  %first = insertelement F4 poison, float %x, i64 0
  %all = shufflevector F4 %first, F4 poison, <W x i32> zeroinitializer
  ret F4 %all
}

define internal void @one(ptr %stage, ptr %uniform, ptr %arena) nounwind {
  %both = load <2 x float>, ptr %uniform
  %s0 = extractelement <2 x float> %both, i64 0
  %s1 = extractelement <2 x float> %both, i64 1
  %i.stage = ptrtoint ptr %stage to i64
  %i.uniform = ptrtoint ptr %uniform to i64
  %i.arena = ptrtoint ptr %arena to i64
  %i.either = or i64 %i.stage, %i.uniform
  %i.any = or i64 %i.either, %i.arena
  %low = and i64 %i.any, 63
  %askew = icmp ne i64 %low, 0
  %a2.place = getelementptr I8, ptr %stage, i64 24
  %a2.all = load F4, ptr %a2.place, align 1
  %a2.nan = fcmp uno F4 %a2.all, zeroinitializer
  %b0.all = load F8, ptr %stage, align 1
  %b0.nan = fcmp uno F8 %b0.all, zeroinitializer
  %nan = or I1 %a2.nan, %b0.nan
  %some.nan = call i1 @llvm.vector.reduce.or.vWi1(I1 %nan)
  %bad = or i1 %askew, %some.nan
  %s1.good = select i1 %bad, float 0x7ff8000000000000, float %s1
  %u0 = call F4 @splat(float %s0)
  %u1 = call F4 @splat(float %s1.good)
  %m.p = getelementptr I8, ptr %stage, i64 28
  %m.byte = load I8, ptr %m.p, align 1
  %m = trunc I8 %m.byte to I1
FLOATS
DOUBLES
  store volatile F4 %a0, ptr %arena, align 1
  %kept = load volatile F4, ptr %arena, align 1
  %positive = fcmp ogt F4 %kept, zeroinitializer
  %r = zext I1 %positive to I8
  %r.p = getelementptr I8, ptr %stage, i64 41
  store I8 %r, ptr %r.p, align 1
  ret void
}

define internal void @kernel(ptr %stage, ptr %uniform, ptr %arena, i64 %vectors) nounwind {
  br label %loop
loop:
  %v = phi i64 [ 0, %0 ], [ %next, %loop ]
  %place = mul i64 %v, STAGE
  %own = getelementptr i8, ptr %stage, i64 %place
  call void @one(ptr %own, ptr %uniform, ptr %arena)
  %next = add i64 %v, 1
  %more = icmp ult i64 %next, %vectors
  br i1 %more, label %loop, label %end
end:
  ret void
}
"""
FLOAT = """
  %aR.p = getelementptr I8, ptr %stage, i64 {at}
  %aR = load F4, ptr %aR.p, align 1
  %asR = fmul F4 %aR, %u0
  %pR = fadd F4 %asR, %u1
  %pR.p = getelementptr I8, ptr %stage, i64 {out}
  store F4 %pR, ptr %pR.p, align 1
"""
DOUBLE = """
  %bR.p = getelementptr I8, ptr %stage, i64 {at}
  %bR = load F8, ptr %bR.p, align 1
  %bsR = fmul F8 %bR, splat (double 0.5)
  %bnR = fneg F8 %bR
  %qR = select I1 %m, F8 %bsR, F8 %bnR
  %qR.p = getelementptr I8, ptr %stage, i64 {out}
  store F8 %qR, ptr %qR.p, align 1
"""


def program(size: int, width: int) -> str:
    """IR of the toy program. Rows begin at multiples of `width` bytes: b 0, a 16, m 28, p 29, r 41, q 42, end 58."""
    floats = "".join(FLOAT.format(at=16 + 4 * k, out=29 + 4 * k).replace("R", str(k)) for k in range(3))
    doubles = "".join(DOUBLE.format(at=8 * k, out=42 + 8 * k).replace("R", str(k)) for k in range(2))
    text = TOY.replace("FLOATS", floats).replace("DOUBLES", doubles)
    for short, kind in (("F4", "float"), ("F8", "double"), ("I8", "i8"), ("I1", "i1")):
        text = text.replace(short, f"<W x {kind}>")
    inputs = [(3, 4, 16 * width), (0, 4, 0), (2, 4, -1), (1, 1, 28 * width), (2, 8, 0)]
    outputs = [(0, 4, 0), (3, 4, 29 * width), (1, 1, 41 * width), (2, 8, 42 * width)]
    stage = -(-58 * width // 64) * 64
    ends = runtime.descriptor("prologue", "kernel", width, BLOCK, inputs, outputs, stage, 8, 4 * width)
    return (
        text.replace("STAGE", str(stage)).replace("<W x", f"<{width} x").replace("vWi1", f"v{width}i1")
        + ends
        + runtime.handler(f"toy_{size}_{width}", size)
    )


def load(symbol: str, *texts: str) -> int:
    """Compiles modules and returns the address of a function in them."""
    return native.load(host.compile_ir(list(texts), host.target()), symbol)


def known(name: str, function) -> None:
    """Makes a function of ctypes known to modules loaded later; the caller keeps it."""
    native.llvm().add_symbol(name, ctypes.cast(function, ctypes.c_void_p).value)


@functools.cache
def toy(size: int, width: int) -> int:
    """Address of the handler of a toy program, which is registered with XLA under the same name."""
    runtime.provide(size)
    native.llvm().add_symbol("toy_prologues", ctypes.addressof(prologues))
    name = f"toy_{size}_{width}"
    address = load(name, program(size, width))
    host.register(name, address)
    return address


def operands(lanes: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    a, b = rng.normal(size=(lanes, 3)).astype(np.float32), rng.normal(size=(lanes, 2))
    s = rng.uniform(-1, 1, (1, 2)).astype(np.float32)
    return [a, np.zeros((lanes, 0), np.float32), s, rng.random((lanes, 1)) < 0.5, b]


def expected(a, z, s, m, b) -> list[np.ndarray]:
    return [z, a * s[0, 0] + 2 * s[0, 1], (a[:, :1] > 0).astype(np.int8), np.where(m, b * 0.5, -b)]


def same(got, want):
    for x, y in zip(got, want, strict=True):
        assert np.array_equal(np.ascontiguousarray(x).view(np.uint8), np.ascontiguousarray(y).view(np.uint8))


# ---- frames made by hand: every field that is read takes 8 bytes ----


def words(*values) -> ctypes.Array:
    return (ctypes.c_uint64 * len(values))(*(v or 0 for v in values))


TASK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
FUNCTION = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))
CONTEXT = 0x1234


class Xla:
    """An XLA whose pool does as it is told: `schedule(task, data)` returns an error's number or None."""

    def __init__(self, schedule=None, threads=None):
        self.errors, self.destroyed, self.asked = [], [], 0
        self.schedule, self.threads = schedule, threads
        self.functions = [FUNCTION(f) for f in (self.create, self.destroy, self.submit, self.number)]
        create, destroy, submit, number = (ctypes.cast(f, ctypes.c_void_p).value for f in self.functions)
        self.api = words(19 * 8, 0, 24, 0, 0, 0, create, 0, destroy, *[0] * 8, submit, number)

    def create(self, args):
        assert args[0] == 28
        self.errors.append((args[3] & 0xFFFFFFFF, ctypes.string_at(args[2]).decode()))
        return 77

    def destroy(self, args):
        assert args[0] == 24
        self.destroyed.append(args[2])

    def number(self, args):
        assert (args[0], args[2]) == (32, CONTEXT)
        if self.threads is None:
            return 5
        ctypes.c_int64.from_address(args[3]).value = self.threads
        return None

    def submit(self, args):
        assert (args[0], args[2]) == (40, CONTEXT)
        self.asked += 1
        return self.schedule(TASK(args[3]), args[4])

    def run(self, address: int, args, outs) -> int | None:
        """Calls a handler; returns its error."""
        keep = []

        def kept(*values) -> int:
            keep.append(words(*values))
            return ctypes.addressof(keep[-1])

        def buffers(arrays):
            places = [kept(48, 0, 0, x.ctypes.data, x.ndim, kept(*x.shape)) for x in arrays]
            return 40, 0, len(arrays), 0, kept(*places)

        api = ctypes.addressof(self.api)
        error = HANDLER(address)(kept(176, 0, api, CONTEXT, 3, *buffers(args), *buffers(outs), *[0] * 7))
        for array in keep:
            ctypes.memset(array, 0xDD, ctypes.sizeof(array))  # whoever comes late must not need it
        return error


def results(lanes: int) -> list[np.ndarray]:
    return [np.full(x.shape, 9, x.dtype) for x in expected(*operands(lanes))]


class Guarded:
    """Arrays between pages that nobody may touch, at the begin or the end of their own pages."""

    def __init__(self, at_end: bool):
        self.at_end, self.held = at_end, []

    def array(self, x: np.ndarray) -> np.ndarray:
        page = mmap.PAGESIZE
        size = max(1, -(-x.nbytes // page)) * page
        whole = mmap.mmap(-1, size + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(whole))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        for place in (start, start + page + size):
            assert protect(ctypes.c_void_p(place), ctypes.c_size_t(page), 0) == 0
        inner = np.frombuffer(whole, np.uint8, size, page)
        inner[:] = 0xA5
        skip = size - x.nbytes if self.at_end else 0
        out = inner[skip : skip + x.nbytes].view(x.dtype).reshape(x.shape)
        out[...] = x
        self.held.append((inner, skip, x.nbytes))
        return out

    def untouched(self) -> bool:
        return all((m[:s] == 0xA5).all() and (m[s + n :] == 0xA5).all() for m, s, n in self.held)


# ---- memory that is counted, may run out, and is scrambled when it is freed ----


class Memory:
    def __init__(self):
        self.libc = ctypes.CDLL(None)
        self.libc.malloc.restype = ctypes.c_void_p
        self.reset()
        self.take = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(self.malloc)
        self.give = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.free)
        for name, function in (("counted_malloc", self.take), ("counted_free", self.give)):
            known(name, function)

    def reset(self, fail=()):
        self.live, self.freed, self.asked, self.failing = {}, [], 0, set(fail)

    def malloc(self, size):
        self.asked += 1
        if self.asked - 1 in self.failing:
            return None
        place = self.libc.malloc(ctypes.c_size_t(size))
        ctypes.memset(place, 0xFF, size)  # NaN
        self.live[place] = size
        return place

    def free(self, place):
        size = self.live.pop(place)  # KeyError: freed twice
        ctypes.memset(place, 0xDD, size)
        self.freed.append((place, size))

    def clean(self) -> bool:
        """All was freed, and nothing written since. What was freed is kept until then, so that nobody gets it anew."""
        ok = not self.live and all(ctypes.string_at(p, n) == b"\xdd" * n for p, n in self.freed)
        for place, _ in self.freed:
            self.libc.free(ctypes.c_void_p(place))
        self.freed.clear()
        return ok
