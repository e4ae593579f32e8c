"""`Topology`: the static, hashable half of a model. No array of a model holds an index."""

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

WORLD = -1
T = TypeVar("T")


def unknown(what: str, name: Any, known: Iterable[str]) -> str:
    """The text for a name that is not there, with the nearest ones that are."""
    known = list(known)
    told = str(name)[:200]
    near = difflib.get_close_matches(told, (k for k in known if len(k) < 400), n=3)
    hint = f" Did you mean {', '.join(map(repr, near))}?" if near else f" Known: {', '.join(known[:12])}"
    return f"there is no {what} {told!r}.{hint}"


@dataclasses.dataclass(frozen=True)
class Topology:
    """Who hangs on whom and by which joint; bodies are numbered as declared, parents first, the world is -1.

    `kinds` holds the joint kind of every body (see `jaxdyn.model.joints`); a frame is a name, a body and
    (among the model's arrays) a placement.
    """

    name: str
    body_names: tuple[str, ...]
    parents: tuple[int, ...]
    joint_names: tuple[str, ...]
    kinds: tuple[Any, ...]
    frame_names: tuple[str, ...] = ()
    frame_bodies: tuple[int, ...] = ()
    actuator_names: tuple[str, ...] = ()
    #: whether the mass matrix may be singular, so that constraints must help
    singular: bool = False
    #: "auto", "kernel" or "xla": what makes programs (`engine/kernels.py`)
    compiler: str = "auto"

    def __getstate__(self) -> dict[str, Any]:
        # what is derived stays behind: a hash of strings is another one in the next process
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.name, self.body_names, self.parents, self.joint_names, self.kinds, self.frame_names))

    @property
    def nb(self) -> int:
        return len(self.body_names)

    @cached_property
    def q_starts(self) -> tuple[int, ...]:
        return (0, *accumulate(k.nq for k in self.kinds))

    @cached_property
    def v_starts(self) -> tuple[int, ...]:
        return (0, *accumulate(k.nv for k in self.kinds))

    @property
    def nq(self) -> int:
        return self.q_starts[-1]

    @property
    def nv(self) -> int:
        return self.v_starts[-1]

    def q_slice(self, body: int) -> slice:
        return slice(self.q_starts[body], self.q_starts[body + 1])

    def v_slice(self, body: int) -> slice:
        return slice(self.v_starts[body], self.v_starts[body + 1])

    @cached_property
    def depths(self) -> tuple[int, ...]:
        depth: list[int] = []
        for p in self.parents:
            depth.append(0 if p == WORLD else depth[p] + 1)
        return tuple(depth)

    def common_ancestor(self, bodies: Sequence[int]) -> int:
        """The last body that all of them descend from, or are; the world where there is none."""
        shared = set.intersection(*[set(self.ancestors(b)) for b in bodies])
        return max(shared, default=WORLD, key=lambda b: self.depths[b])

    @cached_property
    def floating_bases(self) -> tuple[int, ...]:
        """Roots with six freedoms."""
        return tuple(b for b, kind in enumerate(self.kinds) if self.parents[b] == WORLD and kind.nv == 6)

    @cached_property
    def velocity_bodies(self) -> tuple[int, ...]:
        """The body moved by each velocity."""
        return tuple(b for b, k in enumerate(self.kinds) for _ in range(k.nv))

    def ancestors(self, body: int) -> tuple[int, ...]:
        """The body and all above it, nearest first, without the world."""
        out = []
        while body != WORLD:
            out.append(body)
            body = self.parents[body]
        return tuple(out)

    def related(self) -> list[tuple[int, int]]:
        """All (body, ancestor)."""
        return [(b, a) for b in range(self.nb) for a in self.ancestors(b)[1:]]

    def with_all_below(self, items: Sequence[T], join: Callable[[T, T, int], T]) -> list[T]:
        """Per body, its item joined with those of all bodies below: ``join(parent's, child's, child)``."""
        out = list(items)
        for b in reversed(range(self.nb)):
            if self.parents[b] != WORLD:
                out[self.parents[b]] = join(out[self.parents[b]], out[b], b)
        return out

    def anywhere_below(self, marked: Sequence[bool]) -> list[bool]:
        """Per body, whether it or a body below it is marked."""
        return self.with_all_below(marked, lambda above, below, _: above or below)

    def joint(self, name: str) -> int:
        """The body that the joint moves; raises `ValueError` for an unknown name."""
        try:
            return self._joints[name]
        except KeyError:
            raise ValueError(unknown("joint", name, self.joint_names)) from None

    def locate(self, name: str) -> tuple[int, int | None]:
        """(body, frame index or None) for the name of a body, a frame or the world."""
        if name == "world":
            return WORLD, None
        if name in self._bodies:
            return self._bodies[name], None
        if name in self._frames:
            k = self._frames[name]
            return self.frame_bodies[k], k
        raise ValueError(unknown("body or frame", name, (*self.body_names, *self.frame_names)))

    @cached_property
    def _joints(self) -> dict[str, int]:
        return {n: k for k, n in enumerate(self.joint_names)}

    @cached_property
    def _bodies(self) -> dict[str, int]:
        return {n: k for k, n in enumerate(self.body_names)}

    @cached_property
    def _frames(self) -> dict[str, int]:
        return {n: k for k, n in enumerate(self.frame_names)}
