"""The constraints between bodies: what a user writes, and the rows behind each.

Every constraint is a few rows, each a linear function of the twists of some bodies:
``sum_i K_i V_i`` at velocity level and ``sum_i K_i A_i + gamma`` at acceleration level, where V_i and A_i are
body i's twist and its derivative, in its own axes. A class here has two methods:

- `layout(topology)` returns, before tracing, which bodies the constraint acts on, how many rows it has, and a
  signature: `evaluate` is traced once for all constraints of one signature. It raises `ValueError` for unknown names.
- `evaluate(layout, attachments, views, robot)` returns the rows. The instance it is called on has leaves
  (..., k, lanes) with k = 1; `attachments` are the placements of the constrained frames in their bodies, `views` the
  moving bodies as `BodyView`s, `robot` everything else (`RobotView`). Arrays are component-first throughout.

To add a constraint, write such a class. See `docs/extending.md`.
"""

import abc
import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float

from ..spatial.transform import as_floats
from ..tree.topology import Topology


class BodyView(NamedTuple):
    """A body as a constraint sees it: pose (R, p) in the world, twist (w, l) in body axes; all (..., k, lanes)."""

    R: Array
    p: Array
    w: Array
    l: Array


class JointView(NamedTuple):
    """A joint as a constraint sees it: coordinate q (k, lanes), axis (3, k, lanes), pose (E, r) in the parent."""

    q: Array
    axis: Array
    E: Array
    r: Array


class RobotView(NamedTuple):
    """The rest of the robot as a constraint sees it: `mass` (nb, lanes), `center_of_mass` (nb, 3, lanes), and
    ``joint(k)``, the joint that moves the body of the k-th attachment."""

    mass: Array
    center_of_mass: Array
    joint: Callable[[int], JointView]


class Rows(NamedTuple):
    """The r rows of a constraint: `K`, for each body of the layout, the (angular, linear) coefficients
    (r, 3, k, lanes) of its twist; `gamma` (r, k, lanes), their bias; `residual` (r, k, lanes), the position error."""

    K: list[tuple[Array, Array]]
    gamma: Array
    residual: Array


@dataclasses.dataclass(frozen=True)
class Layout:
    """The static part of a constraint. `bodies` are the moving bodies that it acts on, each once;
    `attachments` are (body, frame or None) pairs whose placements `evaluate` receives. `relative` is True if the
    rows do not change when all bodies move together."""

    signature: Any
    rows: int
    bodies: tuple[int, ...]
    attachments: tuple[tuple[int, int | None], ...] = ()
    relative: bool = False


class Baumgarte(eqx.Module):
    """Gains that pull a drifting constraint back: ``a* = target - stiffness * residual - damping * J v``.

    By default the return is critically damped with a time constant of 12.5 ms. If only `stiffness` is given,
    `damping` makes the return critically damped. **Fields:** `stiffness` (1/s²), `damping` (1/s).
    """

    stiffness: Float[Array, ""]
    damping: Float[Array, ""]

    def __init__(self, stiffness: ArrayLike = 6400.0, damping: ArrayLike | None = None):
        self.stiffness = as_floats(stiffness)
        self.damping = 2 * jnp.sqrt(self.stiffness) if damping is None else as_floats(damping)


class Constraint(eqx.Module):
    """Base class of constraints: a name, Baumgarte gains, and `target` (rows,), the acceleration of the rows."""

    name: eqx.AbstractVar[str | None]
    target: eqx.AbstractVar[Float[Array, " rows"]]
    stabilization: eqx.AbstractVar[Baumgarte]

    #: see `engine/lanes.py`
    parameters_of_lanes: ClassVar[bool] = True

    @abc.abstractmethod
    def layout(self, topology: Topology) -> Layout:
        """See the docstring of the module."""

    @abc.abstractmethod
    def evaluate(self, layout: Layout, attachments, views, robot) -> Rows:
        """See the docstring of the module."""


def checked_options(call: str, name, target, stabilization, rows: int):
    if name is not None and not isinstance(name, str):
        raise TypeError(f"{call}: `name` is {name!r}, not a string.")
    target = jnp.zeros(rows, jnp.result_type(float)) if target is None else as_floats(target)
    if target.shape != (rows,):
        raise ValueError(f"{call}: `target` has shape {target.shape}, not ({rows},).")
    if stabilization is None:
        stabilization = Baumgarte(0.0, 0.0)
    elif isinstance(stabilization, str) and stabilization == "default":
        stabilization = Baumgarte()
    if not isinstance(stabilization, Baumgarte):
        raise TypeError(
            f"{call}: `stabilization` is {stabilization!r}, neither `jd.constraints.Baumgarte(...)` nor None."
        )
    return name, target, stabilization


def checked_unit(call: str, what: str, value: ArrayLike) -> Array:
    value = as_floats(value)
    if value.shape != (3,):
        raise ValueError(f"{call}: `{what}` has shape {value.shape}, not (3,).")
    length = jnp.linalg.norm(value)
    if not isinstance(length, jax.core.Tracer) and not float(length) > 1e-12:
        raise ValueError(f"{call}: `{what}` is zero or not finite: {value}.")
    return value / length
