"""The places where two shapes may touch: a fixed number of slots for each pair of kinds, with gap, point and normal."""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from . import box_pairs, boxes, heights, planes, segments
from .placed import Placed, Touch, reversed_touch

__all__ = ["KINDS", "Placed", "Touch", "slots", "touches"]

Slots = tuple[int, Callable[[Placed, Placed], list[Touch]]]

#: number of slots and function of every kind that collides with the ground
GROUND: dict[str, Slots] = {
    "sphere": (1, planes.sphere),
    "capsule": (2, planes.capsule),
    "box": (4, planes.box),
    "cylinder": (4, planes.cylinder),
    "ellipsoid": (1, planes.ellipsoid),
    "mesh": (4, planes.mesh),
}
#: number of slots and function of every pair of kinds
PAIRS: dict[tuple[str, str], Slots] = {
    **{(kind, "plane"): found for kind, found in GROUND.items()},
    **{(kind, "heights"): (count, heights.over(shape)) for kind, (count, shape) in GROUND.items()},
    ("sphere", "sphere"): (1, segments.sphere_sphere),
    ("sphere", "capsule"): (1, segments.sphere_capsule),
    ("capsule", "capsule"): (2, segments.capsule_capsule),
    ("sphere", "box"): (1, boxes.sphere),
    ("capsule", "box"): (2, boxes.capsule),
    ("box", "box"): (4, box_pairs.box),
}
#: by kind, the number of axes before the lanes (elements of the batch) of the arrays of `Placed.size`
KINDS: dict[str, int | tuple[int, ...]] = {
    **dict.fromkeys(("sphere", "capsule", "box", "cylinder", "ellipsoid", "plane"), 1),
    "mesh": 2,
    "heights": (2, 1),
}


def slots(kind_a: str, kind_b: str) -> int:
    """Return the number of places at which a pair of kinds may touch; 0 if the two cannot collide. **Raises**
    ValueError for an unknown kind."""
    for kind in (kind_a, kind_b):
        if kind not in KINDS:
            raise ValueError(f"`slots`: {kind!r} is no kind of shape; use one of {', '.join(KINDS)}")
    return (PAIRS.get((kind_a, kind_b)) or PAIRS.get((kind_b, kind_a)) or (0,))[0]


def touches(kind_a: str, kind_b: str, a: Placed, b: Placed) -> list[Touch]:
    """Return the `slots` places at which shapes a and b may touch. **Raises** ValueError if they cannot collide."""
    if slots(kind_a, kind_b) == 0:
        raise ValueError(f"`touches`: {kind_a!r} and {kind_b!r} cannot collide; leave the pair out")
    a, b = _level(kind_a, kind_b, a, b)
    if (kind_a, kind_b) in PAIRS:
        found = PAIRS[kind_a, kind_b][1](a, b)
    else:
        found = [reversed_touch(t) for t in PAIRS[kind_b, kind_a][1](b, a)]
    return alike(found)


def alike(found: list[Touch]) -> list[Touch]:
    """Return places whose arrays all have the same lanes."""
    lanes = jnp.broadcast_shapes(*(t.gap.shape for t in found), *(t.normal.shape[1:] for t in found))
    return [
        Touch(*(jnp.broadcast_to(x, x.shape[:k] + lanes) for k, x in zip((0, 1, 1), t, strict=True))) for t in found
    ]


def _level(kind_a: str, kind_b: str, a: Placed, b: Placed) -> tuple[Placed, Placed]:
    """Return both with the same number of lane axes."""
    axes = [Placed(2, 1, KINDS[kind]) for kind in (kind_a, kind_b)]
    rank = max(jax.tree.leaves(jax.tree.map(lambda k, x: jnp.ndim(x) - k, axes, [a, b])))

    def level(k, x):
        x = jnp.asarray(x)
        return x.reshape(*x.shape[:k], *(1,) * (rank - x.ndim + k), *x.shape[k:])

    made = jax.tree.map(level, axes, [a, b])
    return made[0], made[1]
