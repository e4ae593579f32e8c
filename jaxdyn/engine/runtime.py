"""The run-time that runs a compiled program under XLA on a CPU: `runtime.ll`, compiled once for all programs with the
same sizes of vectors and numbers.

A program is an object file with a kernel, an optional prologue, a descriptor and a handler, which passes XLA's call
frame and the descriptor to a function of the run-time (`name_of`). `descriptor` and `handler` write the last two;
`provide` makes that function known to LLVM, so that the program's object finds it when it is loaded.

- ``prologue(ptr inputs, ptr uniform)`` runs once a call. ``inputs[k]`` points to the k-th operand's numbers.
- ``kernel(ptr stage, ptr uniform, ptr arena, i64 vectors)`` runs once for every block of lanes. The stage of vector v
  begins at ``v * stage_bytes``; row r of an operand takes ``lanes * bytes`` bytes of it at
  ``offset + r * lanes * bytes``. All three pointers are multiples of 64. The arena belongs to the thread; its content
  is undefined at the start. Lanes beyond the batch are copies of its last lane.

Both keep denormals, whatever mode the calling thread is in.

In XLA's operands the numbers of a lane are neighbours; in a stage the numbers of a row are. Operands and outputs are
therefore transposed, except for inputs shared by all lanes, which only the prologue reads.
"""

import ctypes
import functools
import importlib.resources
import itertools
import re
import sys
from collections.abc import Sequence
from pathlib import Path

import jax.ffi

from . import host, native

#: rows, bytes of a number, offset of the first row in a vector's stage (-1: an input shared by all lanes)
Operand = tuple[int, int, int]

#: bytes of a number
NUMBERS = (1, 2, 4, 8)

#: version of XLA's interface that runtime.ll was written for, used if jaxlib comes without the header
VERSION = (0, 3)

#: possible sides of a tile, which is transposed in registers, and the most bytes of a side
TILES, TILE_BYTES = (1, 2, 4, 8, 16), 64
#: number of lanes ahead of a tile that are prefetched
AHEAD = 16
#: operands of fewer rows are transposed vector by vector, because such small tiles are slow
FEW = 4

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
    """Return IR that defines ``@descriptor``; `prologue` and `kernel` are names of functions in the same module."""
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
    """Raise ValueError unless the copy functions of the run-time support such a program."""
    if lanes < 1 or lanes & (lanes - 1) or vectors_per_block < 1 or stage_bytes % 64:
        raise ValueError(f"no stage of {stage_bytes} bytes for {vectors_per_block} vectors of {lanes} lanes")
    for rows, size, offset in (*inputs, *outputs):
        shared = offset == -1
        if size not in NUMBERS or not (shared or 0 <= offset <= stage_bytes - rows * lanes * size):
            raise ValueError(f"{rows} rows of {size}-byte numbers at {offset} are not in a stage of {stage_bytes}")
    if any(offset == -1 for _, _, offset in outputs):
        raise ValueError("an output is never shared by the lanes")


def name_of(vector_bytes: int, numbers: tuple[int, ...]) -> str:
    """Return the name of the run-time's function for programs whose operands have numbers of these sizes in bytes."""
    return "_".join(["jaxdyn_run", str(vector_bytes), *(map(str, numbers) if numbers != NUMBERS else ())])


def handler(name: str, vector_bytes: int, numbers: tuple[int, ...] = NUMBERS) -> str:
    """Return IR of the function `name` that XLA calls; it runs the program of ``@descriptor``."""
    run = name_of(vector_bytes, numbers)
    return (
        f"declare ptr @{run}(ptr, ptr)\n"
        f"define ptr @{name}(ptr %frame) nounwind {{\n"
        f"  %error = tail call ptr @{run}(ptr %frame, ptr @descriptor)\n"
        "  ret ptr %error\n}\n"
    )


def provide(vector_bytes: int, numbers: tuple[int, ...] = NUMBERS) -> str:
    """Compile the run-time if necessary, and return the name of its function that handlers call; objects loaded later
    find it.

    `numbers` are the sizes in bytes, in ascending order, of the numbers that lanes have. Functions for other sizes are
    left out, because they would take longer to compile than a small program.
    """
    if vector_bytes < 4 or vector_bytes & (vector_bytes - 1):
        raise ValueError(f"{vector_bytes} bytes are no vector")
    name = name_of(vector_bytes, numbers)
    if name not in _provided:
        llvm, triple = native.llvm(), host.target().triple
        for given, address in library().items():
            llvm.add_symbol(given, address)
        key = repr((vector_bytes, numbers, triple, version())).encode()
        llvm.add_symbol(name, host.made(key, lambda: [source(vector_bytes, triple, numbers)], name).address)
        _provided.add(name)
    return name


@functools.cache
def library() -> dict[str, int]:
    """Return the addresses of the functions of the C library that `runtime.ll` uses."""
    if sys.platform == "win32":
        standard = ctypes.CDLL("ucrtbase")
        found = standard.malloc, standard.free, ctypes.CDLL("kernel32").SwitchToThread
    else:
        standard = ctypes.CDLL(None)
        found = standard.malloc, standard.free, standard.sched_yield
    names = "jaxdyn_malloc", "jaxdyn_free", "jaxdyn_yield", "jaxdyn_copy"
    return {
        name: ctypes.cast(function, ctypes.c_void_p).value or 0
        for name, function in zip(names, (*found, standard.memcpy), strict=True)
    }


def source(vector_bytes: int, triple: str, numbers: tuple[int, ...] = NUMBERS) -> str:
    """Return `runtime.ll` with the sizes of vectors and numbers and the target filled in."""
    processor = {"x86_64": "x86", "amd64": "x86", "aarch64": "aarch64", "arm64": "aarch64"}
    here = processor.get(triple.split("-")[0], "other")
    text = importlib.resources.files(__package__).joinpath("runtime.ll").read_text()
    text = re.sub(
        r"^;; on (\w+)\n(.*?)^;; end\n", lambda m: m[2] if m[1] == here else "", text, flags=re.DOTALL | re.MULTILINE
    )
    words = {"RUN": name_of(vector_bytes, numbers), "FEW": FEW, "TILES": len(TILES), "LARGEST": len(TILES) - 1}
    words |= dict(zip(("MAJOR", "MINOR"), version(), strict=True)) | {"COPIES": copies(vector_bytes, numbers)}
    return re.sub(r"@(" + "|".join(words) + ")@", lambda m: str(words[m[1]]), text)


# ---- copies between buffers and stage ----


def copies(vector_bytes: int, numbers: tuple[int, ...]) -> str:
    """Return IR of the functions that copy a vector of an operand with such numbers, and of ``@copies``, the table of
    them.

    The table has four indices: the logarithm of a number's bytes; the number of rows if a whole vector has few rows,
    else 0; the logarithm of the largest possible side of a tile; and 0 for copies into the stage, 1 for copies out of
    it.
    """
    functions: dict[str, str] = {}

    def function(size: int, rows: int, side: int, out: bool) -> str:
        if size not in numbers:
            return "ptr null"
        # long registers are for floats; smaller tiles are no faster than single numbers
        most, least = min(vector_bytes, TILE_BYTES if size >= 4 else 8 * size), min(16, 4 * size)
        side = max((t for t in TILES if t <= side and least <= t * size <= most), default=1)
        name = f"copy_{size}_{rows}_{side}_{'out' if out else 'in'}"
        if name not in functions:
            functions[name] = _Copy(size, side, out, rows).text(name)
        return f"ptr @{name}"

    def table(axes: Sequence[Sequence[int]], *chosen: int) -> str:
        if not axes:
            return function(*chosen)
        parts = [table(axes[1:], *chosen, x) for x in axes[0]]
        kind = "".join(f"[{len(axis)} x " for axis in axes[1:]) + "ptr" + "]" * len(axes[1:])
        return f"[{len(parts)} x {kind}] [{', '.join(parts)}]"

    all_of_them = table((NUMBERS, range(FEW), TILES, (0, 1)))
    return "\n".join([*functions.values(), f"@copies = private constant {all_of_them}\n"])


class _Copy:
    """A function that copies a vector of an operand between its buffer and the stage.

    It transposes tiles of `side` lanes and as many rows in registers. The last tile of an operand overlaps the one
    before, so that it has all of its rows. If `few` is not 0, the operand has only that many rows, and a tile is all
    rows of `side` lanes.
    """

    def __init__(self, size: int, side: int, out: bool, few: int = 0):
        self.size, self.side, self.out, self.few = size, side, out, few
        self.number = f"i{8 * size}"
        self.lines: list[str] = []
        self.count = itertools.count()

    def text(self, name: str) -> str:
        body = self.whole() if self.few else self.tiles()
        limit = "%lanes" if self.out else "%width"
        return f"""
define internal void @{name}(ptr %far, ptr %near, i64 %rows, i64 %width, i64 %lanes, i64 %row) nounwind {{
entry:
  %last = sub i64 %lanes, 1
  %end = sub i64 %rows, {self.side}
  %lane = mul i64 %rows, {self.size}
  br label %strip
strip:
  %l = phi i64 [ 0, %entry ], [ %l.next, %strip.end ]
  %column = mul i64 %l, {self.size}
  %near.l = getelementptr i8, ptr %near, i64 %column
{body}
strip.end:
  %l.next = add i64 %l, {self.side}
  %l.more = icmp ult i64 %l.next, {limit}
  br i1 %l.more, label %strip, label %end.all
end.all:
  ret void
}}
"""

    def tiles(self) -> str:
        """Return the body for a strip of lanes. Lanes beyond the batch are copies of the last lane; stores run
        backwards, so that the last lane itself is written last."""
        before = []
        for i in range(self.side):
            before += [
                f"  %l.{i} = add i64 %l, {i}",
                f"  %exists.{i} = call i64 @llvm.umin.i64(i64 %l.{i}, i64 %last)",
                f"  %far.o.{i} = mul i64 %exists.{i}, %lane",
                f"  %far.{i} = getelementptr i8, ptr %far, i64 %far.o.{i}",
                f"  %near.o.{i} = mul i64 %row, {i}",
                f"  %near.{i} = getelementptr i8, ptr %near.l, i64 %near.o.{i}",
            ]
        far = [(f"%far.{i}", "%far.r") for i in range(self.side)]
        near = [(f"%near.{i}", "%near.r") for i in range(self.side)]
        source, sink = (near, far) if self.out else (far, near)
        for vector, (place, offset) in reversed(list(zip(self.transposed(source), sink, strict=True))):
            self.store(vector, place, offset)
        return "\n".join(
            [
                *before,
                *self.at_once(),
                "tile:",
                "  %r = phi i64 [ 0, %strip ], [ %r.next, %tile ]",
                f"  %far.r = mul i64 %r, {self.size}",
                "  %near.r = mul i64 %r, %row",
                *self.lines,
                *self.ahead(),
                f"  %r.up = add i64 %r, {self.side}",
                "  %r.next = call i64 @llvm.smin.i64(i64 %r.up, i64 %end)",
                "  %r.more = icmp slt i64 %r, %end",
                "  br i1 %r.more, label %tile, label %strip.end",
            ]
        )

    def at_once(self) -> list[str]:
        """Return the branch into the loop over tiles. A vector of a single lane is laid out like the buffer, so it is
        copied without tiles."""
        if self.side > 1:
            return ["  br label %tile"]
        to, source = ("%far.0", "%near.0") if self.out else ("%near.0", "%far.0")
        return [
            "  %single = icmp eq i64 %width, 1",
            "  br i1 %single, label %all, label %tile",
            "all:",
            f"  call ptr @jaxdyn_copy(ptr {to}, ptr {source}, i64 %lane)",
            "  br label %strip.end",
        ]

    def ahead(self) -> list[str]:
        """Return prefetches of the same rows some lanes ahead, since processors do not predict that many streams by
        themselves.

        They halve the time for long batches. Prefetches beyond the buffer are allowed: they never fault.
        """
        if self.side * self.size < 16:
            return []
        lines = [f"  %ahead = mul i64 %lane, {AHEAD}", "  %ahead.r = add i64 %far.r, %ahead"]
        for i in range(self.side):
            lines.append(f"  %ahead.{i} = getelementptr i8, ptr %far.{i}, i64 %ahead.r")
            lines.append(f"  call void @llvm.prefetch.p0(ptr %ahead.{i}, i32 {int(self.out)}, i32 3, i32 1)")
        return lines

    def whole(self) -> str:
        """Return the body for a strip of lanes that all exist. Their numbers are contiguous, as many vectors as there
        are rows."""
        n, t = self.few, self.side
        far = [("%far.l", str(k * t * self.size)) for k in range(n)]
        near = [(f"%near.{k}", "0") for k in range(n)]
        source, sink = (near, far) if self.out else (far, near)
        vectors = [self.load(t, *place) for place in source]
        for k, place in enumerate(sink):
            numbers = range(k * t, k * t + t) if self.out else range(k, n * t, n)
            wanted = [(x % n, x // n) if self.out else divmod(x, t) for x in numbers]
            found = vectors[0]
            for j in range(1, n):  # add what vector j contributes to what is there already
                mask = [(t + at if k == j else i if k < j else -1) for i, (k, at) in enumerate(wanted)]
                if j == 1:
                    mask = [at if k == 0 else m for m, (k, at) in zip(mask, wanted, strict=True)]
                found = self.shuffle(t, found, vectors[j], mask)
            self.store(found, *place)
        before = ["  %far.o = mul i64 %l, %lane", "  %far.l = getelementptr i8, ptr %far, i64 %far.o"]
        for k in range(n):
            before += [f"  %near.o.{k} = mul i64 %row, {k}"]
            before += [f"  %near.{k} = getelementptr i8, ptr %near.l, i64 %near.o.{k}"]
        return "\n".join([*before, *self.lines, "  br label %strip.end"])

    def transposed(self, source: list[tuple[str, str]]) -> list[str]:
        """Return the vectors of the columns, given the places of the rows.

        Processors shuffle best within chunks of 16 bytes, or whole chunks. So chunks change places first, until row j
        of every group of rows lies beside row j of the others; then numbers change places within chunks. The longest
        registers are filled from halves, since a load into a half costs no shuffle.
        """
        t = self.side
        chunk = min(t, max(1, 16 // self.size))
        parts = 2 if t * self.size == 64 and t > chunk else 1
        columns: list[str] = []
        placed: list[list[str]] = [[] for _ in range(chunk)]  # for rows j, j + chunk, ...: the vector of each chunk
        for part in range(parts):
            rows = [self.load(t // parts, *place, part * t // parts * self.size) for place in source]
            for j in range(chunk):
                mine = rows[j::chunk]
                if parts == 2:  # the k-th of these rows and the one half of them further on share one register
                    half = len(mine) // 2
                    mine = [self.shuffle(t // 2, mine[k], mine[k + half], list(range(t))) for k in range(half)]
                placed[j] += self.rounds(mine, chunk, t // parts)
        for c in range(t // chunk):
            columns += self.rounds([vectors[c] for vectors in placed], 1, chunk)
        return columns

    def rounds(self, vectors: list[str], unit: int, span: int) -> list[str]:
        """Transpose units of numbers within groups of `span` numbers. Every round separates the even and the odd units
        of two vectors."""
        if len(vectors) == 1:
            return vectors
        halves = []
        for odd in (0, 1):
            mask = [
                other + start + at + k
                for start in range(0, self.side, span)
                for other in (0, self.side)
                for at in range(odd * unit, span, 2 * unit)
                for k in range(unit)
            ]
            pairs = zip(vectors[::2], vectors[1::2], strict=True)
            halves.append(self.rounds([self.shuffle(self.side, a, b, mask) for a, b in pairs], unit, span))
        return [x for pair in zip(*halves, strict=True) for x in pair]

    def new(self, value: str) -> str:
        name = f"%x{next(self.count)}"
        self.lines.append(f"  {name} = {value}")
        return name

    def shuffle(self, length: int, a: str, b: str, mask: list[int]) -> str:
        kind = f"<{length} x {self.number}>"
        numbers = ", ".join("i32 poison" if m < 0 else f"i32 {m}" for m in mask)
        return self.new(f"shufflevector {kind} {a}, {kind} {b}, <{len(mask)} x i32> <{numbers}>")

    def load(self, length: int, place: str, offset: str, more: int = 0) -> str:
        at = self.new(f"getelementptr i8, ptr {place}, i64 {offset}")
        at = self.new(f"getelementptr i8, ptr {at}, i64 {more}") if more else at
        return self.new(f"load <{length} x {self.number}>, ptr {at}, align 1")

    def store(self, vector: str, place: str, offset: str) -> None:
        at = self.new(f"getelementptr i8, ptr {place}, i64 {offset}")
        self.lines.append(f"  store <{self.side} x {self.number}> {vector}, ptr {at}, align 1")


@functools.cache
def version() -> tuple[int, int]:
    """Return the version of XLA's foreign function interface in the installed jaxlib."""
    header = Path(jax.ffi.include_dir(), "xla/ffi/api/c_api.h")
    if not header.exists():
        return VERSION
    found = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", header.read_text()))
    return int(found["MAJOR"]), int(found["MINOR"])
