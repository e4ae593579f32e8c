"""`Topology`: the static, hashable part of a model. No array of a model holds an index."""

import dataclasses
import difflib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

WORLD = -1
T = TypeVar("T")


def unknown(what: str, name: Any, known: Iterable[str]) -> str:
    """Return the message for an unknown name, with the most similar known ones."""
    known = list(known)
    told = str(name)[:200]
    near = difflib.get_close_matches(told, (k for k in known if len(k) < 400), n=3)
    hint = f" Known: {', '.join(known[:12])}." if known else " There are none."
    if near:
        hint = f" Did you mean {', '.join(map(repr, near))}?"
    return f"there is no {what} {told!r}.{hint}"


def refuse_clusters(what: str, call: str, topology: "Topology", instead: str) -> None:
    """Raise `ValueError` for models with embedded loops."""
    if topology.clusters:
        raise ValueError(f"{call}: `{what}` takes no models with embedded loops. Use `{instead}`.")


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Bodies whose joints move together because the model embeds constraints between them (constraint_embedding,
    section II-D): velocities of the tree, `independent` and `dependent` ones, and `constraints`, their places among the
    embedded ones. `constant` says that the ratios of the velocities are those of gears, the same everywhere."""

    bodies: tuple[int, ...]
    constraints: tuple[int, ...]
    independent: tuple[int, ...]
    dependent: tuple[int, ...]
    constant: bool
    #: bodies that may be treated as gyrostats
    rotors: tuple[int, ...] = ()

    @property
    def velocities(self) -> tuple[int, ...]:
        return (*self.independent, *self.dependent)


@dataclasses.dataclass(frozen=True)
class Topology:
    """The tree of bodies and joints. Bodies are numbered as declared, parents first; the world is -1.

    `kinds` holds the joint kind of every body (see `jaxdyn.model.joints`); a frame is a name, a body and (among the
    model's arrays) a placement.
    """

    name: str
    body_names: tuple[str, ...]
    parents: tuple[int, ...]
    joint_names: tuple[str, ...]
    kinds: tuple[Any, ...]
    frame_names: tuple[str, ...] = ()
    frame_bodies: tuple[int, ...] = ()
    actuator_names: tuple[str, ...] = ()
    #: bodies whose joints follow others, according to the robot's file: `embed` solves for them first
    followers: frozenset[int] = frozenset()
    #: True if the mass matrix may be singular, so that dynamics need constraints
    singular: bool = False
    #: "auto", "kernel" or "xla": what compiles programs (`engine/kernels.py`)
    compiler: str = "auto"
    #: bodies tied by constraints that are embedded
    clusters: tuple[Cluster, ...] = ()
    #: bodies that turn about an axis of symmetry and are gyrostats of their parents, see `gyrostats.py`
    gyrostats: frozenset[int] = frozenset()
    #: function that closes the loops of clusters: (model, q, whether q may be far from closed) to q
    closes: Callable[..., Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        # leave out cached values: the hash of a string differs in the next process
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
        """Return the number of velocities of the tree, including the dependent ones of clusters."""
        return self.v_starts[-1]

    @cached_property
    def independent(self) -> tuple[int, ...]:
        """Return the velocities of the tree that are those of the robot: all but the dependent ones of clusters."""
        dependent = {v for c in self.clusters for v in c.dependent}
        return tuple(v for v in range(self.nv) if v not in dependent)

    @cached_property
    def places(self) -> dict[int, int]:
        """Return, by independent velocity, its place among the independent ones."""
        return {v: k for k, v in enumerate(self.independent)}

    @cached_property
    def columns(self) -> tuple[tuple[int, ...], ...]:
        """Return, by cluster, the places of its velocities among the independent ones; none if it is eliminated as a
        joint."""
        led = {self.cluster_of[b] for b in self.geared}
        return tuple(
            () if k in led else tuple(self.places[v] for v in c.independent) for k, c in enumerate(self.clusters)
        )

    @cached_property
    def geared(self) -> dict[int, int]:
        """Return, by gyrostat, the body whose joint it is eliminated with. This applies to clusters of a joint with one
        velocity and of gyrostats on its parent."""
        found = {}
        for cluster in self.clusters:
            links = [b for b in cluster.bodies if b not in self.gyrostats]
            rotors = self.gyrostats.intersection(cluster.bodies)
            if len(links) == 1 and self.kinds[links[0]].nv == 1 and cluster.independent == (self.v_starts[links[0]],):
                if all(self.parents[b] == self.parents[links[0]] for b in rotors):
                    found |= dict.fromkeys(sorted(rotors), links[0])
        return found

    @cached_property
    def ratios(self) -> dict[int, tuple[int, int]]:
        """Return, by dependent velocity, where its coefficients start in the field ``"G"`` of maps of clusters, and
        their number: one for each independent velocity of its cluster."""
        found, start = {}, 0
        for cluster in self.clusters:
            for v in cluster.dependent:
                found[v] = start, len(cluster.independent)
                start += len(cluster.independent)
        return found

    @cached_property
    def limbs(self) -> tuple[int, ...]:
        """Return the first body of each body's limb, a chain without branches."""
        found: list[int] = []
        children = Counter(self.parents)
        for b, parent in enumerate(self.parents):
            found.append(found[parent] if parent != WORLD and children[parent] == 1 else b)
        return tuple(found)

    @cached_property
    def wide_in_series(self) -> int:
        """Return the largest number of clusters with several independent velocities on one path from the root."""
        wide = {b for c in self.clusters if len(c.independent) > 1 for b in c.bodies}
        on_way = ({self.cluster_of[a] for a in self.ancestors(b) if a in wide} for b in range(self.nb))
        return max(map(len, on_way), default=0)

    @cached_property
    def apart(self) -> tuple[int, ...]:
        """Return the parents of the tree cut where clusters begin: only bodies of one cluster are connected."""
        found = self.cluster_of
        return tuple(p if p in found and found.get(b) == found[p] else WORLD for b, p in enumerate(self.parents))

    @cached_property
    def cluster_of(self) -> dict[int, int]:
        """Return the cluster of each body that has one."""
        return {b: k for k, c in enumerate(self.clusters) for b in c.bodies}

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
        """Return the last body from which all of them descend, or which they are; the world if there is none."""
        shared = set.intersection(*[set(self.ancestors(b)) for b in bodies])
        return max(shared, default=WORLD, key=lambda b: self.depths[b])

    @cached_property
    def floating_bases(self) -> tuple[int, ...]:
        """Return the roots with six freedoms of their own."""
        free = [b for b, kind in enumerate(self.kinds) if self.parents[b] == WORLD and kind.nv == 6]
        return tuple(b for b in free if b not in self.cluster_of)

    @cached_property
    def velocity_bodies(self) -> tuple[int, ...]:
        """Return the body moved by each velocity."""
        return tuple(b for b, k in enumerate(self.kinds) for _ in range(k.nv))

    def ancestors(self, body: int) -> tuple[int, ...]:
        """Return the body and all above it, nearest first, without the world."""
        out = []
        while body != WORLD:
            out.append(body)
            body = self.parents[body]
        return tuple(out)

    def way(self, body: int, above: int) -> tuple[int, ...]:
        """Return the bodies from `body` up to `above`, one of its ancestors, without the latter."""
        path = self.ancestors(body)
        return path[: path.index(above)]

    def nearest_above(self, wanted: Sequence[bool]) -> list[int]:
        """Return, per body, the nearest wanted one above it; the world if there is none."""
        out: list[int] = []
        for p in self.parents:
            out.append(p if p == WORLD or wanted[p] else out[p])
        return out

    @cached_property
    def roots(self) -> tuple[int, ...]:
        """Return, by body, the root of its tree, whose parent is the world."""
        out: list[int] = []
        for b, p in enumerate(self.parents):
            out.append(b if p == WORLD else out[p])
        return tuple(out)

    def related(self) -> list[tuple[int, int]]:
        """Return all (body, ancestor)."""
        return [(b, a) for b in range(self.nb) for a in self.ancestors(b)[1:]]

    def with_all_below(self, items: Sequence[T], join: Callable[[T, T, int], T]) -> list[T]:
        """Return, per body, its item joined with those of all bodies below: ``join(parent's, child's, child)``."""
        out = list(items)
        for b in reversed(range(self.nb)):
            if self.parents[b] != WORLD:
                out[self.parents[b]] = join(out[self.parents[b]], out[b], b)
        return out

    def anywhere_below(self, marked: Sequence[bool]) -> list[bool]:
        """Return, per body, whether it or a body below it is marked."""
        return self.with_all_below(marked, lambda above, below, _: above or below)

    def joint(self, name: str) -> int:
        """Return the body that the joint moves; raise `ValueError` for an unknown name."""
        try:
            return self._joints[name]
        except KeyError:
            raise ValueError(unknown("joint", name, self.joint_names)) from None

    def locate(self, name: str) -> tuple[int, int | None]:
        """Return (body, frame index or None) for the name of a body, a frame or the world."""
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
