"""Bodies and shapes as a `ModelSpec` describes them, in NumPy and double precision."""

import dataclasses

import numpy as np

from .joints import Joint
from .shapes import Shape

_IDENTITY = np.eye(3)


@dataclasses.dataclass
class Body:
    """A body: its joint, the joint's placement in the parent's frame, and its mass properties in its own frame."""

    name: str
    parent: str
    joint: Joint
    rotation: np.ndarray
    translation: np.ndarray
    mass: float = 0.0
    center: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))
    rotational: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((3, 3)))

    def joined(self, body: "Body", r: np.ndarray, p: np.ndarray) -> "Body":
        """Return this body with another one welded to it, whose frame has the pose `r`, `p` in this one."""
        mass = self.mass + body.mass
        center = p + r @ body.center
        share = body.mass / mass if mass > 0 else 0.5
        d = center - self.center
        rotational = self.rotational + r @ body.rotational @ r.T
        rotational = rotational + self.mass * share * (d @ d * _IDENTITY - np.outer(d, d))
        return dataclasses.replace(self, mass=mass, center=self.center + share * d, rotational=rotational)


@dataclasses.dataclass
class Collider:
    """A shape fixed in a body, and the properties of its surface. `body` is the body or frame that it was added to,
    `owner` the body itself, or that of the frame; `friction` (None) and `dimension` (None), its contact dimension, may
    not be given: see `Scene.counts`. `meets_all` is True if it collides with all shapes, whatever the masks."""

    name: str
    body: str
    shape: Shape
    rotation: np.ndarray
    translation: np.ndarray
    friction: float | None = None
    torsion: float = 0.0
    restitution: float = 0.0
    stiffness: float = np.inf
    damping: float = np.inf
    collides: int = 1
    collides_with: int = 1
    priority: int = 0
    owner: str = ""
    dimension: int | None = None
    meets_all: bool = False
