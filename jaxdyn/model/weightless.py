"""`weightless`: finds moving bodies whose lack of inertia makes the mass matrix singular."""

from collections.abc import Iterator, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..spatial.instances import listed
from ..tree.topology import Topology
from .described import Body
from .model import Joints

#: inertias below this share of mass times metre squared, or of the joint's largest inertia, count as rounding errors
ROUNDING = 1e-12
MOST = 12


def weightless(topology: Topology, bodies: Sequence[Body], joints: Joints) -> Iterator[str]:
    """Yield the texts of warnings: of bodies that carry nothing with inertia, and of point masses on the axes of their
    joints."""
    below = topology.anywhere_below([b.mass > 0 or bool(np.any(b.rotational)) for b in bodies])
    armed = [bool(np.all(np.asarray(b.joint.armature) > 0)) for b in bodies]
    idle = [b.name for b, ok, armature in zip(bodies, below, armed, strict=True) if not ok and not armature]
    if idle:
        yield (
            f"nothing that hangs on {_listed(idle)} has inertia, so that the mass matrix is singular unless "
            "constraints or armature help."
        )
    points = [k for k in _points(topology, bodies, joints) if below[k] and not armed[k]]
    if points:
        yield (
            f"links that have mass but no rotational inertia about an axis of their joints, at q = 0: "
            f"{_listed([bodies[k].name for k in points])}; the mass matrix is singular there unless "
            "constraints help."
        )


def _listed(names: Sequence[str]) -> str:
    return listed([repr(n[:60]) for n in names], MOST)


def _points(topology: Topology, bodies: Sequence[Body], joints: Joints) -> list[int]:
    """Return the point masses and thin rods whose joint, in some direction and at q = 0, moves nothing with inertia."""
    moments = np.linalg.eigvalsh(np.array([b.rotational for b in bodies]).reshape(-1, 3, 3))
    found = [k for k, m in enumerate(moments) if bodies[k].mass > 0 and m[0] <= ROUNDING * m[-1]]
    if not found:
        return []
    carried = topology.with_all_below([_spatial(b) for b in bodies], lambda a, c, k: a + _moved(bodies[k], c))
    found = [k for k in found if _is_thin(carried[k])]
    out = []
    for kind in dict.fromkeys(topology.kinds[k] for k in found):
        own = [k for k in found if topology.kinds[k] == kind]
        lanes = len(own)
        par = jax.tree.map(lambda x, own=own: jnp.moveaxis(x[np.array(own)], 0, -1), joints.parameters)
        q = np.repeat(kind.neutral()[:, None], lanes, 1)
        with jax.numpy_rank_promotion("allow"):  # as in the engine: (lanes,) is broadcast to (3, lanes)
            moves = kind.columns(par, q)
        columns = [np.concatenate([_full(c.linear, lanes), _full(c.angular, lanes)]) for c in moves]
        for lane, k in enumerate(own):
            S = np.stack([c[:, lane] for c in columns], 1)
            values = np.linalg.eigvalsh(S.T @ carried[k] @ S + np.diag(np.asarray(bodies[k].joint.armature)))
            if values[0] <= ROUNDING * max(values[-1], carried[k][0, 0]):
                out.append(k)
    return sorted(out)


def _spatial(body: Body) -> np.ndarray:
    """Return the spatial inertia (6, 6) of a body at its origin, linear part first."""
    c = _skew(body.mass * body.center)
    turning = body.rotational - c @ _skew(body.center)
    return np.block([[body.mass * np.eye(3), -c], [c, turning]])


def _is_thin(inertia: np.ndarray) -> bool:
    """Return True if a spatial inertia (6, 6) is that of a point or a line. Only these can make a joint's inertia
    singular."""
    mass, first = inertia[0, 0], inertia[3:, :3]
    central = inertia[3:, 3:] + first @ first / mass
    return bool(np.linalg.eigvalsh(central)[0] <= ROUNDING * np.trace(inertia[3:, 3:]))


def _moved(body: Body, inertia: np.ndarray) -> np.ndarray:
    """Return an inertia about the body's origin, transformed to its parent at q = 0."""
    R, p = body.rotation, _skew(body.translation)
    X = np.block([[R, np.zeros((3, 3))], [p @ R, R]])
    return X @ inertia @ X.T


def _skew(v: np.ndarray) -> np.ndarray:
    x, y, z = v
    return np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])


def _full(part, lanes: int) -> np.ndarray:
    """Return a part of a `Column` as an array (3, lanes)."""
    if part is None:
        return np.zeros((3, lanes))
    if isinstance(part, int):
        return np.repeat(np.eye(3)[part][:, None], lanes, 1)
    return np.broadcast_to(np.asarray(part), (3, lanes))
