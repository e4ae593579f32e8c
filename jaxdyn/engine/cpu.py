"""Translates a schedule to LLVM modules for a CPU: prologue, pieces, kernel, and the function that XLA calls."""

import dataclasses
import itertools
from collections.abc import Callable

from . import pieces, runtime
from .called import InLanes, Kind, Shared, Tables
from .driver import Driver
from .layout import Layout
from .live import Schedule
from .moves import moved
from .nodes import Calls, Moves, Piece
from .ops import Call, Op, Type
from .program import Program

#: name of the function that XLA calls
HANDLER = "jaxdyn_handler"
#: bytes of a block of lanes: small enough that block and arena stay in the cache of a core
STAGE = 1 << 17
#: most vectors in a block
VECTORS = 8
#: vectors that go through a piece before the next one begins
GROUP = 4
#: bytes of the arenas of a group of vectors if steps are called: about those of a processor's nearest cache
ARENA = 1 << 16
#: most statements of a function, and of a module
PIECE, MODULE = 1000, 8000
#: parameters of a piece
ARGUMENTS = "ptr noalias %stage, ptr noalias %uniform, ptr noalias %arena"


def lane_bytes(program: Program) -> int:
    """Return the bytes that a lane takes in a vector: 8 if an operand or output is a float64, else 4."""
    return 8 if Type.float64 in [t for _, t, _ in program.inputs] + program.output_types else 4


def lanes_of(s: Schedule, vector_bytes: int) -> int:
    """Return the number of lanes in a vector."""
    return max(1, vector_bytes // lane_bytes(s.program))


def memory(s: Schedule) -> int:
    """Return the bytes of stage, uniform values and arena for a single lane."""
    places = pieces.places(s, 1)
    return places.stage + places.uniform_size + _rounded(Layout(s, PIECE).size)


def numbers(program: Program) -> tuple[int, ...]:
    """Return the sizes in bytes, in ascending order, of the numbers that lanes have as operands and outputs."""
    types = [t for _, t, shared in program.inputs if not shared] + program.output_types
    return tuple(sorted({t.bytes for t in types}))


def modules(s: Schedule, vector_bytes: int, fused_apart: bool = False) -> list[str]:
    """Return the LLVM IR of all modules of the program. `fused_apart` is for processors without multiply-adds."""
    lanes = lanes_of(s, vector_bytes)
    layout, places = Layout(s, PIECE), pieces.places(s, lanes)
    arena = _rounded(layout.size * lanes)
    vectors = max(1, min(VECTORS, STAGE // places.stage))
    group = min(vectors, GROUP)
    if layout.runs or layout.moves:
        group = max(1, min(group, ARENA // arena))
    own, same = InLanes(s, layout, places), Shared(places)
    steps = Tables("step", lanes, s.masks)

    def run(node: Calls | Moves) -> str:
        if isinstance(node, Calls):
            return steps.run(node.calls, own, same)
        return steps.moves(moved(s, layout, places, node, own, same))

    driver = Driver(layout, lanes, group, places.stage, arena, run)
    driver.nodes(layout.nodes)
    declared: set[str] = set()
    shared = Tables("shared", 1, s.masks)
    prologue = _prologue(s, places, declared, lambda calls: shared.run(calls, same, same))
    described = _descriptor(s, places, bool(prologue), vectors, group * arena)
    main = [*prologue, driver.text(), described, runtime.handler(HANDLER, vector_bytes, numbers(s.program))]

    def piece(own: Piece):
        def text(linkage: str, needs: set[str]) -> str:
            code = pieces.Lanes(s, layout, places, needs)
            code.fused_apart = fused_apart
            code.piece(own, driver.around.get(own.index))
            head = f"define {linkage} void @piece{own.index}({ARGUMENTS}) nounwind noinline {{"
            return "\n".join([head, *code.lines, "ret void", "}"])

        return _Unit(len(own.statements), text, f"declare void @piece{own.index}(ptr, ptr, ptr)")

    units = [piece(own) for own in layout.pieces]
    for tables in (steps, shared):
        tables.finish()
        if tables.runs:
            main.append(tables.text())
        for kind in tables.kinds.values():
            units.append(_Unit(kind.size, *_step(tables, kind, fused_apart)))
    return _modules(units, main, declared)


@dataclasses.dataclass
class _Unit:
    """A function: its number of operations, its text for a linkage and a set of declarations, and its declaration for
    other modules."""

    size: int
    text: Callable[[str, set[str]], str]
    declaration: str


def _step(tables: Tables, kind: Kind, fused_apart: bool):
    text = lambda linkage, needs: tables.function(kind, linkage, needs, fused_apart)  # noqa: E731
    return text, f"declare ptr @{tables.name}{kind.index}(ptr, ptr, ptr, ptr)"


def _modules(units: list[_Unit], main: list[str], declared: set[str]) -> list[str]:
    """Return modules of functions; the first one also contains `main`."""
    groups: list[list[_Unit]] = [[]]
    size = 0
    for unit in units:
        if size and size + unit.size > MODULE:
            groups.append([])
            size = 0
        groups[-1].append(unit)
        size += unit.size
    linkage = "internal" if len(groups) == 1 else "hidden"
    out = []
    for k, own in enumerate(groups):
        needs: set[str] = set() if k else declared
        texts = [unit.text(linkage, needs) for unit in own]
        if not k:
            texts += [unit.declaration for unit in units[len(own) :]] + main
        out.append("\n".join([*sorted(needs), *texts]) + "\n")
    return out


def _prologue(s: Schedule, places, declared, run: Callable) -> list[str]:
    """Return the code that runs once a call. `run` returns the name of the function that makes the given calls."""
    if not s.read and not places.addresses:
        return []
    code = pieces.Prologue(s, 1, declared)
    code.uniform = places.uniform
    wanted = set(s.read)
    for operand, first, size, offset in places.copied:
        base = code.line(f"load ptr, ptr {code.at('%operands', 8 * operand)}")
        to, source = code.at("%uniform", offset), code.at(base, first)
        code.lines.append(f"call ptr @jaxdyn_copy(ptr {to}, ptr {source}, i64 {size})")
    for is_call, part in itertools.groupby(s.uniform, lambda st: isinstance(st, Call)):
        if is_call:
            code.lines.append(f"call void {run(list(part))}(ptr %uniform, ptr %uniform, ptr %uniform)")
            continue
        for v in part:
            if s.op[v] != Op.input:
                code.operation(v)
            if v in wanted and not (places.copied and s.op[v] == Op.input):
                code.store(v, places.uniform[v])
    for operand, offset in places.addresses.items():
        code.lines.append(f"store ptr {code.address(operand)}, ptr {code.at('%uniform', offset)}")
    head = "define internal void @prologue(ptr noalias %operands, ptr noalias %uniform) nounwind {"
    if places.copied:
        declared.add("declare ptr @jaxdyn_copy(ptr, ptr, i64)")
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
