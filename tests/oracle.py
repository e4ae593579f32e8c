"""An independent reference for the dynamics: dense algebra in NumPy float64, no code shared with jaxdyn.

A built `Model` is read as data only. `oracle_joints` knows the joints, `oracle_bodies` the bodies,
`oracle_constraints` the constraints; here they meet in one dense system. All functions take a `Model` (or the
`Robot` that `read` makes of it) and NumPy vectors of a single state, in jaxdyn's conventions.
"""

from typing import NamedTuple

import delassus_oracle
import numpy as np
from oracle_bodies import (
    Robot,
    attached,
    bias_forces,
    body_frames,
    center_of_mass,
    centroidal_momentum,
    difference,
    external_forces,
    frame_jacobian,
    gravity_energy,
    gravity_forces,
    integrate,
    inverse_dynamics,
    kinetic_energy,
    mass_matrix,
    passive_forces,
    poses,
    rates,
    read,
    spring_energy,
)
from oracle_constraints import (
    constraint_bias,
    constraint_jacobian,
    constraint_residual,
    constraint_target,
)

__all__ = [
    "Dynamics",
    "delassus",
    "forward_dynamics",
    "impulse",
    "Robot",
    "attached",
    "bias_forces",
    "body_frames",
    "center_of_mass",
    "centroidal_momentum",
    "difference",
    "external_forces",
    "frame_jacobian",
    "gravity_energy",
    "gravity_forces",
    "integrate",
    "inverse_dynamics",
    "kinetic_energy",
    "mass_matrix",
    "passive_forces",
    "poses",
    "rates",
    "read",
    "spring_energy",
    "constraint_bias",
    "constraint_jacobian",
    "constraint_residual",
    "constraint_target",
]


class Dynamics(NamedTuple):
    """Constrained motion: `acceleration` (nv,), minimum-norm `multipliers` (m,), the `rank` of J and its singular
    values, and by how much the rows contradict each other."""

    acceleration: np.ndarray
    multipliers: np.ndarray
    rank: int
    singular_values: np.ndarray
    conflict: float


def forward_dynamics(model, q, v, tau, constraints=None, external=None, tolerance=1e-9) -> Dynamics:
    """Solve  M a + h = tau + passive + external + J^T l,  J a + gamma = a*.

    Singular values of J below `tolerance` times the largest count as zero. Rows that contradict each other are
    met in the least-squares sense. The multipliers lie in the range of J, hence are the minimum-norm ones.
    """
    M = mass_matrix(model, q)
    force = tau - bias_forces(model, q, v) + passive_forces(model, q, v)
    if external is not None:
        force = force + external_forces(model, q, external)
    J = constraint_jacobian(model, q, constraints)
    wanted = constraint_target(model, q, v, constraints) - constraint_bias(model, q, v, constraints)
    left, s, right = np.linalg.svd(J, full_matrices=False)
    rank = int((s > tolerance * s.max(initial=0.0)).sum())
    left, rows = left[:, :rank], s[:rank, None] * right[:rank]
    saddle = np.block([[M, -rows.T], [rows, np.zeros((rank, rank))]])
    rhs = np.concatenate([force, left.T @ wanted])
    x = np.linalg.solve(saddle, rhs)
    error = rhs - (saddle.astype(np.longdouble) @ x).astype(float)  # one refinement
    x = x + np.linalg.solve(saddle, error)
    conflict = float(np.linalg.norm(wanted - left @ (left.T @ wanted)))
    return Dynamics(x[: M.shape[0]], left @ x[M.shape[0] :], rank, s, conflict)


def impulse(model, q, v, p, restitution=0.0) -> tuple[np.ndarray, np.ndarray]:
    """Velocity after M (v+ - v) = p + J^T l with J v+ = -restitution J v, and l of least norm."""
    M, J = mass_matrix(model, q), constraint_jacobian(model, q)
    free = np.linalg.solve(M, p)
    wanted = -J @ ((1 + restitution) * v + free)
    multipliers = np.linalg.pinv(J @ np.linalg.solve(M, J.T), rcond=1e-9) @ wanted
    return v + free + np.linalg.solve(M, J.T @ multipliers), multipliers


def delassus(model, q, constraints=None, within=(), damping=None):
    """J P J^T + R (m, m), where the constraints `within` hold: see `delassus_oracle`."""
    J, K = constraint_jacobian(model, q, constraints), constraint_jacobian(model, q, within)
    return delassus_oracle.operator(mass_matrix(model, q), J, K, damping)
