"""`State` of a robot: configuration and velocity."""

import equinox as eqx
from jaxtyping import Array, Float

from ..spatial.numbers import ArrayLike, floats


class State(eqx.Module):
    """Configuration `q` (nq,) and velocity `v` (nv,), in the order of the model's joints.

    Both may be given as NumPy arrays or sequences of numbers. The page "Conventions" lists the coordinates of each
    joint. Whole numbers and None stay as they are: ``jax.vmap(f, in_axes=(jd.State(0, None),))`` maps over `q` alone.
    """

    q: Float[Array, " nq"]
    v: Float[Array, " nv"]

    def __init__(self, q: ArrayLike, v: ArrayLike):
        self.q = floats("`State`", "q", q) if _wants_array(q) else q
        self.v = floats("`State`", "v", v) if _wants_array(v) else v


def _wants_array(x) -> bool:
    """Return False for what stands for an array in trees: None, axes of `vmap`, specs, markers."""
    return hasattr(x, "__array__") or isinstance(x, (list, tuple, float))
