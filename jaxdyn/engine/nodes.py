"""The parts of a program that has been laid out: pieces of code, the control flow between them, and statements that
move values."""

import dataclasses

from .ops import Branches, Call, Loop


@dataclasses.dataclass(frozen=True)
class Begin:
    """Set the loop's values in these places to their initial ones."""

    loop: Loop
    places: list[int]


@dataclasses.dataclass(frozen=True)
class Advance:
    """Set the loop's values in these places to their next ones, in lanes that go on."""

    loop: Loop
    places: list[int]


@dataclasses.dataclass(frozen=True)
class Choose:
    """Find the lanes of every branch."""

    branches: Branches


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Set the branches' values in these places to those of branch `which`, in its lanes."""

    branches: Branches
    which: int
    places: list[int]


@dataclasses.dataclass(frozen=True)
class Spread:
    """Store values that all lanes share once for every lane."""

    values: list[int]


@dataclasses.dataclass
class Piece:
    """Statements without control flow. `index` counts pieces in order, `at` counts pieces and calls."""

    index: int
    statements: list
    at: int


@dataclasses.dataclass
class Calls:
    """Calls that follow each other; the first of them has the number `at`."""

    calls: list[Call]
    at: int


@dataclasses.dataclass
class Moves:
    """Values that are copied into the slots of `keys`, or to the outputs of `Store`s among these. If `mask` is not
    None, only its lanes are copied."""

    values: list[int]
    keys: list
    mask: tuple | None
    at: int


@dataclasses.dataclass
class While:
    """Pieces of a loop: `head` ends with its `Guard`."""

    loop: Loop
    head: list
    body: list


@dataclasses.dataclass
class Choice:
    """Pieces of branches, one list for each branch."""

    branches: Branches
    cases: list[list]
