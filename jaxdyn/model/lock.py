"""`Lock`: a constraint whose rows are the velocities of one joint."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..spatial.instances import check_instance, counted
from ..spatial.numbers import ArrayLike, finite, floats, is_unit
from ..spatial.small import cross, dot, mtv, mv
from ..tree.columns import motion
from ..tree.topology import WORLD, Topology
from .constraints import Baumgarte, Constraint, Layout, Rows, checked_options
from .kind import Kind


class Lock(Constraint):
    """Holds the velocities of a joint of any kind: one row per velocity, in their order. A brake, dry friction and
    limits act on a joint along the same rows.

    **Arguments:** `joint`, its name; `rows`, its number of velocities; `position`, the configuration (nq,) in which to
    hold it, None for any.
    """

    joint: str = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    position: Float[Array, " nq"] | None
    target: Float[Array, " rows"]
    stabilization: Baumgarte
    name: str | None = eqx.field(static=True)

    def __init__(
        self,
        joint: str,
        rows: int = 1,
        *,
        position: ArrayLike | None = None,
        name: str | None = None,
        target: ArrayLike | None = None,
        stabilization: Baumgarte | None | str = "default",
    ):
        check_instance("`Lock`", "joint", joint, str)
        call = f"`Lock({joint!r})`"
        if not isinstance(rows, int | np.integer) or isinstance(rows, bool) or not 1 <= rows <= 6:
            raise ValueError(f"{call}: `rows` is {rows!r}, not the number of the joint's velocities, 1 to 6.")
        self.joint, self.rows = joint, int(rows)
        self.position = None if position is None else jnp.atleast_1d(floats(call, "position", position, None, finite))
        if self.position is not None and self.position.ndim > 1:
            raise ValueError(f"{call}: `position` has shape {self.position.shape}, not (nq of the joint,).")
        self.name, self.target, self.stabilization = checked_options(call, name, target, stabilization, rows)

    def layout(self, topology: Topology) -> Layout:
        body = topology.joint(self.joint)
        parent, kind = topology.parents[body], topology.kinds[body]
        if kind.nv != self.rows:
            has = counted(kind.nv, "velocity", "velocities")
            raise ValueError(f"joint {self.joint!r} has {has}: give `rows={kind.nv}`, not {self.rows}.")
        if self.position is not None and self.position.shape[:1] != (kind.nq,):
            raise ValueError(f"`position` of joint {self.joint!r} has shape {self.position.shape}, not ({kind.nq},).")
        known = isinstance(self.position, jax.Array) and not isinstance(self.position, jax.core.Tracer)
        if known and kind.quaternion is not None and self.position.ndim == 1:
            problem = is_unit(np.asarray(self.position)[kind.quaternion])  # of JAX, the slice would be traced in `jit`
            if problem is not None:
                raise ValueError(f"the quaternion of `position` of joint {self.joint!r} {problem}.")
        bodies = (body,) if parent == WORLD else (body, parent)
        start = topology.v_starts[body]
        signature = type(self), kind, len(bodies), self.position is None
        velocities = tuple(range(start, start + kind.nv))
        return Layout(signature, kind.nv, bodies, ((body, None),), parent != WORLD, True, velocities)

    def evaluate(self, layout: Layout, attachments, views, robot) -> Rows:
        kind, joint = layout.signature[1], robot.joint(0)
        K, _, gamma = rates(kind, joint, *views)
        residual = jnp.zeros_like(gamma)
        if self.position is not None:
            residual = residual + kind.difference(self.position, joint.q)
        return Rows(K, gamma, residual)


def relative(joint, own, above=None) -> tuple[Array, Array]:
    """Return the twist (angular, linear) of a joint's body relative to the parent (None: the world), in the body's
    axes."""
    if above is None:
        return own.w, own.l
    return own.w - mtv(joint.E, above.w), own.l - mtv(joint.E, above.l + cross(above.w, joint.r))


def rates(kind: Kind, joint, own, above=None) -> tuple[list, Array, Array]:
    """Return the velocities of a joint in terms of the twists of its body and of the parent (None: the world): their
    coefficients, (angular, linear) as (nv, 3, ...) for each of the two; their values (nv, ...); and their rates (nv,
    ...) when the twists' components are constant."""
    rows = _dual([_dense(s, joint.r) for s in kind.columns(joint.par, joint.q)])
    # the joint's twist in the body's axes, and the acceleration that it gives the body beyond S q̈
    wj, lj = relative(joint, own, above)
    v = jnp.stack([dot(n, wj) + dot(f, lj) for n, f in rows])
    bias = cross(own.w, wj), cross(own.l, wj) + cross(own.w, lj)
    change = kind.bias(joint.par, joint.q, v)
    if change is not None:
        bias = tuple(x if y is None else x + y for x, y in zip(bias, change, strict=True))
    gamma = jnp.stack([-dot(n, bias[0]) - dot(f, bias[1]) for n, f in rows])
    K = [tuple(jnp.stack(x) for x in zip(*rows, strict=True))]
    if above is not None:
        seen = [(mv(joint.E, n), mv(joint.E, f)) for n, f in rows]
        seen = [(-n - cross(joint.r, f), -f) for n, f in seen]
        K.append(tuple(jnp.stack(x) for x in zip(*seen, strict=True)))
    return K, v, gamma


def _dense(column, like):
    """Return a column of a joint as two vectors."""
    zero = jnp.zeros_like(like)
    return tuple(zero if x is None else x + zero for x in motion([column], [jnp.ones_like(like[0])]))


def _dual(columns):
    """Return the rows of S⁺ = (Sᵀ S)⁻¹ Sᵀ, by Gauss-Jordan elimination."""
    n = len(columns)
    inner = lambda x, y: dot(x[0], y[0]) + dot(x[1], y[1])  # noqa: E731
    G = [[inner(a, b) for b in columns] for a in columns]
    rows = list(columns)
    less = lambda x, y, f: tuple(a - f * b for a, b in zip(x, y, strict=True))  # noqa: E731
    for i in range(n):
        for j in range(n):
            if j != i:
                factor = G[j][i] / G[i][i]
                G[j] = [a - factor * b for a, b in zip(G[j], G[i], strict=True)]
                rows[j] = less(rows[j], rows[i], factor)
    return [tuple(x / G[i][i] for x in rows[i]) for i in range(n)]
