"""All that authors of joints, constraints and solvers need, in one place.

Arrays at this level have their components first and the batch last, with one *lane* per element: a vector is
`(3, lanes)`, a matrix `(3, 3, lanes)`. Those that a constraint's `evaluate` takes and returns have an axis of length
k = 1 before the lanes: `(3, k, lanes)`. The page "Extending" shows an example of each.

| for | use |
| --- | --- |
| joints | `Joint`, `Kind`, `Column`, `JointParameters`, `axis_rotation` |
| constraints | `Constraint`, `FrameConstraint`, `Layout`, `Rows`, `checked_options`, `checked_unit` |
| arguments of `evaluate` | `BodyView`, `JointView`, `RobotView` |
| solvers | `Solver`, `Problem`, `Start`, `right_sides`, `matrices`, `widen` |
| solvers that iterate on a factorisation | `Proximal`, `Direct`, `Soft`, `System` |
| integrators | `Integrator` of `jaxdyn.integrators`, whose `step` returns a `State` and a `StepInfo` |
| orders and factors | `Plan`, `elimination`, `riders_of`, `body_factor`, `saddle_factor`, `penalised_factor` |
| algebra | `mm`, `mmt`, `mtm`, `mv`, `mtv`, `dot`, `cross`, `outer`, `skew`, `transpose`, `eye`, `as_floats` |
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from .constrained.base import Solver
from .constrained.iterated import Direct, Proximal, Soft
from .dynamics.crba import mass_matrix_at
from .engine.core import widen
from .kinematics.embedding import jacobian_at
from .model.constraints import (
    BodyView,
    Constraint,
    JointView,
    Layout,
    RobotView,
    Rows,
    checked_options,
    checked_unit,
)
from .model.joints import Joint
from .model.kind import Column, JointParameters, Kind, axis_rotation
from .model.pairs import FrameConstraint
from .simulate.dynamics import StepInfo
from .spatial.numbers import as_floats
from .spatial.small import cross, dot, eye, mm, mmt, mtm, mtv, mv, outer, skew, transpose
from .systems.base import System
from .systems.body_factor import body_factor
from .systems.joint_factor import penalised_factor, saddle_factor
from .systems.problem import Problem, Start, right_sides
from .tree.order import elimination, riders_of
from .tree.plan import Plan

__all__ = [
    "BodyView",
    "Column",
    "Constraint",
    "Direct",
    "FrameConstraint",
    "Joint",
    "JointParameters",
    "JointView",
    "Kind",
    "Layout",
    "Plan",
    "Problem",
    "Proximal",
    "RobotView",
    "Rows",
    "Soft",
    "Solver",
    "Start",
    "StepInfo",
    "System",
    "as_floats",
    "axis_rotation",
    "body_factor",
    "checked_options",
    "checked_unit",
    "cross",
    "dot",
    "elimination",
    "eye",
    "matrices",
    "mm",
    "mmt",
    "mtm",
    "mtv",
    "mv",
    "outer",
    "penalised_factor",
    "riders_of",
    "right_sides",
    "saddle_factor",
    "skew",
    "transpose",
    "widen",
]


def matrices(problem: Problem) -> tuple[Float[Array, "nv nv lanes"], Float[Array, "m nv lanes"]]:
    """Return the dense matrices M and J of a problem. A matrix that does not vary in the batch has one lane."""
    M = mass_matrix_at(problem.motion)
    if problem.rows is None:
        return M, jnp.zeros((0, *M.shape[1:]), M.dtype)
    return M, jacobian_at(problem.motion, problem.rows)
