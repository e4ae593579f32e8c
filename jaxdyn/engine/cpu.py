"""A schedule as LLVM modules for a CPU: prologue, pieces, kernel, and what XLA calls."""

from . import pieces, runtime
from .layout import Layout
from .ops import Op, Type
from .order import Schedule

#: name of the function that XLA calls
HANDLER = "jaxdyn_handler"
#: bytes that a block of lanes may take: with the arena it stays in the cache of a core
STAGE = 1 << 17
#: most vectors of a block
VECTORS = 8
#: vectors that go through a piece before the next one begins
GROUP = 4
#: statements of a function, and of a module
PIECE, MODULE = 1000, 8000


def lanes_of(s: Schedule, vector_bytes: int) -> int:
    """Lanes of a vector: as many of the widest float that goes in or out as its bytes hold."""
    types = [t for _, t, _ in s.program.inputs] + s.program.output_types
    return max(1, vector_bytes // (8 if Type.float64 in types else 4))


def modules(s: Schedule, vector_bytes: int, fused_apart: bool = False) -> list[str]:
    """LLVM IR of all modules of the program; `fused_apart` for processors without multiply-adds."""
    lanes = lanes_of(s, vector_bytes)
    layout, places = Layout(s, PIECE), pieces.places(s, lanes)
    declared: set[str] = set()
    makers = [_piece(p, s, layout, places, fused_apart) for p in layout.pieces]
    arena = _rounded(layout.size * lanes)
    vectors = max(1, min(VECTORS, STAGE // places.stage))
    group = min(vectors, GROUP)
    driver = pieces.Driver(layout, lanes, group, places.stage, arena)
    driver.nodes(layout.nodes, None)
    bodies: list[tuple[int, str, set[str]]] = []
    for p, make in zip(layout.pieces, makers, strict=True):
        text, needs = make(driver.around.get(p.index))
        bodies.append((len(p.statements), text, needs))
    prologue = _prologue(s, places, declared)
    described = _descriptor(s, places, bool(prologue), vectors, group * arena)
    main = [*prologue, driver.text(), described, runtime.handler(HANDLER, vector_bytes)]
    groups: list[list[tuple[str, set[str]]]] = [[]]
    size = 0
    for n, text, needs in bodies:
        if size and size + n > MODULE:
            groups.append([])
            size = 0
        groups[-1].append((text, needs))
        size += n
    one = len(groups) == 1
    linkage = "internal" if one else "hidden"
    out = []
    for k, group in enumerate(groups):
        needs = set().union(declared if k == 0 else set(), *(n for _, n in group))
        texts = [t.replace("@@LINKAGE@@", linkage) for t, _ in group]
        if k == 0:
            here = len(group)
            others = [f"declare void @piece{p.index}(ptr, ptr, ptr)" for p in layout.pieces[here:]]
            texts += [*others, *main]
        out.append("\n".join([*sorted(needs), *texts]) + "\n")
    return out


def _arguments() -> str:
    return "ptr noalias %stage, ptr noalias %uniform, ptr noalias %arena"


def _piece(piece, s, layout, places, fused_apart):
    def make(around):
        declared: set[str] = set()
        code = pieces.Lanes(s, layout, places, declared)
        code.fused_apart = fused_apart
        code.piece(piece, around)
        head = f"define @@LINKAGE@@ void @piece{piece.index}({_arguments()}) nounwind noinline {{"
        return "\n".join([head, *code.lines, "ret void", "}"]), declared

    return make


def _prologue(s: Schedule, places, declared) -> list[str]:
    if not s.read:
        return []
    code = pieces.Prologue(s, 1, declared)
    wanted = set(s.read)
    for v in s.uniform:
        if s.op[v] != Op.input:
            code.operation(v)
        if v in wanted:
            code.store(v, places.uniform[v])
    head = "define internal void @prologue(ptr noalias %operands, ptr noalias %uniform) nounwind {"
    return [head, *code.lines, "ret void", "}"]


def _rounded(n: int) -> int:
    return max(64, -(-n // 64) * 64)


def _descriptor(s: Schedule, places, prologue: bool, vectors: int, arena: int) -> str:
    program = s.program
    inputs = [(rows, t.bytes, at) for (rows, t, _), at in zip(program.inputs, places.inputs, strict=True)]
    outputs = [
        (len(out), t.bytes, at)
        for out, t, at in zip(program.outputs, program.output_types, places.outputs, strict=True)
    ]
    return runtime.descriptor(
        "prologue" if prologue else None,
        "kernel",
        places.lanes,
        vectors,
        inputs,
        outputs,
        places.stage,
        places.uniform_size,
        arena,
    )
