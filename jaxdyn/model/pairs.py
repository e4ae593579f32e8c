"""Constraints between two frames: `Weld`, `Hinge`, `Slider`, `Cylinder`, `Point`, `PointOnPlane`, `Distance`.

Rows are the velocity of frame a minus that of frame b, in the axes of frame a, linear part first. `Weld`, `Hinge`,
`Slider` and `Cylinder` take the velocity of b at the origin of a; `Point` and `Distance` take each frame's velocity at
its own origin.
"""

import abc
import dataclasses
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..engine.walls import walled
from ..spatial.instances import described
from ..spatial.numbers import ArrayLike, finite, floats
from ..spatial.rotation import quaternion_from_matrix, quaternion_log
from ..spatial.small import composed, cross, dot, eye, mm, mtm, mtv, mv
from ..spatial.transform import Transform, placed
from ..tree.topology import WORLD, Topology
from .constraints import Baumgarte, BodyView, Constraint, Layout, Rows, checked_options, checked_unit
from .joints import plane_axes

#: axes oppose each other if one plus the cosine of their angle is less
OPPOSED = 1e-4
#: the axis by default
Z = (0.0, 0.0, 1.0)


class FrameConstraint(Constraint):
    """Base class of constraints between two frames a and b, each fixed in a body or in the world.

    **Arguments:** `body_a`, `body_b`, names of bodies or frames, or ``"world"``; `placement_a`, `placement_b`, frames a
    and b in them, a `Transform` each, or its translation (3,) (default: their own frames); `name`, by which errors and
    `constraint_slices` call the constraint; `target` (rows,), the desired acceleration of the rows, m/s² or rad/s²
    (default: zero); `stabilization`, a `Baumgarte` (None: off); `axis` (3,), of those that have one, normalised.

    **Raises** `TypeError` and `ValueError` for wrong types and shapes, for an axis of length zero, and for an axis of
    constraints that have none.
    """

    rows: ClassVar[int]
    #: name of the argument `axis` in error messages; None for constraints that have none
    direction: ClassVar[str | None] = "axis"

    body_a: str = eqx.field(static=True)
    body_b: str = eqx.field(static=True)
    placement_a: Transform
    placement_b: Transform
    axis: Float[Array, "3"]
    target: Float[Array, " rows"]
    stabilization: Baumgarte
    name: str | None = eqx.field(static=True)

    def __init__(
        self,
        body_a: str,
        body_b: str = "world",
        *,
        placement_a: Transform | ArrayLike | None = None,
        placement_b: Transform | ArrayLike | None = None,
        name: str | None = None,
        target: ArrayLike | None = None,
        stabilization: Baumgarte | None | str = "default",
        axis: ArrayLike = Z,
    ):
        call = f"`{type(self).__name__}({body_a!r:.60}, {body_b!r:.60})`"
        for what, value in (("body_a", body_a), ("body_b", body_b)):
            if not isinstance(value, str):
                raise TypeError(f"{call}: `{what}` is {described(value)}, not the name of a body or frame.")
        self.body_a, self.body_b = body_a, body_b
        self.placement_a = placed(call, "placement_a", placement_a)
        self.placement_b = placed(call, "placement_b", placement_b)
        for what, value in (("placement_a", placement_a), ("placement_b", placement_b)):
            if isinstance(value, Transform):
                value.check(call, f"{what}.")
        self.axis = checked_unit(call, self.direction or "axis", axis)
        # `dataclasses.replace` gives the field to all
        if self.direction is None and not isinstance(self.axis, jax.core.Tracer) and tuple(self.axis.tolist()) != Z:
            raise TypeError(f"{call}: it has no axis; leave `axis` out, or use `Hinge`, `Slider` or `Cylinder`.")
        self.name, self.target, self.stabilization = checked_options(call, name, target, stabilization, self.rows)

    def layout(self, topology: Topology) -> Layout:
        a, b = topology.locate(self.body_a), topology.locate(self.body_b)
        if a[0] == b[0]:
            where = "the world" if a[0] == WORLD else f"body {topology.body_names[a[0]]!r}"
            raise ValueError(f"both sides ({self.body_a!r}, {self.body_b!r}) are fixed in {where}.")
        bodies = tuple(x for x, _ in (a, b) if x != WORLD)
        return Layout((type(self), a[0] == WORLD, b[0] == WORLD), self.rows, bodies, (a, b), WORLD not in (a[0], b[0]))

    def evaluate(self, layout: Layout, attachments, views, robot) -> Rows:
        _, ground_a, ground_b = layout.signature
        ends = [
            _placed(R, p, own.rotation, own.translation)
            for (R, p), own in zip(attachments, (self.placement_a, self.placement_b), strict=True)
        ]
        pair = Pair.of(ends, None if ground_a else views[0], None if ground_b else views[-1])
        rows = self.pair_rows(pair)
        K = [] if ground_a else [rows.K[0]]
        return rows._replace(K=K if ground_b else [*K, rows.K[1]])

    @abc.abstractmethod
    def pair_rows(self, pair: "Pair") -> Rows:
        """Return the rows with coefficients for both bodies. The caller drops those for the world."""


# `walled` keeps these parts of an evaluation apart: without it XLA recomputes the relative pose for each use
@walled
def _placed(R, p, own_R, own_p):
    return composed((R, p), (own_R, own_p))


@walled
def _seen(pa, A, B):
    """Return Q, reach and va of a `Pair`."""
    return mtm(A.R, B.R), mtv(B.R, A.p - B.p + mv(A.R, pa)), A.l + cross(A.w, pa)


@walled
def _relative(Q, Ra, Rb):
    return mtm(mm(Q, Rb), Ra)


_quaternion = walled(quaternion_from_matrix)
_vector = walled(quaternion_log)


@walled
def _tilt(Q, Ra, Rb, axis):
    own, seen = mv(Ra, axis), mv(Q, mv(Rb, axis))
    scalar = 1 + dot(seen, own)  # the quaternion of the least turn, times a number
    # from one axis to its opposite, any turn by π is least
    vector, across = cross(seen, own), mv(Ra, plane_axes(axis)[0])
    way = jnp.where(dot(vector, across) < 0, -1, 1).astype(vector.dtype)
    vector = vector + way * jnp.maximum(OPPOSED - scalar, 0) * across
    return seen, quaternion_log(jnp.concatenate([jnp.broadcast_to(scalar, vector.shape[1:])[None], vector]))


@walled
def _carried_bias(Q, reach, wa, va, w, l):
    wb, u = mv(Q, w), mv(Q, l + cross(w, reach))
    return cross(wa, wb), cross(wa, u) - cross(wb, va)


class Pair(NamedTuple):
    """Two frames, a in body A and b in body B. `Q` maps vectors in B's axes to A's; `reach` is the origin of a in B."""

    Ra: Array
    pa: Array
    Rb: Array
    pb: Array
    Q: Array
    reach: Array
    wa: Array
    va: Array  # velocity of a's origin, in A's axes
    B: BodyView

    @staticmethod
    def of(attachments, A: BodyView | None, B: BodyView | None) -> "Pair":
        (Ra, pa), (Rb, pb) = attachments
        zero = jnp.zeros_like(pa)
        still = BodyView(eye(pa), zero, zero, zero)
        A, B = still if A is None else A, still if B is None else B
        Q, reach, va = _seen(pa, A, B)
        return Pair(Ra, pa, Rb, pb, Q, reach, A.w, va, B)

    def linear(self, e, point):
        """Return coefficients of the velocity of a's origin minus that of `point` of body B along `e` (A's axes)."""
        f = mtv(self.Q, e)
        return (cross(self.pa, e), e), (-cross(point, f), -f)

    def angular(self, e):
        """Return coefficients of the relative angular velocity along `e` (A's axes)."""
        zero, f = jnp.zeros_like(e), mtv(self.Q, e)
        return (e, zero), (-f, zero)

    def carried_bias(self):
        """Return the bias (angular, linear), in A's axes, of the relative twist at the origin of a."""
        return _carried_bias(self.Q, self.reach, self.wa, self.va, self.B.w, self.B.l)

    def position(self):
        """Return the position of a relative to b, in A's axes."""
        return mv(self.Q, self.reach - self.pb)

    def rotation(self):
        """Return the rotation vector of a relative to b, in A's axes."""
        return mv(self.Ra, _vector(_quaternion(_relative(self.Q, self.Ra, self.Rb))))

    def tilt(self, axis):
        """Return b's copy of `axis` in A's axes, and the rotation vector of the least turn from it to a's. Unlike
        components of the whole rotation vector, it does not depend on the turn about the axis."""
        return _tilt(self.Q, self.Ra, self.Rb, axis)


def _stacked(columns) -> list[tuple[Array, Array]]:
    """Return one (rows, 3, ...) pair per body from a list of rows ((angA, linA), (angB, linB))."""
    out = []
    for side in (0, 1):
        parts = [[c[side][part] for c in columns] for part in (0, 1)]
        shape = jnp.broadcast_shapes(*[x.shape for p in parts for x in p])
        out.append(tuple(jnp.stack([jnp.broadcast_to(x, shape) for x in p]) for p in parts))
    return out


def _frame_rows(pair: Pair, linear: list, angular: list, position, rotation) -> Rows:
    """Return rows along unit vectors of frame a, with b's twist taken at a's origin, as for `Weld`. `position` and
    `rotation` are the errors in A's axes; their rates equal the rows where the errors vanish."""
    linear, angular = [mv(pair.Ra, e) for e in linear], [mv(pair.Ra, e) for e in angular]
    bias_w, bias_l = pair.carried_bias()
    return Rows(
        _weld_like(pair, linear, angular),
        _components(linear, angular, bias_l, bias_w),
        _components(linear, angular, position, rotation),
    )


@walled
def _weld_like(pair, linear, angular):
    return _stacked([pair.linear(e, pair.reach) for e in linear] + [pair.angular(e) for e in angular])


@walled
def _components(linear, angular, l, w):
    parts = [dot(e, l) for e in linear] + [dot(e, w) for e in angular]
    return jnp.stack(jnp.broadcast_arrays(*parts))  # one part may have a single lane where another has many


def _axes(like) -> list[Array]:
    return [eye(like)[k] for k in range(3)]


class Weld(FrameConstraint):
    """Holds frames a and b together: six rows, (linear, angular) in a's axes."""

    rows = 6
    direction = None
    __init__ = FrameConstraint.__init__

    def pair_rows(self, pair):
        return _frame_rows(pair, _axes(pair.pa), _axes(pair.pa), pair.position(), pair.rotation())


class Hinge(FrameConstraint):
    """Lets frame a turn about `axis` (3,), given in frame a, relative to b: five rows."""

    rows = 5
    __init__ = FrameConstraint.__init__

    def pair_rows(self, pair):
        _, tilt = pair.tilt(self.axis)
        return _frame_rows(pair, _axes(pair.pa), list(plane_axes(self.axis)), pair.position(), tilt)


class Slider(FrameConstraint):
    """Lets frame a slide along `axis` (3,), given in frame a, relative to b: five rows."""

    rows = 5
    __init__ = FrameConstraint.__init__

    def pair_rows(self, pair):
        # in b's axes: in a's, a rotation error would turn the sliding distance into a position error
        position = mv(pair.Ra, mtv(pair.Rb, pair.reach - pair.pb))
        return _frame_rows(pair, list(plane_axes(self.axis)), _axes(pair.pa), position, pair.rotation())


class Cylinder(FrameConstraint):
    """Lets frame a slide along and turn about `axis` (3,), given in frame a, relative to b: four rows."""

    rows = 4
    __init__ = FrameConstraint.__init__

    def pair_rows(self, pair):
        across = list(plane_axes(self.axis))
        seen, tilt = pair.tilt(self.axis)
        position = pair.position()
        return _frame_rows(pair, across, across, position - seen * dot(seen, position), tilt)


class Point(FrameConstraint):
    """Holds the origins of a and b together (a ball joint): three rows, the difference of their velocities."""

    rows = 3
    direction = None
    __init__ = FrameConstraint.__init__

    def layout(self, topology: Topology) -> Layout:
        # two points that are apart have different velocities in a common turn
        return dataclasses.replace(super().layout(topology), dragged=True)

    def pair_rows(self, pair):
        axes = [mv(pair.Ra, e) for e in _axes(pair.pa)]
        vb = pair.B.l + cross(pair.B.w, pair.pb)
        bias = cross(pair.wa, mv(pair.Q, vb)) - mv(pair.Q, cross(pair.B.w, vb))
        position = mv(pair.Q, pair.reach - pair.pb)
        columns = [pair.linear(e, pair.pb) for e in axes]
        return Rows(
            _stacked(columns),
            jnp.stack([dot(e, bias) for e in axes]),
            jnp.stack([dot(e, position) for e in axes]),
        )


class PointOnPlane(FrameConstraint):
    """Holds the origin of a in the plane through the origin of b with `normal` (3,), given in frame b (default: z): one
    row."""

    rows = 1
    direction = "normal"

    def __init__(self, body_a: str, body_b: str = "world", *, normal: ArrayLike | None = None, **options):
        own = {} if normal is None else {"axis": normal}  # `dataclasses.replace` gives the field `axis`
        super().__init__(body_a, body_b, **options | own)

    def pair_rows(self, pair):
        n = mv(pair.Rb, self.axis)
        va = mtv(pair.Q, pair.va)
        rate = va - pair.B.l - cross(pair.B.w, pair.reach)
        bias = mtv(pair.Q, cross(pair.wa, pair.va)) - cross(pair.B.w, va + rate)
        return Rows(
            _stacked([pair.linear(mv(pair.Q, n), pair.reach)]),
            dot(n, bias)[None],
            dot(n, pair.reach - pair.pb)[None],
        )


class Distance(FrameConstraint):
    """Holds the origins of a and b `length` metres apart (a massless rod): one row, along the line from b to a."""

    rows = 1
    direction = None
    length: Float[Array, ""]

    def __init__(self, body_a: str, body_b: str = "world", *, length: ArrayLike, **options):
        super().__init__(body_a, body_b, **options)
        call = f"`Distance({body_a!r}, {body_b!r})`"
        self.length = floats(call, "length", length, (), finite)
        if not isinstance(self.length, jax.core.Tracer) and not float(self.length) > 0:
            raise ValueError(
                f"{call}: `length` = {float(self.length):g} is not positive; "
                "use `jd.constraints.Point` to make origins coincide."
            )

    def pair_rows(self, pair):
        gap = mv(pair.Q, pair.reach - pair.pb)
        square = dot(gap, gap)
        far = jnp.sqrt(jnp.where(square > 0, square, 1.0))
        e = gap / far
        vb = pair.B.l + cross(pair.B.w, pair.pb)
        speed = pair.va - mv(pair.Q, vb)
        classical = cross(pair.wa, pair.va) - mv(pair.Q, cross(pair.B.w, vb))
        along = dot(e, speed)
        bias = dot(e, classical) + (dot(speed, speed) - along * along) / far
        return Rows(
            _stacked([pair.linear(e, pair.pb)]), bias[None], (jnp.where(square > 0, far, 0) - self.length)[None]
        )
