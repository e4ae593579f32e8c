"""The configuration manifold: motion along it, differences on it, and derivatives of functions of q.

`integrated`, `differenced`, `normalized`, `advanced`, `arrived`, `closed` and `settled` take batches, with one lane per
element on the last axis. `moving`, `arriving`, `settling` and `separated` return functions of single states.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..engine.kept import tables
from ..engine.lanes import laned
from ..engine.steps import Ref, Row, Step, Table
from ..engine.sweeps import swept
from ..model.checks import check_model, check_vector, common_dtype
from ..model.kind import Kind
from ..model.model import Model
from ..spatial.instances import check_callable
from ..spatial.numbers import ArrayLike, floats
from ..tree.sweep import each, q_of, v_of
from ..tree.topology import Topology
from . import ratios
from .embedding import Embedded


def _integrate(kind, q, dv):
    return kind.integrate(q, dv)


def _difference(kind, q0, q1):
    return kind.difference(q0, q1)


def _normalize(kind, q):
    return kind.normalize(q)


@tables
def _table(topology: Topology, fn, reads: tuple[str, ...], out: str) -> Table:
    """Return the table that calls ``fn(kind, *values)`` for every joint. Field ``"dv"`` has a cell for each velocity,
    other fields have one for each coordinate."""
    of = lambda name, b: (v_of if name == "dv" else q_of)(topology, b, name)  # noqa: E731

    def row(b):
        return Row(Step(fn, (topology.kinds[b],)), tuple(of(name, b) for name in reads), of(out, b))

    return Table(each(topology, row), {"dv": topology.nv, "moved": topology.nq})


def integrated(topology: Topology, q, dv):
    """Return q moved by the tangent vector dv; arrays have the lanes last."""
    return swept(_table(topology, _integrate, ("q", "dv"), "moved"), {"q": q, "dv": dv})["moved"]


def differenced(topology: Topology, q0, q1):
    """Return the tangent vector from q0 to q1; arrays have the lanes last."""
    return swept(_table(topology, _difference, ("q0", "q1"), "dv"), {"q0": q0, "q1": q1})["dv"]


def normalized(topology: Topology, q):
    """Return q with all quaternions scaled to unit length."""
    return swept(_table(topology, _normalize, ("q",), "moved"), {"q": q})["moved"]


def advanced(topology: Topology, model: Model | None, q, dv):
    """Return q moved by the tangent vector dv of independent velocities; arrays have the lanes last. Only clusters read
    the model, which may be None for trees."""
    if model is None or not topology.clusters:
        return integrated(topology, q, dv)
    moves = ratios.spread(topology, Embedded(model, q).ratios().G, dv)
    for _ in range(_closings(topology)):
        loops = Embedded(model, integrated(topology, q, moves))
        moves = moves + loops.back(loops.ratios(_turns(topology, q, moves)))
    return integrated(topology, q, moves)


def arrived(topology: Topology, model: Model | None, q, dv):
    """Return `advanced` with all quaternions scaled to unit length: where a time step ends. Otherwise rounding would
    change their lengths in proportion to the number of steps."""
    return normalized(topology, advanced(topology, model, q, dv))


def _closings(topology: Topology) -> int:
    """Return the number of Newton steps that close loops. Two suffice up to rounding errors, for values and derivatives
    of the first three orders, if joints turn by a twentieth of a radian; three suffice if they turn by a third. Gears
    are linear: one step closes them."""
    return 1 if all(c.constant for c in topology.clusters) else 3


def _turn(kind, q, dv):
    """Return the velocities (nv,) of a joint at q ⊕ dv, one column for each component of dv that grows at unit rate."""
    at = kind.integrate(q, dv)
    seen = lambda d: kind.difference(at, kind.integrate(q, d))  # noqa: E731
    unit = lambda k: jnp.zeros_like(dv).at[k].set(1)  # noqa: E731
    return jnp.concatenate([jax.jvp(seen, (dv,), (unit(k),))[1] for k in range(kind.nv)])


@tables
def _turning(topology: Topology) -> tuple[Table, dict[int, int]]:
    """Return the table that calls `_turn` for the joints of clusters whose `integrate` is not an addition, and the
    first cell of each."""
    curved = [b for b in sorted(topology.cluster_of) if type(topology.kinds[b]).integrate is not Kind.integrate]
    starts, rows, size = {}, [], 0
    for b in curved:
        n = topology.kinds[b].nv
        reads = q_of(topology, b), v_of(topology, b, "dv")
        rows.append(Row(Step(_turn, (topology.kinds[b],)), reads, Ref("turn", size, n * n)))
        starts[b], size = size, size + n * n
    return Table(rows, {"turn": size}), starts


def _turns(topology: Topology, q, dv) -> dict[int, Array]:
    """Return, for the joints of clusters whose `integrate` is not an addition, the joint's velocities at q ⊕ dv per
    rate of dv: (nv, nv, lanes), columns first. If loops are closed in terms of dv, independent components do not
    change, even if only some components of a ball joint are dependent."""
    table, starts = _turning(topology)
    if not starts:
        return {}
    found = swept(table, {"q": q, "dv": dv})["turn"]
    sizes = {b: topology.kinds[b].nv for b in starts}
    return {b: found[k : k + sizes[b] ** 2].reshape(sizes[b], sizes[b], -1) for b, k in starts.items()}


def closing(model: Model, q):
    """Return the motion of dependent joints (velocities of the tree, lanes) that closes the loops of clusters to first
    order."""
    loops = Embedded(model, q)
    return loops.back(loops.ratios())


def closed(model: Model, q):
    """Return q, near closed, with the loops of clusters closed by their dependent joints."""
    for _ in range(_closings(model.topology)):
        q = integrated(model.topology, q, closing(model, q))
    return q


def settled(topology: Topology, model: Model | None, q):
    """Return q with all quaternions scaled to unit length and the loops of clusters closed; see `advanced`."""
    q = normalized(topology, q)
    return q if model is None or not topology.clusters else closed(model, q)


def of_states(fn: Callable, model: Model) -> Callable:
    """Return ``fn(topology, model, ...)`` as a function of single states. For trees fn gets None as the model, and its
    kernel does not read the model's arrays."""
    return functools.partial(laned(fn, model.topology), model if model.topology.clusters else None)


def coasted(topology: Topology, model: Model | None, q, v, dt=None):
    """Return q moved at the velocities v for a time dt (None: a unit of time); see `advanced`."""
    return advanced(topology, model, q, v if dt is None else v * dt)


def moving(model: Model) -> Callable:
    """Return `coasted` for single states, a function of (q, v, dt)."""
    return of_states(coasted, model)


def arriving(model: Model) -> Callable:
    """Return `arrived` for single states, a function of (q, dv)."""
    return of_states(arrived, model)


def settling(model: Model) -> Callable:
    """Return `settled` for single states."""
    return of_states(settled, model)


def separated(model: Model):
    """Return the inverse of `moving`: a function that returns the independent velocity between two configurations."""
    if not model.topology.clusters:
        return laned(differenced, model.topology)
    return lambda q0, q1: laned(differenced, model.topology)(q0, q1)[jnp.asarray(model.topology.independent)]


def integrate(model: Model, q: ArrayLike, v: ArrayLike, dt: ArrayLike = 1.0) -> Float[Array, " nq"]:
    """Return the configuration (nq,) after moving from q (nq,) at the constant velocity v (nv,) for a time dt ().

    Free joints move along the exponential of SE(3), spherical joints along that of SO(3); all others add ``dt * v``.
    Embedded loops stay closed, on their current branch, in motions of up to about half a radian; divide longer ones.
    Raises `ValueError` for wrong shapes.
    """
    check_model("integrate", model)
    q = check_vector("integrate", "q", q, (model.nq,))
    v = check_vector("integrate", "v", v, (model.nv,))
    model, q, v = common_dtype(model, q, v) if model.topology.clusters else (model, *common_dtype(q, v))
    dt = floats("`integrate`", "dt", dt, ()).astype(v.dtype)
    return moving(model)(q, v, dt)


def difference(model: Model, q0: ArrayLike, q1: ArrayLike) -> Float[Array, " nv"]:
    """Return the velocity (nv,) that moves q0 (nq,) to q1 (nq,) in a unit of time: the inverse of `integrate`.

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    check_model("difference", model)
    q0 = check_vector("difference", "q0", q0, (model.nq,))
    q1 = check_vector("difference", "q1", q1, (model.nq,))
    return separated(model)(*common_dtype(q0, q1))


def tangent(f: Callable[[Array], Any], model: Model, q: ArrayLike) -> Any:
    """Return the derivative of ``f(q)`` along the manifold at q (nq,): each output array (...,) becomes (..., nv).

    Column k is the rate of change of f when q moves with the k-th unit velocity.

    Raises `ValueError` for wrong shapes, `TypeError` for other types.
    """
    check_callable("`tangent`", "f", f, 1)
    check_model("tangent", model)
    q = check_vector("tangent", "q", q, (model.nq,))
    return jax.jacfwd(lambda d: f(integrate(model, q, d)))(jnp.zeros(model.nv, q.dtype))
