"""Finds repeated code between calls, and moves it into templates of its own.

Between two sweeps there is arithmetic on whole arrays, such as a sum for each joint. It repeats the same few
operations, which would let a program grow with the robot although its steps are called. Operations that depend on each
other form a *cluster*. Clusters that do the same to the results of the same calls are called together. A number that
many operations read, such as the length of a time step, does not join them into a cluster, and long sums are cut into
short ones. The operations stay the same, and so do the bits.
"""

from collections import defaultdict

from .calling import uniform_of
from .inline import Copy
from .kept import PARTS, Kept
from .live import LEAVES
from .ops import NONE, Branches, Op, Type
from .program import Program
from .sets import Disjoint
from .templates import Template

#: fewest operations of one kind that become a template, most operations of a cluster, most clusters of a call
WORTH, LARGEST, TOGETHER = 64, 40, 12
#: most readers of a value that is in a cluster with them, most terms of a sum in a cluster
READERS, TERMS = 12, 12

_templates = Kept(PARTS)


def outlined(program: Program) -> Program:
    """Return the program with its repeated code in calls. Only the top level of the program is searched, and those of
    its loops and branches that contain calls."""
    copy = _Outline(program)
    return copy.made() if copy.bundle else program


class _Outline(Copy):
    """The copy of a program with its repeated code in calls.

    `bundle` maps each operation that goes into a call to the call's clusters, each the list of its operations.
    """

    def __init__(self, program: Program):
        super().__init__(program)
        program = self.old
        self.bundle: dict[int, list[list[int]]] = {}
        #: the values that a call's clusters read, by their first operation, and the words of `_shape` for constants
        self.outside: dict[int, list[int]] = {}
        self.constant_words: dict[int, tuple] = {}
        self.regions = {0, *(program.calls[c].region for c in self.s.masks)}
        self.uses = self._uses()
        self.same = uniform_of(self.s, self.live)
        self.level = self._levels()
        self.read = self._read_outside()
        kinds = defaultdict(list)
        for members in self._clusters():
            if len(members) <= LARGEST:
                shape, given = self._shape(members)
                where = self.level[members[0]], program.region[members[0]]
                kinds[shape, where, tuple(dict.fromkeys(map(self._maker, given)))].append(members)
        count: dict = defaultdict(int)
        for (shape, *_), clusters in kinds.items():
            count[shape] += len(clusters) * len(clusters[0])
        for (shape, *_), clusters in kinds.items():
            if count[shape] >= WORTH:
                for k in range(0, len(clusters), TOGETHER):
                    together = clusters[k : k + TOGETHER]
                    self.bundle.update((v, together) for members in together for v in members)

    def _uses(self) -> list[int]:
        """Return, for each value, the number of operations that read it."""
        found = [0] * len(self.s.op)
        op = self.s.op
        for v, alive in enumerate(self.live):
            if alive and op[v] != Op.call:
                for x in self.s.operands(v):
                    found[x] += 1
        return found

    def _levels(self) -> list[int]:
        """Return a level for each value. Operations of one level that read each other have no calls and loops between
        them, no computed row, no value with many readers, and no long sum."""
        s, level = self.s, []
        highest = 0
        begins: dict[tuple[int, int], int] = {}
        terms = [0] * len(s.op)
        for v, alive in enumerate(self.live):
            o = s.op[v]
            if not alive or o == Op.input:
                level.append(0)
            elif o == Op.call:
                key = o, s.a[v]
                if key not in begins:
                    begins[key] = 1 + max([level[x] for x in self.needs(v) if x >= 0], default=0)
                level.append(begins[key])
            elif o in LEAVES:
                level.append(begins.setdefault((o, s.a[v]), highest + 1))
            else:
                level.append(self._behind(v, level, terms) + (o == Op.entry))
            highest = max(highest, level[v])
        return level

    def _behind(self, v: int, level: list[int], terms: list[int]) -> int:
        """Return the level of an operation, and record in `terms` how many terms it has if it is a sum or the like."""
        s = self.s
        found, sums = 0, []
        for x in s.operands(v):
            found = max(found, level[x] + (self.uses[x] > READERS and s.op[x] not in LEAVES))
            if s.op[x] == s.op[v] and self.uses[x] == 1:
                sums.append(x)
        terms[v] = 1 + sum(terms[x] for x in sums)
        if terms[v] > TERMS:
            found, terms[v] = max(found, *(level[x] + 1 for x in sums)), 1
        return found

    def _read_outside(self) -> set[int]:
        """Return the values that are read by anything other than the searched operations."""
        s, old = self.s, self.old
        found = {x for out in s.program.outputs for x in out}
        for owner in old.owners:
            for part in vars(owner).values():
                if isinstance(part, list):
                    found.update(x for y in part for x in (y if isinstance(y, list) else [y]))
            found.add(getattr(owner, "condition", NONE))
        for call in old.calls:
            found.update(call.operands)
        for v, alive in enumerate(self.live):
            if alive and old.region[v] not in self.regions:
                found.update(s.operands(v))
        return found

    def _clusters(self) -> list[list[int]]:
        s, old, level, same = self.s, self.old, self.level, self.same
        parts: Disjoint[int] = Disjoint()
        for v, alive in enumerate(self.live):
            if not alive or old.region[v] not in self.regions or s.op[v] in LEAVES:
                continue
            if s.op[v] == Op.entry:  # calls do not read computed rows
                self.read.update(s.operands(v))
                continue
            parts.add(v)
            for x in s.operands(v):
                if x in parts:
                    if level[x] == level[v] and same[x] == same[v] and old.region[x] == old.region[v]:
                        parts.join(x, v)
                    else:
                        self.read.add(x)
        return parts.sets()

    def _maker(self, x: int):
        op = self.s.op[x]
        return (op, self.s.a[x]) if op in LEAVES else NONE

    def _shape(self, members: list[int]) -> tuple[tuple, list[int]]:
        """Return a description of what a cluster computes, independent of the values that it reads, and these
        values."""
        op, first, second, third = self.s.op, self.s.a, self.s.b, self.s.c
        old, types, read, same, constants = self.old, self.old.type, self.read, self.same, self.constant_words
        place = {v: k for k, v in enumerate(members)}
        given: dict[int, int] = {}
        words = []
        for v in members:
            words += (op[v], types[v], v in read)
            for x in (first[v], second[v], third[v]):
                if x == NONE:
                    words.append(None)
                elif x in place:
                    words.append(place[x])
                elif x < 0:
                    if x not in constants:
                        constants[x] = old.constant_types[-1 - x], old.constants[-1 - x].tobytes()
                    words.append(constants[x])
                else:
                    k = given.setdefault(x, len(given))
                    words.append((k, types[x], same[x]))
        return tuple(words), list(given)

    def needs(self, v: int) -> list[int]:
        if v in self.bundle:
            together = self.bundle[v]
            found = self.outside.get(together[0][0])
            if found is None:
                inside = {x for members in together for x in members}
                read = [x for members in together for y in members for x in self.s.operands(y) if x not in inside]
                # keep each one once, at its last occurrence: the last value is copied first
                found = self.outside[together[0][0]] = list(dict.fromkeys(reversed(read)))[::-1]
            return found
        return super().needs(v)

    def other(self, v: int) -> None:
        """Copy v, which may be part of a call."""
        if v not in self.bundle:
            super().other(v)
            return
        clusters = self.bundle[v]
        whole = [x for members in clusters for x in members]
        shape, given = self._shape(whole)
        uniform = self.same[v]
        key = shape, uniform
        template = _templates.get(key, lambda: self._template(whole, given, uniform))
        results = [x for x in whole if x in self.read]
        region = self.old.region[v]
        self.add(template, [self.to[x] for x in given], results, region, self._floor(region))
        for x in whole:  # nothing reads the others; mark them as copied
            if self.to[x] == NONE:
                self.to[x] = self.to[results[0]]

    def _floor(self, region: int) -> int:
        """Return the innermost branch around a region, which the call must not leave."""
        while region and not isinstance(self.old.regions[region].owner, Branches):
            region = self.old.regions[region].parent
        return region

    def _template(self, members, given, uniform) -> Template:
        s, old = self.s, self.old
        program = Program()
        program.fused = True
        to: dict[int, int] = {}
        shared = {x for x in given if self.same[x] and not uniform}
        for v in members:
            # an operation on shared operands alone would run once a call of the kernel, and steps do not: so mark none
            # of its operands as shared
            if shared.issuperset(x for x in s.operands(v) if x >= 0):
                shared.difference_update(s.operands(v))
        for k, x in enumerate(given):
            program.inputs.append((1, Type(old.type[x]), x in shared))
            to[x] = program.input(k, 0, old.type[x])
        for v in members:
            operands = []
            for x in (s.a[v], s.b[v], s.c[v]):
                constant = x < 0 and x != NONE
                t = old.constant_types[-1 - x] if constant else 0
                operands.append(program.constant(old.constants[-1 - x], t) if constant else to.get(x, NONE))
            to[v] = program.new(s.op[v], old.type[v], *operands)
        return Template(program, [to[v] for v in members if v in self.read], uniform)
