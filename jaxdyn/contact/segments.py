"""Spheres and capsules against each other: balls around the nearest points of two segments."""

from .placed import Placed, Touch, between, upwards


def sphere_sphere(a: Placed, b: Placed) -> list[Touch]:
    """Return the points between the centers; where those coincide, the normal is the world's z axis."""
    return [between(a.p, b.p, a.size[0], b.size[0], upwards(a.p))]
