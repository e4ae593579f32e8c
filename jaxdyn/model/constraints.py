"""Base classes of constraints between bodies.

A constraint has one or more rows. Each is a linear function of the twists of some bodies,
``sum_i K_i V_i`` at velocity level and ``sum_i K_i A_i + gamma`` at acceleration level, where V_i and A_i are
body i's twist and its derivative, in its own axes. To add a constraint, write a class with `layout` and `evaluate`. See
`docs/extending.md`.
"""

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from ..spatial.instances import check_callable, check_instance, described
from ..spatial.numbers import ArrayLike, direction, finite, floats, not_negative
from ..tree.topology import WORLD, Topology
from .kind import JointParameters


class BodyView(NamedTuple):
    """The state of a body for `evaluate`: pose (R, p) in the world, or seen from the last common ancestor of the bodies
    if the layout is `relative`; twist (w, l) in body axes; all (..., k, lanes)."""

    R: Array
    p: Array
    w: Array
    l: Array


class JointView(NamedTuple):
    """The state of a joint for `evaluate`: coordinates q (nq, k, lanes), parameters, and pose (E, r) of its body in the
    parent; all (..., k, lanes)."""

    q: Array
    par: JointParameters
    E: Array
    r: Array


class RobotView(NamedTuple):
    """The rest of the robot for `evaluate`: `mass` (nb, lanes), `center_of_mass` (nb, 3, lanes), and ``joint(k)``, the
    joint that moves the body of the k-th attachment."""

    mass: Array
    center_of_mass: Array
    joint: Callable[[int], JointView]


class Rows(NamedTuple):
    """The r rows of a constraint: `K`, for each body of the layout, the (angular, linear) coefficients
    (r, 3, k, lanes) of its twist; `gamma` (r, k, lanes), the bias; `residual` (r, k, lanes), the position error."""

    K: list[tuple[Array, Array]]
    gamma: Array
    residual: Array


@dataclasses.dataclass(frozen=True)
class Layout:
    """The static part of a constraint. `bodies` are the moving bodies that it acts on, each once, without the world;
    `attachments` are (body, frame or None) pairs whose placements `evaluate` receives. `relative` is True if the
    rows do not change when all bodies move together: then the poses of views are seen from their common ancestor.
    `dragged` is True if this holds for their coefficients, but a common turn of all bodies moves rows that are open.
    `joints` is True if `evaluate` looks at the joints that move the bodies of the attachments. `velocities` lists, if
    each row is just the velocity of one degree of freedom of a joint, the indices of these velocities; otherwise it is
    empty."""

    signature: Any
    rows: int
    bodies: tuple[int, ...]
    attachments: tuple[tuple[int, int | None], ...] = ()
    relative: bool = False
    joints: bool = False
    velocities: tuple[int, ...] = ()
    dragged: bool = False

    def __post_init__(self):
        if not self.bodies:
            raise ValueError("`Layout`: `bodies` is empty: rows act on one moving body or more.")
        if any(b < 0 for b in self.bodies):
            raise ValueError(
                f"`Layout`: `bodies` {self.bodies} contains {WORLD}, the world: leave it out, and name it in "
                "`attachments` alone."
            )
        if len(set(self.bodies)) < len(self.bodies):
            raise ValueError(f"`Layout`: `bodies` {self.bodies} contains a body twice: give each once.")


def decay(stiffness: Array) -> Array:
    """Return the rate (1/s) at which errors decay if damped critically, the root of the stiffness; its derivative at
    zero, which is infinite, counts as zero."""
    some = stiffness > 0
    return jnp.where(some, jnp.sqrt(jnp.where(some, stiffness, 1)), 0)


class Baumgarte(eqx.Module):
    """Gains that pull a drifting constraint back: ``a* = target - stiffness * residual - damping * J v``.

    By default the error decays critically damped with a time constant of 12.5 ms. If only `stiffness` is given,
    `damping` is chosen for critical damping. **Fields:** `stiffness` (1/s²), `damping` (1/s).
    """

    stiffness: Float[Array, ""]
    damping: Float[Array, ""]

    def __init__(self, stiffness: ArrayLike = 6400.0, damping: ArrayLike | None = None):
        call = "`Baumgarte`"
        self.stiffness = floats(call, "stiffness", stiffness, (), finite, not_negative)
        if damping is None:
            self.damping = 2 * decay(self.stiffness)
        else:
            self.damping = floats(call, "damping", damping, (), finite, not_negative)


class Constraint(eqx.Module):
    """Base class of constraints.

    **Fields:** `name`, or None; `target` (rows,), the desired acceleration of the rows; `stabilization`, the gains.
    """

    name: eqx.AbstractVar[str | None]
    target: eqx.AbstractVar[Float[Array, " rows"]]
    stabilization: eqx.AbstractVar[Baumgarte]

    #: see `engine/lanes.py`
    parameters_of_lanes: ClassVar[bool] = True
    #: True if the rows' coefficients depend on the configuration even when written in joint velocities
    moving: ClassVar[bool] = True

    @abc.abstractmethod
    def layout(self, topology: Topology) -> Layout:
        """Return, before tracing, the bodies that the constraint acts on, its number of rows, and a signature:
        `evaluate` is traced once for all constraints of one signature. **Raises** `ValueError` for unknown names."""

    @abc.abstractmethod
    def evaluate(self, layout: Layout, attachments, views: Sequence[BodyView], robot: RobotView) -> Rows:
        """Return the rows. The leaves of `self` have shape (..., k, lanes) with k = 1, where a lane is one element of
        the batch; `attachments` are the placements of the constrained frames in their bodies, `views` the moving
        bodies, and `robot` is everything else. Arrays are component-first throughout."""


def check_names(call: str, constraints: Sequence[Constraint]) -> None:
    """Raise `ValueError` if two constraints have the same name."""
    seen: dict[str, int] = {}
    for k, c in enumerate(constraints):
        if c.name is not None and c.name in seen:
            raise ValueError(
                f"{call}: two constraints are named {c.name!r}, numbers {seen[c.name]} and {k}; "
                "give each a `name=` of its own, or none."
            )
        if c.name is not None:
            seen[c.name] = k


def check_function(call: str, fn: Any, rows: Any, *given: Any) -> None:
    """Raise `TypeError` or `ValueError` unless ``fn(*given)`` is a differentiable array (rows,)."""
    if not isinstance(rows, int | np.integer) or isinstance(rows, bool) or rows < 1:
        raise ValueError(f"{call}: `rows` is {rows!r:.60}, not a positive integer.")
    check_callable(call, "fn", fn, len(given))
    try:
        # JAX itself may crash on functions of C
        made, got = jax.make_jaxpr(lambda *args: fn(*args), return_shape=True)(*given)
    except jax.errors.TracerArrayConversionError:
        raise TypeError(f"{call}: `fn` calls NumPy, which has no derivatives: use `jax.numpy`.") from None
    if any(isinstance(x, jax.core.Tracer) for x in made.consts):
        raise TypeError(
            f"{call}: `fn` contains a number that is traced, by `grad`, `jit` or `vmap`. Let it read constants only; "
            "numbers to differentiate by are array fields of a constraint of your own (see the page on extending)."
        )
    if getattr(got, "shape", None) != (rows,):
        raise ValueError(f"{call}: `fn` returns {got}, not an array of shape ({rows},).")
    if not jnp.issubdtype(got.dtype, jnp.floating):
        raise ValueError(f"{call}: `fn` returns numbers of type {got.dtype}, which have no derivative.")


def checked_options(call: str, name, target, stabilization, rows: int):
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{call}: `name` is {described(name)}, not a string.")
    target = floats(call, "target", np.zeros(rows) if target is None else target, (rows,), finite)
    if stabilization is None:
        stabilization = Baumgarte(0.0, 0.0)
    elif isinstance(stabilization, str) and stabilization == "default":
        stabilization = Baumgarte()
    check_instance(call, "stabilization", stabilization, Baumgarte, " Use `jd.constraints.Baumgarte(...)` or None.")
    return name, target, stabilization


def checked_unit(call: str, what: str, value: ArrayLike) -> Array:
    """Return a vector (3,) divided by its length. Raise `ValueError` for another shape, and for zero."""
    return direction(call, what, value)
