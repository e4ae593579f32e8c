"""The parts of a program after layout: pieces of code, the control flow between them, and statements that move
values."""

import dataclasses

from .ops import Branches, Call, Loop


@dataclasses.dataclass(frozen=True)
class Begin:
    """Set the loop's values in these places to their initial values."""

    loop: Loop
    places: list[int]


@dataclasses.dataclass(frozen=True)
class Advance:
    """Set the loop's values in these places to their next values, in the lanes that continue."""

    loop: Loop
    places: list[int]


@dataclasses.dataclass(frozen=True)
class Choose:
    """Compute the mask of lanes of every branch."""

    branches: Branches


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Set the results in these places to those of branch `which`, in the lanes of this branch."""

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
    """Consecutive calls; the first one has the number `at`."""

    calls: list[Call]
    at: int


@dataclasses.dataclass
class Moves:
    """Values that are copied to the slots of `keys`, or to outputs if a key is a `Store`. If `mask` is not None, only
    its lanes are copied."""

    values: list[int]
    keys: list
    mask: tuple | None
    at: int


@dataclasses.dataclass
class While:
    """The pieces of a loop; `head` ends with the loop's `Guard`."""

    loop: Loop
    head: list
    body: list


@dataclasses.dataclass
class Choice:
    """The pieces of branches, one list for each branch, in the order in which they run."""

    branches: Branches
    cases: dict[int, list]
