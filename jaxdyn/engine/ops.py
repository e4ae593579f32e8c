"""The vocabulary of scalar programs: types, operations, loops, branches and calls."""

import dataclasses
import enum
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np


class Type(enum.IntEnum):
    """Types of values, with their NumPy names."""

    bool_ = 0
    int32 = 1
    int64 = 2
    float32 = 3
    float64 = 4
    uint32 = 5
    uint64 = 6

    @property
    def dtype(self) -> np.dtype:
        return DTYPES[self]

    @property
    def floating(self) -> bool:
        return self in FLOATS

    @property
    def bytes(self) -> int:
        return DTYPES[self].itemsize


FLOATS = (Type.float32, Type.float64)
UNSIGNED = (Type.uint32, Type.uint64)

DTYPES = {t: np.dtype(t.name.rstrip("_")) for t in Type}
TYPES = {d: t for t, d in DTYPES.items()}


class Op:
    """Operations; `a`, `b`, `c` are their operands. They are plain integers, since looking up members of an enumeration
    takes Python several times as long.

    Comparisons with NaN are false, except for `ne`, which is true. `max_` and `min_` are NaN if an operand is. `rint`
    rounds halves to even. `shr` shifts in the sign bit for signed integers. `bits` reads a float's bits as an integer
    or vice versa. `fma` is a b + c, rounded once; `fms` a b − c; `fnma` c − a b. `not_`, `and_`, `or_`, `xor` also act
    on the bits of integers.
    """

    input = 0  # operand a, row b
    carry = 1  # loop a, place b
    result = 2  # loop or branches a, place b
    add = 3
    sub = 4
    mul = 5
    div = 6
    neg = 7
    sqrt = 8
    abs_ = 9
    rint = 10
    floor = 11
    max_ = 12
    min_ = 13
    lt = 14
    le = 15
    eq = 16
    ne = 17
    and_ = 18
    or_ = 19
    xor = 20
    not_ = 21
    select = 22  # b where a, else c
    convert = 23
    bits = 24
    shl = 25
    shr = 26
    fma = 27
    fms = 28
    fnma = 29
    call = 30  # call a, result b
    entry = 31  # row a of operand b, where a is a value and b a constant


NONE = -(1 << 40)


class Unsupported(Exception):
    """Raised for a primitive, or a use of one, that scalar programs do not support."""


def type_of(dtype) -> Type:
    """Return the type of a dtype's numbers. Raises `Unsupported` if there is none."""
    try:
        return TYPES[np.dtype(dtype)]
    except (KeyError, TypeError):
        raise Unsupported(f"numbers of type {dtype}") from None


class TooLarge(Exception):
    """Raised if the program has more operations than the limit."""

    def __init__(self, limit: int):
        super().__init__(f"more than {limit:,} operations")


@dataclasses.dataclass
class Region:
    """A part of the program: the whole program (0), a loop's body, or a branch. `owner` is the `Loop` or `Branches`."""

    parent: int
    owner: "Loop | Branches | None" = None


@dataclasses.dataclass
class Loop:
    """``while cond: carries = nexts``, lane by lane: a lane whose condition fails keeps its values."""

    index: int
    parent: int
    region: int
    initial: list[int]
    carries: list[int]
    condition: int = NONE
    nexts: list[int] = dataclasses.field(default_factory=list)
    results: list[int] = dataclasses.field(default_factory=list)

    def behind(self, k: int) -> list[int]:
        """Return the values on which the k-th result depends."""
        return [self.initial[k], self.nexts[k], self.condition]


@dataclasses.dataclass
class Branches:
    """The values of the branch whose predicate holds. The last branch has no predicate; all remaining lanes take it."""

    index: int
    parent: int
    predicates: list[int]
    regions: list[int]
    outcomes: list[list[int]] = dataclasses.field(default_factory=list)
    results: list[int] = dataclasses.field(default_factory=list)

    def behind(self, k: int) -> list[int]:
        """Return the values on which the k-th result depends."""
        return [*self.predicates, *(outcome[k] for outcome in self.outcomes)]


@dataclasses.dataclass(eq=False)
class Call:
    """A call of a `templates.Template`; its results are the values from `first` on. Within branches, `floor` is the
    region that the call must not leave."""

    index: int
    template: Any
    operands: list[int]
    first: int
    region: int
    floor: int

    @property
    def results(self) -> range:
        return range(self.first, self.first + len(self.template.types))


def flat(arrays: Iterable[np.ndarray]) -> list[int]:
    """Return the numbers of arrays of values, one array after the other."""
    return [x for a in arrays for x in a.ravel().tolist()]


def unflat(values: Sequence[int], shapes: Iterable[tuple[int, ...]]) -> list[np.ndarray]:
    """Return arrays of these shapes, filled with values from the first on."""
    out, k = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        out.append(np.array(values[k : k + size], np.int64).reshape(shape))
        k += size
    return out
