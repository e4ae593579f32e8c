"""All that authors of joints, constraints and solvers need, in one place.

Arrays of this level have their components first and the batch (the lanes) last: a vector is `(3, k, lanes)`, a matrix
`(3, 3, k, lanes)`, for the k joints or constraints of one group. "Extending" shows an example of each.

| for | are |
| --- | --- |
| joints | `Joint`, `Kind`, `Column`, `JointParameters`, `axis_rotation` |
| constraints | `Constraint`, `FrameConstraint`, `Layout`, `Rows`, `checked_options`, `checked_unit` |
| what `evaluate` is given | `BodyView`, `JointView`, `RobotView` |
| solvers | `Solver`, `Problem`, `Start`, `right_sides`, `matrices`, `flatten`, `unflatten`, `widen` |
| solvers that iterate with a factor | `Proximal`, `Direct`, `Soft`, `System` |
| orders and factors | `elimination`, `cliques_of`, `riders_of`, `factorised`, `saddle_factor`, `penalised_factor` |
| algebra | `mm`, `mmt`, `mtm`, `mv`, `mtv`, `dot`, `cross`, `outer`, `skew`, `transpose`, `eye`, `as_floats` |
"""

from jaxtyping import Array, Float

from .constrained.base import Solver
from .constrained.damped import System, factorised
from .constrained.iterated import Direct, Proximal, Soft
from .constrained.joint_space import penalised_factor, saddle_factor
from .constrained.problem import Problem, Start, right_sides
from .constrained.prox_bbo import riders_of
from .dynamics.crba import mass_matrix
from .dynamics.jacobians import constraint_jacobian
from .engine.core import widen
from .kinematics.rows import cliques_of, flatten, unflatten
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
from .model.joints import Column, Joint, JointParameters, Kind, axis_rotation
from .model.pairs import FrameConstraint
from .spatial.small import cross, dot, eye, mm, mmt, mtm, mtv, mv, outer, skew, transpose
from .spatial.transform import as_floats
from .tree.plan import elimination

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
    "Problem",
    "Proximal",
    "RobotView",
    "Rows",
    "Soft",
    "Solver",
    "Start",
    "System",
    "as_floats",
    "axis_rotation",
    "checked_options",
    "checked_unit",
    "cliques_of",
    "cross",
    "dot",
    "elimination",
    "eye",
    "factorised",
    "flatten",
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
    "unflatten",
    "widen",
]


def matrices(problem: Problem) -> tuple[Float[Array, "nv nv lanes"], Float[Array, "m nv lanes"]]:
    """M and J of a problem, dense; where they do not vary in the batch they have one lane."""
    model, q = problem.model, problem.q
    return mass_matrix(model, q), constraint_jacobian(model, problem.constraints, q)
