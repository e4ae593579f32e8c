"""Translates a schedule to a kernel for NVIDIA's GPUs: one thread for each lane, one function, LLVM IR and then PTX.

A thread has its own control flow, so loops and branches are basic blocks, and values that cross them are LLVM's SSA
values. There are no masks and no arena. Threads of a warp that enter a loop together wait for each other behind it. The
driver's assembler does not see to that: each would run all that follows on its own (a step of Cassie with contact took
1.8 times as long on an H200). In a row of an operand the lanes are side by side, element (r, lane) at r * lanes + lane,
so that the threads of a warp read one contiguous piece of memory.

Every thread first computes the uniform values, which are few, so that no other kernel has to run before. They are
stored in the memory that the threads of a block share. In registers they would spill the lane's own values to the
thread's local memory: for Talos, 3.8 kB of it instead of 1.7.

Operations are the same as on a CPU (`llvm.Code`), and no pass runs before LLVM's code generation, so that each becomes
instructions that round as IEEE 754 demands: the bits are those of the CPU.
"""

import functools

from . import host, native
from .live import Schedule
from .llvm import NAMES, Code
from .locks import Lock
from .ops import Branches, Loop, Op, Type, Unsupported
from .order import Guard, Store
from .program import Program

#: the kernel's name in PTX
KERNEL = "jaxdyn"
TRIPLE = "nvptx64-nvidia-cuda"
#: the oldest GPUs that the code supports, and the version of PTX that drivers of CUDA 11 and later read
PROCESSOR, FEATURES = "sm_70", "+ptx70"
#: most operands: their addresses and the number of lanes must fit into the 4 kB of a kernel's parameters
OPERANDS = 511

#: most bytes of uniform values that a block stores; further ones are computed where they are read
SHARED = 32768
#: lines of code after which a uniform value is loaded again
WINDOW = 200
#: most characters of PTX with which `spilled` is worthwhile
SPILLED = 1_000_000
#: threads of a block. Threads do not wait for those of other warps, and small blocks spread a small batch over all
#: processors of a GPU.
THREADS = 64

_INDEX = "llvm.nvvm.read.ptx.sreg"
_ACTIVE, _WAIT = "llvm.nvvm.activemask", "llvm.nvvm.bar.warp.sync"
_lock = Lock()


def text(s: Schedule) -> str:
    """Return the LLVM IR of the kernel. Its parameters are the addresses of operands and outputs, and the number of
    lanes.

    **Raises** `Unsupported` for more operands than a kernel can have.
    """
    program = s.program
    operands = len(program.inputs) + len(program.outputs)
    if operands > OPERANDS:
        raise Unsupported(f"{operands} operands; a kernel for GPUs has at most {OPERANDS}")
    declared = {f"declare i32 @{_INDEX}.{name}.x()" for name in ("ctaid", "ntid", "tid")}
    declared |= {f"declare i32 @{_ACTIVE}()", f"declare void @{_WAIT}(i32)"}
    code = Thread(s, declared)
    code.share()
    code.statements(0)
    parameters = ", ".join(f"ptr addrspace(1) noalias %p{k}" for k in range(operands))
    return "\n".join(
        [
            f'target triple = "{TRIPLE}"',
            *sorted(declared),
            f"@uniform = internal addrspace(3) global [{max(code.size, 8)} x i8] poison, align 8",
            f"define ptx_kernel void @{KERNEL}({parameters}{', ' if operands else ''}i32 %lanes) nounwind {{",
            *_head(s),
            *code.lines,
            "br label %end",
            "end:",
            "ret void",
            "}",
            "!0 = !{}",
            "",
        ]
    )


def _head(s: Schedule) -> list[str]:
    """Return the code that computes the thread's lane, and where that lane's numbers begin. Threads beyond the last
    lane return."""
    program = s.program
    lines = [
        f"%block = call i32 @{_INDEX}.ctaid.x()",
        f"%threads = call i32 @{_INDEX}.ntid.x()",
        f"%thread = call i32 @{_INDEX}.tid.x()",
        "%first = mul i32 %block, %threads",
        "%lane = add i32 %first, %thread",
        "%inside = icmp ult i32 %lane, %lanes",
        "br i1 %inside, label %begin, label %end",
        "begin:",
        "%lane.wide = zext i32 %lane to i64",
        "%lanes.wide = zext i32 %lanes to i64",
    ]
    wide = [(k, t) for k, (_, t, shared) in enumerate(program.inputs) if not shared]
    wide += [(len(program.inputs) + k, t) for k, t in enumerate(program.output_types)]
    for size in sorted({t.bytes for _, t in wide}):
        lines.append(f"%offset{size} = mul i64 %lane.wide, {size}")
    lines += [f"%o{k} = getelementptr i8, ptr addrspace(1) %p{k}, i64 %offset{t.bytes}" for k, t in wide]
    return lines


class Thread(Code):
    """The code of one thread, which works on one lane."""

    def __init__(self, s: Schedule, declared: set[str]):
        super().__init__(s, 1, declared)
        self.block = "begin"
        #: offsets of uniform values in the block's memory, their end, and where each one was last read: name, block,
        #: line
        self.places: dict[int, int] = {}
        self.size = 0
        self.recent: dict[int, tuple[str, str, int]] = {}

    # uniform values

    def share(self) -> None:
        """Compute the uniform values and store them in the block's memory. All threads write the same values, so none
        waits for another."""
        places, types = {}, self.s.program.type
        for v in self.s.read:
            t = Type(types[v])
            at = -(-self.size // t.bytes) * t.bytes
            if at + t.bytes > SHARED:
                break
            places[v], self.size = at, at + t.bytes
            name, kind = self.as_bytes(self.use(v), t)
            self.lines.append(f"store volatile {kind} {name}, {self.place(at)}, align {t.bytes}")
        self.names.clear()
        self.places = places

    def place(self, offset: int) -> str:
        return f"ptr addrspace(3) getelementptr (i8, ptr addrspace(3) @uniform, i64 {offset})"

    def use(self, x: int) -> str:
        if x not in self.places:
            return super().use(x)
        name, block, line = self.recent.get(x, ("", "", 0))
        if block != self.block or len(self.lines) - line > WINDOW:
            t = Type(self.s.program.type[x])
            kind = "i8" if t == Type.bool_ else NAMES[t]
            # volatile, since LLVM would otherwise keep the value in a register
            name = self.line(f"load volatile {kind}, {self.place(self.places[x])}, align {t.bytes}")
            if t == Type.bool_:
                name = self.line(f"trunc i8 {name} to i1")
            self.recent[x] = name, self.block, len(self.lines)
        return name

    def there(self, x: int) -> bool:
        """Return whether a uniform value is available without computing it."""
        return x in self.names or x in self.places or self.s.op[x] == Op.input

    # operands and outputs

    def as_bytes(self, name: str, t: Type) -> tuple[str, str]:
        """Return a number in the form in which it is stored, and its type."""
        return (self.line(f"zext i1 {name} to i8"), "i8") if t == Type.bool_ else (name, NAMES[t])

    def address(self, operand: int, row: int, t: Type, shared: bool) -> str:
        if shared:
            return self.line(f"getelementptr i8, ptr addrspace(1) %p{operand}, i64 {row * t.bytes}")
        if row == 0:
            return f"%o{operand}"
        offset = self.line(f"mul nuw nsw i64 %lanes.wide, {row * t.bytes}")
        return self.line(f"getelementptr i8, ptr addrspace(1) %o{operand}, i64 {offset}")

    def load(self, x: int) -> str:
        """Load the number of an operand, or compute a uniform value and everything that it depends on, and return its
        name."""
        s, todo = self.s, [x]
        if s.op[x] == Op.input:
            return self.operand(x)
        while todo:
            v = todo[-1]
            assert s.is_uniform[v], f"operation {v} is read before it is made"
            missing = [y for y in s.operands(v) if not self.there(y)]
            if missing:
                todo += missing
            else:
                todo.pop()
                if v not in self.names:
                    self.operation(v)
        return self.names[x]

    def operand(self, x: int) -> str:
        _, t, shared = self.s.program.inputs[self.s.a[x]]
        place = self.address(self.s.a[x], self.s.b[x], t, shared)
        kind = "i8" if t == Type.bool_ else NAMES[t]
        # operands are never written: LLVM may move the load past stores of outputs
        name = self.line(f"load {kind}, ptr addrspace(1) {place}, align {t.bytes}, !invariant.load !0")
        return self.line(f"trunc i8 {name} to i1") if t == Type.bool_ else name

    def entry(self, t: int, operand: int, row: str) -> str:
        _, kind, shared = self.s.program.inputs[operand]
        at = self.line(f"zext i32 {row} to i64")
        base = f"%p{operand}" if shared else f"%o{operand}"
        if not shared:
            at = self.line(f"mul i64 {at}, %lanes.wide")
        place = self.line(f"getelementptr {NAMES[t]}, ptr addrspace(1) {base}, i64 {at}")
        return self.line(f"load {NAMES[t]}, ptr addrspace(1) {place}, align {kind.bytes}, !invariant.load !0")

    def store(self, st: Store) -> None:
        t = self.s.program.output_types[st.output]
        name, kind = self.as_bytes(self.use(st.value), t)
        place = self.address(len(self.s.program.inputs) + st.output, st.row, t, False)
        self.lines.append(f"store {kind} {name}, ptr addrspace(1) {place}, align {t.bytes}")

    # control

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")
        self.block = name

    def forget(self, count: int) -> None:
        """Forget all names but the first `count`, since values of one block are not available in blocks that may be
        reached without it."""
        while len(self.names) > count:
            self.names.popitem()

    def statements(self, region: int) -> None:
        for st in self.s.body[region]:
            self.statement(st)

    def statement(self, st) -> None:
        if isinstance(st, int):
            self.operation(st)
        elif isinstance(st, Store):
            self.store(st)
        elif isinstance(st, Loop):
            self.loop(st)
        else:
            self.branches(st)

    def loop(self, loop: Loop) -> None:
        s, places = self.s, self.s.changing[loop.index]
        first, before = [self.use(loop.initial[k]) for k in places], self.block
        self.count += 1
        together = self.line(f"call i32 @{_ACTIVE}()")
        head, body, end = (f"{name}{self.count}" for name in ("head", "body", "end"))
        self.lines.append(f"br label %{head}")
        self.label(head)
        at = len(self.lines)
        for k in places:
            self.names[loop.carries[k]] = self.line("")
        known = 0
        for st in s.body[loop.region]:
            if not isinstance(st, Guard):
                self.statement(st)
                continue
            self.lines.append(f"br i1 {self.use(loop.condition)}, label %{body}, label %{end}")
            known = len(self.names)
            self.label(body)
        for k, old, line in zip(places, first, range(at, at + len(places)), strict=True):
            new = self.use(loop.nexts[k])
            kind = NAMES[s.program.type_of(loop.initial[k])]
            self.lines[line] += f"phi {kind} [ {old}, %{before} ], [ {new}, %{self.block} ]"
        self.lines.append(f"br label %{head}")
        self.forget(known)
        self.label(end)
        self.lines.append(f"call void @{_WAIT}(i32 {together})")
        for k in places:
            self.names[loop.results[k]] = self.names[loop.carries[k]]

    def branches(self, branches: Branches) -> None:
        s, places = self.s, self.s.changing[branches.index]
        holds = [self.use(x) for x in branches.predicates]
        self.count += 1
        n, known = self.count, len(self.names)
        ways: list[list[str]] = [[] for _ in places]
        for k, (region, outcome) in enumerate(zip(branches.regions, branches.outcomes, strict=True)):
            if k < len(holds):
                self.lines.append(f"br i1 {holds[k]}, label %case{n}.{k}, label %other{n}.{k}")
                self.label(f"case{n}.{k}")
            self.statements(region)
            for way, x in zip(ways, [self.use(outcome[j]) for j in places], strict=True):
                way.append(f"[ {x}, %{self.block} ]")
            self.lines.append(f"br label %join{n}")
            self.forget(known)
            if k < len(holds):
                self.label(f"other{n}.{k}")
        self.label(f"join{n}")
        for way, j in zip(ways, places, strict=True):
            v = branches.results[j]
            self.names[v] = self.line(f"phi {NAMES[s.program.type[v]]} {', '.join(way)}")


@functools.cache
def target() -> host.Target:
    """Return the GPU to compile for, as `host.name_of` takes it. Raises RuntimeError if LLVM was built without NVIDIA's
    GPUs."""
    binding = _llvm()
    return host.Target(TRIPLE, PROCESSOR, FEATURES, 0, ".".join(map(str, binding.llvm_version_info)))


def _llvm():
    """Return llvmlite's `binding`, initialised for PTX."""
    binding = native.llvm()
    with _lock:
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        binding.Target.from_triple(TRIPLE)
    return binding


def assembled(source: str) -> str:
    """Compile LLVM IR to PTX, and return it. Raises RuntimeError if LLVM does not accept the text."""
    binding, aim = _llvm(), target()
    machine = binding.Target.from_triple(TRIPLE).create_target_machine(cpu=aim.cpu, features=aim.features, opt=2)
    context = binding.create_context()
    module = binding.parse_assembly(source, context)
    try:
        module.verify()
        return machine.emit_assembly(module)
    finally:
        module.close()
        context.close()


def spilled(text: str) -> str:
    """Return PTX that keeps in the memory of a block what has no place in registers, before it uses the much larger
    local memory. `worthwhile` tells where that pays."""
    head, entry = text.split(".visible .entry", 1)
    head = head.replace(".version 7.0", ".version 9.0", 1).replace(".target sm_70", ".target sm_75", 1)
    parameters, body = entry.split("\n{", 1)
    return f'{head}.visible .entry{parameters}\n.maxntid {THREADS}\n{{\n\t.pragma "enable_smem_spilling";{body}'


def worthwhile(program: Program, text: str) -> bool:
    """Return whether `spilled` makes a program faster. On an H200 straight programs in single precision take 0.75 to
    0.9 of the time. Those with loops or in double precision take longer, and long ones gain little, while the driver's
    assembler takes 1.5 times as long."""
    types = {*(t for _, t, _ in program.inputs), *program.output_types}
    return Type.float64 not in types and "activemask" not in text and len(text) <= SPILLED
