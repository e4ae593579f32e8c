"""What a laid out program is made of: statements that move values, and pieces of code with what drives them."""

import dataclasses

from .ops import Branches, Call, Loop


@dataclasses.dataclass(frozen=True)
class Begin:
    """Give the loop's values in these places their initial ones."""

    loop: Loop
    places: list[int]


@dataclasses.dataclass(frozen=True)
class Advance:
    """Give the loop's values in these places their next ones, in lanes that go on."""

    loop: Loop
    places: list[int]


@dataclasses.dataclass(frozen=True)
class Choose:
    """Find the lanes of every branch."""

    branches: Branches


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Give the branches' values in these places those of branch `which`, in its lanes."""

    branches: Branches
    which: int
    places: list[int]


@dataclasses.dataclass(frozen=True)
class Spread:
    """Keep what all lanes share as if every lane had its own."""

    values: list[int]


@dataclasses.dataclass
class Piece:
    """Statements without control flow; `index` counts pieces in order, `at` them and calls."""

    index: int
    statements: list
    at: int


@dataclasses.dataclass
class Calls:
    """Calls that follow each other, the first of them at `at`."""

    calls: list[Call]
    at: int


@dataclasses.dataclass
class Moves:
    """Values that are put into the slots of `keys`, or where `Store`s among these say, in the lanes of `mask` if it is
    not None."""

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
    """Pieces of branches, one list a branch."""

    branches: Branches
    cases: list[list]
