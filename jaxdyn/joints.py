"""The joints of `ModelSpec.add_body`: ``jd.joints.Revolute(axis=(0, 1, 0), damping=0.1)``."""

from .model.joints import (
    Cylindrical,
    Fixed,
    Free,
    Helical,
    Planar,
    Prismatic,
    Revolute,
    Spherical,
    Translation,
    Universal,
)

__all__ = [
    "Cylindrical",
    "Fixed",
    "Free",
    "Helical",
    "Planar",
    "Prismatic",
    "Revolute",
    "Spherical",
    "Translation",
    "Universal",
]
