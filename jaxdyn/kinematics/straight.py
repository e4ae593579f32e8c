"""Time steps of free joints in axes that do not turn.

The velocity of a free joint is given in the body's axes. A step v + dt q̈ in these axes would make bodies that turn and
travel gain speed, by a factor (1 + ω² dt²)^½ per step. In the axes at the start of the step a body without forces keeps
its velocity: there, w = v + dt (q̈ + ω × l), the origin moves by dt w, and w is then transformed to the turned axes.
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
from .manifold import arrived


def _turning(v):
    """Return ω × l, the rate of v in axes that do not turn minus its rate in the body's axes."""
    return jnp.concatenate([cross(v[3:], v[:3]), jnp.zeros_like(v[3:])])


def _straight(w):
    """Return the tangent vector whose exponential moves the origin by w in axes that do not turn, although the
    exponential of SE(3) bends its path. The error is of fourth order in the angle."""
    l, r = w[:3], w[3:]
    return jnp.concatenate([l - 0.5 * cross(r, l) + cross(r, cross(r, l)) / 12, r])


def _turned(v, w):
    """Return v in axes that have turned by the tangent vector w."""
    return jnp.concatenate([rotate(quaternion_conjugate(quaternion_exp(w[3:])), v[:3]), v[3:]])


def _places(topology: Topology) -> list[slice]:
    """Return the slices of v whose axes turn: those of free joints outside of clusters."""
    free = [b for b, k in enumerate(topology.kinds) if isinstance(k, FreeKind) and b not in topology.cluster_of]
    starts = [topology.places[topology.v_starts[b]] for b in free]
    return [slice(k, k + FreeKind.nv) for k in starts]


@tables
def _table(topology: Topology, fn, reads: tuple[str, ...]) -> Table:
    of = lambda name, at: Ref(name, at.start, at.stop - at.start)  # noqa: E731
    rows = [Row(Step(fn), tuple(of(r, at) for r in reads), of("out", at)) for at in _places(topology)]
    return Table(rows, {"out": len(topology.independent)})


def _swept(topology: Topology, fn, otherwise: Array, **given: Array) -> Array:
    """Return the result of `fn` at free joints and `otherwise` at all others: (nv, lanes)."""
    for at in _places(topology):
        otherwise = otherwise.at[at].set(0)
    if not _places(topology):
        return otherwise
    return swept(_table(topology, fn, tuple(given)), given | {"out": otherwise})["out"]


def apparent(topology: Topology, v: Array) -> Array:
    """Return the acceleration to add in axes that do not turn: ω × l of free joints, zero of others (nv, lanes)."""
    return _swept(topology, _turning, jnp.zeros_like(v), v=v)


def moved(model: Model, q: Array, w: Array, dt: Array) -> tuple[Array, Array]:
    """Return q and v after a step of dt at velocities w (nv, lanes) in the axes of its start."""
    topology, way = model.topology, dt * w
    straight = _swept(topology, _straight, way, w=way)
    return arrived(topology, model, q, straight), _swept(topology, _turned, w, v=w, w=way)


def _unturned(v, w):
    """Return v, given in axes that have turned by the tangent vector w, in the axes before that turn."""
    return jnp.concatenate([rotate(quaternion_exp(w[3:]), v[:3]), v[3:]])


def acceleration_over(topology: Topology, v: Array, after: Array, dt: Array) -> Array:
    """Return the accelerations q̈ for which a step of dt changes velocities v to `after`: see `moved`."""
    straight = _swept(topology, _unturned, after, v=after, w=dt * after)
    return (straight - v) / dt - apparent(topology, v)
