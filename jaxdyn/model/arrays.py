"""Conversion of the bodies that a `ModelSpec` describes to the arrays of a `Model`."""

from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from ..spatial.numbers import check, in_range
from ..spatial.transform import Transform
from .described import Body
from .joints import Joint
from .model import Bodies, Joints


def floats_of(x) -> jax.Array:
    """Return numbers as an array of the default precision."""
    dtype = jnp.result_type(float)
    return jnp.asarray(np.asarray(x, dtype), dtype)  # without a dtype JAX compiles a copy for each shape


def transforms(pairs: Iterable[tuple[np.ndarray, np.ndarray]]) -> Transform:
    """Return rotations and translations as one stacked `Transform`."""
    pairs = list(pairs)
    r = np.array([r for r, _ in pairs]).reshape(-1, 3, 3)
    return Transform(floats_of(r), floats_of(np.array([p for _, p in pairs]).reshape(-1, 3)))


def check_sizes(call: str, what: str, names: Sequence[str], values: Sequence) -> None:
    """Raise `ValueError` if merging bodies led to a number beyond the range of float32. The error names the body or
    frame."""
    rows = np.array(values, float)
    if in_range(rows) is not None:
        for name, row in zip(names, rows, strict=True):
            check(call, f"{what} {name[:60]!r}", row, in_range)


def bodies_of(call: str, rows: Sequence[Body]) -> Bodies:
    """Return the mass properties and joint placements of moving bodies."""
    names = [b.name for b in rows]
    check_sizes(call, "placement of body", names, [b.translation for b in rows])
    check_sizes(call, "mass of body", names, [b.mass for b in rows])
    check_sizes(call, "centre of mass of body", names, [b.center for b in rows])
    check_sizes(call, "rotational inertia of body", names, [b.rotational for b in rows])
    return Bodies(
        mass=floats_of([b.mass for b in rows]),
        center_of_mass=floats_of(np.array([b.center for b in rows]).reshape(-1, 3)),
        rotational=floats_of(np.array([b.rotational for b in rows]).reshape(-1, 3, 3)),
        placement=transforms((b.rotation, b.translation) for b in rows),
    )


def joints_of(call: str, joints: Sequence[Joint]) -> Joints:
    """Return the parameters of joints. Raise `ValueError` if two joints have a parameter of the same name with
    different shapes."""

    def rows(what, shape=(3,)):
        return floats_of(np.array([getattr(j, what) for j in joints], float).reshape(-1, *shape))

    def flat(values):
        return floats_of(np.concatenate([np.zeros(0), *(np.asarray(x, float) for x in values)]))

    own: dict[str, np.ndarray] = {}
    for k, joint in enumerate(joints):
        for name, value in joint.own.items():
            column = own.setdefault(name, np.zeros((len(joints), *np.shape(value))))
            if column.shape[1:] != np.shape(value):
                raise ValueError(
                    f"{call}: joint {joint.name!r}: `{name}` has shape {np.shape(value)}, and {column.shape[1:]} in "
                    "another joint; give it another name or one shape."
                )
            column[k] = value
    per_velocity = ("armature", "damping", "stiffness", "rest", "effort", "friction")
    lower, upper = (flat([j.limits[k] for j in joints]) for k in range(2))  # type: ignore
    return Joints(
        axis=rows("axis"),
        axis2=rows("axis2"),
        pitch=rows("pitch", ()),
        lower=lower,
        upper=upper,
        own={name: floats_of(column) for name, column in own.items()},
        **{w: flat([getattr(j, w) for j in joints]) for w in per_velocity},
    )
