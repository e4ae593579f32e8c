"""A schedule as LLVM modules for a CPU: prologue, pieces, kernel, and what XLA calls."""

from . import pieces, runtime
from .layout import Layout, Piece
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
#: of a piece
ARGUMENTS = "ptr noalias %stage, ptr noalias %uniform, ptr noalias %arena"


def lanes_of(s: Schedule, vector_bytes: int) -> int:
    """Lanes of a vector: as many of the widest float that goes in or out as its bytes hold."""
    types = [t for _, t, _ in s.program.inputs] + s.program.output_types
    return max(1, vector_bytes // (8 if Type.float64 in types else 4))


def modules(s: Schedule, vector_bytes: int, fused_apart: bool = False) -> list[str]:
    """LLVM IR of all modules of the program; `fused_apart` for processors without multiply-adds."""
    lanes = lanes_of(s, vector_bytes)
    layout, places = Layout(s, PIECE), pieces.places(s, lanes)
    arena = _rounded(layout.size * lanes)
    vectors = max(1, min(VECTORS, STAGE // places.stage))
    group = min(vectors, GROUP)
    driver = pieces.Driver(layout, lanes, group, places.stage, arena)
    driver.nodes(layout.nodes, None)
    declared: set[str] = set()
    prologue = _prologue(s, places, declared)
    described = _descriptor(s, places, bool(prologue), vectors, group * arena)
    main = [*prologue, driver.text(), described, runtime.handler(HANDLER, vector_bytes)]
    groups = _groups(layout.pieces)
    linkage = "internal" if len(groups) == 1 else "hidden"
    out = []
    for k, own in enumerate(groups):
        needs: set[str] = set() if k else declared
        texts = []
        for piece in own:
            code = pieces.Lanes(s, layout, places, needs)
            code.fused_apart = fused_apart
            code.piece(piece, driver.around.get(piece.index))
            head = f"define {linkage} void @piece{piece.index}({ARGUMENTS}) nounwind noinline {{"
            texts.append("\n".join([head, *code.lines, "ret void", "}"]))
        if not k:
            texts += [f"declare void @piece{p.index}(ptr, ptr, ptr)" for p in layout.pieces[len(own) :]] + main
        out.append("\n".join([*sorted(needs), *texts]) + "\n")
    return out


def _groups(made: list[Piece]) -> list[list[Piece]]:
    """Pieces by the module that they go to."""
    groups: list[list[Piece]] = [[]]
    size = 0
    for piece in made:
        n = len(piece.statements)
        if size and size + n > MODULE:
            groups.append([])
            size = 0
        groups[-1].append(piece)
        size += n
    return groups


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
