"""`State` of a robot: configuration and velocity."""

import equinox as eqx
from jaxtyping import Array, ArrayLike, Float

from ..spatial.transform import as_floats


class State(eqx.Module):
    """Configuration `q` (nq,) and velocity `v` (nv,), in the order of the model's joints.

    Both may be NumPy arrays or sequences of numbers. The page "Conventions" shows the coordinates of each joint.
    """

    q: Float[Array, " nq"]
    v: Float[Array, " nv"]

    def __init__(self, q: ArrayLike, v: ArrayLike):
        self.q = q if not _wants_array(q) else as_floats(q)
        self.v = v if not _wants_array(v) else as_floats(v)


def _wants_array(x) -> bool:
    """Return False for the placeholders (None, specs, markers) that tree transformations put into modules."""
    return hasattr(x, "__array__") or isinstance(x, (list, tuple, int, float))
