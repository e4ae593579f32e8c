"""`detect`: where the shapes of a model may touch, without a step."""

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from ..engine.lanes import laned
from ..kinematics.embedding import kinematics
from ..model.checks import check_model, check_vector, common_dtype
from ..model.joints import plane_axes
from ..model.model import Model
from ..spatial.numbers import ArrayLike, floats
from ..spatial.transform import Transform, pose
from .places import names_of, touches_of


class Detection(eqx.Module):
    """Places where two shapes may touch.

    **Fields:** `gaps` (places,), m, negative where shapes overlap; `poses`, a stacked `Transform`: the points in the
    world (places, 3), and rotations (places, 3, 3) whose columns are the normal, from the second shape to the first,
    and two tangents; `pairs`, the names of the two shapes of every place of the model."""

    gaps: Float[Array, " places"]
    poses: Transform
    pairs: tuple[tuple[str, str], ...] = eqx.field(static=True)


def detect(model: Model, q: ArrayLike, *, which: ArrayLike | None = None) -> Detection:
    """Return gaps, points and normals where shapes of the model may touch at q (nq,), as a `Detection`.

    `which` (slots,) selects and orders the places, by index into `pairs`; None: all of them. With the `which` of
    `Contacts`, at the q of the start of its step, ``poses.rotation @ impulses[..., None]`` are the impulses on the
    first shapes in the world's axes.

    **Raises** `TypeError` and `ValueError` for wrong types and shapes, and for a `which` that is no place.
    """
    name = "detect"
    check_model(name, model)
    q = check_vector(name, "q", q, (model.nq,))
    pairs = names_of(model)
    if which is not None:
        which = _checked(name, which, len(pairs))
    gaps, rotations, points = laned(_detected)(*common_dtype(model, q))
    if which is not None:
        gaps, rotations, points = (x[which] for x in (gaps, rotations, points))
    return Detection(gaps, pose(rotations, points), pairs)


def _detected(model: Model, q: Array):
    """Return gaps (places, lanes), rotations (places, 3, 3, lanes) and points (places, 3, lanes)."""
    touch = touches_of(model, kinematics(model, q))
    axes = [jnp.stack([n, *plane_axes(n)], 1) for n in touch.normal]
    rotations = jnp.stack(axes) if axes else jnp.zeros((0, 3, 3, q.shape[-1]), q.dtype)
    return touch.gap, rotations, touch.point


def _checked(call: str, which: ArrayLike, places: int) -> Array:
    known = f"has places other than 0 to {places - 1}" if places else "is not empty, but no shapes can touch"
    outside = lambda x: known if ((x < 0) | (x >= places)).any() else None  # noqa: E731
    floats(f"`{call}`", "which", which, None, outside)  # numbers that an index may be
    which = jnp.asarray(which)
    if not jnp.issubdtype(which.dtype, jnp.integer) and which.size:
        raise TypeError(f"`{call}`: `which` has dtype {which.dtype}, not that of integers.")
    if which.ndim != 1:
        raise ValueError(f"`{call}`: `which` has shape {which.shape}, not (slots,).")
    return which.astype(int)
