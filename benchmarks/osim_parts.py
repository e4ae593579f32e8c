"""Split the methods for the Delassus matrix into parts and count the arithmetic operations of each.

The stages of a method are functions, each of which includes the work of the stage before. They are counted separately
(`lane_operations.py`), and a part is the difference between its stage and the one before. The rest is counted by
formula, because dense matrix products and factors, which exploit neither zeros nor symmetry, do this work. Λ⁻¹ of LTL
counts one half of Yᵀ Y, where both columns are nonzero; all of it takes 2 m² n. The Cholesky factor of m rows takes
(m³ − m) / 3 + m (m + 1) / 2, the solution of a triangular system m² for each right-hand side.
"""

from collections.abc import Callable

import jax
import numpy as np
from lane_operations import lane_operations

import jaxdyn as jd
from jaxdyn.delassus import joint_space, propagated, riding
from jaxdyn.delassus.base import Given
from jaxdyn.dynamics.crba import mass_matrix_at
from jaxdyn.engine.lanes import laned
from jaxdyn.kinematics.embedding import jacobian_at
from jaxdyn.kinematics.rows import plan_of
from jaxdyn.systems.problem import problem_of

#: parts of all methods, in the order of the bars. Λ⁻¹ of `EFPA` and `KJR` includes the inverse inertias of bodies
PARTS = ("kinematics", "I^A", "M", "J", "factor of M", "Y", "K^A", "Λ⁻¹", "Cholesky")
METHODS = ("PV", "PVFast", "EFPA", "KJR", "LTL")


def _kinematics(given: Given):
    """Return the poses in the parents; those of roots are not needed."""
    below = np.asarray([b for b, p in enumerate(given.model.topology.parents) if p >= 0])
    return jax.tree.map(lambda x: x[below], problem_of(given.model, (), given.q).motion.pose)


def _riding(names: tuple[str, ...], given: Given):
    parts = riding._parts(0, False, given)[1]
    return [parts["U"][2] if name == "1/D" else parts[name] for name in names]


def _fast(places: tuple[int, ...], given: Given):
    return [riding._open(0, given)[k] for k in places]


def _ridden(names: tuple[str, ...], given: Given):
    fields = propagated._fields(True, given)
    return [fields["U"][2], *(fields.get(name) for name in names)]


def _joint_space(rows: bool, given: Given):
    """Return M, and J if `rows` is True."""
    problem = problem_of(given.model, given.constraints, given.q)
    return mass_matrix_at(problem.motion), jacobian_at(problem.motion, problem.rows) if rows else None


def _factorised(given: Given):
    """Return the factor of M, and M and J."""
    D, l = joint_space._factor(given)
    below = joint_space._places(given.model.topology, plan_of(given.model.topology, given.constraints))[2]
    return D, l[np.setdiff1d(np.arange(len(l)), below)], _joint_space(True, given)


def _stages(method: str, given: Given) -> dict[str, Callable]:
    """Return functions of `given` by the part that they complete; each includes the work of the one before."""
    start = {"kinematics": laned(_kinematics)}
    if method == "PV" or (method == "PVFast" and not given.model.topology.floating_bases):
        stages = {"I^A": (_riding, ("1/D",)), "K^A": (_riding, ("1/D", "R")), "Λ⁻¹": (_riding, ("L",))}
    elif method == "PVFast":
        stages = {"I^A": (_fast, (1,)), "K^A": (_fast, (1, 2)), "Λ⁻¹": (_fast, (0, 1, 2))}
    elif method == "EFPA":
        stages = {"I^A": (_ridden, ()), "K^A": (_ridden, ("ride",)), "Λ⁻¹": (_ridden, ("G",))}
    elif method == "KJR":
        stages = {"I^A": (_ridden, ()), "Λ⁻¹": (propagated._blocks, False)}
    else:
        stages = {"M": (_joint_space, False), "J": (_joint_space, True), "factor of M": (_factorised,)}
        stages |= {"Y": (joint_space._factor,)}
    return start | {part: laned(*stage) for part, stage in stages.items()}


def _cholesky(m: int) -> int:
    return (m**3 - m) // 3 + m * (m + 1) // 2


def _by_formula(method: str, given: Given) -> dict[str, int]:
    """Return the operations outside of kernels by part."""
    topology = given.model.topology
    plan = plan_of(topology, given.constraints)
    bases = 6 * len(topology.floating_bases)
    if method == "PVFast" and bases:
        # F and F⁻¹ K of every set of coupled rows; then H + Zᵀ Z
        sizes = [len(rows) for rows in riding._coupled(topology, plan, 0)]
        factors = sum(_cholesky(m) + bases * m**2 for m in sizes)
        return {"Cholesky": factors + plan.rows * bases * (bases + 1) + _cholesky(bases)}
    dense = {"Cholesky": _cholesky(plan.rows)}
    if method != "LTL":
        return dense
    filled = np.zeros((topology.nv, plan.rows), bool)
    filled.ravel()[joint_space._places(topology, plan)[0]] = True
    common = filled.astype(int).T @ filled
    pairs = common[np.triu_indices(plan.rows)]
    # Y takes a root and a quotient for every velocity, and a product for every entry
    return dense | {"Y": 2 * topology.nv + int(filled.sum()), "Λ⁻¹": int(np.maximum(2 * pairs - 1, 0).sum())}


def given_at(model: jd.Model, q) -> Given:
    return Given(model, (), model.constraints, q)


def parts(method: str, model: jd.Model, q) -> dict[str, int]:
    """Return the operations by part."""
    given, before, found = given_at(model, q), 0, {}
    for part, stage in _stages(method, given).items():
        total = lane_operations(lambda q, stage=stage: stage(given_at(model, q)), q)
        found[part], before = total - before, total
    for part, more in _by_formula(method, given).items():
        found[part] = found.get(part, 0) + more
    return found


def matrix(method: str, model: jd.Model, q, called: bool = False) -> int:
    """Return the operations of the kernels that form the matrix, or its representation, as the method calls them,
    without those that only products need."""
    prepare = getattr(jd.osim, method)().prepare
    without = lambda made: made._replace(Y=None) if isinstance(made, riding.Branches) else made  # noqa: E731
    return lane_operations(lambda q: without(prepare(given_at(model, q))), q, called)
