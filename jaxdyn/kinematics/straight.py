"""Steps in time in axes that do not turn.

The velocity of a free joint is given in the body's axes. A step v + dt q̈ in these would let bodies that turn and
travel gain speed, (1 + ω² dt²)^½ a step. In the axes of the step's start a body without forces keeps its velocity:
w = v + dt (q̈ + ω × l) there, the origin moves by dt w, and the axes turn w back with them.
"""

import jax.numpy as jnp
from jaxtyping import Array

from ..engine.kept import tables
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..model.joints import FreeKind
from ..model.model import Model
from ..spatial.rotation import quaternion_conjugate, quaternion_exp, rotate
from ..spatial.small import cross
from ..tree.topology import Topology
from .manifold import advanced, normalized


def _turning(v):
    """The rate at which v changes in axes that do not turn, beyond its own."""
    return jnp.concatenate([cross(v[3:], v[:3]), jnp.zeros_like(v[3:])])


def _straight(w):
    """The tangent vector that leads where w leads in axes that do not turn: the exponential of SE(3) bends the way of
    the origin. What this leaves is of fourth order in the angle."""
    l, r = w[:3], w[3:]
    return jnp.concatenate([l - 0.5 * cross(r, l) + cross(r, cross(r, l)) / 12, r])


def _turned(v, w):
    """v as seen from the axes that have turned by the tangent vector w."""
    return jnp.concatenate([rotate(quaternion_conjugate(quaternion_exp(w[3:])), v[:3]), v[3:]])


def _places(topology: Topology) -> list[slice]:
    """Where velocities are whose axes turn: those of free joints, which depend on no others."""
    free = [b for b, k in enumerate(topology.kinds) if isinstance(k, FreeKind) and b not in topology.cluster_of]
    starts = [topology.places[topology.v_starts[b]] for b in free]
    return [slice(k, k + FreeKind.nv) for k in starts]


@tables
def _table(topology: Topology, fn, reads: tuple[str, ...]) -> Table:
    of = lambda name, at: Ref(name, at.start, at.stop - at.start)  # noqa: E731
    rows = [Row(Step(fn), tuple(of(r, at) for r in reads), of("out", at)) for at in _places(topology)]
    return Table(rows, {"out": len(topology.independent)})


def _swept(topology: Topology, fn, otherwise: Array, **given: Array) -> Array:
    """What a function of such joints gives, `otherwise` at all others: (nv, lanes)."""
    for at in _places(topology):
        otherwise = otherwise.at[at].set(0)
    if not _places(topology):
        return otherwise
    return swept(_table(topology, fn, tuple(given)), given | {"out": otherwise})["out"]


def apparent(topology: Topology, v: Array) -> Array:
    """Return what accelerations lack in axes that do not turn, ω × l of free joints (nv, lanes)."""
    return _swept(topology, _turning, jnp.zeros_like(v), v=v)


def moved(model: Model, q: Array, w: Array, dt: Array) -> tuple[Array, Array]:
    """Return q and v after a step of dt at velocities w (nv, lanes) in the axes of its start."""
    topology, way = model.topology, dt * w
    straight = _swept(topology, _straight, way, w=way)
    return normalized(topology, advanced(model, q, straight)), _swept(topology, _turned, w, v=w, w=way)


def _unturned(v, w):
    """v as it was in axes that have turned by the tangent vector w since."""
    return jnp.concatenate([rotate(quaternion_exp(w[3:]), v[:3]), v[3:]])


def acceleration_over(topology: Topology, v: Array, after: Array, dt: Array) -> Array:
    """Return the accelerations q̈ with which a step of dt leads from velocities v to `after`: see `moved`."""
    straight = _swept(topology, _unturned, after, v=after, w=dt * after)
    return (straight - v) / dt - apparent(topology, v)
