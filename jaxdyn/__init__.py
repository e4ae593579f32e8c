"""jaxdyn: differentiable dynamics of robots with closed loops, gears and contacts, in JAX.

This module holds the functions and the classes that they take and return. Families of classes have a namespace each:
`joints`, `constraints`, `contact`, `shapes`, `solvers`, `integrators`, `osim`.
"""

from typing import TYPE_CHECKING

from . import constraints, contact, integrators, joints, osim, shapes, solvers
from .constrained.forward_dynamics import Result, Solution, Stats, forward_dynamics
from .constrained.result import result_counts
from .contact.impulse import impulse
from .contact.solution import Jump
from .contact.warm_start import WarmStart, cold_start
from .delassus.operator import Delassus, delassus
from .dynamics.constraint_terms import constraint_bias, constraint_jacobian, constraint_residual, constraint_slices
from .dynamics.energy import center_of_mass, centroidal_momentum, kinetic_energy, potential_energy
from .dynamics.inverse import bias_forces, gravity_forces, inverse_dynamics, mass_matrix, passive_forces
from .dynamics.loop_forces import loop_forces
from .kinematics.actuators import actuator_forces
from .kinematics.assemble import assemble
from .kinematics.embed import embed, expand, reduce
from .kinematics.frames import (
    anchored,
    forward_kinematics,
    frame_acceleration,
    frame_pose,
    frame_velocity,
    jacobian,
)
from .kinematics.manifold import difference, integrate, tangent
from .loaders.load import load, load_spec
from .model.commands import Commands
from .model.model import Model
from .model.spec import ModelSpec
from .model.state import State
from .model.values import ModelWarning
from .simulate.rollout import Trajectory, simulate
from .simulate.step import step
from .spatial.inertia import Inertia, inertia_from_log_cholesky, log_cholesky_from_inertia
from .spatial.transform import Transform

__version__ = "0.1.0"

__all__ = [
    "Commands",
    "Delassus",
    "Inertia",
    "Jump",
    "Model",
    "ModelSpec",
    "ModelWarning",
    "Result",
    "Solution",
    "State",
    "Stats",
    "Trajectory",
    "Transform",
    "WarmStart",
    "actuator_forces",
    "anchored",
    "assemble",
    "bias_forces",
    "center_of_mass",
    "centroidal_momentum",
    "cold_start",
    "constraint_bias",
    "constraint_jacobian",
    "constraint_residual",
    "constraint_slices",
    "constraints",
    "contact",
    "delassus",
    "difference",
    "embed",
    "expand",
    "forward_dynamics",
    "forward_kinematics",
    "frame_acceleration",
    "frame_pose",
    "frame_velocity",
    "gravity_forces",
    "impulse",
    "inertia_from_log_cholesky",
    "integrate",
    "integrators",
    "inverse_dynamics",
    "jacobian",
    "joints",
    "kinetic_energy",
    "load",
    "load_spec",
    "log_cholesky_from_inertia",
    "loop_forces",
    "mass_matrix",
    "passive_forces",
    "osim",
    "potential_energy",
    "reduce",
    "result_counts",
    "shapes",
    "simulate",
    "solvers",
    "step",
    "tangent",
]


def __dir__() -> list[str]:
    """Return the public names, without the packages that hold them: what an editor offers after ``jd.``."""
    return [*__all__, "__version__"]


if not TYPE_CHECKING:  # type checkers that see `__getattr__` would accept every name

    def __getattr__(name: str):
        """Raise `AttributeError`. If a namespace has a joint, a constraint, a shape, a solver or an integrator of that
        name, or a module has to be imported by itself, the error says so."""
        families = (f for f in (joints, constraints, contact, shapes, solvers, integrators, osim) if name in f.__all__)
        places = " or ".join(f"`jd.{f.__name__.rsplit('.', 1)[-1]}.{name}`" for f in families)
        if name in ("extend", "interop"):
            places = f"`from jaxdyn import {name}`"
        if places:
            raise AttributeError(f"module 'jaxdyn' has no attribute {name!r}; use {places}.", name=name)
        raise AttributeError(f"module 'jaxdyn' has no attribute {name!r}")
