"""Pairs of shapes that collide, as what the steps of a table read."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from ..geometry import planes
from ..geometry.placed import Placed, Touch
from ..model.collision import Collision
from ..spatial.small import composed
from ..tree.topology import WORLD

#: a mesh above a plane, whose vertices are searched step by step
STANDING = ("mesh", "plane")


class Pair(eqx.Module):
    """Two shapes that collide: their kinds, the bodies that they belong to (`WORLD`: none), the number of places at
    which they may touch, their frames in the bodies, and their sizes; the vertices of a mesh above a plane and the
    heights of a field are not part of it."""

    kinds: tuple[str, str] = eqx.field(static=True)
    bodies: tuple[int, int] = eqx.field(static=True)
    places: int = eqx.field(static=True)
    placements: tuple[tuple[Array, Array], tuple[Array, Array]]
    sizes: tuple[Any, Any]

    @property
    def signature(self) -> Any:
        """Return a key: pairs with the same signature share a program."""
        on_world = tuple(b == WORLD for b in self.bodies)
        return self.kinds, on_world, tuple(jnp.shape(x)[:-1] for x in jax.tree.leaves(self.sizes))

    def placed(self, poses) -> list[Placed]:
        """Return both shapes in the world."""
        placed = []
        for pose, own, size in zip(poses, self.placements, self.sizes, strict=True):
            placed.append(Placed(*(own if pose is None else composed(pose, own)), size))
        return placed


def pair_of(shapes: Collision, pair: tuple[int, int], count: int) -> Pair:
    """Return a pair of shapes, given by number, with its number of places."""
    infos = [shapes.shapes[k] for k in pair]
    placements = [(shapes.placement.rotation[k], shapes.placement.translation[k]) for k in pair]
    kinds, bodies = (infos[0].kind, infos[1].kind), [s.body for s in infos]
    sizes = [_size(shapes, k, kinds == STANDING) for k in pair]
    return Pair(kinds, (bodies[0], bodies[1]), count, (placements[0], placements[1]), (*sizes,))


def apart(found: list[Touch]) -> tuple[Array, Array, Array]:
    """Return the gaps, points and normals of places, stacked."""
    gap, point, normal = (jnp.stack(x) for x in zip(*found, strict=True))
    return gap, point, normal


def fours_of(shapes: Collision, k: int) -> Array:
    """Return the rows of four vertices of a mesh."""
    return planes.in_fours(shapes.vertices[shapes.shapes[k].data])


def _size(shapes: Collision, k: int, searched: bool):
    info = shapes.shapes[k]
    if info.kind == "mesh":
        return None if searched else shapes.vertices[info.data]
    return shapes.size[k]
