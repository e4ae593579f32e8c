"""`Collision`: the shapes of a model as arrays, with a static `Scene` that lists the shapes and the pairs that
collide."""

import dataclasses
import warnings
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..geometry.touch import slots
from ..spatial.instances import listed
from ..spatial.transform import Transform
from ..tree.topology import WORLD, unknown
from .values import ModelWarning

#: contact dimensions (MuJoCo's `condim`) from which on a pair slides with friction, and resists twists
SLIDES, TWISTS = 3, 4
#: most pairs that a warning names
MOST_TOLD = 3


class ShapeInfo(NamedTuple):
    """A shape: its `name` and `kind`, the number of the moving `body` it is fixed in (or `WORLD`), the index `data` of
    its array in `Collision.vertices` or `Collision.grids` (-1: none), the `priority` of its friction, and its contact
    `dimension` (None: not given), see `Scene.counts`."""

    name: str
    kind: str
    body: int
    data: int = -1
    priority: int = 0
    dimension: int | None = None


@dataclasses.dataclass(frozen=True)
class Scene:
    """The static, hashable part of a `Collision`.

    `pairs` are pairs of indices of shapes, in ascending order, but with a shape of the world last. `own` are the pairs
    with a friction coefficient of their own, `own_torsion` those with a torsion of their own. `off` counts the pairs
    within one tree that were dropped because self-collisions are off. `left_out` are the shapes of the file that were
    not read, `unread` those of them that nobody asked to leave out. `twisting` are the shapes with torsional friction,
    `twisting_pairs` the places of such pairs in `own_torsion`, `untold` the shapes without a friction of their own,
    `limited` the bodies whose joints have limits, `rubbing` those whose joints have dry friction: see `acting.py`.
    """

    shapes: tuple[ShapeInfo, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    own: tuple[tuple[int, int], ...] = ()
    off: int = 0
    left_out: tuple[str, ...] = ()
    twisting: tuple[int, ...] = ()
    limited: tuple[int, ...] = ()
    rubbing: tuple[int, ...] = ()
    own_torsion: tuple[tuple[int, int], ...] = ()
    twisting_pairs: tuple[int, ...] = ()
    untold: tuple[int, ...] = ()
    unread: tuple[str, ...] = ()

    def __getstate__(self):
        # the cached hash is left out: hashes of strings differ between processes
        return {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def idle(self) -> frozenset[tuple[int, int]]:
        """The pairs whose kinds of shapes cannot collide."""
        return frozenset(pair for pair in self.pairs if not slots(*(self.shapes[k].kind for k in pair)))

    @cached_property
    def _hash(self) -> int:
        return hash((self.shapes, self.pairs, self.own))

    def twists(self, pair: tuple[int, int]) -> bool:
        """Return whether the surfaces of one of `pairs` resist twists."""
        own = self._own_twists.get(pair)
        return pair in self._twist if own is None else own

    def counts(self, least: int) -> np.ndarray:
        """Return (np, 2) whether the friction (`least` = `SLIDES`) or the torsion (`TWISTS`) of the two shapes of each
        pair counts.

        As in MuJoCo, only the shape with the larger priority counts, or both if their priorities are equal; and they
        count together if one of them has this contact dimension. Besides, what a shape without a given dimension has
        always counts. A friction that is not given (1) counts only if that of the other shape is not given either.
        """
        at = np.array(self.pairs, int).reshape(-1, 2)
        rank = np.array([s.priority for s in self.shapes], int)[at]
        free = np.array([s.dimension is None for s in self.shapes], bool)[at]
        # a shape without a given dimension slides, as one of dimension three does
        enough = np.array([(s.dimension or SLIDES) >= least for s in self.shapes], bool)[at]
        chosen = rank >= rank[:, ::-1]
        if least == SLIDES:
            told = chosen & ~np.isin(at, self.untold)
            chosen = np.where(told.any(1, keepdims=True), told, chosen)
        return chosen & (free | (chosen & enough).any(1, keepdims=True))

    @cached_property
    def _twist(self) -> set[tuple[int, int]]:
        """The pairs in which the torsion of a shape of `twisting` counts."""
        at = np.array(self.pairs, int).reshape(-1, 2)
        found = (self.counts(TWISTS) & np.isin(at, self.twisting)).any(1)
        return {self.pairs[k] for k in np.flatnonzero(found)}

    @cached_property
    def _own_twists(self) -> dict[tuple[int, int], bool]:
        return {pair: k in self.twisting_pairs for k, pair in enumerate(self.own_torsion)}


class PairValues(NamedTuple):
    """Contact parameters of all pairs of shapes, (np,) each, in the order of the pairs: see `Collision.of_pairs`."""

    friction: Float[Array, " np"]
    torsion: Float[Array, " np"]
    restitution: Float[Array, " np"]
    stiffness: Float[Array, " np"]
    damping: Float[Array, " np"]


class Collision(eqx.Module):
    """The shapes of a robot and its world, and the pairs that collide. Without shapes, all arrays are None.

    **Fields:** `size` (ns, 3), see `jaxdyn.model.shapes`; `placement`, the shapes' frames in their moving bodies or in
    the world; `friction`, coefficients; `torsion`, m: the torque of friction is at most this times the normal force;
    `restitution`, from 0 to 1; `stiffness` N/m and `damping` N s/m, infinite for rigid shapes; all (ns,);
    `pair_friction` and `pair_torsion`, those of the pairs that have their own; `vertices` (n, 3) of each mesh; `grids`
    (rows, columns) of each height field; `scene`, the static part.
    """

    size: Float[Array, "ns 3"] | None = None
    placement: Transform | None = None
    friction: Float[Array, " ns"] | None = None
    torsion: Float[Array, " ns"] | None = None
    restitution: Float[Array, " ns"] | None = None
    stiffness: Float[Array, " ns"] | None = None
    damping: Float[Array, " ns"] | None = None
    pair_friction: Float[Array, " k"] | None = None
    pair_torsion: Float[Array, " j"] | None = None
    vertices: tuple[Float[Array, "n 3"], ...] = ()
    grids: tuple[Float[Array, "rows columns"], ...] = ()
    scene: Scene = eqx.field(static=True, default=Scene())

    @property
    def shapes(self) -> tuple[ShapeInfo, ...]:
        return self.scene.shapes

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        return self.scene.pairs

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(s.name for s in self.scene.shapes)

    def of_pairs(self) -> PairValues:
        """Return the contact parameters of each pair.

        Friction and torsion are those of the shape with the larger priority, and the larger value at equal priorities
        (friction that is given comes before that which is not),
        or zero if the contact dimension is too small (`Scene.counts`); a pair's own friction or torsion replaces that
        of its shapes. Restitution is the larger of both. Stiffness and damping are those of both surfaces in series."""
        if self.friction is None:
            raise ValueError("`Collision.of_pairs`: the model has no shapes.")
        at = np.array(self.pairs, int).reshape(-1, 2)
        a, b = at[:, 0], at[:, 1]
        return PairValues(
            self._with_own(self._larger(self.friction, at, SLIDES), self.scene.own, self.pair_friction),
            self._with_own(self._larger(self.torsion, at, TWISTS), self.scene.own_torsion, self.pair_torsion),
            jnp.maximum(self.restitution[a], self.restitution[b]),
            _in_series(self.stiffness[a], self.stiffness[b]),
            _in_series(self.damping[a], self.damping[b]),
        )

    def _larger(self, values: Array, at: np.ndarray, least: int) -> Array:
        """Return the larger value of the shapes of each pair that count, zero if none does."""
        counts = self.scene.counts(least)
        # the index of a shape that counts, so that the derivative of a maximum reaches no other
        first, last = np.where(counts[:, 0], *at.T), np.where(counts[:, 1], *at.T[::-1])
        larger = jnp.maximum(values[first], values[last])
        some = counts.any(1).reshape(-1, *[1] * (larger.ndim - 1))  # values may have lanes last
        return larger if some.all() else jnp.where(some, larger, 0)

    def _with_own(self, values: Array, own: tuple[tuple[int, int], ...], numbers: Array | None) -> Array:
        """Return the values of all pairs, with the numbers of those that have their own."""
        told = {pair: k for k, pair in enumerate(own)}
        here = np.array([k for k, pair in enumerate(self.pairs) if pair in told], int)
        if numbers is None or not len(here):
            return values
        return values.at[here].set(numbers[np.array([told[self.pairs[k]] for k in here])])

    def with_pairs(self, call: str, pairs: Iterable[Sequence[str]]) -> "Collision":
        """Return the same shapes with other pairs, given by names. Raise `TypeError` for what is no pair of names, and
        `ValueError` for unknown names, repeated pairs, and shapes that do not move relative to each other."""
        index = {s.name: k for k, s in enumerate(self.shapes)}
        found: dict[tuple[int, int], None] = {}
        for pair in pairs:
            if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(n, str) for n in pair):
                raise TypeError(f"{call}: `pairs` holds {pair!r:.60}, which is no pair of names of shapes.")
            for name in pair:
                if name not in index:
                    raise ValueError(f"{call}: {unknown('shape', name, index)}")
            i, j = ordered(self.shapes, *(index[n] for n in pair))
            if self.shapes[i].body == self.shapes[j].body:
                raise ValueError(f"{call}: shapes {pair[0]!r} and {pair[1]!r} do not move against each other.")
            if (i, j) in found:
                raise ValueError(f"{call}: the pair {pair[0]!r}, {pair[1]!r} is there twice.")
            found[i, j] = None
        scene = dataclasses.replace(self.scene, pairs=tuple(found), off=0, unread=())
        warn_of_idle(call, scene, list(found), 5)
        return dataclasses.replace(self, scene=scene)


def ordered(shapes: Sequence[ShapeInfo], i: int, j: int) -> tuple[int, int]:
    """Return the pair of indices in ascending order, but with a shape of the world last."""
    first, last = min(i, j), max(i, j)
    return (last, first) if shapes[first].body == WORLD else (first, last)


def warn_of_idle(call: str, scene: Scene, pairs: Iterable[tuple[int, int]], stacklevel: int) -> None:
    """Warn of the `pairs` whose kinds of shapes cannot collide: nothing else would say so."""
    idle = [pair for pair in pairs if pair in scene.idle]
    if not idle:
        return
    items = [" and ".join(f"{s.name!r} ({s.kind})" for s in (scene.shapes[k] for k in p)) for p in idle]
    told = listed(items, MOST_TOLD, "pairs")
    advice = "Use spheres, capsules or boxes, or leave these pairs out by `Model.with_pairs`."
    text = f"{call}: shapes whose kinds cannot collide pass through each other: {told}. {advice}"
    warnings.warn(text, ModelWarning, stacklevel=stacklevel + 1)


def warn_of_unread(call: str, scene: Scene, stacklevel: int) -> None:
    """Warn if some shapes of a file collide and others were not read, unless the caller of `load` chose so."""
    if not (scene.pairs and scene.unread):
        return
    told = listed([repr(name) for name in scene.unread], MOST_TOLD, "meshes")
    advice = """Read them with `load(..., collision="all")`, or leave them out with `collision="primitives"`."""
    text = f"{call}: shapes of meshes, which were not read, collide with nothing: {told}. {advice}"
    warnings.warn(text, ModelWarning, stacklevel=stacklevel + 1)


def _in_series(x: Array, y: Array) -> Array:
    """Return the stiffness (or damping) of two springs (or dampers) in series; infinity stands for rigid."""
    soft = 1 / jnp.where(x > 0, x, 1) + 1 / jnp.where(y > 0, y, 1)
    both = jnp.where(soft > 0, 1 / jnp.where(soft > 0, soft, 1), jnp.inf)
    return jnp.where((x > 0) & (y > 0), both, jnp.zeros_like(both))
