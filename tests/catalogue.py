"""The catalogue of small robots that the tests cross with solvers, and states in which their loops are closed.

`CATALOGUE[name]` is an `Entry`: `.build()` makes the `Model` (whose name is the entry's), the other fields say
what is special about it. `sample` uses the oracle alone.
"""

from typing import NamedTuple

import catalogue_everything  # noqa: F401
import catalogue_loops  # noqa: F401  (fills the catalogue)
import catalogue_rows  # noqa: F401
import catalogue_trees  # noqa: F401
import numpy as np
import oracle
from catalogue_base import CATALOGUE, Entry

__all__ = ["CATALOGUE", "Entry", "States", "sample"]

CLOSED = 1e-13


class States(NamedTuple):
    """Configurations (n, nq), velocities (n, nv) and joint forces (n, nv)."""

    q: np.ndarray
    v: np.ndarray
    tau: np.ndarray


def sample(model, seed: int, n: int) -> States:
    """`n` states whose loops are closed, to rounding, and whose velocities satisfy J v = 0; the forces are random.

    `model` is a robot of the catalogue, perhaps with other numbers. Poses where the rank of J is in doubt are left
    out. Raises `RuntimeError` where no closed pose is found.
    """
    entry, robot = CATALOGUE[model.name], oracle.read(model)
    rng = np.random.default_rng(seed)
    # small inertias get small forces, lest they outrun all others
    force = np.minimum(3.0, 10 * np.diag(oracle.mass_matrix(robot, entry.guess)))
    states = []
    while len(states) < n:
        q, v = entry.state(rng) if entry.state else _closed_state(robot, entry, rng)
        states.append((q, v, force * rng.normal(size=robot.nv)))
    return States(*(np.array(x) for x in zip(*states, strict=True)))


def _closed_state(robot, entry, rng):
    for _ in range(50):
        q = _close(robot, oracle.integrate(robot, entry.guess, entry.spread * rng.normal(size=robot.nv), 1.0))
        if q is None:
            continue
        v = rng.normal(size=robot.nv)
        if not robot.constraints:
            return q, v
        J = oracle.constraint_jacobian(robot, q)
        _, s, right = np.linalg.svd(J)
        s = s / s[0]
        if not ((s > 1e-2) | (s < 1e-11)).all():
            continue
        free = right[(s > 1e-2).sum() :]
        return q, free.T @ (free @ v)
    raise RuntimeError(f"no pose of {entry.name!r} with closed loops was found")


def _close(robot, q):
    """Newton's method from q; None where it does not arrive."""
    if not robot.constraints:
        return q
    for _ in range(60):
        error = oracle.constraint_residual(robot, q)
        if np.abs(error).max() < CLOSED:
            return q
        step = np.linalg.lstsq(oracle.constraint_jacobian(robot, q), -error, rcond=1e-6)[0]
        q = oracle.integrate(robot, q, step / max(1.0, np.abs(step).max()), 1.0)
    return None
