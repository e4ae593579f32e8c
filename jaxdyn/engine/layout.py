"""Decides where a schedule's values are stored: in straight pieces of code, and in slots of memory between pieces.

A *piece* becomes one function, in which values are registers. Loops and branches stand between pieces. The values that
a loop carries, or that one piece passes to another, are stored in slots of an *arena*; a slot is reused when its value
is no longer needed. Long code is cut into pieces of `longest` statements, since the time that compilers take grows
faster than the length of a function. A short *detour*, for the rare lane with a huge angle for instance, stays within
its piece.
"""

import itertools
from typing import Any

from .intervals import Intervals
from .live import LEAVES, Schedule
from .nodes import Advance, Begin, Calls, Choice, Choose, Moves, Outcome, Piece, Spread, While
from .ops import Branches, Call, Loop, Op, Type
from .order import Guard, Store

#: most statements of a detour
DETOUR = 100
#: at least this many values of a loop or branches are set by rows of a table
MANY = 64
_BYTES = [t.bytes for t in Type]


class Layout:
    """Pieces in order, and the slots of values that cross between them.

    **Fields:** `nodes`, `Piece`s, `Calls`, `Moves`, `While`s and `Choice`s in order; `pieces`, all pieces; `runs`, all
    `Calls`; `moves`, all `Moves`; `slot`, offsets by key, in bytes for a single lane: a key is a value, ("carry", loop,
    place), ("mask", owner, branch), ("result", branches, place) or ("spread", value); `size`, the arena's bytes for a
    single lane; `direct`, for results of calls that are outputs, the output that they are written to without a slot;
    `home`, for results of the first of some branches that it computes itself, the key in whose slot it does so.
    """

    def __init__(self, s: Schedule, longest: int):
        self.s, self.longest = s, longest
        self.pieces: list[Piece] = []
        self.runs: list[Calls] = []
        self.moves: list[Moves] = []
        self._at = 0
        self._spans: list[tuple[int, int]] = []
        self.direct: dict[int, Store] = {}
        self.home: dict[int, tuple] = {}
        statements, stores = self._without_stores(s.body[0])
        self.nodes = self._nodes([*([Spread(s.spread)] if s.spread else []), *statements]) + self._moves(stores)
        self.slot: dict = {}
        self.size = 0
        self._place()

    # pieces

    def _without_stores(self, statements: list) -> tuple[list, Moves | None]:
        """Return the statements without the stores that calls do themselves, and those that `Moves` do instead of
        pieces, if they are many, or None."""
        s, kept, apart = self.s, [], []
        for st in statements:
            x = st.value if isinstance(st, Store) else -1
            own = x >= 0 and s.op[x] == Op.call and not s.is_uniform[x] and s.program.region[x] == 0
            if own and x not in self.direct:
                self.direct[x] = st
                continue
            kept.append(st)
            if isinstance(st, Store) and (x < 0 or s.is_uniform[x] or s.op[x] in LEAVES):
                apart.append(st)
        if len(apart) < MANY or not s.program.calls:
            return kept, None
        found = set(apart)
        return [st for st in kept if not isinstance(st, Store) or st not in found], Moves(
            [st.value for st in apart], apart, None, 0
        )

    def _piece(self, statements: list) -> Piece:
        self.pieces.append(Piece(len(self.pieces), statements, self._at))
        self._at += 1
        return self.pieces[-1]

    def _calls(self, calls: list[Call]) -> Calls:
        self.runs.append(Calls(calls, self._at))
        self._at += len(calls)
        return self.runs[-1]

    def _nodes(self, statements: list, last: tuple | None = None) -> list:
        """Return the nodes of a region's statements. `last` ends them: a statement, and `Moves` or None."""
        nodes, run = [], []

        def flush():
            if run and isinstance(run[0], Call):
                nodes.append(self._calls(run[:]))
                run.clear()
            while run:
                nodes.append(self._piece(run[: self.longest]))
                del run[: self.longest]

        for st in statements:
            if run and isinstance(run[0], Call) != isinstance(st, Call):
                flush()
            if isinstance(st, Loop):
                straight, moves = self._parted("carry", st, st.initial, None, self.s.changing[st.index])
                run.append(Begin(st, straight))
                flush()
                nodes += [*self._moves(moves), self._while(st)]
            elif isinstance(st, Branches) and not self.detour(st):
                run.append(Choose(st))
                flush()
                nodes.append(self._choice(st))
            else:
                run.append(st)
        if last is None:
            flush()
            return nodes
        if run and isinstance(run[0], Call):
            flush()
        if not isinstance(last[0], Outcome) or last[0].places:
            run.append(last[0])
        flush()
        return nodes + self._moves(last[1])

    def _parted(self, name: str, owner: Loop | Branches, values: list[int], mask: tuple | None, places: list[int]):
        """Return those of these places of a loop's or branches' values that straight code sets, and the others as
        `Moves` if they are many. If a loop copies one of its values to another, the old one must be read before it is
        set, so straight code does these first."""
        own = set(owner.carries if isinstance(owner, Loop) else ())
        straight = [k for k in places if values[k] in own]
        moved = [k for k in places if values[k] not in own]
        if len(moved) < MANY or not self.s.program.calls:
            return places, None
        return straight, Moves([values[k] for k in moved], [(name, owner.index, k) for k in moved], mask, 0)

    def _moves(self, node: Moves | None) -> list[Moves]:
        if node is None:
            return []
        node.at, self._at = self._at, self._at + 1
        self.moves.append(node)
        return [node]

    def detour(self, branches: Branches) -> bool:
        """Return whether these branches are one short piece of code for some lanes, and empty for the rest."""
        body = self.s.body
        short = len(branches.regions) == 2 and not body[branches.regions[1]]
        inner = body[branches.regions[0]]
        return short and len(inner) <= DETOUR and all(isinstance(st, int) for st in inner)

    def _while(self, loop: Loop) -> While:
        first = self._at
        inner = self.s.body[loop.region]
        cut = next(k for k, st in enumerate(inner) if isinstance(st, Guard)) + 1
        mask, places = ("mask", loop.index, 0), self.s.changing[loop.index]
        straight, moves = self._parted("carry", loop, loop.nexts, mask, places)
        node = While(loop, self._nodes(inner[:cut]), self._nodes(inner[cut:], (Advance(loop, straight), moves)))
        self._spans.append((first, self._at - 1))
        return node

    def _choice(self, branches: Branches) -> Choice:
        index, count = branches.index, len(branches.regions)
        own = [self._own_results(branches, k) for k in range(count)]
        # the first branch stores its results unmasked, for all lanes; the others, which run later, replace them in
        # their own lanes: so the one that computes most results runs first
        first = max(range(count), key=lambda k: len(own[k]))
        self.home.update(own[first])
        kept, cases = set(own[first].values()), {}
        for k in sorted(range(count), key=lambda k: k != first):
            places = [j for j in self.s.changing[index] if k != first or ("result", index, j) not in kept]
            straight, moves = self._parted("result", branches, branches.outcomes[k], ("mask", index, k), places)
            cases[k] = self._nodes(self.s.body[branches.regions[k]], (Outcome(branches, k, straight), moves))
        return Choice(branches, cases)

    def _own_results(self, branches: Branches, k: int) -> dict[int, tuple]:
        """Return the keys of results that a branch computes itself, by value."""
        found: dict[int, tuple] = {}
        own = {x for st in self.s.body[branches.regions[k]] for x in _results(st)}
        for j in self.s.changing[branches.index]:
            x = branches.outcomes[k][j]
            if x in own:
                found.setdefault(x, ("result", branches.index, j))
        return found

    # slots

    def reads(self, st) -> list:
        """Return the keys of the values that a statement reads, without constants and inputs."""
        s = self.s
        if isinstance(st, int):
            found = s.operands(st)
        elif isinstance(st, Spread):
            return []
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
            found = [st.loop.initial[k] for k in st.places]
        elif isinstance(st, Advance):
            found = [st.loop.nexts[k] for k in st.places]
        elif isinstance(st, Choose):
            found = st.branches.predicates
        else:
            found = [st.branches.outcomes[st.which][k] for k in st.places]
        return self.keys(found)

    def keys(self, values) -> list:
        """Return the keys of values, without those of constants and inputs."""
        s = self.s
        return [self.key(x) for x in values if x >= 0 and not s.is_uniform[x] and s.op[x] != Op.input]

    def key(self, v: int):
        s = self.s
        if s.op[v] == Op.carry or (s.op[v] == Op.result and isinstance(s.program.owners[s.a[v]], Loop)):
            return ("carry", s.a[v], s.b[v])
        if s.op[v] == Op.result and not self.detour(s.program.owners[s.a[v]]):
            return ("result", s.a[v], s.b[v])
        return self.home.get(v, v)

    def _place(self) -> None:
        s = self.s
        first: dict = {}
        last: dict = {}
        for node in sorted((*self.pieces, *self.runs, *self.moves), key=lambda node: node.at):
            if isinstance(node, Moves):
                for key in self.keys(node.values):
                    self._extend(first, last, key, node.at)
                continue
            if isinstance(node, Calls):
                self._pass(node, first, last)
                continue
            at = node.at
            for st in node.statements:
                if isinstance(st, int):
                    if st not in self.home:
                        first[st] = at
                elif isinstance(st, Branches):
                    first.update((st.results[k], at) for k in s.changing[st.index])
                for key in self.reads(st):
                    if not (isinstance(key, int) and first.get(key) == at):
                        self._extend(first, last, key, at)
                if isinstance(st, Spread):
                    first.update((("spread", x), at) for x in st.values)
                if isinstance(st, Begin | Choose):
                    owner = st.loop if isinstance(st, Begin) else st.branches
                    name = "carry" if isinstance(st, Begin) else "result"
                    masks = [("mask", owner.index, k) for k in range(len(getattr(owner, "regions", [0])))]
                    for key in [*((name, owner.index, k) for k in s.changing[owner.index]), *masks]:
                        first[key], last[key] = at, self._end_of(at)
        self._assign(first, last)

    def _pass(self, node: Calls, first: dict, last: dict) -> None:
        """Extend the live ranges of values that calls read, and begin those of values that they compute."""
        s = self.s
        for at, call in enumerate(node.calls, node.at):
            for x in s.given(call):
                if x < 0 or s.is_uniform[x]:
                    key = ("spread", x)
                    if key not in first:
                        continue
                elif s.op[x] == Op.input or x in self.direct:
                    continue
                else:
                    key = self.key(x)
                self._extend(first, last, key, at)
            for x in itertools.compress(call.results, s.masks[call.index]):
                if x not in self.home:
                    first[x] = at

    def _assign(self, first: dict, last: dict) -> None:
        """Assign slots. Results of one call with equal live ranges are neighbours."""
        s, types = self.s, self.s.program.type
        starts: dict[int, dict] = {}
        ends: dict[int, list] = {}
        value_of = {key: x for x, key in self.home.items()}
        size_of = {key: _BYTES[types[key]] if isinstance(key, int) else self.bytes_of(key) for key in last}
        for key, end in last.items():
            if key in self.direct:
                continue
            x: Any = value_of.get(key, key)
            called = isinstance(x, int) and s.op[x] == Op.call
            groups = starts.setdefault(first[key], {})
            groups.setdefault((end, s.a[x]) if called else (end, "", key), []).append(key)
        space = Intervals()
        for at in range(self._at):
            for offset, size in ends.pop(at - 1, ()):
                space.free(offset, size)
            for (end, *_), keys in starts.get(at, {}).items():
                keys.sort(key=size_of.__getitem__, reverse=True)
                widest = size_of[keys[0]]
                size = sum([size_of[key] for key in keys])
                offset = space.take(size, widest)
                ends.setdefault(end, []).append((offset, size))
                for key in keys:
                    self.slot[key] = offset
                    offset += size_of[key]
        self.size = space.size

    def _extend(self, first: dict, last: dict, key, at: int) -> None:
        """Extend the live range of a value to a piece or call that reads it."""
        last[key] = max(last.get(key, at), self._until(first[key], at))

    def _until(self, begin: int, use: int) -> int:
        """Return the last piece that needs a value. A loop that reads a value defined before it needs the value until
        it ends."""
        for low, high in self._spans:
            if begin < low <= use <= high:
                use = high
        return use

    def _end_of(self, at: int) -> int:
        """Return the last piece of the loop or branches that begin after piece `at`."""

        def last(node) -> int:
            if isinstance(node, Piece | Moves):
                return node.at
            if isinstance(node, Calls):
                return node.at + len(node.calls) - 1
            inner = [*node.head, *node.body] if isinstance(node, While) else [n for c in node.cases.values() for n in c]
            return max(map(last, inner), default=-1)

        def find(nodes):
            for k, node in enumerate(nodes):
                if isinstance(node, Piece):
                    if node.at == at:
                        return last(next(x for x in nodes[k + 1 :] if not isinstance(x, Moves)))
                elif not isinstance(node, Calls | Moves):
                    for inner in [node.head, node.body] if isinstance(node, While) else node.cases.values():
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
        if key[0] == "spread":
            return self.s.program.type_of(key[1])
        owner = self.s.program.owners[key[1]]
        some = owner.initial[key[2]] if isinstance(owner, Loop) else owner.outcomes[0][key[2]]
        return self.s.program.type_of(some)

    def bytes_of(self, key) -> int:
        return _BYTES[self.type_of(key)]


def _results(st) -> list[int]:
    """Return the values that a statement computes itself."""
    return [st] if isinstance(st, int) else list(st.results) if isinstance(st, Call) else []
