"""Constraints on the coordinates of joints: `Coupling` (gears) and `Transmission` (any function)."""

import abc
from collections.abc import Callable, Sequence
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..spatial.instances import check_names
from ..spatial.numbers import ArrayLike, finite, floats
from ..spatial.small import cross, dot, mv
from ..tree.topology import WORLD, Topology
from .constraints import Baumgarte, Constraint, Layout, Rows, check_function, checked_options
from .joints import HelicalKind, PrismaticKind, RevoluteKind
from .kind import Kind
from .lock import rates, relative

#: kinds whose velocity is that of the body relative to the parent along the joint's axis
STRAIGHT = RevoluteKind, PrismaticKind, HelicalKind


def checked_joints(name: str, joints: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """Return the constraint's name for error messages, and its joints. Raise `ValueError` if there are no joints, or if
    one is named twice."""
    joints = check_names(f"`{name}`", "joints", joints)
    call = f"`{name}({list(joints)})`"
    if not joints or len(set(joints)) != len(joints):
        raise ValueError(f"{call}: name at least one joint, and none twice.")
    return call, joints


class OnJoints(Constraint):
    """Base class of constraints between the coordinates of joints with one velocity each, its coordinate's rate."""

    joints: eqx.AbstractVar[tuple[str, ...]]

    @abc.abstractmethod
    def slope(self, q: Array, v: Array | None) -> tuple[Array, Array, Array]:
        """Return the rows' coefficients (rows, joints, ...), biases (rows, ...) and errors (rows, ...) at coordinates
        and rates (joints, ...). None stands for zero rates."""

    def joints_layout(self, topology: Topology, rows: int, *signature) -> Layout:
        """Return the layout of a constraint with this number of rows."""
        moved = [topology.joint(j) for j in self.joints]
        for j, b in zip(self.joints, moved, strict=True):
            kind = topology.kinds[b]
            if not kind.nq == kind.nv == 1 or type(kind).integrate is not Kind.integrate:
                raise ValueError(f"joint {j!r} ({kind}) has no single coordinate to couple.")
        bodies = tuple(dict.fromkeys(x for b in moved for x in (b, topology.parents[b]) if x != WORLD))
        # per joint: slot of its body, slot of the parent (or None), kind
        pattern = tuple(
            (bodies.index(b), None if (p := topology.parents[b]) == WORLD else bodies.index(p), topology.kinds[b])
            for b in moved
        )
        relative = all(topology.parents[b] != WORLD for b in moved)
        return Layout((type(self), pattern, *signature), rows, bodies, tuple((b, None) for b in moved), relative, True)

    def evaluate(self, layout: Layout, attachments, views, robot) -> Rows:
        pattern, units, v, biases = layout.signature[1], [], [], []
        for k, (slot, parent, kind) in enumerate(pattern):
            found = _rate(kind, robot.joint(k), views[slot], None if parent is None else views[parent])
            for every, new in zip((units, v, biases), found, strict=True):
                every.append(new)
        q = jnp.stack([robot.joint(k).q[0] for k in range(len(pattern))])
        coefficients, gamma, residual = self.slope(q, jnp.stack(v) if self.moving else None)
        K: list = [None] * len(layout.bodies)
        for k, (slot, parent, _) in enumerate(pattern):
            for s, (w, l) in zip((slot, parent), units[k], strict=False):
                if s is not None:
                    w, l = (coefficients[:, k, None] * x for x in (w, l))
                    K[s] = (w, l) if K[s] is None else (K[s][0] + w, K[s][1] + l)
            if biases[k] is not None:
                gamma = gamma + coefficients[:, k] * biases[k]
        return Rows(K, gamma, residual)


def _rate(kind: Kind, joint, own, above):
    """Return what `rates` returns, for a joint with one velocity; a bias of None is zero."""
    if type(kind) not in STRAIGHT:
        K, v, gamma = rates(kind, joint, own, above)
        return [(w[0], l[0]) for w, l in K], v[0], gamma[0]
    along = joint.par.axis
    across = -mv(joint.E, along)  # in the parent's axes
    zero = jnp.zeros_like(across)
    w, l = relative(joint, own, above)
    if isinstance(kind, PrismaticKind):
        return ((zero, along + zero), (cross(joint.r, across), across)), dot(along, l), None
    return ((along + zero, zero), (across, zero)), dot(along, w), None


class Coupling(OnJoints):
    """Couples joints linearly: ``sum_k coefficients[k] * q[joints[k]] = offset`` (gears, mimic joints): one row.

    **Arguments:** `joints`, names of joints with one velocity each; `coefficients`, one number per joint;
    `offset` ().
    """

    moving: ClassVar[bool] = False

    joints: tuple[str, ...] = eqx.field(static=True)
    coefficients: Float[Array, " joints"]
    offset: Float[Array, ""]
    target: Float[Array, "1"]
    stabilization: Baumgarte
    name: str | None = eqx.field(static=True)

    def __init__(
        self,
        joints: Sequence[str],
        coefficients: ArrayLike,
        offset: ArrayLike = 0.0,
        *,
        name: str | None = None,
        target: ArrayLike | None = None,
        stabilization: Baumgarte | None | str = "default",
    ):
        call, self.joints = checked_joints("Coupling", joints)
        self.coefficients = floats(call, "coefficients", coefficients, (len(self.joints),), finite)
        self.offset = floats(call, "offset", offset, (), finite)
        self.name, self.target, self.stabilization = checked_options(call, name, target, stabilization, 1)

    def layout(self, topology: Topology) -> Layout:
        return self.joints_layout(topology, 1)

    def slope(self, q: Array, v: Array | None) -> tuple[Array, Array, Array]:
        residual = -self.offset
        for k in range(len(self.joints)):
            residual = residual + self.coefficients[k] * q[k]
        return self.coefficients[None], jnp.zeros_like(residual)[None], residual[None]


class Transmission(OnJoints):
    """Imposes any smooth condition on the coordinates of joints: ``fn(q) = 0``, with q (joints,) in rad or m.

    It suits differentials, four-bar linkages and linear actuators. `fn` is a JAX function, which is differentiated
    twice. Use the same function object in every call: it is part of the model's static structure, and must not read
    traced numbers from outside. To impose an explicit map from some coordinates to others, use
    ``lambda q: q[1:] - f(q[0])``.

    **Arguments:** `joints`, names of joints with one velocity each; `fn`; `rows`, the length of its result.
    """

    joints: tuple[str, ...] = eqx.field(static=True)
    fn: Callable[[Array], Array] = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    target: Float[Array, " rows"]
    stabilization: Baumgarte
    name: str | None = eqx.field(static=True)

    def __init__(
        self,
        joints: Sequence[str],
        fn: Callable[[Array], Array],
        rows: int,
        *,
        name: str | None = None,
        target: ArrayLike | None = None,
        stabilization: Baumgarte | None | str = "default",
    ):
        call, self.joints = checked_joints("Transmission", joints)
        check_function(call, fn, rows, jnp.zeros(len(self.joints)))
        self.fn, self.rows = fn, int(rows)
        self.name, self.target, self.stabilization = checked_options(call, name, target, stabilization, rows)

    def layout(self, topology: Topology) -> Layout:
        return self.joints_layout(topology, self.rows, self.fn, self.rows)

    def slope(self, q: Array, v: Array | None) -> tuple[Array, Array, Array]:
        fn = lambda x: self.fn(x).astype(q.dtype)  # noqa: E731 - constants in `fn` may be in double precision

        def single(q, v):
            along = lambda x: jax.jvp(fn, (x,), (v,))[1]  # noqa: E731
            return jax.jacfwd(fn)(q), jax.jvp(along, (q,), (v,))[1], fn(q)

        whole = single
        for _ in range(q.ndim - 1):
            whole = jax.vmap(whole, -1, -1)
        return whole(q, jnp.zeros_like(q) if v is None else jnp.broadcast_to(v, q.shape))
