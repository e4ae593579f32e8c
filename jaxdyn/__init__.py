"""jaxdyn: differentiable dynamics of robots with closed loops, gears and contacts, in JAX."""

from .model.constraints import Baumgarte, Constraint
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
from .model.many import CenterOfMass, Coupling, General
from .model.model import Model
from .model.pairs import Cylinder, Distance, Hinge, Point, PointOnPlane, Slider, Weld
from .model.spec import ModelSpec, ModelWarning
from .model.state import State
from .spatial.inertia import Inertia
from .spatial.transform import Transform

__version__ = "0.1.0"
