"""`widened`: which joints and shapes have contact rows for their limits, dry friction and torsion, and which shapes
have a friction of their own.

These sets are static, as the number of rows is. They grow when numbers are replaced and never shrink, so that a batch
of models has one structure.
"""

import dataclasses
from collections.abc import Callable, Iterable

import numpy as np
from jaxtyping import Array

from ..spatial.numbers import numbers_of
from ..tree.topology import Topology
from .collision import Scene
from .joints import FreeKind

#: by field: the set of a `Scene` that it decides, and the numbers that act
ACTS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "joints.friction": ("rubbing", lambda x: x > 0),
    "joints.lower": ("limited", np.isfinite),
    "joints.upper": ("limited", np.isfinite),
    "collision.torsion": ("twisting", lambda x: x > 0),
    "collision.pair_torsion": ("twisting_pairs", lambda x: x > 0),
}


def widened(scene: Scene, topology: Topology, path: str, value: np.ndarray | Array) -> Scene:
    """Return the scene with what acts by these values of a field, with or without leading batch axes, in its set."""
    if path == "collision.friction":
        return dataclasses.replace(scene, untold=())  # all are given now
    if path not in ACTS:
        return scene
    name, acts = ACTS[path]
    values, of_joints = numbers_of(value), path.startswith("joints.")
    found: Iterable[int]
    if values is not None:
        found = np.flatnonzero(acts(values).any(tuple(range(values.ndim - 1)))).tolist()
        found = (topology.velocity_bodies[v] for v in found) if of_joints else found
    elif of_joints:
        # six rows that hardly anyone needs: free joints have none unless they are told so by plain numbers
        found = (b for b, kind in enumerate(topology.kinds) if not isinstance(kind, FreeKind))
    else:
        found = range(value.shape[-1])
    return dataclasses.replace(scene, **{name: tuple(sorted({*getattr(scene, name), *found}))})
