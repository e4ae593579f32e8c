"""Where a schedule's values live: straight pieces of code, and slots of memory for what crosses from one to another.

A *piece* becomes one function, in which values are registers. Loops and branches stand between pieces, so that what a
loop carries and what one piece hands to another goes through an *arena*, a slot each, used again by liveness. Long code
is cut into pieces of `longest` statements, since compilers take more than proportional time for long functions. A short
*detour*, for the rare lane with a huge angle for instance, stays within its piece.
"""

import dataclasses

from .ops import Branches, Loop, Op, Type
from .order import Guard, Schedule, Store

#: statements that a detour has at most
DETOUR = 100


@dataclasses.dataclass(frozen=True)
class Begin:
    """Give the loop's values their initial ones."""

    loop: Loop


@dataclasses.dataclass(frozen=True)
class Advance:
    """Give the loop's values their next ones, in lanes that go on."""

    loop: Loop


@dataclasses.dataclass(frozen=True)
class Choose:
    """Find the lanes of every branch."""

    branches: Branches


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Give the branches' values those of branch `which`, in its lanes."""

    branches: Branches
    which: int


@dataclasses.dataclass
class Piece:
    """Statements without control flow; `index` counts pieces in order."""

    index: int
    statements: list


@dataclasses.dataclass
class While:
    """Pieces of a loop: `head` ends with its `Guard`."""

    loop: Loop
    head: list
    body: list


@dataclasses.dataclass
class Choice:
    """Pieces of branches, one list a branch."""

    branches: Branches
    cases: list[list]


class Layout:
    """Pieces in order and the slots of what crosses between them.

    **Fields:** `nodes`, `Piece`s, `While`s and `Choice`s in order; `pieces`, all pieces; `slot`, offsets in units of
    one lane's bytes by key: a value, ("carry", loop, place), ("mask", owner, branch), ("result", branches, place);
    `size`, the arena's bytes a lane.
    """

    def __init__(self, s: Schedule, longest: int):
        self.s, self.longest = s, longest
        self.pieces: list[Piece] = []
        self._spans: list[tuple[int, int]] = []
        self.nodes = self._nodes(s.body[0])
        self.slot: dict = {}
        self.size = 0
        self._place()

    # pieces

    def _piece(self, statements: list) -> Piece:
        self.pieces.append(Piece(len(self.pieces), statements))
        return self.pieces[-1]

    def _nodes(self, statements: list, last: list | None = None) -> list:
        """Nodes of a region's statements, ended by `last`."""
        nodes, run = [], []

        def flush():
            while run:
                nodes.append(self._piece(run[: self.longest]))
                del run[: self.longest]

        for st in statements:
            if isinstance(st, Loop):
                run.append(Begin(st))
                flush()
                nodes.append(self._while(st))
            elif isinstance(st, Branches) and not self.detour(st):
                run.append(Choose(st))
                flush()
                nodes.append(self._choice(st))
            else:
                run.append(st)
        run += last or []
        flush()
        return nodes

    def detour(self, branches: Branches) -> bool:
        """Whether they are one short piece of code for some lanes, and nothing for the rest."""
        body = self.s.body
        short = len(branches.regions) == 2 and not body[branches.regions[1]]
        inner = body[branches.regions[0]]
        return short and len(inner) <= DETOUR and all(isinstance(st, int) for st in inner)

    def _while(self, loop: Loop) -> While:
        first = len(self.pieces)
        inner = self.s.body[loop.region]
        cut = next(k for k, st in enumerate(inner) if isinstance(st, Guard)) + 1
        node = While(loop, self._nodes(inner[:cut]), self._nodes(inner[cut:], [Advance(loop)]))
        self._spans.append((first, len(self.pieces) - 1))
        return node

    def _choice(self, branches: Branches) -> Choice:
        cases = [self._nodes(self.s.body[region], [Outcome(branches, k)]) for k, region in enumerate(branches.regions)]
        return Choice(branches, cases)

    # slots

    def reads(self, st) -> list:
        """Keys of what a statement reads, constants and inputs left out."""
        s = self.s
        if isinstance(st, int):
            found = s.operands(st)
        elif isinstance(st, Branches):
            inner = s.body[st.regions[0]]
            found = [x for v in inner for x in s.operands(v)]
            found += [*st.predicates, *(o[k] for o in st.outcomes for k in s.changing[st.index])]
            found = [x for x in found if x not in set(inner)]
        elif isinstance(st, Store):
            found = (st.value,)
        elif isinstance(st, Guard):
            found = (st.loop.condition,)
        elif isinstance(st, Begin):
            found = [st.loop.initial[k] for k in s.changing[st.loop.index]]
        elif isinstance(st, Advance):
            found = [st.loop.nexts[k] for k in s.changing[st.loop.index]]
        elif isinstance(st, Choose):
            found = st.branches.predicates
        else:
            found = [st.branches.outcomes[st.which][k] for k in s.changing[st.branches.index]]
        return [self.key(x) for x in found if x >= 0 and not s.is_uniform[x] and s.op[x] != Op.input]

    def key(self, v: int):
        s = self.s
        if s.op[v] == Op.carry or (s.op[v] == Op.result and isinstance(s.program.owners[s.a[v]], Loop)):
            return ("carry", s.a[v], s.b[v])
        if s.op[v] == Op.result and not self.detour(s.program.owners[s.a[v]]):
            return ("result", s.a[v], s.b[v])
        return v

    def _place(self) -> None:
        s = self.s
        first: dict = {}
        last: dict = {}
        for piece in self.pieces:
            at = piece.index
            for st in piece.statements:
                if isinstance(st, int):
                    first[st] = at
                elif isinstance(st, Branches):
                    first.update((st.results[k], at) for k in s.changing[st.index])
                for key in self.reads(st):
                    if not (isinstance(key, int) and first.get(key) == at):
                        last[key] = self._until(first[key], at)
                if isinstance(st, Begin | Choose):
                    owner = st.loop if isinstance(st, Begin) else st.branches
                    name = "carry" if isinstance(st, Begin) else "result"
                    masks = [("mask", owner.index, k) for k in range(len(getattr(owner, "regions", [0])))]
                    for key in [*((name, owner.index, k) for k in s.changing[owner.index]), *masks]:
                        first[key], last[key] = at, self._end_of(at)
        starts: dict[int, list] = {}
        ends: dict[int, list] = {}
        for key, end in last.items():
            starts.setdefault(first[key], []).append(key)
            ends.setdefault(end, []).append(key)
        free: dict[int, list[int]] = {}
        for at in range(len(self.pieces)):
            for key in ends.get(at - 1, []):
                free.setdefault(self.bytes_of(key), []).append(self.slot[key])
            for key in starts.get(at, []):
                size = self.bytes_of(key)
                if free.get(size):
                    self.slot[key] = free[size].pop()
                else:
                    self.slot[key] = -(-self.size // size) * size
                    self.size = self.slot[key] + size

    def _until(self, begin: int, use: int) -> int:
        """The piece until which a value is needed: a loop that does not contain its making, to the end."""
        for low, high in self._spans:
            if begin < low <= use <= high:
                use = high
        return use

    def _end_of(self, at: int) -> int:
        """The last piece of the loop or branches that begin after piece `at`."""

        def last(node) -> int:
            if isinstance(node, Piece):
                return node.index
            inner = [*node.head, *node.body] if isinstance(node, While) else [n for c in node.cases for n in c]
            return max(map(last, inner), default=-1)

        def find(nodes):
            for k, node in enumerate(nodes):
                if isinstance(node, Piece):
                    if node.index == at:
                        return last(nodes[k + 1])
                else:
                    for inner in [node.head, node.body] if isinstance(node, While) else node.cases:
                        found = find(inner)
                        if found is not None:
                            return found
            return None

        end = find(self.nodes)
        assert end is not None
        return max(end, at)

    def type_of(self, key) -> int:
        if isinstance(key, int):
            return self.s.program.type[key]
        if key[0] == "mask":
            return Type.bool_
        owner = self.s.program.owners[key[1]]
        some = owner.initial[key[2]] if isinstance(owner, Loop) else owner.outcomes[0][key[2]]
        return self.s.program.type_of(some)

    def bytes_of(self, key) -> int:
        return Type(self.type_of(key)).bytes
