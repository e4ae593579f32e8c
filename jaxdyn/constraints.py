"""Constraints, of a model or of a single call: ``model.constraints + (jd.constraints.Point("foot"),)``."""

from .model.constraints import Baumgarte, Constraint
from .model.lock import Lock
from .model.many import CenterOfMass, General
from .model.pairs import Cylinder, Distance, Hinge, Point, PointOnPlane, Slider, Weld
from .model.transmission import Coupling, Transmission

__all__ = [
    "Baumgarte",
    "CenterOfMass",
    "Constraint",
    "Coupling",
    "Cylinder",
    "Distance",
    "General",
    "Hinge",
    "Lock",
    "Point",
    "PointOnPlane",
    "Slider",
    "Transmission",
    "Weld",
]
