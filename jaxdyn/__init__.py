"""jaxdyn: differentiable dynamics of robots with closed loops, gears and contacts, in JAX."""

from .constrained.auto import Auto
from .constrained.base import Solver
from .constrained.dense import Dense
from .constrained.forward_dynamics import Result, Solution, Stats, forward_dynamics
from .constrained.impulse import Jump, impulse
from .constrained.lcaba import ABA, LCABA, ConstrainedABA, PVSoft
from .constrained.ltl import LTL, LTLSoft, ProxLTL, ProxLTLSoft
from .constrained.prox_bbo import PV, ProxBBO, ProxPV
from .constrained.pv_early import PVEarly
from .constrained.unified import Unified
from .dynamics.constraint_terms import constraint_bias, constraint_jacobian, constraint_residual, constraint_slices
from .dynamics.energy import center_of_mass, centroidal_momentum, kinetic_energy, potential_energy
from .dynamics.inverse import bias_forces, gravity_forces, inverse_dynamics, mass_matrix, passive_forces
from .kinematics.assemble import assemble
from .kinematics.frames import (
    anchored,
    forward_kinematics,
    frame_acceleration,
    frame_pose,
    frame_velocity,
    jacobian,
)
from .kinematics.manifold import difference, integrate, tangent
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
from .parse.load import load, load_spec
from .simulate.integrators import RK4, Gauss, ImplicitMidpoint, Integrator, RungeKutta, SemiImplicitEuler
from .simulate.rollout import Trajectory, simulate
from .simulate.step import step
from .spatial.inertia import Inertia, inertia_from_log_cholesky, log_cholesky_from_inertia
from .spatial.transform import Transform

__version__ = "0.1.0"

__all__ = [
    "ABA",
    "Auto",
    "Baumgarte",
    "CenterOfMass",
    "ConstrainedABA",
    "Constraint",
    "Coupling",
    "Cylinder",
    "Cylindrical",
    "Dense",
    "Distance",
    "Fixed",
    "Free",
    "Gauss",
    "General",
    "Helical",
    "Hinge",
    "ImplicitMidpoint",
    "Inertia",
    "Integrator",
    "Jump",
    "LCABA",
    "LTL",
    "LTLSoft",
    "Model",
    "ModelSpec",
    "ModelWarning",
    "PV",
    "PVEarly",
    "PVSoft",
    "Planar",
    "Point",
    "PointOnPlane",
    "Prismatic",
    "ProxBBO",
    "ProxLTL",
    "ProxLTLSoft",
    "ProxPV",
    "RK4",
    "Result",
    "Revolute",
    "RungeKutta",
    "SemiImplicitEuler",
    "Slider",
    "Solution",
    "Solver",
    "Spherical",
    "State",
    "Stats",
    "Trajectory",
    "Transform",
    "Translation",
    "Unified",
    "Universal",
    "Weld",
    "anchored",
    "assemble",
    "bias_forces",
    "center_of_mass",
    "centroidal_momentum",
    "constraint_bias",
    "constraint_jacobian",
    "constraint_residual",
    "constraint_slices",
    "difference",
    "forward_dynamics",
    "forward_kinematics",
    "frame_acceleration",
    "frame_pose",
    "frame_velocity",
    "gravity_forces",
    "impulse",
    "inertia_from_log_cholesky",
    "integrate",
    "inverse_dynamics",
    "jacobian",
    "kinetic_energy",
    "load",
    "load_spec",
    "log_cholesky_from_inertia",
    "mass_matrix",
    "passive_forces",
    "potential_energy",
    "simulate",
    "step",
    "tangent",
]
